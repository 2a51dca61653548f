//! How requests authenticate at OpenSearch.
//!
//! Guarantee: every request carries the credentials of the settings; one that cannot is not sent.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header::AUTHORIZATION};
use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;

use super::aws_signer::{AwsAuthentication, AwsSigner, SigningError};

/// The credentials of requests, besides a client certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Authentication {
    /// There are none.
    #[default]
    None,
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A bearer token, such as a JSON Web Token.
    Bearer(String),
    /// Signatures for OpenSearch on AWS.
    Aws(AwsAuthentication),
}

/// The settings cannot become a header.
#[derive(Debug, thiserror::Error)]
#[error("the bearer token holds characters that a header may not have")]
pub struct InvalidToken;

/// Adds the credentials to requests.
pub(crate) enum StoreAuthenticator {
    None,
    /// The value of `Authorization`.
    Constant(HeaderValue),
    Signed(AwsSigner),
}

/// The claims of a JSON Web Token that matter here.
#[derive(Deserialize)]
struct TokenClaims {
    /// Seconds since 1970. Source: <https://datatracker.ietf.org/doc/html/rfc7519#section-4.1.4>
    exp: Option<f64>,
}

impl Authentication {
    /// When the bearer token ends; `None` if there is no such token, or if it does not say so.
    pub fn token_expiry(&self) -> Option<Timestamp> {
        let Self::Bearer(token) = self else {
            return None;
        };
        let payload = token.split('.').nth(1)?;
        let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        let claims: TokenClaims = serde_json::from_slice(&payload).ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a number beyond the range becomes its end, which is no valid time"
        )]
        Timestamp::from_second(claims.exp? as i64).ok()
    }
}

impl StoreAuthenticator {
    /// Sends no request.
    pub fn new(authentication: &Authentication) -> Result<Self, InvalidToken> {
        let header = |text: String| {
            let mut value = HeaderValue::try_from(text).map_err(|_| InvalidToken)?;
            value.set_sensitive(true);
            Ok(Self::Constant(value))
        };
        match authentication {
            Authentication::None => Ok(Self::None),
            Authentication::Basic { user, password } => {
                let login = STANDARD.encode(format!("{user}:{password}"));
                header(format!("Basic {login}"))
            }
            Authentication::Bearer(token) => header(format!("Bearer {token}")),
            Authentication::Aws(aws) => Ok(Self::Signed(AwsSigner::new(aws))),
        }
    }

    /// Adds the headers for this request to `headers`.
    pub async fn authenticate(
        &self,
        method: &Method,
        url: &Url,
        body: &Bytes,
        headers: &mut HeaderMap,
    ) -> Result<(), SigningError> {
        match self {
            Self::None => Ok(()),
            Self::Constant(value) => {
                headers.insert(AUTHORIZATION, value.clone());
                Ok(())
            }
            Self::Signed(signer) => signer.sign(method, url, body, headers).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> Authentication {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let token = format!("{}.{}.c2ln", part(r#"{"alg":"HS256"}"#), part(claims));
        Authentication::Bearer(token)
    }

    #[test]
    fn a_token_says_when_it_ends() {
        let expiry = |claims: &str| token(claims).token_expiry().map(Timestamp::as_second);
        assert_eq!(
            expiry(r#"{"sub":"a","exp":1767225600}"#),
            Some(1_767_225_600)
        );
        assert_eq!(expiry(r#"{"exp":1767225600.5}"#), Some(1_767_225_600));
        for unknown in [
            r#"{"sub":"a"}"#,
            r#"{"exp":"soon"}"#,
            r#"{"exp":1e300}"#,
            "x",
        ] {
            assert_eq!(expiry(unknown), None, "{unknown}");
        }
        for opaque in ["", "opaque", "a.b", "a.%.c"] {
            let token = Authentication::Bearer(opaque.to_owned());
            assert_eq!(token.token_expiry(), None, "{opaque}");
        }
        assert_eq!(Authentication::None.token_expiry(), None);
    }

    #[test]
    fn a_token_that_no_header_may_have_is_refused() {
        let broken = Authentication::Bearer("a\nb".to_owned());
        assert!(StoreAuthenticator::new(&broken).is_err());
    }
}
