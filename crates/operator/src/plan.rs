//! Plans registries × members × what these serve → streams, routes and stores.
//!
//! Pure and total: the same views give the same plan, whatever their order, and what cannot be
//! planned is part of the plan. The caller compares a plan with the previous one: what is in both
//! continues to run, the rest is started or stopped.

mod model;
mod resolve;
mod store;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::ClusterName;

use self::resolve::{DesiredRoutes, RegistryOnMember};
pub use self::{
    model::{
        ClusterPlan, Coverage, KindProblem, NamespaceExtent, Plan, RegistryPlan, Route, StorePlan,
        StreamKey, StreamPlan,
    },
    store::{store_location, store_name},
};
use super::{MemberView, RegistryView, affinity};

/// Plans the registries on the members.
pub fn plan(registries: &[RegistryView], members: &[MemberView]) -> Plan {
    let mut oldest_first: Vec<&RegistryView> = registries.iter().collect();
    oldest_first.sort_by(|left, right| age_order(left).cmp(&age_order(right)));
    let mut plan = Plan::default();
    let mut desired = DesiredRoutes::default();
    let mut joined: Vec<(&RegistryView, RegistryPlan)> = oldest_first
        .into_iter()
        .map(|registry| (registry, plan.join_store(registry)))
        .collect();
    store::stop_beside_unreadable_redactions(&mut joined);
    for (registry, mut outcome) in joined {
        outcome.not_found = missing_names(registry, members);
        for member in members
            .iter()
            .filter(|member| affinity::matches(&registry.spec.target_cluster, member))
        {
            let mut part = RegistryOnMember {
                registry,
                member,
                outcome: ClusterPlan::default(),
            };
            part.resolve(&outcome, &mut plan.coverage, &mut desired);
            outcome.clusters.insert(member.name.clone(), part.outcome);
        }
        plan.registries.insert(registry.name.clone(), outcome);
    }
    let members: BTreeMap<&ClusterName, &MemberView> = members
        .iter()
        .map(|member| (&member.name, member))
        .collect();
    for (of, routes) in desired.routes {
        let definitions = members
            .get(&of.cluster)
            .and_then(|member| member.definitions.as_deref());
        plan.add_streams(
            &of,
            routes,
            definitions.map_or(&[], |definitions| definitions.fields(&of.resource)),
        );
    }
    plan
}

/// A registry without a creation time counts as the youngest.
fn age_order(registry: &RegistryView) -> impl Ord {
    (
        registry.created.is_none(),
        registry.created,
        registry.name.clone(),
    )
}

fn missing_names(registry: &RegistryView, members: &[MemberView]) -> BTreeSet<String> {
    let exists = |name: &str| members.iter().any(|member| member.name.as_str() == name);
    registry
        .spec
        .target_cluster
        .cluster_names
        .iter()
        .filter(|name| !exists(name))
        .cloned()
        .collect()
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` is written where it is passed"
)]
mod tests;
