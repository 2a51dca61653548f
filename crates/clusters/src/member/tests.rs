use serde_json::{Value, json};

use super::*;

fn member(spec: &Value) -> Member {
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": { "name": "member1", "uid": "u1", "labels": { "tier": "gold" } },
        "spec": spec,
    }))
    .unwrap();
    Member::try_from(&cluster).unwrap()
}

#[test]
fn the_single_zone_counts_only_without_zones() {
    assert_eq!(member(&json!({ "zone": "a" })).zones, ["a"]);
    assert_eq!(member(&json!({ "zone": "a", "zones": [] })).zones, ["a"]);
    assert_eq!(
        member(&json!({ "zone": "a", "zones": ["b", "c"] })).zones,
        ["b", "c"]
    );
    assert_eq!(member(&json!({ "zone": "" })).zones, Vec::<String>::new());
}

#[test]
fn a_change_of_labels_or_zones_needs_no_new_connection() {
    let before = member(&json!({ "apiEndpoint": "https://a" }));
    let mut after = member(&json!({ "apiEndpoint": "https://a", "region": "eu", "zones": ["x"] }));
    after.labels.clear();
    assert_ne!(before, after);
    assert!(before.connects_like(&after));
}

#[test]
fn a_change_of_endpoint_secret_proxy_or_object_needs_a_new_connection() {
    let base = json!({ "apiEndpoint": "https://a" });
    let before = member(&base);
    for (field, value) in [
        ("apiEndpoint", json!("https://b")),
        ("secretRef", json!({ "namespace": "n", "name": "s" })),
        ("insecureSkipTLSVerification", json!(true)),
        ("proxyURL", json!("http://proxy")),
        ("proxyHeader", json!({ "a": "b" })),
    ] {
        let mut changed = base.clone();
        changed[field] = value;
        assert!(!before.connects_like(&member(&changed)), "{field}");
    }
    assert!(!before.connects_like(&Member {
        uid: "u2".into(),
        ..before.clone()
    }));
}

#[test]
fn an_unreachable_member_in_pull_mode_is_awaited() {
    let way = json!({ "apiEndpoint": "https://a", "secretRef": { "namespace": "n", "name": "s" } });
    let with = |changes: &[(&str, Value)]| {
        let mut spec = way.clone();
        for (field, value) in changes {
            spec[*field] = value.clone();
        }
        member(&spec).access
    };
    let pull = ("syncMode", json!("Pull"));
    for lacking in [("apiEndpoint", json!("")), ("secretRef", Value::Null)] {
        let MemberAccess::Awaited { reason, message } = with(&[pull.clone(), lacking.clone()])
        else {
            panic!("{lacking:?}")
        };
        assert_eq!(reason, "PullModeWithoutProxy");
        assert!(message.contains("spec.proxyURL"), "{message}");
        assert!(
            matches!(
                with(std::slice::from_ref(&lacking)),
                MemberAccess::Endpoint(_)
            ),
            "only in Pull mode"
        );
        let proxied = with(&[pull.clone(), lacking, ("proxyURL", json!("http://proxy"))]);
        assert!(matches!(proxied, MemberAccess::Endpoint(_)));
    }
    assert!(matches!(with(&[pull]), MemberAccess::Endpoint(endpoint) if endpoint.is_pulled));
}

#[test]
fn debug_output_hides_passwords_for_the_proxy() {
    let shown = format!(
        "{:?}",
        member(
            &json!({ "proxyURL": "http://user:hunter2@p", "proxyHeader": { "Proxy-Authorization": "hunter2" } })
        )
    );
    assert!(
        shown.contains("Proxy-Authorization") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn a_cluster_without_a_name_is_refused() {
    let cluster: Cluster = serde_json::from_value(json!({ "metadata": {}, "spec": {} })).unwrap();
    assert!(Member::try_from(&cluster).is_err());
}
