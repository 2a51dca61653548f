//! What all replicas of an installation share in a Secret: the first that writes it wins.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::certificate::CertificateError;

/// How long the control plane may take for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look again when another replica writes at the same time.
const ATTEMPTS: usize = 4;

/// The Secret cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The control plane gave no answer.
    #[error("the control plane does not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The control plane refused.
    #[error("cannot {doing} Secret {namespace}/{name}")]
    Refused {
        /// What was to be done.
        doing: &'static str,
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// Others write it all the time.
    #[error("Secret {0} changes all the time")]
    Contended(String),
    /// No authority could be made to be put into it.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// What is to count from now on.
#[derive(Debug)]
pub struct Wanted<T> {
    /// What the Secret then stands for.
    pub value: T,
    /// Its data, if they have to change.
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

    /// What all replicas agree on. `decide` looks at the data that are there, if the Secret is, and is asked again when another replica has
    /// written meanwhile.
    pub async fn settle<T>(
        &self,
        decide: impl Fn(Option<&BTreeMap<String, ByteString>>) -> Result<Wanted<T>, SecretError>,
    ) -> Result<T, SecretError> {
        for _ in 0..ATTEMPTS {
            let found = self.call("read", self.secrets.get_opt(&self.name)).await?;
            let Wanted { value, data } =
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

    /// Whether it was written: `false` if another replica has written since it was read.
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
        doing: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, SecretError> {
        let refused = |source| SecretError::Refused {
            doing,
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

    /// A control plane with room for one Secret.
    pub(crate) struct Holder {
        pub(crate) secret: Mutex<Option<Value>>,
        /// The first requests wait for each other, so that both replicas find nothing.
        first: Barrier,
        reads: Mutex<usize>,
    }

    impl Holder {
        async fn answer(&self, request: Request<Body>) -> (u16, Value) {
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

    fn response((code, answer): (u16, Value)) -> Response<Body> {
        Response::builder()
            .status(code)
            .body(Body::from(answer.to_string().into_bytes()))
            .unwrap()
    }

    /// Whoever reads first waits for the second one who reads.
    pub(crate) fn holder(secret: Option<Value>) -> (Arc<Holder>, Client) {
        let holder = Arc::new(Holder {
            secret: Mutex::new(secret),
            first: Barrier::new(2),
            reads: Mutex::new(0),
        });
        let held = Arc::clone(&holder);
        let service = service_fn(move |request| {
            let holder = Arc::clone(&held);
            async move { Ok::<_, Infallible>(response(holder.answer(request).await)) }
        });
        (holder, Client::new(service, "search"))
    }

    /// Forbids everything.
    pub(crate) fn refusing() -> Client {
        Client::new(
            service_fn(|_: Request<Body>| async {
                Ok::<_, Infallible>(response(status(403, "Forbidden")))
            }),
            "search",
        )
    }
}
