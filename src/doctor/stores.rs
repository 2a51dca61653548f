//! Checks of the stores in OpenSearch: login, version, clock, mapping, shards, disks, blocks and
//! contexts.

use std::collections::BTreeMap;

use fleetdex_clusters::certificate;
use fleetdex_core::model::{IndexPrefix, StoreName};
use fleetdex_operator::{
    plan::{Plan, StorePlan},
    store_settings::{CredentialSource, store_settings},
};
use fleetdex_store::opensearch::{Authentication, MAPPING_VERSION};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    cluster_settings::{ClusterSettings, SETTINGS_PATH},
    disks::check_disks,
    measures::{check_clock, check_expiry},
};
use fleetdex_checks::{
    result::{CheckResult, Checks},
    store_probe::{NoAnswer, StoreProbe},
};

/// Part of a limit from which on it is warned of.
const NEARLY: f64 = 0.85;
/// What OpenSearch allows unless it is set otherwise.
const DEFAULT_SHARDS_PER_NODE: f64 = 1000.0;
const DEFAULT_CONTEXTS: f64 = 300.0;
/// Blocks of the whole cluster. OpenSearch sets the last one while all disks are over the high
/// watermark.
const CLUSTER_BLOCKS: [&str; 3] = [
    "cluster.blocks.read_only",
    "cluster.blocks.read_only_allow_delete",
    "cluster.blocks.create_index",
];
/// The block that OpenSearch sets at the flood-stage watermark.
const READ_ONLY_ALLOW_DELETE: &str = "index.blocks.read_only_allow_delete";
const RAISE_SHARDS: &str = "remove indices that are not needed, set numberOfReplicas or numberOfShards lower in the registries, add nodes, or raise \
                            cluster.max_shards_per_node";

/// Checks every store in OpenSearch.
pub async fn check_stores(plan: &Plan, credentials: &CredentialSource) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for (name, store) in &plan.stores {
        results.extend(check_store(name, store, credentials).await.results);
    }
    results
}

async fn check_store(name: &StoreName, plan: &StorePlan, credentials: &CredentialSource) -> Checks {
    let mut checks = Checks::of(format!("store {name}"));
    let Some(config) = &plan.config else {
        checks.ok("connection", "the embedded store");
        return checks;
    };
    let settings = match store_settings(config, credentials).await {
        Ok(settings) => settings,
        Err(unavailable) => {
            checks.error(
                "login",
                unavailable.message,
                "correct the reference or the Secret",
            );
            return checks;
        }
    };
    let pem = settings.client_certificate.as_deref();
    if let Some(not_after) = pem.and_then(certificate::first_not_after) {
        let action = "replace the certificate in the Secret of clientCertSecretRef";
        check_expiry(&mut checks, "client certificate", not_after, action);
    }
    if let Some(expiry) = settings.authentication.token_expiry() {
        check_token(&mut checks, expiry);
    }
    let node = match StoreProbe::new(&settings) {
        Ok(node) => node,
        Err(error) => {
            checks.error(
                "connection",
                error.to_string(),
                "correct backendStore.openSearch",
            );
            return checks;
        }
    };
    if check_login(&mut checks, &node, &settings.authentication).await {
        // Settings that may not be read count as defaults.
        let settings = node.ask(&mut checks, "settings", SETTINGS_PATH).await;
        let settings = settings.map(ClusterSettings::new).unwrap_or_default();
        check_nodes(&mut checks, &node, &settings).await;
        check_shards(&mut checks, &node, &settings).await;
        check_blocks(&mut checks, &node, &settings, &plan.prefix).await;
        check_mapping(&mut checks, &node, plan).await;
    }
    checks
}

/// A token is often valid for minutes only, so what is left of it is no warning.
fn check_token(checks: &mut Checks, expiry: Timestamp) {
    if expiry <= Timestamp::now() {
        let action = "write a new token to the Secret of secretRef";
        checks.error("token", format!("expired at {expiry}"), action);
    } else {
        checks.ok("token", format!("valid until {expiry}"));
    }
}

/// What OpenSearch refuses with 401, and what to do.
fn refused_login(authentication: &Authentication) -> (&'static str, &'static str) {
    match authentication {
        Authentication::Bearer(_) => (
            "OpenSearch refuses the token",
            "write a valid token to the Secret of secretRef, and configure OpenSearch to accept it",
        ),
        Authentication::Aws(_) => (
            "OpenSearch refuses the signature",
            "correct backendStore.openSearch.aws and the access keys",
        ),
        Authentication::Basic { .. } | Authentication::None => (
            "OpenSearch refuses the user or the password",
            "correct username and password in the Secret of secretRef, or name one if there is none",
        ),
    }
}

/// Whether OpenSearch answers with these credentials.
async fn check_login(
    checks: &mut Checks,
    node: &StoreProbe,
    authentication: &Authentication,
) -> bool {
    match node.get("/").await {
        Ok(answer) => {
            let version = answer["version"]["number"].as_str();
            checks.ok(
                "connection",
                format!("OpenSearch {}", version.unwrap_or("of unknown version")),
            );
            true
        }
        Err(NoAnswer {
            status: Some(StatusCode::UNAUTHORIZED),
            ..
        }) => {
            let (message, action) = refused_login(authentication);
            checks.error("login", message, action);
            false
        }
        Err(NoAnswer {
            refusal: Some(refusal),
            ..
        }) => {
            let action = "correct backendStore.openSearch.aws, the access keys, or the policies and clocks that the message names";
            checks.error("login", refusal, action);
            false
        }
        // A user without the right to see the version can still have all that indices need.
        Err(NoAnswer {
            status: Some(StatusCode::FORBIDDEN),
            message,
            ..
        }) => {
            checks.skipped("connection", message, "");
            true
        }
        Err(NoAnswer { message, .. }) => {
            checks.error(
                "connection",
                message,
                "check addresses, caBundle and firewalls",
            );
            false
        }
    }
}

/// The clocks, disks and contexts of the nodes.
async fn check_nodes(checks: &mut Checks, node: &StoreProbe, settings: &ClusterSettings) {
    let Some(stats) = node
        .ask(checks, "nodes", "/_nodes/stats/indices,fs/search")
        .await
    else {
        return;
    };
    let nodes = stats["nodes"].as_object();
    let nodes: Vec<&Value> = nodes
        .into_iter()
        .flat_map(serde_json::Map::values)
        .collect();
    if let Some(milliseconds) = nodes
        .iter()
        .filter_map(|stats| stats["timestamp"].as_i64())
        .max()
    {
        check_clock(checks, milliseconds / 1000);
    }
    let limit = settings
        .number("search.max_open_pit_context")
        .unwrap_or(DEFAULT_CONTEXTS);
    let contexts = |stats: &&Value| stats["indices"]["search"]["point_in_time_current"].as_f64();
    let most = nodes.iter().filter_map(contexts).fold(0.0, f64::max);
    let message = format!("at most {most} of {limit} points in time are open on a node");
    if most >= limit * NEARLY {
        checks.warning(
            "contexts",
            message,
            "lower --list-contexts, or raise search.max_open_pit_context",
        );
    } else {
        checks.ok("contexts", message);
    }
    check_disks(checks, &stats, settings);
}

/// The write blocks of Fleetdex's indices and of the whole cluster.
async fn check_blocks(
    checks: &mut Checks,
    node: &StoreProbe,
    settings: &ClusterSettings,
    prefix: &IndexPrefix,
) {
    for block in CLUSTER_BLOCKS {
        if settings.text(block) == Some("true") {
            let remedy = format!(
                "if no disk is over a watermark, set it to null: PUT /_cluster/settings {{\"persistent\": {{\"{block}\": null}}}}, and the same with transient"
            );
            checks.error(
                "blocks",
                format!("{block} is set for the whole cluster"),
                &remedy,
            );
        }
    }
    let path = format!(
        "/{},{},{}/_settings/index.blocks.*?flat_settings=true&ignore_unavailable=true",
        prefix.every_revision(),
        prefix.every_shared_index(),
        prefix.state()
    );
    let found = match node.get(&path).await {
        Ok(found) => found,
        Err(NoAnswer { message, .. }) => {
            let action = "give the user the right to read the settings of these indices";
            return checks.skipped("blocks", message, action);
        }
    };
    let blocked = blocked_indices(&found);
    if blocked.is_empty() {
        checks.ok("blocks", "no index is read-only");
    }
    for (block, indices) in blocked {
        let free_space = if block == READ_ONLY_ALLOW_DELETE {
            "free disk space: OpenSearch lifts this block when the disk is below the high watermark. If it was set by hand, "
        } else {
            ""
        };
        let remedy = format!(
            "{free_space}remove it: PUT /{}/_settings {{\"{block}\": null}}; Fleetdex then writes what waits",
            indices.join(",")
        );
        let message = format!(
            "{block} is set on {}: Fleetdex cannot write there",
            indices.join(", ")
        );
        checks.error("blocks", message, &remedy);
    }
}

/// The blocks that hinder Fleetdex, each with its indices.
fn blocked_indices(found: &Value) -> BTreeMap<&str, Vec<&str>> {
    let mut blocked: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, described) in found.as_object().into_iter().flatten() {
        for (block, value) in described["settings"].as_object().into_iter().flatten() {
            if value == "true" {
                blocked.entry(block).or_default().push(index);
            }
        }
    }
    blocked
}

/// The shards in use, against `cluster.max_shards_per_node`.
async fn check_shards(checks: &mut Checks, node: &StoreProbe, settings: &ClusterSettings) {
    let Some(health) = node.ask(checks, "shards", "/_cluster/health").await else {
        return;
    };
    if health["status"] == "red" {
        checks.error(
            "health",
            "the cluster is red: primary shards are missing",
            "repair OpenSearch; documents in these shards cannot be searched or written",
        );
    }
    let count = |field: &str| health[field].as_f64().unwrap_or_default();
    let used = ["active_shards", "initializing_shards", "unassigned_shards"].map(count);
    let used: f64 = used.iter().sum();
    let per_node = settings
        .number("cluster.max_shards_per_node")
        .unwrap_or(DEFAULT_SHARDS_PER_NODE);
    let limit = per_node * count("number_of_data_nodes");
    let message = format!("{used} of {limit} shards are in use");
    if used >= limit {
        checks.error(
            "shards",
            format!("{message}: no index can be created"),
            RAISE_SHARDS,
        );
    } else if used >= limit * NEARLY {
        checks.warning("shards", message, RAISE_SHARDS);
    } else {
        checks.ok("shards", message);
    }
}

/// Which indices there are, and in which version of the mapping.
async fn check_mapping(checks: &mut Checks, node: &StoreProbe, plan: &StorePlan) {
    let path = format!(
        "/{},{}/_mapping?filter_path=*.mappings._meta",
        plan.prefix.every_revision(),
        plan.prefix.every_shared_index()
    );
    let found = match node.get(&path).await {
        Ok(found) => found,
        Err(NoAnswer {
            status: Some(StatusCode::NOT_FOUND),
            ..
        }) => Value::default(),
        Err(NoAnswer { message, .. }) => {
            checks.skipped(
                "mapping",
                message,
                "give the user the right to read the mapping of these indices",
            );
            return;
        }
    };
    let indices = found.as_object();
    let mut older = Vec::new();
    for (index, mapping) in indices.into_iter().flatten() {
        let version = &mapping["mappings"]["_meta"]["fleetdex"]["mappingVersion"];
        if version.as_u64() != Some(u64::from(MAPPING_VERSION)) {
            older.push(index.as_str());
        }
    }
    let count = indices.map_or(0, serde_json::Map::len);
    if older.is_empty() {
        checks.ok(
            "mapping",
            format!("{count} indices of version {MAPPING_VERSION}"),
        );
        return;
    }
    checks.warning(
        "mapping",
        format!("{} have another version than {MAPPING_VERSION}", older.join(", ")),
        "nothing, if fleetdex run was just updated: it fills new indices beside these and deletes them; otherwise its version differs from this one",
    );
}
