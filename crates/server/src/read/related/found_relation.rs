//! An object that is related to the named one, as results show it.

use fleetdex_core::model::Interpretation;
use fleetdex_query_api::answer::Direction;

use super::node::{NamedReference, RelationKey, RelationNode};
use crate::read::object_summary::{ObjectIdentity, ObjectSummary};

/// An object that is related to the named one.
#[derive(Clone, Debug)]
pub struct FoundRelation {
    /// The object.
    pub object: ObjectSummary,
    /// Which way the relation goes.
    pub direction: Direction,
    /// What the using object does with the used one.
    pub relation: String,
    /// The object in between, nearer to the named one.
    pub via: String,
    /// How many steps it is away.
    pub depth: usize,
    /// Whether it exists. One that does not is shown if it surely would be in the index.
    pub exists: bool,
}

impl FoundRelation {
    /// An object that exists. `via`: the nearer end of the relation.
    pub(super) fn existing(
        of: &RelationNode,
        via: &RelationNode,
        direction: Direction,
        relation: &str,
        depth: usize,
    ) -> Self {
        Self {
            object: of.summary.clone(),
            direction,
            relation: relation.to_owned(),
            via: via.label(),
            depth,
            exists: true,
        }
    }

    /// An object that another one names, and that does not exist.
    pub(super) fn missing(
        key: &RelationKey,
        user: &RelationNode,
        reference: &NamedReference,
        depth: usize,
    ) -> Self {
        let via = user.label();
        let interpretation = Interpretation {
            health: "Missing",
            health_reason: "NotFound".to_owned(),
            health_message: format!("{via} refers to it, and it does not exist"),
            ..Interpretation::default()
        };
        let metadata = ObjectIdentity {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            ..ObjectIdentity::default()
        };
        Self {
            object: ObjectSummary {
                cluster: key.cluster.clone(),
                kind: reference.kind.clone(),
                // It has no path: it does not exist.
                plural: String::new(),
                metadata,
                interpretation,
            },
            direction: Direction::Uses,
            relation: reference.relation.clone(),
            via,
            depth,
            exists: false,
        }
    }

    /// The order of results: cluster, direction, distance, kind, namespace and name.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let object = &self.object;
        (
            &object.cluster,
            self.direction,
            self.depth,
            (&*object.kind.kind, &*object.kind.group),
            &object.metadata.namespace,
            &object.metadata.name,
        )
    }
}
