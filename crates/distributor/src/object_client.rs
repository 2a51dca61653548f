//! Reads and writes single objects of a cluster, with server-side apply.
//!
//! Guarantee: nothing is written while another replica may be the one that writes.

use std::time::Duration;

use fleetdex_clusters::request::{self, RequestError};
use fleetdex_core::{
    model::{Resource, Scope},
    planted::{Bug, planted},
};
use fleetdex_distribution::template_name::TemplateName;
use fleetdex_replicas::write_fence::WriteFence;
use http::{Method, Request, StatusCode, header};
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// The field manager of everything that is distributed, and of bindings.
pub const FIELD_MANAGER: &str = "fleetdex-distribution";

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why an object was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ObjectRequestError {
    /// The server has refused it, or did not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Another replica writes.
    #[error("another replica of Fleetdex writes now")]
    Fenced,
    /// The name cannot be part of a path.
    #[error("{0:?} is no name of an object, or another one has it")]
    Name(String),
}

impl ObjectRequestError {
    /// The HTTP status of the answer.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Request(error) => error.status(),
            Self::Fenced | Self::Name(_) => None,
        }
    }
}

/// A part of an object that is written apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// All of it but its status.
    Main,
    /// Its status.
    Status,
}

/// Reads and writes objects of one resource.
#[derive(Clone)]
pub struct ObjectClient {
    client: Client,
    resource: Resource,
    fence: WriteFence,
}

impl ObjectClient {
    /// Objects of a resource of one cluster.
    pub fn new(client: Client, resource: Resource, fence: WriteFence) -> Self {
        Self {
            client,
            resource,
            fence,
        }
    }

    /// An object as it is now; `None`: there is none.
    pub async fn get(&self, name: &TemplateName) -> Result<Option<Value>, ObjectRequestError> {
        let path = self.path(name, ObjectPart::Main)?;
        match self.send(Method::GET, &path, "", &Value::Null).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies an object: fields that it does not have any more go, and those of others stay.
    /// Returns the object as the server has stored it.
    pub async fn apply(
        &self,
        name: &TemplateName,
        object: &Value,
        part: ObjectPart,
    ) -> Result<Value, ObjectRequestError> {
        let query = format!("?fieldManager={FIELD_MANAGER}&force=true");
        let path = self.path(name, part)? + &query;
        self.write(Method::PATCH, &path, "application/apply-patch+yaml", object)
            .await
    }

    /// Makes an object; an error of status 409: there is one of its name.
    pub async fn create(
        &self,
        name: &TemplateName,
        object: &Value,
    ) -> Result<Value, ObjectRequestError> {
        let path = self.path(name, ObjectPart::Main)?;
        let collection = path.rsplit_once('/').map_or(&*path, |(above, _)| above);
        let path = format!("{collection}?fieldManager={FIELD_MANAGER}");
        self.write(Method::POST, &path, "application/json", object)
            .await
    }

    /// Changes some members of an object.
    pub async fn merge(
        &self,
        name: &TemplateName,
        patch: &Value,
        part: ObjectPart,
    ) -> Result<Value, ObjectRequestError> {
        let query = format!("?fieldManager={FIELD_MANAGER}");
        let path = self.path(name, part)? + &query;
        self.write(Method::PATCH, &path, "application/merge-patch+json", patch)
            .await
    }

    /// Deletes an object in the background, if it is the one with this UID, and in this version.
    /// That there is none any more is as good.
    pub async fn delete(
        &self,
        name: &TemplateName,
        uid: &str,
        version: Option<u64>,
    ) -> Result<(), ObjectRequestError> {
        let path = self.path(name, ObjectPart::Main)?;
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        });
        if let Some(version) = version {
            options["preconditions"]["resourceVersion"] = version.to_string().into();
        }
        if planted(Bug::DistributionDeletesAnyUid) {
            options["preconditions"] = Value::Null;
        }
        let deleted = self
            .write(Method::DELETE, &path, "application/json", &options)
            .await;
        match deleted {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(()),
            other => other.map(drop),
        }
    }

    fn path(&self, name: &TemplateName, part: ObjectPart) -> Result<String, ObjectRequestError> {
        let invalid = || ObjectRequestError::Name(name.name.clone());
        let is_segment = |text: &str| {
            !text.is_empty()
                && !matches!(text, "." | "..")
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
        };
        let scope = if self.resource.namespaced {
            let namespace = Some(&name.namespace).filter(|text| is_segment(text));
            let namespace = namespace.and_then(|text| text.parse().ok());
            Scope::Namespace(namespace.ok_or_else(invalid)?)
        } else {
            Scope::All
        };
        if !is_segment(&name.name) {
            return Err(invalid());
        }
        let mut path = format!("{}/{}", self.resource.path(&scope), name.name);
        if part == ObjectPart::Status {
            path.push_str("/status");
        }
        Ok(path)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
    ) -> Result<Value, ObjectRequestError> {
        if !self.fence.is_open() {
            return Err(ObjectRequestError::Fenced);
        }
        self.send(method, path, content_type, body).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
    ) -> Result<Value, ObjectRequestError> {
        let mut request = Request::builder().method(method).uri(path);
        let body = if content_type.is_empty() {
            Body::empty()
        } else {
            request = request.header(header::CONTENT_TYPE, content_type);
            Body::from(body.to_string().into_bytes())
        };
        let request = request
            .body(body)
            .map_err(|_| ObjectRequestError::Name(path.to_owned()))?;
        let response = request::send(&self.client, request, TIMEOUT).await?;
        let object = serde_json::from_slice(&response.body);
        Ok(object.map_err(|error| RequestError::unreadable(path, &error))?)
    }
}
