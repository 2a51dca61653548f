//! The certificate authority of the serving certificates, in a Secret that all replicas share.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::Client;

use super::{
    certificate::CertificateAuthority,
    shared_secret::{SecretError, SecretUpdate, SharedSecret},
};

/// The Secret's keys.
const CERTIFICATES: &str = "ca.crt";
const KEY: &str = "ca.key";

/// The Secret that holds the certificate authority.
#[derive(Clone, Debug)]
pub struct SharedAuthority(SharedSecret);

impl SharedAuthority {
    /// The Secret of this name.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self(SharedSecret::new(client, namespace, name))
    }

    /// The current certificate authority: the Secret's, or a new one where that is missing, broken
    /// or due for renewal.
    pub async fn current(&self) -> Result<CertificateAuthority, SecretError> {
        self.0
            .reconcile(|data| {
                let known = data.and_then(read);
                if let Some(good) = known.as_ref().filter(|authority| authority.is_good()) {
                    return Ok(SecretUpdate {
                        value: good.clone(),
                        data: None,
                    });
                }
                let made = CertificateAuthority::create(known.as_ref())?;
                let texts = [(CERTIFICATES, &made.certificates), (KEY, &made.key)];
                let texts = texts
                    .map(|(name, text)| (name.to_owned(), ByteString(text.clone().into_bytes())));
                let mut data = data.cloned().unwrap_or_default();
                data.extend(texts);
                Ok(SecretUpdate {
                    value: made,
                    data: Some(data),
                })
            })
            .await
    }
}

fn read(data: &BTreeMap<String, ByteString>) -> Option<CertificateAuthority> {
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(CertificateAuthority {
        certificates: text(CERTIFICATES)?,
        key: text(KEY)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::shared_secret::fake::holder;

    /// What two replicas use that start at the same time.
    async fn of_two_replicas(client: &Client) -> (CertificateAuthority, CertificateAuthority) {
        let replica = || SharedAuthority::new(client.clone(), "search", "fleetdex-serving");
        let (one, other) = (replica(), replica());
        let (one, other) = tokio::join!(one.current(), other.current());
        (one.unwrap(), other.unwrap())
    }

    #[tokio::test]
    async fn replicas_that_start_together_share_the_authority_that_was_written_first() {
        let empty = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleetdex-serving", "resourceVersion": "7" } });
        for secret in [None, Some(empty)] {
            let (holder, client) = holder(secret);
            let (one, other) = of_two_replicas(&client).await;
            assert_eq!(one, other);
            let later = SharedAuthority::new(client, "search", "fleetdex-serving")
                .current()
                .await
                .unwrap();
            assert_eq!(later, one);
            let held = holder.secret.lock().clone().unwrap();
            assert!(held["data"]["ca.key"].is_string() && held["data"]["ca.crt"].is_string());
        }
    }

    #[tokio::test]
    async fn a_broken_authority_is_replaced_and_its_certificate_stays_trusted() {
        let old = CertificateAuthority::create(None).unwrap();
        let data = json!({ "ca.crt": ByteString(old.certificates.clone().into_bytes()), "ca.key": ByteString(b"lost".to_vec()) });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "fleetdex-serving", "resourceVersion": "1" }, "data": data });
        let (_holder, client) = holder(Some(secret));
        let (one, other) = of_two_replicas(&client).await;
        assert_eq!(one, other);
        assert!(one.is_good() && one.certificates.ends_with(&old.certificates));
    }
}
