use std::fs;

use fleetdex_cli::{ControlPlaneArgs, FleetServerArgs};
use fleetdex_rendering_commands::LocalSourceArgs;
use serde_json::{Value, json};

use super::*;
use crate::given_room::GivenRoom;

mod control_plane;
mod fake_api;
mod sets;
mod status;

/// The example of Karmada's blog about interpreter webhooks, with weights 2:1.
const NGINX: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  labels: {app: nginx}
spec:
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec:
      containers:
      - {image: nginx, name: nginx}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: nginx-propagation
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: nginx}
  placement:
    clusterAffinity:
      clusterNames: [member1, member2]
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [member1]}, weight: 2}
        - {targetCluster: {clusterNames: [member2]}, weight: 1}
";

const CLUSTERS: &str = r"
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member1}
spec: {}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member2}
spec: {}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: member3}
spec: {}
";

/// What a plan has printed.
struct Printed {
    result: Result<bool, String>,
    out: String,
    err: String,
}

async fn printed(args: &PlanArgs) -> Printed {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: false,
    };
    let result = print_plan(args, &mut io::empty(), &mut console).await;
    Printed {
        result: result.map_err(|error| error.to_string()),
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

struct Planned {
    result: Result<bool, String>,
    out: String,
}

async fn planned(text: &str, room: &[&str], format: PlanFormat) -> Planned {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, text).unwrap();
    let args = PlanArgs {
        offline: true,
        filenames: vec![file.display().to_string()],
        recursive: false,
        room: room.iter().map(|text| text.parse().unwrap()).collect(),
        format,
        local: LocalSourceArgs::default(),
        control_plane: ControlPlaneArgs::default(),
        server: FleetServerArgs::default(),
    };
    let Printed { result, out, .. } = printed(&args).await;
    Planned {
        result: result.map_err(|error| {
            let folder = format!("{}/", folder.path().display());
            error.replace(&folder, "")
        }),
        out,
    }
}

#[tokio::test]
async fn the_plan_is_a_document_of_bindings_objects_and_conflicts() {
    let planned = planned(&format!("{CLUSTERS}---{NGINX}"), &[], PlanFormat::Json).await;
    assert_eq!(planned.result, Ok(true));
    let plan: Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!(
        plan["bindings"],
        json!([{
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginx"},
            "policy": "PropagationPolicy default/nginx-propagation",
            "clusters": [{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 1}],
            "unschedulable": null,
            "notChosen": [{"cluster": "member3", "reason": "the policy's cluster affinity does not select it"}],
        }])
    );
    assert_eq!(plan["conflicts"], json!([]));
    let objects = plan["objects"].as_array().unwrap();
    let replicas: Vec<(&Value, &Value)> = objects
        .iter()
        .map(|one| (&one["cluster"], &one["object"]["spec"]["replicas"]))
        .collect();
    assert_eq!(
        replicas,
        [
            (&json!("member1"), &json!(2)),
            (&json!("member2"), &json!(1))
        ]
    );
}

#[tokio::test]
async fn the_table_has_every_cluster_with_its_reason() {
    let planned = planned(&format!("{CLUSTERS}---{NGINX}"), &[], PlanFormat::Table).await;
    assert_eq!(
        planned.out,
        "RESOURCE                   CLUSTER   REPLICAS   NOTE\n\
         Deployment default/nginx   member1   2\n\
         Deployment default/nginx   member2   1\n\
         Deployment default/nginx   member3   -          not chosen: the policy's cluster affinity does not select it\n"
    );
}

/// A kind of its own, whose replicas a script knows.
#[tokio::test]
async fn a_customization_divides_a_kind_of_its_own() {
    let text = NGINX
        .replace("apps/v1", "workload.example.io/v1alpha1")
        .replace("kind: Deployment", "kind: Workload");
    let customization = r"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: workload}
spec:
  target: {apiVersion: workload.example.io/v1alpha1, kind: Workload}
  customizations:
    replicaResource:
      luaScript: |
        function GetReplicas(desiredObj)
          return desiredObj.spec.replicas, nil
        end
    replicaRevision:
      luaScript: |
        function ReviseReplica(desiredObj, desiredReplica)
          desiredObj.spec.replicas = desiredReplica
          return desiredObj
        end
";
    let text = format!("{CLUSTERS}---{text}---{customization}");
    let planned = planned(&text, &[], PlanFormat::Json).await;
    let plan: Value = serde_json::from_str(&planned.out).unwrap();
    let replicas: Vec<&Value> = plan["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["object"]["spec"]["replicas"])
        .collect();
    assert_eq!(replicas, [&json!(2), &json!(1)]);
}

#[tokio::test]
async fn room_is_given_or_counted_by_nodes_and_pods() {
    let text = NGINX
        .replace(
            "replicaDivisionPreference: Weighted",
            "replicaDivisionPreference: Aggregated",
        )
        .replace(
            "{image: nginx, name: nginx}",
            "{image: nginx, name: nginx, resources: {requests: {cpu: 1}}}",
        );
    let node = |cluster: &str, cpu: i64| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: node-{cluster}, annotations: \
             {{resource.karmada.io/cached-from-cluster: {cluster}}}}}\nstatus: {{allocatable: {{cpu: {cpu}, pods: 10}}}}\n"
        )
    };
    let nodes = [node("member1", 1), node("member2", 8)].concat();
    for (room, expected) in [
        (&[][..], [0, 3]),
        (&["member1=18", "member2=12"][..], [3, 0]),
        (&["member1=1"][..], [0, 3]),
    ] {
        let text = format!("{CLUSTERS}---{text}{nodes}");
        let planned = planned(&text, room, PlanFormat::Json).await;
        let plan: Value = serde_json::from_str(&planned.out).unwrap();
        let clusters = plan["bindings"][0]["clusters"].as_array().unwrap();
        let of = |name: &str| {
            let found = clusters.iter().find(|one| one["name"] == name);
            found.map_or(0, |one| one["replicas"].as_i64().unwrap())
        };
        assert_eq!([of("member1"), of("member2")], expected, "{room:?}");
    }
}

#[tokio::test]
async fn a_binding_says_where_an_object_is_now() {
    let binding = r"
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: nginx-deployment}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: nginx}
  clusters:
  - {name: member1, replicas: 1}
  - {name: member2, replicas: 2}
";
    let rebalancer = r"
apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: all}
spec:
  workloads:
  - {apiVersion: apps/v1, kind: Deployment, namespace: default, name: nginx}
";
    let by_room = NGINX.replace(
        "      weightPreference:\n        staticWeightList:\n        - {targetCluster: {clusterNames: [member1]}, weight: 2}\n        \
         - {targetCluster: {clusterNames: [member2]}, weight: 1}\n",
        "      weightPreference: {dynamicWeight: AvailableReplicas}\n",
    );
    for (extra, expected) in [("", [1, 2]), (rebalancer, [2, 1])] {
        let text = [CLUSTERS, "---", &by_room, "---", binding, "---", extra].concat();
        let room = ["member1=9", "member2=2"];
        let planned = planned(&text, &room, PlanFormat::Json).await;
        let plan: Value = serde_json::from_str(&planned.out).unwrap();
        let clusters = plan["bindings"][0]["clusters"].as_array().unwrap();
        let replicas: Vec<i64> = clusters
            .iter()
            .map(|one| one["replicas"].as_i64().unwrap())
            .collect();
        assert_eq!(replicas, expected);
    }
}

#[tokio::test]
async fn a_fleet_that_has_everything_needs_no_change() {
    let cached = |cluster: &str, replicas: i64| {
        NGINX.split("---").next().unwrap().replace(
            "  labels: {app: nginx}\nspec:\n  replicas: 3",
            &format!(
                "  namespace: default\n  labels: {{app: nginx, distribute.fleetdex.io/control-plane: uid}}\n  annotations: \
                 {{resource.karmada.io/cached-from-cluster: {cluster}}}\nspec:\n  replicas: {replicas}"
            ),
        )
    };
    for (of_member2, has_changes) in [(1, false), (2, true)] {
        let text = [
            CLUSTERS,
            "---",
            NGINX,
            "---",
            &cached("member1", 2),
            "---",
            &cached("member2", of_member2),
        ]
        .concat();
        let planned = planned(&text, &[], PlanFormat::Json).await;
        assert_eq!(planned.result, Ok(has_changes), "{}", planned.out);
    }
    let left = [CLUSTERS, "---", &cached("member3", 1)].concat();
    let planned = planned(&left, &[], PlanFormat::Table).await;
    assert_eq!(planned.result, Ok(true));
    assert!(
        planned.out.contains("member3   -          deleted"),
        "{}",
        planned.out
    );
}

#[tokio::test]
async fn a_diff_has_what_would_change_in_members() {
    let of_member1 = NGINX.split("---").next().unwrap().replace(
        "  labels: {app: nginx}\nspec:\n  replicas: 3",
        "  labels: {app: nginx, distribute.fleetdex.io/control-plane: uid}\n  annotations: \
         {resource.karmada.io/cached-from-cluster: member1}\nspec:\n  paused: false\n  replicas: 1",
    );
    let left = of_member1.replace("member1", "member3");
    let text = [CLUSTERS, "---", NGINX, "---", &of_member1, "---", &left].concat();
    let planned = planned(&text, &[], PlanFormat::Diff).await;
    assert_eq!(planned.result, Ok(true));
    let lines = |from: &str, to: &str| -> Vec<String> {
        let changes = planned.out.split("--- ");
        let mut changes = changes.filter(|change| change.starts_with(from));
        let change = changes.next().unwrap();
        let lines = change.lines().skip_while(|line| !line.starts_with(to));
        lines.map(str::to_owned).collect()
    };
    let changed = [
        "+++ member1/Deployment default/nginx",
        "@@ -6,7 +6,7 @@",
        "     app: nginx",
        "   namespace: default",
        " spec:",
        "-  replicas: 1",
        "+  replicas: 2",
        "   selector:",
        "     matchLabels:",
        "       app: nginx",
    ];
    assert_eq!(lines("member1/", "+++"), changed);
    let added = lines("member2/", "@@");
    assert_eq!(added[..2], ["@@ -0,0 +1,20 @@", "+apiVersion: apps/v1"]);
    let removed = lines("member3/", "@@");
    assert_eq!(removed[..2], ["@@ -1,22 +0,0 @@", "-apiVersion: apps/v1"]);
    assert!(removed.contains(&"-  paused: false".to_owned()));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_its_name_and_file() {
    for (text, expected) in [
        (
            "kind: Deployment",
            "all.yaml: a document without apiVersion, kind or metadata.name",
        ),
        (
            "{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: p}, spec: {}}",
            "all.yaml: PropagationPolicy default/p: spec.resourceSelectors: name at least one kind, such as {apiVersion: \
             apps/v1, kind: Deployment}",
        ),
        (
            "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: c}, spec: {provider: 3}}",
            "all.yaml: Cluster c: invalid type: integer `3`, expected a string",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c, \
             namespace: default}}",
            "all.yaml: ConfigMap default/c is there twice",
        ),
    ] {
        let planned = planned(text, &[], PlanFormat::Table).await;
        assert_eq!(planned.result, Err(expected.to_owned()), "{text}");
    }
    let unknown = planned(CLUSTERS, &["member9=3"], PlanFormat::Table).await;
    let expected = "--room member9: there is no Cluster of this name";
    assert_eq!(unknown.result, Err(expected.to_owned()));
    assert!("member1".parse::<GivenRoom>().is_err());
    assert!("member1=-1".parse::<GivenRoom>().is_err());
}

#[test]
fn a_webhook_is_not_asked() {
    use fleetdex_distribution::desired::Operations as _;
    use fleetdex_interpreter::{Request, webhook::configuration::WebhookConfiguration};

    let configuration = WebhookConfiguration::parse(&json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "example"},
        "webhooks": [{
            "name": "workloads.example.com", "clientConfig": {"url": "https://example.com"},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]}],
            "interpreterContextVersions": ["v1alpha1"],
        }],
    }));
    let operations = OfflineOperations::new(&[], configuration.unwrap().webhooks);
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    assert_eq!(
        operations
            .run(&Request::Replica { object: &object })
            .map(|_| ()),
        Err(
            "the webhook example/workloads.example.com decides, and a plan does not ask webhooks"
                .to_owned()
        )
    );
}
