//! What one replica asks another one for.

use fleetdex_core::model::{FleetVersion, StoreName};

use super::{NativePath, unknown};
use crate::{flag::flag, status::ApiError};

/// The changes that a replica makes of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesRequest {
    /// The resource.
    pub native: NativePath,
    /// The store that is changed.
    pub store: StoreName,
    /// Whether changes are told as they come, or only how far the replica is.
    pub watch: bool,
    /// The version of that replica to go on from; without it, from now on.
    pub since: Option<FleetVersion>,
}

impl ChangesRequest {
    pub(super) fn of(path: &str, segments: &[&str]) -> Result<Self, ApiError> {
        let native = NativePath::parse(path, segments)?;
        if native.namespace.is_some() || native.name.is_some() {
            return Err(ApiError::bad_request(
                "changes are told of all objects of a resource, and not of some of them",
            ));
        }
        Ok(Self {
            native,
            store: StoreName::embedded(),
            watch: false,
            since: None,
        })
    }

    pub(super) fn with(mut self, parameters: &[(String, String)]) -> Result<Self, ApiError> {
        let mut store = None;
        for (key, value) in parameters {
            let refused =
                |problem: String| ApiError::bad_request(format!("parameter {key}: {problem}"));
            match key.as_str() {
                "store" => {
                    store = Some(value.parse().map_err(|error| refused(format!("{error}")))?);
                }
                "watch" => self.watch = flag(value),
                "resourceVersion" => {
                    self.since = Some(value.parse().map_err(|error| refused(format!("{error}")))?);
                }
                _ => return Err(unknown(key, "store, watch and resourceVersion")),
            }
        }
        let missing = || {
            ApiError::bad_request(
                "parameter store is missing: it names the store whose changes are asked for",
            )
        };
        Ok(Self {
            store: store.ok_or_else(missing)?,
            ..self
        })
    }
}
