use fleetdex_core::model::Gvk;
use proptest::{prelude::*, sample::subsequence};
use serde_json::json;

use super::*;

const WATCHED: bool = true;

/// Everything that a member may serve, the preferred version of a group first.
const SERVED: [(&str, &str, bool); 14] = [
    ("v1", "Event", WATCHED),
    ("v1", "Binding", false),
    ("autoscaling/v2", "HorizontalPodAutoscaler", WATCHED),
    ("autoscaling/v1", "HorizontalPodAutoscaler", WATCHED),
    ("networking.k8s.io/v1", "Ingress", WATCHED),
    ("events.k8s.io/v1", "Event", WATCHED),
    ("config.example/v2", "Ingress", WATCHED),
    ("config.example/v1", "Ingress", WATCHED),
    ("config.example/v1", "Widget", WATCHED),
    ("other.example/v1", "Widget", WATCHED),
    ("other.example/v1", "Gadget", WATCHED),
    ("other.example/v1beta1", "Gadget", WATCHED),
    ("third.example/v1", "Review", false),
    ("metrics.k8s.io/v1beta1", "PodMetrics", false),
];

/// A member that serves these group versions and did not answer for those.
fn member(answered: &[&str], unknown: &[&str]) -> Discovery {
    let preferred = |api_version: &str| {
        let of_group =
            |other: &&&str| split_api_version(other).0 == split_api_version(api_version).0;
        answered
            .iter()
            .chain(unknown)
            .find(of_group)
            .is_some_and(|first| *first == api_version)
    };
    let rows = SERVED
        .iter()
        .filter(|(api_version, ..)| answered.contains(api_version));
    let served = rows.map(|(api_version, kind, list_and_watch)| ServedResource {
        resource: Resource {
            gvk: Gvk::from_api_version(api_version, kind),
            plural: format!("{}s", kind.to_lowercase()).into(),
            namespaced: true,
        },
        singular: kind.to_lowercase().into(),
        short_names: Vec::new(),
        list_and_watch: *list_and_watch,
        preferred: preferred(api_version),
        capabilities: std::sync::Arc::default(),
    });
    Discovery {
        served: served.collect(),
        unknown: unknown.iter().map(|&name| name.to_owned()).collect(),
        left_out: 0,
    }
}

/// The group versions of the table, each once.
fn versions() -> Vec<&'static str> {
    let mut versions: Vec<&str> = SERVED
        .iter()
        .map(|(api_version, ..)| *api_version)
        .collect();
    versions.dedup();
    versions
}

fn selector(api_version: &str, kind: &str) -> ResourceSelector {
    serde_json::from_value(json!({ "apiVersion": api_version, "kind": kind })).unwrap()
}

fn resolved(api_version: &str, kind: &str, discovery: &Discovery) -> String {
    let Selection { resources, problem } = resolve(&selector(api_version, kind), discovery);
    let names = resources
        .iter()
        .map(|resource| resource.gvk.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    problem.map_or_else(|| names.clone(), |problem| format!("{names}: {problem}"))
}

#[test]
fn a_version_that_is_not_served_resolves_to_the_preferred_one_of_its_group() {
    let all = member(&versions(), &[]);
    assert_eq!(
        resolved("autoscaling/v1", "HorizontalPodAutoscaler", &all),
        "autoscaling/v1/HorizontalPodAutoscaler"
    );
    assert_eq!(
        resolved("autoscaling/v2beta2", "HorizontalPodAutoscaler", &all),
        "autoscaling/v2/HorizontalPodAutoscaler"
    );
    let old = member(&["autoscaling/v1"], &[]);
    assert_eq!(
        resolved("autoscaling/v2", "HorizontalPodAutoscaler", &old),
        "autoscaling/v1/HorizontalPodAutoscaler"
    );
    assert_eq!(
        resolved("config.example/v2", "Widget", &all),
        "config.example/v1/Widget"
    );
}

#[test]
fn a_kind_without_a_version_resolves_to_built_in_groups_first_and_only_custom_groups_tie() {
    let all = member(&versions(), &[]);
    assert_eq!(resolved("", "Event", &all), "v1/Event");
    assert_eq!(
        resolved("", "Ingress", &all),
        "networking.k8s.io/v1/Ingress"
    );
    assert_eq!(resolved("", "Gadget", &all), "other.example/v1/Gadget");
    assert_eq!(
        resolved("", "Ingress", &member(&["config.example/v2"], &[])),
        "config.example/v2/Ingress"
    );
    let tie = r#": the server has "Widget" in several groups (config.example, other.example): set apiVersion to one of them"#;
    assert_eq!(resolved("", "Widget", &all), tie);
    assert_eq!(
        resolved("", "Nothing", &all),
        r#": the server doesn't have a resource type "Nothing""#
    );
    assert_eq!(
        resolved("", "Review", &all),
        r#": the server's "Review" cannot be listed and watched"#
    );
}

#[test]
fn known_resources_stay_selected_while_discovery_of_a_group_that_could_change_them_fails() {
    let uncertain = |of: &str| {
        format!(
            "the server did not answer for networking.k8s.io/v1: it is not certain which resources {of} stands for"
        )
    };
    let without_networking = member(
        &["config.example/v2", "other.example/v1"],
        &["networking.k8s.io/v1"],
    );
    assert_eq!(
        resolved("", "Ingress", &without_networking),
        format!("config.example/v2/Ingress: {}", uncertain(r#""Ingress""#))
    );
    let without_metrics = member(
        &["config.example/v2", "other.example/v1"],
        &["metrics.k8s.io/v1beta1"],
    );
    assert_eq!(
        resolved("", "Gadget", &without_metrics),
        "other.example/v1/Gadget"
    );
    assert_eq!(
        resolved("*", "*", &without_metrics),
        "config.example/v2/Ingress other.example/v1/Widget other.example/v1/Gadget"
    );
    let stale = Discovery {
        unknown: ["other.example/v1".to_owned()].into(),
        ..member(&["other.example/v1"], &[])
    };
    let listed = resolved("other.example/v1", "*", &stale);
    assert!(
        listed.starts_with(
            "other.example/v1/Widget other.example/v1/Gadget: the server did not answer"
        ),
        "{listed}"
    );
}

fn any_selector() -> impl Strategy<Value = ResourceSelector> {
    let versions = [
        "",
        "*",
        "v1",
        "autoscaling/v1",
        "autoscaling/v2beta2",
        "config.example/v1",
        "config.example/v3",
        "other.example/v2",
    ];
    let kinds = [
        "*",
        "Event",
        "Binding",
        "HorizontalPodAutoscaler",
        "Ingress",
        "Widget",
        "Gadget",
        "Review",
        "Nothing",
    ];
    let parts = (
        prop::sample::select(versions.to_vec()),
        prop::sample::select(kinds.to_vec()),
    );
    parts.prop_map(|(api_version, kind)| selector(api_version, kind))
}

proptest! {
    /// Documents are deleted only where the selection is certain: so it must be what it was before
    /// the outage.
    #[test]
    fn failed_discovery_of_a_group_changes_no_selection_that_is_certain(
        selector in any_selector(),
        served in subsequence(versions(), 0..=versions().len()),
        lost in prop::collection::vec(any::<bool>(), versions().len()),
    ) {
        let is_lost = |api_version: &str| versions().iter().zip(&lost).any(|(known, lost)| *known == api_version && *lost);
        let (unknown, answered): (Vec<&str>, Vec<&str>) = served.iter().partition(|api_version| is_lost(api_version));
        let all = member(&served, &[]);
        let mut partial = member(&answered, &unknown);
        for entry in &mut partial.served {
            entry.preferred = all.served.iter().any(|other| other.resource == entry.resource && other.preferred);
        }
        let (before, during) = (resolve(&selector, &all), resolve(&selector, &partial));
        let is_certain = during.problem.as_ref().is_none_or(Problem::is_certain);
        if is_certain {
            prop_assert_eq!(during.resources, before.resources);
        }
    }

    #[test]
    fn a_selection_has_only_watchable_resources_and_each_kind_once(
        selector in any_selector(),
        served in subsequence(versions(), 0..=versions().len()),
    ) {
        let discovery = member(&served, &[]);
        let Selection { resources, problem } = resolve(&selector, &discovery);
        let mut kinds = BTreeSet::new();
        for resource in &resources {
            prop_assert!(discovery.served.iter().any(|served| served.resource == *resource && served.list_and_watch));
            prop_assert!(kinds.insert((&resource.gvk.group, &resource.gvk.kind)));
        }
        let is_everything = selector.every_kind() && selector.api_version().is_none_or(|version| version == "*");
        prop_assert!(is_everything || resources.is_empty() == problem.is_some());
    }
}
