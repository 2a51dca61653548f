//! The conditions of a registry.

use fleetdex_crds::{
    condition::{self, Finding},
    registry::{ORPHAN_ANNOTATION, Phase, RegistryClusterStatus},
};
use fleetdex_store::ShardUse;
use fleetdex_sync::pipeline::Unavailable;

use super::{
    deletion,
    inputs::{FormerLocation, StatusInputs, StoreAccess},
    missing_fields::missing_fields,
    names::first_names,
};

/// The reason of the conditions of a registry with an empty list of resources.
const NOTHING_SELECTED: &str = "NothingSelected";

pub(super) fn findings(
    inputs: &StatusInputs<'_>,
    clusters: &[RegistryClusterStatus],
) -> Vec<Finding> {
    let store = store_finding(inputs);
    let (synced, ready) = match inputs.deleting {
        Some(name) => (
            deletion::synced_finding(),
            deletion::ready_finding(name, inputs),
        ),
        None => {
            let synced = synced_finding(inputs, clusters);
            let ready = ready_finding(inputs, clusters, &store, &synced);
            (synced, ready)
        }
    };
    let mut findings = vec![ready, store, synced];
    if let Some(conflict) = &inputs.plan.conflict {
        findings.push(Finding::holds(
            "Conflict",
            "OlderRegistryDecides",
            conflict.clone(),
        ));
    }
    findings.extend(missing_fields(inputs));
    findings.extend(inputs.shards.and_then(shards_finding));
    findings.extend(former_locations_finding(&inputs.former_locations));
    findings
}

/// What is left in former locations; `None` if there are none.
pub(super) fn former_locations_finding(former_locations: &[FormerLocation]) -> Option<Finding> {
    const KIND: &str = "OldStoresSwept";
    let unreachable = former_locations
        .iter()
        .find_map(|location| Some((location, location.problem.as_deref()?)));
    if let Some((location, problem)) = unreachable {
        let names: Vec<&str> = location.indices.iter().map(String::as_str).collect();
        // The clusters of a registry that is being deleted are not known any more.
        let indices = if names.is_empty() {
            String::new()
        } else {
            format!(" in {}", first_names(&names))
        };
        let message = format!(
            "{} may still hold documents{indices} and cannot be emptied: {problem}. Make it reachable, or give it up with the annotation {ORPHAN_ANNOTATION}: \"true\"",
            location.name
        );
        return Some(Finding::fails(KIND, "Unreachable", message));
    }
    let location = former_locations.first()?;
    if location.awaited_clusters.is_empty() {
        return Some(Finding::fails(
            KIND,
            "Sweeping",
            format!("{} is being emptied", location.name),
        ));
    }
    let clusters: Vec<&str> = location
        .awaited_clusters
        .iter()
        .map(String::as_str)
        .collect();
    let message = format!(
        "{} answers queries of {} until the new store is complete, and is emptied then",
        location.name,
        first_names(&clusters)
    );
    Some(Finding::fails(KIND, "Waiting", message))
}

/// From this percentage of the shards that OpenSearch allows on, a condition says so.
const NEARLY_PERCENT: u64 = 80;

/// How many shards are left; `None` if there are enough.
pub(super) fn shards_finding(shards: ShardUse) -> Option<Finding> {
    let ShardUse { used, limit } = shards;
    if used * 100 < limit * NEARLY_PERCENT {
        return None;
    }
    let message = format!(
        "more than {NEARLY_PERCENT} % of the {limit} shards that cluster.max_shards_per_node allows on all data nodes are in use; beyond it no cluster gets an index of its own, and none a shared one. \
         Remove indices that are not needed, set numberOfReplicas or numberOfShards lower, leave packing at Auto, add nodes, or raise cluster.max_shards_per_node"
    );
    Some(Finding::fails("ShardsAvailable", "NearLimit", message))
}

fn store_finding(inputs: &StatusInputs<'_>) -> Finding {
    const KIND: &str = "StoreReachable";
    if inputs.plan.store.is_none() {
        return Finding::fails(
            KIND,
            "NoStore",
            "backendStore.openSearch is not valid; Ready says why",
        );
    }
    match &inputs.store {
        None => Finding::unknown(KIND, "Connecting", "the store has not answered yet"),
        Some(Ok(())) => match inputs.store_access {
            StoreAccess::Authenticated => Finding::holds(KIND, "Reachable", "the store answers"),
            StoreAccess::Anonymous => Finding::holds(
                KIND,
                "ReachableWithoutCredentials",
                "the store answers; neither secretRef nor aws is given, so requests carry no credentials",
            ),
            StoreAccess::Embedded => Finding::holds(
                KIND,
                "Embedded",
                "no backendStore is given, so the objects are held in the memory of fleetdex, which reads them again after each start",
            ),
        },
        Some(Err(Unavailable { reason, message })) => Finding::fails(KIND, reason, message.clone()),
    }
}

fn synced_finding(inputs: &StatusInputs<'_>, clusters: &[RegistryClusterStatus]) -> Finding {
    const KIND: &str = "Synced";
    if inputs.plan.store.is_none() {
        return Finding::fails(KIND, "NoStore", "the registry has no valid store");
    }
    if inputs.plan.selects_nothing {
        return Finding::holds(
            KIND,
            NOTHING_SELECTED,
            "resourceSelectors is empty, so nothing is stored",
        );
    }
    if clusters.is_empty() && inputs.unread_sources.is_empty() {
        return Finding::holds(KIND, "NoClusters", "no cluster matches targetCluster");
    }
    if let Some((reason, message)) = incomplete_clusters(clusters) {
        return Finding::fails(KIND, reason, message);
    }
    if !inputs.unread_sources.is_empty() {
        let sources = inputs.unread_sources.join(", ");
        return Finding::fails(
            KIND,
            "SourcesNotRead",
            format!("there may be more clusters: {sources} has not been read; /readyz says why"),
        );
    }
    let mut message = "every registered kind of every cluster is in the store".to_owned();
    if is_empty(clusters) {
        message.push_str("; ");
        message.push_str(&emptiness(inputs));
    }
    Finding::holds(KIND, "Complete", message)
}

fn is_empty(clusters: &[RegistryClusterStatus]) -> bool {
    clusters.iter().all(|cluster| cluster.objects == 0)
}

/// That nothing was found, and what may be wrong. Whether a namespace exists is not known: an API
/// server lists one that does not as empty.
fn emptiness(inputs: &StatusInputs<'_>) -> String {
    let namespaces: Vec<&str> = inputs.plan.namespaces.iter().map(String::as_str).collect();
    let advice = if namespaces.is_empty() {
        "check the labelSelector, fieldSelector and exclude of resourceSelectors if that is not expected".to_owned()
    } else {
        format!(
            "check that namespace {} exists there, as resourceSelectors is restricted to it",
            first_names(&namespaces)
        )
    };
    format!("0 objects of the selected clusters match: {advice}")
}

/// The reason and the message if any cluster is not in sync: failing clusters come first, then
/// those that do not exist.
pub(super) fn incomplete_clusters(
    clusters: &[RegistryClusterStatus],
) -> Option<(&'static str, String)> {
    let names = |phases: &[Phase]| -> Vec<&str> {
        clusters
            .iter()
            .filter(|cluster| phases.contains(&cluster.phase))
            .map(|cluster| cluster.name.as_str())
            .collect()
    };
    let failed = names(&[Phase::Failed]);
    if !failed.is_empty() {
        let first = clusters
            .iter()
            .find(|cluster| cluster.phase == Phase::Failed);
        let detail = first.map(first_problem).unwrap_or_default();
        let message = format!("failing: {}. {detail}", first_names(&failed));
        return Some(("ClustersFailing", message));
    }
    let absent = names(&[Phase::NotFound]);
    if !absent.is_empty() {
        let message = format!("no such cluster: {}", first_names(&absent));
        return Some(("ClustersNotFound", message));
    }
    let waiting = names(&[Phase::Pending, Phase::Syncing]);
    if !waiting.is_empty() {
        let message = format!("not complete yet: {}", first_names(&waiting));
        return Some(("Syncing", message));
    }
    None
}

/// What is wrong with a failing cluster: its first failing kind, and its own message unless that
/// names only this kind.
fn first_problem(cluster: &RegistryClusterStatus) -> String {
    let mut failed = cluster
        .kinds
        .iter()
        .filter(|kind| kind.phase == Phase::Failed);
    let name = &cluster.name;
    match (failed.next(), failed.next()) {
        (None, _) => format!("{name}: {}", cluster.message),
        (Some(kind), None) => format!("{name}: {}: {}", kind.kind, kind.message),
        (Some(kind), Some(_)) => format!(
            "{name}: {}. {}: {}",
            cluster.message, kind.kind, kind.message
        ),
    }
}

fn ready_finding(
    inputs: &StatusInputs<'_>,
    clusters: &[RegistryClusterStatus],
    store: &Finding,
    synced: &Finding,
) -> Finding {
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
    if synced.reason == "Complete" && is_empty(clusters) {
        return Finding::holds(KIND, "Ready", emptiness(inputs));
    }
    Finding::holds(
        KIND,
        "Ready",
        "the store holds every registered object and follows changes",
    )
}
