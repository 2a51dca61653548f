//! Notices at once that what a member's credentials come from has changed.
//!
//! Each Secret is watched by its name, which takes the rights to list and watch that one Secret and no other; a kubeconfig
//! file is looked at every other second. What is noticed is only that something may have changed: whoever is told reads
//! again. Where a watch is not allowed or breaks off, [`Follow::is_watching`] says so, and reading now and then has to do.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use fleetdex_api::cluster::SecretReference;
use fleetdex_core::model::{Gvk, Namespace, Resource, Scope, Version};
use futures::{StreamExt, stream::FuturesUnordered};
use kube::Client;
use tokio::{sync::Notify, time::sleep};

use super::member::{Access, KubeconfigFile};
use crate::watch::{Collection, Fault, FaultKind, Source, WatchEvent};

/// How often a kubeconfig file is looked at.
const FILE_INTERVAL: Duration = Duration::from_secs(2);
/// From a watch that broke off to the next, at the least; as much again is added at random.
const RETRY: Duration = Duration::from_secs(2);
/// The same after a refusal, which nobody but a person can lift.
const RETRY_REFUSED: Duration = Duration::from_mins(1);

/// What one member's credentials are followed with. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct Follow {
    changed: Arc<Notify>,
    /// Sources that are not watched just now.
    unwatched: Arc<AtomicUsize>,
}

impl Follow {
    /// Returns when something may have changed since the last time.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether everything is watched, so that there is nothing that could change without being noticed.
    pub fn is_watching(&self) -> bool {
        self.unwatched.load(Ordering::Relaxed) == 0
    }

    /// Follows what a member's credentials come from until dropped.
    pub async fn run(&self, hub: Option<&Client>, access: &Access) -> Infallible {
        if let Access::KubeconfigFile(file) = access {
            // What the file names, such as tokens in other files or programs, is not followed.
            self.unwatched.store(1, Ordering::Relaxed);
            return self.files(&paths(file)).await;
        }
        let secrets: Vec<&SecretReference> = access.secrets().collect();
        self.unwatched.store(secrets.len(), Ordering::Relaxed);
        let mut watches = FuturesUnordered::new();
        if let Some(hub) = hub {
            watches.extend(
                secrets
                    .into_iter()
                    .map(|secret| self.secret(hub.clone(), secret)),
            );
        }
        match watches.next().await {
            Some(never) => never,
            // There is nothing to follow.
            None => std::future::pending().await,
        }
    }

    async fn files(&self, paths: &[PathBuf]) -> Infallible {
        let mut known = stamps(paths).await;
        loop {
            sleep(FILE_INTERVAL).await;
            let now = stamps(paths).await;
            if now != known {
                known = now;
                self.changed.notify_one();
            }
        }
    }

    async fn secret(&self, hub: Client, secret: &SecretReference) -> Infallible {
        let Ok(namespace) = secret.namespace.parse::<Namespace>() else {
            return std::future::pending().await;
        };
        let source = Source::new(hub, one_secret(namespace, &secret.name));
        loop {
            let mut is_watching = false;
            let Err(fault) = self.watch(&source, &mut is_watching).await;
            if is_watching {
                self.unwatched.fetch_add(1, Ordering::Relaxed);
            }
            tracing::debug!(namespace = secret.namespace, name = secret.name, %fault, "a Secret is not watched");
            let wait = if fault.kind.is_refusal() {
                RETRY_REFUSED
            } else {
                RETRY
            };
            sleep(wait.mul_f64(1.0 + fastrand::f64())).await;
        }
    }

    /// Watches from the present on, one watch after the other, until one fails.
    async fn watch(&self, source: &Source, is_watching: &mut bool) -> Result<Infallible, Fault> {
        let mut version = source.current_version().await?;
        loop {
            let mut lines = source.watch(version).await?;
            if !*is_watching {
                *is_watching = true;
                self.unwatched.fetch_sub(1, Ordering::Relaxed);
                // Whatever happened before the watch.
                self.changed.notify_one();
            }
            while let Some(line) = lines.next().await? {
                version = self.event(&line)?.unwrap_or(version);
            }
        }
    }

    /// Takes in one event. Its version is where the next watch goes on.
    fn event(&self, line: &[u8]) -> Result<Option<Version>, Fault> {
        // What cannot be read is not quoted: it may be a Secret.
        let garbled = || Fault {
            kind: FaultKind::Garbled,
            message: "the watch sent what is no event".to_owned(),
        };
        match WatchEvent::parse(line).map_err(|_| garbled())? {
            WatchEvent::Bookmark(version) => Ok(Some(version)),
            WatchEvent::Error(fault) => Err(fault),
            WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object) => {
                self.changed.notify_one();
                Ok(version_of(object))
            }
        }
    }
}

/// The files that kubectl would read.
fn paths(file: &KubeconfigFile) -> Vec<PathBuf> {
    if let Some(path) = &file.path {
        return vec![path.clone()];
    }
    match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list).collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .into_iter()
            .collect(),
    }
}

/// When each file was changed, and how long it is.
async fn stamps(paths: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let mut stamps = Vec::with_capacity(paths.len());
    for path in paths {
        let read = tokio::fs::metadata(path).await.ok();
        stamps.push(read.and_then(|data| Some((data.modified().ok()?, data.len()))));
    }
    stamps
}

fn one_secret(namespace: Namespace, name: &str) -> Collection {
    Collection {
        resource: Resource {
            gvk: Gvk::new("", "v1", "Secret"),
            plural: "secrets".into(),
            namespaced: true,
        },
        scope: Scope::Namespace(namespace),
        label_selector: None,
        field_selector: Some(format!("metadata.name={name}")),
    }
}

fn version_of(object: &str) -> Option<Version> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let object: Object = serde_json::from_str(object).ok()?;
    object.metadata.resource_version.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kubeconfig_file_that_is_rewritten_or_removed_is_noticed_within_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "before").unwrap();
        let access = Access::KubeconfigFile(KubeconfigFile {
            path: Some(path.clone()),
            context: "a".to_owned(),
        });
        let follow = Follow::default();
        let scenario = async {
            let soon = Duration::from_secs(3);
            assert!(
                timeout(Duration::from_mins(1), follow.changed())
                    .await
                    .is_err(),
                "nothing has changed"
            );
            // What it names may change unseen.
            assert!(!follow.is_watching());
            std::fs::write(&path, "afterwards").unwrap();
            timeout(soon, follow.changed()).await.unwrap();
            std::fs::remove_file(&path).unwrap();
            timeout(soon, follow.changed()).await.unwrap();
        };
        tokio::select! {
            never = follow.run(None, &access) => match never {},
            () = scenario => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_nothing_to_follow_nothing_is_missed() {
        let follow = Follow::default();
        let access = Access::Awaited {
            reason: "WaitingForInfrastructure",
            message: String::new(),
        };
        assert!(
            timeout(Duration::from_mins(1), follow.run(None, &access))
                .await
                .is_err()
        );
        assert!(follow.is_watching());
    }

    #[test]
    fn events_say_where_the_next_watch_goes_on() {
        let follow = Follow::default();
        let event = |kind: &str| {
            format!(r#"{{"type":"{kind}","object":{{"metadata":{{"resourceVersion":"12"}}}}}}"#)
        };
        for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
            assert_eq!(
                follow
                    .event(event(kind).as_bytes())
                    .unwrap()
                    .map(Version::get),
                Some(12),
                "{kind}"
            );
        }
        let garbled = follow
            .event(br#"{"type":"hunter2","object":{"data":{"token":"hunter2"}}}"#)
            .unwrap_err();
        assert!(!garbled.to_string().contains("hunter2"), "{garbled}");
    }
}
