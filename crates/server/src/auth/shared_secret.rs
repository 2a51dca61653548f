//! A value that all replicas of an installation share in a Secret: the first replica to write it
//! wins.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::certificate::CertificateError;

/// Timeout of one request to the control plane.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts while other replicas write at the same time.
const ATTEMPTS: usize = 4;

/// The Secret cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The control plane did not respond.
    #[error("the control plane does not respond within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The control plane refused.
    #[error("cannot {operation} Secret {namespace}/{name}")]
    Refused {
        /// The operation.
        operation: &'static str,
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// The control plane's error.
        source: Box<kube::Error>,
    },
    /// Every write met a conflict with another one.
    #[error("cannot update Secret {0}: it keeps changing")]
    Contended(String),
    /// The certificate authority for it could not be created.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The value to use from now on.
#[derive(Debug)]
pub struct SecretUpdate<T> {
    /// The value.
    pub value: T,
    /// The Secret's new data, if they differ from the stored ones.
    pub data: Option<BTreeMap<String, ByteString>>,
}

/// A Secret that replicas share.
#[derive(Clone, Debug)]
pub struct SharedSecret {
    secrets: Api<Secret>,
    namespace: String,
    name: String,
}

impl SharedSecret {
    /// The Secret of this name.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            secrets: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The value that all replicas agree on. `decide` gets the Secret's data, if it exists, and
    /// runs again when another replica has written meanwhile.
    pub async fn reconcile<T>(
        &self,
        decide: impl Fn(Option<&BTreeMap<String, ByteString>>) -> Result<SecretUpdate<T>, SecretError>,
    ) -> Result<T, SecretError> {
        for _ in 0..ATTEMPTS {
            let found = self.call("read", self.secrets.get_opt(&self.name)).await?;
            let SecretUpdate { value, data } =
                decide(found.as_ref().and_then(|secret| secret.data.as_ref()))?;
            let Some(data) = data else { return Ok(value) };
            if self.write(found, data).await? {
                return Ok(value);
            }
        }
        Err(SecretError::Contended(format!(
            "{}/{}",
            self.namespace, self.name
        )))
    }

    /// Writes the Secret; `false` if another replica has written since it was read.
    async fn write(
        &self,
        found: Option<Secret>,
        data: BTreeMap<String, ByteString>,
    ) -> Result<bool, SecretError> {
        let parameters = PostParams::default();
        let written = match found {
            Some(secret) => {
                let secret = Secret {
                    data: Some(data),
                    ..secret
                };
                self.call(
                    "write",
                    self.secrets.replace(&self.name, &parameters, &secret),
                )
                .await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                };
                let secret = Secret {
                    metadata,
                    data: Some(data),
                    ..Secret::default()
                };
                self.call("create", self.secrets.create(&parameters, &secret))
                    .await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(SecretError::Refused { source, .. }) if is_conflict(&source) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, SecretError> {
        let refused = |source| SecretError::Refused {
            operation,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            source: Box::new(source),
        };
        timeout(TIMEOUT, request)
            .await
            .map_err(|_| SecretError::Timeout)?
            .map_err(refused)
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// A control plane with one Secret, for tests.
#[cfg(test)]
pub(crate) mod fake {
    use std::{convert::Infallible, sync::Arc};

    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::{Client, client::Body};
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::sync::Barrier;
    use tower::service_fn;

    /// A control plane that stores one Secret.
    pub(crate) struct Holder {
        pub(crate) secret: Mutex<Option<Value>>,
        /// The first two reads wait for each other, so that both replicas find nothing.
        first: Barrier,
        reads: Mutex<usize>,
    }

    impl Holder {
        async fn serve(&self, request: Request<Body>) -> (u16, Value) {
            let (head, body) = request.into_parts();
            let sent: Option<Value> =
                serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).ok();
            if head.method == Method::GET {
                let found = self.secret.lock().clone();
                let number = {
                    let mut reads = self.reads.lock();
                    *reads += 1;
                    *reads
                };
                if number <= 2 {
                    self.first.wait().await;
                }
                return found.map_or_else(|| status(404, "NotFound"), |secret| (200, secret));
            }
            let mut held = self.secret.lock();
            let version = |secret: &Value| {
                secret["metadata"]["resourceVersion"]
                    .as_str()
                    .map_or(0, |text| text.parse().unwrap())
            };
            let current: u64 = held.as_ref().map_or(0, version);
            let mut sent = sent.unwrap();
            let is_new = head.method == Method::POST;
            if is_new != held.is_none() || (!is_new && version(&sent) != current) {
                return status(409, "Conflict");
            }
            sent["metadata"]["resourceVersion"] = json!((current + 1).to_string());
            *held = Some(sent.clone());
            (201, sent)
        }
    }

    fn status(code: u16, reason: &str) -> (u16, Value) {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": reason });
        (code, status)
    }

    fn response((code, body): (u16, Value)) -> Response<Body> {
        Response::builder()
            .status(code)
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap()
    }

    /// The first read waits for the second.
    pub(crate) fn holder(secret: Option<Value>) -> (Arc<Holder>, Client) {
        let holder = Arc::new(Holder {
            secret: Mutex::new(secret),
            first: Barrier::new(2),
            reads: Mutex::new(0),
        });
        let held = Arc::clone(&holder);
        let service = service_fn(move |request| {
            let holder = Arc::clone(&held);
            async move { Ok::<_, Infallible>(response(holder.serve(request).await)) }
        });
        (holder, Client::new(service, "search"))
    }

    /// A control plane that forbids everything.
    pub(crate) fn refusing() -> Client {
        Client::new(
            service_fn(|_: Request<Body>| async {
                Ok::<_, Infallible>(response(status(403, "Forbidden")))
            }),
            "search",
        )
    }
}
