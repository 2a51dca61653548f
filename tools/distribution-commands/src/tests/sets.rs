//! Plans of sets.

use super::{
    control_plane::{CLUSTER, CONFIG_MAP, KINDS, cluster, live_planned, object},
    fake_api::{FakeApi, ServedKind},
    *,
};

const DISTRIBUTIONS: ServedKind = (
    "distribute.fleetdex.io",
    "v1alpha1",
    "Distribution",
    "distributions",
    true,
);

/// A set of a Deployment and a `ConfigMap`, divided over two members.
const SET: &str = r"
apiVersion: distribute.fleetdex.io/v1alpha1
kind: Distribution
metadata: {name: web, namespace: shop}
spec:
  source: {manifests: {configMapRef: {name: web, key: all.yaml}}}
  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}
  overrides:
  - targetCluster: {clusterNames: [member2]}
    resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
    overriders: {plaintext: [{path: /data/name, operator: replace, value: second}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
data:
  all.yaml: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: nginx}]}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: settings}
    data: {name: first}
";

#[tokio::test]
async fn the_objects_of_a_set_are_planned_for_every_cluster() {
    let text = format!("{CLUSTERS}---{SET}");
    let table = planned(&text, &[], PlanFormat::Table).await;
    assert_eq!(table.result, Ok(true));
    let lines: Vec<Vec<&str>> = table
        .out
        .lines()
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    for expected in [
        ["ConfigMap", "shop/settings", "member1", "0"],
        ["ConfigMap", "shop/settings", "member2", "0"],
        ["ConfigMap", "shop/settings", "member3", "-"],
        ["Deployment", "shop/web", "member1", "1"],
        ["Deployment", "shop/web", "member2", "1"],
    ] {
        assert!(lines.contains(&expected.to_vec()), "{}", table.out);
    }
    // The ConfigMap that the source names is no object of the set, and no policy selects it.
    assert!(!table.out.contains("ConfigMap shop/web"), "{}", table.out);
    let diff = planned(&text, &[], PlanFormat::Diff).await;
    assert!(diff.out.contains("+++ member2/ConfigMap shop/settings"));
    assert!(diff.out.contains("+  name: second"), "{}", diff.out);
    let plan = planned(&text, &[], PlanFormat::Json).await;
    let plan: Value = serde_json::from_str(&plan.out).unwrap();
    assert_eq!(plan["bindings"][0]["policy"], "Distribution shop/web");
}

#[tokio::test]
async fn a_set_that_cannot_be_rendered_is_named_and_others_are_planned() {
    let broken = SET
        .split("---")
        .next()
        .unwrap()
        .replace("metadata: {name: web,", "metadata: {name: broken,")
        .replace("configMapRef: {name: web,", "configMapRef: {name: none,");
    let suspended = SET.split("---").next().unwrap();
    let suspended = suspended
        .replace("metadata: {name: web,", "metadata: {name: resting,")
        .replace("spec:\n", "spec:\n  suspend: true\n");
    let text = format!("{CLUSTERS}---{SET}---{broken}---{suspended}");
    let table = planned(&text, &[], PlanFormat::Table).await;
    assert_eq!(
        table.result,
        Err(
            "Distribution shop/broken: ConfigMap shop/none is in no file of --filename: add it; \
             what clusters have of them stays as it is"
                .to_owned()
        )
    );
    assert!(table.out.contains("Deployment shop/web"), "{}", table.out);
}

#[tokio::test]
async fn an_object_whose_name_is_taken_is_refused_by_name() {
    let other = "---\napiVersion: distribute.fleetdex.io/v1alpha1\nkind: Distribution\n\
                 metadata: {name: later, namespace: shop, creationTimestamp: '2990-01-01T00:00:00Z'}\n\
                 spec:\n  source:\n    manifests:\n      inline: |\n        \
                 {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n";
    let text = format!("{CLUSTERS}---{SET}{other}");
    let table = planned(&text, &[], PlanFormat::Table).await;
    let refused = "refused for Distribution shop/later: Distribution shop/web has an object of \
                   this name";
    assert!(table.out.contains(refused), "{}", table.out);
}

#[tokio::test]
async fn sets_of_a_control_plane_are_planned_with_what_they_name_there() {
    let source = json!({"manifests": {"configMapRef": {"name": "web", "key": "all.yaml"}}});
    let set = object(
        "distribute.fleetdex.io/v1alpha1",
        "Distribution",
        "shop",
        "web",
        &json!({"spec": {"source": source}}),
    );
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
    let named = object(
        "v1",
        "ConfigMap",
        "shop",
        "web",
        &json!({"data": {"all.yaml": text}}),
    );
    let mut kinds = KINDS.to_vec();
    kinds.extend([CLUSTER, CONFIG_MAP, DISTRIBUTIONS]);
    let control_plane = || FakeApi {
        kinds: kinds.clone(),
        objects: vec![cluster("member1"), set.clone(), named.clone()],
    };
    let planned = live_planned(control_plane(), None, "", PlanFormat::Table).await;
    assert!(planned.has_changes);
    assert!(
        planned.out.contains("ConfigMap shop/settings   member1"),
        "{}",
        planned.out
    );
    // A file takes the place of the set, and keeps who it is.
    let file = "apiVersion: distribute.fleetdex.io/v1alpha1\nkind: Distribution\n\
                metadata: {name: web, namespace: shop}\n\
                spec: {source: {manifests: {inline: '{apiVersion: v1, kind: Secret, metadata: {name: a}}'}}}\n";
    let planned = live_planned(control_plane(), None, file, PlanFormat::Table).await;
    assert!(planned.out.contains("Secret shop/a"), "{}", planned.out);
    assert!(!planned.out.contains("settings"), "{}", planned.out);
}

/// Clusters of two versions of Kubernetes, and one that does not say its own.
const VERSIONS: &str = r"
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member1}
spec: {}
status: {kubernetesVersion: v1.36.3, apiEnablements: [{groupVersion: v1, resources: [{name: configmaps, kind: ConfigMap}]}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member2}
spec: {}
status: {kubernetesVersion: v1.35.0, apiEnablements: [{groupVersion: v1, resources: [{name: configmaps, kind: ConfigMap}]}]}
";

#[tokio::test]
async fn what_does_not_ask_for_versions_is_the_same_in_clusters_of_all_of_them() {
    let text = format!("{VERSIONS}---{SET}");
    let plan = planned(&text, &[], PlanFormat::Json).await;
    let plan: Value = serde_json::from_str(&plan.out).unwrap();
    let objects = plan["objects"].as_array().unwrap().iter();
    let settings = objects.filter(|one| one["object"]["metadata"]["name"] == "settings");
    let clusters: Vec<&Value> = settings.map(|one| &one["cluster"]).collect();
    assert_eq!(clusters, ["member1", "member2"]);
}
