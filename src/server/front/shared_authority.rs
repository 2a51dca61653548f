//! The authority of our own in a Secret, which all replicas use: the first that writes it wins.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::certificate::{Authority, CertificateError};

/// The Secret's keys.
const CERTIFICATES: &str = "ca.crt";
const KEY: &str = "ca.key";
/// How long the control plane may take for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look again when another replica writes at the same time.
const ATTEMPTS: usize = 4;

/// The Secret cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
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
    /// No authority could be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The Secret of the authority.
#[derive(Clone, Debug)]
pub struct SharedAuthority {
    secrets: Api<Secret>,
    namespace: String,
    name: String,
}

impl SharedAuthority {
    /// The Secret of this name.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { secrets: Api::namespaced(client, namespace), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The authority that counts now: what is in the Secret, or a new one if that is missing, broken or old.
    pub async fn current(&self) -> Result<Authority, AuthorityError> {
        for _ in 0..ATTEMPTS {
            let found = self.call("read", self.secrets.get_opt(&self.name)).await?;
            let known = found.as_ref().and_then(read);
            if let Some(good) = known.as_ref().filter(|authority| authority.is_good()) {
                return Ok(good.clone());
            }
            let made = Authority::make(known.as_ref())?;
            if self.write(found, &made).await? {
                return Ok(made);
            }
        }
        Err(AuthorityError::Contended(format!("{}/{}", self.namespace, self.name)))
    }

    /// Whether it was written: `false` if somebody else has written since it was read.
    async fn write(&self, found: Option<Secret>, authority: &Authority) -> Result<bool, AuthorityError> {
        let parameters = PostParams::default();
        let data = BTreeMap::from([(CERTIFICATES.to_owned(), &authority.certificates), (KEY.to_owned(), &authority.key)]);
        let data = data.into_iter().map(|(key, text)| (key, ByteString(text.clone().into_bytes())));
        let written = match found {
            Some(mut secret) => {
                secret.data.get_or_insert_default().extend(data);
                self.call("write", self.secrets.replace(&self.name, &parameters, &secret)).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let secret = Secret { metadata, data: Some(data.collect()), ..Secret::default() };
                self.call("create", self.secrets.create(&parameters, &secret)).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(AuthorityError::Refused { source, .. }) if is_conflict(&source) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn call<T>(&self, doing: &'static str, request: impl Future<Output = kube::Result<T>>) -> Result<T, AuthorityError> {
        let refused = |source| AuthorityError::Refused {
            doing,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            source: Box::new(source),
        };
        timeout(TIMEOUT, request).await.map_err(|_| AuthorityError::Timeout)?.map_err(refused)
    }
}

fn read(secret: &Secret) -> Option<Authority> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Authority { certificates: text(CERTIFICATES)?, key: text(KEY)? })
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::Barrier;
    use tower::service_fn;

    use super::*;

    /// A control plane with room for one Secret.
    struct Holder {
        secret: Mutex<Option<Value>>,
        /// The first requests wait for each other, so that both replicas find nothing.
        first: Barrier,
        reads: Mutex<usize>,
    }

    impl Holder {
        async fn answer(&self, request: Request<Body>) -> (u16, Value) {
            let (head, body) = request.into_parts();
            let sent: Option<Value> = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).ok();
            if head.method == Method::GET {
                let found = self.secret.lock().unwrap().clone();
                let number = {
                    let mut reads = self.reads.lock().unwrap();
                    *reads += 1;
                    *reads
                };
                if number <= 2 {
                    self.first.wait().await;
                }
                return found.map_or_else(|| status(404, "NotFound"), |secret| (200, secret));
            }
            let mut held = self.secret.lock().unwrap();
            let version = |secret: &Value| secret["metadata"]["resourceVersion"].as_str().map_or(0, |text| text.parse().unwrap());
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

    fn holder(secret: Option<Value>) -> (Arc<Holder>, Client) {
        let holder = Arc::new(Holder { secret: Mutex::new(secret), first: Barrier::new(2), reads: Mutex::new(0) });
        let held = Arc::clone(&holder);
        let service = service_fn(move |request| {
            let holder = Arc::clone(&held);
            async move {
                let (code, answer) = holder.answer(request).await;
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        (holder, Client::new(service, "search"))
    }

    /// What two replicas that begin at the same time use.
    async fn of_two_replicas(client: &Client) -> (Authority, Authority) {
        let replica = || SharedAuthority::new(client.clone(), "search", "fleetdex-serving");
        let (one, other) = (replica(), replica());
        let (one, other) = tokio::join!(one.current(), other.current());
        (one.unwrap(), other.unwrap())
    }

    #[tokio::test]
    async fn replicas_that_begin_together_use_the_authority_of_the_first_that_wrote_it() {
        let empty =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleetdex-serving", "resourceVersion": "7" } });
        for secret in [None, Some(empty)] {
            let (holder, client) = holder(secret);
            let (one, other) = of_two_replicas(&client).await;
            assert_eq!(one, other);
            let later = SharedAuthority::new(client, "search", "fleetdex-serving").current().await.unwrap();
            assert_eq!(later, one);
            let held = holder.secret.lock().unwrap().clone().unwrap();
            assert!(held["data"]["ca.key"].is_string() && held["data"]["ca.crt"].is_string());
        }
    }

    #[tokio::test]
    async fn an_authority_that_is_broken_is_replaced_and_its_certificate_still_counts() {
        let old = Authority::make(None).unwrap();
        let data = json!({ "ca.crt": ByteString(old.certificates.clone().into_bytes()), "ca.key": ByteString(b"lost".to_vec()) });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleetdex-serving", "resourceVersion": "1" }, "data": data });
        let (_holder, client) = holder(Some(secret));
        let (one, other) = of_two_replicas(&client).await;
        assert_eq!(one, other);
        assert!(one.is_good() && one.certificates.ends_with(&old.certificates));
    }
}
