//! Requirements of pods and arithmetic on quantities.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    native::{
        quantity::{sum, to_number},
        requirements::{of_pod_template, requests_of_pod_spec},
    },
    test_rows::typed,
};

#[expect(clippy::needless_pass_by_value, reason = "tables write it in place")]
fn requirements(spec: Value) -> Value {
    let requirements = of_pod_template(&(&json!({ "spec": spec })).into()).unwrap();
    serde_json::to_value(requirements).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tables write it in place")]
fn container(requests: Value, limits: Value) -> Value {
    json!({"resources": {"requests": requests, "limits": limits}})
}

#[test]
fn a_pod_without_demands_requires_nothing() {
    for spec in [
        json!({}),
        json!(null),
        json!({"nodeSelector": {}, "tolerations": [], "containers": [{}]}),
        json!({"containers": [container(json!({"cpu": "0"}), json!({}))]}),
        json!({"priorityClassName": "high"}),
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}),
        json!({"containers": "none", "tolerations": {}, "nodeSelector": []}),
    ] {
        assert_eq!(requirements(spec.clone()), Value::Null, "{spec}");
    }
}

#[test]
fn the_node_claim_has_selector_tolerations_and_required_affinity() {
    let terms = json!({"nodeSelectorTerms": [{"matchFields": []}]});
    let tolerations = json!([{"key": "gpu", "operator": "Exists"}]);
    let spec = json!({
        "nodeSelector": {"disk": "ssd"},
        "tolerations": tolerations,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    });
    let claim = json!({
        "hardNodeAffinity": terms,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": tolerations,
    });
    assert_eq!(requirements(spec), json!({ "nodeClaim": claim }));
}

#[test]
fn requests_of_containers_add_up_and_init_containers_count_alone() {
    let cases = r#"
        {"cpu": "1500m", "memory": "1536Mi"} | {"containers": [{"resources": {"requests": {"cpu":
            "500m", "memory": "512Mi"}, "limits": {}}}, {"resources": {"requests": {"cpu": "1",
            "memory": "1Gi"}, "limits": {}}}]}
        {"cpu": "3250m", "memory": "1048Mi"} | {"containers": [{"resources": {"requests": {"cpu":
            "1", "memory": "1Gi"}, "limits": {}}}], "initContainers": [{"resources": {"requests":
            {"cpu": "2"}, "limits": {}}}, {"resources": {"requests": {"cpu": "3",
            "memory": "1Mi"}, "limits": {}}}], "overhead": {"cpu": "250m", "memory": "24Mi"}}
        {"cpu": "100m", "memory": "1000000000"} | {"containers": [{"resources": {"requests": {"cpu":
            "100m"}, "limits": {"cpu": "2", "memory": "1G"}}}]}
        {"cpu": "2"} | {"initContainers": [{"resources": {"requests": null,
            "limits": {"cpu": "2"}}}]}
        {"cpu": "1", "memory": "1Ki"} | {"containers": [{"resources": {"requests": {"cpu": 1,
            "memory": 1024}, "limits": {}}}]}
        {"cpu": "500m", "memory": "1"} | {"containers": [{"resources": {"requests": {"cpu": 0.5,
            "memory": "0.5"}, "limits": {}}}]}
        {"cpu": "1m"} | {"containers": [{"resources": {"requests": {"cpu": "100u"}, "limits": {}}}]}
        {"memory": "1Gi"} | {"containers": [{"resources": {"requests": {"cpu": [],
            "memory": "1Gi"}, "limits": {}}}]}
    "#;
    for (expected, spec) in typed::<(Value, Value)>(cases) {
        assert_eq!(
            requirements(spec.clone()),
            json!({"resourceRequest": expected}),
            "{spec}"
        );
    }
}

#[test]
fn only_resources_of_nodes_count() {
    let counted = json!({
        "pods": "10",
        "ephemeral-storage": "2Gi",
        "nvidia.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-aws-ebs": "3",
        "kubernetes.io/batch-cpu": "2k",
    });
    let mut requests = counted.clone();
    for name in [
        "storage",
        "requests.cpu",
        "requests.nvidia.com/gpu",
        "gpu",
        "nvidia.com/",
        "/gpu",
        "UPPER CASE/gpu",
        "a/b/c",
    ] {
        requests[name] = "7".into();
    }
    let spec = json!({"containers": [container(requests, json!({}))]});
    assert_eq!(requirements(spec), json!({ "resourceRequest": counted }));
}

#[test]
fn totals_are_in_cores_and_bytes() {
    let cases = r#"
        0.0 | 0 | {}
        1.5 | 1073741824 | {"containers": [{"resources": {"requests": {"cpu": "1500m",
            "memory": "1Gi"}, "limits": {}}}]}
        2.0 | 2048 | {"containers": [{"resources": {"requests": {"cpu": "junk",
            "memory": "1Ki"}, "limits": {}}}, {"resources": {"requests": {"cpu": "2"},
            "limits": {"memory": "1Ki"}}}]}
        0.0 | 0 | {"containers": [{"resources": {"requests": {"cpu": "-1",
            "memory": "-1"}, "limits": {}}}]}
        0.0 | 9223372036854775807 | {"containers": [{"resources": {"requests": {"memory": "8Ei"},
            "limits": {}}}, {"resources": {"requests": {"memory": "8Ei"}, "limits": {}}}]}
    "#;
    for (cores, bytes, spec) in typed::<(f64, i64, Value)>(cases) {
        let found = requests_of_pod_spec(&(&spec).into());
        assert_eq!(
            (found.0.to_bits(), found.1),
            (cores.to_bits(), bytes),
            "{spec}"
        );
    }
}

#[test]
fn sums_are_written_as_kubernetes_writes_them() {
    for (quantities, expected) in [
        (vec![], "0"),
        (vec!["0", "0Mi", "-0"], "0"),
        (vec!["100m", "1"], "1100m"),
        (vec!["500m", "500m"], "1"),
        (vec!["1Gi", "512Mi"], "1536Mi"),
        (vec!["1e3", "1"], "1001"),
        (vec!["1e3", "1e3"], "2e3"),
        (vec!["1E3"], "1e3"),
        (vec!["12e6", "12Mi"], "24582912"),
        (vec!["10e3"], "10e3"),
        (vec!["1e-3"], "1e-3"),
        (vec!["1e4"], "10e3"),
        (vec!["1", "1Gi"], "1073741825"),
        (vec!["1Gi", "1"], "1073741825"),
        (vec!["0", "1Gi"], "1Gi"),
        (vec!["0Ki", "1k"], "1k"),
        (vec!["1k", "-1k", "1Ki"], "1Ki"),
        (vec!["1Ki", "1k"], "2024"),
        (vec!["1.5Gi"], "1536Mi"),
        (vec!["1024"], "1024"),
        (vec!["1000"], "1k"),
        (vec!["1500"], "1500"),
        (vec!["1000000"], "1M"),
        (vec!["0.5Ki"], "512"),
        (vec!["0.1Ki"], "102400m"),
        (vec!["1.0001Ki"], "1024102400u"),
        (vec!["0.0001Ki", "2Ki"], "2048102400u"),
        (vec!["0.0001Ki", "2047.8976"], "2048"),
        (vec!["1023Ki", "1Ki"], "1Mi"),
        (vec!["-1Ki"], "-1Ki"),
        (vec!["-1Ki", "1"], "-1023"),
        (vec!["0.1n"], "1n"),
        (vec!["-0.1n"], "-1n"),
        (vec!["1.0000000001"], "1000000001n"),
        (vec!["0.00000000000000000000000000000000000000001"], "1n"),
        (vec!["100000000Ei"], "9223372036854775807"),
        (vec!["9223372036854775807", "1"], "9223372036854775808"),
        (vec!["1000E"], "1000E"),
        (vec!["+1."], "1"),
        (vec![".5"], "500m"),
        (vec!["007"], "7"),
        (vec!["0e999"], "0"),
    ] {
        assert_eq!(sum(&quantities), Ok(expected.to_owned()), "{quantities:?}");
    }
}

#[test]
fn other_texts_are_no_quantities() {
    for text in [
        "",
        " 1",
        "1 ",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        "1e",
        "1K",
        "1gi",
        "1e1.5",
        "--1",
        "1_0",
        "0x1",
        "½",
        "1e99999999999",
        "1e60",
        "0.1234567890123456789Ei",
    ] {
        let error = sum(&["1", text]).unwrap_err();
        assert!(error.contains(&format!("{text:?}")), "{text:?}: {error}");
    }
    let long = "9".repeat(1_000_000);
    assert!(sum(&[&long]).unwrap_err().len() < 200);
    assert!(sum(&["1e29", "1e29"]).is_err());
}

#[test]
fn a_quantity_is_a_number_unless_it_is_negative() {
    for (text, expected) in [
        ("0", 0.0),
        ("100m", 0.1),
        ("1.5", 1.5),
        ("2Ki", 2048.0),
        ("1e3", 1000.0),
        ("7Ei", 8_070_450_532_247_928_832.0),
    ] {
        let number: f64 = to_number(text).unwrap();
        assert_eq!(number.to_bits(), f64::to_bits(expected), "{text}");
    }
    assert!(to_number("-1").is_err());
    assert!(to_number("one").is_err());
}

proptest! {
    #[test]
    fn the_canonical_form_of_any_text_is_a_quantity_with_one_canonical_form(text in "[-+]?[0-9.]{0,30}([eE][-+]?[0-9]{0,3}|[numkMGTPE]?|[KMGTPE]i)") {
        if let Ok(canonical) = sum(&[&text]) {
            // A multiple of 1000 with a binary suffix becomes a decimal number without one first.
            let again = sum(&[&canonical]).unwrap();
            prop_assert_eq!(sum(&[&again]), Ok(again));
        }
    }

    #[test]
    fn a_sum_is_the_sum_of_the_numbers(a in 0_i64..1 << 40, b in 0_i64..1 << 40, left in 0_usize..7, right in 0_usize..7) {
        let suffixes = [("", 1.0), ("m", 0.001), ("k", 1e3), ("e3", 1e3), ("Ki", 1024.0), ("Mi", 1_048_576.0), ("u", 1e-6)];
        let (a, b) = (a.min(1 << 30), b.min(1 << 30));
        let total = sum(&[&format!("{a}{}", suffixes[left].0), &format!("{b}{}", suffixes[right].0)]).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "below 2^30")]
        let expected = a as f64 * suffixes[left].1 + b as f64 * suffixes[right].1;
        let found = to_number(&total).unwrap();
        prop_assert!((found - expected).abs() <= expected * 1e-12 + 1e-9, "{} {} {}", total, found, expected);
    }
}
