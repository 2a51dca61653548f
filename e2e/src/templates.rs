//! Many templates of one policy, for measuring distribution.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::objects::Objects;

/// The namespace of the templates.
pub const NAMESPACE: &str = "distribute";
/// Requests of [`apply_all`] under way at a time.
const CONCURRENT: usize = 16;

/// Applies the first version of all templates in a namespace.
pub async fn apply_all(objects: &Objects, namespace: &str, templates: usize) -> Result<()> {
    stream::iter(0..templates)
        .map(|number| async move {
            let object = template(namespace, number, 0);
            objects.apply(&path(namespace, number), &object).await
        })
        .buffer_unordered(CONCURRENT)
        .try_for_each(|_| async { Ok(()) })
        .await
}

/// The path of a template, and of its copies.
pub fn path(namespace: &str, number: usize) -> String {
    format!(
        "apis/apps/v1/namespaces/{namespace}/deployments/{}",
        name(number)
    )
}

/// The path of a template's binding.
pub fn binding_path(number: usize) -> String {
    format!(
        "apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/{}-deployment",
        name(number)
    )
}

fn name(number: usize) -> String {
    format!("web-{number:05}")
}

/// A Deployment; each version has another image.
pub fn template(namespace: &str, number: usize, version: usize) -> Value {
    let name = name(number);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, "team": "shop"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "web", "image": format!("registry.example.com/shop/web:{version}"),
                    "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "north"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }]},
            },
        },
    })
}

/// The image of a Deployment.
pub fn image(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]["image"]
}

/// Applies a policy that places all templates in all clusters.
pub async fn apply_policy(hub: &Objects) -> Result<()> {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "all"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE},
            ],
            "placement": {},
        },
    });
    hub.apply(
        "apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/all",
        &policy,
    )
    .await
    .map(drop)
}
