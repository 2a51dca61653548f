//! What the read aliases show of an index. They carry it as their filter, so that everyone who
//! queries through them sees the same: this process, other replicas, and people.

use std::collections::BTreeSet;

use fleetdex_core::{model::index_fields, query::ResourceName};
use serde_json::Value;

use crate::CompleteResources;

/// What an alias shows, by its configuration; nothing if there is no such alias, or with a
/// foreign filter.
pub(crate) fn shown_by(alias: Option<&Value>) -> CompleteResources {
    let Some(configuration) = alias else {
        return CompleteResources::Only(BTreeSet::new());
    };
    match configuration.get("filter") {
        None | Some(Value::Null) => CompleteResources::All,
        Some(filter) => CompleteResources::Only(read(filter).unwrap_or_default()),
    }
}

/// The resources of the filter that [`resources_clause`](crate::opensearch::dsl::resources_clause)
/// has made.
fn read(filter: &Value) -> Option<BTreeSet<ResourceName>> {
    let mut resources = BTreeSet::new();
    for of_group in filter["bool"]["should"].as_array()? {
        let clauses = &of_group["bool"]["filter"];
        let group = clauses[0]["term"][index_fields::GROUP].as_str()?;
        for plural in clauses[1]["terms"][index_fields::RESOURCE].as_array()? {
            resources.insert(ResourceName::new(group, plural.as_str()?));
        }
    }
    Some(resources)
}

#[cfg(test)]
mod tests {
    use crate::opensearch::dsl::resources_clause;
    use serde_json::json;

    use super::*;

    fn resources(names: &[(&str, &str)]) -> BTreeSet<ResourceName> {
        names
            .iter()
            .map(|(group, plural)| ResourceName::new(group, plural))
            .collect()
    }

    #[test]
    fn a_filter_reads_back_as_what_it_was_made_of() {
        for names in [
            &[][..],
            &[("", "pods")],
            &[("", "pods"), ("", "nodes"), ("apps", "deployments")],
        ] {
            let expected = resources(names);
            assert_eq!(
                shown_by(Some(&json!({ "filter": resources_clause(&expected) }))),
                CompleteResources::Only(expected)
            );
        }
        assert_eq!(shown_by(Some(&json!({}))), CompleteResources::All);
        assert_eq!(shown_by(None), CompleteResources::Only(BTreeSet::new()));
        assert_eq!(
            shown_by(Some(&json!({ "filter": { "match_all": {} } }))),
            CompleteResources::Only(BTreeSet::new())
        );
    }
}
