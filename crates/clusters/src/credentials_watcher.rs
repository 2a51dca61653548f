//! Watches the Secrets and kubeconfig files that a member's credentials come from.
//!
//! Each Secret is watched by its name, which needs the rights to list and watch that one Secret and
//! no other; kubeconfig files are polled every two seconds. A notification means that something may
//! have changed: the receiver reads the credentials again. While a watch is not allowed or broken,
//! [`CredentialsWatcher::is_watching`] is false and the receiver has to poll.
//!
//! The watch does not use `kube::runtime::watcher`, which emits no event when it opens or reopens a
//! watch and puts no timeout on that, so `is_watching` could be true without an open watch. It also
//! retries an expired version forever when the 410 is an HTTP status.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use fleetdex_core::model::{Gvk, Namespace, Resource, Scope, Version};
use fleetdex_crds::cluster::LocalSecretReference;
use futures::{StreamExt, stream::FuturesUnordered};
use kube::Client;
use tokio::{sync::Notify, time::sleep};

use super::member::{KubeconfigFile, MemberAccess};
use crate::watch::{Collection, FaultKind, ListerWatcher, StreamFault, WatchEvent};

/// Time between two checks of a kubeconfig file.
const FILE_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest wait after a failed watch; up to as much again is added at random.
const CREDENTIALS_RETRY: Duration = Duration::from_secs(2);
/// The same after a refusal, which only a person can fix.
const RETRY_AFTER_REFUSAL: Duration = Duration::from_mins(1);

/// Watches the credentials of one member. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct CredentialsWatcher {
    changed: Arc<Notify>,
    /// Number of Secrets and files that are not watched now.
    unwatched: Arc<AtomicUsize>,
}

impl CredentialsWatcher {
    /// Waits until the credentials may have changed since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether everything is watched, so that no change can be missed.
    pub fn is_watching(&self) -> bool {
        self.unwatched.load(Ordering::Relaxed) == 0
    }

    /// Watches the Secrets or files of a member until dropped. `None`: there is nothing to watch.
    pub async fn run(
        &self,
        control_plane: Option<&Client>,
        access: &MemberAccess,
    ) -> Option<Infallible> {
        if let MemberAccess::KubeconfigFile(file) = access {
            // Token files and plugins that the file names are not watched.
            self.unwatched.store(1, Ordering::Relaxed);
            return Some(self.poll_files(&paths(file)).await);
        }
        let secrets: Vec<&LocalSecretReference> = access.secrets().collect();
        self.unwatched.store(secrets.len(), Ordering::Relaxed);
        let mut watches = FuturesUnordered::new();
        if let Some(control_plane) = control_plane {
            watches.extend(
                secrets
                    .into_iter()
                    .map(|secret| self.watch_secret(control_plane.clone(), secret)),
            );
        }
        // A Secret whose namespace is invalid is not watched.
        watches.filter_map(std::future::ready).next().await
    }

    async fn poll_files(&self, paths: &[PathBuf]) -> Infallible {
        let mut known = fingerprints(paths).await;
        loop {
            sleep(FILE_INTERVAL).await;
            let now = fingerprints(paths).await;
            if now != known {
                known = now;
                self.changed.notify_one();
            }
        }
    }

    async fn watch_secret(
        &self,
        control_plane: Client,
        secret: &LocalSecretReference,
    ) -> Option<Infallible> {
        let namespace = secret.namespace.parse::<Namespace>().ok()?;
        let lister_watcher =
            ListerWatcher::new(control_plane, secret_collection(namespace, &secret.name));
        loop {
            let mut is_watching = false;
            let Err(fault) = self
                .watch_until_failure(&lister_watcher, &mut is_watching)
                .await;
            if is_watching {
                self.unwatched.fetch_add(1, Ordering::Relaxed);
            }
            tracing::debug!(namespace = secret.namespace, name = secret.name, %fault, "the watch of a Secret failed");
            let wait = if fault.kind.is_refusal() {
                RETRY_AFTER_REFUSAL
            } else {
                CREDENTIALS_RETRY
            };
            sleep(wait.mul_f64(1.0 + fastrand::f64())).await;
        }
    }

    /// Watches from the current version on, and reopens the watch until it fails.
    async fn watch_until_failure(
        &self,
        lister_watcher: &ListerWatcher,
        is_watching: &mut bool,
    ) -> Result<Infallible, StreamFault> {
        let mut version = lister_watcher.current_version().await?;
        loop {
            let mut lines = lister_watcher.watch(version).await?;
            if !*is_watching {
                *is_watching = true;
                self.unwatched.fetch_sub(1, Ordering::Relaxed);
                // For changes before the watch was opened.
                self.changed.notify_one();
            }
            while let Some(line) = lines.next().await? {
                version = self.handle_event(&line)?.unwrap_or(version);
            }
        }
    }

    /// Handles one event, and returns its version, from which the next watch resumes.
    fn handle_event(&self, line: &[u8]) -> Result<Option<Version>, StreamFault> {
        // The line is not quoted, as it may contain a Secret.
        let garbled = || StreamFault {
            kind: FaultKind::Garbled,
            message: "the watch sent an invalid event".to_owned(),
        };
        match WatchEvent::parse(line).map_err(|_| garbled())? {
            WatchEvent::Bookmark(version) => Ok(Some(version)),
            WatchEvent::Error(fault) => Err(fault),
            WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object) => {
                self.changed.notify_one();
                Ok(resource_version(object))
            }
        }
    }
}

/// The files that kubectl reads.
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

/// Modification time and length of each file; `None` for a missing file.
async fn fingerprints(paths: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let mut fingerprints = Vec::with_capacity(paths.len());
    for path in paths {
        let read = tokio::fs::metadata(path).await.ok();
        fingerprints.push(read.and_then(|data| Some((data.modified().ok()?, data.len()))));
    }
    fingerprints
}

fn secret_collection(namespace: Namespace, name: &str) -> Collection {
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

fn resource_version(object: &str) -> Option<Version> {
    #[derive(serde::Deserialize)]
    struct RawSecret {
        metadata: RawSecretMetadata,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RawSecretMetadata {
        resource_version: String,
    }
    let object: RawSecret = serde_json::from_str(object).ok()?;
    object.metadata.resource_version.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rewritten_or_removed_kubeconfig_file_is_noticed_within_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "before").unwrap();
        let access = MemberAccess::KubeconfigFile(KubeconfigFile {
            path: Some(path.clone()),
            context: "a".to_owned(),
        });
        let watcher = CredentialsWatcher::default();
        let scenario = async {
            let soon = Duration::from_secs(3);
            assert!(
                timeout(Duration::from_mins(1), watcher.changed())
                    .await
                    .is_err(),
                "nothing has changed"
            );
            // Files that it names may change unnoticed.
            assert!(!watcher.is_watching());
            std::fs::write(&path, "afterwards").unwrap();
            timeout(soon, watcher.changed()).await.unwrap();
            std::fs::remove_file(&path).unwrap();
            timeout(soon, watcher.changed()).await.unwrap();
        };
        tokio::select! {
            Some(never) = watcher.run(None, &access) => match never {},
            () = scenario => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_secrets_and_files_everything_counts_as_watched() {
        let watcher = CredentialsWatcher::default();
        let access = MemberAccess::Awaited {
            reason: "WaitingForInfrastructure",
            message: String::new(),
        };
        assert_eq!(watcher.run(None, &access).await, None);
        assert!(watcher.is_watching());
    }

    #[test]
    fn events_return_the_version_from_which_the_next_watch_resumes() {
        let watcher = CredentialsWatcher::default();
        let event = |kind: &str| {
            format!(r#"{{"type":"{kind}","object":{{"metadata":{{"resourceVersion":"12"}}}}}}"#)
        };
        for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
            assert_eq!(
                watcher
                    .handle_event(event(kind).as_bytes())
                    .unwrap()
                    .map(Version::get),
                Some(12),
                "{kind}"
            );
        }
        let garbled = watcher
            .handle_event(br#"{"type":"hunter2","object":{"data":{"token":"hunter2"}}}"#)
            .unwrap_err();
        assert!(!garbled.to_string().contains("hunter2"), "{garbled}");
    }
}
