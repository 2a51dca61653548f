use std::sync::Arc;

use fleetdex_core::{
    model::{Gvk, Interpretation},
    selector::{LabelRequirement, LabelSelector, LabelTest},
};

use super::*;
use crate::read::{
    object_summary::{ObjectIdentity, ObjectSummary},
    related::node::RelationKey,
};

fn pod(name: &str, label: &str) -> RelationNode {
    let cluster: ClusterName = "m1".parse().unwrap();
    RelationNode {
        key: RelationKey {
            cluster: cluster.clone(),
            resource: ResourceName::new("", "pods"),
            namespace: "web".to_owned(),
            name: name.to_owned(),
        },
        summary: ObjectSummary {
            cluster,
            kind: Gvk::new("", "v1", "Pod"),
            plural: "pods".to_owned(),
            metadata: ObjectIdentity::default(),
            interpretation: Interpretation::default(),
        },
        labels: ["app", "zone"]
            .map(|key| (key.to_owned(), label.to_owned()))
            .into(),
        owners: Vec::new(),
        references: Vec::new(),
        dependencies: Vec::new(),
        selection: None,
    }
}

/// A selection of as many requirements, of which only the last one is not met by `zone=web`.
fn selection(requirements: usize) -> LabelSelection {
    let other = |number| LabelTest::NotIn([format!("db-{number}")].into());
    let met = (1..requirements).map(|number| LabelRequirement::new("app", other(number)).unwrap());
    let last = LabelRequirement::new("zone", LabelTest::In(["x".to_owned()].into())).unwrap();
    LabelSelection {
        group: String::new(),
        kind: "Pod".to_owned(),
        namespaces: vec!["ops".to_owned(), "web".to_owned()],
        labels: Arc::new(met.chain([last]).collect::<LabelSelector>()),
        relation: "restricts".to_owned(),
    }
}

#[test]
fn pods_with_the_same_labels_are_compared_once() {
    let mut pods: Vec<RelationNode> = (0..1_000)
        .map(|number| pod(&format!("web-{number}"), "web"))
        .collect();
    pods.push(pod("x", "x"));
    let cluster = pods[0].key.cluster.clone();
    let selectable = SelectableObjects::of(&pods);
    let selection = selection(1_000);
    for _ in 0..20 {
        let selected = selectable.selected_by(&cluster, &selection).unwrap();
        assert_eq!(selected.key.name, "x");
    }
    let compared = MAX_COMPARISONS - selectable.comparisons.get();
    assert!(compared <= 20 * 2_002, "{compared} comparisons");
}

#[test]
fn a_search_ends_when_no_comparisons_are_left() {
    let pods: Vec<RelationNode> = (0..1_000)
        .map(|number| pod(&format!("web-{number}"), &format!("web-{number}")))
        .collect();
    let cluster = pods[0].key.cluster.clone();
    let selectable = SelectableObjects::of(&pods);
    let selection = selection(1_000);
    for _ in 0..20 {
        assert!(selectable.selected_by(&cluster, &selection).is_none());
    }
    assert_eq!(selectable.comparisons.get(), 0);
}
