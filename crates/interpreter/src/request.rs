//! What an operation is given, and what it results in, whichever level answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Operation, health::Assessment};

/// One operation on one object.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// [`Operation::InterpretReplica`].
    Replica {
        /// The object.
        object: &'a Value,
    },
    /// [`Operation::InterpretComponent`].
    Component {
        /// The object.
        object: &'a Value,
    },
    /// [`Operation::ReviseReplica`].
    Revise {
        /// The object.
        object: &'a Value,
        /// The number of replicas that it shall have.
        replicas: i64,
    },
    /// [`Operation::Retain`].
    Retain {
        /// The object as it shall be.
        desired: &'a Value,
        /// The object as its member has it.
        observed: &'a Value,
    },
    /// [`Operation::AggregateStatus`].
    AggregateStatus {
        /// The object whose status is to be set.
        object: &'a Value,
        /// What each member reports.
        items: &'a [AggregatedStatusItem],
    },
    /// [`Operation::InterpretStatus`].
    Status {
        /// The object.
        object: &'a Value,
    },
    /// [`Operation::InterpretHealth`].
    Health {
        /// The object.
        object: &'a Value,
    },
    /// [`Operation::InterpretDependency`].
    Dependency {
        /// The object.
        object: &'a Value,
    },
    /// [`Operation::Prune`].
    Prune {
        /// The object.
        object: &'a Value,
    },
}

impl<'a> Request<'a> {
    /// The operation.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Replica { .. } => Operation::InterpretReplica,
            Self::Component { .. } => Operation::InterpretComponent,
            Self::Revise { .. } => Operation::ReviseReplica,
            Self::Retain { .. } => Operation::Retain,
            Self::AggregateStatus { .. } => Operation::AggregateStatus,
            Self::Status { .. } => Operation::InterpretStatus,
            Self::Health { .. } => Operation::InterpretHealth,
            Self::Dependency { .. } => Operation::InterpretDependency,
            Self::Prune { .. } => Operation::Prune,
        }
    }

    /// The request of an operation that needs nothing but the object; `None` for other operations.
    pub fn about(operation: Operation, object: &'a Value) -> Option<Self> {
        match operation {
            Operation::InterpretReplica => Some(Self::Replica { object }),
            Operation::InterpretComponent => Some(Self::Component { object }),
            Operation::InterpretStatus => Some(Self::Status { object }),
            Operation::InterpretHealth => Some(Self::Health { object }),
            Operation::InterpretDependency => Some(Self::Dependency { object }),
            Operation::Prune => Some(Self::Prune { object }),
            Operation::ReviseReplica | Operation::Retain | Operation::AggregateStatus => None,
        }
    }

    /// The object that the operation is about; of a retention, the desired one.
    pub fn object(&self) -> &'a Value {
        match self {
            Self::Replica { object }
            | Self::Component { object }
            | Self::Revise { object, .. }
            | Self::Retain {
                desired: object, ..
            }
            | Self::AggregateStatus { object, .. }
            | Self::Status { object }
            | Self::Health { object }
            | Self::Dependency { object }
            | Self::Prune { object } => object,
        }
    }
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a result is made once for a request, and is not stored"
)]
pub enum Response {
    /// Of [`Operation::InterpretReplica`].
    Replica {
        /// The number of replicas that the object declares.
        replicas: i64,
        /// What each replica requires, if anything.
        requirements: Option<ReplicaRequirements>,
    },
    /// Of [`Operation::InterpretComponent`].
    Components(Vec<Component>),
    /// Of [`Operation::ReviseReplica`]: the object.
    Revised(Value),
    /// Of [`Operation::Retain`]: the object to write.
    Retained(Value),
    /// Of [`Operation::AggregateStatus`]: the object with its status.
    AggregatedStatus(Value),
    /// Of [`Operation::InterpretStatus`]; null: nothing to report.
    Status(Value),
    /// Of [`Operation::InterpretHealth`].
    Health {
        /// The word for it, with its reason and message.
        assessment: Assessment,
        /// The boolean of Karmada's contract.
        healthy: bool,
    },
    /// Of [`Operation::InterpretDependency`].
    Dependencies(Vec<DependentObject>),
    /// Of [`Operation::Prune`]: the object.
    Pruned(Value),
}

/// What each replica requires of a cluster, as `ReplicaRequirements` of `work.karmada.io`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// The nodes that a replica may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Quantities by the name of the resource.
    #[serde(
        default,
        skip_serializing_if = "Map::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub resource_request: Map<String, Value>,
    /// The namespace whose quota counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The priority class of the pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
}

/// The nodes that a replica may run on, as `NodeClaim` of `work.karmada.io`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// The required node affinity, a `NodeSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<Value>,
    /// Labels that a node must have.
    #[serde(
        default,
        skip_serializing_if = "Map::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub node_selector: Map<String, Value>,
    /// Taints that do not keep a replica away.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub tolerations: Vec<Value>,
}

/// One of several pod templates of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its name, unique in the object.
    pub name: String,
    /// How many pods have this template.
    #[serde(default)]
    pub replicas: i64,
    /// What each of these pods requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
}

/// An object that another one needs, as `DependentObjectReference` of `config.karmada.io`. It has a
/// name or a label selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentObject {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; empty: those that the selector selects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A `LabelSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Value>,
}

impl DependentObject {
    /// The object of a name.
    pub(crate) fn by_name(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            label_selector: None,
        }
    }
}

/// What one member reports of an object, as `AggregatedStatusItem` of `work.karmada.io`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// The member.
    #[serde(default)]
    pub cluster_name: String,
    /// The reported status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// Whether the object was applied to the member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    /// `Healthy`, `Unhealthy` or `Unknown`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub health: String,
}

/// Why a level that is responsible for an operation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InterpretError(pub String);

/// Reads null as an absent member.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
