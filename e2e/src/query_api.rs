//! Requests to the query API: with kubectl through the control plane, or directly to the operator.

use std::fs;

use anyhow::{Context, Result, ensure};
use fleetdex_operator::plan::store_name;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::{fleet::ApiServer, http, kubectl::Kubectl, objects::Objects, operator::Operator};

/// The media type of Tables, as kubectl sends it.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io";
/// The path of the query API, at the control plane and at the operator.
pub const GROUP: &str = "/apis/search.fleetdex.io/v1alpha1";

/// Creates the Service `search/fleetdex`, through which the control plane reaches an operator on
/// this machine.
pub async fn make_service(hub: &Objects) -> Result<()> {
    hub.create_namespace("search").await?;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "fleetdex" },
        "spec": { "type": "ExternalName", "externalName": "localhost" } });
    hub.apply("api/v1/namespaces/search/services/fleetdex", &service)
        .await
        .map(drop)
}

/// kubectl as a user of an API server.
pub fn kubectl_of(server: &ApiServer, user: &str) -> Result<Kubectl> {
    let path = server.kubeconfig().with_extension(user);
    fs::write(&path, server.kubeconfig_of(user)?)
        .with_context(|| format!("writing {}", path.display()))?;
    Kubectl::new(&path)
}

/// The response for a path below [`GROUP`].
pub async fn raw(kubectl: &Kubectl, path: &str) -> Result<Value> {
    let text = kubectl
        .run(&["get", "--raw", &format!("{GROUP}/{path}")])
        .await?;
    serde_json::from_str(&text).context(text)
}

/// kubectl's message when the request is refused; an error if it succeeds.
pub async fn refusal(kubectl: &Kubectl, path: &str) -> Result<String> {
    let output = kubectl
        .output(&["get", "--raw", &format!("{GROUP}/{path}")])
        .await?;
    ensure!(!output.success, "{path}: {}", output.stdout);
    Ok(output.stderr)
}

/// `cluster/namespace/name` of an object in a response.
pub fn name_of(object: &Value) -> Result<String> {
    let metadata = &object["metadata"];
    let text = |value: &Value| {
        value
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no cluster, namespace or name: {object}"))
    };
    let cluster = text(&metadata["annotations"]["resource.karmada.io/cached-from-cluster"])?;
    Ok(format!(
        "{cluster}/{}/{}",
        text(&metadata["namespace"])?,
        text(&metadata["name"])?
    ))
}

/// `cluster/namespace/name` of each object of a list, in its order.
pub fn names_of<C: FromIterator<String>>(list: &Value) -> Result<C> {
    list["items"]
        .as_array()
        .with_context(|| format!("no list: {list}"))?
        .iter()
        .map(name_of)
        .collect()
}

/// The name of the store at one address.
pub fn store_at(url: &str, prefix: &str) -> Result<String> {
    let name = store_name(&[url.to_owned()], &prefix.parse()?);
    Ok(name.context("no address")?.to_string())
}

/// A request of the holder of an operator's token, for a path below [`GROUP`].
pub fn request(operator: &Operator, path: &str) -> Result<RequestBuilder> {
    let url = format!("http://{}{GROUP}/{path}", operator.api_address());
    Ok(http::client(None)?.get(url).bearer_auth(operator.token()?))
}

/// A client of the holder of an operator's token, for what is below `search` and this path.
pub fn kube_client(operator: &Operator, path: &str) -> Result<kube::Client> {
    let url = format!("http://{}{GROUP}/search{path}", operator.api_address());
    let mut config = kube::Config::new(url.parse()?);
    config.auth_info.token = Some(operator.token()?.into());
    Ok(kube::Client::try_from(config)?)
}

/// The names that a field selector finds in a store, or the refusal.
pub async fn names_by_field(
    operator: &Operator,
    store: &str,
    path: &str,
    selector: &str,
) -> Result<std::result::Result<Vec<String>, String>> {
    let response = request(operator, &format!("search/{path}"))?
        .query(&[("fieldSelector", selector), ("store", store)])
        .send()
        .await?;
    let is_refused = response.status() == StatusCode::BAD_REQUEST;
    let answer: Value = response.json().await?;
    if is_refused {
        return Ok(Err(answer["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()));
    }
    bare_names_of(&answer).map(Ok)
}

/// A list over all clusters, or those that the query names, and its warnings, sorted. `path` is a
/// Kubernetes path.
pub async fn list_with_warnings(operator: &Operator, path: &str) -> Result<(Value, Vec<String>)> {
    let url = format!("search/{path}");
    let request = request(operator, &url)?.send();
    let response = request.await.with_context(|| url.clone())?;
    let status = response.status();
    let warnings = response.headers().get_all("warning").iter();
    let mut warnings: Vec<String> = warnings
        .map(|value| value.to_str().unwrap_or_default().to_owned())
        .collect();
    warnings.sort();
    let list: Value = response.json().await.with_context(|| url.clone())?;
    ensure!(status.is_success(), "{url}: {status}: {list}");
    Ok((list, warnings))
}

/// The plain names of the objects of a list, in its order.
pub fn bare_names_of(list: &Value) -> Result<Vec<String>> {
    let items = list["items"]
        .as_array()
        .with_context(|| format!("no list: {list}"))?;
    Ok(items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .map(str::to_owned)
        .collect())
}
