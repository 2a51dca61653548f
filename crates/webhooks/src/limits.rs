//! How many calls the queue makes at a time. The client's bounds are multiples of these.

/// Calls under way for all webhooks together. At 100 ms for a call these make 640 calls/s, and
/// 6,400/s at the 10 ms that a webhook in the same cluster takes.
pub const CALLS: usize = 64;
/// Calls under way for one webhook: a quarter of all, so that three that hang leave room for a
/// fourth.
pub const CALLS_OF_WEBHOOK: usize = CALLS / 4;
/// Calls that each webhook may have under way even when others take all of [`CALLS`]: one for a
/// slow object, one for the rest.
pub const RESERVED_CALLS: usize = 2;
