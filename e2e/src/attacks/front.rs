//! Requests of any user, as the aggregation layer of the control plane sends them.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::{Client, Method, RequestBuilder};

use crate::{fleet::ApiServer, http, objects::Objects};

/// The name in the certificate that the operator makes for its Service.
const HOST: &str = "fleetdex.search.svc";
/// The last byte of the address of users who do no harm.
pub const USUAL_ADDRESS: u8 = 1;
/// Longer than any attack: the callers set the time.
const TIMEOUT: Duration = Duration::from_mins(10);

/// A user with one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestUser {
    /// The name.
    pub name: String,
    /// The group, which has the rights.
    pub group: &'static str,
}

/// What a client needs to send requests of any user to one operator. A client belongs to the async
/// runtime that uses it.
#[derive(Clone, Debug)]
pub struct Front {
    authority: Vec<u8>,
    identity: String,
    address: SocketAddr,
}

/// A client that sends requests of any user, each request of HTTP/1.1 with a connection of its own.
#[derive(Clone, Debug)]
pub struct FrontClient {
    client: Client,
    port: u16,
}

impl Front {
    /// Reads what an operator and its control plane use.
    pub async fn new(control_plane: &ApiServer, address: &str) -> Result<Self> {
        let hub = Objects::of(control_plane)?;
        let secret = hub
            .get("api/v1/namespaces/search/secrets/fleetdex-serving")
            .await?;
        let authority = secret["data"]["ca.crt"].as_str().unwrap_or_default();
        let folder = control_plane.ca_path();
        let read = |file: &str| {
            let path = folder.with_file_name(file);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        Ok(Self {
            authority: STANDARD
                .decode(authority)
                .context("the operator's authority")?,
            identity: format!(
                "{}{}",
                read("front-proxy-client.crt")?,
                read("front-proxy-client.key")?
            ),
            address: address.parse().context("the operator's address")?,
        })
    }

    /// A client that proves to be the aggregation layer, at an address of loopback by its last
    /// byte.
    pub fn client(&self, address: u8) -> Result<FrontClient> {
        self.client_with(address, true)
    }

    /// A client for bearer tokens.
    pub fn client_of_tokens(&self, address: u8) -> Result<FrontClient> {
        self.client_with(address, false)
    }

    fn client_with(&self, address: u8, is_front: bool) -> Result<FrontClient> {
        http::install_tls_provider();
        let authority = reqwest::Certificate::from_pem(&self.authority)
            .context("reading the operator's authority")?;
        let mut builder = Client::builder()
            .no_proxy()
            .no_gzip()
            .http1_only()
            .local_address(IpAddr::from([127, 0, 0, address]))
            .timeout(TIMEOUT)
            .tls_certs_only([authority])
            .resolve(HOST, self.address);
        if is_front {
            let identity = reqwest::Identity::from_pem(self.identity.as_bytes())
                .context("reading the certificate of the aggregation layer")?;
            builder = builder.identity(identity);
        }
        Ok(FrontClient {
            client: builder.build().context("making an HTTP client")?,
            port: self.address.port(),
        })
    }
}

impl FrontClient {
    /// A request of a user.
    pub fn request(&self, method: Method, path: &str, user: &RequestUser) -> RequestBuilder {
        self.anonymous(method, path)
            .header("x-remote-user", &user.name)
            .header("x-remote-group", user.group)
            .header("x-remote-group", "system:authenticated")
    }

    /// A request without a user.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("https://{HOST}:{}{path}", self.port))
    }
}
