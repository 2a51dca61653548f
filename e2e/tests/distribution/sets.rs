//! Sets of objects: manifests, a chart and a folder that are rendered on the control plane.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use e2e::{
    parts::Part,
    scenario::{DEADLINE, until},
    test_result::{Tested, assert_contains},
};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::fixture::{Distributing, clusters, condition, config_map, path_of, weights};

pub const DISTRIBUTIONS: &str =
    "apis/distribute.fleetdex.io/v1alpha1/namespaces/default/distributions";
const BINDINGS: &str = "apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
pub const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels: {kube: "{{ .Capabilities.KubeVersion.Version }}"}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:{{ required "no tag" .Values.tag }}"}]}
"#;
pub const SECRET: &str = r"
apiVersion: v1
kind: Secret
metadata:
  name: password
  annotations: {helm.sh/resource-policy: keep}
stringData: {password: {{ randAlphaNum 12 | quote }}}
";

async fn start() -> Result<Distributing> {
    start_with(2).await
}

/// With helm and kustomize, and an account that may create what the tests have.
pub async fn start_with(members: usize) -> Result<Distributing> {
    let helm = format!("--helm={}", Part::Helm.ensure()?.display());
    let kustomize = format!("--kustomize={}", Part::Kustomize.ensure()?.display());
    let fixture = Distributing::start(members, &[&helm, &kustomize]).await?;
    let all = json!(["get", "create"]);
    grant(
        &fixture,
        "deployer",
        &json!([
            {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": all},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": all},
        ]),
    )
    .await?;
    Ok(fixture)
}

/// Grants rights in the namespace `default` to an account of it.
pub async fn grant(fixture: &Distributing, account: &str, rules: &Value) -> Result<()> {
    let api_version = "rbac.authorization.k8s.io/v1";
    let metadata = json!({"name": account, "namespace": "default"});
    let role = json!({
        "apiVersion": api_version, "kind": "Role", "metadata": metadata, "rules": rules,
    });
    fixture.apply(&role).await?;
    let binding = json!({
        "apiVersion": api_version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    });
    fixture.apply(&binding).await?;
    Ok(())
}

pub fn distribution(name: &str, source: &Value, placement: &Value) -> Value {
    json!({
        "apiVersion": "distribute.fleetdex.io/v1alpha1", "kind": "Distribution",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"source": source, "placement": placement, "serviceAccountName": "deployer"},
    })
}

pub fn inline(objects: &[Value]) -> Value {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    json!({"manifests": {"inline": texts.join("\n---\n")}})
}

/// A `ConfigMap` with an archive of these files.
pub fn archive(name: &str, files: &[(&str, &str)]) -> Value {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "binaryData": {"archive.tgz": BASE64_STANDARD.encode(bytes)},
    })
}

/// Waits until a condition of a `Distribution` has a reason, and returns its message.
pub async fn until_reason(
    fixture: &Distributing,
    name: &str,
    kind: &str,
    reason: &str,
) -> Result<String> {
    let path = format!("{DISTRIBUTIONS}/{name}");
    let object = fixture
        .until_hub(&path, &format!("{kind} is {reason}"), |object| {
            let is_current =
                object["status"]["observedGeneration"] == object["metadata"]["generation"];
            is_current && condition(object, kind)["reason"] == reason
        })
        .await?;
    Ok(condition(&object, kind)["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

#[tokio::test]
async fn manifests_go_to_clusters_change_are_pruned_and_deleted() -> Tested {
    let fixture = start().await?;
    let [one, two] = ["one", "two"].map(|name| config_map(name, "1"));
    let both = clusters(&["member1", "member2"]);
    let mut set = distribution("plain", &inline(&[one.clone(), two.clone()]), &both);
    fixture.apply(&set).await?;
    for member in [1, 2] {
        for object in [&one, &two] {
            let path = path_of(object)?;
            fixture
                .until_member(member, &path, "it is there", |_| true)
                .await?;
        }
    }
    until_reason(&fixture, "plain", "Ready", "Ready").await?;
    let found = fixture.hub.get(&format!("{DISTRIBUTIONS}/plain")).await?;
    assert_eq!(found["status"]["objects"], 2);
    assert_eq!(found["status"]["readyClusters"], "2/2");
    assert_eq!(found["status"]["clusters"][0]["applied"], 2);
    let kubectl = fixture.fleet.control_plane().kubectl()?;
    let table = kubectl.run(&["get", "distributions"]).await?;
    assert_contains(&table, "plain   True    Ready    2         2/2");
    // The templates are not on the control plane.
    assert_eq!(fixture.hub.find(&path_of(&one)?).await?, None);

    // A change, and an object less.
    set["spec"]["source"] = inline(&[config_map("one", "2")]);
    fixture.apply(&set).await?;
    for member in [1, 2] {
        let changed = |found: &Value| found["data"]["value"] == "2";
        fixture
            .until_member(member, &path_of(&one)?, "it is changed", changed)
            .await?;
        fixture.until_gone(member, &path_of(&two)?).await?;
    }
    until("the binding of the pruned object is gone", || async {
        let bindings = fixture.hub.get(BINDINGS).await?;
        let names: Vec<_> = bindings["items"].as_array().unwrap().iter().collect();
        ensure!(names.len() == 1, "{names:?}");
        let owner = &names[0]["metadata"]["ownerReferences"][0];
        ensure!(
            owner["kind"] == "Distribution" && owner["name"] == "plain",
            "{owner}"
        );
        Ok(())
    })
    .await?;

    // A drift is repaired.
    let path = path_of(&one)?;
    fixture.members[0]
        .merge(&path, &json!({"data": {"value": "9"}}))
        .await?;
    fixture
        .until_member(1, &path, "it is repaired", |found| {
            found["data"]["value"] == "2"
        })
        .await?;

    fixture
        .hub
        .delete(&format!("{DISTRIBUTIONS}/plain"))
        .await?;
    for member in [1, 2] {
        fixture.until_gone(member, &path).await?;
    }
    until("the Distribution is gone", || async {
        let found = fixture.hub.find(&format!("{DISTRIBUTIONS}/plain")).await?;
        ensure!(found.is_none(), "{found:?}");
        let bindings = fixture.hub.get(BINDINGS).await?;
        ensure!(
            bindings["items"].as_array().unwrap().is_empty(),
            "{bindings}"
        );
        Ok(())
    })
    .await
    .with_context(|| fixture.log())?;
    Ok(())
}

#[tokio::test]
async fn the_replicas_of_a_chart_are_divided_and_a_broken_chart_changes_nothing() -> Tested {
    let fixture = start().await?;
    let files = |deployment: &'static str| {
        [
            ("web/Chart.yaml", CHART),
            ("web/values.yaml", "replicas: 3\n"),
            ("web/templates/web.yaml", deployment),
            ("web/templates/secret.yaml", SECRET),
            ("web/templates/NOTES.txt", "{{ .Release.Name }} is there"),
        ]
    };
    fixture.apply(&archive("chart", &files(DEPLOYMENT))).await?;
    let source = json!({"helm": {
        "configMapRef": {"name": "chart", "key": "archive.tgz"}, "values": {"tag": "1.29"},
    }});
    fixture
        .apply(&distribution("web", &source, &weights(2, 1)))
        .await?;
    let path = "apis/apps/v1/namespaces/default/deployments/web";
    let secret = "api/v1/namespaces/default/secrets/password";
    let mut passwords = Vec::new();
    for (member, replicas) in [(1, 2), (2, 1)] {
        let found = fixture
            .until_member(member, path, "its share", |found| {
                found["spec"]["replicas"] == replicas
            })
            .await?;
        let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, "nginx:1.29");
        let version = found["metadata"]["labels"]["kube"].as_str().unwrap();
        assert_eq!(version, "v1.36.3");
        let found = fixture
            .until_member(member, secret, "it is there", |_| true)
            .await?;
        passwords.push(found["data"]["password"].clone());
    }
    assert_eq!(passwords[0], passwords[1], "it is rendered once");
    let set = format!("{DISTRIBUTIONS}/web");
    let found = fixture
        .until_hub(&set, "it has notes", |found| {
            found["status"]["notes"] == "web is there"
        })
        .await?;
    assert_eq!(found["status"]["kubernetesVersions"], json!(["1.36.3"]));

    // A chart that does not render leaves everything as it is.
    fixture
        .apply(&archive("chart", &files("{{ fail \"broken\" }}")))
        .await?;
    let message = until_reason(&fixture, "web", "Rendered", "RenderingFailed").await?;
    assert_contains(&message, "broken");
    assert_contains(&message, "what was rendered before stays in force");
    fixture.members[0]
        .merge(path, &json!({"spec": {"replicas": 9}}))
        .await?;
    fixture
        .until_member(1, path, "it is repaired", |found| {
            found["spec"]["replicas"] == 2
        })
        .await?;

    // Nor does it after a restart, when nothing is known of it.
    fixture.operator.restart_until_ready(DEADLINE).await?;
    let other = distribution(
        "other",
        &inline(&[config_map("other", "1")]),
        &clusters(&["member1"]),
    );
    fixture.apply(&other).await?;
    let of_other = path_of(&config_map("other", "1"))?;
    fixture
        .until_member(1, &of_other, "it is there", |_| true)
        .await?;
    until_reason(&fixture, "web", "Rendered", "RenderingFailed").await?;
    for member in &fixture.members {
        member.get(path).await?;
    }
    // Other sets are deleted meanwhile.
    fixture
        .hub
        .delete(&format!("{DISTRIBUTIONS}/other"))
        .await?;
    fixture.until_gone(1, &of_other).await?;
    for member in &fixture.members {
        member.get(path).await?;
    }

    // What is kept stays when the set goes, and is not Fleetdex's any more.
    fixture.hub.delete(&set).await?;
    for member in [1, 2] {
        fixture.until_gone(member, path).await?;
        fixture
            .until_member(member, secret, "it is the member's own", |found| {
                let label = &found["metadata"]["labels"]["distribute.fleetdex.io/control-plane"];
                label.is_null()
            })
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn rights_bound_a_set_and_what_is_not_built_is_refused() -> Tested {
    let fixture = start().await?;
    let both = clusters(&["member1", "member2"]);
    let object = config_map("one", "1");
    let mut set = distribution("bounded", &inline(std::slice::from_ref(&object)), &both);
    set["spec"]["serviceAccountName"] = "nobody".into();
    fixture.apply(&set).await?;
    let message = until_reason(&fixture, "bounded", "Ready", "Forbidden").await?;
    assert_contains(
        &message,
        "ServiceAccount default/nobody may not create configmaps in namespace default",
    );
    assert_eq!(fixture.members[0].find(&path_of(&object)?).await?, None);
    let rule = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    grant(&fixture, "nobody", &rule).await?;
    fixture
        .until_member(1, &path_of(&object)?, "it is there", |_| true)
        .await?;
    // What it reads is bounded as well.
    set["spec"]["source"] =
        json!({"manifests": {"configMapRef": {"name": "secret-of-others", "key": "a"}}});
    fixture.apply(&set).await?;
    let message = until_reason(&fixture, "bounded", "Ready", "Forbidden").await?;
    assert_contains(
        &message,
        "get configmaps secret-of-others in namespace default",
    );
    fixture.members[0].get(&path_of(&object)?).await?;

    // A folder.
    let kustomization = "resources: [all.yaml]\nnamePrefix: my-\n";
    let all = config_map("settings", "1").to_string();
    let files = [
        ("kustomization.yaml", kustomization),
        ("all.yaml", all.as_str()),
    ];
    fixture.apply(&archive("folder", &files)).await?;
    let source = json!({"kustomize": {"configMapRef": {"name": "folder", "key": "archive.tgz"}}});
    fixture
        .apply(&distribution("folder", &source, &both))
        .await?;
    let settings = path_of(&config_map("my-settings", "1"))?;
    fixture
        .until_member(2, &settings, "it is there", |_| true)
        .await?;

    // An object of a name that another set has, and a hook that cannot be run.
    fixture
        .apply(&distribution(
            "late",
            &inline(&[config_map("my-settings", "2")]),
            &both,
        ))
        .await?;
    let message = until_reason(&fixture, "late", "Ready", "NameTaken").await?;
    assert_contains(
        &message,
        "Distribution default/folder has an object of this name",
    );
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: never}\n";
    let files = [("web/Chart.yaml", CHART), ("web/templates/hook.yaml", hook)];
    fixture.apply(&archive("hooks", &files)).await?;
    let source = json!({"helm": {"configMapRef": {"name": "hooks", "key": "archive.tgz"}}});
    fixture
        .apply(&distribution("hooks", &source, &both))
        .await?;
    let message = until_reason(&fixture, "hooks", "Ready", "HooksNotSupported").await?;
    assert_contains(&message, "ConfigMap hook");

    // The API server refuses what the rules of the definition refuse.
    for (spec, expected) in [
        (
            json!({}),
            "use exactly one of helm, kustomize and manifests",
        ),
        (
            json!({"helm": {"chart": "web"}}),
            "chart is an address that begins with oci://",
        ),
        (
            json!({"manifests": {}}),
            "use exactly one of inline and configMapRef",
        ),
    ] {
        let refused = fixture.apply(&distribution("invalid", &spec, &both)).await;
        assert_contains(&format!("{:#}", refused.unwrap_err()), expected);
    }
    Ok(())
}
