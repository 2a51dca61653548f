//! The groups that keep a cluster itself going: coordination, scheduling, flow control, node, API
//! registration, stored versions.

use crate::render::table::{
    column::{Cell, NONE, RowContext, UNSET, age, computed, flag, integer, name, text, text_or},
    json_node::JsonNode,
    kind_columns::KindColumns,
    text::{first_three, or},
};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(
        COORDINATION,
        "Lease",
        &[name(), text("Holder", "spec.holderIdentity"), age()],
    ),
    KindColumns::new(
        COORDINATION,
        "LeaseCandidate",
        &[
            name(),
            text("LeaseName", "spec.leaseName"),
            text("BinaryVersion", "spec.binaryVersion"),
            text("EmulationVersion", "spec.emulationVersion"),
            age(),
        ],
    ),
    KindColumns::new(
        "scheduling.k8s.io",
        "PriorityClass",
        &[
            name(),
            integer("Value", "value"),
            flag("Global-Default", "globalDefault", false),
            age(),
            text("PreemptionPolicy", "preemptionPolicy"),
        ],
    ),
    KindColumns::new("scheduling.k8s.io", "Workload", &[name(), age()]),
    KindColumns::new(
        "scheduling.k8s.io",
        "PodGroup",
        &[
            name(),
            computed("Policy", &["spec.schedulingPolicy.gang"], |view| {
                if view.at("spec.schedulingPolicy.gang").is_given() {
                    "Gang"
                } else {
                    "Basic"
                }
                .into()
            }),
            text_or(
                "Workload",
                "spec.podGroupTemplateRef.workload.workloadName",
                NONE,
            ),
            computed("Status", &["status.conditions"], pod_group_status),
            age(),
        ],
    ),
    KindColumns::new(
        "node.k8s.io",
        "RuntimeClass",
        &[name(), text("Handler", "handler"), age()],
    ),
    KindColumns::new(
        FLOW_CONTROL,
        "FlowSchema",
        &[
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
                        .map_or("?", |condition| condition.member("status").text())
                        .into()
                },
            ),
        ],
    ),
    KindColumns::new(
        FLOW_CONTROL,
        "PriorityLevelConfiguration",
        &[
            name(),
            text("Type", "spec.type"),
            computed(
                "NominalConcurrencyShares",
                &["spec.limited.nominalConcurrencyShares"],
                |view| integer_or_none(view.at("spec.limited.nominalConcurrencyShares")),
            ),
            computed("Queues", &["spec.limited.limitResponse.queuing"], |view| {
                queuing(view, "queues")
            }),
            computed(
                "HandSize",
                &["spec.limited.limitResponse.queuing"],
                |view| queuing(view, "handSize"),
            ),
            computed(
                "QueueLengthLimit",
                &["spec.limited.limitResponse.queuing"],
                |view| queuing(view, "queueLengthLimit"),
            ),
            age(),
        ],
    ),
    KindColumns::new(
        "internal.apiserver.k8s.io",
        "StorageVersion",
        &[
            name(),
            text_or(
                "CommonEncodingVersion",
                "status.commonEncodingVersion",
                UNSET,
            ),
            computed("StorageVersions", &["status.storageVersions"], |view| {
                let shown = |version: &JsonNode<'_>| {
                    format!(
                        "{}={}",
                        version.member("apiServerID").text(),
                        version.member("encodingVersion").text()
                    )
                };
                first_three(
                    &view
                        .at("status.storageVersions")
                        .items()
                        .iter()
                        .map(shown)
                        .collect::<Vec<_>>(),
                )
                .into()
            }),
            age(),
        ],
    ),
    KindColumns::new(
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        &[
            text("Name", "metadata.name"),
            computed("Resource", &["spec.resource"], |view| {
                let resource = view.at("spec.resource");
                let group = resource.member("group").text();
                let dot = if group.is_empty() { "" } else { "." };
                format!("{}{dot}{group}", resource.member("resource").text()).into()
            }),
            computed(
                "Status",
                &["status.conditions.type", "status.conditions.status"],
                |view| {
                    let conditions = view.at("status.conditions").items().iter().rev();
                    let mut true_ones =
                        conditions.filter(|condition| condition.member("status").text() == "True");
                    let known = |condition: &JsonNode<'_>| {
                        let name = condition.member("type").text();
                        ["Running", "Failed", "Succeeded"]
                            .into_iter()
                            .find(|known| *known == name)
                    };
                    true_ones.find_map(known).unwrap_or("Unknown").into()
                },
            ),
        ],
    ),
    KindColumns::new(
        "apiregistration.k8s.io",
        "APIService",
        &[
            name(),
            computed("Service", &["spec.service"], |view| {
                match view.at("spec.service") {
                    JsonNode::Null => "Local".into(),
                    service => format!(
                        "{}/{}",
                        service.member("namespace").text(),
                        service.member("name").text()
                    )
                    .into(),
                }
            }),
            computed("Available", &["status.conditions"], |view| {
                match view.at("status.conditions").of_type("Available") {
                    Some(condition) => availability(
                        condition.member("status").text(),
                        condition.member("reason").text(),
                    ),
                    None => "Unknown".into(),
                }
            }),
            age(),
        ],
    ),
];

fn pod_group_status(view: &RowContext<'_>) -> Cell {
    let conditions = view.at("status.conditions");
    if let Some(disrupted) = conditions.of_type("DisruptionTarget") {
        return disrupted.member("reason").text().into();
    }
    match conditions.of_type("PodGroupScheduled") {
        Some(scheduled) if scheduled.member("status").text() == "True" => "Scheduled".into(),
        Some(_) => "Unschedulable".into(),
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

fn queuing(view: &RowContext<'_>, member: &str) -> Cell {
    integer_or_none(view.at("spec.limited.limitResponse.queuing").member(member))
}

fn availability(status: &str, reason: &str) -> Cell {
    if status == "True" || reason.is_empty() {
        or(status, "Unknown").into()
    } else {
        format!("{status} ({reason})").into()
    }
}
