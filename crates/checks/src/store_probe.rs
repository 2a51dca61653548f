//! Requests to a node of OpenSearch, with the credentials of a registry.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_core::model::quoted;
use fleetdex_store::opensearch::{self, OpenSearchService, Settings, SettingsError, Timeout};
use http::{Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt as _;

use super::result::Checks;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A node of OpenSearch, with credentials.
pub struct StoreProbe(OpenSearchService);

/// Why there is no usable answer.
pub struct NoAnswer {
    /// That of the answer, if there was one.
    pub status: Option<StatusCode>,
    /// What happened.
    pub message: String,
    /// What it means, if AWS refused the request before OpenSearch saw it.
    pub refusal: Option<&'static str>,
}

impl StoreProbe {
    /// Reads no Secret and sends no request.
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        opensearch::connect(settings).map(Self)
    }

    /// What it answers to `GET`, within ten seconds.
    pub async fn get(&self, path: &str) -> Result<Value, NoAnswer> {
        let request = Request::get(path).extension(Timeout(TIMEOUT));
        let failed = |message: String| NoAnswer {
            status: None,
            message,
            refusal: None,
        };
        let request = request
            .body(Bytes::new())
            .map_err(|error| failed(error.to_string()))?;
        let answer = self.0.clone().oneshot(request).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(NoAnswer {
                status: Some(status),
                refusal: opensearch::aws_refusal(answer.body()),
                message: format!(
                    "{status} to {path}: {}",
                    quoted(&String::from_utf8_lossy(answer.body()))
                ),
            });
        }
        serde_json::from_slice(answer.body()).map_err(|error| failed(error.to_string()))
    }

    /// As `get`; without the right to ask, the check is skipped.
    pub async fn ask(&self, checks: &mut Checks, check: &'static str, path: &str) -> Option<Value> {
        match self.get(path).await {
            Ok(answer) => Some(answer),
            Err(NoAnswer { message, .. }) => {
                let action = "give the user the role that `fleetdex store role` prints";
                checks.skipped(check, message, action);
                None
            }
        }
    }
}
