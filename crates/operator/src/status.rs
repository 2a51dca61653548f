//! What a registry's status says, from its plan and from what runs for it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use fleetdex_api::{
    condition::{self, Finding},
    registry::{
        ClusterStatus, DriftStatus, KindStatus, ORPHAN_ANNOTATION, Phase, ResourceRegistryStatus,
        StoreStatus, Summary,
    },
};
use fleetdex_clusters::source::COMPARING;
use fleetdex_core::model::{ClusterName, FieldPath, Scope, Unit, quoted};
use fleetdex_sync::{
    pipeline::{Availability, Unavailable},
    progress::{Audited, MOST_REJECTED, UnitState, View},
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::{SignedDuration, Timestamp},
};
use serde::{Deserialize, Serialize};

use super::plan::{ClusterPlan, KindProblem, RegistryPlan};

/// Kinds that are listed for one cluster; a cluster where everything fails must not make the status huge.
const MAX_KINDS: usize = 20;
/// Names that are spelt out in a condition's message.
const MAX_NAMES: usize = 5;

/// While nothing else changes, the times of audits are written this often: a fleet has audits all the time, and every write of a
/// status with many clusters is a large one.
const AUDIT_TIMES_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// What a member is like right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberHealth {
    /// Whether it answers.
    pub ready: bool,
    /// CamelCase.
    pub reason: Cow<'static, str>,
    /// Why, and what to do about it.
    pub message: String,
    /// What is wrong although it works.
    pub note: Option<String>,
}

/// How a store is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is OpenSearch, with credentials.
    Authenticated,
    /// It is OpenSearch, without credentials.
    Anonymous,
    /// It is in this process.
    Embedded,
}

/// A place that a registry names no more, and that is not empty yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldPlace {
    /// Addresses and prefix.
    pub name: String,
    /// The indices that may be there, one pattern for each cluster.
    pub indices: Vec<String>,
    /// Why it cannot be emptied, if that is so.
    pub problem: Option<String>,
    /// The clusters that nothing else answers for yet.
    pub waits_for: Vec<String>,
}

/// What the status is made from.
pub struct Inputs<'a> {
    /// Where documents of the registry may be.
    pub stores: Vec<StoreStatus>,
    /// Those of these places that it names no more.
    pub old: Vec<OldPlace>,
    /// What the registry came to.
    pub plan: &'a RegistryPlan,
    /// Whether its store can be used; `None`: not tried yet.
    pub store: Availability,
    /// How the store is reached.
    pub access: Access,
    /// How a member is; `None` for one that is not known.
    pub health: &'a dyn Fn(&ClusterName) -> Option<MemberHealth>,
    /// Whether queries of a cluster are answered from what its streams write.
    pub live: &'a dyn Fn(&ClusterName) -> bool,
    /// Sources of clusters that have not been read yet, in which there may be more clusters of the registry.
    pub unread: &'a [String],
    /// The progress of a running unit.
    pub progress: &'a dyn Fn(&Unit) -> Option<View>,
    /// The paths that the registry's selectors of a unit name beside its selectable fields.
    pub sought: &'a dyn Fn(&Unit) -> BTreeSet<FieldPath>,
    /// `metadata.generation`
    pub generation: Option<i64>,
    /// Conditions as they stand.
    pub before: &'a [Condition],
    /// The time of this status.
    pub now: Timestamp,
}

/// The status of a registry.
pub fn status(inputs: &Inputs<'_>) -> ResourceRegistryStatus {
    let mut clusters: Vec<ClusterStatus> = inputs
        .plan
        .clusters
        .iter()
        .map(|(name, plan)| cluster_status(name, plan, inputs))
        .collect();
    clusters.extend(
        inputs
            .plan
            .not_found
            .iter()
            .map(|name| not_found(name, inputs.unread)),
    );
    clusters.sort_by(|left, right| left.name.cmp(&right.name));
    let summary = summary(&clusters, inputs);
    let findings = findings(inputs, &clusters);
    let conditions = condition::merge(inputs.before, findings, inputs.generation, inputs.now);
    ResourceRegistryStatus {
        conditions,
        clusters,
        summary: Some(summary),
        stores: inputs.stores.clone(),
    }
}

fn not_found(name: &str, unread: &[String]) -> ClusterStatus {
    let (phase, message) = if unread.is_empty() {
        let message = format!(
            "no cluster is named {name}; join it, or remove it from targetCluster.clusterNames"
        );
        (Phase::NotFound, message)
    } else {
        (
            Phase::Pending,
            format!("not known yet: {} has not been read", unread.join(", ")),
        )
    };
    ClusterStatus {
        name: name.to_owned(),
        phase,
        message,
        objects: 0,
        last_sync_time: None,
        last_audit_time: None,
        drift: None,
        kinds: Vec::new(),
    }
}

/// Whether a status says something that is worth writing.
pub fn is_news(new: &ResourceRegistryStatus, before: &ResourceRegistryStatus) -> bool {
    if new == before {
        return false;
    }
    if without_audit_times(new) != without_audit_times(before) {
        return true;
    }
    let newest =
        |status: &ResourceRegistryStatus| status.clusters.iter().filter_map(audit_time).max();
    match (newest(new), newest(before)) {
        (Some(new), Some(before)) => new.duration_since(before) >= AUDIT_TIMES_INTERVAL,
        (new, _) => new.is_some(),
    }
}

fn audit_time(cluster: &ClusterStatus) -> Option<Timestamp> {
    cluster.last_audit_time.as_ref().map(|time| time.0)
}

fn without_audit_times(status: &ResourceRegistryStatus) -> ResourceRegistryStatus {
    let without = |cluster: &ClusterStatus| ClusterStatus {
        last_audit_time: None,
        ..cluster.clone()
    };
    ResourceRegistryStatus {
        clusters: status.clusters.iter().map(without).collect(),
        ..status.clone()
    }
}

fn cluster_status(name: &ClusterName, plan: &ClusterPlan, inputs: &Inputs<'_>) -> ClusterStatus {
    let progresses: Vec<(&Unit, Option<View>)> = plan
        .units
        .iter()
        .map(|unit| (unit, (inputs.progress)(unit)))
        .collect();
    let views = || progresses.iter().map(|(_, progress)| progress.as_ref());
    let objects = views().flatten().map(|view| view.objects).sum();
    let last_sync_time = oldest(views().map(|view| view.and_then(|view| view.synced_at)));
    let last_audit_time = oldest(views().map(|view| view.and_then(|view| view.audits.last)));
    let drift = drift_status(views().flatten().map(|view| &view.audits));
    let mut kinds: Vec<KindStatus> = plan.problems.iter().map(problem_status).collect();
    kinds.extend(
        progresses
            .iter()
            .filter_map(|(unit, progress)| unit_status(unit, progress.as_ref())),
    );
    let (phase, message) = cluster_phase(name, plan, &kinds, inputs);
    kinds.sort_by_key(|kind| {
        (
            kind.phase != Phase::Failed,
            kind.kind.clone(),
            kind.namespace.clone(),
        )
    });
    kinds.truncate(MAX_KINDS);
    ClusterStatus {
        name: name.to_string(),
        phase,
        message,
        objects,
        last_sync_time,
        last_audit_time,
        drift,
        kinds,
    }
}

/// The oldest of some times, if each of them is known.
fn oldest(times: impl Iterator<Item = Option<Timestamp>>) -> Option<Time> {
    times
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .min()
        .map(in_seconds)
}

/// As precise as it is written: otherwise it would never equal what is read back.
fn in_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn drift_status<'a>(audits: impl Iterator<Item = &'a Audited> + Clone) -> Option<DriftStatus> {
    let last_found = audits
        .clone()
        .filter_map(|audited| audited.drift_found)
        .max()?;
    Some(DriftStatus {
        documents: audits.map(|audited| audited.drift).sum(),
        last_found_time: in_seconds(last_found),
    })
}

fn cluster_phase(
    name: &ClusterName,
    plan: &ClusterPlan,
    kinds: &[KindStatus],
    inputs: &Inputs<'_>,
) -> (Phase, String) {
    let health = (inputs.health)(name);
    if let Some(MemberHealth {
        ready: false,
        reason,
        message,
        ..
    }) = health
    {
        let phase = if matches!(
            &*reason,
            "Connecting" | "WaitingForInfrastructure" | COMPARING
        ) {
            Phase::Pending
        } else {
            Phase::Failed
        };
        let stale = if plan.units.is_empty() {
            ""
        } else {
            "; its documents stay as they were"
        };
        return (phase, format!("{reason}: {message}{stale}"));
    }
    if !plan.discovered {
        return (Phase::Pending, "not asked yet what it serves".to_owned());
    }
    let failed: Vec<&str> = kinds
        .iter()
        .filter(|kind| kind.phase == Phase::Failed)
        .map(|kind| kind.kind.as_str())
        .collect();
    if !failed.is_empty() {
        return (Phase::Failed, format!("not in sync: {}", some_of(&failed)));
    }
    let in_sync = kinds.iter().all(|kind| kind.phase == Phase::Synced);
    if in_sync && !plan.units.is_empty() && !(inputs.live)(name) {
        return (
            Phase::Syncing,
            "everything is stored; queries are about to be answered from it".to_owned(),
        );
    }
    if in_sync {
        let note = health.as_ref().and_then(|health| health.note.as_deref());
        let notes: Vec<&str> = note
            .into_iter()
            .chain(plan.notes.iter().map(String::as_str))
            .collect();
        return (Phase::Synced, some_of(&notes));
    }
    (Phase::Syncing, String::new())
}

/// The first of some names, and how many more there are.
fn some_of(names: &[&str]) -> String {
    let shown = names
        .iter()
        .take(MAX_NAMES)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(MAX_NAMES) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
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

/// The status of a unit that is not in sync.
fn unit_status(unit: &Unit, progress: Option<&View>) -> Option<KindStatus> {
    let (phase, message) = match progress.map(|view| &view.state) {
        None | Some(UnitState::Starting) => (Phase::Pending, String::new()),
        Some(UnitState::Listing) => {
            let is_first = progress.is_some_and(|view| view.synced_at.is_none());
            (
                Phase::Syncing,
                if is_first {
                    "is read for the first time"
                } else {
                    "is read again"
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

/// What is not as it should be although the kind is in sync.
fn imperfections(view: &View) -> Option<(Phase, String)> {
    let refused = (view.rejected > 0).then(|| {
        let count = view.rejected;
        let or_more = if count >= MOST_REJECTED { " or more" } else { "" };
        let example = view.rejected_example.as_ref().map(|example| format!(", such as {}", quoted(example))).unwrap_or_default();
        format!(
            "{count}{or_more} refused by the store, or too large or deep for it, and kept as fallback documents{example} \
             (search.rejected says why)"
        )
    });
    match (view.skipped, refused) {
        (0, refused) => refused.map(|message| (Phase::Synced, message)),
        (skipped, None) => Some((Phase::Failed, format!("{skipped} could not be read"))),
        (skipped, Some(refused)) => Some((
            Phase::Failed,
            format!("{skipped} could not be read; {refused}"),
        )),
    }
}

fn summary(clusters: &[ClusterStatus], inputs: &Inputs<'_>) -> Summary {
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

/// The reason of the conditions of a registry with an empty list of resources.
const NOTHING_SELECTED: &str = "NothingSelected";

fn findings(inputs: &Inputs<'_>, clusters: &[ClusterStatus]) -> Vec<Finding> {
    let store = store_finding(inputs);
    let synced = synced_finding(inputs, clusters);
    let ready = ready_finding(inputs, &store, &synced);
    let mut findings = vec![ready, store, synced];
    if let Some(conflict) = &inputs.plan.conflict {
        findings.push(Finding::holds(
            "Conflict",
            "OlderRegistryDecides",
            conflict.clone(),
        ));
    }
    findings.extend(missing_fields(inputs));
    findings.extend(old_finding(&inputs.old));
    findings
}

/// The condition for paths that selectors name and at which no object of the kind has had a value.
const MISSING_FIELDS: &str = "MissingFields";

/// Says which paths these are, if any. Where a stream has gone on without a list it is not known what earlier objects had, and what was said
/// before stands.
fn missing_fields(inputs: &Inputs<'_>) -> Option<Finding> {
    #[derive(Default)]
    struct Seen {
        has_objects: bool,
        is_found: bool,
        is_unknown: bool,
    }
    let mut paths: BTreeMap<String, Seen> = BTreeMap::new();
    for unit in inputs
        .plan
        .clusters
        .values()
        .flat_map(|cluster| &cluster.units)
    {
        let sought = (inputs.sought)(unit);
        if sought.is_empty() {
            continue;
        }
        let found = (inputs.progress)(unit).and_then(|view| view.sought);
        let gvk = &unit.resource.gvk;
        for path in sought {
            let seen = paths
                .entry(format!("{path} of {} ({})", gvk.kind, gvk.api_version()))
                .or_default();
            match &found {
                None => seen.is_unknown = true,
                Some(found) => {
                    seen.has_objects |= found.has_objects;
                    seen.is_found |= found.has_objects && !found.missing.contains(&path);
                }
            }
        }
    }
    let before = condition::find(inputs.before, MISSING_FIELDS)
        .map(|before| before.message.as_str())
        .unwrap_or_default();
    let is_missing = |path: &str, seen: &Seen| {
        let was_missing = || {
            before
                .split("; ")
                .next()
                .is_some_and(|list| list.split(", ").any(|said| said == path))
        };
        !seen.is_found
            && if seen.is_unknown {
                was_missing()
            } else {
                seen.has_objects
            }
    };
    let missing: Vec<&str> = paths
        .iter()
        .filter(|(path, seen)| is_missing(path, seen))
        .map(|(path, _)| path.as_str())
        .collect();
    (!missing.is_empty()).then(|| {
        let message = format!(
            "{}; no object has had a value there, so In and Exists select nothing by it, and NotIn and DoesNotExist everything: check the \
             spelling",
            missing.join(", ")
        );
        Finding::holds(MISSING_FIELDS, "NoObjectHasThem", message)
    })
}

/// What is left in places that the registry names no more; nothing if it names none but the one that it has always named.
fn old_finding(old: &[OldPlace]) -> Option<Finding> {
    const KIND: &str = "OldStoresSwept";
    let unreachable = old
        .iter()
        .find_map(|place| Some((place, place.problem.as_deref()?)));
    if let Some((place, problem)) = unreachable {
        let names: Vec<&str> = place.indices.iter().map(String::as_str).collect();
        let message = format!(
            "{} may still hold documents in {} and cannot be emptied: {problem}. Make it reachable, or give it up with the annotation {ORPHAN_ANNOTATION}: \"true\"",
            place.name,
            some_of(&names)
        );
        return Some(Finding::fails(KIND, "Unreachable", message));
    }
    let place = old.first()?;
    if place.waits_for.is_empty() {
        return Some(Finding::fails(
            KIND,
            "Sweeping",
            format!("{} is being emptied", place.name),
        ));
    }
    let clusters: Vec<&str> = place.waits_for.iter().map(String::as_str).collect();
    let message = format!(
        "{} answers until the new store has everything of {}, and is emptied then",
        place.name,
        some_of(&clusters)
    );
    Some(Finding::fails(KIND, "Waiting", message))
}

fn store_finding(inputs: &Inputs<'_>) -> Finding {
    const KIND: &str = "StoreReachable";
    if inputs.plan.store.is_none() {
        return Finding::fails(
            KIND,
            "NoStore",
            "backendStore.openSearch names no store that can be; Ready says why",
        );
    }
    match &inputs.store {
        None => Finding::unknown(KIND, "Connecting", "the store has not answered yet"),
        Some(Ok(())) => match inputs.access {
            Access::Authenticated => Finding::holds(KIND, "Reachable", "the store answers"),
            Access::Anonymous => Finding::holds(
                KIND,
                "ReachableWithoutCredentials",
                "the store answers; no secretRef is given, so requests carry no credentials",
            ),
            Access::Embedded => Finding::holds(
                KIND,
                "Embedded",
                "no backendStore is given, so the objects are held in the memory of fleetdex, which reads them anew after each start",
            ),
        },
        Some(Err(Unavailable { reason, message })) => Finding::fails(KIND, reason, message.clone()),
    }
}

fn synced_finding(inputs: &Inputs<'_>, clusters: &[ClusterStatus]) -> Finding {
    const KIND: &str = "Synced";
    let names = |wanted: &dyn Fn(Phase) -> bool| -> Vec<&str> {
        clusters
            .iter()
            .filter(|cluster| wanted(cluster.phase))
            .map(|cluster| cluster.name.as_str())
            .collect()
    };
    if inputs.plan.store.is_none() {
        return Finding::fails(KIND, "NoStore", "there is no store to be in sync with");
    }
    if inputs.plan.selects_nothing {
        return Finding::holds(
            KIND,
            NOTHING_SELECTED,
            "resourceSelectors is empty, so nothing is stored",
        );
    }
    if clusters.is_empty() && inputs.unread.is_empty() {
        return Finding::holds(KIND, "NoClusters", "no cluster matches targetCluster");
    }
    let absent = names(&|phase| phase == Phase::NotFound);
    let failed = names(&|phase| phase == Phase::Failed);
    let waiting = names(&|phase| matches!(phase, Phase::Pending | Phase::Syncing));
    if !failed.is_empty() {
        let first = clusters
            .iter()
            .find(|cluster| cluster.phase == Phase::Failed);
        let detail = first.map(first_problem).unwrap_or_default();
        return Finding::fails(
            KIND,
            "ClustersFailing",
            format!("failing: {}. {detail}", some_of(&failed)),
        );
    }
    if !absent.is_empty() {
        return Finding::fails(
            KIND,
            "ClustersNotFound",
            format!("no such cluster: {}", some_of(&absent)),
        );
    }
    if !waiting.is_empty() {
        return Finding::fails(
            KIND,
            "Syncing",
            format!("not complete yet: {}", some_of(&waiting)),
        );
    }
    if !inputs.unread.is_empty() {
        let sources = inputs.unread.join(", ");
        return Finding::fails(
            KIND,
            "SourcesNotRead",
            format!("there may be more clusters: {sources} has not been read; /readyz says why"),
        );
    }
    Finding::holds(
        KIND,
        "Complete",
        "every registered kind of every cluster is in the store",
    )
}

/// What is wrong with a failing cluster: its first failing kind, else its own message.
fn first_problem(cluster: &ClusterStatus) -> String {
    match cluster
        .kinds
        .iter()
        .find(|kind| kind.phase == Phase::Failed)
    {
        Some(kind) => format!("{}: {}: {}", cluster.name, kind.kind, kind.message),
        None => format!("{}: {}", cluster.name, cluster.message),
    }
}

fn ready_finding(inputs: &Inputs<'_>, store: &Finding, synced: &Finding) -> Finding {
    const KIND: &str = "Ready";
    if let Some(invalid) = &inputs.plan.invalid {
        return Finding::fails(KIND, "InvalidSpec", invalid.clone());
    }
    for part in [store, synced] {
        if part.truth != condition::Truth::True {
            return Finding {
                kind: KIND,
                truth: condition::Truth::False,
                reason: part.reason,
                message: part.message.clone(),
            };
        }
    }
    if inputs.plan.selects_nothing {
        return Finding::holds(KIND, NOTHING_SELECTED, synced.message.clone());
    }
    Finding::holds(
        KIND,
        "Ready",
        "the store holds every registered object and follows changes",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fleetdex_core::model::{Gvk, Resource};
    use fleetdex_sync::progress::Progress;

    use super::*;

    fn unit(kind: &str) -> Unit {
        let resource = Resource {
            gvk: Gvk::new("", "v1", kind),
            plural: kind.to_lowercase().into(),
            namespaced: true,
        };
        Unit {
            cluster: "member1".parse().unwrap(),
            resource,
            scope: Scope::All,
        }
    }

    fn progress() -> Arc<Progress> {
        let progress = Progress::new("member1".parse().unwrap(), Arc::default());
        progress.reached("5".parse().unwrap());
        progress
    }

    /// The status of a registry that has these kinds in one cluster.
    fn status_of(kinds: &[(&str, &Progress)]) -> ResourceRegistryStatus {
        status_seeking(kinds, &[], &[])
    }

    fn status_seeking(
        kinds: &[(&str, &Progress)],
        sought: &[&str],
        before: &[Condition],
    ) -> ResourceRegistryStatus {
        let units = kinds.iter().map(|(kind, _)| unit(kind)).collect();
        let cluster = ClusterPlan {
            discovered: true,
            units,
            ..ClusterPlan::default()
        };
        let clusters = BTreeMap::from([("member1".parse().unwrap(), cluster)]);
        let plan = RegistryPlan {
            store: Some("main".parse().unwrap()),
            clusters,
            ..RegistryPlan::default()
        };
        let progress = |unit: &Unit| {
            kinds
                .iter()
                .find(|(kind, _)| *unit.resource.gvk.kind == **kind)
                .map(|(_, progress)| progress.view())
        };
        status(&Inputs {
            stores: Vec::new(),
            old: Vec::new(),
            plan: &plan,
            store: Some(Ok(())),
            access: Access::Authenticated,
            health: &|_| None,
            live: &|_| true,
            unread: &[],
            progress: &progress,
            sought: &|_| sought.iter().map(|path| FieldPath::new(path)).collect(),
            generation: Some(1),
            before,
            now: "2026-02-03T10:00:00Z".parse().unwrap(),
        })
    }

    #[test]
    fn a_registry_that_selects_nothing_says_so() {
        let plan = RegistryPlan {
            store: Some("main".parse().unwrap()),
            selects_nothing: true,
            ..RegistryPlan::default()
        };
        let status = status(&Inputs {
            stores: Vec::new(),
            old: Vec::new(),
            plan: &plan,
            store: Some(Ok(())),
            access: Access::Authenticated,
            health: &|_| None,
            live: &|_| true,
            unread: &[],
            progress: &|_| None,
            sought: &|_| BTreeSet::new(),
            generation: Some(1),
            before: &[],
            now: "2026-02-03T10:00:00Z".parse().unwrap(),
        });
        let reasons: Vec<_> = status
            .conditions
            .iter()
            .map(|condition| (&*condition.type_, &*condition.status, &*condition.reason))
            .collect();
        let expected = [
            ("Ready", "True", "NothingSelected"),
            ("StoreReachable", "True", "Reachable"),
            ("Synced", "True", "NothingSelected"),
        ];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn a_place_that_cannot_be_emptied_is_named_with_its_indices() {
        let place = |problem: Option<&str>, waits_for: &[&str]| OldPlace {
            name: "http://old:9200/fleetdex".to_owned(),
            indices: vec!["fleetdex-member1.g*".to_owned()],
            problem: problem.map(str::to_owned),
            waits_for: waits_for.iter().map(|name| (*name).to_owned()).collect(),
        };
        let shown = |old: &[OldPlace]| {
            old_finding(old).map(|finding| format!("{}: {}", finding.reason, finding.message))
        };
        assert_eq!(shown(&[]), None);
        let texts = [
            shown(&[place(None, &["member2"])]),
            shown(&[place(None, &[])]),
            shown(&[
                place(None, &[]),
                place(Some("connection refused"), &["member2"]),
            ]),
        ];
        insta::assert_snapshot!(texts.map(Option::unwrap).join("\n"), @r#"
        Waiting: http://old:9200/fleetdex answers until the new store has everything of member2, and is emptied then
        Sweeping: http://old:9200/fleetdex is being emptied
        Unreachable: http://old:9200/fleetdex may still hold documents in fleetdex-member1.g* and cannot be emptied: connection refused. Make it reachable, or give it up with the annotation fleetdex.io/orphan: "true"
        "#);
    }

    #[test]
    fn a_kind_says_whether_it_is_read_for_the_first_time() {
        let pods = Progress::new("member1".parse().unwrap(), Arc::default());
        let message = |progress: &Progress| {
            status_of(&[("Pod", progress)]).clusters[0].kinds[0]
                .message
                .clone()
        };
        pods.list_begins();
        assert_eq!(message(&pods), "is read for the first time");
        pods.reached("5".parse().unwrap());
        pods.list_begins();
        assert_eq!(
            message(&pods),
            "is read again",
            "as after its definition was gone and is served again"
        );
    }

    #[test]
    fn documents_that_the_store_refused_are_counted_and_one_is_named() {
        let pods = progress();
        pods.set_rejected(&["v1/Pod/b".into(), "v1/Pod/a".into()]);
        let status = status_of(&[("Pod", &pods)]);
        let cluster = &status.clusters[0];
        assert_eq!(
            (cluster.phase, cluster.kinds[0].phase),
            (Phase::Synced, Phase::Synced)
        );
        assert_eq!(
            cluster.kinds[0].message,
            "2 refused by the store, or too large or deep for it, and kept as fallback documents, such as v1/Pod/a (search.rejected says why)"
        );
        pods.skip();
        let message = &status_of(&[("Pod", &pods)]).clusters[0].kinds[0].message;
        assert!(
            message.starts_with("1 could not be read; 2 refused"),
            "{message}"
        );
    }

    #[test]
    fn a_path_that_no_object_has_is_a_condition_that_stays_while_nothing_else_is_known() {
        let message = |status: &ResourceRegistryStatus| {
            condition::find(&status.conditions, MISSING_FIELDS)
                .map(|condition| condition.message.clone())
        };
        let (pods, nodes) = (progress(), progress());
        let path = || BTreeSet::from([FieldPath::new("spec.replica")]);
        let sought = pods.seek(path());
        nodes.seek(path()).complete();
        let kinds = [("Pod", &*pods), ("Node", &*nodes)];
        let asked = ["spec.replica"];
        assert_eq!(
            message(&status_seeking(&kinds, &asked, &[])),
            None,
            "there was no list of pods, and there is no node"
        );
        sought.look(|_| false);
        sought.complete();
        let missing = status_seeking(&kinds, &asked, &[]);
        let text = message(&missing).unwrap();
        assert!(
            text.starts_with("spec.replica of Pod (v1); no object has had a value there"),
            "{text}"
        );
        assert_eq!(
            condition::find(&missing.conditions, "Ready")
                .unwrap()
                .status,
            "True"
        );
        let restarted = progress();
        let unknown = status_seeking(&[("Pod", &*restarted)], &asked, &missing.conditions);
        assert_eq!(message(&unknown).as_deref(), Some(&*text));
        sought.look(|_| true);
        assert_eq!(
            message(&status_seeking(&kinds, &asked, &missing.conditions)),
            None
        );
        assert_eq!(
            message(&status_seeking(&kinds, &[], &missing.conditions)),
            None,
            "the selector does not name it any more"
        );
    }

    #[test]
    fn an_audit_time_is_that_of_the_kind_that_was_audited_longest_ago() {
        let (pods, nodes) = (progress(), progress());
        pods.audited(0);
        assert_eq!(
            status_of(&[("Pod", &pods), ("Node", &nodes)]).clusters[0].last_audit_time,
            None
        );
        nodes.audited(0);
        let of_both = status_of(&[("Pod", &pods), ("Node", &nodes)]);
        assert_eq!(
            of_both.clusters[0].last_audit_time,
            pods.view().audits.last.map(in_seconds)
        );
        assert_eq!(of_both.clusters[0].drift, None);
    }

    #[test]
    fn drift_of_all_kinds_is_counted_together() {
        let (pods, nodes) = (progress(), progress());
        pods.audited(2);
        nodes.audited(1);
        pods.audited(0);
        let drift = status_of(&[("Pod", &pods), ("Node", &nodes)])
            .clusters
            .remove(0)
            .drift
            .unwrap();
        assert_eq!(
            (drift.documents, Some(drift.last_found_time)),
            (3, nodes.view().audits.drift_found.map(in_seconds))
        );
    }

    #[test]
    fn a_status_reads_back_as_it_was_written() {
        let pods = progress();
        pods.audited(3);
        let status = status_of(&[("Pod", &pods)]);
        assert!(status.clusters[0].last_sync_time.is_some());
        let read: ResourceRegistryStatus =
            serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap();
        assert_eq!(read, status);
    }

    #[test]
    fn audits_without_findings_are_news_every_ten_minutes_however_many_there_are() {
        let pods = progress();
        let never = status_of(&[("Pod", &pods)]);
        pods.audited(0);
        let first = status_of(&[("Pod", &pods)]);
        let later = |minutes: i64| {
            let mut later = first.clone();
            let time = later.clusters[0].last_audit_time.as_mut().unwrap();
            time.0 += SignedDuration::from_mins(minutes);
            later
        };
        assert!(is_news(&first, &never));
        assert!(
            !is_news(&first, &first.clone())
                && !is_news(&later(9), &first)
                && !is_news(&never, &first)
        );
        assert!(is_news(&later(10), &first));
        pods.audited(1);
        assert!(
            is_news(&status_of(&[("Pod", &pods)]), &first),
            "drift is news at once"
        );
    }
}
