//! Reads whole bodies within a limit and the budget.

use std::error::Error;

use bytes::Bytes;
use fleetdex_core::planted::{Bug, planted};

use super::{
    budget::Intake,
    reservation::{IntakeError, MemoryReservation, UNCOUNTED},
};

/// A buffer is allocated for at most this much of the length that a body announces. An announcement
/// costs a sender nothing, so it is little.
const MAX_PREALLOCATED: usize = 1 << 20;
/// A sender that has sent a part of what it announces is trusted with the rest, if the part is not
/// smaller than this.
const ANNOUNCED_OF_SENT: usize = 8;

impl Intake {
    /// Reads a body of at most `limit` bytes. The memory is returned when the last clone of the
    /// bytes is dropped. A body that announces more than `limit` bytes is not read at all.
    pub async fn read<B>(&self, body: B, limit: usize) -> Result<Bytes, IntakeError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.read_like(body, limit, 0).await
    }

    /// Like [`read`](Self::read), for a body that is probably about as long as the previous one of
    /// its sender, which had `previous` bytes. Its buffer need not grow, which copies it and takes
    /// up to three times its memory.
    pub async fn read_like<B>(
        &self,
        body: B,
        limit: usize,
        previous: usize,
    ) -> Result<Bytes, IntakeError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let is_bounded = !planted(Bug::LimitBeforeDecompression);
        if announced > limit && is_bounded {
            return Err(IntakeError::TooLarge(limit));
        }
        let mut body = std::pin::pin!(body);
        let mut buffer = BodyBuffer::new(self, limit, announced);
        buffer.probable = previous + previous / PROBABLE_GROWTH;
        while let Some(data) = buffer.reservation.next(&mut body).await? {
            if buffer.bytes.len() + data.len() > limit && is_bounded {
                return Err(IntakeError::TooLarge(limit));
            }
            buffer.push(&data).await?;
        }
        Ok(buffer.finish())
    }

    /// Reads the first `limit` bytes of a body and leaves the rest unread. The memory is returned
    /// when the last clone of the bytes is dropped.
    pub async fn read_beginning<B>(&self, body: B, limit: usize) -> Result<Bytes, IntakeError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut body = std::pin::pin!(body);
        let mut buffer = BodyBuffer::new(self, limit, announced);
        while buffer.bytes.len() < limit
            && let Some(data) = buffer.reservation.next(&mut body).await?
        {
            let room = limit - buffer.bytes.len();
            buffer.push(&data[..data.len().min(room)]).await?;
        }
        Ok(buffer.finish())
    }

    /// Reads the beginning of an error response, uncounted; the rest is left unread and does not
    /// matter.
    pub async fn read_refusal<B>(&self, body: B) -> Result<Bytes, IntakeError>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let limit = self.limits().refusal;
        let mut body = std::pin::pin!(body);
        let (mut bytes, mut reservation) = (Vec::new(), self.reservation());
        while bytes.len() < limit
            && let Some(data) = reservation.next(&mut body).await?
        {
            bytes.extend_from_slice(&data[..data.len().min(limit - bytes.len())]);
        }
        Ok(bytes.into())
    }
}

/// A body is probably longer than the previous one by at most this fraction.
const PROBABLE_GROWTH: usize = 16;

/// A body, as far as it has been read.
struct BodyBuffer {
    reservation: MemoryReservation,
    bytes: Vec<u8>,
    limit: usize,
    announced: usize,
    /// The length that it probably has; 0 if that is unknown.
    probable: usize,
}

impl BodyBuffer {
    fn new(intake: &Intake, limit: usize, announced: usize) -> Self {
        Self {
            reservation: intake.reservation(),
            bytes: Vec::new(),
            limit,
            announced,
            probable: 0,
        }
    }

    async fn push(&mut self, data: &[u8]) -> Result<(), IntakeError> {
        let length = self.bytes.len() + data.len();
        if length > self.bytes.capacity() {
            let trusted = MAX_PREALLOCATED.max(ANNOUNCED_OF_SENT * length);
            let doubled = (2 * self.bytes.capacity())
                .max(UNCOUNTED)
                .max(self.announced.min(trusted));
            let expected = if self.announced < length {
                self.limit
            } else {
                self.announced.min(self.limit)
            };
            // A short response stays small.
            let probable = if length > UNCOUNTED { self.probable } else { 0 };
            let capacity = doubled
                .max(probable.min(self.limit))
                .min(expected.max(UNCOUNTED))
                .max(length);
            self.reservation.grow(capacity).await?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn finish(self) -> Bytes {
        self.reservation.attach_to(self.bytes)
    }
}
