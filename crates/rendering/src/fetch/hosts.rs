//! Hosts, and what they are asked with.

use std::fmt;

use reqwest::Url;

/// Which hosts are asked, and with which credentials.
pub trait HostPolicy: Send + Sync {
    /// Whether anything may be fetched from it.
    fn is_allowed(&self, host: &RemoteHost) -> bool;

    /// The credentials that are bound to it.
    fn credentials(&self, host: &RemoteHost) -> Option<BasicCredentials>;
}

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteHost {
    /// The name or the address, as in a URL.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
}

impl RemoteHost {
    pub(super) fn of(url: &Url) -> Self {
        Self {
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or_default(),
        }
    }
}

impl fmt::Display for RemoteHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BasicCredentials")
    }
}
