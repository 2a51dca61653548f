//! Which clusters a `ClusterAffinity` selects, with Karmada's meaning.
//!
//! The rules are those of
//! [`util.ClusterMatches`](https://github.com/karmada-io/karmada/blob/master/pkg/util/selector.go):
//! all parts must hold, `exclude` wins, and a requirement that makes no sense selects nothing.

use std::collections::BTreeMap;

use fleetdex_core::selector::{LabelRequirement, LabelSelector, LabelTest};

use super::{ClusterAffinity, ClusterFieldSelector, FieldSelectorRequirement};

/// What affinities look at of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterProperties<'a> {
    /// Its name.
    pub name: &'a str,
    /// Labels of its `Cluster` object.
    pub labels: &'a BTreeMap<String, String>,
    /// `spec.provider`; empty when it is not known.
    pub provider: &'a str,
    /// `spec.region`; empty when it is not known.
    pub region: &'a str,
    /// Its zones.
    pub zones: &'a [String],
}

impl ClusterAffinity {
    /// Whether the affinity selects a cluster.
    pub fn matches(&self, cluster: ClusterProperties<'_>) -> bool {
        let is = |name: &String| name == cluster.name;
        if self.exclude.iter().any(is) {
            return false;
        }
        let named = self.cluster_names.is_empty() || self.cluster_names.iter().any(is);
        named
            && labels_match(self, cluster)
            && self
                .field_selector
                .as_ref()
                .is_none_or(|fields| fields_match(fields, cluster))
    }
}

fn labels_match(affinity: &ClusterAffinity, cluster: ClusterProperties<'_>) -> bool {
    let Some(selector) = &affinity.label_selector else {
        return true;
    };
    LabelSelector::from_api(selector)
        .is_ok_and(|labels| labels.matches(|key| cluster.labels.get(key).map(String::as_str)))
}

fn fields_match(selector: &ClusterFieldSelector, cluster: ClusterProperties<'_>) -> bool {
    selector
        .match_expressions
        .iter()
        .all(|requirement| match requirement.key.as_str() {
            "zone" => zones_match(requirement, cluster.zones),
            _ => field_matches(requirement, cluster),
        })
}

/// A cluster can span several zones: `In`, `Gt` and `Lt` want any of them, `NotIn` none.
fn zones_match(requirement: &FieldSelectorRequirement, zones: &[String]) -> bool {
    let overlaps = || zones.iter().any(|zone| requirement.values.contains(zone));
    match requirement.operator.as_str() {
        "In" => overlaps(),
        "NotIn" => !overlaps(),
        "Exists" => !zones.is_empty(),
        "DoesNotExist" => zones.is_empty(),
        "Gt" | "Lt" => zones.iter().any(|zone| value_matches(requirement, zone)),
        _ => false,
    }
}

/// `provider` and `region` are compared like labels that are absent when they are empty; any other
/// key is an absent label.
fn field_matches(requirement: &FieldSelectorRequirement, cluster: ClusterProperties<'_>) -> bool {
    let value = match requirement.key.as_str() {
        "provider" => cluster.provider,
        "region" => cluster.region,
        _ => "",
    };
    value_matches(requirement, value)
}

/// A value that is empty is absent.
fn value_matches(requirement: &FieldSelectorRequirement, value: &str) -> bool {
    requirement.holds(Some(value).filter(|text| !text.is_empty()))
}

impl FieldSelectorRequirement {
    /// Whether a value, or that there is none, is what the requirement wants, as of a label. One
    /// that Kubernetes refuses holds nowhere.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let Some(requirement) = self.as_label() else {
            return false;
        };
        let selector: LabelSelector = [requirement].into_iter().collect();
        selector.matches(|_| value)
    }

    /// `None` for what Kubernetes refuses as a label requirement.
    fn as_label(&self) -> Option<LabelRequirement> {
        let values = &self.values;
        let test = match (self.operator.as_str(), values.as_slice()) {
            ("In", _) => LabelTest::In(values.iter().cloned().collect()),
            ("NotIn", _) => LabelTest::NotIn(values.iter().cloned().collect()),
            ("Exists", []) => LabelTest::Exists,
            ("DoesNotExist", []) => LabelTest::DoesNotExist,
            ("Gt", [bound]) => LabelTest::GreaterThan(bound.parse().ok()?),
            ("Lt", [bound]) => LabelTest::LessThan(bound.parse().ok()?),
            _ => return None,
        };
        LabelRequirement::new(&self.key, test).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selects(affinity: Value) -> bool {
        let affinity: ClusterAffinity = serde_json::from_value(affinity).unwrap();
        affinity.matches(ClusterProperties {
            name: "member1",
            labels: &[("env".to_owned(), "prod".to_owned())].into(),
            provider: "acme",
            region: "",
            zones: &["z1".to_owned(), "z2".to_owned()],
        })
    }

    fn selects_by_field(key: &str, operator: &str, values: &[&str]) -> bool {
        let requirement = json!({"key": key, "operator": operator, "values": values});
        selects(json!({"fieldSelector": {"matchExpressions": [requirement]}}))
    }

    #[test]
    fn an_empty_affinity_selects_every_cluster() {
        assert!(selects(json!({})));
        assert!(selects(
            json!({"labelSelector": {}, "fieldSelector": {}, "clusterNames": [], "exclude": []})
        ));
        assert!(selects(json!({"fieldSelector": {"matchExpressions": []}})));
    }

    #[test]
    fn exclude_wins_over_everything() {
        assert!(!selects(
            json!({"exclude": ["member1"], "clusterNames": ["member1"]})
        ));
        assert!(selects(
            json!({"exclude": ["member2"], "clusterNames": ["member1"]})
        ));
    }

    #[test]
    fn names_are_exact() {
        assert!(selects(json!({"clusterNames": ["other", "member1"]})));
        assert!(!selects(json!({"clusterNames": ["member", "Member1"]})));
    }

    #[test]
    fn labels_follow_kubernetes() {
        for (selector, selected) in [
            (json!({"matchLabels": {"env": "prod"}}), true),
            (json!({"matchLabels": {"env": "dev"}}), false),
            (
                json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "Is", "values": ["prod"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "In", "values": []}]}),
                false,
            ),
        ] {
            assert_eq!(
                selects(json!({"labelSelector": selector})),
                selected,
                "{selector}"
            );
        }
    }

    #[test]
    fn zones_overlap() {
        for (operator, values, selected) in [
            ("In", &["z2", "z9"][..], true),
            ("In", &["z9"], false),
            ("NotIn", &["z9"], true),
            ("NotIn", &["z1"], false),
            ("Exists", &[], true),
            ("DoesNotExist", &[], false),
            ("Gt", &["1"], false),
        ] {
            assert_eq!(
                selects_by_field("zone", operator, values),
                selected,
                "zone {operator} {values:?}"
            );
        }
        let numbered = ["z1".to_owned(), "7".to_owned()];
        for (operator, bound, selected) in [
            ("Gt", "6", true),
            ("Gt", "7", false),
            ("Lt", "8", true),
            ("Lt", "7", false),
            ("Lt", "x", false),
        ] {
            let requirement = FieldSelectorRequirement {
                key: "zone".into(),
                operator: operator.into(),
                values: vec![bound.into()],
            };
            assert_eq!(
                zones_match(&requirement, &numbered),
                selected,
                "zone {operator} {bound}"
            );
        }
        for (operator, selected) in [
            ("In", false),
            ("NotIn", true),
            ("Exists", false),
            ("DoesNotExist", true),
        ] {
            let requirement = FieldSelectorRequirement {
                key: "zone".into(),
                operator: operator.into(),
                values: vec!["z1".into()],
            };
            assert_eq!(zones_match(&requirement, &[]), selected, "zone {operator}");
        }
    }

    #[test]
    fn provider_and_region_are_labels_that_are_absent_when_empty() {
        for (key, operator, values, selected) in [
            ("provider", "In", &["acme"][..], true),
            ("provider", "In", &["other"], false),
            ("provider", "NotIn", &["acme"], false),
            ("provider", "Exists", &[], true),
            ("provider", "In", &[], false),
            ("provider", "In", &["not a label value"], false),
            ("provider", "Is", &["acme"], false),
            ("region", "In", &["eu"], false),
            ("region", "NotIn", &["eu"], true),
            ("region", "Exists", &[], false),
            ("region", "DoesNotExist", &[], true),
            ("region", "Gt", &["1"], false),
            ("country", "In", &["x"], false),
            ("country", "NotIn", &["x"], true),
        ] {
            assert_eq!(
                selects_by_field(key, operator, values),
                selected,
                "{key} {operator} {values:?}"
            );
        }
    }

    #[test]
    fn all_parts_must_hold() {
        assert!(!selects(
            json!({"clusterNames": ["member1"], "labelSelector": {"matchLabels": {"env": "dev"}}})
        ));
        let fields = json!({"matchExpressions": [
            {"key": "provider", "operator": "In", "values": ["acme"]},
            {"key": "zone", "operator": "In", "values": ["z9"]},
        ]});
        assert!(!selects(json!({"fieldSelector": fields})));
    }
}
