//! Checks of the members: connection, clock, certificate, and the right to list and watch what
//! registries select.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_clusters::{
    Clusters, Connection, ConnectionPhase, ConnectionTiming, MemberState,
    connect::Network,
    request,
    secret_hosts::SecretHosts,
    source::{Loader, MemberSnapshot, Sources},
};
use fleetdex_core::model::{ClusterName, Scope};
use fleetdex_operator::plan::Plan;
use futures::{StreamExt as _, stream};
use http::HeaderMap;
use kube::Client;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::measures::{check_date, check_expiry};
use fleetdex_checks::{
    permissions::{REQUEST_TIMEOUT, Right, missing, summarized},
    result::{CheckResult, Checks},
};

/// How long members may take to connect and to be discovered.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Members that are checked at a time.
const MEMBERS: usize = 16;
const RESTORE_CONNECTION: &str =
    "the book, page Operating, \"Conditions of a Cluster\", explains the reason";

/// Checks whether the sources of members can be read.
pub fn check_sources(snapshot: &MemberSnapshot) -> Vec<CheckResult> {
    let mut checks = Checks::of("sources of clusters");
    for source in &snapshot.unread_sources {
        checks.error(
            "listed",
            format!("{source} cannot be read"),
            "install its CRD and give the right to list it, or leave it out of --cluster-source",
        );
    }
    for name in snapshot.name_conflicts.keys() {
        checks.warning(
            "names",
            format!("several registrations have the name {name}; only the oldest is used"),
            "rename the others",
        );
    }
    if checks.results.is_empty() {
        checks.ok("listed", format!("{} clusters", snapshot.members.len()));
    }
    checks.results
}

/// Reads the sources, and connects the members.
pub async fn connect(
    control_plane: &Client,
    secret_hosts: SecretHosts,
    sources: &Sources,
    cancel: CancellationToken,
) -> (MemberSnapshot, BTreeMap<ClusterName, MemberState>) {
    sources.wait_for_initial_sync().await;
    let snapshot = sources.snapshot();
    let loader = Loader::new(control_plane.clone(), secret_hosts);
    let timing = ConnectionTiming::default();
    let clusters = Clusters::new(loader, Arc::new(Network::default()), timing, cancel);
    let mut changed = clusters.changed();
    clusters.set_members(snapshot.members.clone());
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    while !clusters.states().values().all(is_decided) {
        if timeout_at(deadline, changed.changed()).await.is_err() {
            break;
        }
    }
    let states = clusters.states();
    (snapshot, states)
}

fn is_decided(state: &MemberState) -> bool {
    match state.phase {
        ConnectionPhase::Connecting => false,
        ConnectionPhase::Disconnected => true,
        ConnectionPhase::Ready | ConnectionPhase::Unhealthy => {
            state.discovery.is_some() && state.definitions.is_some()
        }
    }
}

/// Checks every member.
pub async fn check_members(
    states: &BTreeMap<ClusterName, MemberState>,
    plan: &Plan,
) -> Vec<CheckResult> {
    let checked = states
        .iter()
        .map(|(name, state)| check_member(name, state, plan));
    let checked: Vec<Checks> = stream::iter(checked).buffered(MEMBERS).collect().await;
    checked
        .into_iter()
        .flat_map(|checks| checks.results)
        .collect()
}

async fn check_member(name: &ClusterName, state: &MemberState, plan: &Plan) -> Checks {
    let mut checks = Checks::of(format!("cluster {name}"));
    let Some(connection) = &state.connection else {
        let message = format!("{}: {}", state.reason, state.message);
        checks.error("connection", message, RESTORE_CONNECTION);
        checks.skipped("permissions", "not connected", "");
        return checks;
    };
    let version = state.kubernetes_version.as_deref();
    checks.ok("connection", version.unwrap_or("unknown version"));
    if let Some(note) = &state.note {
        checks.warning(
            "identity",
            note.to_string(),
            "give the right to get the namespace kube-system",
        );
    }
    let client = &connection.client;
    match request::get(client, "/version", HeaderMap::new(), REQUEST_TIMEOUT).await {
        Ok(answer) => check_date(&mut checks, &answer.headers),
        Err(error) => checks.warning("clock", error.to_string(), "run this again"),
    }
    if let Some(not_after) = connection.client_certificate_not_after() {
        check_expiry(
            &mut checks,
            "client certificate",
            not_after,
            "replace the client certificate in the kubeconfig of the member",
        );
    }
    check_kinds(&mut checks, name, plan);
    check_streams(&mut checks, name, connection, plan).await;
    checks
}

/// What registries select and the member does not have.
fn check_kinds(checks: &mut Checks, name: &ClusterName, plan: &Plan) {
    for (registry, registry_plan) in &plan.registries {
        let cluster_plan = registry_plan.clusters.get(name);
        for problem in cluster_plan.into_iter().flat_map(|plan| &plan.problems) {
            checks.warning(
                "kinds",
                format!("registry {registry}: {}", problem.problem),
                "correct resourceSelectors, install the kind, or leave the cluster out of the registry",
            );
        }
    }
}

fn namespace_of(scope: &Scope) -> &str {
    match scope {
        Scope::All => "",
        Scope::Namespace(namespace) => namespace.as_str(),
    }
}

async fn check_streams(
    checks: &mut Checks,
    name: &ClusterName,
    connection: &Connection,
    plan: &Plan,
) {
    let units = plan.streams.keys().map(|stream| &stream.unit);
    let mut rights: Vec<Right> = Vec::new();
    for unit in units.filter(|unit| unit.cluster == *name) {
        let gvk = &unit.resource.gvk;
        for verb in ["list", "watch"] {
            let right = Right::on(verb, &gvk.group, &unit.resource.plural);
            rights.push(right.named(namespace_of(&unit.scope), ""));
        }
    }
    rights.sort();
    rights.dedup();
    if rights.is_empty() {
        checks.skipped("permissions", "no registry selects anything of it", "");
        return;
    }
    let count = rights.len() / 2;
    match missing(&connection.client, rights).await {
        Ok(missing) if missing.is_empty() => {
            checks.ok(
                "permissions",
                format!("may list and watch all {count} registered kinds"),
            );
        }
        Ok(missing) => {
            for rights in summarized(&missing) {
                checks.error(
                    "permissions",
                    format!("the account on the member may not {rights}"),
                    "give its account on the member these rights, or exclude the kinds in the registry",
                );
            }
        }
        Err(problem) => checks.skipped(
            "permissions",
            problem,
            "the account has to create selfsubjectaccessreviews on the member",
        ),
    }
}
