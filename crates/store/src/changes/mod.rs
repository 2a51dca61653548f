//! The changes of what queries can see, as both engines keep them for those who watch: a bounded log, and numbers that all logs of the
//! process share.

mod change;
mod event;
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

pub(crate) use change::Change;
pub use event::{Event, EventKind, TooOld, WatchError};
pub(crate) use flights::{Flight, Flights};
pub use log::{Bounds, Log};
pub use merged::MergedWatch;
pub use retold::{Reader, Retold, Unreadable, write_end, write_position};
pub use sequence::Sequence;
pub use shown::Shown;
pub use tail::{Tail, Told};
pub use watch::Watch;
