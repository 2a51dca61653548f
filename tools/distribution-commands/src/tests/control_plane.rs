//! Plans against a control plane, and what members have.

use clap::Parser as _;
use fleetdex_distribution::marks::{self, CopyOrigin};

use super::{
    fake_api::{FakeApi, ServedKind, serve},
    *,
};
use crate::members::MemberObjects;

pub(super) const CONFIG_MAP: ServedKind = ("", "v1", "ConfigMap", "configmaps", true);
pub(super) const CLUSTER: ServedKind = (
    "cluster.karmada.io",
    "v1alpha1",
    "Cluster",
    "clusters",
    false,
);
const PODS: [ServedKind; 2] = [
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "Node", "nodes", false),
];
pub(super) const KINDS: [ServedKind; 3] = [
    ("", "v1", "Namespace", "namespaces", false),
    ("apps", "v1", "Deployment", "deployments", true),
    (
        "policy.karmada.io",
        "v1alpha1",
        "PropagationPolicy",
        "propagationpolicies",
        true,
    ),
];
pub(super) struct LivePlanned {
    pub(super) has_changes: bool,
    pub(super) out: String,
    err: String,
}

pub(super) async fn live_planned(
    control_plane: FakeApi,
    members: Option<FakeApi>,
    file: &str,
    format: PlanFormat,
) -> LivePlanned {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serve(control_plane, members, &kubeconfig).await;
    let filename = folder.path().join("file.yaml");
    fs::write(&filename, file).unwrap();
    let filenames = if file.is_empty() {
        Vec::new()
    } else {
        vec![filename.display().to_string()]
    };
    let args = PlanArgs {
        offline: false,
        filenames,
        recursive: false,
        room: Vec::new(),
        format,
        local: LocalSourceArgs::default(),
        control_plane: ControlPlaneArgs {
            kubeconfig: Some(kubeconfig),
            context: None,
        },
        server: FleetServerArgs::default(),
    };
    let Printed { result, out, err } = printed(&args).await;
    LivePlanned {
        has_changes: result.unwrap(),
        out,
        err,
    }
}

pub(super) fn object(
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    more: &Value,
) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name},
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    object
}

pub(super) fn cluster(name: &str) -> Value {
    let spec = json!({"spec": {}});
    object("cluster.karmada.io/v1alpha1", "Cluster", "", name, &spec)
}

fn deployment(name: &str, image: &str) -> Value {
    let container = json!({
        "name": "web", "image": image, "envFrom": [{"configMapRef": {"name": "settings"}}],
    });
    let spec = json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
    });
    object("apps/v1", "Deployment", "web", name, &json!({"spec": spec}))
}

/// An object as the query API returns it.
fn of_member(mut object: Value, cluster: &str, written_by: &str) -> Value {
    let annotations = json!({"resource.karmada.io/cached-from-cluster": cluster});
    object["metadata"]["annotations"] = annotations;
    if written_by.is_empty() {
        return object;
    }
    let origin = CopyOrigin {
        control_plane: written_by.into(),
        cluster: cluster.into(),
    };
    marks::marked(object, &origin, "hash")
}

fn control_plane() -> FakeApi {
    let mut kinds = KINDS.to_vec();
    kinds.extend([CONFIG_MAP, CLUSTER]);
    let policy = json!({"spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "propagateDeps": true,
    }});
    FakeApi {
        kinds,
        objects: vec![
            cluster("member1"),
            cluster("member2"),
            object("v1", "Namespace", "", "kube-system", &json!({})),
            object("v1", "Namespace", "", "web", &json!({})),
            object(
                "policy.karmada.io/v1alpha1",
                "PropagationPolicy",
                "web",
                "all",
                &policy,
            ),
            deployment("web", "web:1"),
            object(
                "v1",
                "ConfigMap",
                "web",
                "settings",
                &json!({"data": {"a": "b"}}),
            ),
            object("v1", "ConfigMap", "web", "other", &json!({})),
        ],
    }
}

fn members() -> FakeApi {
    let namespace = object("v1", "Namespace", "", "web", &json!({}));
    FakeApi {
        kinds: KINDS.to_vec(),
        objects: vec![
            of_member(namespace.clone(), "member1", ""),
            of_member(namespace, "member2", ""),
            of_member(deployment("web", "web:1"), "member1", "kube-system"),
            of_member(
                deployment("web", "web:1"),
                "member2",
                "another control plane",
            ),
            of_member(deployment("old", "web:1"), "member2", "kube-system"),
            of_member(
                deployment("theirs", "web:1"),
                "member2",
                "another control plane",
            ),
        ],
    }
}

#[tokio::test]
async fn a_plan_is_made_from_the_control_plane_and_what_members_have() {
    let planned = live_planned(control_plane(), Some(members()), "", PlanFormat::Table).await;
    assert!(planned.has_changes);
    assert_eq!(
        planned.out,
        "RESOURCE                 CLUSTER   REPLICAS   NOTE\n\
         Deployment web/web       member1   1\n\
         Deployment web/web       member2   1          not written: the cluster has this object already, \
         and Fleetdex did not make it: set conflictResolution: Overwrite to take it over\n\
         ConfigMap web/settings   member1   0\n\
         ConfigMap web/settings   member2   0\n\
         Deployment web/old       member2   -          deleted\n"
    );
    assert_eq!(
        planned.err,
        "Warning: conflicts and changes of ConfigMap are not known: no registry selects it\n"
    );
}

/// The file names no namespace: it is that of the context.
#[tokio::test]
async fn an_object_of_a_file_takes_the_place_of_that_of_the_control_plane() {
    let mut changed = deployment("web", "web:2");
    changed["metadata"] = json!({"name": "web"});
    let file = changed.to_string();
    let planned = live_planned(control_plane(), Some(members()), &file, PlanFormat::Diff).await;
    assert!(planned.has_changes);
    let changes: Vec<&str> = planned.out.split("--- ").skip(1).collect();
    let changed: Vec<&str> = changes
        .iter()
        .filter_map(|one| one.lines().next())
        .collect();
    assert_eq!(
        changed,
        [
            "member1/ConfigMap web/settings",
            "member1/Deployment web/web",
            "member2/ConfigMap web/settings",
            "member2/Deployment web/old",
        ]
    );
    assert_eq!(
        changes[1],
        "member1/Deployment web/web\n\
         +++ member1/Deployment web/web\n\
         @@ -15,7 +15,7 @@\n     \
         spec:\n       \
         containers:\n       \
         - name: web\n\
         -        image: web:1\n\
         +        image: web:2\n         \
         envFrom:\n         \
         - configMapRef:\n             \
         name: settings\n"
    );
    let removed = changes[3].lines().skip(3);
    assert!(removed.clone().count() > 10 && removed.clone().all(|line| line.starts_with('-')));
}

#[tokio::test]
async fn members_that_have_everything_need_no_change() {
    let mut members = FakeApi::default();
    members.kinds.extend(KINDS);
    members.kinds.push(CONFIG_MAP);
    let settings = json!({"data": {"a": "b"}});
    for cluster in ["member1", "member2"] {
        let namespace = object("v1", "Namespace", "", "web", &json!({}));
        let settings = object("v1", "ConfigMap", "web", "settings", &settings);
        members.objects.push(of_member(namespace, cluster, ""));
        for object in [settings, deployment("web", "web:1")] {
            members
                .objects
                .push(of_member(object, cluster, "kube-system"));
        }
    }
    let planned = live_planned(control_plane(), Some(members), "", PlanFormat::Diff).await;
    assert_eq!((planned.out, planned.err), (String::new(), String::new()));
    assert!(!planned.has_changes);
}

#[tokio::test]
async fn a_fleet_without_a_server_is_planned_as_if_it_had_nothing() {
    let planned = live_planned(control_plane(), None, "", PlanFormat::Json).await;
    assert!(planned.has_changes);
    let plan: Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!(plan["deletions"], json!([]));
    assert_eq!(plan["conflicts"], json!([]));
    // Two Namespaces, ConfigMaps and Deployments.
    assert_eq!(plan["objects"].as_array().unwrap().len(), 6);
    assert_eq!(planned.err.lines().count(), 1, "{}", planned.err);
    let expected = "Warning: what members have is not known: ";
    assert!(planned.err.starts_with(expected), "{}", planned.err);
}

#[tokio::test]
async fn a_server_that_is_named_has_to_answer() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serve(control_plane(), Some(members()), &kubeconfig).await;
    let control_plane = ControlPlaneArgs {
        kubeconfig: Some(kubeconfig),
        context: None,
    };
    let server = FleetServerArgs {
        server: None,
        token_file: Some(folder.path().join("token")),
    };
    let connected = MemberObjects::connect(&server, &control_plane).await;
    let error = connected.err().unwrap().to_string();
    assert!(error.starts_with("cannot read the token file"), "{error}");
}

#[tokio::test]
async fn room_is_counted_by_the_nodes_and_pods_of_the_index() {
    let mut control_plane = control_plane();
    for object in &mut control_plane.objects {
        if object["kind"] == "PropagationPolicy" {
            object["spec"]["placement"] = json!({"replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated",
            }});
        }
    }
    let mut members = FakeApi::default();
    members.kinds.extend(PODS);
    for (cluster, pods) in [("member1", 0), ("member2", 8)] {
        let status = json!({"status": {"allocatable": {"pods": pods}}});
        let node = object("v1", "Node", "", "node", &status);
        members.objects.push(of_member(node, cluster, ""));
    }
    let planned = live_planned(control_plane, Some(members), "", PlanFormat::Json).await;
    let plan: Value = serde_json::from_str(&planned.out).unwrap();
    let bindings = plan["bindings"].as_array().unwrap();
    let of_deployment = bindings
        .iter()
        .find(|one| one["resource"]["kind"] == "Deployment");
    let expected = json!([{"name": "member2", "replicas": 1}]);
    assert_eq!(
        of_deployment.unwrap()["clusters"],
        expected,
        "{}",
        planned.err
    );
}

#[test]
fn files_are_needed_offline_only() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        _plan: PlanArgs,
    }
    for (line, is_accepted) in [
        ("plan", true),
        ("plan --context cp -f a.yaml", true),
        ("plan --offline", false),
        ("plan --offline -f a.yaml -o diff", true),
        ("plan -o wide", false),
    ] {
        let parsed = Program::try_parse_from(line.split(' '));
        assert_eq!(parsed.is_ok(), is_accepted, "{line}");
    }
}
