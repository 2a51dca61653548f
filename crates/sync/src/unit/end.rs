//! Why a stream stops by itself.

use fleetdex_clusters::watch::StreamFault;
use fleetdex_store::StoreError;

/// Why the task of a unit ends by itself. The supervisor starts it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitEnd {
    /// The index revision was replaced, because the history of the member went back.
    HistoryWentBack,
    /// Other rules hold for its objects.
    OtherRules,
}

/// Why a step of a stream is not completed.
pub(super) enum Interruption<F> {
    /// It failed.
    Fault(F),
    /// The task ends.
    End(UnitEnd),
}

impl<F> From<UnitEnd> for Interruption<F> {
    fn from(end: UnitEnd) -> Self {
        Self::End(end)
    }
}

impl From<StreamFault> for Interruption<StreamFault> {
    fn from(fault: StreamFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StoreError> for Interruption<StoreError> {
    fn from(error: StoreError) -> Self {
        Self::Fault(error)
    }
}
