//! The relations of an object: what it uses, and what uses it, across kinds and as far as the caller may see.
//!
//! ```text
//!  uses · used_by ──> search ──> node
//!        └─────────> related_object
//! ```
//!
//! Guarantee: every object that is shown is one that the caller may list. What leads through an object that the caller may not list is absent.

mod node;
mod related_object;
mod search;
mod used_by;
mod uses;

use fleetdex_query_api::{
    group::{GROUPS, VERSION},
    question::RelatedRequest,
};
use serde_json::{Value, json, value::RawValue};

pub use self::related_object::{Direction, RelatedObject};
use self::{node::RelationNode, search::RelationSearch};
use super::{
    across_kinds::AcrossKinds,
    aggregate::raw,
    object_summary::{ObjectSummary, ResultExtent, table},
};
use crate::{api_error::ApiError, render::representation::OutputKind};

/// The columns of a Table.
const COLUMNS: [(&str, &str, u8); 9] = [
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
    objects: Vec<RelatedObject>,
    extent: ResultExtent,
}

/// The relations of the named object in each cluster that has it, and warnings about what is missing.
pub async fn search(
    kinds: &AcrossKinds<'_>,
    request: &RelatedRequest,
) -> Result<(FoundRelations, Vec<String>), ApiError> {
    let roots = roots(kinds, request).await?;
    let mut objects = Vec::new();
    let mut extent = ResultExtent::default();
    let mut warnings = Vec::new();
    for direction in [Direction::Uses, Direction::UsedBy] {
        let in_direction = follow(kinds, &roots, direction, request).await?;
        if in_direction.has_more {
            extent = ResultExtent::cut(true);
            warnings.push(format!(
                "{:?} has more than {} objects; ask for less depth or a higher limit, or name a cluster",
                direction.as_str(),
                in_direction.found.len()
            ));
        }
        objects.extend(in_direction.found);
        warnings.extend(in_direction.warnings);
    }
    warnings.sort_unstable();
    warnings.dedup();
    objects.sort_by(|left, right| left.order().cmp(&right.order()));
    Ok((FoundRelations { objects, extent }, warnings))
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

/// The result as JSON: a `RelatedObjectList`, or a Table.
pub fn document(found: &FoundRelations, output: OutputKind) -> Result<Box<RawValue>, ApiError> {
    if let OutputKind::Table(version, _) = output {
        let rows = found
            .objects
            .iter()
            .map(|related| related.object.row(&cells(related), version));
        let rows: Vec<Value> = rows.collect();
        return raw(&table(
            &COLUMNS,
            &rows,
            &found.extent.metadata().into(),
            version,
        ));
    }
    let item = |related: &RelatedObject| {
        let mut item = ObjectSummary::partial_metadata(&related.object);
        item["relation"] = json!({
            "direction": related.direction.as_str(),
            "name": related.relation,
            "via": related.via,
            "depth": related.depth,
            "exists": related.exists,
        });
        item
    };
    raw(&json!({
        "kind": "RelatedObjectList",
        "apiVersion": format!("{}/{VERSION}", GROUPS[0]),
        "metadata": found.extent.metadata(),
        "items": found.objects.iter().map(item).collect::<Vec<Value>>(),
    }))
}

fn cells(related: &RelatedObject) -> Value {
    let object = &related.object;
    json!([
        object.cluster.as_str(),
        related.direction.as_str(),
        related.relation,
        object.metadata.namespace,
        object.qualified_kind(),
        object.metadata.name,
        object.interpretation.health,
        related.via,
        object.interpretation.health_message,
    ])
}
