//! Who an object is.

/// What the server itself sets on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: String,
    pub(super) created: String,
}
