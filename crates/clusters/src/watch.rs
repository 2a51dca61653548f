//! Lists and watches of member objects: a pure state machine that decides, and a lister-watcher
//! that reads raw bytes.
//!
//! Not on `kube::runtime::watcher`: it hides the list's resourceVersion, which pruning and resuming
//! need, retries an expired version forever when the 410 is an HTTP status, and skips events that
//! it cannot decode.

mod event;
mod lines;
mod lister_watcher;
mod machine;

pub use event::{EventError, ListPage, MAX_TOKEN, WatchEvent};
pub use lines::WatchLines;
pub use lister_watcher::{Collection, ListerWatcher};
pub use machine::{FaultKind, ListWatchMachine, ListWatchStep, PageOutcome, Pause, StreamFault};
