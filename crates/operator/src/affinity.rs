//! Which clusters a `ClusterAffinity` selects, with Karmada's meaning.
//!
//! The rules are those of
//! [`util.ClusterMatches`](https://github.com/karmada-io/karmada/blob/master/pkg/util/selector.go):
//! all parts must hold, `exclude` wins, and a requirement that makes no sense selects nothing.

use fleetdex_core::selector::{LabelRequirement, LabelSelector, LabelTest};
use fleetdex_crds::affinity::{ClusterAffinity, ClusterFieldSelector, FieldSelectorRequirement};

use super::MemberView;

/// Whether the affinity selects a cluster.
pub fn matches(affinity: &ClusterAffinity, cluster: &MemberView) -> bool {
    let name = cluster.name.as_str();
    if affinity.exclude.iter().any(|excluded| excluded == name) {
        return false;
    }
    let named = affinity.cluster_names.is_empty()
        || affinity.cluster_names.iter().any(|desired| desired == name);
    named
        && labels_match(affinity, cluster)
        && affinity
            .field_selector
            .as_ref()
            .is_none_or(|fields| fields_match(fields, cluster))
}

fn labels_match(affinity: &ClusterAffinity, cluster: &MemberView) -> bool {
    let Some(selector) = &affinity.label_selector else {
        return true;
    };
    LabelSelector::from_api(selector)
        .is_ok_and(|labels| labels.matches(|key| cluster.labels.get(key).map(String::as_str)))
}

fn fields_match(selector: &ClusterFieldSelector, cluster: &MemberView) -> bool {
    selector
        .match_expressions
        .iter()
        .all(|requirement| match requirement.key.as_str() {
            "zone" => zones_match(requirement, &cluster.zones),
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
fn field_matches(requirement: &FieldSelectorRequirement, cluster: &MemberView) -> bool {
    let value = match requirement.key.as_str() {
        "provider" => cluster.provider.as_str(),
        "region" => cluster.region.as_str(),
        _ => "",
    };
    value_matches(requirement, value)
}

fn value_matches(requirement: &FieldSelectorRequirement, value: &str) -> bool {
    let Some(requirement) = as_label(requirement) else {
        return false;
    };
    let selector: LabelSelector = [requirement].into_iter().collect();
    selector.matches(|_| Some(value).filter(|text| !text.is_empty()))
}

/// `None` for what Kubernetes refuses as a label requirement.
fn as_label(requirement: &FieldSelectorRequirement) -> Option<LabelRequirement> {
    let values = &requirement.values;
    let test = match (requirement.operator.as_str(), values.as_slice()) {
        ("In", _) => LabelTest::In(values.iter().cloned().collect()),
        ("NotIn", _) => LabelTest::NotIn(values.iter().cloned().collect()),
        ("Exists", []) => LabelTest::Exists,
        ("DoesNotExist", []) => LabelTest::DoesNotExist,
        ("Gt", [bound]) => LabelTest::GreaterThan(bound.parse().ok()?),
        ("Lt", [bound]) => LabelTest::LessThan(bound.parse().ok()?),
        _ => return None,
    };
    LabelRequirement::new(&requirement.key, test).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster() -> MemberView {
        MemberView {
            name: "member1".parse().unwrap(),
            labels: [("env".to_owned(), "prod".to_owned())].into(),
            provider: "acme".to_owned(),
            region: String::new(),
            zones: vec!["z1".to_owned(), "z2".to_owned()],
            discovery: None,
            definitions: None,
            is_duplicate: false,
        }
    }

    fn selects(affinity: Value) -> bool {
        matches(&serde_json::from_value(affinity).unwrap(), &cluster())
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
        let numbered = MemberView {
            zones: vec!["z1".to_owned(), "7".to_owned()],
            ..cluster()
        };
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
                zones_match(&requirement, &numbered.zones),
                selected,
                "zone {operator} {bound}"
            );
        }
        let nowhere = MemberView {
            zones: Vec::new(),
            ..cluster()
        };
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
            assert_eq!(
                zones_match(&requirement, &nowhere.zones),
                selected,
                "zone {operator}"
            );
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
