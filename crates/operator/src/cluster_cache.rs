//! `ClusterCache`s as the planner sees them, and the rows of their statuses.

use std::{collections::BTreeMap, time::Duration};

use fleetdex_core::model::{ClusterName, Scope, Unit};
use fleetdex_crds::{
    cluster_cache::{Cache, CachePhase, CachedResource, ClusterSelector},
    registry::{ResourceRegistrySpec, ResourceSelector},
};
use fleetdex_sync::progress::{Progress, UnitState};
use kube::ResourceExt;

use super::{
    RegistryView,
    plan::{ClusterPlan, RegistryPlan},
};

pub mod status;

use status::{ObservedRow, RowKey};

/// How many periods of the status without a contact make a row Unknown.
pub const MISSED_PERIODS: u32 = 3;

/// The reason of rows of a cluster whose discovery is missing.
const NOT_DISCOVERED: &str = "API discovery of the cluster has not completed yet";

/// The registries without a store that a cache stands for: one for each cluster selector, because a
/// cluster has to match only one of them.
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

/// The name of one cluster selector of a cache in a plan. No registry has such a name.
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

/// The inputs of the rows of a cache.
pub struct RowInputs<'a> {
    /// Its resources.
    pub resources: &'a [CachedResource],
    /// The plans of its cluster selectors.
    pub plans: &'a [&'a RegistryPlan],
    /// Sources of clusters that have not been read yet: a cluster that is missing may be in one of
    /// them.
    pub unread: &'a [String],
    /// Why a member has not been reached for [`MISSED_PERIODS`]; `None` if it has.
    pub disconnected_reason: &'a dyn Fn(&ClusterName) -> Option<String>,
    /// The progress of a stream that runs, or that ran until its member was disconnected.
    pub progress: &'a dyn Fn(&Unit) -> Option<&'a Progress>,
    /// The period in which the status is evaluated.
    pub period: Duration,
}

/// Every row of a cache.
pub fn rows(inputs: &RowInputs<'_>) -> Vec<ObservedRow> {
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
                .map(|resource| ObservedRow::without(key(name, resource), phase, &reason));
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
        "no Cluster is named {name} so far; not read yet: {}",
        unread.join(", ")
    );
    (CachePhase::Unknown, reason)
}

fn cluster_rows(
    cluster: &ClusterName,
    plan: &ClusterPlan,
    inputs: &RowInputs<'_>,
) -> Vec<ObservedRow> {
    let disconnected_reason = (inputs.disconnected_reason)(cluster);
    if !plan.discovered {
        let reason = disconnected_reason.as_deref().unwrap_or(NOT_DISCOVERED);
        let of = |resource| {
            ObservedRow::without(key(cluster.as_str(), resource), CachePhase::Unknown, reason)
        };
        return inputs.resources.iter().map(of).collect();
    }
    let problems = plan.problems.iter().map(|problem| {
        let key = RowKey {
            api_version: problem.api_version.clone(),
            kind: problem.kind.clone(),
            ..RowKey::of(cluster.as_str())
        };
        match &disconnected_reason {
            Some(reason) => ObservedRow::without(key, CachePhase::Unknown, reason),
            None => ObservedRow::without(key, CachePhase::Failed, &problem.problem.to_string()),
        }
    });
    let units = plan.units.iter().map(|unit| {
        let progress = (inputs.progress)(unit);
        let (phase, reason) = match &disconnected_reason {
            Some(reason) => (CachePhase::Unknown, reason.clone()),
            None => progress.map_or_else(before_first_list, |progress| {
                phase_of(&PhaseInputs::of(progress), inputs.period)
            }),
        };
        ObservedRow {
            key: unit_key(unit),
            phase,
            reason,
            objects: progress.map_or(0, Progress::objects),
        }
    });
    problems.chain(units).collect()
}

fn key(cluster: &str, resource: &CachedResource) -> RowKey {
    RowKey {
        cluster: cluster.to_owned(),
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
    }
}

fn unit_key(unit: &Unit) -> RowKey {
    let gvk = &unit.resource.gvk;
    let namespace = match &unit.scope {
        Scope::All => String::new(),
        Scope::Namespace(namespace) => namespace.to_string(),
    };
    RowKey {
        cluster: unit.cluster.to_string(),
        api_version: gvk.api_version(),
        kind: gvk.kind.to_string(),
        namespace,
    }
}

/// What decides the phase of a stream's row.
#[derive(Clone, Debug)]
struct PhaseInputs {
    state: UnitState,
    was_synced: bool,
    failing_for: Duration,
}

impl PhaseInputs {
    fn of(progress: &Progress) -> Self {
        Self {
            state: progress.state(),
            was_synced: progress.status().synced_at.is_some(),
            failing_for: progress.failing_for().unwrap_or_default(),
        }
    }
}

fn before_first_list() -> (CachePhase, String) {
    (
        CachePhase::Unknown,
        "the first list has not been read yet".to_owned(),
    )
}

/// The phase and reason of a stream's row. A stream that was complete once counts as Running during
/// a relist, and while it is disconnected for less than the missed periods: its objects are still
/// there.
fn phase_of(inputs: &PhaseInputs, period: Duration) -> (CachePhase, String) {
    match &inputs.state {
        UnitState::Synced => (CachePhase::Running, String::new()),
        UnitState::Starting | UnitState::Listing if inputs.was_synced => {
            (CachePhase::Running, String::new())
        }
        UnitState::Starting | UnitState::Listing => before_first_list(),
        UnitState::Failing { reason, .. }
            if reason == "Unreachable"
                && inputs.was_synced
                && inputs.failing_for <= period * MISSED_PERIODS =>
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
    use fleetdex_sync::progress::FailureCause;
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
    fn each_cluster_selector_is_a_view_with_its_own_exclude() {
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
    fn the_phase_tells_whether_the_objects_are_stored_and_watched() {
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
            let inputs = PhaseInputs {
                state,
                was_synced,
                failing_for,
            };
            let (phase, reason) = phase_of(&inputs, PERIOD);
            assert_eq!(format!("{phase:?} {reason}"), expected, "{inputs:?}");
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
        disconnected_reason: Option<&str>,
        progress: &[(Unit, Arc<Progress>)],
    ) -> Vec<String> {
        let resources: Vec<CachedResource> = serde_json::from_value(
            json!([{ "kind": "Pod" }, { "kind": "Secret", "namespace": "web" }]),
        )
        .unwrap();
        let rows = rows(&RowInputs {
            resources: &resources,
            plans: &[plan, plan],
            unread: &[],
            disconnected_reason: &|_| disconnected_reason.map(str::to_owned),
            progress: &|unit| {
                progress
                    .iter()
                    .find(|(known, _)| known == unit)
                    .map(|(_, progress)| &**progress)
            },
            period: PERIOD,
        });
        let line = |row: &ObservedRow| {
            let RowKey {
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
    fn a_missing_cluster_is_unknown_while_a_source_has_not_been_read() {
        assert_eq!(absent("a", &[]).0, CachePhase::Failed);
        let (phase, reason) = absent("a", &["Cluster API Clusters".to_owned()]);
        assert_eq!(
            (phase, reason.as_str()),
            (
                CachePhase::Unknown,
                "no Cluster is named a so far; not read yet: Cluster API Clusters"
            )
        );
    }

    #[test]
    fn each_stream_each_problem_and_each_resource_of_a_missing_cluster_has_a_row() {
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
        pods.set_objects(7, Arc::default());
        pods.reached("5".parse().unwrap());
        let secrets = Progress::new("member1".parse().unwrap(), Arc::default());
        secrets.failing(FailureCause::Refusal, "Forbidden", "no".to_owned());
        let progress = [
            (unit("Pod", None), pods),
            (unit("Secret", Some("web")), secrets),
        ];
        insta::assert_snapshot!(lines(&plan, None, &progress).join("\n"), @r#"
        member1  Ingress  0 Failed the server doesn't have a resource type "Ingress"
        member1 v1 Pod  7 Running 
        member1 v1 Secret web 0 Failed Forbidden: no
        member2  Pod  0 Unknown API discovery of the cluster has not completed yet
        member2  Secret web 0 Unknown API discovery of the cluster has not completed yet
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
