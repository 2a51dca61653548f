//! How each cluster of a registry is doing, and the summary of all of them.

use std::collections::BTreeMap;

use fleetdex_clusters::source::COMPARING;
use fleetdex_core::model::{ClusterName, Scope, Unit, quoted};
use fleetdex_crds::registry::{DriftStatus, KindStatus, Phase, RegistryClusterStatus, Summary};
use fleetdex_sync::progress::{AuditSummary, MAX_REJECTED, UnitState, UnitStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    inputs::{MemberHealth, StatusInputs},
    names::{first_names, first_names_of},
};
use crate::plan::{ClusterPlan, KindProblem};

/// How many kinds of one cluster Events may be about. The status as it is written lists fewer.
const MAX_KINDS: usize = 20;
/// How many failing kinds a message names.
const NAMED_KINDS: usize = 3;

pub(super) fn cluster_status(
    name: &ClusterName,
    plan: &ClusterPlan,
    inputs: &StatusInputs<'_>,
) -> RegistryClusterStatus {
    let progresses: Vec<(&Unit, Option<UnitStatus>)> = plan
        .units
        .iter()
        .map(|unit| (unit, (inputs.progress)(unit)))
        .collect();
    let views = || progresses.iter().map(|(_, progress)| progress.as_ref());
    let objects = views().flatten().map(|status| status.objects).sum();
    let last_sync_time = oldest(views().map(|status| status.and_then(|status| status.synced_at)));
    let last_audit_time =
        oldest(views().map(|status| status.and_then(|status| status.audits.last)));
    let drift = drift_status(views().flatten().map(|status| &status.audits));
    let mut kinds: Vec<KindStatus> = plan.problems.iter().map(problem_status).collect();
    kinds.extend(
        progresses
            .iter()
            .filter_map(|(unit, progress)| unit_status(unit, progress.as_ref())),
    );
    kinds.sort_by_key(|kind| {
        (
            kind.phase != Phase::Failed,
            kind.kind.clone(),
            kind.namespace.clone(),
        )
    });
    let (phase, message) = cluster_phase(name, plan, &kinds, inputs);
    let omitted_kinds = kinds.len().saturating_sub(MAX_KINDS) as u64;
    kinds.truncate(MAX_KINDS);
    RegistryClusterStatus {
        name: name.to_string(),
        phase,
        message,
        objects,
        last_sync_time,
        last_audit_time,
        drift,
        kinds,
        omitted_kinds,
    }
}

pub(super) fn not_found(name: &str, unread_sources: &[String]) -> RegistryClusterStatus {
    let (phase, message) = if unread_sources.is_empty() {
        let message = format!(
            "no cluster is named {name}; join it, or remove it from targetCluster.clusterNames"
        );
        (Phase::NotFound, message)
    } else {
        (
            Phase::Pending,
            format!(
                "not known yet: {} has not been read",
                unread_sources.join(", ")
            ),
        )
    };
    RegistryClusterStatus {
        name: name.to_owned(),
        phase,
        message,
        objects: 0,
        last_sync_time: None,
        last_audit_time: None,
        drift: None,
        kinds: Vec::new(),
        omitted_kinds: 0,
    }
}

/// The reason at the start of the message of a kind; empty if it has none.
pub(super) fn kind_reason(kind: &KindStatus) -> &str {
    let is_reason = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let reason = kind.message.split_once(": ").map(|(reason, _)| reason);
    reason.filter(is_reason).unwrap_or_default()
}

/// Names the first kinds of these, which all fail, and counts the others and the reasons.
fn failing_kinds(failed: &[&KindStatus]) -> String {
    let mut names: Vec<&str> = failed.iter().map(|kind| kind.kind.as_str()).collect();
    // A kind may fail in many namespaces.
    names.dedup();
    let shown = first_names_of(&names, NAMED_KINDS);
    if names.len() <= NAMED_KINDS {
        return format!("not in sync: {shown}");
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in failed {
        *reasons.entry(kind_reason(kind)).or_default() += 1;
    }
    let mut counted: Vec<(&str, usize)> = reasons
        .into_iter()
        .filter(|(reason, _)| !reason.is_empty())
        .collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counted: Vec<String> = counted
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
    if counted.is_empty() {
        return format!("not in sync: {shown}");
    }
    format!("not in sync: {shown} ({})", first_names(&counted))
}

/// The oldest of some times, if all of them are known.
fn oldest(times: impl Iterator<Item = Option<Timestamp>>) -> Option<Time> {
    times
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .min()
        .map(truncated_to_seconds)
}

/// A time as precise as it is written: otherwise it would never equal the one that is read back.
pub(crate) fn truncated_to_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn drift_status<'a>(audits: impl Iterator<Item = &'a AuditSummary> + Clone) -> Option<DriftStatus> {
    let last_found = audits
        .clone()
        .filter_map(|audited| audited.drift_found)
        .max()?;
    Some(DriftStatus {
        documents: audits.map(|audited| audited.drift).sum(),
        last_found_time: truncated_to_seconds(last_found),
    })
}

fn cluster_phase(
    name: &ClusterName,
    plan: &ClusterPlan,
    kinds: &[KindStatus],
    inputs: &StatusInputs<'_>,
) -> (Phase, String) {
    let health = (inputs.health)(name);
    if let Some(health) = health.as_ref().filter(|health| !health.ready) {
        return unready_phase(health, plan);
    }
    if !plan.discovered {
        return (
            Phase::Pending,
            "API discovery of the cluster has not completed yet".to_owned(),
        );
    }
    let failed: Vec<&KindStatus> = kinds
        .iter()
        .filter(|kind| kind.phase == Phase::Failed)
        .collect();
    if !failed.is_empty() {
        return (Phase::Failed, failing_kinds(&failed));
    }
    if !kinds.iter().all(|kind| kind.phase == Phase::Synced) {
        return (Phase::Syncing, String::new());
    }
    if !plan.units.is_empty() && !(inputs.live)(name) {
        return (
            Phase::Syncing,
            "every object is stored; queries will be answered from the new index shortly"
                .to_owned(),
        );
    }
    let note = health.as_ref().and_then(|health| health.note.as_deref());
    let notes: Vec<&str> = note
        .into_iter()
        .chain(plan.notes.iter().map(String::as_str))
        .collect();
    (Phase::Synced, first_names(&notes))
}

/// The phase of a cluster that does not respond, or does not count as a cluster of its own yet.
fn unready_phase(health: &MemberHealth, plan: &ClusterPlan) -> (Phase, String) {
    let MemberHealth {
        reason, message, ..
    } = health;
    let is_pending = matches!(
        &**reason,
        "Connecting" | "WaitingForInfrastructure" | COMPARING
    );
    let phase = if is_pending {
        Phase::Pending
    } else {
        Phase::Failed
    };
    let stale = if plan.units.is_empty() {
        ""
    } else {
        "; its documents stay as they were"
    };
    (phase, format!("{reason}: {message}{stale}"))
}

fn problem_status(problem: &KindProblem) -> KindStatus {
    KindStatus {
        api_version: problem.api_version.clone(),
        kind: problem.kind.clone(),
        namespace: String::new(),
        phase: Phase::Failed,
        message: problem.problem.to_string(),
    }
}

/// The status of a unit that is not in sync or has fallback documents.
pub(super) fn unit_status(unit: &Unit, progress: Option<&UnitStatus>) -> Option<KindStatus> {
    let (phase, message) = match progress.map(|status| &status.state) {
        None | Some(UnitState::Starting) => (Phase::Pending, String::new()),
        Some(UnitState::Listing) => {
            let is_first = progress.is_some_and(|status| status.synced_at.is_none());
            (
                Phase::Syncing,
                if is_first {
                    "the first list is in progress"
                } else {
                    "a new list is in progress"
                }
                .to_owned(),
            )
        }
        Some(UnitState::Failing { reason, message }) => {
            (Phase::Failed, format!("{reason}: {message}"))
        }
        Some(UnitState::Synced) => imperfections(progress?)?,
    };
    let gvk = &unit.resource.gvk;
    let namespace = match &unit.scope {
        Scope::All => String::new(),
        Scope::Namespace(namespace) => namespace.to_string(),
    };
    Some(KindStatus {
        api_version: gvk.api_version(),
        kind: gvk.kind.to_string(),
        namespace,
        phase,
        message,
    })
}

/// What is wrong with a kind that is in sync; `None` if nothing is.
fn imperfections(status: &UnitStatus) -> Option<(Phase, String)> {
    let refused = (status.rejected > 0).then(|| {
        let count = status.rejected;
        let or_more = if count >= MAX_REJECTED { " or more" } else { "" };
        let example = status.rejected_example.as_ref().map(|example| format!(", such as {}", quoted(example))).unwrap_or_default();
        format!(
            "{count}{or_more} refused by the store, or too large or deep for it, and stored as fallback documents{example} \
             (search.rejected has the reason)"
        )
    });
    match (status.skipped, refused) {
        (0, refused) => refused.map(|message| (Phase::Synced, message)),
        (skipped, None) => Some((Phase::Failed, format!("{skipped} could not be read"))),
        (skipped, Some(refused)) => Some((
            Phase::Failed,
            format!("{skipped} could not be read; {refused}"),
        )),
    }
}

pub(super) fn summary(clusters: &[RegistryClusterStatus], inputs: &StatusInputs<'_>) -> Summary {
    let mut clusters_by_phase = BTreeMap::new();
    for cluster in clusters {
        *clusters_by_phase.entry(cluster.phase).or_default() += 1;
    }
    let mut kinds_by_phase: BTreeMap<Phase, u64> = BTreeMap::new();
    for plan in inputs.plan.clusters.values() {
        for unit in &plan.units {
            let phase = unit_status(unit, (inputs.progress)(unit).as_ref())
                .map_or(Phase::Synced, |kind| kind.phase);
            *kinds_by_phase.entry(phase).or_default() += 1;
        }
        if !plan.problems.is_empty() {
            *kinds_by_phase.entry(Phase::Failed).or_default() += plan.problems.len() as u64;
        }
    }
    let objects = clusters.iter().map(|cluster| cluster.objects).sum();
    Summary {
        clusters: clusters.len() as u64,
        objects,
        clusters_by_phase,
        kinds_by_phase,
    }
}
