//! Explains to users why a member is not reached, and what to do about it.

use super::{
    connect::ConnectError,
    connection_state::{ConnectionEvent, MemberFault},
    member::{MemberAccess, PULL_ADVICE},
    request::{RequestError, causes},
};

/// The fault for a request to `server` that failed.
pub(super) fn fault(error: &RequestError, server: &str, access: &MemberAccess) -> MemberFault {
    MemberFault {
        reason: error.reason(),
        message: format!("{server}: {error}{}", advice(error, access)),
        unauthorized: error.reason() == "Unauthorized",
    }
}

impl From<ConnectError> for ConnectionEvent {
    fn from(error: ConnectError) -> Self {
        let fault = MemberFault {
            reason: error.reason(),
            message: causes(&error),
            unauthorized: false,
        };
        match error {
            ConnectError::Awaited { .. } => Self::Unreachable(fault),
            _ => Self::ConnectFailed(fault),
        }
    }
}

fn is_pulled_without_proxy(access: &MemberAccess) -> bool {
    matches!(access, MemberAccess::Endpoint(endpoint) if endpoint.is_pulled && endpoint.proxy_url.is_none())
}

fn advice(error: &RequestError, access: &MemberAccess) -> String {
    match error.reason() {
        "Unreachable" if is_pulled_without_proxy(access) => {
            format!(". The cluster is in Pull mode, and {PULL_ADVICE}")
        }
        "Unauthorized" => format!(". Put valid credentials into {}", access.location()),
        "Forbidden" => ". Allow it to the account that the credentials belong to".to_owned(),
        "CertificateInvalid" => match access {
            MemberAccess::Endpoint(_) => format!(
                ". Put the PEM certificates of its CA into key \"caBundle\" of {}",
                access.location()
            ),
            _ => {
                format!(
                    ". Put the PEM certificates of its CA, in base64, as certificate-authority-data into {}",
                    access.location()
                )
            }
        },
        _ => String::new(),
    }
}
