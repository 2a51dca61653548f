//! The changes of what queries can see, as both engines keep them for those who watch: a bounded log, and numbers that all logs of the
//! process share.

#[cfg(test)]
pub(crate) mod fake;
mod flights;
mod log;
mod merged;
mod place;
mod recent;
mod retold;
#[cfg(test)]
mod retold_tests;
mod sequence;
mod shown;
mod tail;
mod watch;

use std::sync::Arc;

use fleetdex_core::query::QueryError;
pub(crate) use flights::{Flight, Flights};
pub use log::{Bounds, Log};
pub use merged::MergedWatch;
pub use retold::{Reader, Retold, Unreadable, write_end, write_position};
pub use sequence::Sequence;
pub use shown::Shown;
pub use tail::{Tail, Told};
pub use watch::Watch;

use super::document::Document;

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

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) before: Option<Arc<Document>>,
    pub(crate) after: Option<Arc<Document>>,
}

impl Change {
    /// The object, whether it is there or was.
    pub(crate) fn document(&self) -> Option<&Arc<Document>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}
