//! What the operator may do at the control plane: the rights that the chart grants, from the same
//! file as its Roles.

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use fleetdex_clusters::source::{SourceArgs, SourceKind};
use k8s_openapi::api::rbac::v1::PolicyRule;

use fleetdex_checks::permissions::Right;

/// The rules of the chart's Roles, by what needs them.
const RULES: &str = include_str!("../../helm/fleetdex/files/rights.yaml");

/// What of the operator runs, by the flags and environment variables of `fleetdex run`.
#[derive(Args, Clone, Debug, Default)]
pub struct OperatorFeatures {
    /// The operator leaves the status of Cluster objects to Karmada.
    #[arg(long, env = "FLEETDEX_LEAVE_CLUSTER_STATUS")]
    pub leave_cluster_status: bool,

    /// The operator distributes objects to the members.
    #[arg(long, env = "FLEETDEX_DISTRIBUTE")]
    pub distribute: bool,

    /// The operator is one of several replicas.
    #[arg(long, env = "FLEETDEX_REPLICAS")]
    pub replicas: bool,

    /// Namespace of the replicas' Leases and reports.
    #[arg(long, value_name = "NAMESPACE", env = "FLEETDEX_REPLICA_NAMESPACE")]
    pub replica_namespace: Option<String>,

    /// Service by which the control plane reaches the query API.
    #[arg(long, value_name = "NAMESPACE/NAME", env = "FLEETDEX_API_SERVICE")]
    pub api_service: Option<String>,
}

/// The rights that an operator with these features and sources of clusters needs.
pub fn operator_rights(
    features: &OperatorFeatures,
    sources: &SourceArgs,
) -> anyhow::Result<Vec<Right>> {
    let rules: BTreeMap<String, Vec<PolicyRule>> =
        serde_saphyr::from_str(RULES).context("reading files/rights.yaml of the chart")?;
    let has_karmada = sources.has(SourceKind::Karmada);
    let has_api = features.api_service.is_some();
    let replica_namespace = features.replica_namespace.as_deref().unwrap_or_default();
    let groups = [
        ("operator", "", true),
        ("karmada", "", has_karmada),
        (
            "clusterStatus",
            "",
            has_karmada && !features.leave_cluster_status,
        ),
        ("distribute", "", features.distribute),
        ("replicas", replica_namespace, features.replicas),
        ("api", "", has_api),
        ("apiOfReplicas", "", has_api && features.replicas),
        ("delegation", "", has_api),
        ("authenticationReader", "kube-system", has_api),
    ];
    let needed = groups.into_iter().filter(|(.., is_needed)| *is_needed);
    let mut rights = Vec::new();
    for (group, namespace, _) in needed {
        let rules = rules
            .get(group)
            .with_context(|| format!("files/rights.yaml of the chart has no {group}"))?;
        rights.extend(rules.iter().flat_map(|rule| rights_of(rule, namespace)));
    }
    let mut namespaces = sources
        .cluster_namespace
        .iter()
        .map(String::as_str)
        .peekable();
    if sources.has(SourceKind::ClusterApi) {
        let everywhere = namespaces.peek().is_none().then_some("");
        for namespace in namespaces.chain(everywhere) {
            let rules = rules.get("clusterApi").into_iter().flatten();
            rights.extend(rules.flat_map(|rule| rights_of(rule, namespace)));
        }
    }
    Ok(rights)
}

/// Each verb of a rule on each of its objects.
pub(super) fn rights_of(rule: &PolicyRule, namespace: &str) -> Vec<Right> {
    let every = [String::new()];
    let names = rule
        .resource_names
        .as_deref()
        .filter(|names| !names.is_empty());
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for name in names.unwrap_or(&every) {
                for verb in &rule.verbs {
                    let right = Right::on(verb, group, resource);
                    rights.push(right.named(namespace, name));
                }
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        features: OperatorFeatures,
        #[command(flatten)]
        sources: SourceArgs,
    }

    fn rights(arguments: &[&str]) -> Vec<String> {
        let arguments = [&["doctor"], arguments].concat();
        let Arguments { features, sources } = Arguments::parse_from(arguments);
        let rights = operator_rights(&features, &sources).unwrap();
        rights.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_operator_needs_the_rights_of_what_it_runs() {
        let least = rights(&["--leave-cluster-status"]);
        let has = |rights: &[String], right: &str| rights.iter().any(|found| found == right);
        assert!(has(&least, "list resourceregistries.search.karmada.io"));
        assert!(has(&least, "list clusters.cluster.karmada.io"));
        assert!(has(&least, "get namespaces kube-system"));
        // The chart does not grant it.
        assert!(!has(&least, "get resourceregistries.search.karmada.io"));
        for (flags, right) in [
            (vec![], "patch clusters/status.cluster.karmada.io"),
            (
                vec!["--api-service=a/b"],
                "create tokenreviews.authentication.k8s.io",
            ),
            (
                vec!["--api-service=a/b"],
                "create subjectaccessreviews.authorization.k8s.io",
            ),
            (
                vec!["--api-service=a/b"],
                "get configmaps extension-apiserver-authentication in namespace kube-system",
            ),
            (
                vec!["--replicas", "--replica-namespace=system"],
                "create leases.coordination.k8s.io in namespace system",
            ),
            (
                vec![
                    "--cluster-source=cluster-api",
                    "--cluster-namespace=clusters",
                ],
                "watch clusters.cluster.x-k8s.io in namespace clusters",
            ),
        ] {
            assert!(!has(&least, right), "{right}");
            assert!(has(&rights(&flags), right), "{right}");
        }
    }
}
