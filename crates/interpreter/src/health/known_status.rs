//! Whether objects of a kind are expected to have a status.

/// What is known of the status of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownStatus {
    /// Nothing but the name of the kind.
    Unknown,
    /// Its objects have none.
    Absent,
    /// At least one of them has had one in this cluster, or it makes no difference.
    Written,
    /// They may have one, and none ever had in this cluster.
    NeverWritten,
}
