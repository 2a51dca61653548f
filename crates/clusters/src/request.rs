//! Small requests to an API server, with a timeout and a bounded response.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use fleetdex_core::model::{self, json_fault, quoted, status_message};
use fleetdex_limits::intake::{Intake, IntakeError};
use fleetdex_tls::TlsFailure;
use http::{HeaderMap, Request, StatusCode, header};
use kube::{Client, client::Body};

/// Why a request got no usable response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request timed out.
    #[error(
        "{request} was not answered within {timeout:?}: check that the address, the proxy and firewalls let the request through"
    )]
    TimedOut {
        /// Its method and path.
        request: String,
        /// The timeout.
        timeout: Duration,
    },
    /// The connection failed.
    #[error("{request} did not get through: {cause}")]
    Unreachable {
        /// Its method and path.
        request: String,
        /// The causes, from the outermost to the innermost.
        cause: String,
    },
    /// The API server cannot be spoken to over TLS, or without.
    #[error("{request} did not get through: {}", failure.description("the API server"))]
    Tls {
        /// Its method and path.
        request: String,
        /// What is wrong, such as with the certificate.
        failure: TlsFailure,
    },
    /// The response has an error status.
    #[error("{request} was answered {status}: {reason}")]
    Refused {
        /// Its method and path.
        request: String,
        /// The HTTP status.
        status: StatusCode,
        /// The message of the response.
        reason: String,
    },
    /// The response has an unexpected form.
    #[error(
        "the response to {request} is not that of a Kubernetes API server ({fault}): check the address"
    )]
    Unreadable {
        /// Its method and path.
        request: String,
        /// Where it differs, without quoting the response.
        fault: String,
    },
    /// The response exceeds a limit.
    #[error("the response to {request} was not read: {refused}")]
    Unread {
        /// Its method and path.
        request: String,
        /// The limit.
        #[source]
        refused: IntakeError,
    },
}

impl RequestError {
    /// The error for a response to `path` that cannot be parsed.
    pub fn unreadable(path: &str, error: &serde_json::Error) -> Self {
        Self::Unreadable {
            request: get_of(path),
            fault: json_fault(error),
        }
    }

    /// The HTTP status of an error response.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether what was requested may not be read, or does not exist.
    pub fn is_forbidden_or_absent(&self) -> bool {
        matches!(
            self.status(),
            Some(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
        )
    }

    /// The reason for a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Tls { failure, .. } if failure.is_of_certificate() => "CertificateInvalid",
            Self::TimedOut { .. } | Self::Unreachable { .. } | Self::Tls { .. } => "Unreachable",
            Self::Refused {
                status: StatusCode::UNAUTHORIZED,
                ..
            } => "Unauthorized",
            Self::Refused {
                status: StatusCode::FORBIDDEN,
                ..
            } => "Forbidden",
            Self::Refused { .. } => "NotReady",
            Self::Unreadable { .. } => "NotKubernetes",
            Self::Unread { .. } => "AnswerTooLarge",
        }
    }
}

/// A response with status 2xx or 304.
#[derive(Debug)]
pub struct GetResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Sends a GET request for `path`. Responses other than 2xx and 304 are errors; request and
/// response take at most `timeout`.
pub async fn get(
    client: &Client,
    path: &str,
    headers: HeaderMap,
    timeout: Duration,
) -> Result<GetResponse, RequestError> {
    let request = Request::get(path).body(Body::empty());
    let mut request = request.map_err(|error| transport_error(&get_of(path), &error))?;
    request.headers_mut().extend(headers);
    // Members hold this future while nothing is sent, too.
    Box::pin(send(client, request, timeout)).await
}

/// Sends a request. Responses other than 2xx and 304 are errors; request and response take at most
/// `timeout`.
pub async fn send(
    client: &Client,
    request: Request<Body>,
    timeout: Duration,
) -> Result<GetResponse, RequestError> {
    exchange_in_time(client, request, timeout, None).await
}

/// The same for a response of at most `limit` bytes, which counts in this memory.
pub async fn send_within(
    client: &Client,
    request: Request<Body>,
    timeout: Duration,
    memory: &Intake,
    limit: usize,
) -> Result<GetResponse, RequestError> {
    exchange_in_time(client, request, timeout, Some((memory, limit))).await
}

async fn exchange_in_time(
    client: &Client,
    request: Request<Body>,
    timeout: Duration,
    memory: Option<(&Intake, usize)>,
) -> Result<GetResponse, RequestError> {
    let shown = format!("{} {}", request.method(), request.uri().path());
    match tokio::time::timeout(timeout, exchange(client, &shown, request, memory)).await {
        Ok(response) => response.and_then(|response| accept(shown, response)),
        Err(_) => Err(RequestError::TimedOut {
            request: shown,
            timeout,
        }),
    }
}

/// How errors name a GET request.
fn get_of(path: &str) -> String {
    format!("GET {path}")
}

async fn exchange(
    client: &Client,
    shown: &str,
    mut request: Request<Body>,
    memory: Option<(&Intake, usize)>,
) -> Result<GetResponse, RequestError> {
    request
        .headers_mut()
        .entry(header::ACCEPT)
        .or_insert(header::HeaderValue::from_static("application/json"));
    let response = client
        .send(request)
        .await
        .map_err(|error| transport_error(shown, &error))?;
    let (intake, limit) = match memory {
        Some((memory, limit)) => (memory.clone(), limit),
        None => {
            let intake = Intake::of(&response);
            let limit = intake.limits().answer;
            (intake, limit)
        }
    };
    let (head, body) = response.into_parts();
    let read = if head.status.is_success() {
        intake.read(body, limit).await
    } else {
        intake.read_refusal(body).await
    };
    let unread = |error| match error {
        IntakeError::Broken(error) => transport_error(shown, error.as_ref()),
        refused => RequestError::Unread {
            request: shown.to_owned(),
            refused,
        },
    };
    Ok(GetResponse {
        status: head.status,
        headers: head.headers,
        body: read.map_err(unread)?,
    })
}

fn transport_error(shown: &str, error: &(dyn Error + 'static)) -> RequestError {
    let request = shown.to_owned();
    match TlsFailure::of(error) {
        Some(failure) => RequestError::Tls { request, failure },
        None => RequestError::Unreachable {
            request,
            cause: causes(error),
        },
    }
}

fn accept(request: String, response: GetResponse) -> Result<GetResponse, RequestError> {
    if response.status.is_success() || response.status == StatusCode::NOT_MODIFIED {
        return Ok(response);
    }
    if let Some(failure) = TlsFailure::of_response(response.status, &response.body) {
        return Err(RequestError::Tls { request, failure });
    }
    Err(RequestError::Refused {
        request,
        status: response.status,
        reason: refusal(&response.body),
    })
}

/// The message of a `Status`, or the names of the failed checks of `/readyz`. No other response is
/// quoted.
fn refusal(body: &[u8]) -> String {
    if let Some(message) = status_message(body) {
        return message;
    }
    let text = String::from_utf8_lossy(body);
    let is_name = |name: &&str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_/.".contains(&byte))
    };
    let failed = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("[-]")?
                .strip_suffix(" failed: reason withheld")
        })
        .filter(is_name);
    match failed.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => {
            "the response has no Kubernetes Status; check the address".to_owned()
        }
        names => quoted(&format!("these checks failed: {names}")),
    }
}

/// An error of a request to an API server in one line. An invalid certificate is a sentence with
/// dates in place of the words of rustls.
pub fn transport_causes(error: &(dyn Error + 'static)) -> String {
    match TlsFailure::of(error) {
        Some(failure) if failure.is_of_certificate() => failure.description("the API server"),
        _ => causes(error),
    }
}

/// An error and its sources in one line, without wrappers that only repeat their source.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let outermost = match error.downcast_ref() {
        Some(kube::Error::Service(inner)) => inner.as_ref(),
        _ => error,
    };
    model::causes(outermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layer(text: &'static str, source: Option<Layer>) -> Layer {
        Layer {
            text,
            source: source.map(Box::new),
        }
    }

    #[test]
    fn causes_are_one_line_without_repetition() {
        let error = layer(
            "cannot connect: refused",
            Some(layer("refused", Some(layer("os error 111", None)))),
        );
        assert_eq!(causes(&error), "cannot connect: refused: os error 111");
        assert_eq!(
            causes(&kube::Error::Service(Box::new(layer("lost", None)))),
            "lost"
        );
    }

    #[test]
    fn only_a_status_and_names_of_checks_are_quoted() {
        assert_eq!(
            refusal(br#"{"kind":"Status","message":"forbidden"}"#),
            "forbidden"
        );
        assert_eq!(
            refusal(b"[+]ping ok\n[-]etcd failed: reason withheld\n[-]a/b failed: reason withheld\nreadyz check failed"),
            "these checks failed: etcd, a/b"
        );
        for other in [
            "hunter2",
            r#"{"message":"hunter2"}"#,
            "[-]is hunter2 failed: reason withheld",
            "",
        ] {
            assert!(!refusal(other.as_bytes()).contains("hunter2"), "{other}");
        }
        let error = serde_json::from_str::<u8>(r#""hunter2""#).unwrap_err();
        assert!(!model::causes(&RequestError::unreadable("/version", &error)).contains("hunter2"));
    }

    #[test]
    fn a_bad_certificate_is_distinguished_from_a_lost_connection() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error =
            kube::Error::Service(Box::new(std::io::Error::other(std::io::Error::other(tls))));
        let untrusted = transport_error("GET /readyz", &error);
        assert_eq!(untrusted.reason(), "CertificateInvalid");
        assert_eq!(
            untrusted.to_string(),
            "GET /readyz did not get through: the certificate of the API server is signed by an authority that is not trusted here"
        );
        assert_eq!(
            transport_causes(&error),
            "the certificate of the API server is signed by an authority that is not trusted here"
        );
        assert_eq!(
            transport_error("GET /readyz", &std::io::Error::other("reset")).reason(),
            "Unreachable"
        );
    }
}
