//! Kubernetes over the fleet: everything below `proxying/karmada/proxy`.
//!
//! [`request`] reads what is asked for, [`body`] what is written.

pub mod body;
pub mod request;
