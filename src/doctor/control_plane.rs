//! Checks of the control plane: its version and clock, and what the caller may do there.

use std::collections::BTreeSet;

use fleetdex_clusters::{Member, member::MemberAccess, request};
use fleetdex_crds::{condition, registry::ResourceRegistry};
use http::HeaderMap;
use kube::{Api, Client, Resource as _, ResourceExt as _, api::ListParams};
use serde_json::Value;

use super::measures::check_date;
use fleetdex_checks::{
    permissions::{REQUEST_TIMEOUT, Right, missing, summarized},
    result::{CheckResult, Checks},
};

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
    let error = match listed {
        Ok(Ok(list)) => return Some(list.items),
        Ok(Err(error)) => error,
        Err(_) => {
            let problem = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
            checks.skipped("custom resources", problem, "");
            return None;
        }
    };
    match unlisted(&error) {
        (problem, Some(action)) => checks.error("custom resources", problem, &action),
        (problem, None) => checks.skipped("custom resources", problem, ""),
    }
    None
}

/// Why the registries could not be listed, and what to do; `None` if that is unknown here.
fn unlisted(error: &kube::Error) -> (String, Option<String>) {
    match error {
        kube::Error::Api(status) if status.is_not_found() => (
            "the control plane does not serve ResourceRegistry".to_owned(),
            Some("install the CRDs: fleetdex crd apply".to_owned()),
        ),
        kube::Error::Api(status) if status.is_forbidden() => {
            let (plural, group) = (ResourceRegistry::plural(&()), ResourceRegistry::group(&()));
            let action = format!(
                "give the account of this command the right to list {plural}.{group}, as the chart's ClusterRole has it; whether there are registries is not known without it"
            );
            (status.message.clone(), Some(action))
        }
        kube::Error::Api(status) => (
            status.message.clone(),
            Some("check the control plane, and the credentials of the kubeconfig".to_owned()),
        ),
        error => {
            let cause = request::transport_causes(error);
            (format!("the registries cannot be read: {cause}"), None)
        }
    }
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
                "the book, page Operating, \"Conditions of a ResourceRegistry\", explains the reason",
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
    mut rights: Vec<Right>,
    registries: &[ResourceRegistry],
    members: &[Member],
) -> Checks {
    let mut checks = Checks::of("control plane");
    rights.extend(secret_rights(registries, members));
    let count = rights.len();
    match missing(client, rights).await {
        Ok(missing) if missing.is_empty() => {
            checks.ok("permissions", format!("all {count} are given"));
        }
        Ok(missing) => {
            for rights in summarized(&missing) {
                checks.error(
                    "permissions",
                    format!("the account may not {rights}"),
                    "give these rights to the account of the operator; the chart's Roles and its value `secrets` do, and its binding of system:auth-delegator",
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            reason: reason.to_owned(),
            message: "refused".to_owned(),
            ..Status::default()
        }))
    }

    #[test]
    fn a_missing_right_to_list_registries_is_named() {
        let (problem, action) = unlisted(&refused(403, "Forbidden"));
        assert_eq!(problem, "refused");
        let action = action.unwrap();
        assert!(
            action.contains("the right to list resourceregistries.search."),
            "{action}"
        );
        let (_, action) = unlisted(&refused(404, "NotFound"));
        assert!(action.unwrap().contains("crd apply"));
        let (_, action) = unlisted(&refused(500, "InternalError"));
        assert!(!action.unwrap().contains("right"));
    }
}
