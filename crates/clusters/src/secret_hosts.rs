//! Where the credentials in Secrets may be sent.
//!
//! Whoever may write a `ResourceRegistry` or a `Cluster` names a Secret and an address in it. Without a bound between the two they could have any Secret
//! that the operator may read sent to an address of theirs. So a Secret goes only where its own annotation `fleetdex.io/allowed-hosts` says, or where
//! the flag `--allow-secret-hosts` says, which is for Secrets that other programs write. A kubeconfig in a Secret names its address itself, so it is
//! not asked.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr};

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Secret;

/// Names the hosts that a Secret may be sent to, separated by commas.
pub const ALLOWED_HOSTS_ANNOTATION: &str = "fleetdex.io/allowed-hosts";

/// Whether Secrets are bound to hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A Secret is sent only to hosts that it, or a flag, allows.
    #[default]
    Enforce,
    /// A Secret is sent wherever an object that names it says.
    Off,
}

/// Where Secrets may be sent.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretHosts {
    /// `enforce`: a Secret that a Cluster or a `ResourceRegistry` names is sent only to hosts that its annotation fleetdex.io/allowed-hosts, or
    /// --allow-secret-hosts, lists; `off`: wherever that object says.
    #[arg(
        long = "secret-hosts",
        value_enum,
        default_value_t,
        env = "FLEETDEX_SECRET_HOSTS"
    )]
    pub mode: Mode,

    /// NAMESPACE/NAME=HOST,…: hosts that Secrets without the annotation may be sent to, such as karmada-cluster/*=*.example.com,10.0.0.0/8; repeatable,
    /// or separated by semicolons.
    #[arg(
        long = "allow-secret-hosts",
        value_name = "NAMESPACE/NAME=HOST,…",
        value_delimiter = ';',
        env = "FLEETDEX_ALLOW_SECRET_HOSTS"
    )]
    pub allowances: Vec<Allowance>,
}

/// Hosts that some Secrets may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    namespace: Pattern,
    name: Pattern,
    hosts: Vec<HostPattern>,
}

/// A namespace or a name, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Any,
    Exactly(String),
}

/// Which hosts, and which port of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    /// Everything below a domain, which begins with a dot.
    Below(String),
    Name(String),
    /// Addresses that agree in the first so many bits.
    Network(IpAddr, u32),
}

/// Where a request goes to: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    host: String,
    port: u16,
}

/// A Secret, as the object that refers to it names it.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'r> {
    /// Its namespace.
    pub namespace: &'r str,
    /// Its name.
    pub name: &'r str,
}

/// A Secret may not be sent where an object wants it sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {namespace}/{name} may not be sent to {}: {}", list(destinations), self.remedy())]
pub struct NotAllowed {
    namespace: String,
    name: String,
    destinations: BTreeSet<Destination>,
    is_annotated: bool,
}

/// An allowance is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAMESPACE/NAME=HOST,…, such as karmada-cluster/*=*.example.com,10.0.0.0/8")]
pub struct InvalidAllowance(String);

/// What a condition of an object has as its reason while its Secret may not be sent.
pub const REASON: &str = "HostNotAllowed";

impl SecretHosts {
    /// Sends every Secret wherever an object says.
    pub fn off() -> Self {
        Self {
            mode: Mode::Off,
            allowances: Vec::new(),
        }
    }

    /// Whether a Secret may be sent to all of these.
    pub fn check(
        &self,
        reference: Reference<'_>,
        secret: &Secret,
        destinations: impl IntoIterator<Item = Destination>,
    ) -> Result<(), NotAllowed> {
        if self.mode == Mode::Off {
            return Ok(());
        }
        let annotation = secret
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(ALLOWED_HOSTS_ANNOTATION));
        // An entry that cannot be read allows nothing.
        let own: Vec<HostPattern> = annotation
            .map(|text| {
                entries(text)
                    .filter_map(|entry| entry.parse().ok())
                    .collect()
            })
            .unwrap_or_default();
        let by_flag = self
            .allowances
            .iter()
            .filter(|allowance| allowance.is_about(reference))
            .flat_map(|allowance| &allowance.hosts);
        let allowed: Vec<&HostPattern> = own.iter().chain(by_flag).collect();
        let refused: BTreeSet<Destination> = destinations
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

impl Reference<'_> {
    /// Whether a Secret can have this namespace and this name. Anything else must not become part of a request's path.
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
        // The command is for a shell, and the address is the words of whoever wrote the object.
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

fn list(destinations: &BTreeSet<Destination>) -> String {
    destinations
        .iter()
        .map(Destination::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

impl Destination {
    /// A host as a URL has it, with or without brackets, and the port of its scheme or its own.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: canonical(host),
            port,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(out, "[{host}]:{port}")
        } else {
            write!(out, "{host}:{port}")
        }
    }
}

/// One spelling of a host: lower case, without brackets and without the dot at its end; an address as it is usually written.
fn canonical(host: &str) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => bare.trim_end_matches('.').to_ascii_lowercase(),
    }
}

impl Allowance {
    fn is_about(&self, Reference { namespace, name }: Reference<'_>) -> bool {
        self.namespace.matches(namespace) && self.name.matches(name)
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        if text == "*" {
            Self::Any
        } else {
            Self::Exactly(text.to_owned())
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(only) => only == text,
        }
    }
}

impl FromStr for Allowance {
    type Err = InvalidAllowance;

    fn from_str(text: &str) -> Result<Self, InvalidAllowance> {
        let invalid = || InvalidAllowance(text.to_owned());
        let (secret, hosts) = text.trim().split_once('=').ok_or_else(invalid)?;
        let (namespace, name) = secret
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
            .ok_or_else(invalid)?;
        let hosts = entries(hosts)
            .map(|entry| entry.parse().map_err(|()| invalid()))
            .collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(invalid());
        }
        Ok(Self {
            namespace: Pattern::new(namespace),
            name: Pattern::new(name),
            hosts,
        })
    }
}

/// The entries of a list with commas or white space between them.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\n', '\t', '\r'])
        .filter(|entry| !entry.is_empty())
}

impl FromStr for HostPattern {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((network, bits)) = text.split_once('/') {
            let network: IpAddr = network.parse().map_err(|_| ())?;
            let bits: u32 = bits.parse().map_err(|_| ())?;
            let width = if network.is_ipv4() { 32 } else { 128 };
            return if bits <= width {
                Ok(Self {
                    hosts: Hosts::Network(network, bits),
                    port: None,
                })
            } else {
                Err(())
            };
        }
        let is_bare_address = text.parse::<IpAddr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_address && !text.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| ())?))
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
            Some(_) => return Err(()),
            None if host.is_empty() || host.contains('*') => return Err(()),
            None => Hosts::Name(canonical(host)),
        };
        Ok(Self { hosts, port })
    }
}

impl HostPattern {
    fn matches(&self, destination: &Destination) -> bool {
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
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    const REFERENCE: Reference<'_> = Reference {
        namespace: "fleet",
        name: "member1",
    };

    fn secret(allowed: Option<&str>) -> Secret {
        let annotations = allowed
            .map(|hosts| BTreeMap::from([(ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts.to_owned())]));
        Secret {
            metadata: ObjectMeta {
                annotations,
                ..ObjectMeta::default()
            },
            ..Secret::default()
        }
    }

    fn checked(
        hosts: &SecretHosts,
        allowed: Option<&str>,
        host: &str,
        port: u16,
    ) -> Result<(), NotAllowed> {
        hosts.check(REFERENCE, &secret(allowed), [Destination::new(host, port)])
    }

    fn is_allowed(allowed: &str, host: &str, port: u16) -> bool {
        checked(&SecretHosts::default(), Some(allowed), host, port).is_ok()
    }

    #[test]
    fn a_secret_goes_only_where_its_annotation_says() {
        for (allowed, host, port) in [
            ("os.example.com", "OS.example.com.", 9200),
            ("a, b\nos.example.com:9200", "os.example.com", 9200),
            ("*.example.com", "a.b.example.com", 1),
            ("*.example.com:443", "a.example.com", 443),
            ("10.0.0.0/8", "10.1.2.3", 6443),
            ("fd00::/8", "[fd12::1]", 6443),
            ("fd12::1", "[fd12:0::1]", 6443),
            ("[fd12::1]:6443", "fd12::1", 6443),
            ("127.0.0.1", "[::ffff:127.0.0.1]", 1),
            ("0.0.0.0/0", "8.8.8.8", 1),
            ("*", "anything", 1),
        ] {
            assert!(is_allowed(allowed, host, port), "{allowed} {host}:{port}");
        }
        for (allowed, host, port) in [
            ("", "os.example.com", 9200),
            ("os.example.com", "os.example.com.attacker.net", 9200),
            ("os.example.com:9200", "os.example.com", 9201),
            ("*.example.com", "example.com", 1),
            ("*.example.com", "badexample.com", 1),
            ("*example.com", "badexample.com", 1),
            ("a*", "ab", 1),
            ("10.0.0.0/8", "11.0.0.1", 1),
            ("10.0.0.0/8", "10.attacker.net", 1),
            ("10.0.0.0/33", "10.0.0.1", 1),
            ("::/0", "10.0.0.1", 1),
        ] {
            assert!(!is_allowed(allowed, host, port), "{allowed} {host}:{port}");
        }
    }

    #[test]
    fn every_destination_must_be_allowed() {
        let both = ["a", "b"].map(|host| Destination::new(host, 9200));
        let hosts = SecretHosts::default();
        assert!(
            hosts
                .check(REFERENCE, &secret(Some("a,b")), both.clone())
                .is_ok()
        );
        let refused = hosts
            .check(REFERENCE, &secret(Some("a")), both)
            .unwrap_err();
        assert_eq!(
            refused
                .destinations
                .iter()
                .map(Destination::to_string)
                .collect::<Vec<_>>(),
            ["b:9200"]
        );
    }

    #[test]
    fn the_message_says_what_to_do() {
        let missing = checked(&SecretHosts::default(), None, "os.example.com", 9200).unwrap_err();
        insta::assert_snapshot!(missing, @"Secret fleet/member1 may not be sent to os.example.com:9200: its annotation fleetdex.io/allowed-hosts is missing; if the credentials belong there, run: kubectl -n fleet annotate secret member1 'fleetdex.io/allowed-hosts=os.example.com:9200'");
        let another =
            checked(&SecretHosts::default(), Some("a"), "os.example.com", 9200).unwrap_err();
        insta::assert_snapshot!(another, @"Secret fleet/member1 may not be sent to os.example.com:9200: its annotation fleetdex.io/allowed-hosts does not list that; if the credentials belong there, add os.example.com:9200 to it");
        let injected = checked(&SecretHosts::default(), None, "a';reboot;'", 9200).unwrap_err();
        assert!(!injected.to_string().contains("kubectl"), "{injected}");
    }

    #[test]
    fn a_flag_allows_for_secrets_that_others_write_and_can_turn_it_off() {
        let allowing = |text: &str| SecretHosts {
            allowances: vec![text.parse().unwrap()],
            ..SecretHosts::default()
        };
        assert!(checked(&allowing("fleet/*=10.0.0.0/8"), None, "10.0.0.1", 6443).is_ok());
        assert!(checked(&allowing("*/*=*"), None, "anything", 1).is_ok());
        assert!(
            checked(
                &allowing("fleet/member1=10.0.0.1"),
                Some("a"),
                "10.0.0.1",
                6443
            )
            .is_ok()
        );
        assert!(checked(&allowing("fleet/member2=10.0.0.1"), None, "10.0.0.1", 6443).is_err());
        assert!(checked(&allowing("other/*=*"), None, "10.0.0.1", 6443).is_err());
        assert!(checked(&SecretHosts::off(), None, "10.0.0.1", 6443).is_ok());
        for wrong in [
            "",
            "fleet",
            "fleet/a",
            "fleet/a=",
            "fleet=a",
            "/a=b",
            "fleet/a=*b",
            "fleet/a=10.0.0.0/99",
        ] {
            assert!(wrong.parse::<Allowance>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_name_of_a_secret_is_none() {
        let is_valid = |namespace, name| Reference { namespace, name }.is_valid();
        assert!(is_valid("fleet", "member1.example.com") && is_valid("a-b", "x"));
        for (namespace, name) in [
            ("fleet", "../pods/a"),
            ("fleet", "a?b"),
            ("fleet/x", "a"),
            ("", "a"),
            ("a", ""),
            ("a", "a..b"),
            ("a", "A"),
            ("a.b", "c"),
        ] {
            assert!(!is_valid(namespace, name), "{namespace} {name}");
        }
    }
}
