//! Explains to users why a member is not reached, and what to do about it.

use fleetdex_tls::TlsFailure;

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
        message: format!("{server}: {error}{}", advice(error, server, access)),
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

fn advice(error: &RequestError, server: &str, access: &MemberAccess) -> String {
    if let RequestError::Tls { failure, .. } = error {
        let advice = tls_advice(failure, server, access);
        if !advice.is_empty() {
            return advice;
        }
    }
    match error.reason() {
        "Unreachable" if is_pulled_without_proxy(access) => {
            format!(". The cluster is in Pull mode, and {PULL_ADVICE}")
        }
        "Unauthorized" => format!(". Put valid credentials into {}", access.location()),
        "Forbidden" => ". Allow it to the account that the credentials belong to".to_owned(),
        _ => String::new(),
    }
}

fn tls_advice(failure: &TlsFailure, server: &str, access: &MemberAccess) -> String {
    let address = address_field(access);
    match failure {
        TlsFailure::UnknownAuthority { .. } => authority_advice(access),
        TlsFailure::Expired { .. } => ". Renew it on the API server".to_owned(),
        TlsFailure::NotYetValid { .. } => {
            ". Check the clocks of this machine and of the one that issued it, or wait".to_owned()
        }
        TlsFailure::OtherName { .. } => {
            let server_name = match access {
                MemberAccess::Endpoint(_) => "",
                _ => ", or set tls-server-name there to a name that it has",
            };
            format!(
                ". Use a name that it has in {address}{server_name}, or issue one for this name"
            )
        }
        TlsFailure::Certificate(_) => ". Issue another one for the API server".to_owned(),
        TlsFailure::ClientCertificateRequired | TlsFailure::ClientCertificateRefused(_) => {
            format!(
                ". Put a client certificate that it accepts, or a token, into {}",
                access.location()
            )
        }
        TlsFailure::PlainText => {
            format!(". Name its port for TLS in {address}, or write http:// there")
        }
        TlsFailure::TlsExpected => format!(". Write https:// in {address}"),
        TlsFailure::NotHttp | TlsFailure::Closed if server.starts_with("http://") => {
            format!(". If this port expects TLS, write https:// in {address}")
        }
        TlsFailure::HandshakeClosed => {
            format!(". If this port does not speak TLS, write http:// in {address}")
        }
        TlsFailure::NotHttp | TlsFailure::Closed | TlsFailure::Handshake(_) => String::new(),
    }
}

fn authority_advice(access: &MemberAccess) -> String {
    let location = access.location();
    match access {
        MemberAccess::Endpoint(_) => {
            format!(". Put the PEM certificates of its CA into key \"caBundle\" of {location}")
        }
        _ => format!(
            ". Put the PEM certificates of its CA, in base64, as certificate-authority-data into {location}"
        ),
    }
}

/// What holds the address of the API server.
fn address_field(access: &MemberAccess) -> String {
    match access {
        MemberAccess::Endpoint(_) => "spec.apiEndpoint".to_owned(),
        _ => format!("server in {}", access.location()),
    }
}

#[cfg(test)]
mod tests;
