//! Who asks.

use std::sync::Arc;

/// On whose behalf a store executes a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Requester {
    /// The operator itself, which has no share.
    #[default]
    Operator,
    /// A user with this name.
    User(Arc<str>),
}
