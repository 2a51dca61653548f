//! What a soak runs on.

use crate::{
    fleet::Fleet, operator::Operator, oracle::Oracle, proxy::FaultProxy, scenario::Registry,
};

/// How many members there are.
pub(super) const MEMBERS: usize = 2;

/// The servers, what is between them and the operator, and the operator.
pub(super) struct Scene {
    // Dropped in this order: who uses a server goes before it.
    pub(super) operator: Operator,
    pub(super) members: Vec<FaultProxy>,
    pub(super) store: FaultProxy,
    pub(super) registry: Registry,
    pub(super) oracle: Oracle,
    pub(super) fleet: Fleet,
}
