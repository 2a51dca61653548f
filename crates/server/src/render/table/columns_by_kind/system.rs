//! The groups that keep a cluster itself going: coordination, scheduling, flow control, node, API
//! registration, stored versions.

use fleetdex_core::model::qualified;

use crate::render::table::{
    column::{
        Cell, KindColumns, NONE, UNSET, age, computed, flag, integer, name, shown, text, text_or,
    },
    json_node::JsonNode,
    text::{first_three, or, pair},
};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
/// The queues of a priority level.
const QUEUING: &str = "spec.limited.limitResponse.queuing";

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(COORDINATION, "Lease").with(&[
        name(),
        text("Holder", "spec.holderIdentity"),
        age(),
    ]),
    KindColumns::new(COORDINATION, "LeaseCandidate").with(&[
        name(),
        text("LeaseName", "spec.leaseName"),
        text("BinaryVersion", "spec.binaryVersion"),
        text("EmulationVersion", "spec.emulationVersion"),
        age(),
    ]),
    KindColumns::new("scheduling.k8s.io", "PriorityClass").with(&[
        name(),
        integer("Value", "value"),
        flag("Global-Default", "globalDefault", false),
        age(),
        text("PreemptionPolicy", "preemptionPolicy"),
    ]),
    KindColumns::new("scheduling.k8s.io", "Workload").with(&[name(), age()]),
    KindColumns::new("scheduling.k8s.io", "PodGroup").with(&[
        name(),
        shown("Policy", "spec.schedulingPolicy.gang", |node| {
            if node.is_given() { "Gang" } else { "Basic" }.into()
        }),
        text_or(
            "Workload",
            "spec.podGroupTemplateRef.workload.workloadName",
            NONE,
        ),
        shown("Status", "status.conditions", pod_group_status),
        age(),
    ]),
    KindColumns::new("node.k8s.io", "RuntimeClass").with(&[
        name(),
        text("Handler", "handler"),
        age(),
    ]),
    KindColumns::new(FLOW_CONTROL, "FlowSchema").with(&[
        name(),
        text("PriorityLevel", "spec.priorityLevelConfiguration.name"),
        integer("MatchingPrecedence", "spec.matchingPrecedence").with_type("string"),
        text_or("DistinguisherMethod", "spec.distinguisherMethod.type", NONE),
        age(),
        computed(
            "MissingPL",
            &["status.conditions.type", "status.conditions.status"],
            |view| {
                let dangling = view.at("status.conditions").of_type("Dangling");
                dangling
                    .map_or("?", |found| found.member("status").text())
                    .into()
            },
        ),
    ]),
    KindColumns::new(FLOW_CONTROL, "PriorityLevelConfiguration").with(&[
        name(),
        text("Type", "spec.type"),
        shown(
            "NominalConcurrencyShares",
            "spec.limited.nominalConcurrencyShares",
            integer_or_none,
        ),
        shown("Queues", QUEUING, |node| {
            integer_or_none(node.member("queues"))
        }),
        shown("HandSize", QUEUING, |node| {
            integer_or_none(node.member("handSize"))
        }),
        shown("QueueLengthLimit", QUEUING, |node| {
            integer_or_none(node.member("queueLengthLimit"))
        }),
        age(),
    ]),
    KindColumns::new("internal.apiserver.k8s.io", "StorageVersion").with(&[
        name(),
        text_or(
            "CommonEncodingVersion",
            "status.commonEncodingVersion",
            UNSET,
        ),
        shown("StorageVersions", "status.storageVersions", |node| {
            let shown = |version: &JsonNode<'_>| {
                let text = |name| version.member(name).text();
                format!("{}={}", text("apiServerID"), text("encodingVersion"))
            };
            first_three(node.items().iter().map(shown))
        }),
        age(),
    ]),
    KindColumns::new("storagemigration.k8s.io", "StorageVersionMigration").with(&[
        text("Name", "metadata.name"),
        shown("Resource", "spec.resource", |node| {
            qualified(node.member("resource").text(), node.member("group").text()).into()
        }),
        computed(
            "Status",
            &["status.conditions.type", "status.conditions.status"],
            |view| {
                let conditions = view.at("status.conditions").items().iter().rev();
                let true_ones = conditions.filter(|found| found.member("status").text() == "True");
                let mut types = true_ones.map(|found| found.member("type").text());
                types
                    .find(|name| matches!(*name, "Running" | "Failed" | "Succeeded"))
                    .unwrap_or("Unknown")
                    .into()
            },
        ),
    ]),
    KindColumns::new("apiregistration.k8s.io", "APIService").with(&[
        name(),
        shown("Service", "spec.service", |node| match node {
            JsonNode::Null => "Local".into(),
            service => pair(service, "namespace", "name"),
        }),
        shown("Available", "status.conditions", availability),
        age(),
    ]),
];

fn pod_group_status(conditions: &JsonNode<'_>) -> Cell {
    if let Some(disrupted) = conditions.of_type("DisruptionTarget") {
        return disrupted.member("reason").text().into();
    }
    match conditions.holds("PodGroupScheduled") {
        Some(true) => "Scheduled".into(),
        Some(false) => "Unschedulable".into(),
        None => "Pending".into(),
    }
}

fn integer_or_none(value: &JsonNode<'_>) -> Cell {
    if value.is_given() {
        Cell::Integer(value.integer())
    } else {
        NONE.into()
    }
}

fn availability(conditions: &JsonNode<'_>) -> Cell {
    let found = conditions.of_type("Available").unwrap_or(&JsonNode::Null);
    match (found.member("status").text(), found.member("reason").text()) {
        (status @ "True", _) | (status, "") => or(status, "Unknown").into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}
