//! The client of the control plane.

use fleetdex_limits::response_limit::ResponseLimitLayer;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
};
use tower::{BoxError, ServiceBuilder, util::MapRequestLayer};

use super::{
    gzip::{accepting_gzip, unpacked},
    transport::{Protocols, transport},
};

/// A client of the control plane whose responses are bounded in size. It authenticates as kube does
/// and does not retry. Its watches share connections: there is one for the Secret of each member.
///
/// Through a proxy, and with credentials of a program, whose certificate expires, it is kube's own
/// client, over HTTP/1.1.
pub fn control_plane_client(config: &Config) -> Result<Client, kube::Error> {
    client(config, Protocols::Http2AndHttp1)
}

/// The same over HTTP/1.1, for Leases: a request that is not answered in time ends its connection,
/// and the next one does not wait for a server that has fallen silent.
pub fn lease_client(config: &Config) -> Result<Client, kube::Error> {
    client(config, Protocols::Http1)
}

fn client(config: &Config, protocols: Protocols) -> Result<Client, kube::Error> {
    let limit = ResponseLimitLayer::default();
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        let client = ClientBuilder::try_from(config.clone())?;
        return Ok(client.with_layer(&limit).build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let transport = transport(config, tcp, protocols)?;
    let compression =
        (!config.disable_compression).then(|| MapRequestLayer::new(accepting_gzip::<Body>));
    let service = ServiceBuilder::new()
        .layer(limit)
        .layer(config.base_uri_layer())
        .option_layer(compression)
        .map_response(unpacked)
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(transport);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}
