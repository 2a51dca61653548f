//! The transport of a client: TCP or a proxy, TLS, and the version of HTTP.

use std::sync::Arc;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{
    DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName,
};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::Connection;
use kube::{Config, client::ConfigExt};
use rustls::pki_types::ServerName;
use tower::Service;

use super::negotiated::NegotiatedTransport;

/// What TLS offers in the order of preference.
const BOTH: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Which versions of HTTP are offered. A server without TLS gets HTTP/1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2, and HTTP/1.1 where a server or a proxy does not have it.
    #[default]
    Http2AndHttp1,
    /// Only HTTP/1.1, with one connection for each watch.
    Http1,
}

/// A connector over TLS, with one timeout for all of it.
type Connector<C> = TimeoutConnector<HttpsConnector<C>>;

pub(super) fn transport<C>(
    config: &Config,
    connector: C,
    protocols: Protocols,
) -> Result<NegotiatedTransport<Connector<C>>, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    // Without a protocol in TLS it is HTTP/1.1.
    let http1 = limited(config, connector.clone(), &[])?;
    let http2 = match protocols {
        Protocols::Http1 => None,
        Protocols::Http2AndHttp1 => Some(limited(config, connector, &BOTH)?),
    };
    Ok(NegotiatedTransport::new(http1, http2))
}

fn limited<C>(
    config: &Config,
    connector: C,
    protocols: &[&[u8]],
) -> Result<Connector<C>, kube::Error>
where
    C: Service<Uri> + Send + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let connector = HttpsConnector::new(connector, tls, false, server_name(config)?);
    let mut limited = TimeoutConnector::new(connector);
    limited.set_connect_timeout(config.connect_timeout);
    limited.set_write_timeout(config.write_timeout);
    Ok(limited)
}

/// The name that the server's certificate must have.
fn server_name(config: &Config) -> Result<Arc<dyn ResolveServerName + Send + Sync>, kube::Error> {
    let Some(name) = &config.tls_server_name else {
        return Ok(Arc::new(DefaultServerNameResolver::default()));
    };
    let name = ServerName::try_from(name.clone())
        .map_err(|error| kube::Error::Service(Box::new(error)))?;
    Ok(Arc::new(FixedServerNameResolver::new(name)))
}
