//! Requests of one replica to another.

use fleetdex_core::model::{FleetVersion, StoreName};

use super::{resource_path::ResourcePath, values::parsed};
use crate::{error::QuestionError, flag::flag, uri::QueryParameter};

/// The changes that a replica makes of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesRequest {
    /// The resource.
    pub resource: ResourcePath,
    /// The store of the changes.
    pub store: StoreName,
    /// Whether changes are streamed, or only the current version is returned.
    pub watch: bool,
    /// The version of that replica after which the stream starts; without it, the current one.
    pub since: Option<FleetVersion>,
}

impl ChangesRequest {
    pub(super) fn of(path: &str, segments: &[&str]) -> Result<Self, QuestionError> {
        let resource = ResourcePath::parse(path, segments)?;
        if resource.namespace.is_some() || resource.name.is_some() {
            return Err(QuestionError::invalid(
                "changes are streamed for all objects of a resource; leave out the namespace and the name",
            ));
        }
        Ok(Self {
            resource,
            store: StoreName::embedded(),
            watch: false,
            since: None,
        })
    }

    pub(super) fn with(mut self, parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        let mut store = None;
        for QueryParameter { key, value, .. } in parameters {
            match &**key {
                "store" => store = Some(parsed(key, value)?),
                "watch" => self.watch = flag(value),
                "resourceVersion" => self.since = Some(parsed(key, value)?),
                _ => {
                    return Err(QuestionError::invalid(format!(
                        "parameter {key:?} is unknown; known are store, watch and resourceVersion"
                    )));
                }
            }
        }
        let missing = || {
            QuestionError::invalid("parameter store is missing: it names the store of the changes")
        };
        Ok(Self {
            store: store.ok_or_else(missing)?,
            ..self
        })
    }
}
