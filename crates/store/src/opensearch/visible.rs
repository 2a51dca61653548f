//! What queries see of an index: all of it, or, as long as it is filled for the first time, the resources that are complete. The read aliases
//! carry that as their filters, so that everybody sees the same who asks by them: this process, other replicas, and people.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::query::ResourceName;
use serde_json::{Value, json};

/// What an alias shows of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything.
    All,
    /// The documents of these resources; nothing if there are none.
    Only(BTreeSet<ResourceName>),
}

impl Part {
    /// What an alias shows, by its configuration; nothing if there is no such alias, or with a filter that is none of ours.
    pub(super) fn of(alias: Option<&Value>) -> Self {
        let Some(configuration) = alias else {
            return Self::Only(BTreeSet::new());
        };
        match configuration.get("filter") {
            None | Some(Value::Null) => Self::All,
            Some(filter) => Self::Only(read(filter).unwrap_or_default()),
        }
    }

    /// What both show.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, part) | (part, Self::All) => part,
            (Self::Only(left), Self::Only(right)) => {
                Self::Only(left.intersection(&right).cloned().collect())
            }
        }
    }

    /// What either shows.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Only(left), Self::Only(right)) => {
                Self::Only(left.union(&right).cloned().collect())
            }
        }
    }
}

/// The filter that lets documents of these resources through and no others.
pub(super) fn filter(resources: &BTreeSet<ResourceName>) -> Value {
    // Without clauses the query below would let everything through.
    if resources.is_empty() {
        return json!({ "match_none": {} });
    }
    let mut by_group: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in resources {
        by_group
            .entry(&resource.group)
            .or_default()
            .push(&resource.plural);
    }
    let of_group = |(group, plurals): (&str, Vec<&str>)| json!({ "bool": { "filter": [{ "term": { "search.group": group } }, { "terms": { "search.resource": plurals } }] } });
    json!({ "bool": { "should": by_group.into_iter().map(of_group).collect::<Vec<Value>>(), "minimum_should_match": 1 } })
}

fn read(filter: &Value) -> Option<BTreeSet<ResourceName>> {
    let mut resources = BTreeSet::new();
    for of_group in filter["bool"]["should"].as_array()? {
        let clauses = &of_group["bool"]["filter"];
        let group = clauses[0]["term"]["search.group"].as_str()?;
        for plural in clauses[1]["terms"]["search.resource"].as_array()? {
            resources.insert(ResourceName::new(group, plural.as_str()?));
        }
    }
    Some(resources)
}

#[cfg(test)]
mod tests {
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
            let wanted = resources(names);
            assert_eq!(
                Part::of(Some(&json!({ "filter": filter(&wanted) }))),
                Part::Only(wanted)
            );
        }
        assert_eq!(Part::of(Some(&json!({}))), Part::All);
        assert_eq!(Part::of(None), Part::Only(BTreeSet::new()));
        assert_eq!(
            Part::of(Some(&json!({ "filter": { "match_all": {} } }))),
            Part::Only(BTreeSet::new())
        );
    }

    #[test]
    fn what_both_aliases_show_is_seen() {
        let (pods, both) = (
            resources(&[("", "pods")]),
            resources(&[("", "pods"), ("", "nodes")]),
        );
        assert_eq!(
            Part::Only(pods.clone()).and(Part::Only(both)),
            Part::Only(pods.clone())
        );
        assert_eq!(Part::All.and(Part::Only(pods.clone())), Part::Only(pods));
        assert_eq!(Part::All.and(Part::All), Part::All);
    }

    #[test]
    fn what_an_alias_shows_is_never_narrowed() {
        let (pods, nodes, both) = (
            resources(&[("", "pods")]),
            resources(&[("", "nodes")]),
            resources(&[("", "pods"), ("", "nodes")]),
        );
        assert_eq!(
            Part::Only(pods.clone()).or(Part::Only(nodes)),
            Part::Only(both)
        );
        assert_eq!(Part::All.or(Part::Only(pods.clone())), Part::All);
        assert_eq!(Part::Only(pods).or(Part::All), Part::All);
    }
}
