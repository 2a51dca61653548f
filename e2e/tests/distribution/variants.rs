//! A chart that asks what clusters serve, in members that differ: each has the objects of its
//! variant, and what others have is not rendered again.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::Result;
use e2e::{scenario::DEADLINE, test_result::Tested};
use serde_json::{Value, json};

use crate::{
    fixture::{Distributing, clusters, config_map, path_of},
    sets::{CHART, DISTRIBUTIONS, SECRET, archive, distribution, inline, start_with, until_reason},
};

const SETTINGS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {widgets: "{{ .Capabilities.APIVersions.Has "example.com/v1/Widget" }}"}
"#;
const WIDGETS: &str = r#"
{{- if .Capabilities.APIVersions.Has "example.com/v1/Widget" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: widgets}
{{- end }}
"#;
/// A definition of the set itself: it makes no variant.
const OWN: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";
const SECRET_PATH: &str = "api/v1/namespaces/default/secrets/password";
const DEFINITION: &str =
    "apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

/// The password of a member, and the version of the Secret.
async fn password(fixture: &Distributing, member: usize) -> Result<(Value, Value)> {
    let found = fixture
        .until_member(member, SECRET_PATH, "it is there", |_| true)
        .await?;
    let version = found["metadata"]["resourceVersion"].clone();
    Ok((found["data"]["password"].clone(), version))
}

async fn until_widgets(fixture: &Distributing, member: usize, has: &str) -> Result<()> {
    let path = path_of(&config_map("settings", ""))?;
    let found = fixture.until_member(member, &path, has, |found| found["data"]["widgets"] == has);
    found.await.map(drop)
}

/// Waits until the set has so many renderings and all of them are everywhere.
async fn until_complete(fixture: &Distributing, renderings: u32) -> Result<Value> {
    let path = format!("{DISTRIBUTIONS}/web");
    let what = format!("{renderings} renderings are everywhere");
    fixture
        .until_hub(&path, &what, |found| {
            let status = &found["status"];
            status["renderings"] == renderings
                && status["rollout"]["phase"] == "Complete"
                && status["rollout"]["revision"] == status["digest"]
        })
        .await
}

async fn applied(fixture: &Distributing) -> Result<()> {
    let files = [
        ("web/Chart.yaml", CHART),
        ("web/crds/own.yaml", OWN),
        ("web/templates/settings.yaml", SETTINGS),
        ("web/templates/widgets.yaml", WIDGETS),
        ("web/templates/secret.yaml", SECRET),
    ];
    fixture.apply(&archive("chart", &files)).await?;
    let source = json!({"helm": {"configMapRef": {"name": "chart", "key": "archive.tgz"}}});
    let mut set = distribution("web", &source, &clusters(&["member1", "member2"]));
    set["spec"]["rollout"] = json!({"waves": [{"clusterAffinity": {"clusterNames": ["member1"]}}]});
    set["spec"]["serviceAccountName"] = "admin".into();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "admin-of-sets"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "admin", "namespace": "default"}],
    });
    fixture.apply(&binding).await?;
    fixture.apply(&set).await?;
    Ok(())
}

#[tokio::test]
async fn members_that_differ_have_variants_and_random_values_stay() -> Tested {
    let fixture = start_with(2).await?;
    applied(&fixture).await?;
    for member in [1, 2] {
        until_widgets(&fixture, member, "false").await?;
    }
    let first = password(&fixture, 1).await?;
    assert_eq!(
        first.0,
        password(&fixture, 2).await?.0,
        "it is rendered once"
    );
    let one = until_complete(&fixture, 1).await?;

    // One of them gets a definition that the chart asks for.
    fixture.members[0].apply(DEFINITION, &definition()).await?;
    until_widgets(&fixture, 1, "true").await?;
    let widgets = path_of(&config_map("widgets", ""))?;
    fixture
        .until_member(1, &widgets, "it is there", |_| true)
        .await?;
    let two = until_complete(&fixture, 2).await?;
    assert_ne!(one["status"]["digest"], two["status"]["digest"]);
    assert_eq!(two["status"]["kubernetesVersions"], json!(["1.36.3"]));
    assert_eq!(fixture.members[1].find(&widgets).await?, None);
    let of_second = password(&fixture, 2).await?;
    assert_eq!(of_second.0, first.0, "the other one is not rendered again");
    let of_first = password(&fixture, 1).await?;
    assert_ne!(of_first.0, first.0);

    // Another process has the same.
    fixture.operator.restart_until_ready(DEADLINE).await?;
    let other = distribution("other", &inline(&[config_map("other", "1")]), &json!({}));
    fixture.apply(&other).await?;
    until_reason(&fixture, "other", "Ready", "Ready").await?;
    until_reason(&fixture, "web", "Ready", "Ready").await?;
    assert_eq!(password(&fixture, 1).await?, of_first);
    assert_eq!(password(&fixture, 2).await?, of_second);

    // Without the definition it has the variant of the other one again, by the same revision.
    fixture.members[0].delete(DEFINITION).await?;
    until_widgets(&fixture, 1, "false").await?;
    fixture.until_gone(1, &widgets).await?;
    fixture
        .until_member(1, SECRET_PATH, "the password of before", |found| {
            found["data"]["password"] == first.0
        })
        .await?;
    let last = until_complete(&fixture, 2).await?;
    assert_eq!(last["status"]["digest"], two["status"]["digest"]);
    assert_eq!(password(&fixture, 2).await?, of_second);
    Ok(())
}
