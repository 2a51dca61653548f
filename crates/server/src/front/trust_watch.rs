//! Follows `kube-system/extension-apiserver-authentication`.

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

use super::trust::Trust;

/// Where the control plane says whom aggregated API servers should trust.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The check on `/readyz`.
const CHECK: &str = "trust";
/// How long the control plane may take for the list.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long one watch lasts, in seconds; then everything is read again.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent beyond that.
const GRACE: Duration = Duration::from_secs(20);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// Follows the `ConfigMap` until cancelled. Before it was read for the first time nobody's certificate is believed.
pub async fn follow(
    client: Client,
    sender: watch::Sender<Arc<Trust>>,
    readiness: Readiness,
    cancel: CancellationToken,
) {
    let follower = Follower {
        config_maps: Api::namespaced(client, NAMESPACE),
        sender,
        readiness,
    };
    follower.readiness.not_ready(
        CHECK,
        format!("ConfigMap {NAMESPACE}/{NAME} has not been read yet"),
    );
    cancel.run_until_cancelled(follower.follow()).await;
}

struct Follower {
    config_maps: Api<ConfigMap>,
    sender: watch::Sender<Arc<Trust>>,
    readiness: Readiness,
}

impl Follower {
    async fn follow(&self) {
        let mut was_read = false;
        loop {
            match self.read_and_watch(&mut was_read).await {
                Ok(()) => {}
                Err(problem) => {
                    let message = format!("ConfigMap {NAMESPACE}/{NAME}: {problem}");
                    tracing::warn!("cannot follow {message}");
                    // What was believed still is.
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

    async fn read_and_watch(&self, was_read: &mut bool) -> Result<(), String> {
        let only = format!("metadata.name={NAME}");
        let parameters = ListParams::default().fields(&only);
        let listed = timeout(TIMEOUT, self.config_maps.list(&parameters))
            .await
            .map_err(|_| "the control plane does not answer".to_owned())?;
        let list = listed.map_err(|error| causes(&error))?;
        *was_read = true;
        match list.items.first() {
            Some(config_map) => self.take_over(config_map),
            None => self.readiness.degraded(
                CHECK,
                format!("there is no ConfigMap {NAMESPACE}/{NAME}: only tokens are believed"),
            ),
        }
        let version = list.metadata.resource_version.unwrap_or_default();
        let parameters = WatchParams::default().fields(&only).timeout(WATCH_SECONDS);
        let opening = timeout(TIMEOUT, self.config_maps.watch(&parameters, &version)).await;
        let events = opening
            .map_err(|_| "the control plane does not answer".to_owned())?
            .map_err(|error| causes(&error))?;
        let mut events = std::pin::pin!(events);
        let longest = Duration::from_secs(u64::from(WATCH_SECONDS)) + GRACE;
        loop {
            match timeout(longest, events.try_next()).await {
                Err(_) => return Err("the watch is silent".to_owned()),
                Ok(Err(error)) => return Err(causes(&error)),
                Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(WatchEvent::Added(config_map) | WatchEvent::Modified(config_map)))) => {
                    self.take_over(&config_map);
                }
                Ok(Ok(Some(WatchEvent::Error(status)))) => return Err(status.message),
                Ok(Ok(Some(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)))) => {}
            }
        }
    }

    fn take_over(&self, config_map: &ConfigMap) {
        let (next, problems) = self.sender.borrow().updated(
            config_map
                .data
                .as_ref()
                .unwrap_or(&std::collections::BTreeMap::new()),
        );
        for problem in &problems {
            tracing::warn!("ConfigMap {NAMESPACE}/{NAME}: {problem}");
        }
        let changed = next.generation != self.sender.borrow().generation;
        if changed {
            tracing::info!(
                generation = next.generation,
                "the control plane says whom to trust"
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
