//! Controllers of pods: API groups `apps` and `batch`, and the replication controller.

use crate::render::table::{
    age::human_duration,
    column::{
        Cell, Column, KindColumns, NONE, RowContext, UNSET, age, computed, integer, joined_texts,
        length, name, shown, since, text, text_or, timestamp,
    },
    json_node::JsonNode,
    text::{labels, selector, selector_or_none},
};

const CONTAINERS: Column = joined_texts("Containers", "spec.template.spec.containers.name").wide();
const IMAGES: Column = joined_texts("Images", "spec.template.spec.containers.image").wide();
const SELECTOR: Column = shown("Selector", "spec.selector", selector_or_none).wide();

const REPLICAS: [Column; 4] = [
    integer("Desired", "spec.replicas"),
    integer("Current", "status.replicas"),
    integer("Ready", "status.readyReplicas"),
    age(),
];

const READY: Column = computed(
    "Ready",
    &["spec.replicas", "status.readyReplicas"],
    |view| {
        let number = |path| view.at(path).integer();
        format!(
            "{}/{}",
            number("status.readyReplicas"),
            number("spec.replicas")
        )
        .into()
    },
);

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new("", "ReplicationController").with(&[
        name(),
        REPLICAS[0],
        REPLICAS[1],
        REPLICAS[2],
        REPLICAS[3],
        CONTAINERS,
        IMAGES,
        shown("Selector", "spec.selector", labels).wide(),
    ]),
    KindColumns::new("apps", "ReplicaSet").with(&[
        name(),
        REPLICAS[0],
        REPLICAS[1],
        REPLICAS[2],
        REPLICAS[3],
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    KindColumns::new("apps", "Deployment").with(&[
        name(),
        READY,
        integer("Up-to-date", "status.updatedReplicas").with_type("string"),
        integer("Available", "status.availableReplicas").with_type("string"),
        age(),
        CONTAINERS,
        IMAGES,
        shown("Selector", "spec.selector", |node| {
            selector(node).map_or_else(|| "<invalid>".into(), Cell::Text)
        })
        .wide(),
    ]),
    KindColumns::new("apps", "StatefulSet").with(&[name(), READY, age(), CONTAINERS, IMAGES]),
    KindColumns::new("apps", "DaemonSet").with(&[
        name(),
        integer("Desired", "status.desiredNumberScheduled"),
        integer("Current", "status.currentNumberScheduled"),
        integer("Ready", "status.numberReady"),
        integer("Up-to-date", "status.updatedNumberScheduled"),
        integer("Available", "status.numberAvailable"),
        shown("Node Selector", "spec.template.spec.nodeSelector", labels),
        age(),
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    KindColumns::new("apps", "ControllerRevision").with(&[
        name(),
        shown("Controller", "metadata.ownerReferences", controller),
        integer("Revision", "revision").with_type("string"),
        age(),
    ]),
    KindColumns::new("batch", "Job").with(&[
        name(),
        computed(
            "Status",
            &[
                "metadata.deletionTimestamp",
                "status.conditions.type",
                "status.conditions.status",
            ],
            job_status,
        ),
        computed(
            "Completions",
            &["spec.completions", "spec.parallelism", "status.succeeded"],
            completions,
        ),
        computed(
            "Duration",
            &["status.startTime", "status.completionTime"],
            duration,
        ),
        age(),
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]),
    KindColumns::new("batch", "CronJob").with(&[
        name(),
        text("Schedule", "spec.schedule"),
        text_or("Timezone", "spec.timeZone", NONE),
        shown("Suspend", "spec.suspend", |node| match node {
            JsonNode::Null => UNSET.into(),
            JsonNode::Flag(true) => "True".into(),
            _ => "False".into(),
        })
        .with_type("boolean"),
        length("Active", "status.active"),
        since("Last Schedule", "status.lastScheduleTime", NONE),
        age(),
        joined_texts(
            "Containers",
            "spec.jobTemplate.spec.template.spec.containers.name",
        )
        .wide(),
        joined_texts(
            "Images",
            "spec.jobTemplate.spec.template.spec.containers.image",
        )
        .wide(),
        shown(
            "Selector",
            "spec.jobTemplate.spec.selector",
            selector_or_none,
        )
        .wide(),
    ]),
];

fn controller(owners: &JsonNode<'_>) -> Cell {
    let mut owners = owners.items().iter();
    let Some(owner) = owners.find(|owner| owner.member("controller").flag()) else {
        return NONE.into();
    };
    let text = |name| owner.member(name).text();
    let group = text("apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let dot = if text("apiVersion").contains('/') {
        "."
    } else {
        ""
    };
    let kind = text("kind").to_lowercase();
    format!("{kind}{dot}{group}/{}", text("name")).into()
}

fn job_status(view: &RowContext<'_>) -> Cell {
    let conditions = view.at("status.conditions");
    let holds = |name: &str| conditions.holds(name) == Some(true);
    let status = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if view.is_deleted() {
        "Terminating"
    } else {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(|name| holds(name))
            .unwrap_or("Running")
    };
    status.into()
}

fn completions(view: &RowContext<'_>) -> Cell {
    let succeeded = view.at("status.succeeded").integer();
    let completions = view.at("spec.completions");
    let parallelism = view.at("spec.parallelism").integer();
    match (completions, parallelism) {
        (JsonNode::Null, 2..) => format!("{succeeded}/1 of {parallelism}").into(),
        (JsonNode::Null, _) => format!("{succeeded}/1").into(),
        _ => format!("{succeeded}/{}", completions.integer()).into(),
    }
}

fn duration(view: &RowContext<'_>) -> Cell {
    let Some(start) = timestamp(view.at("status.startTime")) else {
        return "".into();
    };
    let end = timestamp(view.at("status.completionTime")).unwrap_or(view.now);
    human_duration(end.duration_since(start).as_secs()).into()
}
