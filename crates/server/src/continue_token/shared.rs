//! Keeps the keys of continue tokens alike in all replicas: they are in a Secret, which whoever looks first fills and rotates.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_telemetry::Readiness;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::keys::{Keys, Ring};
use crate::front::shared_secret::{SecretError, SharedSecret, Wanted};

/// How often to look whether there are other keys.
const INTERVAL: Duration = Duration::from_secs(30);
/// How soon to look again after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// The check on `/readyz`.
const CHECK: &str = "continue tokens";

/// Keeps [`Keys`] as they are in a Secret.
#[derive(Debug)]
pub struct KeyKeeper {
    keys: Keys,
    secret: SharedSecret,
    readiness: Readiness,
    /// Whether the keys are those of the Secret. Until then tokens are good for this process alone.
    is_shared: bool,
}

impl KeyKeeper {
    /// Looks for the first time.
    pub async fn start(keys: Keys, secret: SharedSecret, readiness: Readiness) -> Self {
        let mut keeper = Self {
            keys,
            secret,
            readiness,
            is_shared: false,
        };
        keeper.look().await;
        keeper
    }

    /// Looks again and again until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut pause = INTERVAL;
        while cancel.run_until_cancelled(sleep(pause)).await.is_some() {
            pause = match cancel.run_until_cancelled(self.look()).await {
                Some(true) => INTERVAL,
                _ => RETRY,
            };
        }
    }

    /// Whether the keys are as they should be.
    async fn look(&mut self) -> bool {
        match self.update().await {
            Ok(()) => {
                self.readiness.ready(CHECK);
                true
            }
            Err(error) => {
                let problem = causes(&error);
                tracing::warn!(
                    error = problem,
                    "the keys of continue tokens are not up to date"
                );
                self.readiness.degraded(CHECK, problem);
                false
            }
        }
    }

    async fn update(&mut self) -> Result<(), SecretError> {
        let now = Timestamp::now().as_second();
        // Keys that the others have had are put back where somebody has removed them.
        let ours = if self.is_shared {
            self.keys.ring()
        } else {
            Ring::default()
        };
        let ring = self
            .secret
            .settle(|data| Ok(wanted(data, &ours, now)))
            .await?;
        self.keys.replace(ring);
        self.is_shared = true;
        Ok(())
    }
}

/// The keys that count from now on, and the Secret's data if they are not there yet.
fn wanted(data: Option<&BTreeMap<String, ByteString>>, ours: &Ring, now: i64) -> Wanted<Ring> {
    let found = data.map(Ring::read).unwrap_or_default();
    let known = if found.is_empty() {
        ours.clone()
    } else {
        found.clone()
    };
    let ring = known.rotated(now).unwrap_or_else(|| known.clone());
    if ring.data() == found.data() {
        return Wanted {
            value: ring,
            data: None,
        };
    }
    let outdated = found.data();
    let others = data
        .into_iter()
        .flatten()
        .filter(|(name, _)| !outdated.contains_key(*name));
    let data = others
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(ring.data())
        .collect();
    Wanted {
        value: ring,
        data: Some(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{continue_token::Key, front::shared_secret::fake};

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 24 * 3600;

    #[test]
    fn the_first_replica_that_looks_makes_and_rotates_the_keys() {
        let first = wanted(None, &Ring::default(), NOW);
        let stored = first.data.unwrap();
        assert_eq!(stored.len(), 1);
        assert!(
            wanted(Some(&stored), &Ring::default(), NOW + DAY - 1)
                .data
                .is_none()
        );
        let both = wanted(Some(&stored), &Ring::default(), NOW + DAY)
            .data
            .unwrap();
        assert_eq!(both.len(), 2);
        let second = wanted(Some(&both), &Ring::default(), NOW + DAY + 3600)
            .data
            .unwrap();
        assert_eq!(second.len(), 1);
        assert!(
            both.keys().last() == second.keys().next(),
            "{both:?} {second:?}"
        );
    }

    #[test]
    fn keys_that_were_removed_are_put_back_and_what_is_no_key_stays() {
        let ours = Ring::of(Key::make(NOW).unwrap());
        let note = BTreeMap::from([("note".to_owned(), ByteString(b"by hand".to_vec()))]);
        let stored = wanted(Some(&note), &ours, NOW + 60).data.unwrap();
        assert_eq!(stored["note"].0, b"by hand");
        assert_eq!(Ring::read(&stored).data(), ours.data());
    }

    #[tokio::test]
    async fn replicas_that_begin_together_have_the_same_keys() {
        let (_holder, client) = fake::holder(None);
        let start = || {
            let keys = Keys::default();
            let secret = SharedSecret::new(client.clone(), "search", "fleetdex-continue-tokens");
            async move {
                KeyKeeper::start(keys, secret, Readiness::new())
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
    async fn without_the_secret_tokens_are_good_for_this_process_and_readyz_says_so() {
        let client = fake::refusing();
        let (keys, readiness) = (Keys::default(), Readiness::new());
        let secret = SharedSecret::new(client, "search", "fleetdex-continue-tokens");
        KeyKeeper::start(keys.clone(), secret, readiness.clone()).await;
        assert!(readiness.is_ready());
        let report = readiness.report();
        let expected =
            "[+]continue tokens degraded: cannot read Secret search/fleetdex-continue-tokens: ";
        assert!(report.starts_with(expected), "{report}");
        let sealed = keys.seal(b"x".to_vec(), NOW).unwrap();
        assert_eq!(keys.open(&sealed).as_deref(), Ok(&b"x"[..]));
    }
}
