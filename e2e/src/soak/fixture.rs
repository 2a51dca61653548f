//! The servers and the operator of a soak.

use crate::{
    fleet::Fleet, operator::Operator, oracle::Oracle, proxy::FaultProxy, scenario::Registry,
};

/// Number of members.
pub(super) const MEMBERS: usize = 2;

/// The servers, the proxies between them and the operator, and the operator.
pub(super) struct Fixture {
    // Dropped in this order: users of a server before the server.
    pub(super) operator: Operator,
    pub(super) members: Vec<FaultProxy>,
    pub(super) store: FaultProxy,
    pub(super) registry: Registry,
    pub(super) oracle: Oracle,
    pub(super) fleet: Fleet,
}
