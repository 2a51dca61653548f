//! The `_search` that finds owners and dependants.

use fleetdex_core::{
    model::{DEPENDS_ON, index_fields},
    query::{CheckedRelatives, Relation, field_term, owners::MAX_OWNERS},
};
use serde_json::{Value, json};

use super::{
    clauses::{Clauses, any_of, of_resource, texts},
    words::either,
};

/// The body of the `_search` that finds relatives. The sort values ([`RELATIVE_KEYS`]) are all that
/// it returns of each. The body asks for an exact count up to one more than may be found, so that
/// too many are noticed.
pub fn relatives_body(checked: CheckedRelatives<'_>) -> Value {
    let relatives = checked.relatives();
    let mut clauses = Clauses::default();
    clauses.one_of(index_fields::CLUSTER, texts(&relatives.clusters));
    if !relatives.namespaces.is_empty() {
        let inside = any_of(index_fields::NAMESPACE, texts(&relatives.namespaces));
        let outside =
            json!({ "bool": { "must_not": [{ "exists": { "field": index_fields::NAMESPACE } }] } });
        clauses.filter.push(either([inside, outside]));
    }
    clauses.permission(&relatives.permitted);
    match &relatives.relation {
        Relation::Named { resource, names } => {
            clauses.filter.extend(resource.iter().flat_map(of_resource));
            let named = any_of(index_fields::NAME, names.clone());
            clauses.filter.push(named);
        }
        Relation::OwnedBy(owners) => clauses.owned(owners),
        Relation::DependsOn(terms) => {
            let terms = terms.iter().map(|term| field_term(DEPENDS_ON, term));
            let depends = any_of(index_fields::FIELDS, terms.collect());
            clauses.filter.push(depends);
        }
    }
    json!({
        "size": MAX_OWNERS,
        "track_total_hits": MAX_OWNERS + 1,
        "_source": false,
        "query": clauses.into_bool(),
        "sort": RELATIVE_KEYS.map(|key| json!({ key: { "order": "asc" } })),
    })
}

/// The sort keys of a search for relatives: cluster, UID, group, plural, and namespace where there
/// is one.
pub const RELATIVE_KEYS: [&str; 5] = [
    index_fields::CLUSTER,
    index_fields::UID,
    index_fields::GROUP,
    index_fields::RESOURCE,
    index_fields::NAMESPACE,
];
