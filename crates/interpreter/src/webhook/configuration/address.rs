//! Where a webhook is and whom to trust there.

use base64::{Engine, engine::general_purpose::STANDARD};
use fleetdex_core::model::{is_dns_label, is_dns_subdomain};
use serde_json::{Value, json};

use crate::{
    field_problem::{FieldProblem, shown},
    value,
};

const DEFAULT_PORT: u16 = 443;
const MAX_URL_BYTES: usize = 2048;

/// How a webhook is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// Where it is.
    pub address: WebhookAddress,
    /// Certificates in PEM that its certificate is checked against; `None`: those of the system.
    pub ca_bundle: Option<Vec<u8>>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// An `https` URL without user, query and fragment.
    Url(String),
    /// A Service of the control plane.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The path, which starts with `/`.
        path: String,
        /// The port of the Service, 443 by default.
        port: u16,
    },
}

impl WebhookEndpoint {
    /// All that identifies it, in a form that no change of the code changes.
    pub(super) fn identity(&self) -> Value {
        let Self { address, ca_bundle } = self;
        let address = match address {
            WebhookAddress::Url(url) => json!(["url", url]),
            WebhookAddress::Service {
                namespace,
                name,
                path,
                port,
            } => json!(["service", namespace, name, path, port]),
        };
        let ca_bundle = ca_bundle.as_ref().map(|bundle| STANDARD.encode(bundle));
        json!([address, ca_bundle])
    }

    /// The endpoint that a `clientConfig` describes. Where it has both a service and a URL, which
    /// is refused today, the service counts, as in Karmada.
    pub(super) fn parse(path: &str, client: &Value) -> Result<Self, FieldProblem> {
        let service = value::at(client, &["service"]);
        let url = value::at(client, &["url"]);
        let address = if service.is_object() {
            service_address(&format!("{path}.service"), service)?
        } else if let Some(url) = url.as_str() {
            check_url(&format!("{path}.url"), url)?;
            WebhookAddress::Url(url.to_owned())
        } else {
            return Err(FieldProblem::new(path, "set either url or service"));
        };
        Ok(Self {
            address,
            ca_bundle: ca_bundle(&format!("{path}.caBundle"), client)?,
        })
    }
}

fn ca_bundle(path: &str, client: &Value) -> Result<Option<Vec<u8>>, FieldProblem> {
    let text = value::text(client, &["caBundle"]);
    if text.is_empty() {
        return Ok(None);
    }
    STANDARD.decode(text).map(Some).map_err(|_| {
        FieldProblem::new(
            path,
            "write the PEM certificates of the authority in base64, on one line",
        )
    })
}

/// Source: `ValidateWebhookURL` of `k8s.io/apiserver/pkg/util/webhook`.
fn check_url(path: &str, url: &str) -> Result<(), FieldProblem> {
    let refuse = |message: &str| Err(FieldProblem::new(path, format!("{} {message}", shown(url))));
    let form = "must be a URL such as https://webhook.example.com:8443/interpret";
    let Some((scheme, rest)) = url.split_once("://") else {
        return refuse(form);
    };
    if !scheme.eq_ignore_ascii_case("https") {
        return refuse("must start with https://: webhooks are called over TLS only");
    }
    if url.contains(['?', '#']) {
        return refuse("must have neither a query nor a fragment: remove '?' and '#'");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return refuse("must have no user and no password: remove everything up to '@'");
    }
    let odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if url.len() > MAX_URL_BYTES || url.contains(odd) || !is_authority(authority) {
        return refuse(form);
    }
    Ok(())
}

/// A host, or an IPv6 address in brackets, with or without a port.
fn is_authority(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty() && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Source: `ValidateWebhookService` of `k8s.io/apiserver/pkg/util/webhook`.
fn service_address(path: &str, service: &Value) -> Result<WebhookAddress, FieldProblem> {
    let text = |member: &str| value::text(service, &[member]).to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    for (member, part) in [("namespace", &namespace), ("name", &name)] {
        if !is_dns_label(part) {
            let message = "is needed: a DNS label of lower-case letters, digits and '-'";
            return Err(FieldProblem::new(format!("{path}.{member}"), message));
        }
    }
    let url_path = text("path");
    check_path(&format!("{path}.path"), &url_path)?;
    Ok(WebhookAddress::Service {
        namespace,
        name,
        path: if url_path.is_empty() {
            "/".to_owned()
        } else {
            url_path
        },
        port: port(&format!("{path}.port"), service)?,
    })
}

fn port(path: &str, service: &Value) -> Result<u16, FieldProblem> {
    match value::at(service, &["port"]) {
        Value::Null => Ok(DEFAULT_PORT),
        port => value::as_integer(port)
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
            .ok_or_else(|| FieldProblem::new(path, "must be a port from 1 to 65535")),
    }
}

fn check_path(path: &str, url_path: &str) -> Result<(), FieldProblem> {
    if matches!(url_path, "" | "/") {
        return Ok(());
    }
    let Some(inner) = url_path.strip_prefix('/') else {
        let message = format!("{} must start with '/'", shown(url_path));
        return Err(FieldProblem::new(path, message));
    };
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    match inner.split('/').find(|segment| !is_dns_subdomain(segment)) {
        Some(segment) => {
            let message = format!(
                "the segment {} must be of lower-case letters, digits, '-' and '.', and start and end with a letter or digit",
                shown(segment)
            );
            Err(FieldProblem::new(path, message))
        }
        None => Ok(()),
    }
}
