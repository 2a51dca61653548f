//! The events of a watch, and why a watch cannot begin.

use std::sync::Arc;

use fleetdex_core::query::QueryError;

use super::EventObject;
use crate::StoreError;

/// The log does not hold the changes after a number: they are too old, or of another process. The
/// client has to list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes after {after} are no longer known; list again, and watch from there")]
pub struct TooOld {
    /// The sequence number to continue from.
    pub after: u64,
}

/// A watch cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// Its position is no longer in the log.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// Its conditions take too many steps for an object that has changed since.
    #[error("{}", StoreError::TooComplex)]
    TooComplex,
    /// Its query is invalid.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// What happened to an object, as a watch with a selector sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created, or is selected for the first time.
    Added,
    /// It was selected before, and still is.
    Modified,
    /// It was deleted or is no longer selected. The object is in the state that was selected last.
    Deleted,
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// The sequence number of the change, greater than that of any earlier change.
    pub sequence: u64,
    /// What happened.
    pub kind: EventKind,
    /// The object.
    pub object: Arc<EventObject>,
}
