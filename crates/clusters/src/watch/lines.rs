//! The lines of a watch response, within a memory budget.

use bytes::{Buf, Bytes, BytesMut};
use fleetdex_core::{
    model::causes,
    planted::{Bug, planted},
};
use fleetdex_limits::intake::{Intake, IntakeError, MemoryReservation};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tower::BoxError;

use super::{FaultKind, StreamFault};

/// The lines of a watch.
pub struct WatchLines {
    body: UnsyncBoxBody<Bytes, BoxError>,
    buffer: BytesMut,
    /// Length of the start of the buffer that has no line end.
    searched: usize,
    deadline: tokio::time::Instant,
    intake: Intake,
    /// Budget reserved for a line that is longer than most.
    reservation: MemoryReservation,
}

impl WatchLines {
    pub(super) fn new<B>(body: B, intake: Intake, deadline: tokio::time::Instant) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (body, reservation) = (
            body.map_err(Into::into).boxed_unsync(),
            intake.reservation(),
        );
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            deadline,
            intake,
            reservation,
        }
    }

    /// Returns the next line without its line end; `None` at the end of the watch. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StreamFault> {
        // The previous line is done. Its memory is freed with its reservation: an emptied buffer
        // keeps its capacity.
        if self.buffer.is_empty() || self.reservation.holds_any() {
            self.buffer = BytesMut::from(&self.buffer[..]);
            self.reservation.release();
        }
        loop {
            if let Some(line) = self.take_line() {
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            let max_bytes = self.intake.limits().line;
            if self.buffer.len() > max_bytes && !planted(Bug::EndlessLine) {
                let message = format!("a line of a watch is longer than {max_bytes} bytes");
                return Err(StreamFault {
                    kind: FaultKind::TooLarge,
                    message,
                });
            }
            // A growing buffer has up to twice the capacity of its content.
            let memory = 2 * self.buffer.len();
            if !self.reservation.has(memory) {
                let grown = tokio::time::timeout_at(self.deadline, self.reservation.grow(memory))
                    .await
                    .map_err(|_| deadline_exceeded())?;
                grown.map_err(|unread| line_not_read(&unread))?;
            }
            match tokio::time::timeout_at(self.deadline, self.reservation.next(&mut self.body))
                .await
            {
                Err(_) => return Err(deadline_exceeded()),
                // A line that the end of the stream truncates was not received; the next watch
                // sends it again.
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(data))) => self.buffer.extend_from_slice(&data),
                Ok(Err(IntakeError::Broken(error))) => {
                    return Err(StreamFault::transport(causes(&*error)));
                }
                Ok(Err(unread)) => return Err(line_not_read(&unread)),
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        match memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            Some(offset) => {
                let line = self.buffer.split_to(self.searched + offset).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }
}

fn deadline_exceeded() -> StreamFault {
    StreamFault {
        kind: FaultKind::Transport,
        message: "the watch was silent past its deadline".to_owned(),
    }
}

fn line_not_read(unread: &IntakeError) -> StreamFault {
    StreamFault {
        kind: FaultKind::Server,
        message: format!("a line of a watch was not read: {unread}"),
    }
}

#[cfg(test)]
mod tests;
