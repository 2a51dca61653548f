//! Why TLS to a server fails, in words for the person who can repair it.
//!
//! rustls names its errors as its source code does (`UnknownIssuer`) and gives times in UNIX
//! seconds. [`TlsFailure`] finds such an error among the causes of another one and describes it;
//! what to change depends on who connects, so the caller adds that.

use std::{error::Error, fmt, io};

use fleetdex_core::model::quoted;
use http::StatusCode;
use jiff::Timestamp;
use rustls::{AlertDescription, CertificateError, InvalidMessage, pki_types::UnixTime};

/// The names of a certificate that a description repeats.
const MAX_NAMES: usize = 5;
/// What servers answer to plain HTTP on a port for TLS: Go (kube-apiserver), nginx, Apache.
const TLS_REQUIRED: [&str; 3] = [
    "Client sent an HTTP request to an HTTPS server",
    "The plain HTTP request was sent to HTTPS port",
    "speaking plain HTTP to an SSL-enabled server port",
];

/// Why a server cannot be spoken to over TLS, or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// No authority that is trusted has signed the certificate of the server.
    UnknownAuthority {
        /// Whether an authority of the same name is trusted, with another key.
        is_namesake: bool,
    },
    /// The certificate of the server has expired.
    Expired {
        /// When it expired, if that is known.
        not_after: Option<Timestamp>,
    },
    /// The certificate of the server is not valid yet.
    NotYetValid {
        /// From when on it is valid, if that is known. Not the time here: a message that changed
        /// with each attempt would be logged and written to a status each time.
        not_before: Option<Timestamp>,
    },
    /// The certificate of the server is one for other names.
    OtherName {
        /// The name or address that it was asked by, if that is known.
        expected: Option<String>,
        /// The names that it has.
        names: Vec<String>,
    },
    /// The certificate of the server cannot be used for another reason.
    Certificate(String),
    /// The server requires a client certificate, and got none.
    ClientCertificateRequired,
    /// The server refuses the client certificate, or requires one.
    ClientCertificateRefused(&'static str),
    /// The server answers `https` without TLS.
    PlainText,
    /// The server answers `http` that it expects TLS.
    TlsExpected,
    /// The server answers something that is not HTTP.
    NotHttp,
    /// The server closed the connection during the handshake.
    HandshakeClosed,
    /// The server closed the connection in place of an answer.
    Closed,
    /// The handshake failed for another reason.
    Handshake(String),
}

impl TlsFailure {
    /// The failure among the causes of an error; `None` if it is about something else.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        let mut found = None;
        while let Some(cause) = next {
            if let Some(tls) = cause.downcast_ref() {
                return Some(of_rustls(tls));
            }
            found = found.or_else(|| of_http(cause));
            let inner = cause
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            // An I/O error returns the source of the error in it, not that error.
            next = match inner {
                Some(inner) => Some(inner),
                None => cause.source(),
            };
        }
        found
    }

    /// The failure of a request without TLS, if a response with this status and body says so.
    pub fn of_response(status: StatusCode, body: &[u8]) -> Option<Self> {
        let says = |text: &&str| memchr::memmem::find(body, text.as_bytes()).is_some();
        let is_expected = status == StatusCode::BAD_REQUEST && TLS_REQUIRED.iter().any(says);
        is_expected.then_some(Self::TlsExpected)
    }

    /// Whether the certificate of the server is the problem.
    pub fn is_of_certificate(&self) -> bool {
        matches!(
            self,
            Self::UnknownAuthority { .. }
                | Self::Expired { .. }
                | Self::NotYetValid { .. }
                | Self::OtherName { .. }
                | Self::Certificate(_)
        )
    }

    /// What failed, as part of a sentence; `server` is what the certificate is of.
    pub fn description(&self, server: &str) -> String {
        match self {
            Self::UnknownAuthority { is_namesake: false } => {
                format!(
                    "the certificate of {server} is signed by an authority that is not trusted here"
                )
            }
            Self::UnknownAuthority { is_namesake: true } => format!(
                "the certificate of {server} is signed by an authority that is not trusted here; one of the same name is, with another key"
            ),
            Self::Expired { not_after } => {
                let date = not_after.map_or_else(String::new, |date| format!(" at {date}"));
                format!("the certificate of {server} expired{date}")
            }
            Self::NotYetValid { not_before } => {
                let date =
                    not_before.map_or_else(|| "a later time".to_owned(), |date| date.to_string());
                format!("the certificate of {server} is not valid before {date}")
            }
            Self::OtherName { expected, names } => {
                let expected = expected.as_deref().unwrap_or("this address");
                format!(
                    "the certificate of {server} is not valid for {expected}, {}",
                    only(names)
                )
            }
            Self::Certificate(problem) => {
                format!("the certificate of {server} cannot be used: {problem}")
            }
            Self::ClientCertificateRequired => format!("{server} requires a client certificate"),
            Self::ClientCertificateRefused(why) => {
                format!("{server} refuses the client certificate, or requires one ({why})")
            }
            Self::PlainText => format!("{server} does not speak TLS on this port"),
            Self::TlsExpected => format!("{server} expects TLS on this port"),
            Self::NotHttp => format!("{server} does not answer in HTTP"),
            Self::HandshakeClosed => {
                format!("{server} closed the connection during the TLS handshake")
            }
            Self::Closed => format!("{server} closed the connection without an answer"),
            Self::Handshake(problem) => {
                format!("the TLS handshake with {server} failed: {problem}")
            }
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.description("the server"))
    }
}

impl Error for TlsFailure {}

fn of_http(error: &(dyn Error + 'static)) -> Option<TlsFailure> {
    if let Some(http) = error.downcast_ref::<hyper::Error>() {
        return match http {
            _ if http.is_parse() => Some(TlsFailure::NotHttp),
            _ if http.is_incomplete_message() => Some(TlsFailure::Closed),
            _ => None,
        };
    }
    let io = error.downcast_ref::<io::Error>()?;
    // The text of tokio-rustls.
    let is_handshake =
        io.kind() == io::ErrorKind::UnexpectedEof && io.to_string().contains("tls handshake eof");
    is_handshake.then_some(TlsFailure::HandshakeClosed)
}

fn of_rustls(error: &rustls::Error) -> TlsFailure {
    match error {
        rustls::Error::InvalidCertificate(certificate) => of_certificate(certificate),
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        // The first bytes of any other protocol are read as the type and the version of a record.
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge,
        ) => TlsFailure::PlainText,
        other => TlsFailure::Handshake(quoted(&other.to_string())),
    }
}

fn of_alert(alert: AlertDescription) -> TlsFailure {
    match alert {
        AlertDescription::CertificateRequired => TlsFailure::ClientCertificateRequired,
        AlertDescription::UnknownCA => {
            TlsFailure::ClientCertificateRefused("it does not trust the authority that signed it")
        }
        AlertDescription::CertificateExpired => {
            TlsFailure::ClientCertificateRefused("it has expired")
        }
        AlertDescription::CertificateRevoked => {
            TlsFailure::ClientCertificateRefused("it is revoked")
        }
        AlertDescription::BadCertificate
        | AlertDescription::NoCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => {
            TlsFailure::ClientCertificateRefused("it does not say why")
        }
        AlertDescription::AccessDenied => {
            TlsFailure::ClientCertificateRefused("it denies access to its owner")
        }
        AlertDescription::ProtocolVersion => {
            TlsFailure::Handshake("the server accepts neither TLS 1.2 nor TLS 1.3".to_owned())
        }
        AlertDescription::HandshakeFailure => TlsFailure::Handshake(
            "the server accepts none of the cipher suites, or requires a client certificate"
                .to_owned(),
        ),
        AlertDescription::UnrecognisedName => {
            TlsFailure::Handshake("the server does not know its name in the address".to_owned())
        }
        other => TlsFailure::Handshake(format!("the server sent the alert {other:?}")),
    }
}

fn of_certificate(error: &CertificateError) -> TlsFailure {
    use CertificateError as Wrong;
    let unusable = |problem: &str| TlsFailure::Certificate(problem.to_owned());
    match error {
        Wrong::UnknownIssuer => TlsFailure::UnknownAuthority { is_namesake: false },
        // That of a certificate, since a handshake with the wrong key is a decrypt error.
        Wrong::BadSignature => TlsFailure::UnknownAuthority { is_namesake: true },
        Wrong::Expired => TlsFailure::Expired { not_after: None },
        Wrong::ExpiredContext { not_after, .. } => TlsFailure::Expired {
            not_after: timestamp(*not_after),
        },
        Wrong::NotValidYet => TlsFailure::NotYetValid { not_before: None },
        Wrong::NotValidYetContext { not_before, .. } => TlsFailure::NotYetValid {
            not_before: timestamp(*not_before),
        },
        Wrong::NotValidForName => TlsFailure::OtherName {
            expected: None,
            names: Vec::new(),
        },
        Wrong::NotValidForNameContext {
            expected,
            presented,
        } => TlsFailure::OtherName {
            expected: Some(expected.to_str().into_owned()),
            names: presented
                .iter()
                .map(|name| name_in_certificate(name))
                .collect(),
        },
        Wrong::Revoked => unusable("it is revoked"),
        Wrong::BadEncoding => unusable("it is not encoded correctly"),
        Wrong::UnhandledCriticalExtension => {
            unusable("it has a critical extension that is not known")
        }
        Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => {
            unusable("its extended key usage does not include serverAuth")
        }
        Wrong::UnsupportedSignatureAlgorithmContext { .. }
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            unusable("it is signed with an algorithm that is not supported, such as SHA-1")
        }
        Wrong::Other(other) => match other.to_string().as_str() {
            // Errors of webpki that rustls passes on.
            text if text.contains("CaUsedAsEndEntity") => unusable(
                "it is that of an authority (CA:TRUE), which a server may not present as its own",
            ),
            text if text.contains("UnsupportedCertVersion") => {
                unusable("it is not an X.509 certificate of version 3")
            }
            text => TlsFailure::Certificate(quoted(text)),
        },
        other => TlsFailure::Certificate(quoted(&other.to_string())),
    }
}

fn timestamp(time: UnixTime) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(time.as_secs()).ok()?).ok()
}

/// A name as rustls shows it, such as `DnsName("a.example.com")` or `IpAddress(10.0.0.1)`.
fn name_in_certificate(shown: &str) -> String {
    let inner = shown.split_once('(').map_or(shown, |(_, inner)| inner);
    quoted(inner.trim_end_matches(')').trim_matches('"'))
}

fn only(names: &[String]) -> String {
    match names {
        [] => "and has no other name that it could be asked by".to_owned(),
        names if names.len() > MAX_NAMES => format!(
            "only for {} and {} others",
            names[..MAX_NAMES].join(", "),
            names.len() - MAX_NAMES
        ),
        names => format!("only for {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use rustls::pki_types::ServerName;

    use super::*;

    fn seconds(text: &str) -> UnixTime {
        let time: Timestamp = text.parse().unwrap();
        UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().unsigned_abs()))
    }

    fn described(error: CertificateError) -> String {
        let tls = rustls::Error::InvalidCertificate(error);
        // As it comes from a connector: in an I/O error in another one.
        let error = io::Error::other(io::Error::other(tls));
        let failure = TlsFailure::of(&error).unwrap();
        assert!(failure.is_of_certificate(), "{failure:?}");
        failure.to_string()
    }

    #[test]
    fn errors_of_certificates_are_sentences_with_dates() {
        let (early, late) = (
            seconds("2026-01-02T03:04:05Z"),
            seconds("2027-01-01T00:00:00Z"),
        );
        let names = |count: usize| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("os.example.com").unwrap(),
            presented: (0..count).map(|n| format!("DnsName(\"n{n}\")")).collect(),
        };
        let foreign = |text: &str| {
            CertificateError::Other(rustls::OtherError(Arc::from(
                Box::<dyn Error + Send + Sync>::from(text),
            )))
        };
        for (error, expected) in [
            (
                CertificateError::UnknownIssuer,
                "is signed by an authority that is not trusted here",
            ),
            (
                CertificateError::BadSignature,
                "is signed by an authority that is not trusted here; one of the same name is, with another key",
            ),
            (
                CertificateError::ExpiredContext {
                    time: late,
                    not_after: early,
                },
                "expired at 2026-01-02T03:04:05Z",
            ),
            (CertificateError::Expired, "expired"),
            (
                CertificateError::NotValidYetContext {
                    time: early,
                    not_before: late,
                },
                "is not valid before 2027-01-01T00:00:00Z",
            ),
            (
                names(0),
                "is not valid for os.example.com, and has no other name that it could be asked by",
            ),
            (names(2), "is not valid for os.example.com, only for n0, n1"),
            (
                names(7),
                "is not valid for os.example.com, only for n0, n1, n2, n3, n4 and 2 others",
            ),
            (
                CertificateError::NotValidForName,
                "is not valid for this address, and has no other name that it could be asked by",
            ),
            (
                foreign("CaUsedAsEndEntity"),
                "cannot be used: it is that of an authority (CA:TRUE), which a server may not present as its own",
            ),
        ] {
            assert_eq!(
                described(error),
                format!("the certificate of the server {expected}")
            );
        }
    }

    #[test]
    fn alerts_of_a_server_are_about_the_certificate_of_the_client() {
        for (alert, expected) in [
            (
                AlertDescription::CertificateRequired,
                "the server requires a client certificate",
            ),
            (
                AlertDescription::UnknownCA,
                "the server refuses the client certificate, or requires one (it does not trust the authority that signed it)",
            ),
            (
                AlertDescription::BadCertificate,
                "the server refuses the client certificate, or requires one (it does not say why)",
            ),
        ] {
            let error = io::Error::other(rustls::Error::AlertReceived(alert));
            let failure = TlsFailure::of(&error).unwrap();
            assert!(!failure.is_of_certificate());
            assert_eq!(failure.to_string(), expected);
        }
    }

    #[test]
    fn other_errors_are_none_of_tls() {
        assert_eq!(TlsFailure::of(&io::Error::other("reset")), None);
        let refused = b"Client sent an HTTP request to an HTTPS server.\n";
        assert_eq!(TlsFailure::of_response(StatusCode::OK, refused), None);
        assert_eq!(
            TlsFailure::of_response(StatusCode::BAD_REQUEST, b"{}"),
            None
        );
    }
}
