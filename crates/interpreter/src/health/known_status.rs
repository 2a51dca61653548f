//! Whether objects of a kind are expected to have a status.

/// What is known of the status of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KnownStatus {
    /// Nothing but the name of the kind.
    #[default]
    Unknown,
    /// Its objects have none.
    Absent,
    /// A controller writes it.
    Written,
    /// Its objects may have one, and none ever had in their cluster.
    NeverWritten,
}
