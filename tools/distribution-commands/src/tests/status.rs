//! What is distributed, as the bindings of a control plane say.

use clap::Parser;

use super::{
    fake_api::{FakeApi, ServedKind, serve},
    *,
};
use crate::status::{StatusArgs, print_status};

const BINDINGS: [ServedKind; 2] = [
    (
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
        "resourcebindings",
        true,
    ),
    (
        "work.karmada.io",
        "v1alpha2",
        "ClusterResourceBinding",
        "clusterresourcebindings",
        false,
    ),
];
const TEMPLATES: [ServedKind; 3] = [
    ("apps", "v1", "Deployment", "deployments", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Namespace", "namespaces", false),
];

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: StatusArgs,
}

/// A binding with these clusters and this status.
fn binding(object: &Value, clusters: &Value, status: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap();
    let name = object["name"].as_str().unwrap();
    let namespace = object["namespace"].as_str();
    let of = match namespace {
        Some(_) => "ResourceBinding",
        None => "ClusterResourceBinding",
    };
    let mut binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": of,
        "metadata": {
            "name": format!("{name}-{}", kind.to_lowercase()),
            "annotations": {"clusterpropagationpolicy.karmada.io/name": "all"},
        },
        "spec": {"resource": object, "clusters": clusters},
        "status": status,
    });
    if let Some(namespace) = namespace {
        binding["metadata"]["namespace"] = namespace.into();
    }
    binding
}

fn applied(clusters: &[&str]) -> Value {
    let items = clusters.iter();
    let items = items.map(|name| json!({"clusterName": name, "applied": true}));
    json!({"aggregatedStatus": items.collect::<Vec<_>>()})
}

/// In `web` a `Deployment` that one of two clusters has, and a `ConfigMap`; in `shop` a
/// `ConfigMap`; and a `Namespace`.
fn control_plane() -> FakeApi {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "front",
    });
    let config_map = |namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "settings"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": "web"});
    let condition = |kind: &str, status: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": "Reason", "message": message,
            "lastTransitionTime": "2026-11-30T00:00:00Z",
        })
    };
    let status = json!({
        "conditions": [
            condition("Scheduled", "True", "not chosen: member3, member4: no room"),
            condition("FullyApplied", "False", "member2: \u{1b}[2J"),
        ],
        "aggregatedStatus": [
            {"clusterName": "member1", "applied": true, "health": "Healthy",
             "status": {"readyReplicas": 1}},
            {"clusterName": "member2", "applied": false, "health": "Unknown",
             "appliedMessage": "conflict\u{1b}[2J"},
        ],
    });
    let clusters = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 1}]);
    let mut front = binding(&deployment, &clusters, &status);
    front["spec"]["replicas"] = 3.into();
    front["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "member5", "reason": "Moved"}]);
    let one = json!([{"name": "member1"}]);
    FakeApi {
        kinds: BINDINGS.into_iter().chain(TEMPLATES).collect(),
        objects: vec![
            front,
            binding(&config_map("web"), &one, &applied(&["member1"])),
            binding(&config_map("shop"), &one, &applied(&["member1"])),
            binding(&namespace, &one, &applied(&["member1"])),
        ],
    }
}

async fn status(control_plane: FakeApi, line: &str) -> Printed {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serve(control_plane, None, &kubeconfig).await;
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let words = ["status", &kubeconfig].into_iter();
    let args = Command::parse_from(words.chain(line.split_whitespace())).args;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: false,
    };
    let result = print_status(&args, &mut console).await;
    Printed {
        result: result.map_err(|error| error.to_string()),
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

#[tokio::test]
async fn objects_of_a_namespace_are_listed_with_their_clusters() {
    let Printed { result, out, .. } = status(control_plane(), "").await;
    assert_eq!(result, Ok(false));
    let expected = "\
OBJECT                  CLUSTER   DESIRED   ACTUAL   APPLIED   HEALTH    MESSAGE
configmap/settings      member1   -         -        yes       -
deployment.apps/front   member1   2         1        yes       Healthy
deployment.apps/front   member2   1         -        no        Unknown   conflict^[[2J
deployment.apps/front   member5   -         -        leaving   -         Moved
";
    assert_eq!(out, expected);
}

#[tokio::test]
async fn all_namespaces_have_objects_without_one_too() {
    let all = status(control_plane(), "-A -o wide --no-headers").await;
    let lines: Vec<Vec<&str>> = all
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines.len(), 6, "{}", all.out);
    assert_eq!(lines[0][..2], ["namespace/web", "member1"]);
    assert_eq!(lines[1][..3], ["shop", "configmap/settings", "member1"]);
    assert_eq!(lines[1][6..], ["-", "all", "settings-configmap"]);
    let names = status(control_plane(), "-A -o name").await;
    assert_eq!(names.out.lines().count(), 4, "{}", names.out);
}

#[tokio::test]
async fn one_object_has_its_reasons_and_conditions() {
    for line in [
        "deployment/front",
        "deployments front",
        "Deployment.apps front -n web",
    ] {
        let Printed { result, out, .. } = status(control_plane(), line).await;
        assert_eq!(result, Ok(false), "{line}");
        for expected in [
            "\nNOT CHOSEN   REASON\nmember3      no room\nmember4      no room\n",
            "\nCONDITION      STATUS   SINCE                  REASON   MESSAGE\nScheduled      True ",
            "FullyApplied   False    2026-11-30T00:00:00Z   Reason   member2: ^[[2J\n",
        ] {
            assert!(out.contains(expected), "{line}: {expected}: {out}");
        }
        assert!(!out.contains("configmap"), "{out}");
    }
    let settings = status(control_plane(), "configmaps settings -n shop").await;
    assert_eq!(settings.result, Ok(true));
    let namespace = status(control_plane(), "namespace web").await;
    assert_eq!(namespace.result, Ok(true));
    assert!(namespace.out.contains("namespace/web"), "{}", namespace.out);
}

#[tokio::test]
async fn documents_have_the_reports_as_they_are() {
    let Printed { result, out, .. } = status(control_plane(), "deploy.apps -o json").await;
    // The server names no short names.
    assert!(result.is_err(), "{out}");
    let Printed { out, .. } = status(control_plane(), "deployments -o json").await;
    let document: Value = serde_json::from_str(&out).unwrap();
    let report = &document["items"][0];
    assert_eq!(report["object"]["name"], "front");
    assert_eq!(report["clusters"][1]["applied"], "no");
    assert_eq!(
        report["notChosen"][0]["clusters"],
        json!(["member3", "member4"])
    );
    let Printed { out, .. } = status(control_plane(), "deployments -o yaml").await;
    assert!(out.contains("applied: leaving"), "{out}");
}

#[tokio::test]
async fn what_is_not_there_says_what_to_do() {
    let without_definitions = FakeApi {
        kinds: TEMPLATES.to_vec(),
        ..control_plane()
    };
    let error = async |api, line| status(api, line).await.result.unwrap_err();
    for (message, expected) in [
        (
            error(without_definitions, "").await,
            "fleetdex crd apply --distribute",
        ),
        (
            error(control_plane(), "shops").await,
            "no resource type \"shops\"",
        ),
        (
            error(control_plane(), "deployment back").await,
            "deployment/back has no binding in namespace web",
        ),
        (
            error(control_plane(), "deployment/front back").await,
            "TYPE/NAME",
        ),
        (
            error(control_plane(), "-n a/b").await,
            "no name of a namespace",
        ),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    let empty = status(control_plane(), "-n other").await;
    assert_eq!(empty.result, Ok(true));
    assert_eq!(
        empty.err,
        "No distributed objects found in namespace other.\n"
    );
}
