//! Objects of one API server as plain JSON: without types and caches between a test and the server.

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{fleet::ApiServer, http};

/// A client of one API server. It belongs to the async runtime that made it: make one per test.
///
/// Paths have no leading slash, such as `api/v1/namespaces/default/configmaps`.
#[derive(Debug, Clone)]
pub struct Objects {
    server: String,
    url: String,
    token: String,
    client: reqwest::Client,
}

impl Objects {
    /// The objects of a server, as its administrator.
    pub fn of(server: &ApiServer) -> Result<Self> {
        Ok(Self {
            server: server.name().to_owned(),
            url: server.url().to_owned(),
            token: server.token().to_owned(),
            client: http::client(Some(server.ca_pem()))?,
        })
    }

    /// An object, or a consistent list of a collection.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let found = self.find(path).await?;
        found.with_context(|| format!("{}: there is no {path}", self.server))
    }

    /// An object that may be absent.
    pub async fn find(&self, path: &str) -> Result<Option<Value>> {
        let (status, body) = self
            .send(Method::GET, path, "application/json", None)
            .await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        ensure!(
            status.is_success(),
            "{}: GET {path}: {status}: {body}",
            self.server
        );
        Ok(Some(body))
    }

    /// Creates an object in a collection.
    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        self.checked(Method::POST, collection, "application/json", Some(object))
            .await
    }

    /// Applies an object server-side: creates it, or replaces the fields of an earlier call.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager=e2e&force=true");
        self.checked(
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            Some(object),
        )
        .await
    }

    /// Merge-patches the given fields; null removes a field.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.checked(
            Method::PATCH,
            path,
            "application/merge-patch+json",
            Some(patch),
        )
        .await
    }

    /// PUT: replaces an object.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value> {
        self.checked(Method::PUT, path, "application/json", Some(object))
            .await
    }

    /// Deletes an object without a grace period; succeeds if it is absent.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let options =
            json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0 });
        let (status, body) = self
            .send(Method::DELETE, path, "application/json", Some(&options))
            .await?;
        let is_gone = status.is_success() || status == StatusCode::NOT_FOUND;
        ensure!(is_gone, "{}: DELETE {path}: {status}: {body}", self.server);
        Ok(())
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) -> Result<()> {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&format!("api/v1/namespaces/{name}"), &namespace)
            .await
            .map(drop)
    }

    /// Creates a `ConfigMap`, or replaces its data.
    pub async fn apply_config_map(
        &self,
        namespace: &str,
        name: &str,
        data: &Value,
    ) -> Result<Value> {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        self.apply(&config_map_path(namespace, name), &object).await
    }

    /// A `ConfigMap`.
    pub async fn get_config_map(&self, namespace: &str, name: &str) -> Result<Value> {
        self.get(&config_map_path(namespace, name)).await
    }

    /// Merge-patches a `ConfigMap`.
    pub async fn merge_config_map(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value> {
        self.merge(&config_map_path(namespace, name), patch).await
    }

    /// Deletes a `ConfigMap`; succeeds if it is absent.
    pub async fn delete_config_map(&self, namespace: &str, name: &str) -> Result<()> {
        self.delete(&config_map_path(namespace, name)).await
    }

    /// Creates a service account with `cluster-admin`, and returns a token of it. Deleting the
    /// account invalidates the token a few seconds later.
    pub async fn service_account_token(&self, name: &str) -> Result<String> {
        self.service_account_token_with(name, "cluster-admin").await
    }

    /// Creates a service account with a `ClusterRole`, and returns a token of it.
    pub async fn service_account_token_with(&self, name: &str, role: &str) -> Result<String> {
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
        self.apply(&service_account_path(name), &account).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": "default" }],
        });
        let path = format!("apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}");
        self.apply(&path, &binding).await?;
        let request =
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
        let answer = self
            .create(&format!("{}/token", service_account_path(name)), &request)
            .await?;
        let token = answer["status"]["token"].as_str();
        Ok(token
            .with_context(|| format!("{}: no token for {name}", self.server))?
            .to_owned())
    }

    /// Sets a `ClusterRole` that allows reading exactly these resources of the core group.
    pub async fn grant(&self, role: &str, resources: &[&str]) -> Result<()> {
        let rule =
            json!({ "apiGroups": [""], "resources": resources, "verbs": ["get", "list", "watch"] });
        let kind = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": role }, "rules": [rule],
        });
        self.apply(
            &format!("apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"),
            &kind,
        )
        .await
        .map(drop)
    }

    /// A token of a service account, bound to a new Secret of namespace `default`: valid while the
    /// Secret exists.
    pub async fn token_bound_to(&self, secret: &str, account: &str) -> Result<String> {
        let object =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret } });
        let path = format!("api/v1/namespaces/default/secrets/{secret}");
        let made = self.apply(&path, &object).await?;
        let bound = json!({ "kind": "Secret", "apiVersion": "v1", "name": secret, "uid": made["metadata"]["uid"] });
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "boundObjectRef": bound } });
        let path = format!("{}/token", service_account_path(account));
        let answer = self.create(&path, &request).await?;
        let token = answer["status"]["token"].as_str();
        Ok(token
            .with_context(|| format!("{}: no token for {account}", self.server))?
            .to_owned())
    }

    /// The same server, with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    async fn checked(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let (status, answer) = self.send(method.clone(), path, content_type, body).await?;
        ensure!(
            status.is_success(),
            "{}: {method} {path}: {status}: {answer}",
            self.server
        );
        Ok(answer)
    }

    /// Sends a request, and returns status and body of the response, also of an error.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value)> {
        let what = || format!("{}: {method} {path}", self.server);
        let mut request = self
            .client
            .request(method.clone(), format!("{}/{path}", self.url))
            .bearer_auth(&self.token);
        if let Some(body) = body {
            request = request
                .header("Content-Type", content_type)
                .body(body.to_string());
        }
        let response = request.send().await.with_context(what)?;
        let status = response.status();
        let text = response.text().await.with_context(what)?;
        Ok((
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        ))
    }
}

/// The path of a `ConfigMap`.
pub fn config_map_path(namespace: &str, name: &str) -> String {
    format!("api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// The path of a service account of the namespace `default`.
pub fn service_account_path(name: &str) -> String {
    format!("api/v1/namespaces/default/serviceaccounts/{name}")
}
