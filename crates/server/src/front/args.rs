//! The flags of the front.

use std::path::PathBuf;

use clap::Args;

use super::{api_service::ServiceName, authorize::Mode};

/// The flags of the front. Without a Service and without a certificate there is none.
#[derive(Args, Clone, Debug)]
pub struct FrontArgs {
    /// The Service by which the control plane reaches the query API, which is then served over TLS to everybody whom the control plane knows,
    /// and registered there as an `APIService`.
    #[arg(long, value_name = "NAMESPACE/NAME", env = "FLEETDEX_API_SERVICE")]
    pub api_service: Option<ServiceName>,

    /// Port of that Service.
    #[arg(
        long,
        env = "FLEETDEX_API_SERVICE_PORT",
        default_value_t = 443,
        requires = "api_service"
    )]
    pub api_service_port: u16,

    /// The Secret in that Service's namespace in which replicas share the authority of their certificates.
    #[arg(
        long,
        env = "FLEETDEX_SERVING_SECRET",
        default_value = "fleetdex-serving",
        requires = "api_service"
    )]
    pub serving_secret: String,

    /// The Secret in which replicas share the keys of continue tokens: in that Service's namespace, or else in that of the replicas' Leases.
    #[arg(
        long,
        env = "FLEETDEX_CONTINUE_TOKEN_SECRET",
        default_value = "fleetdex-continue-tokens"
    )]
    pub continue_token_secret: String,

    /// Serve the query API over TLS with the certificate of this file (PEM), which may be replaced at any time.
    #[arg(
        long,
        env = "FLEETDEX_TLS_CERT_FILE",
        requires = "tls_private_key_file"
    )]
    pub tls_cert_file: Option<PathBuf>,

    /// The key of that certificate (PEM).
    #[arg(
        long,
        env = "FLEETDEX_TLS_PRIVATE_KEY_FILE",
        requires = "tls_cert_file"
    )]
    pub tls_private_key_file: Option<PathBuf>,

    /// The authority of that certificate (PEM), to be written into the `APIService`; without it somebody else has to see to that.
    #[arg(long, env = "FLEETDEX_TLS_CA_FILE", requires = "tls_cert_file")]
    pub tls_ca_file: Option<PathBuf>,

    /// Believe every certificate of the front proxies' authority when the control plane lists no allowed names. Only where that authority signs
    /// nothing else.
    #[arg(long, env = "FLEETDEX_REQUESTHEADER_ALLOW_ANY_NAME")]
    pub requestheader_allow_any_name: bool,

    /// What bearer tokens have to be meant for (separated by commas); without it, the control plane itself.
    #[arg(
        long = "api-audience",
        value_name = "AUDIENCE",
        value_delimiter = ',',
        env = "FLEETDEX_API_AUDIENCE"
    )]
    pub api_audiences: Vec<String>,

    /// Whose rights decide which objects somebody sees: the control plane's, or those of each member.
    #[arg(long, value_enum, env = "FLEETDEX_AUTHORIZATION", default_value_t)]
    pub authorization: Mode,
}

impl FrontArgs {
    /// Whether the query API is served to others than the holder of the token file.
    pub fn is_on(&self) -> bool {
        self.api_service.is_some() || self.tls_cert_file.is_some()
    }
}
