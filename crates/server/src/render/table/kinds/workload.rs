//! Controllers of pods: API groups `apps` and `batch`, and the replication controller.

use crate::render::table::{
    age::human_duration,
    column::{
        Cell, Column, NONE, RowContext, UNSET, age, computed, integer, length, name, since, text,
        text_or, timestamp,
    },
    kind_columns::KindColumns,
    text::{
        container_images, container_names, labels, members, selector, selector_or_none, spoken,
    },
};

const CONTAINERS: Column = computed(
    "Containers",
    &["spec.template.spec.containers.name"],
    container_names,
)
.wide();
const IMAGES: Column = computed(
    "Images",
    &["spec.template.spec.containers.image"],
    container_images,
)
.wide();
const SELECTOR: Column = computed("Selector", &["spec.selector"], |view| {
    selector_or_none(view.at("spec.selector"))
})
.wide();

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
        format!(
            "{}/{}",
            view.at("status.readyReplicas").integer(),
            view.at("spec.replicas").integer()
        )
        .into()
    },
);

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(
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
            computed("Selector", &["spec.selector"], |view| {
                labels(view.at("spec.selector")).into()
            })
            .wide(),
        ],
    ),
    KindColumns::new(
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
    KindColumns::new(
        "apps",
        "Deployment",
        &[
            name(),
            READY,
            integer("Up-to-date", "status.updatedReplicas").with_type("string"),
            integer("Available", "status.availableReplicas").with_type("string"),
            age(),
            CONTAINERS,
            IMAGES,
            computed("Selector", &["spec.selector"], |view| {
                selector(view.at("spec.selector")).map_or_else(|| "<invalid>".into(), Cell::Text)
            })
            .wide(),
        ],
    ),
    KindColumns::new(
        "apps",
        "StatefulSet",
        &[name(), READY, age(), CONTAINERS, IMAGES],
    ),
    KindColumns::new(
        "apps",
        "DaemonSet",
        &[
            name(),
            integer("Desired", "status.desiredNumberScheduled"),
            integer("Current", "status.currentNumberScheduled"),
            integer("Ready", "status.numberReady"),
            integer("Up-to-date", "status.updatedNumberScheduled"),
            integer("Available", "status.numberAvailable"),
            computed(
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
    KindColumns::new(
        "apps",
        "ControllerRevision",
        &[
            name(),
            computed("Controller", &["metadata.ownerReferences"], controller),
            integer("Revision", "revision").with_type("string"),
            age(),
        ],
    ),
    KindColumns::new(
        "batch",
        "Job",
        &[
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
        ],
    ),
    KindColumns::new(
        "batch",
        "CronJob",
        &[
            name(),
            text("Schedule", "spec.schedule"),
            text_or("Timezone", "spec.timeZone", NONE),
            computed("Suspend", &["spec.suspend"], |view| {
                let suspend = view.at("spec.suspend");
                if suspend.is_given() {
                    spoken(suspend.flag()).into()
                } else {
                    UNSET.into()
                }
            })
            .with_type("boolean"),
            length("Active", "status.active"),
            since("Last Schedule", "status.lastScheduleTime", NONE),
            age(),
            computed(
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
            computed(
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
            computed("Selector", &["spec.jobTemplate.spec.selector"], |view| {
                selector_or_none(view.at("spec.jobTemplate.spec.selector"))
            })
            .wide(),
        ],
    ),
];

fn controller(view: &RowContext<'_>) -> Cell {
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

fn job_status(view: &RowContext<'_>) -> Cell {
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

fn completions(view: &RowContext<'_>) -> Cell {
    let succeeded = view.at("status.succeeded").integer();
    let completions = view.at("spec.completions");
    let parallelism = view.at("spec.parallelism").integer();
    if completions.is_given() {
        format!("{succeeded}/{}", completions.integer()).into()
    } else if parallelism > 1 {
        format!("{succeeded}/1 of {parallelism}").into()
    } else {
        format!("{succeeded}/1").into()
    }
}

fn duration(view: &RowContext<'_>) -> Cell {
    let Some(start) = timestamp(view.at("status.startTime")) else {
        return "".into();
    };
    let end = timestamp(view.at("status.completionTime")).unwrap_or(view.now);
    human_duration(end.duration_since(start).as_secs()).into()
}
