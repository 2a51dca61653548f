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
