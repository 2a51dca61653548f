//! What is told of a member that is not reached: why, and what to do about it.

use super::{
    connect::ConnectError,
    member::{Access, PULL_ADVICE},
    request::{RequestError, causes},
    state::{Fault, Happened},
};

/// A request over a connection to `server` failed.
pub(super) fn fault(error: &RequestError, server: &str, access: &Access) -> Fault {
    Fault {
        reason: error.reason(),
        message: format!("{server}: {error}{}", advice(error, access)),
        unauthorized: error.reason() == "Unauthorized",
    }
}

impl From<ConnectError> for Happened {
    fn from(error: ConnectError) -> Self {
        let fault = Fault {
            reason: error.reason(),
            message: causes(&error),
            unauthorized: false,
        };
        match error {
            ConnectError::Awaited { .. } => Self::OutOfReach(fault),
            _ => Self::ConnectFailed(fault),
        }
    }
}

fn is_pulled_without_proxy(access: &Access) -> bool {
    matches!(access, Access::Endpoint(endpoint) if endpoint.is_pulled && endpoint.proxy_url.is_none())
}

fn advice(error: &RequestError, access: &Access) -> String {
    match error.reason() {
        "Unreachable" if is_pulled_without_proxy(access) => {
            format!(". The cluster is in Pull mode, and {PULL_ADVICE}")
        }
        "Unauthorized" => format!(". Put valid credentials into {}", access.place()),
        "Forbidden" => ". Allow it to the account that the credentials belong to".to_owned(),
        "CertificateInvalid" => match access {
            Access::Endpoint(_) => format!(
                ". Put the PEM certificates of its CA into key \"caBundle\" of {}",
                access.place()
            ),
            _ => {
                format!(
                    ". Put the PEM certificates of its CA, in base64, as certificate-authority-data into {}",
                    access.place()
                )
            }
        },
        _ => String::new(),
    }
}
