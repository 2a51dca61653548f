//! What a watch tells, and why one cannot begin.

use std::sync::Arc;

use fleetdex_core::query::QueryError;

use super::Shown;

/// The log does not hold what is asked for: it is too long ago, or of another process. Whoever follows has to list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes after {after} are not known any more; list again, and watch from there")]
pub struct TooOld {
    /// The sequence number that was to be continued.
    pub after: u64,
}

/// A watch cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// It cannot continue where it should.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// Its query cannot be answered.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// What became of an object, as a watch with a selector sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It is new, or selected only now.
    Added,
    /// It is selected as before.
    Modified,
    /// It is gone, or not selected any more; the object is as it was when it was selected last.
    Deleted,
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// The number of the change, which is greater than that of any change before.
    pub sequence: u64,
    /// What happened.
    pub kind: EventKind,
    /// The object.
    pub object: Arc<Shown>,
}
