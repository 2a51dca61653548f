//! How the OpenSearch of a registry is reached: reads the Secrets that the registry names.
//!
//! Guarantee: a Secret is used only for hosts that it allows, and one that is named is used, or the
//! store is not opened.

use std::time::Duration;

use base64::Engine as _;
use fleetdex_clusters::secret_hosts::{self, SecretDestination, SecretHosts, SecretRef};
use fleetdex_core::model::causes;
use fleetdex_crds::{
    aws::AwsSigning,
    registry::{OpenSearch, SecretReference},
};
use fleetdex_store::opensearch::{
    Authentication, AwsAuthentication, AwsKeys, Settings, SettingsError, StoreProxy, proxy_url, url,
};
use fleetdex_sync::pipeline::Unavailable;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use super::store_secret::StoreSecret;

/// The port of a SOCKS proxy whose URL has none.
const SOCKS_PORT: u16 = 1080;
/// How long the control plane may take to return a Secret.
const SECRET_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the credentials for OpenSearch come from.
#[derive(Clone)]
pub enum CredentialSource {
    /// Secrets of the control plane, which registries name. They are sent only where the hosts
    /// allow.
    Secrets(Client, SecretHosts),
    /// A user and a password, for every store.
    BasicAuth(String, String),
    /// There are none.
    None,
}

/// How to reach the OpenSearch of a registry: reads the Secrets that it names, which have to allow
/// its addresses.
pub async fn store_settings(
    config: &OpenSearch,
    credentials: &CredentialSource,
) -> Result<Settings, Unavailable> {
    let reader = SettingsReader {
        config,
        credentials,
    };
    reader.settings().await
}

struct SettingsReader<'s> {
    config: &'s OpenSearch,
    credentials: &'s CredentialSource,
}

impl SettingsReader<'_> {
    async fn settings(&self) -> Result<Settings, Unavailable> {
        let config = self.config;
        let mut settings = Settings {
            addresses: config.addresses.clone(),
            authentication: Authentication::None,
            client_certificate: None,
            ca_bundle: config.ca_bundle.as_deref().map(pem),
            insecure: config.insecure_skip_tls_verify,
            proxy: self.proxy(),
        };
        if let CredentialSource::BasicAuth(user, password) = self.credentials {
            settings.authentication = Authentication::Basic {
                user: user.clone(),
                password: password.clone(),
            };
        }
        if let Some(aws) = &config.aws {
            settings.authentication = Authentication::Aws(aws_authentication(aws, None));
        }
        if let Some(secret) = self.secret("secretRef", config.secret_ref.as_ref()).await? {
            settings.authentication = self.authentication(&secret)?;
            if let Some(proxy) = &mut settings.proxy {
                proxy.login = secret.proxy_login()?;
            }
        }
        if let Some(secret) = self
            .secret(
                "clientCertSecretRef",
                config.client_cert_secret_ref.as_ref(),
            )
            .await?
        {
            let certificate = secret.text(&["tls.crt"])?;
            let key = secret.text(&["tls.key"])?;
            settings.client_certificate = Some(format!("{certificate}\n{key}").into_bytes());
        }
        Ok(settings)
    }

    fn proxy(&self) -> Option<StoreProxy> {
        let url = self.config.proxy_url.as_ref()?;
        Some(StoreProxy {
            url: url.clone(),
            login: None,
        })
    }

    fn authentication(&self, secret: &StoreSecret) -> Result<Authentication, Unavailable> {
        if let Some(aws) = &self.config.aws {
            let keys = secret.aws_keys()?;
            return Ok(Authentication::Aws(aws_authentication(aws, keys)));
        }
        if self.config.client_cert_secret_ref.is_some() && secret.is_only_for_proxy() {
            return Ok(Authentication::None);
        }
        secret.login()
    }

    /// Reads a Secret, and checks that it may be sent to the store. A Secret that is named has to
    /// exist: there is never a silent fallback to no authentication.
    async fn secret(
        &self,
        field: &str,
        reference: Option<&SecretReference>,
    ) -> Result<Option<StoreSecret>, Unavailable> {
        let complete = reference.map(SecretReference::complete).transpose();
        let complete = complete.map_err(|error| Unavailable {
            reason: "InvalidSecretRef",
            message: error.to_string(),
        })?;
        let Some(reference) = complete.flatten() else {
            return Ok(None);
        };
        let SecretReference { namespace, name } = reference;
        let unavailable = |reason: &'static str, problem: String| Unavailable {
            reason,
            message: format!("backendStore.openSearch.{field}: {problem}"),
        };
        let named = SecretRef { namespace, name };
        if !named.is_valid() {
            let problem = format!(
                "{namespace:?} and {name:?} are not a valid namespace and name of a Secret"
            );
            return Err(unavailable("InvalidSecretRef", problem));
        }
        let CredentialSource::Secrets(control_plane, hosts) = self.credentials else {
            let problem =
                format!("there is no control plane to read Secret {namespace}/{name} from");
            return Err(unavailable("SecretUnreadable", problem));
        };
        let found = read_secret(control_plane, namespace, name)
            .await
            .map_err(|problem| unavailable("SecretUnreadable", problem))?;
        let Some(secret) = found else {
            let problem = format!(
                "Secret {namespace}/{name} does not exist; create it, or remove the reference"
            );
            return Err(unavailable("SecretNotFound", problem));
        };
        hosts
            .check(named, &secret, self.destinations()?)
            .map_err(|error| unavailable(secret_hosts::REASON, error.to_string()))?;
        Ok(Some(StoreSecret {
            reference: reference.clone(),
            secret,
        }))
    }

    /// The hosts that receive the credentials. A proxy sees those of requests without TLS, and has
    /// a user and a password of its own.
    fn destinations(&self) -> Result<Vec<SecretDestination>, Unavailable> {
        let nodes = self.config.addresses.iter().map(|address| url(address));
        let proxy = self.config.proxy_url.iter().map(|proxy| proxy_url(proxy));
        let destinations = nodes
            .chain(proxy)
            .map(|parsed| {
                let url = parsed?;
                let port = url.port_or_known_default().unwrap_or(SOCKS_PORT);
                let host = url.host_str().unwrap_or_default();
                Ok(SecretDestination::new(host, port))
            })
            .collect::<Result<_, SettingsError>>();
        destinations.map_err(|error| invalid_settings(&error))
    }
}

fn aws_authentication(aws: &AwsSigning, keys: Option<AwsKeys>) -> AwsAuthentication {
    AwsAuthentication {
        region: aws.region.clone(),
        service: aws.service().to_owned(),
        role_arn: aws.role_arn.clone(),
        keys,
    }
}

/// The condition of a store whose settings cannot be used.
pub(super) fn invalid_settings(error: &SettingsError) -> Unavailable {
    Unavailable {
        reason: "InvalidSettings",
        message: error.to_string(),
    }
}

/// A Secret, if it exists, or why it cannot be read.
async fn read_secret(
    control_plane: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Secret>, String> {
    let secrets = Api::<Secret>::namespaced(control_plane.clone(), namespace);
    match tokio::time::timeout(SECRET_TIMEOUT, secrets.get_opt(name)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(format!(
            "Secret {namespace}/{name} cannot be read: {}",
            causes(&error)
        )),
        Err(_) => Err(format!(
            "the control plane did not return Secret {namespace}/{name} within {} s",
            SECRET_TIMEOUT.as_secs()
        )),
    }
}

/// PEM as it is, or in base64 as in Kubernetes' `caBundle` fields.
fn pem(text: &str) -> Vec<u8> {
    let compact: String = text.split_whitespace().collect();
    match base64::engine::general_purpose::STANDARD.decode(compact) {
        Ok(decoded) if decoded.starts_with(b"-----BEGIN") => decoded,
        _ => text.as_bytes().to_vec(),
    }
}
