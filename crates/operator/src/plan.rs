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

use fleetdex_core::model::{ClusterName, Resource};
use fleetdex_interpreter::rules::RuleSet;

use self::resolve::{DesiredRoutes, RegistryOnMember};
pub use self::{
    model::{
        ClusterPlan, Coverage, KindProblem, NamespaceExtent, Plan, RegistryPlan, Route, StorePlan,
        StreamKey, StreamPlan,
    },
    store::{store_location, store_name},
};
use super::{MemberView, RegistryView};

/// Plans the registries on the members. `rules` say what objects mean.
pub fn plan(registries: &[RegistryView], members: &[MemberView], rules: &RuleSet) -> Plan {
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
            .filter(|member| registry.spec.target_cluster.matches(member.properties()))
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
        let member = members.get(&of.cluster);
        let definitions = member.and_then(|member| member.definitions.as_deref());
        let fields = definitions.map_or(&[][..], |definitions| definitions.fields(&of.resource));
        let level = plan
            .stores
            .get(&of.store)
            .map(|store| store.projection.interpretation());
        let lacks_status = definitions.is_some_and(|found| found.lacks_status(&of.resource));
        let has_status =
            !lacks_status && member.is_some_and(|member| serves_status(member, &of.resource));
        let rules = rules.of_kind(&of.resource, has_status, level.unwrap_or_default());
        plan.add_streams(&of, routes, fields, rules.as_ref());
    }
    plan
}

/// Whether the objects of a resource have a status that is a subresource.
fn serves_status(member: &MemberView, resource: &Resource) -> bool {
    let served = member.discovery.iter().flat_map(|found| &found.served);
    let mut same = served.filter(|served| served.resource == *resource);
    same.any(|served| {
        served
            .capabilities
            .subresources
            .iter()
            .any(|found| &*found.name == "status")
    })
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
