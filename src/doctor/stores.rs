//! Checks of the stores in OpenSearch: login, version, clock, mapping, shards, disks and contexts.

use fleetdex_clusters::certificate;
use fleetdex_core::model::StoreName;
use fleetdex_operator::{
    plan::{Plan, StorePlan},
    stores::{CredentialSource, store_settings},
};
use fleetdex_store::opensearch::MAPPING_VERSION;
use http::StatusCode;
use serde_json::Value;

use super::measures::{check_clock, check_expiry};
use crate::checks::{
    result::{CheckResult, Checks},
    store_probe::{NoAnswer, StoreProbe},
};

/// Part of a limit from which on it is warned of.
const NEARLY: f64 = 0.85;
/// What OpenSearch allows unless it is set otherwise.
const DEFAULT_SHARDS_PER_NODE: f64 = 1000.0;
const DEFAULT_CONTEXTS: f64 = 300.0;
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
    if check_login(&mut checks, &node).await {
        check_nodes(&mut checks, &node).await;
        check_shards(&mut checks, &node).await;
        check_mapping(&mut checks, &node, plan).await;
    }
    checks
}

/// Whether OpenSearch answers with these credentials.
async fn check_login(checks: &mut Checks, node: &StoreProbe) -> bool {
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
            checks.error(
                "login",
                "OpenSearch refuses the user or the password",
                "correct username and password in the Secret of secretRef, or name one if there is none",
            );
            false
        }
        // A user without the right to see the version can still have all that indices need.
        Err(NoAnswer {
            status: Some(StatusCode::FORBIDDEN),
            message,
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
async fn check_nodes(checks: &mut Checks, node: &StoreProbe) {
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
    let settings = node
        .get("/_cluster/settings?include_defaults=true&flat_settings=true")
        .await
        .ok();
    let limit =
        number(settings.as_ref(), "search.max_open_pit_context").unwrap_or(DEFAULT_CONTEXTS);
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
    check_disks(checks, &nodes, settings.as_ref());
}

/// How full the disks are, against the watermarks in percent. Watermarks in bytes are not judged.
fn check_disks(checks: &mut Checks, nodes: &[&Value], settings: Option<&Value>) {
    let watermark = |name: &str, default: f64| {
        let key = format!("cluster.routing.allocation.disk.watermark.{name}");
        let text = setting(settings, &key).unwrap_or_default();
        text.strip_suffix('%')
            .and_then(|percent| percent.parse().ok())
            .unwrap_or(default)
    };
    let (high, flood) = (watermark("high", 90.0), watermark("flood_stage", 95.0));
    let used = nodes.iter().filter_map(|stats| {
        let total = &stats["fs"]["total"];
        let (size, free) = (
            total["total_in_bytes"].as_f64()?,
            total["available_in_bytes"].as_f64()?,
        );
        (size > 0.0).then(|| (1.0 - free / size) * 100.0)
    });
    let fullest = used.fold(0.0, f64::max);
    let message = format!("the fullest disk of a node is used to {fullest:.0} %");
    let action =
        "free space or add nodes: at the flood-stage watermark OpenSearch makes indices read-only";
    if fullest >= flood {
        checks.error("disks", message, action);
    } else if fullest >= high {
        checks.warning("disks", message, action);
    } else {
        checks.ok("disks", message);
    }
}

/// The shards in use, against `cluster.max_shards_per_node`.
async fn check_shards(checks: &mut Checks, node: &StoreProbe) {
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
    let settings = node
        .get("/_cluster/settings?include_defaults=true&flat_settings=true")
        .await
        .ok();
    let per_node =
        number(settings.as_ref(), "cluster.max_shards_per_node").unwrap_or(DEFAULT_SHARDS_PER_NODE);
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
    // Indices of longer prefixes match, too: that only adds to what is checked.
    let path = format!(
        "/{}-*.g*/_mapping?filter_path=*.mappings._meta",
        plan.prefix.as_str()
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

/// A setting of the cluster: transient, persistent or the default.
fn setting<'s>(settings: Option<&'s Value>, key: &str) -> Option<&'s str> {
    let settings = settings?;
    let levels = ["transient", "persistent", "defaults"];
    levels
        .iter()
        .find_map(|level| settings[level][key].as_str())
}

fn number(settings: Option<&Value>, key: &str) -> Option<f64> {
    setting(settings, key)?.parse().ok()
}
