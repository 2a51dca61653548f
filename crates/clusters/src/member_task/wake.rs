//! What a member task waits for between two actions.

use std::time::Duration;

use tokio::{sync::Notify, time::sleep};

use super::super::credentials_watcher::CredentialsWatcher;

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The next action is due, or a refresh was requested.
    Due,
    /// The credentials may have changed.
    CredentialsChanged,
    /// The credentials are not watched and have to be polled.
    CredentialsPoll,
}

/// Waits until the next action is due, a refresh is requested, or the credentials have to be
/// checked. `due` is `None` if there is no next action.
pub(super) async fn wait(
    due: Option<Duration>,
    refresh: &Notify,
    watcher: &CredentialsWatcher,
    poll_interval: Duration,
) -> WakeReason {
    let poll = (!watcher.is_watching()).then_some(poll_interval);
    tokio::select! {
        biased;
        () = refresh.notified() => WakeReason::Due,
        () = sleep_if(due) => WakeReason::Due,
        () = watcher.changed() => WakeReason::CredentialsChanged,
        () = sleep_if(poll) => WakeReason::CredentialsPoll,
    }
}

/// Sleeps for `wait`, or forever if it is `None`.
async fn sleep_if(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}
