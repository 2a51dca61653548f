//! Pods. Their status is the one word that phase, init containers and containers come down to.

use std::collections::BTreeMap;

use fleetdex_core::fuel::OutOfFuel;
use jiff::Timestamp;

use crate::render::table::{
    age::human_duration,
    column::{
        Cell, CompletedCondition, KindColumns, NONE, RowContext, age, computed, joined_texts, name,
        shown, timestamp,
    },
    json_node::JsonNode,
    text::{labels, or},
};

/// What one summary needs.
const SUMMARY: &[&str] = &[
    "metadata.deletionTimestamp",
    "spec.containers.name",
    "spec.initContainers.name",
    "spec.initContainers.restartPolicy",
    "status.phase",
    "status.reason",
    "status.conditions.type",
    "status.conditions.status",
    "status.conditions.reason",
    "status.initContainerStatuses",
    "status.containerStatuses",
];

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns {
        completed: Some(completed),
        ..KindColumns::new("", "Pod").with(&[
            name(),
            computed("Ready", SUMMARY, |view| {
                let ready = |pod: PodSummary| format!("{}/{}", pod.ready, pod.total).into();
                PodSummary::of(view).map(ready).into()
            }),
            computed("Status", SUMMARY, |view| {
                PodSummary::of(view).map(|pod| pod.reason.into()).into()
            }),
            computed("Restarts", SUMMARY, |view| {
                PodSummary::of(view).map(|pod| restarts(view, &pod)).into()
            }),
            age(),
            computed("IP", &["status.podIPs.ip"], |view| {
                let first = view.at("status.podIPs").items().first();
                or(first.map_or("", |found| found.member("ip").text()), NONE).into()
            })
            .wide(),
            shown("Node", "spec.nodeName", |node| or(node.text(), NONE).into()).wide(),
            shown("Nominated Node", "status.nominatedNodeName", |node| {
                or(node.text(), NONE).into()
            })
            .wide(),
            computed(
                "Readiness Gates",
                &[
                    "spec.readinessGates",
                    "status.conditions.type",
                    "status.conditions.status",
                ],
                |view| gates(view).into(),
            )
            .wide(),
        ])
    },
    KindColumns::new("", "PodTemplate").with(&[
        name(),
        joined_texts("Containers", "template.spec.containers.name"),
        joined_texts("Images", "template.spec.containers.image"),
        shown("Pod Labels", "template.metadata.labels", labels),
    ]),
];

fn completed(view: &RowContext<'_>) -> Option<CompletedCondition> {
    match view.at("status.phase").text() {
        "Succeeded" => Some(CompletedCondition {
            reason: "Succeeded",
            message: "The pod has completed successfully.",
        }),
        "Failed" => Some(CompletedCondition {
            reason: "Failed",
            message: "The pod failed.",
        }),
        _ => None,
    }
}

fn gates(view: &RowContext<'_>) -> Result<Cell, OutOfFuel> {
    let gates = view.at("spec.readinessGates").items();
    if gates.is_empty() {
        return Ok(NONE.into());
    }
    let conditions = by_text(view, view.at("status.conditions"), "type")?;
    view.fuel.take(gates.len())?;
    let is_open = |gate: &&JsonNode<'_>| {
        let condition = conditions.get(gate.member("conditionType").text());
        condition.is_some_and(|found| found.member("status").text() == "True")
    };
    let open = gates.iter().filter(is_open).count();
    Ok(format!("{open}/{}", gates.len()).into())
}

/// The items of a list by the text of one of their members. Of several items with one text the
/// first one counts.
fn by_text<'v, 'a>(
    view: &RowContext<'_>,
    list: &'v JsonNode<'a>,
    member: &str,
) -> Result<BTreeMap<&'v str, &'v JsonNode<'a>>, OutOfFuel> {
    view.fuel.take(list.items().len())?;
    let items = list.items().iter().rev();
    let named = items.map(|item| (item.member(member).text(), item));
    Ok(named.collect())
}

fn restarts(view: &RowContext<'_>, summary: &PodSummary) -> Cell {
    let restarts = summary.restarts;
    match summary.last_restart.filter(|_| restarts != 0) {
        Some(last) => {
            let ago = human_duration(view.now.duration_since(last).as_secs());
            format!("{restarts} ({ago} ago)").into()
        }
        None => restarts.to_string().into(),
    }
}

fn holds(view: &RowContext<'_>, condition: &str) -> bool {
    view.at("status.conditions").holds(condition) == Some(true)
}

/// What a pod comes down to.
#[derive(Debug, Default)]
struct PodSummary {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

impl PodSummary {
    fn of(view: &RowContext<'_>) -> Result<Self, OutOfFuel> {
        let init_containers = by_text(view, view.at("spec.initContainers"), "name")?;
        let is_sidecar_of = |status: &JsonNode<'_>| {
            let container = init_containers.get(status.member("name").text());
            container.is_some_and(|container| is_sidecar(container))
        };
        let lists = [
            "spec.initContainers",
            "status.initContainerStatuses",
            "status.containerStatuses",
            "status.conditions",
        ];
        // Each of them is read as often as that at most.
        let lengths = lists.map(|list| view.at(list).items().len());
        view.fuel.take(3 * lengths.iter().sum::<usize>())?;
        let init = view.at("spec.initContainers").items().iter();
        let sidecars = init.filter(|container| is_sidecar(container)).count();
        let mut summary = Self {
            total: view.at("spec.containers").items().len() + sidecars,
            reason: plain_reason(view),
            ..Self::default()
        };
        let initializing = summary.add_init_containers(view, is_sidecar_of);
        if !initializing || holds(view, "Initialized") {
            summary.add_containers(view, is_sidecar_of);
        }
        if view.is_deleted() {
            summary.be_deleted(view);
        }
        Ok(summary)
    }

    /// Adds the init containers. Whether one of them still has to end.
    fn add_init_containers(
        &mut self,
        view: &RowContext<'_>,
        is_sidecar: impl Fn(&JsonNode<'_>) -> bool,
    ) -> bool {
        let total = view.at("spec.initContainers").items().len();
        let statuses = view.at("status.initContainerStatuses").items();
        for (position, status) in statuses.iter().enumerate() {
            self.add_restarts(status);
            let is_started_sidecar = status.member("started").flag() && is_sidecar(status);
            let ended = status.at("state.terminated");
            if ended.is_given() && ended.member("exitCode").integer() == 0 {
                continue;
            }
            if is_started_sidecar {
                self.ready += usize::from(status.member("ready").flag());
                continue;
            }
            self.reason = init_reason(status, position, total);
            return true;
        }
        false
    }

    /// Adds the containers, with the sidecars' restarts only: those of other init containers are
    /// history.
    fn add_containers(
        &mut self,
        view: &RowContext<'_>,
        is_sidecar: impl Fn(&JsonNode<'_>) -> bool,
    ) {
        self.restarts = 0;
        self.last_restart = None;
        for status in view.at("status.initContainerStatuses").items() {
            if is_sidecar(status) {
                self.add_restarts(status);
            }
        }
        let mut has_running = false;
        let mut error = None;
        for status in view.at("status.containerStatuses").items().iter().rev() {
            self.add_restarts(status);
            let waiting = status.at("state.waiting.reason").text();
            let ended = status.at("state.terminated");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if ended.is_given() {
                self.reason = end_reason(ended);
                if ended.member("exitCode").integer() != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status.member("ready").flag() && status.at("state.running").is_given() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            self.complete(view, has_running, error);
        }
    }

    /// One container has completed; others may not have.
    fn complete(&mut self, view: &RowContext<'_>, has_running: bool, error: Option<String>) {
        if has_running && holds(view, "Ready") {
            "Running".clone_into(&mut self.reason);
        } else if let Some(reason) = error {
            self.reason = reason;
        } else if has_running {
            "NotReady".clone_into(&mut self.reason);
        }
    }

    fn be_deleted(&mut self, view: &RowContext<'_>) {
        let has_ended = matches!(view.at("status.phase").text(), "Succeeded" | "Failed");
        if view.at("status.reason").text() == "NodeLost" {
            "Unknown".clone_into(&mut self.reason);
        } else if !has_ended {
            "Terminating".clone_into(&mut self.reason);
        }
    }

    fn add_restarts(&mut self, status: &JsonNode<'_>) {
        self.restarts += status.member("restartCount").integer();
        let ended = timestamp(status.at("lastState.terminated.finishedAt"));
        self.last_restart = self.last_restart.max(ended);
    }
}

/// Phase, or the reason for it.
fn plain_reason(view: &RowContext<'_>) -> String {
    let mut conditions = view.at("status.conditions").items().iter();
    let is_gated = conditions.any(|found| {
        found.member("type").text() == "PodScheduled"
            && found.member("reason").text() == "SchedulingGated"
    });
    let text = |path| view.at(path).text();
    let reason = or(text("status.reason"), text("status.phase"));
    if is_gated { "SchedulingGated" } else { reason }.to_owned()
}

fn init_reason(status: &JsonNode<'_>, position: usize, total: usize) -> String {
    let waiting = status.at("state.waiting.reason").text();
    let ended = status.at("state.terminated");
    if ended.is_given() {
        format!("Init:{}", end_reason(ended))
    } else if !waiting.is_empty() && waiting != "PodInitializing" {
        format!("Init:{waiting}")
    } else {
        format!("Init:{position}/{total}")
    }
}

fn end_reason(ended: &JsonNode<'_>) -> String {
    let number = |name| ended.member(name).integer();
    match (ended.member("reason").text(), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether an init container keeps running beside the others.
fn is_sidecar(container: &JsonNode<'_>) -> bool {
    container.member("restartPolicy").text() == "Always"
}
