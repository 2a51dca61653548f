//! The list+watch engine: a pure machine that decides, and streams that read raw bytes.

mod event;
mod machine;
mod stream;

pub use event::{EventError, ListPage, MAX_TOKEN, WatchEvent};
pub use machine::{Fault, FaultKind, Machine, PageOutcome, Pause, Step};
pub use stream::{Collection, Lines, Source};
