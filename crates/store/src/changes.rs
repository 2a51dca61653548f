//! The changes of what queries return: a bounded log for each store, which watches follow, and
//! sequence numbers that all logs of the process share.

mod change;
mod event;
mod event_object;
#[cfg(test)]
pub(crate) mod fake;
mod in_flight;
mod log;
mod merged;
mod recent;
mod replication;
mod sequence;
mod subscription;
mod tail;
mod watch;

pub(crate) use change::Change;
pub use event::{Event, EventKind, TooOld, WatchError};
pub use event_object::EventObject;
pub(crate) use in_flight::{InFlightWrite, InFlightWrites};
pub use log::{Bounds, Log};
pub use merged::MergedWatch;
pub use replication::{InvalidLine, LineReader, ReplicatedChange, write_end, write_position};
pub use sequence::Sequence;
pub use tail::{ReplicationLines, Tail};
pub use watch::{MAX_EVENT_BYTES, Watch};
