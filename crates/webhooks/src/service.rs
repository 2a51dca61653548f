//! Where the Service of a webhook is reached. The name on its certificate is
//! `<service>.<namespace>.svc` in any case.

mod kubernetes;
mod resolve;

pub use kubernetes::{MAX_CACHED_SERVICES, ServiceReader};
pub use resolve::{
    ClusterDns, FixedAddress, ResolveService, ServiceError, SocketTarget, service_host,
};
