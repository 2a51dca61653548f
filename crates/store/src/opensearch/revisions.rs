//! Index revisions of clusters: opened, activated, and deleted.

pub(crate) mod activation;
pub(crate) mod deletion;
pub(crate) mod deletion_permit;
pub(crate) mod opening;
pub(crate) mod planned_activation;
