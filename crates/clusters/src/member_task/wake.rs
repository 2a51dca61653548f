//! What a member task waits for between two actions.

use std::{sync::Arc, time::Duration};

use futures::future::OptionFuture;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use crate::{credentials_watcher::CredentialsWatcher, member::Member};

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
        Some(()) = OptionFuture::from(due.map(sleep)) => WakeReason::Due,
        () = watcher.changed() => WakeReason::CredentialsChanged,
        Some(()) = OptionFuture::from(poll.map(sleep)) => WakeReason::CredentialsPoll,
    }
}

/// Why a member is not waited for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberChange {
    /// It has to be reconnected.
    Reconnect,
    /// The supervisor is gone and stops the task.
    SupervisorGone,
}

/// Waits until the member changes so that it has to be reconnected.
pub(super) async fn until_changed(
    mut changes: watch::Receiver<Arc<Member>>,
    member: &Member,
) -> MemberChange {
    while changes.changed().await.is_ok() {
        if !changes.borrow_and_update().connects_like(member) {
            return MemberChange::Reconnect;
        }
    }
    MemberChange::SupervisorGone
}
