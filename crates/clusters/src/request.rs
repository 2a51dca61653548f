//! One small GET of a member's API server, with a timeout and a bounded answer.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use fleetdex_core::model::{self, json_fault, quoted, status_message};
use fleetdex_limits::intake::{Intake, ReadError};
use http::{HeaderMap, Request, StatusCode, header};
use kube::{Client, client::Body};

/// A member did not give a usable answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No answer in time.
    #[error(
        "GET {path} was not answered within {timeout:?}: check that the address, the proxy and firewalls let the request through"
    )]
    TimedOut {
        /// What was asked.
        path: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// The request or the answer did not get through.
    #[error("GET {path} did not get through: {cause}")]
    Unreachable {
        /// What was asked.
        path: String,
        /// Why, from the outermost cause to the innermost.
        cause: String,
    },
    /// The member's certificate is not to be trusted.
    #[error(
        "GET {path} was not sent, as the certificate of the API server is not trusted: {cause}"
    )]
    Untrusted {
        /// What was to be asked.
        path: String,
        /// What is wrong with the certificate.
        cause: String,
    },
    /// An answer that is an error.
    #[error("GET {path} was answered {status}: {reason}")]
    Refused {
        /// What was asked.
        path: String,
        /// The HTTP status.
        status: StatusCode,
        /// The member's own words.
        reason: String,
    },
    /// An answer of another form than expected.
    #[error(
        "the answer to GET {path} is not that of a Kubernetes API server ({fault}): check the address"
    )]
    Unreadable {
        /// What was asked.
        path: String,
        /// Where it differs; nothing of the answer itself.
        fault: String,
    },
    /// The answer is longer than what is read.
    #[error("the answer to GET {path} was not read: {refused}")]
    Unread {
        /// What was asked for.
        path: String,
        /// Why not.
        #[source]
        refused: ReadError,
    },
}

impl RequestError {
    /// The HTTP status, if there was an answer.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The reason of a condition, in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TimedOut { .. } | Self::Unreachable { .. } => "Unreachable",
            Self::Untrusted { .. } => "CertificateInvalid",
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

/// A successful (or `304`) answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl RequestError {
    /// The answer to `path` cannot be read.
    pub fn unreadable(path: &str, error: &serde_json::Error) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            fault: json_fault(error),
        }
    }
}

/// Asks for `path`. Answers other than 2xx and 304 are errors; the whole exchange takes at most `timeout`.
pub async fn get(
    client: &Client,
    path: &str,
    headers: HeaderMap,
    timeout: Duration,
) -> Result<Answer, RequestError> {
    let exchange = exchange(client, path, headers);
    match tokio::time::timeout(timeout, exchange).await {
        Ok(answer) => answer.and_then(|answer| accept(path, answer)),
        Err(_) => Err(RequestError::TimedOut {
            path: path.to_owned(),
            timeout,
        }),
    }
}

async fn exchange(
    client: &Client,
    path: &str,
    mut headers: HeaderMap,
) -> Result<Answer, RequestError> {
    headers
        .entry(header::ACCEPT)
        .or_insert(header::HeaderValue::from_static("application/json"));
    let mut request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| lost(path, &error))?;
    request.headers_mut().extend(headers);
    let response = client
        .send(request)
        .await
        .map_err(|error| lost(path, &error))?;
    let intake = Intake::of(&response);
    let (head, body) = response.into_parts();
    let read = if head.status.is_success() {
        intake.read(body, intake.limits().answer).await
    } else {
        intake.read_refusal(body).await
    };
    let unread = |error| match error {
        ReadError::Broken(error) => lost(path, error.as_ref()),
        refused => RequestError::Unread {
            path: path.to_owned(),
            refused,
        },
    };
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body: read.map_err(unread)?,
    })
}

fn lost(path: &str, error: &(dyn Error + 'static)) -> RequestError {
    let path = path.to_owned();
    match certificate_error(error) {
        Some(wrong) => RequestError::Untrusted {
            path,
            cause: wrong.to_string(),
        },
        None => RequestError::Unreachable {
            path,
            cause: causes(error),
        },
    }
}

/// TLS errors travel inside I/O errors, which do not name them as their source.
fn certificate_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::CertificateError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(wrong)) = error.downcast_ref() {
            return Some(wrong);
        }
        let carried = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match carried {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn accept(path: &str, answer: Answer) -> Result<Answer, RequestError> {
    if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
        return Ok(answer);
    }
    Err(RequestError::Refused {
        path: path.to_owned(),
        status: answer.status,
        reason: refusal(&answer.body),
    })
}

/// The message of a `Status`, or the names of the checks of `/readyz` that failed. Nothing of any other answer is repeated.
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
        none if none.is_empty() => "no Status of Kubernetes says why; check the address".to_owned(),
        names => quoted(&format!("these checks failed: {names}")),
    }
}

/// An error and its sources in one line. Wrappers that repeat their source, or say nothing, are left out.
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
    fn nothing_is_repeated_but_a_status_and_names_of_checks() {
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
    fn a_bad_certificate_is_told_from_a_lost_connection() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error =
            kube::Error::Service(Box::new(std::io::Error::other(std::io::Error::other(tls))));
        let untrusted = lost("/readyz", &error);
        assert_eq!(untrusted.reason(), "CertificateInvalid");
        assert!(
            untrusted.to_string().contains("not trusted: "),
            "{untrusted}"
        );
        assert_eq!(
            lost("/readyz", &std::io::Error::other("reset")).reason(),
            "Unreachable"
        );
    }
}
