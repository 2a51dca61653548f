//! Restricts the hosts that the credentials in Secrets may be sent to.
//!
//! A `ResourceRegistry` or a `Cluster` names a Secret and an address. Without a restriction, its
//! author could have any Secret that the operator may read sent to an address of their choice. So a
//! Secret is sent only to hosts in its own annotation `fleetdex.io/allowed-hosts`, or in the flag
//! `--allow-secret-hosts`, which is for Secrets that other programs write. A kubeconfig in a Secret
//! contains its address, so it is not checked.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr};

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Secret;

/// The annotation of a Secret with the hosts that it may be sent to, separated by commas.
pub const ALLOWED_HOSTS_ANNOTATION: &str = "fleetdex.io/allowed-hosts";

/// Whether the restriction is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SecretHostsMode {
    /// A Secret is sent only to hosts that it, or a flag, allows.
    #[default]
    Enforce,
    /// A Secret is sent wherever an object that names it says.
    Off,
}

/// The hosts that Secrets may be sent to.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretHosts {
    /// `enforce`: a Secret that a Cluster or a `ResourceRegistry` names is sent only to hosts that
    /// its annotation fleetdex.io/allowed-hosts, or --allow-secret-hosts, lists; `off`: wherever
    /// that object says.
    #[arg(
        long = "secret-hosts",
        value_enum,
        default_value_t,
        env = "FLEETDEX_SECRET_HOSTS"
    )]
    pub mode: SecretHostsMode,

    /// NAMESPACE/NAME=HOST,…: hosts that Secrets without the annotation may be sent to, such as
    /// karmada-cluster/*=*.example.com,10.0.0.0/8; repeatable, or separated by semicolons.
    #[arg(
        long = "allow-secret-hosts",
        value_name = "NAMESPACE/NAME=HOST,…",
        value_delimiter = ';',
        env = "FLEETDEX_ALLOW_SECRET_HOSTS"
    )]
    pub allowances: Vec<SecretAllowance>,
}

/// Hosts that the matching Secrets may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretAllowance {
    /// A namespace, or `*` for all.
    namespace: String,
    /// A name, or `*` for all.
    name: String,
    hosts: Vec<HostPattern>,
}

/// Matches hosts, and optionally a port: a name, `*.example.com`, `*`, an address or a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    /// All subdomains of a domain, which starts with a dot.
    Below(String),
    Name(String),
    /// The addresses of a network with this prefix length.
    Network(IpAddr, u32),
}

/// The host and port that a request is sent to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretDestination {
    host: String,
    port: u16,
}

/// The namespace and name of a Secret that an object refers to.
#[derive(Clone, Copy, Debug)]
pub struct SecretRef<'r> {
    /// Its namespace.
    pub namespace: &'r str,
    /// Its name.
    pub name: &'r str,
}

/// A Secret may not be sent to the hosts that an object names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {namespace}/{name} may not be sent to {}: {}", list(destinations), self.remedy())]
pub struct NotAllowed {
    namespace: String,
    name: String,
    destinations: BTreeSet<SecretDestination>,
    is_annotated: bool,
}

/// A value of `--allow-secret-hosts` is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAMESPACE/NAME=HOST,…, such as karmada-cluster/*=*.example.com,10.0.0.0/8")]
pub struct InvalidAllowance(String);

/// A text matches no hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host: use a name, *.example.com, an address or a network, with a port or not")]
pub struct InvalidHostPattern(String);

/// The reason for a condition of an object whose Secret may not be sent.
pub const REASON: &str = "HostNotAllowed";

impl SecretHosts {
    /// Allows every Secret to be sent to any host.
    pub fn off() -> Self {
        Self {
            mode: SecretHostsMode::Off,
            allowances: Vec::new(),
        }
    }

    /// Checks that a Secret may be sent to all `destinations`.
    pub fn check(
        &self,
        reference: SecretRef<'_>,
        secret: &Secret,
        destinations: impl IntoIterator<Item = SecretDestination>,
    ) -> Result<(), NotAllowed> {
        if self.mode == SecretHostsMode::Off {
            return Ok(());
        }
        let annotation = secret
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(ALLOWED_HOSTS_ANNOTATION));
        // An invalid entry allows nothing.
        let by_annotation: Vec<HostPattern> = annotation
            .map(|text| {
                entries(text)
                    .filter_map(|entry| entry.parse().ok())
                    .collect()
            })
            .unwrap_or_default();
        let by_flag = self
            .allowances
            .iter()
            .filter(|allowance| allowance.matches(reference))
            .flat_map(|allowance| &allowance.hosts);
        let allowed: Vec<&HostPattern> = by_annotation.iter().chain(by_flag).collect();
        let refused: BTreeSet<SecretDestination> = destinations
            .into_iter()
            .filter(|destination| !allowed.iter().any(|pattern| pattern.matches(destination)))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let (namespace, name) = (reference.namespace.to_owned(), reference.name.to_owned());
        Err(NotAllowed {
            namespace,
            name,
            destinations: refused,
            is_annotated: annotation.is_some(),
        })
    }
}

impl SecretRef<'_> {
    /// Whether namespace and name are valid. An invalid one must not become part of a request's
    /// path.
    pub fn is_valid(&self) -> bool {
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label =
            |label: &str| !label.is_empty() && label.len() <= 253 && label.bytes().all(is_inner);
        is_label(self.namespace)
            && self.namespace.len() <= 63
            && self.name.len() <= 253
            && self.name.split('.').all(is_label)
    }
}

impl NotAllowed {
    fn remedy(&self) -> String {
        let Self {
            namespace,
            name,
            destinations,
            is_annotated,
        } = self;
        let problem = if *is_annotated {
            "does not list that"
        } else {
            "is missing"
        };
        let rule = format!(
            "its annotation {ALLOWED_HOSTS_ANNOTATION} {problem}; if the credentials belong there, "
        );
        // The command is for a shell, and the address was written by the author of the object.
        let is_plain = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
        };
        let hosts = list(destinations);
        if *is_annotated || !is_plain(&hosts.replace(',', "")) {
            return format!("{rule}add {hosts} to it");
        }
        format!(
            "{rule}run: kubectl -n {namespace} annotate secret {name} '{ALLOWED_HOSTS_ANNOTATION}={hosts}'"
        )
    }
}

fn list(destinations: &BTreeSet<SecretDestination>) -> String {
    destinations
        .iter()
        .map(SecretDestination::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

impl SecretDestination {
    /// A host as in a URL, with or without brackets, and a port.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: canonical(host),
            port,
        }
    }
}

impl fmt::Display for SecretDestination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(out, "[{host}]:{port}")
        } else {
            write!(out, "{host}:{port}")
        }
    }
}

/// The canonical form of a host: lower case, without brackets and trailing dot; an IP address in
/// its usual notation.
fn canonical(host: &str) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => bare.trim_end_matches('.').to_ascii_lowercase(),
    }
}

impl SecretAllowance {
    fn matches(&self, SecretRef { namespace, name }: SecretRef<'_>) -> bool {
        let matches = |pattern: &str, text| pattern == "*" || pattern == text;
        matches(&self.namespace, namespace) && matches(&self.name, name)
    }
}

impl FromStr for SecretAllowance {
    type Err = InvalidAllowance;

    fn from_str(text: &str) -> Result<Self, InvalidAllowance> {
        let invalid = || InvalidAllowance(text.to_owned());
        let (secret, hosts) = text.trim().split_once('=').ok_or_else(invalid)?;
        let (namespace, name) = secret
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
            .ok_or_else(invalid)?;
        let hosts = entries(hosts)
            .map(|entry| entry.parse().map_err(|_: InvalidHostPattern| invalid()))
            .collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(invalid());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            hosts,
        })
    }
}

/// The entries of a list that is separated by commas or white space.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\n', '\t', '\r'])
        .filter(|entry| !entry.is_empty())
}

impl FromStr for HostPattern {
    type Err = InvalidHostPattern;

    fn from_str(text: &str) -> Result<Self, InvalidHostPattern> {
        Self::parsed(text).ok_or_else(|| InvalidHostPattern(text.to_owned()))
    }
}

impl HostPattern {
    fn parsed(text: &str) -> Option<Self> {
        if let Some((network, bits)) = text.split_once('/') {
            let network: IpAddr = network.parse().ok()?;
            let bits: u32 = bits.parse().ok()?;
            let width = if network.is_ipv4() { 32 } else { 128 };
            return (bits <= width).then_some(Self {
                hosts: Hosts::Network(network, bits),
                port: None,
            });
        }
        let is_bare_address = text.parse::<IpAddr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_address && !text.ends_with(']') => {
                (host, Some(port.parse().ok()?))
            }
            _ => (text, None),
        };
        let hosts = match host.strip_prefix('*') {
            Some("") => Hosts::Any,
            Some(domain)
                if domain.len() > 1 && domain.starts_with('.') && !domain.contains('*') =>
            {
                Hosts::Below(canonical(domain))
            }
            Some(_) => return None,
            None if host.is_empty() || host.contains('*') => return None,
            None => Hosts::Name(canonical(host)),
        };
        Some(Self { hosts, port })
    }

    /// Whether it matches a host and a port.
    pub fn matches(&self, destination: &SecretDestination) -> bool {
        let is_host = match &self.hosts {
            Hosts::Any => true,
            Hosts::Below(domain) => {
                destination.host.len() > domain.len() && destination.host.ends_with(domain.as_str())
            }
            Hosts::Name(name) => *name == destination.host,
            Hosts::Network(network, bits) => destination
                .host
                .parse()
                .is_ok_and(|address| is_within(address, *network, *bits)),
        };
        is_host && self.port.is_none_or(|port| port == destination.port)
    }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let differing = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            u128::from(address.to_bits() ^ network.to_bits()) << 96
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => address.to_bits() ^ network.to_bits(),
        _ => return false,
    };
    differing.leading_zeros() >= bits
}

#[cfg(test)]
mod tests;
