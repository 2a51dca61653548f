//! Why something cannot be fetched.

use reqwest::StatusCode;

use super::hosts::RemoteHost;
use crate::{archive::ArchiveError, version::InvalidConstraint};

/// A chart or a folder cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// An address is invalid.
    #[error("{address:?} is no address of {what}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What should be there.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A host may not be asked.
    #[error(
        "nothing may be fetched from {0}: add it to the hosts that are allowed (--source-hosts)"
    )]
    Host(RemoteHost),
    /// The HTTP client cannot be made.
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// There is no authority to trust.
    #[error("the bundle of certificates has no -----BEGIN CERTIFICATE-----")]
    CaBundle,
    /// A server does not answer.
    #[error("no answer from {url}")]
    Request {
        /// The address.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// A server requires other credentials.
    #[error(
        "{url} answers {status}: name a Secret with username and password whose annotation \
         fleetdex.io/allowed-hosts lists {host}"
    )]
    Refused {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
        /// Its host.
        host: RemoteHost,
    },
    /// A server answers an error.
    #[error("{url} answers {status}")]
    Status {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
    },
    /// An answer has too many bytes.
    #[error("the answer of {url} has more than {limit} bytes")]
    Bytes {
        /// The address.
        url: String,
        /// The bound.
        limit: u64,
    },
    /// An answer makes no sense.
    #[error("the answer of {url} cannot be used: {reason}")]
    Answer {
        /// The address.
        url: String,
        /// Why.
        reason: String,
    },
    /// What was fetched is not what was named.
    #[error("{url} has the digest {actual}, not {expected}")]
    Digest {
        /// The address.
        url: String,
        /// What was named.
        expected: String,
        /// What was fetched.
        actual: String,
    },
    /// A version is no constraint.
    #[error(transparent)]
    Constraint(#[from] InvalidConstraint),
    /// There is no such version.
    #[error("{chart} has no version {constraint:?} among {count} versions")]
    Version {
        /// The chart.
        chart: String,
        /// What was asked for.
        constraint: String,
        /// How many versions there are.
        count: usize,
    },
    /// The archive has too many bytes.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}
