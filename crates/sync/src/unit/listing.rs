//! What a list has shown so far.

use crate::relist::Known;

/// The list under way.
#[derive(Default)]
pub(super) struct Listing {
    /// What was stored when it began.
    pub(super) known: Known,
    /// Wanted objects that it has shown.
    pub(super) objects: u64,
    /// Objects that it has shown and that do not say which ones they are.
    pub(super) unread: u64,
}
