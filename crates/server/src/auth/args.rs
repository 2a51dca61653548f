//! The flags of secure serving.

use std::path::PathBuf;

use clap::Args;

use super::{api_service::ServiceName, authorize::AuthorizationMode};

/// The flags of secure serving, which is off without a Service and without a certificate.
#[derive(Args, Clone, Debug)]
pub struct SecureServingArgs {
    /// The Service by which the control plane reaches the query API, which is then served over TLS
    /// to all users that the control plane authenticates, and registered there as an `APIService`.
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

    /// The Secret in that Service's namespace in which replicas share the certificate authority of
    /// their serving certificates.
    #[arg(
        long,
        env = "FLEETDEX_SERVING_SECRET",
        default_value = "fleetdex-serving",
        requires = "api_service"
    )]
    pub serving_secret: String,

    /// The Secret in which replicas share the keys of continue tokens: in that Service's namespace,
    /// or else in that of the replicas' Leases.
    #[arg(
        long,
        env = "FLEETDEX_CONTINUE_TOKEN_SECRET",
        default_value = "fleetdex-continue-tokens"
    )]
    pub continue_token_secret: String,

    /// Serve the query API over TLS with the certificate in this file (PEM), which may be replaced
    /// at any time.
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

    /// The certificate authority of that certificate (PEM), for the `caBundle` of the `APIService`;
    /// without it the `caBundle` is left to others.
    #[arg(long, env = "FLEETDEX_TLS_CA_FILE", requires = "tls_cert_file")]
    pub tls_ca_file: Option<PathBuf>,

    /// Leave the `caBundle` of the `APIService` to another program, such as cert-manager's
    /// cainjector; replicas still verify each other by the file.
    #[arg(long, env = "FLEETDEX_LEAVE_CA_BUNDLE", requires = "tls_cert_file")]
    pub leave_ca_bundle: bool,

    /// Trust every certificate of the front proxies' certificate authority when the control plane
    /// lists no allowed names. Only safe where that authority signs nothing else.
    #[arg(long, env = "FLEETDEX_REQUESTHEADER_ALLOW_ANY_NAME")]
    pub requestheader_allow_any_name: bool,

    /// The audiences of which a bearer token must have one (separated by commas); without it, those
    /// of the control plane.
    #[arg(
        long = "api-audience",
        value_name = "AUDIENCE",
        value_delimiter = ',',
        env = "FLEETDEX_API_AUDIENCE"
    )]
    pub api_audiences: Vec<String>,

    /// Whose RBAC decides which objects a user sees: the control plane's, or that of each member.
    #[arg(long, value_enum, env = "FLEETDEX_AUTHORIZATION", default_value_t)]
    pub authorization: AuthorizationMode,
}

impl SecureServingArgs {
    /// Whether the query API is served over TLS, to users that the control plane authenticates.
    pub fn is_on(&self) -> bool {
        self.api_service.is_some() || self.tls_cert_file.is_some()
    }
}
