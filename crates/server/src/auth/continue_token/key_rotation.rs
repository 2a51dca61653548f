//! Shares the keys of continue tokens among replicas, in a Secret that the first replica to check
//! it fills and rotates.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_telemetry::Readiness;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::keys::{KeyRing, SealingKeys};
use crate::auth::shared_secret::{SecretError, SecretUpdate, SharedSecret};

/// Interval between checks of the Secret.
const INTERVAL: Duration = Duration::from_secs(30);
/// Pause after a failed check.
const KEY_RETRY: Duration = Duration::from_secs(5);
/// The check on `/readyz`.
const CHECK: &str = "continue tokens";

/// Keeps [`SealingKeys`] equal to those in a Secret, and rotates them there.
#[derive(Debug)]
pub struct KeyRotation {
    keys: SealingKeys,
    secret: SharedSecret,
    readiness: Readiness,
    /// Whether the keys are those of the Secret. Until then tokens are valid in this process alone.
    is_shared: bool,
}

impl KeyRotation {
    /// Checks the Secret for the first time.
    pub async fn start(keys: SealingKeys, secret: SharedSecret, readiness: Readiness) -> Self {
        let mut rotation = Self {
            keys,
            secret,
            readiness,
            is_shared: false,
        };
        rotation.check().await;
        rotation
    }

    /// Checks the Secret periodically until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut pause = INTERVAL;
        while cancel.run_until_cancelled(sleep(pause)).await.is_some() {
            pause = match cancel.run_until_cancelled(self.check()).await {
                Some(true) => INTERVAL,
                _ => KEY_RETRY,
            };
        }
    }

    /// Updates the keys and reports readiness; `false` if that failed.
    async fn check(&mut self) -> bool {
        match self.update().await {
            Ok(()) => {
                self.readiness.ready(CHECK);
                true
            }
            Err(error) => {
                let problem = causes(&error);
                tracing::warn!(error = problem, "cannot update the keys of continue tokens");
                self.readiness.degraded(CHECK, problem);
                false
            }
        }
    }

    async fn update(&mut self) -> Result<(), SecretError> {
        let now = Timestamp::now().as_second();
        // Restores shared keys that have been removed from the Secret.
        let ours = if self.is_shared {
            self.keys.ring()
        } else {
            KeyRing::default()
        };
        let reconciled = self.secret.reconcile(|data| Ok(update(data, &ours, now)));
        let ring = reconciled.await?;
        self.keys.replace(ring);
        self.is_shared = true;
        Ok(())
    }
}

/// The keys to use from now on, and the Secret's new data if they differ.
fn update(
    data: Option<&BTreeMap<String, ByteString>>,
    ours: &KeyRing,
    now: i64,
) -> SecretUpdate<KeyRing> {
    let found = data.map(KeyRing::read).unwrap_or_default();
    let known = if found.is_empty() {
        ours.clone()
    } else {
        found.clone()
    };
    let ring = known.rotated(now).unwrap_or_else(|| known.clone());
    if ring.data() == found.data() {
        return SecretUpdate {
            value: ring,
            data: None,
        };
    }
    let outdated = found.data();
    let mut data = data.cloned().unwrap_or_default();
    data.retain(|name, _| !outdated.contains_key(name));
    data.extend(ring.data());
    SecretUpdate {
        value: ring,
        data: Some(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{continue_token::SealingKey, shared_secret::fake};

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 24 * 3600;

    #[test]
    fn the_first_replica_creates_and_rotates_the_keys() {
        let first = update(None, &KeyRing::default(), NOW);
        let stored = first.data.unwrap();
        assert_eq!(stored.len(), 1);
        assert!(
            update(Some(&stored), &KeyRing::default(), NOW + DAY - 1)
                .data
                .is_none()
        );
        let both = update(Some(&stored), &KeyRing::default(), NOW + DAY)
            .data
            .unwrap();
        assert_eq!(both.len(), 2);
        let second = update(Some(&both), &KeyRing::default(), NOW + DAY + 3600)
            .data
            .unwrap();
        assert_eq!(second.len(), 1);
        assert!(
            both.keys().last() == second.keys().next(),
            "{both:?} {second:?}"
        );
    }

    #[test]
    fn removed_keys_are_restored_and_other_data_stay() {
        let ours = KeyRing::of(SealingKey::generate(NOW).unwrap());
        let note = BTreeMap::from([("note".to_owned(), ByteString(b"by hand".to_vec()))]);
        let stored = update(Some(&note), &ours, NOW + 60).data.unwrap();
        assert_eq!(stored["note"].0, b"by hand");
        assert_eq!(KeyRing::read(&stored).data(), ours.data());
    }

    #[tokio::test]
    async fn replicas_that_start_together_share_their_keys() {
        let (_holder, client) = fake::holder(None);
        let start = || {
            let keys = SealingKeys::default();
            let secret = SharedSecret::new(client.clone(), "search", "fleetdex-continue-tokens");
            async move {
                KeyRotation::start(keys, secret, Readiness::new())
                    .await
                    .keys
                    .ring()
                    .data()
            }
        };
        let (one, other) = tokio::join!(start(), start());
        assert!(one == other && one.len() == 1);
    }

    #[tokio::test]
    async fn without_the_secret_tokens_are_valid_in_this_process_and_readyz_is_degraded() {
        let client = fake::refusing();
        let (keys, readiness) = (SealingKeys::default(), Readiness::new());
        let secret = SharedSecret::new(client, "search", "fleetdex-continue-tokens");
        KeyRotation::start(keys.clone(), secret, readiness.clone()).await;
        assert!(readiness.is_ready());
        let report = readiness.report();
        let expected =
            "[+]continue tokens degraded: cannot read Secret search/fleetdex-continue-tokens: ";
        assert!(report.starts_with(expected), "{report}");
        let sealed = keys.seal(b"x".to_vec(), NOW).unwrap();
        assert_eq!(keys.open(&sealed).as_deref(), Ok(&b"x"[..]));
    }
}
