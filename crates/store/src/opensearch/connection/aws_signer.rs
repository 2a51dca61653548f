//! Signature Version 4, for the OpenSearch Service of AWS.
//!
//! Guarantee: a signature covers method, host, path, query string and body of the request as they
//! are sent, so it is of no use for any other request. Secret keys are never sent.
//!
//! Source:
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use bytes::Bytes;
use fleetdex_core::model::{causes, hex, quoted};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqsign_aws_v4::{AssumeRoleCredentialProvider, Credential, RequestSigner};
use reqsign_core::{Context, OsEnv, Signer};
use reqwest::Url;
use sha2::{Digest as _, Sha256};

use super::aws_credentials::{AwsCredentialSource, AwsKeys, CredentialFiles, CredentialRequests};

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const BODY_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const SESSION_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
/// What a path keeps when it is encoded: the unreserved characters and the slash.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');
/// The name of the sessions of assumed roles, in logs of AWS.
const SESSION_NAME: &str = "fleetdex";

/// How requests are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsAuthentication {
    /// The region of the domain, such as `eu-central-1`.
    pub region: String,
    /// The name of the service in signatures: `es`.
    pub service: String,
    /// A role to assume.
    pub role_arn: Option<String>,
    /// Access keys; without them those of the Pod's role.
    pub keys: Option<AwsKeys>,
}

/// A request cannot be signed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SigningError {
    /// No credentials of AWS, or not in time.
    #[error("no AWS credentials: {0}")]
    Credentials(String),
    /// The request cannot be expressed as one to sign.
    #[error("the request cannot be signed: {0}")]
    Request(String),
}

/// Signs requests, and renews the credentials before they end.
pub(crate) struct AwsSigner(Signer<Credential>);

impl AwsSigner {
    /// Sends no request.
    pub fn new(authentication: &AwsAuthentication) -> Self {
        let context = Context::new()
            .with_env(OsEnv)
            .with_file_read(CredentialFiles)
            .with_http_send(CredentialRequests::default());
        Self::with_context(authentication, context)
    }

    pub(crate) fn with_context(authentication: &AwsAuthentication, context: Context) -> Self {
        let region = &authentication.region;
        // The regional endpoint, in the region of the Pod if it is known: the one that a private
        // network reaches.
        let token_region = context
            .env_var("AWS_REGION")
            .unwrap_or_else(|| region.clone());
        let source = AwsCredentialSource::new(authentication.keys.as_ref(), token_region.clone());
        let requests =
            RequestSigner::new(&authentication.service, region).with_standard_session_token();
        let Some(role_arn) = &authentication.role_arn else {
            return Self(Signer::new(context, source, requests));
        };
        let sts = RequestSigner::new("sts", &token_region);
        let to_assume = Signer::new(context.clone(), source, sts);
        let role = AssumeRoleCredentialProvider::new(role_arn.clone(), to_assume)
            .with_role_session_name(SESSION_NAME.to_owned())
            .with_region(token_region)
            .with_regional_sts_endpoint();
        Self(Signer::new(context, role, requests))
    }

    /// Adds the headers of the signature to `headers`. Of these the content type is signed; what
    /// the client adds when it sends the request is not.
    pub async fn sign(
        &self,
        method: &Method,
        url: &Url,
        body: &Bytes,
        headers: &mut HeaderMap,
    ) -> Result<(), SigningError> {
        let invalid = |error: &dyn std::error::Error| SigningError::Request(causes(error));
        let body_hash = hex(&Sha256::digest(body));
        let mut request = Request::builder()
            .method(method.clone())
            .uri(to_sign(url))
            .header(BODY_HASH, body_hash);
        if let Some(content_type) = headers.get(CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(()).map_err(|error| invalid(&error))?;
        let (mut signed, ()) = request.into_parts();
        self.0
            .sign(&mut signed, None)
            .await
            .map_err(|error| SigningError::Credentials(described(&error)))?;
        for name in [AUTHORIZATION, DATE, BODY_HASH, SESSION_TOKEN] {
            if let Some(value) = signed.headers.get(&name) {
                headers.insert(name, HeaderValue::clone(value));
            }
        }
        Ok(())
    }
}

/// The URL as the signer takes it. It canonicalizes paths as S3 does: decoded and encoded once.
/// Every other service encodes the path as it is sent, so `%3C` becomes `%253C`.
fn to_sign(url: &Url) -> String {
    let mut text = url.origin().ascii_serialization();
    text.extend(utf8_percent_encode(url.path(), PATH));
    if let Some(query) = url.query() {
        text.push('?');
        text.push_str(query);
    }
    text
}

/// The error and its causes; the hints of the library are left out, as they name its functions.
fn described(error: &reqsign_core::Error) -> String {
    quoted(&causes(error))
}

#[cfg(test)]
mod tests;
