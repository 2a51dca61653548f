use serde_json::json;

use super::*;

fn document(content: Value) -> SourceDocument {
    SourceDocument {
        source: "file.yaml".to_owned(),
        content,
    }
}

fn reader(files: Vec<Value>) -> InputReader {
    let mut reader = InputReader::new(BTreeSet::new(), "shop");
    let documents = files.into_iter().map(document).collect();
    reader.add_files(documents).unwrap();
    reader
}

#[test]
fn an_object_of_a_file_keeps_what_the_server_and_policies_have_given_it() {
    let gvk = Gvk::new("apps", "v1", "Deployment");
    let deployment = |metadata: Value, replicas: i64| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": replicas},
        })
    };
    let mut reader = reader(vec![deployment(json!({"name": "web"}), 3)]);
    let claim = json!({
        "propagationpolicy.karmada.io/name": "all",
        "propagationpolicy.karmada.io/namespace": "shop",
        "other": "x",
    });
    let served = |name: &str| {
        let metadata = json!({
            "name": name, "namespace": "shop", "uid": "u", "annotations": claim.clone(),
            "labels": {"a": "b"},
        });
        deployment(metadata, 1)
    };
    reader.add_served(&gvk, served("web")).unwrap();
    reader.add_served(&gvk, served("other")).unwrap();
    let templates = &reader.inputs.plan.templates;
    let kept = json!({
        "name": "web", "namespace": "shop", "uid": "u",
        "annotations": {
            "propagationpolicy.karmada.io/name": "all",
            "propagationpolicy.karmada.io/namespace": "shop",
        },
    });
    assert_eq!(templates.len(), 2);
    assert_eq!(*templates[0].object, deployment(kept, 3));
    assert_eq!(*templates[1].object, served("other"));
}

#[test]
fn a_cluster_of_a_file_keeps_what_it_serves() {
    let gvk = Gvk::new("cluster.karmada.io", "v1alpha1", "Cluster");
    let cluster = |labels: Value, status: Value| {
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "member1", "labels": labels}, "spec": {}, "status": status,
        })
    };
    let mut reader = reader(vec![cluster(json!({"a": "new"}), json!({}))]);
    let status = json!({
        "apiEnablements": [{
            "groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}],
        }],
        "resourceSummary": {"allocatable": {"pods": "3"}},
    });
    reader.add_served(&gvk, cluster(json!({}), status)).unwrap();
    let [known] = &reader.inputs.plan.clusters[..] else {
        panic!("{:?}", reader.inputs.plan.clusters);
    };
    assert_eq!(known.labels["a"], "new");
    let kind = ("apps/v1".to_owned(), "Deployment".to_owned());
    assert_eq!(known.serves(&kind), Some(true));
    assert!(reader.inputs.plan.room.contains_key("member1"));
}

#[test]
fn an_object_of_the_control_plane_that_makes_no_sense_has_no_effect() {
    let gvk = Gvk::new("policy.karmada.io", "v1alpha1", "PropagationPolicy");
    let mut reader = reader(Vec::new());
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "shop"}, "spec": {},
    });
    let error = reader.add_served(&gvk, policy).unwrap_err().to_string();
    let expected = "the control plane: PropagationPolicy shop/p: spec.resourceSelectors: ";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(reader.inputs.plan.policies, []);
}

#[test]
fn a_namespace_says_which_clusters_its_policies_may_reach() {
    let namespace = |name: &str, clusters: &str| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "annotations": {"distribute.fleetdex.io/clusters": clusters}},
        })
    };
    let reader = reader(vec![namespace("a", ""), namespace("b", "member1, member2")]);
    let of = |namespace: &str, clusters: &[&str]| {
        let clusters = clusters.iter().map(|cluster| (*cluster).to_owned());
        (namespace.to_owned(), clusters.collect::<BTreeSet<String>>())
    };
    // No cluster has an empty name: an empty annotation allows none.
    let expected = BTreeMap::from([of("a", &[""]), of("b", &["member1", "member2"])]);
    assert_eq!(reader.inputs.plan.allowed_clusters, expected);
}
