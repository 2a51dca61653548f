//! What a migration changes, and what stands in its way.

mod registries;

use fleetdex_clusters::{
    Member,
    secret_hosts::SecretHosts,
    source::{Loader, PluginCachePolicy},
};
use fleetdex_crds::registry::ResourceRegistry;
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_operator::{
    MemberView, RegistryView,
    plan::{Plan, plan},
    store_settings::CredentialSource,
};
use futures::{StreamExt as _, stream};
use serde_json::Value;

use self::registries::{RegistryCheck, ServedKinds};
use super::{
    export::name_of,
    indices::check_store,
    target::{
        API_SERVICE, CLUSTERS_API_SERVICE, CRD, MigrationTarget, QUERY_API_SERVICE, unavailability,
    },
};
use fleetdex_checks::{
    permissions::{REQUEST_TIMEOUT, Right, missing},
    result::{CheckResult, Checks},
};

/// Secrets that are read at a time.
const SECRETS: usize = 16;
const CRDS_GROUP: &str = "apiextensions.k8s.io";
const AGGREGATION_GROUP: &str = "apiregistration.k8s.io";
const SEARCH_GROUP: &str = "search.karmada.io";

/// The steps that need rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightsFor {
    /// From karmada-search.
    Migration,
    /// Back.
    Rollback,
}

/// Checks the rights for all steps.
pub async fn check_rights(checks: &mut Checks, target: &MigrationTarget, steps: RightsFor) {
    let registries = |verbs: &[&'static str]| -> Vec<Right> {
        rights(verbs, SEARCH_GROUP, "resourceregistries", "")
    };
    let crds = |verbs: &[&'static str]| rights(verbs, CRDS_GROUP, "customresourcedefinitions", CRD);
    let api_services =
        |verbs: &[&'static str]| rights(verbs, AGGREGATION_GROUP, "apiservices", API_SERVICE);
    let needed: Vec<Right> = match steps {
        RightsFor::Migration => [
            registries(&["list", "get", "create"]),
            crds(&["get", "patch", "create"]),
            api_services(&["get", "delete"]),
        ],
        RightsFor::Rollback => [
            registries(&["list", "get", "delete"]),
            crds(&["get", "delete"]),
            api_services(&["get", "create"]),
        ],
    }
    .concat();
    match missing(&target.client, needed).await {
        Ok(missing) if missing.is_empty() => {
            checks.ok("permissions", "all steps are allowed");
        }
        Ok(missing) => {
            let names: Vec<String> = missing.iter().map(Right::to_string).collect();
            checks.error(
                "permissions",
                format!("the account may not {}", names.join(", ")),
                "use an administrator of the control plane (--kubeconfig, --context), or give the account these rights",
            );
        }
        Err(problem) => checks.error(
            "permissions",
            problem,
            "the account has to create selfsubjectaccessreviews, as every authenticated user usually may",
        ),
    }
}

/// A name that does not exist yet cannot restrict the right to create it.
fn rights(verbs: &[&'static str], group: &str, resource: &str, name: &str) -> Vec<Right> {
    let named = verbs.iter().map(|&verb| match verb {
        "create" => Right::on(verb, group, resource),
        _ => Right::on(verb, group, resource).named("", name),
    });
    named.collect()
}

/// Checks who serves Clusters and queries, and what clients notice.
pub async fn check_surroundings(checks: &mut Checks, target: &MigrationTarget) {
    match target.aggregated(CLUSTERS_API_SERVICE).await {
        Ok(Some(_)) => checks.ok(
            "clusters",
            "Karmada serves Cluster: Fleetdex reads them there, and never writes their status",
        ),
        Ok(None) => checks.warning(
            "clusters",
            format!("no server is registered for APIService {CLUSTERS_API_SERVICE}: this is no complete Karmada control plane"),
            "make sure that this is the control plane (--context); Fleetdex indexes the clusters that its sources find",
        ),
        Err(error) => checks.error("clusters", error.to_string(), "use an account that may get APIServices"),
    }
    match target.api_service(QUERY_API_SERVICE).await {
        Ok(Some(service)) => match unavailability(&service) {
            None => checks.ok("operator", format!("APIService {QUERY_API_SERVICE} is available")),
            Some(problem) => checks.warning(
                "operator",
                format!("APIService {QUERY_API_SERVICE} is not available: {problem}"),
                "registries are indexed once fleetdex run is ready; fleetdex doctor says what it lacks",
            ),
        },
        Ok(None) => checks.warning(
            "operator",
            format!("APIService {QUERY_API_SERVICE} is not there: Fleetdex is not installed, or does not serve this control plane"),
            "install the chart for this control plane, before or after the migration (the book, page The chart): nothing is indexed until fleetdex run runs",
        ),
        Err(error) => checks.skipped("operator", error.to_string(), ""),
    }
    checks.warning(
        "clients",
        "requests below /apis/search.karmada.io/v1alpha1/search and …/proxying end at the control plane",
        "change the prefix in kubeconfigs and scripts to /apis/search.fleetdex.io/v1alpha1, or run fleetdex kubeconfig",
    );
}

/// Checks registries that are to become custom resources, their stores, and the clusters that they
/// select.
pub async fn check_registries(
    target: &MigrationTarget,
    registries: &[Value],
    secret_hosts: &SecretHosts,
) -> Vec<CheckResult> {
    let mut results = Vec::new();
    let clusters = match target.clusters().await {
        Ok(clusters) => clusters,
        Err(error) => {
            let mut checks = Checks::of("clusters");
            checks.warning(
                "listed",
                error.to_string(),
                "start Karmada's API server of clusters: without them no registry selects anything",
            );
            results.extend(checks.results);
            Vec::new()
        }
    };
    let mut members: Vec<Member> = Vec::new();
    let mut served = ServedKinds::default();
    for cluster in &clusters {
        if let Ok(member) = Member::try_from(cluster) {
            served.add(&member.name, cluster);
            members.push(member);
        }
    }
    let views: Vec<MemberView> = members.iter().map(view).collect();
    let parsed: Vec<(&Value, Result<ResourceRegistry, String>)> = registries
        .iter()
        .map(|registry| (registry, parse(registry)))
        .collect();
    let readable = parsed.iter().filter_map(|(_, parsed)| parsed.as_ref().ok());
    let registry_views: Vec<RegistryView> = readable.map(RegistryView::from).collect();
    let desired: Plan = plan(&registry_views, &views, &RuleSet::default());
    for (object, parsed) in &parsed {
        let mut checks = Checks::of(format!("registry {}", name_of(object)));
        match parsed {
            Ok(registry) => RegistryCheck {
                object,
                registry,
                planned: desired.registries.get(name_of(object)),
                clusters: members.len(),
                served: &served,
            }
            .add_to(&mut checks),
            Err(problem) => checks.error(
                "validation",
                problem,
                "correct it in karmada-search, then try again",
            ),
        }
        results.extend(checks.results);
    }
    let credentials = CredentialSource::Secrets(target.client.clone(), secret_hosts.clone());
    for (name, store) in &desired.stores {
        let mut checks = Checks::of(format!("store {name}"));
        check_store(&mut checks, store, &credentials).await;
        results.extend(checks.results);
    }
    let is_selected = |member: &&Member| {
        let mut planned = desired.registries.values();
        planned.any(|planned| planned.clusters.contains_key(&member.name))
    };
    let loader = Loader::new(target.client.clone(), secret_hosts.clone());
    let selected = members.iter().filter(is_selected);
    let checked = selected.map(|member| check_member(&loader, member));
    let checked: Vec<Checks> = stream::iter(checked).buffered(SECRETS).collect().await;
    results.extend(checked.into_iter().flat_map(|checks| checks.results));
    results
}

fn parse(registry: &Value) -> Result<ResourceRegistry, String> {
    serde_json::from_value(registry.clone()).map_err(|error| format!("it cannot be read: {error}"))
}

fn view(member: &Member) -> MemberView {
    MemberView {
        name: member.name.clone(),
        labels: member.labels.clone(),
        provider: member.provider.clone().unwrap_or_default(),
        region: member.region.clone().unwrap_or_default(),
        zones: member.zones.clone(),
        discovery: None,
        definitions: None,
        is_duplicate: false,
    }
}

/// Whether the credentials of a member can be read and may be sent to it; no request goes to the
/// member.
async fn check_member(loader: &Loader, member: &Member) -> Checks {
    let mut checks = Checks::of(format!("cluster {}", member.name));
    let loaded = loader
        .load(&member.access, PluginCachePolicy::Use, REQUEST_TIMEOUT)
        .await;
    match loaded {
        Ok(_) => checks.ok("credentials", "can be read, and may be sent to the cluster"),
        Err(error) => checks.warning(
            "credentials",
            error.to_string(),
            "do so before or after the migration: Fleetdex connects to the cluster once it can; the chart's secretHosts.allowed, or \
             --allow-secret-hosts, allows many at once",
        ),
    }
    checks
}
