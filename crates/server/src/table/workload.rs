//! Controllers of pods: API groups `apps` and `batch`, and the replication controller.

use super::{
    age::human_duration,
    column::{
        Cell, Column, NONE, UNSET, View, age, integer, length, made, name, since, text, text_or,
        timestamp,
    },
    kind::Kind,
    text::{
        container_images, container_names, labels, members, selector, selector_or_none, spoken,
    },
};

const CONTAINERS: Column = made(
    "Containers",
    &["spec.template.spec.containers.name"],
    container_names,
)
.wide();
const IMAGES: Column = made(
    "Images",
    &["spec.template.spec.containers.image"],
    container_images,
)
.wide();
const SELECTOR: Column = made("Selector", &["spec.selector"], |view| {
    selector_or_none(view.at("spec.selector"))
})
.wide();

const REPLICAS: [Column; 4] = [
    integer("Desired", "spec.replicas"),
    integer("Current", "status.replicas"),
    integer("Ready", "status.readyReplicas"),
    age(),
];

const READY: Column = made(
    "Ready",
    &["spec.replicas", "status.readyReplicas"],
    |view| {
        format!(
            "{}/{}",
            view.at("status.readyReplicas").integer(),
            view.at("spec.replicas").integer()
        )
        .into()
    },
);

/// The kinds.
pub const KINDS: &[Kind] = &[
    Kind::new(
        "",
        "ReplicationController",
        &[
            name(),
            REPLICAS[0],
            REPLICAS[1],
            REPLICAS[2],
            REPLICAS[3],
            CONTAINERS,
            IMAGES,
            made("Selector", &["spec.selector"], |view| {
                labels(view.at("spec.selector")).into()
            })
            .wide(),
        ],
    ),
    Kind::new(
        "apps",
        "ReplicaSet",
        &[
            name(),
            REPLICAS[0],
            REPLICAS[1],
            REPLICAS[2],
            REPLICAS[3],
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    Kind::new(
        "apps",
        "Deployment",
        &[
            name(),
            READY,
            integer("Up-to-date", "status.updatedReplicas").called("string"),
            integer("Available", "status.availableReplicas").called("string"),
            age(),
            CONTAINERS,
            IMAGES,
            made("Selector", &["spec.selector"], |view| {
                selector(view.at("spec.selector")).map_or_else(|| "<invalid>".into(), Cell::Text)
            })
            .wide(),
        ],
    ),
    Kind::new(
        "apps",
        "StatefulSet",
        &[name(), READY, age(), CONTAINERS, IMAGES],
    ),
    Kind::new(
        "apps",
        "DaemonSet",
        &[
            name(),
            integer("Desired", "status.desiredNumberScheduled"),
            integer("Current", "status.currentNumberScheduled"),
            integer("Ready", "status.numberReady"),
            integer("Up-to-date", "status.updatedNumberScheduled"),
            integer("Available", "status.numberAvailable"),
            made(
                "Node Selector",
                &["spec.template.spec.nodeSelector"],
                |view| labels(view.at("spec.template.spec.nodeSelector")).into(),
            ),
            age(),
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    Kind::new(
        "apps",
        "ControllerRevision",
        &[
            name(),
            made("Controller", &["metadata.ownerReferences"], controller),
            integer("Revision", "revision").called("string"),
            age(),
        ],
    ),
    Kind::new(
        "batch",
        "Job",
        &[
            name(),
            made(
                "Status",
                &[
                    "metadata.deletionTimestamp",
                    "status.conditions.type",
                    "status.conditions.status",
                ],
                job_status,
            ),
            made(
                "Completions",
                &["spec.completions", "spec.parallelism", "status.succeeded"],
                completions,
            ),
            made(
                "Duration",
                &["status.startTime", "status.completionTime"],
                duration,
            ),
            age(),
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    Kind::new(
        "batch",
        "CronJob",
        &[
            name(),
            text("Schedule", "spec.schedule"),
            text_or("Timezone", "spec.timeZone", NONE),
            made("Suspend", &["spec.suspend"], |view| {
                let suspend = view.at("spec.suspend");
                if suspend.is_given() {
                    spoken(suspend.flag()).into()
                } else {
                    UNSET.into()
                }
            })
            .called("boolean"),
            length("Active", "status.active"),
            since("Last Schedule", "status.lastScheduleTime", NONE),
            age(),
            made(
                "Containers",
                &["spec.jobTemplate.spec.template.spec.containers.name"],
                |view| {
                    members(
                        view.at("spec.jobTemplate.spec.template.spec.containers"),
                        "name",
                    )
                    .into()
                },
            )
            .wide(),
            made(
                "Images",
                &["spec.jobTemplate.spec.template.spec.containers.image"],
                |view| {
                    members(
                        view.at("spec.jobTemplate.spec.template.spec.containers"),
                        "image",
                    )
                    .into()
                },
            )
            .wide(),
            made("Selector", &["spec.jobTemplate.spec.selector"], |view| {
                selector_or_none(view.at("spec.jobTemplate.spec.selector"))
            })
            .wide(),
        ],
    ),
];

fn controller(view: &View<'_>) -> Cell {
    let owners = view.at("metadata.ownerReferences").items();
    let Some(owner) = owners
        .iter()
        .find(|owner| owner.member("controller").flag())
    else {
        return NONE.into();
    };
    let group = owner
        .member("apiVersion")
        .text()
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();
    format!(
        "{}{group}/{}",
        owner.member("kind").text().to_lowercase(),
        owner.member("name").text()
    )
    .into()
}

fn job_status(view: &View<'_>) -> Cell {
    let conditions = view.at("status.conditions");
    let holds = |name: &str| {
        conditions
            .of_type(name)
            .is_some_and(|condition| condition.member("status").text() == "True")
    };
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

fn completions(view: &View<'_>) -> Cell {
    let succeeded = view.at("status.succeeded").integer();
    let wanted = view.at("spec.completions");
    let parallelism = view.at("spec.parallelism").integer();
    if wanted.is_given() {
        format!("{succeeded}/{}", wanted.integer()).into()
    } else if parallelism > 1 {
        format!("{succeeded}/1 of {parallelism}").into()
    } else {
        format!("{succeeded}/1").into()
    }
}

fn duration(view: &View<'_>) -> Cell {
    let Some(start) = timestamp(view.at("status.startTime")) else {
        return "".into();
    };
    let end = timestamp(view.at("status.completionTime")).unwrap_or(view.now);
    human_duration(end.duration_since(start).as_secs()).into()
}
