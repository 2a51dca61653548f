//! Where objects are from, and what is wrong with them.

use fleetdex_crds::validation::InvalidField;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanInputError {
    /// A document is no object of Kubernetes.
    #[error("{origin}: a document without apiVersion, kind or metadata.name")]
    NoObject {
        /// The file.
        origin: String,
    },
    /// A member of an object has another type.
    #[error("{origin}: {object}: {problem}")]
    Type {
        /// The file.
        origin: String,
        /// The object.
        object: String,
        /// What is wrong.
        problem: String,
    },
    /// A policy makes no sense.
    #[error("{origin}: {object}: {}", problems.join("; "))]
    Policy {
        /// The file.
        origin: String,
        /// The policy.
        object: String,
        /// What is wrong.
        problems: Vec<String>,
    },
    /// Two objects have the same name.
    #[error("{origin}: {object} is there twice")]
    Twice {
        /// The second file.
        origin: String,
        /// The object.
        object: String,
    },
    /// `--room` names a cluster that is not known.
    #[error("--room {0}: there is no Cluster of this name")]
    UnknownCluster(String),
}

/// Where an object is from.
pub(super) struct FileOrigin<'o> {
    pub(super) file: &'o str,
    pub(super) object: &'o str,
}

impl FileOrigin<'_> {
    /// A value as a type.
    pub(super) fn decode<T: DeserializeOwned>(&self, value: Value) -> Result<T, PlanInputError> {
        serde_json::from_value(value).map_err(|error| self.wrong(error.to_string()))
    }

    /// An error if a policy makes no sense.
    pub(super) fn valid(&self, problems: &[InvalidField]) -> Result<(), PlanInputError> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(PlanInputError::Policy {
            origin: self.file.to_owned(),
            object: self.object.to_owned(),
            problems: problems.iter().map(ToString::to_string).collect(),
        })
    }

    /// The error of an object.
    pub(super) fn wrong(&self, problem: String) -> PlanInputError {
        PlanInputError::Type {
            origin: self.file.to_owned(),
            object: self.object.to_owned(),
            problem,
        }
    }
}
