//! What garbage collection retains in a store, according to the plan.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_store::KindExtent;
use fleetdex_sync::checkpoints::UnitKey;

use super::applied::AppliedPlan;
use crate::{
    garbage_collection::{ClusterRetention, Naming, Retention},
    plan::{Coverage, NamespaceExtent, Plan, StreamKey},
};

/// What may stay in a store that is not a former location.
pub(super) fn retention(
    applied: &AppliedPlan,
    store: &StoreName,
    replaced: &BTreeSet<StreamKey>,
) -> Retention {
    let planned = planned_retention(&applied.plan, store, replaced, applied.knows_all_members);
    match applied.leaving.get(store) {
        Some(leaving) if !applied.plan.stores.contains_key(store) => Retention {
            naming: Naming::Leaving,
            same_prefix_stores: applied.stores_of_prefix(leaving, Naming::Leaving),
            ..planned
        },
        _ => planned,
    }
}

/// What the plan lets stay in a store: what registries select, and the documents of `replaced`
/// streams until their kinds are stored in the new version.
fn planned_retention(
    plan: &Plan,
    store: &StoreName,
    replaced: &BTreeSet<StreamKey>,
    knows_all_members: bool,
) -> Retention {
    let mut units: BTreeMap<&ClusterName, BTreeSet<UnitKey>> = BTreeMap::new();
    for stream in plan.streams.keys().filter(|stream| stream.store == *store) {
        units
            .entry(&stream.unit.cluster)
            .or_default()
            .insert(UnitKey::from(&stream.unit));
    }
    let mut replaced_kinds: BTreeMap<&ClusterName, Vec<KindExtent>> = BTreeMap::new();
    for StreamKey { unit, .. } in replaced.iter().filter(|stream| stream.store == *store) {
        replaced_kinds
            .entry(&unit.cluster)
            .or_default()
            .push(KindExtent::of(unit));
    }
    let of_store = plan.coverage.iter().filter(|((name, _), _)| name == store);
    let retained = of_store.map(|((_, cluster), coverage)| {
        let units = units.remove(cluster).unwrap_or_default();
        let kinds = extents(coverage)
            .into_iter()
            .chain(replaced_kinds.remove(cluster).unwrap_or_default())
            .collect();
        (
            cluster.clone(),
            coverage
                .certain
                .then_some(ClusterRetention { kinds, units }),
        )
    });
    // A store that no registry names any more is emptied even while not every member is known.
    let retains_other_clusters = !knows_all_members && plan.stores.contains_key(store);
    Retention {
        clusters: retained.collect(),
        retains_other_clusters,
        naming: Naming::Named,
        same_prefix_stores: BTreeSet::new(),
    }
}

/// The kinds of a coverage, one extent for each namespace.
fn extents(coverage: &Coverage) -> Vec<KindExtent> {
    let mut extents = Vec::new();
    for (gvk, namespaces) in &coverage.kinds {
        let extent = |namespace| KindExtent {
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            namespace,
        };
        match namespaces {
            NamespaceExtent::All => extents.push(extent(None)),
            NamespaceExtent::Namespaces(names) => {
                extents.extend(names.iter().cloned().map(Some).map(extent));
            }
        }
    }
    extents
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Scope, Unit};

    use super::*;
    use crate::plan::{StorePlan, StreamPlan};

    fn stream(cluster: &str, version: &str, kind: &str, store: &str) -> StreamKey {
        let resource = Resource {
            gvk: Gvk::new("apps", version, kind),
            plural: kind.to_lowercase().into(),
            namespaced: true,
        };
        StreamKey {
            unit: Unit {
                cluster: cluster.parse().unwrap(),
                resource,
                scope: Scope::All,
            },
            store: store.parse().unwrap(),
        }
    }

    /// Each cluster with what stays of it: its kinds, or `?` where everything stays.
    fn lines(retention: &Retention) -> Vec<String> {
        let line = |(cluster, retained): (&ClusterName, &Option<ClusterRetention>)| {
            let Some(ClusterRetention { kinds, units }) = retained else {
                return format!("{cluster} ?");
            };
            let kind = |extent: &KindExtent| {
                let namespace = extent.namespace.as_ref();
                format!(
                    "{}/{}{}",
                    extent.api_version,
                    extent.kind,
                    namespace.map_or(String::new(), |name| format!(" in {name}"))
                )
            };
            let kinds: Vec<String> = kinds.iter().map(kind).collect();
            format!(
                "{cluster} [{}] {} checkpoints",
                kinds.join(", "),
                units.len()
            )
        };
        retention.clusters.iter().map(line).collect()
    }

    #[test]
    fn a_store_retains_what_the_plan_covers_in_it_and_the_documents_of_replaced_streams() {
        let (main, other): (StoreName, StoreName) =
            ("main".parse().unwrap(), "other".parse().unwrap());
        let gvk = Gvk::new("apps", "v1", "Deployment");
        let coverage = |extent, certain| Coverage {
            kinds: BTreeMap::from([(gvk.clone(), extent)]),
            certain,
        };
        let web = NamespaceExtent::Namespaces(BTreeSet::from([
            "db".parse().unwrap(),
            "web".parse().unwrap(),
        ]));
        let mut plan = Plan::default();
        for (cluster, store, coverage) in [
            ("a", &main, coverage(NamespaceExtent::All, true)),
            ("b", &main, coverage(web, true)),
            ("c", &main, coverage(NamespaceExtent::All, false)),
            ("d", &other, coverage(NamespaceExtent::All, true)),
        ] {
            plan.coverage
                .insert((store.clone(), cluster.parse().unwrap()), coverage);
        }
        for (cluster, store) in [("a", "main"), ("a", "other")] {
            plan.streams.insert(
                stream(cluster, "v1", "Deployment", store),
                StreamPlan::default(),
            );
        }
        let replaced = BTreeSet::from([
            stream("a", "v1beta1", "Deployment", "main"),
            stream("b", "v1beta1", "Deployment", "other"),
        ]);
        let retention = planned_retention(&plan, &main, &replaced, true);
        assert_eq!(
            lines(&retention),
            [
                "a [apps/v1/Deployment, apps/v1beta1/Deployment] 1 checkpoints",
                "b [apps/v1/Deployment in db, apps/v1/Deployment in web] 0 checkpoints",
                "c ?",
            ]
        );
        assert_eq!(retention.naming, Naming::Named);
    }

    #[test]
    fn documents_of_unknown_clusters_stay_in_stores_in_use_until_every_member_is_known() {
        let store: StoreName = "main".parse().unwrap();
        let in_use = Plan {
            stores: BTreeMap::from([(store.clone(), StorePlan::default())]),
            ..Plan::default()
        };
        for (plan, knows_all_members, expected) in [
            (&in_use, false, true),
            (&in_use, true, false),
            (&Plan::default(), false, false),
        ] {
            let retention = planned_retention(plan, &store, &BTreeSet::new(), knows_all_members);
            assert_eq!(retention.retains_other_clusters, expected);
        }
    }
}
