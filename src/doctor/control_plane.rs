//! Checks of the control plane: its version and clock, and what the caller may do there.

use std::collections::BTreeSet;

use fleetdex_api::{condition, registry::ResourceRegistry};
use fleetdex_clusters::{
    Member,
    member::MemberAccess,
    request,
    source::{SourceArgs, SourceKind},
};
use http::HeaderMap;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

use super::measures::check_date;
use crate::checks::{
    permissions::{REQUEST_TIMEOUT, Right, missing},
    result::{CheckResult, Checks},
};

const SEARCH: &str = "search.karmada.io";
const CLUSTER: &str = "cluster.karmada.io";
const CONFIG: &str = "config.karmada.io";

/// Checks version and clock.
pub async fn check_version(client: &Client) -> Checks {
    let mut checks = Checks::of("control plane");
    match request::get(client, "/version", HeaderMap::new(), REQUEST_TIMEOUT).await {
        Ok(answer) => {
            let version: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let version = version["gitVersion"].as_str().unwrap_or("unknown version");
            checks.ok("connection", version.to_owned());
            check_date(&mut checks, &answer.headers);
        }
        Err(error) => checks.error(
            "connection",
            error.to_string(),
            "name another kubeconfig with --kubeconfig, or repair this one",
        ),
    }
    checks
}

/// Reads the registries, or says why they cannot be read.
pub async fn registries(client: &Client, checks: &mut Checks) -> Option<Vec<ResourceRegistry>> {
    let api = Api::<ResourceRegistry>::all(client.clone());
    let parameters = ListParams::default();
    let listed = tokio::time::timeout(REQUEST_TIMEOUT, api.list(&parameters)).await;
    let problem = match listed {
        Ok(Ok(list)) => return Some(list.items),
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {
            checks.error(
                "custom resources",
                "the control plane does not serve ResourceRegistry",
                "install the CRDs: kubectl apply --server-side -f crds/, or fleetdex crd | kubectl apply --server-side -f -",
            );
            return None;
        }
        Ok(Err(kube::Error::Api(status))) => status.message,
        Ok(Err(_)) => {
            checks.skipped(
                "custom resources",
                "the control plane cannot be reached",
                "",
            );
            return None;
        }
        Err(_) => format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
    };
    let action = "give the account the rights of the chart's ClusterRole";
    checks.error("custom resources", problem, action);
    None
}

/// What each registry says about itself.
pub fn check_registries(registries: &[ResourceRegistry]) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for registry in registries {
        let mut checks = Checks::of(format!("registry {}", registry.name_any()));
        let status = registry.status.clone().unwrap_or_default();
        match condition::find(&status.conditions, "Ready") {
            Some(ready) if ready.status == "True" => checks.ok("ready", ready.reason.clone()),
            Some(ready) => checks.error(
                "ready",
                format!("{}: {}", ready.reason, ready.message),
                "docs/operating.md, \"Conditions of a ResourceRegistry\", explains the reason",
            ),
            None => checks.error(
                "ready",
                "no operator has written its status",
                "start fleetdex run; if it runs, its log says why it does not write",
            ),
        }
        results.extend(checks.results);
    }
    results
}

/// Checks that the caller may do what the operator needs.
pub async fn check_rights(
    client: &Client,
    sources: &SourceArgs,
    registries: &[ResourceRegistry],
    members: &[Member],
) -> Checks {
    let mut checks = Checks::of("control plane");
    let mut rights = operator_rights(sources);
    rights.extend(secret_rights(registries, members));
    let count = rights.len();
    match missing(client, rights).await {
        Ok(missing) if missing.is_empty() => {
            checks.ok("permissions", format!("all {count} are given"));
        }
        Ok(missing) => {
            for right in missing {
                checks.error(
                    "permissions",
                    format!("the account may not {right}"),
                    "give this right to the account of the operator; the chart's Roles and its value `secrets` do",
                );
            }
        }
        Err(problem) => checks.skipped(
            "permissions",
            problem,
            "the account has to create selfsubjectaccessreviews, as every authenticated user usually may",
        ),
    }
    checks
}

fn operator_rights(sources: &SourceArgs) -> Vec<Right> {
    let read = |group: &'static str, resource: &'static str| {
        ["get", "list", "watch"].map(|verb| Right::on(verb, group, resource))
    };
    let mut rights: Vec<Right> = read(SEARCH, "resourceregistries").into();
    rights.extend([
        Right::on("patch", SEARCH, "resourceregistries"),
        Right::on("patch", SEARCH, "resourceregistries/status"),
        Right::on("get", "", "namespaces").named("", "kube-system"),
        Right::on("create", "events.k8s.io", "events").named("default", ""),
        Right::on("patch", "events.k8s.io", "events").named("default", ""),
    ]);
    rights.extend(read(CLUSTER, "clustercaches"));
    for kind in [
        "resourceinterpretercustomizations",
        "resourceinterpreterwebhookconfigurations",
        "resourceexploringwebhookconfigurations",
    ] {
        rights.extend(read(CONFIG, kind));
    }
    if sources.has(SourceKind::Karmada) {
        rights.extend(read(CLUSTER, "clusters"));
    }
    rights
}

/// The Secrets that registries and members name.
fn secret_rights(registries: &[ResourceRegistry], members: &[Member]) -> BTreeSet<Right> {
    let get = |namespace: &str, name: &str| Right::on("get", "", "secrets").named(namespace, name);
    let mut rights = BTreeSet::new();
    for registry in registries {
        let store = registry.spec.backend_store.as_ref();
        let store = store.and_then(|backend| backend.open_search.as_ref());
        let references = store.into_iter().flat_map(|store| {
            [&store.secret_ref, &store.client_cert_secret_ref]
                .into_iter()
                .flatten()
        });
        for reference in references {
            rights.insert(get(&reference.namespace, &reference.name));
        }
    }
    for member in members {
        let secret = match &member.access {
            MemberAccess::Endpoint(endpoint) => endpoint.secret.as_ref(),
            MemberAccess::KubeconfigSecret(kubeconfig) => Some(&kubeconfig.secret),
            _ => None,
        };
        rights.extend(secret.map(|secret| get(&secret.namespace, &secret.name)));
    }
    rights
}
