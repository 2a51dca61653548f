//! `ClusterCache`s as planning sees them, and the rows of their status as what runs has them.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_api::{
    cluster_cache::{Cache, CachePhase, CachedResource, ClusterSelector},
    registry::{ResourceRegistrySpec, ResourceSelector},
};
use fleetdex_core::model::{ClusterName, Scope, Unit};
use fleetdex_sync::progress::{Progress, UnitState};
use kube::ResourceExt;

use super::{
    RegistryView,
    plan::{ClusterPlan, RegistryPlan},
};

pub mod status;

use status::{Key, Observed};

/// Periods of the status without a contact after which a row is Unknown.
pub const MISSED_PERIODS: u32 = 3;

/// The registries without a store that a cache stands for: one for each selection of clusters, because any of them is enough.
pub fn views(group: &str, cache: &Cache) -> Vec<RegistryView> {
    let resource_selectors: Vec<ResourceSelector> = cache
        .spec
        .resource_selectors
        .iter()
        .map(resource_selector)
        .collect();
    let selections = cache.spec.cluster_selectors.iter().enumerate();
    let view = |(index, selection): (usize, &ClusterSelector)| RegistryView {
        name: view_name(group, &cache.name_any(), index),
        uid: cache.uid().unwrap_or_default(),
        created: cache
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        spec: ResourceRegistrySpec {
            target_cluster: selection.affinity(),
            resource_selectors: resource_selectors.clone(),
            ..ResourceRegistrySpec::default()
        },
    };
    selections.map(view).collect()
}

/// What a plan calls one selection of clusters of a cache. No registry has such a name.
pub fn view_name(group: &str, cache: &str, index: usize) -> String {
    let name = format!("clustercaches.{group}/{cache}");
    if index == 0 {
        name
    } else {
        format!("{name}#{}", index + 1)
    }
}

fn resource_selector(resource: &CachedResource) -> ResourceSelector {
    ResourceSelector {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        ..ResourceSelector::default()
    }
}

/// What the rows of a cache are made from.
pub struct Inputs<'a> {
    /// Its resources.
    pub resources: &'a [CachedResource],
    /// What its selections of clusters came to.
    pub plans: &'a [&'a RegistryPlan],
    /// Sources of clusters that have not been read yet: a cluster that is not there may be in one of them.
    pub unread: &'a [String],
    /// Why a member has not been reached for [`MISSED_PERIODS`]; nothing if it has.
    pub lost: &'a dyn Fn(&ClusterName) -> Option<String>,
    /// The progress of a stream that runs, or ran until its member was lost.
    pub progress: &'a dyn Fn(&Unit) -> Option<&'a Progress>,
    /// The time between two looks at the status.
    pub period: Duration,
}

/// Every row of a cache.
pub fn rows(inputs: &Inputs<'_>) -> Vec<Observed> {
    let mut rows = BTreeMap::new();
    for plan in inputs.plans {
        for (cluster, of_cluster) in &plan.clusters {
            let observed = cluster_rows(cluster, of_cluster, inputs);
            rows.extend(observed.into_iter().map(|row| (row.key.clone(), row)));
        }
        for name in &plan.not_found {
            let (phase, reason) = absent(name, inputs.unread);
            let absent = inputs
                .resources
                .iter()
                .map(|resource| Observed::without(key(name, resource), phase, &reason));
            rows.extend(absent.map(|row| (row.key.clone(), row)));
        }
    }
    rows.into_values().collect()
}

fn absent(name: &str, unread: &[String]) -> (CachePhase, String) {
    if unread.is_empty() {
        return (
            CachePhase::Failed,
            format!("no Cluster is named {name}; join it, or remove it from clusterNames"),
        );
    }
    let reason = format!(
        "no cluster is named {name} so far; not read yet: {}",
        unread.join(", ")
    );
    (CachePhase::Unknown, reason)
}

fn cluster_rows(cluster: &ClusterName, plan: &ClusterPlan, inputs: &Inputs<'_>) -> Vec<Observed> {
    let lost = (inputs.lost)(cluster);
    if !plan.discovered {
        let reason = lost.as_deref().unwrap_or("not asked yet what it serves");
        let of = |resource| {
            Observed::without(key(cluster.as_str(), resource), CachePhase::Unknown, reason)
        };
        return inputs.resources.iter().map(of).collect();
    }
    let problems = plan.problems.iter().map(|problem| {
        let key = Key {
            api_version: problem.api_version.clone(),
            kind: problem.kind.clone(),
            ..Key::of(cluster.as_str())
        };
        match &lost {
            Some(reason) => Observed::without(key, CachePhase::Unknown, reason),
            None => Observed::without(key, CachePhase::Failed, &problem.problem.to_string()),
        }
    });
    let units = plan.units.iter().map(|unit| {
        let progress = (inputs.progress)(unit);
        let (phase, reason) = match &lost {
            Some(reason) => (CachePhase::Unknown, reason.clone()),
            None => progress.map_or_else(not_begun, |progress| {
                judge(&Seen::of(progress), inputs.period)
            }),
        };
        Observed {
            key: unit_key(unit),
            phase,
            reason,
            objects: progress.map_or(0, Progress::objects),
        }
    });
    problems.chain(units).collect()
}

fn key(cluster: &str, resource: &CachedResource) -> Key {
    Key {
        cluster: cluster.to_owned(),
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
    }
}

fn unit_key(unit: &Unit) -> Key {
    let gvk = &unit.resource.gvk;
    let namespace = match &unit.scope {
        Scope::All => String::new(),
        Scope::Namespace(namespace) => namespace.to_string(),
    };
    Key {
        cluster: unit.cluster.to_string(),
        api_version: gvk.api_version(),
        kind: gvk.kind.to_string(),
        namespace,
    }
}

/// What of a stream's progress decides its phase.
#[derive(Clone, Debug)]
struct Seen {
    state: UnitState,
    was_synced: bool,
    failing_for: Duration,
}

impl Seen {
    fn of(progress: &Progress) -> Self {
        Self {
            state: progress.state(),
            was_synced: progress.view().synced_at.is_some(),
            failing_for: progress.failing_for().unwrap_or_default(),
        }
    }
}

fn not_begun() -> (CachePhase, String) {
    (
        CachePhase::Unknown,
        "the first list has not been read yet".to_owned(),
    )
}

/// A stream that was complete once counts as Running over a relist, and over a connection that breaks off for less than the missed periods:
/// what it has is still there.
fn judge(seen: &Seen, period: Duration) -> (CachePhase, String) {
    match &seen.state {
        UnitState::Synced => (CachePhase::Running, String::new()),
        UnitState::Starting | UnitState::Listing if seen.was_synced => {
            (CachePhase::Running, String::new())
        }
        UnitState::Starting | UnitState::Listing => not_begun(),
        UnitState::Failing { reason, .. }
            if reason == "Unreachable"
                && seen.was_synced
                && seen.failing_for <= period * MISSED_PERIODS =>
        {
            (CachePhase::Running, String::new())
        }
        UnitState::Failing { reason, message } if reason == "Unreachable" => {
            (CachePhase::Unknown, format!("{reason}: {message}"))
        }
        UnitState::Failing { reason, message } => {
            (CachePhase::Failed, format!("{reason}: {message}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use fleetdex_core::model::{Gvk, Resource};
    use fleetdex_sync::progress::Obstacle;
    use serde_json::json;

    use super::*;
    use crate::{plan::KindProblem, selection::Problem};

    const PERIOD: Duration = Duration::from_secs(10);

    fn cache(spec: &serde_json::Value) -> Cache {
        serde_json::from_value(
            json!({ "metadata": { "name": "sample", "uid": "u" }, "spec": spec }),
        )
        .unwrap()
    }

    #[test]
    fn each_selection_of_clusters_is_a_view_with_an_exclude_of_its_own() {
        let cache = cache(&json!({
            "clusterSelectors": [{ "exclude": ["member1"] }, { "clusterNames": ["member1"] }],
            "resourceSelectors": [{ "kind": "Pod" }, { "apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "kube-system" }],
        }));
        let views = views("cluster.karmada.io", &cache);
        let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "clustercaches.cluster.karmada.io/sample",
                "clustercaches.cluster.karmada.io/sample#2"
            ]
        );
        let [all_but_one, that_one] = &views[..] else {
            panic!("{views:?}")
        };
        assert_eq!(all_but_one.spec.target_cluster.exclude, ["member1"]);
        assert_eq!(
            (
                &that_one.spec.target_cluster.cluster_names[..],
                &that_one.spec.target_cluster.exclude[..]
            ),
            (&["member1".to_owned()][..], &[][..])
        );
        let selectors = serde_json::to_value(&that_one.spec.resource_selectors).unwrap();
        assert_eq!(
            selectors,
            json!([{ "kind": "Pod" }, { "apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "kube-system" }])
        );
        assert!(that_one.spec.backend_store.is_none());
    }

    #[test]
    fn a_phase_says_whether_the_objects_are_there_and_followed() {
        let failing = |reason: &'static str| UnitState::Failing {
            reason: reason.into(),
            message: "why".to_owned(),
        };
        let short = Duration::from_secs(30);
        let long = Duration::from_secs(31);
        for (state, was_synced, failing_for, expected) in [
            (
                UnitState::Starting,
                false,
                Duration::ZERO,
                "Unknown the first list has not been read yet",
            ),
            (
                UnitState::Listing,
                false,
                Duration::ZERO,
                "Unknown the first list has not been read yet",
            ),
            (UnitState::Listing, true, Duration::ZERO, "Running "),
            (UnitState::Synced, true, Duration::ZERO, "Running "),
            (failing("Unreachable"), true, short, "Running "),
            (
                failing("Unreachable"),
                true,
                long,
                "Unknown Unreachable: why",
            ),
            (
                failing("Unreachable"),
                false,
                Duration::ZERO,
                "Unknown Unreachable: why",
            ),
            (
                failing("Forbidden"),
                true,
                Duration::ZERO,
                "Failed Forbidden: why",
            ),
            (failing("NotServed"), false, long, "Failed NotServed: why"),
        ] {
            let seen = Seen {
                state,
                was_synced,
                failing_for,
            };
            let (phase, reason) = judge(&seen, PERIOD);
            assert_eq!(format!("{phase:?} {reason}"), expected, "{seen:?}");
        }
    }

    fn unit(kind: &str, namespace: Option<&str>) -> Unit {
        let resource = Resource {
            gvk: Gvk::new("", "v1", kind),
            plural: format!("{kind}s").into(),
            namespaced: true,
        };
        let scope = namespace.map_or(Scope::All, |name| Scope::Namespace(name.parse().unwrap()));
        Unit {
            cluster: "member1".parse().unwrap(),
            resource,
            scope,
        }
    }

    fn lines(
        plan: &RegistryPlan,
        lost: Option<&str>,
        progress: &[(Unit, Arc<Progress>)],
    ) -> Vec<String> {
        let resources: Vec<CachedResource> = serde_json::from_value(
            json!([{ "kind": "Pod" }, { "kind": "Secret", "namespace": "web" }]),
        )
        .unwrap();
        let rows = rows(&Inputs {
            resources: &resources,
            plans: &[plan, plan],
            unread: &[],
            lost: &|_| lost.map(str::to_owned),
            progress: &|unit| {
                progress
                    .iter()
                    .find(|(known, _)| known == unit)
                    .map(|(_, progress)| &**progress)
            },
            period: PERIOD,
        });
        let line = |row: &Observed| {
            let Key {
                cluster,
                api_version,
                kind,
                namespace,
            } = &row.key;
            format!(
                "{cluster} {api_version} {kind} {namespace} {} {:?} {}",
                row.objects, row.phase, row.reason
            )
        };
        rows.iter().map(line).collect()
    }

    #[test]
    fn a_cluster_that_is_not_there_may_still_be_found_in_a_source_that_has_not_been_read() {
        assert_eq!(absent("a", &[]).0, CachePhase::Failed);
        let (phase, reason) = absent("a", &["Cluster API Clusters".to_owned()]);
        assert_eq!(
            (phase, reason.as_str()),
            (
                CachePhase::Unknown,
                "no cluster is named a so far; not read yet: Cluster API Clusters"
            )
        );
    }

    #[test]
    fn there_is_a_row_for_each_stream_each_problem_and_each_resource_of_a_cluster_that_is_not_there()
     {
        let problem = Problem::UnknownKind {
            kind: "Ingress".to_owned(),
            api_version: String::new(),
        };
        let of_member = ClusterPlan {
            discovered: true,
            units: BTreeSet::from([unit("Pod", None), unit("Secret", Some("web"))]),
            problems: vec![KindProblem {
                api_version: String::new(),
                kind: "Ingress".to_owned(),
                problem,
            }],
            ..ClusterPlan::default()
        };
        let plan = RegistryPlan {
            clusters: BTreeMap::from([
                ("member1".parse().unwrap(), of_member),
                ("member2".parse().unwrap(), ClusterPlan::default()),
            ]),
            not_found: BTreeSet::from(["member9".to_owned()]),
            ..RegistryPlan::default()
        };
        let pods = Progress::new("member1".parse().unwrap(), Arc::default());
        pods.set_objects(7);
        pods.reached("5".parse().unwrap());
        let secrets = Progress::new("member1".parse().unwrap(), Arc::default());
        secrets.failing(Obstacle::Refusal, "Forbidden", "no".to_owned());
        let progress = [
            (unit("Pod", None), pods),
            (unit("Secret", Some("web")), secrets),
        ];
        insta::assert_snapshot!(lines(&plan, None, &progress).join("\n"), @r#"
        member1  Ingress  0 Failed the server doesn't have a resource type "Ingress"
        member1 v1 Pod  7 Running 
        member1 v1 Secret web 0 Failed Forbidden: no
        member2  Pod  0 Unknown not asked yet what it serves
        member2  Secret web 0 Unknown not asked yet what it serves
        member9  Pod  0 Failed no Cluster is named member9; join it, or remove it from clusterNames
        member9  Secret web 0 Failed no Cluster is named member9; join it, or remove it from clusterNames
        "#);
        insta::assert_snapshot!(lines(&plan, Some("not reached"), &progress)[..5].join("\n"), @r#"
        member1  Ingress  0 Unknown not reached
        member1 v1 Pod  7 Unknown not reached
        member1 v1 Secret web 0 Unknown not reached
        member2  Pod  0 Unknown not reached
        member2  Secret web 0 Unknown not reached
        "#);
    }
}
