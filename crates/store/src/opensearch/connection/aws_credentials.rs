//! Where the credentials for AWS come from: a Secret, or the role of the Pod.
//!
//! Guarantee: one source is chosen, by what is set, and its error is the result. A source that is
//! set and fails is never replaced by another identity.

use std::{fmt, sync::OnceLock, time::Duration};

use bytes::Bytes;
use fleetdex_core::model::causes;
use http::{Request, Response};
use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, Credential, ECSCredentialProvider,
    EnvCredentialProvider, IMDSv2CredentialProvider,
};
use reqsign_core::{Context, Error, FileRead, HttpSend, ProvideCredential, Result};
use reqwest::{Client, redirect};

/// How long a source may take to answer a request. Those of a node answer in milliseconds, and STS
/// within a second.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take: a Pod without a role often has no route to its node's service.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Answers and token files have less than 10 KiB.
const LIMIT: usize = 256 << 10;
const NO_CREDENTIALS: &str = "the environment of the Pod names none; put accessKeyID and secretAccessKey into the Secret of secretRef, or give the service account a role";

/// Access keys of AWS.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// The public part.
    pub access_key_id: String,
    /// The secret part.
    pub secret_access_key: String,
    /// Of temporary keys.
    pub session_token: Option<String>,
}

/// The credentials of one store.
#[derive(Debug)]
pub(crate) struct AwsCredentialSource {
    keys: Option<Credential>,
    /// Of the STS endpoint.
    region: String,
    /// It caches the token of its session.
    node: IMDSv2CredentialProvider,
}

/// Reads the files that the variables of the Pod name.
#[derive(Debug)]
pub(crate) struct CredentialFiles;

/// Sends requests for credentials: to STS, to the agent of the node, or to the instance's metadata.
/// No proxy is used and no redirect is followed.
#[derive(Debug, Default)]
pub(crate) struct CredentialRequests(OnceLock<Client>);

impl fmt::Debug for AwsKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AwsKeys").finish_non_exhaustive()
    }
}

impl AwsCredentialSource {
    /// `keys` if there are any; otherwise those of the Pod.
    pub fn new(keys: Option<&AwsKeys>, region: String) -> Self {
        let credential = |keys: &AwsKeys| Credential {
            access_key_id: keys.access_key_id.clone(),
            secret_access_key: keys.secret_access_key.clone(),
            session_token: keys.session_token.clone(),
            expires_in: None,
        };
        Self {
            keys: keys.map(credential),
            region,
            node: IMDSv2CredentialProvider::new(),
        }
    }

    async fn web_identity(&self, context: &Context) -> Result<Option<Credential>> {
        let mut provider = AssumeRoleWithWebIdentityCredentialProvider::new()
            .with_region(self.region.clone())
            .with_regional_sts_endpoint();
        if context.env_var("AWS_ROLE_SESSION_NAME").is_none() {
            provider = provider.with_role_session_name("fleetdex".to_owned());
        }
        provider.provide_credential(context).await
    }
}

impl ProvideCredential for AwsCredentialSource {
    type Credential = Credential;

    /// In the order of the AWS SDKs. Profiles and single sign-on are left out, as a Pod has
    /// neither.
    async fn provide_credential(&self, context: &Context) -> Result<Option<Credential>> {
        let is_set = |name: &str| context.env_var(name).is_some_and(|text| !text.is_empty());
        let found = if let Some(keys) = &self.keys {
            Some(keys.clone())
        } else if is_set("AWS_ACCESS_KEY_ID") {
            EnvCredentialProvider::new()
                .provide_credential(context)
                .await?
        } else if is_set("AWS_WEB_IDENTITY_TOKEN_FILE") {
            self.web_identity(context).await?
        } else if is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
            || is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        {
            ECSCredentialProvider::new()
                .provide_credential(context)
                .await?
        } else {
            let found = self.node.provide_credential(context).await;
            found.map_err(|error| {
                Error::credential_invalid(format!("{NO_CREDENTIALS} ({})", causes(&error)))
            })?
        };
        found
            .map(Some)
            .ok_or_else(|| Error::credential_invalid(NO_CREDENTIALS))
    }
}

impl FileRead for CredentialFiles {
    async fn file_read(&self, path: &str) -> Result<Vec<u8>> {
        let failed = |error: std::io::Error| {
            Error::config_invalid(format!("cannot read {path}")).with_source(error)
        };
        let length = tokio::fs::metadata(path).await.map_err(failed)?.len();
        if length > LIMIT as u64 {
            return Err(Error::config_invalid(format!("{path} is too long")));
        }
        tokio::fs::read(path).await.map_err(failed)
    }
}

impl HttpSend for CredentialRequests {
    async fn http_send(&self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let failed = |error: reqwest::Error| {
            Error::unexpected("no answer from the source of credentials")
                .with_source(error.without_url())
        };
        let client = match self.0.get() {
            Some(client) => client,
            None => {
                let new = Client::builder()
                    .no_proxy()
                    .no_gzip()
                    .redirect(redirect::Policy::none())
                    .connect_timeout(CONNECT_TIMEOUT)
                    .timeout(TIMEOUT)
                    .build()
                    .map_err(failed)?;
                self.0.get_or_init(|| new)
            }
        };
        let request = request.try_into().map_err(failed)?;
        let mut answer = client.execute(request).await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > LIMIT {
                return Err(Error::unexpected(format!(
                    "the source of credentials answers with more than {LIMIT} bytes"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = answer.status();
        Ok(response)
    }
}
