//! The relations of an object: what it uses, and what uses it, across kinds and as far as the
//! caller may see.
//!
//! ```text
//!  uses · used_by ──> search ──> node
//!        └─────────> found_relation
//! ```
//!
//! Guarantee: every object that is shown is one that the caller may list. What leads through an
//! object that the caller may not list is absent.

mod found_relation;
mod node;

mod search;
mod used_by;
mod uses;

use fleetdex_query_api::{
    answer::{
        Answer, Direction, ListMetadata, ObjectRelation, RelatedObject, RelatedObjectList, Table,
    },
    group::API_VERSION,
    question::RelatedRequest,
};
use serde_json::Value;

pub use self::found_relation::FoundRelation;
use self::{node::RelationNode, search::RelationSearch};
use super::across_kinds::AcrossKinds;
use crate::{api_error::ApiError, render::representation::OutputKind};

/// The columns of a Table.
const COLUMNS: [(&str, &str, i32); 9] = [
    ("Cluster", "The member that holds the object.", 0),
    (
        "Direction",
        "Whether the named object uses this one, or is used by it.",
        0,
    ),
    (
        "Relation",
        "What the using object does with the used one.",
        0,
    ),
    ("Namespace", "The namespace of the object.", 0),
    ("Kind", "The kind of the object, with its API group.", 0),
    ("Name", "The name of the object.", 0),
    (
        "Health",
        "How the object is; Missing if it does not exist.",
        0,
    ),
    ("Via", "The object in between, nearer to the named one.", 1),
    (
        "Message",
        "What the object says about the cause of its health.",
        1,
    ),
];

/// The relations of an object, in both directions.
pub struct FoundRelations {
    relations: Vec<FoundRelation>,
    /// Whether objects are left out.
    is_cut: bool,
}

/// The relations of the named object in each cluster that has it, and warnings about what is
/// missing.
pub async fn search(
    kinds: &AcrossKinds<'_>,
    request: &RelatedRequest,
) -> Result<(FoundRelations, Vec<String>), ApiError> {
    let roots = roots(kinds, request).await?;
    let mut relations = Vec::new();
    let mut is_cut = false;
    let mut warnings = Vec::new();
    for direction in [Direction::Uses, Direction::UsedBy] {
        let in_direction = follow(kinds, &roots, direction, request).await?;
        if in_direction.has_more {
            is_cut = true;
            warnings.push(format!(
                "{:?} has more than {} objects; ask for less depth or a higher limit, or name a cluster",
                direction.as_str(),
                in_direction.found.len()
            ));
        }
        relations.extend(in_direction.found);
        warnings.extend(in_direction.warnings);
    }
    warnings.sort_unstable();
    warnings.dedup();
    relations.sort_by(|left, right| left.order().cmp(&right.order()));
    Ok((FoundRelations { relations, is_cut }, warnings))
}

/// The relations in one direction, step by step.
async fn follow<'k, 's>(
    kinds: &'k AcrossKinds<'s>,
    roots: &[RelationNode],
    direction: Direction,
    request: &RelatedRequest,
) -> Result<RelationSearch<'k, 's>, ApiError> {
    let mut search = RelationSearch::from(roots, kinds, request.limit);
    let mut frontier = roots.to_vec();
    for depth in 1..=request.depth {
        if frontier.is_empty() || search.has_more {
            break;
        }
        frontier = match direction {
            Direction::Uses => uses::uses(&mut search, &frontier, depth).await?,
            Direction::UsedBy => used_by::used_by(&mut search, &frontier, depth).await?,
        };
    }
    Ok(search)
}

/// The named object in each cluster that has it.
async fn roots(
    kinds: &AcrossKinds<'_>,
    request: &RelatedRequest,
) -> Result<Vec<RelationNode>, ApiError> {
    let found = kinds.named(&request.list).await?;
    if found.objects.is_empty() {
        return Err(ApiError::no_such_object(&request.list.resource));
    }
    Ok(found.objects)
}

/// The answer: a `RelatedObjectList`, or a Table.
pub fn answer(found: &FoundRelations, output: OutputKind) -> Answer {
    let metadata = ListMetadata {
        incomplete: found.is_cut,
        ..ListMetadata::default()
    };
    let relations = found.relations.iter();
    if let OutputKind::Table(version, _) = output {
        let rows = relations.map(|related| related.object.row(cells(related), version));
        let rows = rows.collect();
        return Answer::Table(Table::new(version.api_version(), metadata, &COLUMNS, rows));
    }
    Answer::Related(RelatedObjectList {
        kind: "RelatedObjectList".to_owned(),
        api_version: API_VERSION.to_owned(),
        metadata,
        items: relations.map(item).collect(),
    })
}

fn item(related: &FoundRelation) -> RelatedObject {
    let object = related.object.partial_metadata();
    RelatedObject {
        api_version: object.api_version,
        kind: object.kind,
        metadata: object.metadata,
        relation: ObjectRelation {
            direction: related.direction,
            name: related.relation.clone(),
            via: related.via.clone(),
            depth: related.depth,
            exists: related.exists,
        },
    }
}

fn cells(related: &FoundRelation) -> Vec<Value> {
    let object = &related.object;
    vec![
        object.cluster.as_str().into(),
        related.direction.as_str().into(),
        related.relation.as_str().into(),
        object.metadata.namespace.as_str().into(),
        object.qualified_kind().into(),
        object.metadata.name.as_str().into(),
        object.interpretation.health.into(),
        related.via.as_str().into(),
        object.interpretation.health_message.as_str().into(),
    ]
}
