//! The identity of an object.

/// The metadata that the server sets on a new object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: String,
    pub(super) created: String,
}
