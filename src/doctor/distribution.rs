//! Checks whether members permit what distribution writes to them.

use std::collections::BTreeMap;

use fleetdex_checks::{
    permissions::{missing, summarized},
    result::{CheckResult, Checks},
};
use fleetdex_clusters::MemberState;
use fleetdex_core::model::ClusterName;
use fleetdex_crds::policy::PropagationSpec;
use fleetdex_distribution_commands::{self as distribution, DistributedSets};
use kube::Client;

use super::rights::rights_of;

const CHECK: &str = "distribution";
const GRANT: &str =
    "apply what fleetdex distribute role prints to the member, and bind it to its account there";

/// Checks every connected member.
pub async fn check_members(
    control_plane: &Client,
    states: &BTreeMap<ClusterName, MemberState>,
) -> Vec<CheckResult> {
    let policies = distribution::policies(control_plane).await;
    let sets = distribution::sets(control_plane).await;
    let (policies, sets) = match policies.and_then(|policies| Ok((policies, sets?))) {
        Ok(found) => found,
        Err(error) => {
            let mut checks = Checks::of("distribution");
            checks.error(
                "policies",
                format!("the policies and Distributions cannot be read: {error:#}"),
                "install the CRDs with fleetdex crd apply --distribute, and give the right to list \
                 policies, Distributions and ResourceBindings",
            );
            return checks.results;
        }
    };
    let mut results = Vec::new();
    for (name, state) in states {
        results.extend(check_member(name, state, &policies, &sets).await);
    }
    results
}

async fn check_member(
    name: &ClusterName,
    state: &MemberState,
    policies: &[PropagationSpec],
    sets: &DistributedSets,
) -> Vec<CheckResult> {
    let mut checks = Checks::of(format!("cluster {name}"));
    let (Some(connection), Some(discovery)) = (&state.connection, &state.discovery) else {
        checks.skipped(CHECK, "not connected", "");
        return checks.results;
    };
    if policies.is_empty() && sets.specs.is_empty() {
        checks.skipped(
            CHECK,
            "there are no propagation policies and no Distributions",
            "",
        );
        return checks.results;
    }
    let (rules, _) = distribution::rules(policies, sets, discovery);
    let mut rights: Vec<_> = rules.iter().flat_map(|rule| rights_of(rule, "")).collect();
    rights.sort();
    rights.dedup();
    match missing(&connection.client, rights).await {
        Ok(missing) if missing.is_empty() => {
            checks.ok(
                CHECK,
                "may write all kinds of the policies and Distributions",
            );
        }
        Ok(missing) => {
            for rights in summarized(&missing) {
                let message = format!("the account on the member may not {rights}");
                checks.error(CHECK, message, GRANT);
            }
        }
        Err(problem) => checks.skipped(
            CHECK,
            problem,
            "the account has to create selfsubjectaccessreviews on the member",
        ),
    }
    checks.results
}
