//! The groups that keep a cluster itself going: coordination, scheduling, flow control, node, API registration, stored versions.

use super::{
    column::{Cell, NONE, UNSET, View, age, flag, integer, made, name, text, text_or},
    kind::Kind,
    node::Node,
    text::{first_three, or},
};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";

/// The kinds.
pub const KINDS: &[Kind] = &[
    Kind::new(
        COORDINATION,
        "Lease",
        &[name(), text("Holder", "spec.holderIdentity"), age()],
    ),
    Kind::new(
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
    Kind::new(
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
    Kind::new("scheduling.k8s.io", "Workload", &[name(), age()]),
    Kind::new(
        "scheduling.k8s.io",
        "PodGroup",
        &[
            name(),
            made("Policy", &["spec.schedulingPolicy.gang"], |view| {
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
            made("Status", &["status.conditions"], pod_group_status),
            age(),
        ],
    ),
    Kind::new(
        "node.k8s.io",
        "RuntimeClass",
        &[name(), text("Handler", "handler"), age()],
    ),
    Kind::new(
        FLOW_CONTROL,
        "FlowSchema",
        &[
            name(),
            text("PriorityLevel", "spec.priorityLevelConfiguration.name"),
            integer("MatchingPrecedence", "spec.matchingPrecedence").called("string"),
            text_or("DistinguisherMethod", "spec.distinguisherMethod.type", NONE),
            age(),
            made(
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
    Kind::new(
        FLOW_CONTROL,
        "PriorityLevelConfiguration",
        &[
            name(),
            text("Type", "spec.type"),
            made(
                "NominalConcurrencyShares",
                &["spec.limited.nominalConcurrencyShares"],
                |view| integer_or_none(view.at("spec.limited.nominalConcurrencyShares")),
            ),
            made("Queues", &["spec.limited.limitResponse.queuing"], |view| {
                queuing(view, "queues")
            }),
            made(
                "HandSize",
                &["spec.limited.limitResponse.queuing"],
                |view| queuing(view, "handSize"),
            ),
            made(
                "QueueLengthLimit",
                &["spec.limited.limitResponse.queuing"],
                |view| queuing(view, "queueLengthLimit"),
            ),
            age(),
        ],
    ),
    Kind::new(
        "internal.apiserver.k8s.io",
        "StorageVersion",
        &[
            name(),
            text_or(
                "CommonEncodingVersion",
                "status.commonEncodingVersion",
                UNSET,
            ),
            made("StorageVersions", &["status.storageVersions"], |view| {
                let shown = |version: &Node<'_>| {
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
    Kind::new(
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        &[
            text("Name", "metadata.name"),
            made("Resource", &["spec.resource"], |view| {
                let resource = view.at("spec.resource");
                let group = resource.member("group").text();
                let dot = if group.is_empty() { "" } else { "." };
                format!("{}{dot}{group}", resource.member("resource").text()).into()
            }),
            made(
                "Status",
                &["status.conditions.type", "status.conditions.status"],
                |view| {
                    let conditions = view.at("status.conditions").items().iter().rev();
                    let mut true_ones =
                        conditions.filter(|condition| condition.member("status").text() == "True");
                    let known = |condition: &Node<'_>| {
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
    Kind::new(
        "apiregistration.k8s.io",
        "APIService",
        &[
            name(),
            made("Service", &["spec.service"], |view| {
                match view.at("spec.service") {
                    Node::Null => "Local".into(),
                    service => format!(
                        "{}/{}",
                        service.member("namespace").text(),
                        service.member("name").text()
                    )
                    .into(),
                }
            }),
            made("Available", &["status.conditions"], |view| {
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

fn pod_group_status(view: &View<'_>) -> Cell {
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

fn integer_or_none(value: &Node<'_>) -> Cell {
    if value.is_given() {
        Cell::Integer(value.integer())
    } else {
        NONE.into()
    }
}

fn queuing(view: &View<'_>, member: &str) -> Cell {
    integer_or_none(view.at("spec.limited.limitResponse.queuing").member(member))
}

fn availability(status: &str, reason: &str) -> Cell {
    if status == "True" || reason.is_empty() {
        or(status, "Unknown").into()
    } else {
        format!("{status} ({reason})").into()
    }
}
