//! Bytes of a response within the memory of its request.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_limits::{intake::MemoryReservation, request::UserRequest};

use crate::{api_error::ApiError, limits::grow};

/// What takes no more than this while it is made is not counted: lines of a watch have 64 KiB when
/// they are sent, a chunk of a list or an object 192 KiB at most.
const UNCOUNTED: usize = 256 << 10;
/// How long bytes wait for memory.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes that are sent together, and the memory that they hold until they are sent.
pub(crate) struct CountedBytes {
    /// The bytes. Room is made for them before they are written.
    pub(crate) bytes: Vec<u8>,
    memory: MemoryReservation,
}

impl CountedBytes {
    /// No bytes.
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            memory: UserRequest::current().memory().reservation(),
        }
    }

    /// No bytes, of a response that must not keep the reserve of the memory from others.
    pub(crate) fn without_reserve() -> Self {
        let memory = UserRequest::current().memory().without_reserve();
        Self {
            bytes: Vec::new(),
            memory: memory.reservation(),
        }
    }

    /// Reserves what it takes to make more bytes: them, and what they are made of, as far as that
    /// is not reserved otherwise.
    pub(crate) async fn make_room(&mut self, more: usize) -> Result<(), ApiError> {
        let needed = self.bytes.len() + more;
        if needed <= UNCOUNTED {
            return Ok(());
        }
        grow(&mut self.memory, needed, TIMEOUT).await
    }

    /// The bytes, which hold their memory.
    pub(crate) fn finish(mut self) -> Bytes {
        self.memory.shrink(self.bytes.capacity());
        self.memory.attach_to(self.bytes)
    }
}
