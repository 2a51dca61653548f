//! Builds the client for a member from its address, credentials and proxy.
//!
//! The client does not retry, and it has no timeout for responses, as the response to a watch does
//! not end: each request sets its own timeout. Over HTTP/2, which it prefers, all watches of a
//! member share a connection.

use std::time::Duration;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use fleetdex_limits::intake::{Budget, IntakeLayer};
use http::{HeaderValue, Uri, header::USER_AGENT};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{
    Connection, HttpConnector,
    proxy::{SocksV5, Tunnel},
};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt},
    config::AuthInfo,
};
use rustls::crypto::aws_lc_rs;
use tower::{BoxError, Service, ServiceBuilder, filter::FilterLayer};

mod control_plane;
mod error;
mod gzip;
mod negotiated;
mod transport;

pub use control_plane::{control_plane_client, lease_client};
pub use error::ConnectError;
pub use gzip::{accepting_gzip, unpacked};
pub use negotiated::LargeTransfer;
pub use transport::Protocols;
use transport::transport;

use super::{
    bearer::Bearer,
    credentials::{Credentials, Impersonation, ServerTrust},
    endpoint,
    member::Member,
    proxy::{Proxy, Scheme},
    throttle::{Rate, ThrottleLayer},
};

/// The user agent of requests to members.
pub const AGENT: &str = concat!("fleetdex/", env!("CARGO_PKG_VERSION"));
/// Timeout for TCP, proxy and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of TCP keepalive probes; a dead connection is detected after a few of them.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Builds clients for members.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// Returns a client for `member` whose requests carry the current token of `bearer`. It need
    /// not send anything: the caller probes the member next.
    async fn connect(
        &self,
        member: &Member,
        credentials: &Credentials,
        bearer: &Bearer,
    ) -> Result<Client, ConnectError>;
}

/// Connects over the network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The rate limit of requests to each member.
    pub rate: Rate,
    /// The memory budget for responses of members.
    pub budget: Budget,
    /// Which versions of HTTP are offered to members.
    pub protocols: Protocols,
}

#[async_trait]
impl Connect for Network {
    async fn connect(
        &self,
        member: &Member,
        credentials: &Credentials,
        bearer: &Bearer,
    ) -> Result<Client, ConnectError> {
        // kube and the store's client must use one TLS provider; a second installation is refused,
        // which does no harm.
        let _installed_before = aws_lc_rs::default_provider().install_default();
        let config = config(credentials)?;
        let proxy = Proxy::of(credentials.proxy_url.as_deref(), &credentials.proxy_header)?;
        let intake = IntakeLayer(self.budget.share(member.name.as_str()));
        let layers = Layers {
            intake,
            throttle: ThrottleLayer::new(self.rate),
            bearer: bearer.clone(),
            protocols: self.protocols,
        };
        build(&config, layers, proxy).map_err(|error| ConnectError::Tls(Box::new(error)))
    }
}

/// The configuration of a member with its current token, for clients other than ours.
pub(super) fn rest_config(
    credentials: &Credentials,
    bearer: &Bearer,
) -> Result<Config, ConnectError> {
    let mut config = config(credentials)?;
    config.auth_info.token = bearer.token().map(Into::into);
    config.proxy_url = credentials
        .proxy_url
        .as_deref()
        .and_then(|url| url.parse().ok());
    Ok(config)
}

fn config(credentials: &Credentials) -> Result<Config, ConnectError> {
    let mut config = Config::new(server(&credentials.server)?);
    config.root_cert = match &credentials.trust {
        ServerTrust::System => None,
        ServerTrust::Roots(roots) => Some(roots.clone()),
        // Not the system's certificate authorities either: the machine may have none.
        ServerTrust::Insecure => Some(Vec::new()),
    };
    config.accept_invalid_certs = credentials.trust == ServerTrust::Insecure;
    config.tls_server_name.clone_from(&credentials.server_name);
    config.auth_info = auth_info(credentials);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(AGENT)));
    Ok(config)
}

/// The authentication that kube adds. A token takes precedence over user and password; the layer
/// [`Bearer`] adds it. Nothing here makes kube read a file or run a program.
fn auth_info(credentials: &Credentials) -> AuthInfo {
    let mut info = AuthInfo::default();
    if let (None, Some(login)) = (&credentials.token, &credentials.password) {
        info.username = Some(login.user.clone());
        info.password = Some(login.password.clone().into());
    }
    if let Some(client_certificate) = &credentials.client_certificate {
        info.client_certificate_data = Some(STANDARD.encode(&client_certificate.certificate));
        info.client_key_data = Some(STANDARD.encode(&client_certificate.key).into());
    }
    let Impersonation {
        user,
        uid,
        groups,
        extra,
    } = credentials.impersonation.clone();
    info.impersonate = user;
    info.impersonate_uid = uid;
    info.impersonate_groups = Some(groups).filter(|groups| !groups.is_empty());
    info.impersonate_user_extra = Some(extra.into_iter().collect());
    info
}

/// Parses the URL of an API server.
pub(super) fn server(url: &str) -> Result<Uri, ConnectError> {
    if url.is_empty() {
        return Err(ConnectError::EndpointMissing);
    }
    endpoint::parse(url).ok_or_else(|| ConnectError::EndpointInvalid { url: shown(url) })
}

/// The URL without user and password.
fn shown(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("(hidden)@{host}"),
        None => url.to_owned(),
    }
}

/// The layers that a client has besides those of kube.
struct Layers {
    intake: IntakeLayer,
    throttle: ThrottleLayer,
    /// In place of kube's own layer, which keeps the token that it was created with.
    bearer: Bearer,
    protocols: Protocols,
}

fn build(config: &Config, layers: Layers, proxy: Option<Proxy>) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    let Some(proxy) = proxy else {
        return client(config, layers, tcp);
    };
    match proxy.scheme {
        Scheme::Socks5 => {
            let mut socks = SocksV5::new(proxy.uri, tcp);
            if let Some(login) = proxy.login {
                socks = socks.with_auth(login.user, login.password);
            }
            client(config, layers, socks)
        }
        Scheme::Http => client(
            config,
            layers,
            Tunnel::new(proxy.uri, tcp).with_headers(proxy.headers),
        ),
        // As in client-go, the proxy's certificate is checked like the member's.
        Scheme::Https => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            client(
                config,
                layers,
                Tunnel::new(proxy.uri, tls).with_headers(proxy.headers),
            )
        }
    }
}

/// Stacks kube's layers and ours over `connector`, without kube's retries.
fn client<C>(config: &Config, layers: Layers, connector: C) -> Result<Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let transport = transport(config, connector, layers.protocols)?;
    let service = ServiceBuilder::new()
        .layer(layers.intake)
        .layer(layers.throttle)
        .layer(config.base_uri_layer())
        .map_request(accepting_gzip)
        .map_response(unpacked)
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .layer(FilterLayer::new(layers.bearer))
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(transport);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

#[cfg(test)]
mod tests;
