//! The authority of our own in a Secret, which all replicas use.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::Client;

use super::{
    certificate::Authority,
    shared_secret::{SecretError, SharedSecret, Wanted},
};

/// The Secret's keys.
const CERTIFICATES: &str = "ca.crt";
const KEY: &str = "ca.key";

/// The Secret of the authority.
#[derive(Clone, Debug)]
pub struct SharedAuthority(SharedSecret);

impl SharedAuthority {
    /// The Secret of this name.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self(SharedSecret::new(client, namespace, name))
    }

    /// The authority that counts now: what is in the Secret, or a new one if that is missing, broken or old.
    pub async fn current(&self) -> Result<Authority, SecretError> {
        self.0
            .settle(|data| {
                let known = data.and_then(read);
                if let Some(good) = known.as_ref().filter(|authority| authority.is_good()) {
                    return Ok(Wanted {
                        value: good.clone(),
                        data: None,
                    });
                }
                let made = Authority::make(known.as_ref())?;
                let texts = [(CERTIFICATES, &made.certificates), (KEY, &made.key)];
                let texts = texts
                    .map(|(name, text)| (name.to_owned(), ByteString(text.clone().into_bytes())));
                let mut data = data.cloned().unwrap_or_default();
                data.extend(texts);
                Ok(Wanted {
                    value: made,
                    data: Some(data),
                })
            })
            .await
    }
}

fn read(data: &BTreeMap<String, ByteString>) -> Option<Authority> {
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Authority {
        certificates: text(CERTIFICATES)?,
        key: text(KEY)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::front::shared_secret::fake::holder;

    /// What two replicas that begin at the same time use.
    async fn of_two_replicas(client: &Client) -> (Authority, Authority) {
        let replica = || SharedAuthority::new(client.clone(), "search", "fleetdex-serving");
        let (one, other) = (replica(), replica());
        let (one, other) = tokio::join!(one.current(), other.current());
        (one.unwrap(), other.unwrap())
    }

    #[tokio::test]
    async fn replicas_that_begin_together_use_the_authority_of_the_first_that_wrote_it() {
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
