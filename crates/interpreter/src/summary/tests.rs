use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::test_rows::typed;

fn object(yaml: &str) -> Value {
    let object = serde_saphyr::from_str(yaml).unwrap();
    crate::reads::assert_sufficient(&object);
    object
}

fn replicas(yaml: &str) -> (Option<i64>, Option<i64>) {
    let summary = summarize(&(&object(yaml)).into(), KnownStatus::Unknown);
    (summary.desired_replicas, summary.ready_replicas)
}

#[test]
fn each_kind_counts_its_replicas_in_its_way() {
    let cases = r"
        {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}, status: {readyReplicas: 2}} | 3
            | 2
        {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}, status: {observedGeneration:
            1}} | 3 | 0
        {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}} | 3 | null
        {apiVersion: apps/v1, kind: Deployment, spec: {}, status: {}} | 1 | 0
        {apiVersion: apps/v1, kind: Deployment, spec: {replicas: '3'}, status: {readyReplicas: two}}
            | 1 | 0
        {apiVersion: apps/v1, kind: Deployment, spec: 3, status: x} | 1 | null
        {apiVersion: apps/v1, kind: Deployment, spec: {replicas: -3}, status: {readyReplicas: -2}}
            | 0 | 0
        {apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0}, status: {replicas: 0}} | 0 | 0
        {apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 2}, status: {readyReplicas: 2}} | 2
            | 2
        {apiVersion: v1, kind: ReplicationController, spec: {replicas: 2},
            status: {readyReplicas: 1}} | 2 | 1
        {apiVersion: apps/v1, kind: DaemonSet, spec: {}, status: {desiredNumberScheduled: 5,
            numberReady: 4}} | 5 | 4
        {apiVersion: apps/v1, kind: DaemonSet, spec: {}} | null | null
        {apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {}, status: {currentHealthy: 1}}
            | null | null
        {apiVersion: batch/v1, kind: CronJob, spec: {}, status: {}} | null | null
    ";
    for (yaml, desired, ready) in typed::<(&str, Option<i64>, Option<i64>)>(cases) {
        assert_eq!(replicas(yaml), (desired, ready), "{yaml}");
    }
}

#[test]
fn jobs_and_pods_count_what_runs_at_a_time() {
    let cases = r"
        {apiVersion: batch/v1, kind: Job, spec: {parallelism: 4, completions: 2},
            status: {ready: 1}} | 2 | 1
        {apiVersion: batch/v1, kind: Job, spec: {parallelism: 4}, status: {}} | 4 | 0
        {apiVersion: batch/v1, kind: Job, spec: {}} | 1 | null
        {apiVersion: v1, kind: Pod, status: {conditions: [{type: Ready, status: 'True'}]}} | 1 | 1
        {apiVersion: v1, kind: Pod, status: {conditions: [{type: Ready, status: 'False'}]}} | 1 | 0
        {apiVersion: v1, kind: Pod, status: {phase: Pending}} | 1 | 0
        {apiVersion: v1, kind: Pod} | 1 | null
    ";
    for (yaml, desired, ready) in typed::<(&str, Option<i64>, Option<i64>)>(cases) {
        assert_eq!(replicas(yaml), (desired, ready), "{yaml}");
    }
}

#[test]
fn custom_kinds_count_replicas_by_the_usual_names() {
    let cases = r"
        {apiVersion: example.io/v1, kind: A, spec: {replicas: 2}, status: {readyReplicas: 1,
            availableReplicas: 2}} | 2 | 1
        {apiVersion: example.io/v1, kind: A, spec: {replicas: 2}, status: {availableReplicas: 2}}
            | 2 | 2
        {apiVersion: example.io/v1, kind: A, spec: {}, status: {numberReady: 2}} | null | 2
        {apiVersion: example.io/v1, kind: A, spec: {replicas: 2}, status: {}} | 2 | 0
        {apiVersion: example.io/v1, kind: A, spec: {replicas: 2}, status: {updatedReplicas: 2}} | 2
            | 0
        {apiVersion: example.io/v1, kind: A, spec: {replicas: 2}, status: {conditions: []}} | 2
            | null
        {apiVersion: example.io/v1, kind: A, spec: {replicas: 2}} | 2 | null
        {apiVersion: example.io/v1, kind: A, spec: {}, status: {}} | null | null
    ";
    for (yaml, desired, ready) in typed::<(&str, Option<i64>, Option<i64>)>(cases) {
        assert_eq!(replicas(yaml), (desired, ready), "{yaml}");
    }
}

fn resources_of(spec: &str, replicas: i64) -> Option<(f64, i64)> {
    let yaml = format!(
        "{{apiVersion: apps/v1, kind: Deployment, spec: {{replicas: {replicas}, template: {{spec: {spec}}}}}}}"
    );
    let summary = summarize(&(&object(&yaml)).into(), KnownStatus::Unknown);
    assert_eq!(summary.cpu.is_some(), summary.memory.is_some());
    summary.cpu.zip(summary.memory)
}

#[test]
fn resources_are_the_requests_of_all_replicas() {
    let cases = r"
        2 | 2.5 | 2147483648 | {containers: [{resources: {requests: {cpu: 250m,
            memory: 1Gi}}}, {resources: {requests: {cpu: 1}}}]}
        3 | 6.0 | 3145728 | {containers: [{resources: {limits: {cpu: '2', memory: 1Mi}}}]}
        1 | 0.5 | 0 | {containers: [{resources: {limits: {cpu: 2}, requests: {cpu: 500m}}}]}
        1 | 2.0 | 4194304 | {containers: [{resources: {requests: {cpu: 500m,
            memory: 4Mi}}}], initContainers: [{resources: {requests: {cpu: 2, memory: 1Mi}}}]}
        2 | 2.5 | 2097152 | {containers: [{resources: {requests: {cpu: 1}}}],
            overhead: {cpu: 250m, memory: 1Mi}}
        2 | 0.0 | 0 | {containers: [{resources: {requests: {cpu: lots, memory: -1}}}, {}, 3]}
        2 | 0.0 | 0 | {}
        0 | 0.0 | 0 | {containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}]}
    ";
    for (replicas, cores, bytes, spec) in typed::<(i64, f64, i64, &str)>(cases) {
        assert_eq!(resources_of(spec, replicas), Some((cores, bytes)), "{spec}");
    }
    let (cores, bytes) = resources_of(
        "{containers: [{resources: {requests: {cpu: 8E, memory: 7E}}}]}",
        i64::MAX,
    )
    .unwrap();
    assert!(cores.is_finite());
    assert_eq!(bytes, i64::MAX);
}

#[test]
fn an_object_without_one_template_or_without_replicas_has_no_resources() {
    for yaml in [
        "{apiVersion: v1, kind: Service, spec: {}}",
        "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{image: a}]}}}}}}",
        "{apiVersion: example.io/v1, kind: A, spec: {replicas: 1}}",
        "{apiVersion: example.io/v1, kind: A, spec: {replicas: 1, a: {spec: {containers: [{image: a}]}}, b: {spec: {containers: [{image: a}]}}}}",
    ] {
        assert_eq!(
            summarize(&(&object(yaml)).into(), KnownStatus::Unknown).cpu,
            None,
            "{yaml}"
        );
    }
}

#[test]
fn images_are_kept_once_in_their_order() {
    let yaml = "{apiVersion: v1, kind: Pod, spec: {containers: [{image: b}, {image: a}, {image: b}], initContainers: [{image: c}]}}";
    assert_eq!(
        summarize(&(&object(yaml)).into(), KnownStatus::Unknown).images,
        ["c", "b", "a"]
    );
}

#[test]
fn images_are_bounded_in_number_and_bytes() {
    let pod = |images: Vec<String>| {
        let containers: Vec<Value> = images
            .into_iter()
            .map(|image| json!({ "image": image }))
            .collect();
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}})
    };
    let many = pod((0..1000).map(|number| format!("image-{number}")).collect());
    assert_eq!(
        summarize(&(&many).into(), KnownStatus::Unknown)
            .images
            .len(),
        MAX_IMAGES
    );
    let long = pod((0..100)
        .map(|number| format!("{number}{}", "ä".repeat(1000)))
        .collect());
    let kept = summarize(&(&long).into(), KnownStatus::Unknown).images;
    assert!(kept.iter().all(|image| image.len() <= MAX_IMAGE_BYTES));
    assert!(kept.iter().map(String::len).sum::<usize>() <= MAX_IMAGE_LIST_BYTES);
    assert!(kept.len() > 30);
}

#[test]
fn dependencies_are_the_terms_of_the_references() {
    let yaml = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: web, name: a}, spec: {ingressClassName: nginx, tls: [{secretName: tls}]}}";
    assert_eq!(
        summarize(&(&object(yaml)).into(), KnownStatus::Unknown).dependencies,
        [
            "v1/Secret/web/tls",
            "networking.k8s.io/v1/IngressClass//nginx"
        ]
    );
}

/// JSON with the names that rules look for, in odd places.
fn odd_json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "spec",
        "template",
        "containers",
        "image",
        "volumes",
        "name",
        "replicas",
        "status",
        "conditions",
        "resources",
        "requests",
        "cpu",
        "secretRef",
        "secretName",
        "rules",
        "backendRefs",
        "tls",
        "subjects",
        "matchLabels",
        "selector",
        "namespace",
        "claimRef",
        "endpoints",
        "targetRef",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

const KINDS: &[(&str, &str)] = &[
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "PersistentVolume"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("example.io/v1", "Workload"),
];

proptest! {
    #[test]
    fn no_object_makes_a_summary_panic(
        kind in prop::sample::select(KINDS),
        spec in odd_json(),
        status in odd_json(),
        metadata in odd_json(),
    ) {
        let object = json!({
            "apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec, "status": status,
        });
        let summary = summarize(&(&object).into(), KnownStatus::Unknown);
        prop_assert!(summary.cpu.is_none_or(f64::is_finite));
        relations::selector_edge(&(&object).into());
        summarize(&(&spec).into(), KnownStatus::Written);
    }
}
