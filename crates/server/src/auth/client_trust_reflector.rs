//! Reflects the `ConfigMap` `kube-system/extension-apiserver-authentication` into [`ClientTrust`].

use std::{sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_telemetry::Readiness;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::client_trust::ClientTrust;

/// The `ConfigMap` in which the control plane publishes which clients aggregated API servers trust.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The check on `/readyz`.
const CHECK: &str = "trust";
/// Timeout of the list, and of opening the watch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Seconds until a watch ends and the `ConfigMap` is listed again.
const WATCH_SECONDS: u32 = 290;
/// How long after that the end of a watch may take.
const GRACE: Duration = Duration::from_secs(20);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// Reflects the `ConfigMap` until cancelled. No certificate is trusted before the first list.
pub async fn run(
    client: Client,
    sender: watch::Sender<Arc<ClientTrust>>,
    readiness: Readiness,
    cancel: CancellationToken,
) {
    let reflector = ConfigMapReflector {
        config_maps: Api::namespaced(client, NAMESPACE),
        sender,
        readiness,
    };
    reflector.readiness.not_ready(
        CHECK,
        format!("ConfigMap {NAMESPACE}/{NAME} has not been read yet"),
    );
    cancel.run_until_cancelled(reflector.reflect()).await;
}

struct ConfigMapReflector {
    config_maps: Api<ConfigMap>,
    sender: watch::Sender<Arc<ClientTrust>>,
    readiness: Readiness,
}

impl ConfigMapReflector {
    async fn reflect(&self) {
        let mut was_read = false;
        loop {
            match self.list_and_watch(&mut was_read).await {
                Ok(()) => {}
                Err(problem) => {
                    let message = format!("ConfigMap {NAMESPACE}/{NAME}: {problem}");
                    tracing::warn!("cannot watch {message}");
                    // The last content stays in effect.
                    if was_read {
                        self.readiness.degraded(CHECK, message);
                    } else {
                        self.readiness.not_ready(CHECK, message);
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn list_and_watch(&self, was_read: &mut bool) -> Result<(), String> {
        let only = format!("metadata.name={NAME}");
        let parameters = ListParams::default().fields(&only);
        let listed = timeout(TIMEOUT, self.config_maps.list(&parameters))
            .await
            .map_err(|_| "the control plane does not respond".to_owned())?;
        let list = listed.map_err(|error| causes(&error))?;
        *was_read = true;
        match list.items.first() {
            Some(config_map) => self.apply(config_map),
            None => self.readiness.degraded(
                CHECK,
                format!("there is no ConfigMap {NAMESPACE}/{NAME}: only tokens are trusted, no certificates"),
            ),
        }
        let version = list.metadata.resource_version.unwrap_or_default();
        let parameters = WatchParams::default().fields(&only).timeout(WATCH_SECONDS);
        let opening = timeout(TIMEOUT, self.config_maps.watch(&parameters, &version)).await;
        let events = opening
            .map_err(|_| "the control plane does not respond".to_owned())?
            .map_err(|error| causes(&error))?;
        let mut events = std::pin::pin!(events);
        let longest = Duration::from_secs(u64::from(WATCH_SECONDS)) + GRACE;
        loop {
            match timeout(longest, events.try_next()).await {
                Err(_) => return Err("the watch has stalled".to_owned()),
                Ok(Err(error)) => return Err(causes(&error)),
                Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(WatchEvent::Added(config_map) | WatchEvent::Modified(config_map)))) => {
                    self.apply(&config_map);
                }
                Ok(Ok(Some(WatchEvent::Error(status)))) => return Err(status.message),
                Ok(Ok(Some(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)))) => {}
            }
        }
    }

    fn apply(&self, config_map: &ConfigMap) {
        let data = config_map.data.clone().unwrap_or_default();
        let (next, problems) = self.sender.borrow().updated(&data);
        for problem in &problems {
            tracing::warn!("ConfigMap {NAMESPACE}/{NAME}: {problem}");
        }
        let changed = next.revision != self.sender.borrow().revision;
        if changed {
            tracing::info!(
                revision = next.revision,
                "updated the trusted client certificates from ConfigMap {NAMESPACE}/{NAME}"
            );
            self.sender.send_replace(Arc::new(next));
        }
        if problems.is_empty() {
            self.readiness.ready(CHECK);
        } else {
            self.readiness.degraded(CHECK, problems.join("; "));
        }
    }
}
