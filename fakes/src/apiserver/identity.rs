//! The identity of an object.

/// The metadata that the server sets on a new object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: String,
    pub(super) created: String,
    /// When its deletion was requested; it is gone when its finalizers are.
    pub(super) deleted: Option<String>,
}
