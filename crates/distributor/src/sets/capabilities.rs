//! What the clusters of sets have that charts ask for.
//!
//! Guarantee: what a cluster had last counts while it is not connected, or does not say all of it.
//! A change counts when it has lasted for some time, so that what comes and goes renders nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{MemberState, discovery::Discovery, kubernetes_version::version_numbers};
use fleetdex_core::{kinds, model::ClusterName};
use fleetdex_rendering::{
    source::Capabilities,
    variants::{best_variant, render_targets},
};
use tokio::time::Instant;

/// API versions of a cluster that count, at most. Each is an argument of helm.
const MOST_API_VERSIONS: usize = 4_000;
/// How long a change has to last: definitions are installed one after the other.
const SETTLED: Duration = Duration::from_secs(10);

/// What clusters have, as far as it is known.
#[derive(Default)]
pub struct ClusterCapabilities {
    clusters: BTreeMap<String, KnownCapabilities>,
    /// Changes whenever something of `clusters` counts that did not before.
    revision: u64,
}

/// What a cluster has.
struct KnownCapabilities {
    /// What counts.
    current: Arc<Capabilities>,
    /// What it has said since then, and when first.
    next: Option<(Arc<Capabilities>, Instant)>,
    /// What the last of both was read from.
    read_from: (String, Arc<Discovery>),
}

/// What a set is rendered for.
#[derive(Clone, Debug, Default)]
pub struct TargetCapabilities {
    /// What its clusters have, each once.
    pub distinct: BTreeSet<Arc<Capabilities>>,
    /// The clusters of which it is not known.
    pub unknown: Vec<String>,
}

impl ClusterCapabilities {
    /// Takes over what members say. Of those that are gone nothing is known any more.
    pub fn observe(&mut self, members: &BTreeMap<ClusterName, MemberState>, now: Instant) {
        let names: BTreeSet<&str> = members.keys().map(ClusterName::as_str).collect();
        self.clusters
            .retain(|name, _| names.contains(name.as_str()));
        for (name, member) in members {
            let (Some(version), Some(discovery)) = (&member.kubernetes_version, &member.discovery)
            else {
                continue;
            };
            let is_new = self.read(name.as_str(), version, discovery, now);
            if is_new || self.settle(name.as_str(), now) {
                self.revision += 1;
            }
        }
    }

    /// Reads what a member says; returns whether nothing was known before.
    fn read(
        &mut self,
        name: &str,
        version: &str,
        discovery: &Arc<Discovery>,
        now: Instant,
    ) -> bool {
        let known = self.clusters.get(name);
        let is_same = |known: &KnownCapabilities| {
            let (of_version, of_discovery) = &known.read_from;
            of_version == version && Arc::ptr_eq(of_discovery, discovery)
        };
        if known.is_some_and(is_same) {
            return false;
        }
        let read = capabilities(version, discovery, known.map(|known| &*known.current));
        let read = self.shared(Arc::new(read));
        let read_from = (version.to_owned(), Arc::clone(discovery));
        match self.clusters.get_mut(name) {
            Some(known) => {
                let before = known.next.take();
                if read != known.current {
                    let same = before.filter(|(next, _)| *next == read);
                    known.next = Some(same.unwrap_or((read, now)));
                }
                known.read_from = read_from;
                false
            }
            None => {
                let known = KnownCapabilities {
                    current: read,
                    next: None,
                    read_from,
                };
                self.clusters.insert(name.to_owned(), known);
                true
            }
        }
    }

    /// Lets a change count that has lasted; returns whether there is one.
    fn settle(&mut self, name: &str, now: Instant) -> bool {
        let Some(known) = self.clusters.get_mut(name) else {
            return false;
        };
        let has_lasted = |since: &Instant| now.duration_since(*since) >= SETTLED;
        let next = known.next.take_if(|(_, since)| has_lasted(since));
        let Some((next, _)) = next else {
            return false;
        };
        let next = self.shared(next);
        if let Some(known) = self.clusters.get_mut(name) {
            known.current = next;
        }
        true
    }

    /// The same value, if another cluster has it.
    fn shared(&self, read: Arc<Capabilities>) -> Arc<Capabilities> {
        let mut known = self.clusters.values().map(|known| &known.current);
        known.find(|known| **known == read).cloned().unwrap_or(read)
    }

    /// What these clusters have.
    pub fn of<'c>(&self, clusters: impl IntoIterator<Item = &'c str>) -> TargetCapabilities {
        let known = |name: &str| self.clusters.get(name).map(|one| Arc::clone(&one.current));
        TargetCapabilities::of(clusters.into_iter().map(|name| (name, known(name))))
    }

    /// Changes whenever another variant may be the best one for a cluster.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Which of these variants clusters have.
    pub fn assign(&self, variants: &[Capabilities]) -> BTreeMap<String, usize> {
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|(name, known)| (name.as_str(), &known.current));
        assigned(variants, clusters)
    }
}

impl TargetCapabilities {
    /// Of clusters. `None`: a cluster has not said it yet.
    pub fn of<'c>(
        clusters: impl IntoIterator<Item = (&'c str, Option<Arc<Capabilities>>)>,
    ) -> Self {
        let mut unknown = Vec::new();
        // Clusters share what is the same, and comparing it takes long.
        let mut distinct: BTreeMap<usize, Arc<Capabilities>> = BTreeMap::new();
        for (name, capabilities) in clusters {
            match capabilities {
                Some(one) => drop(distinct.insert(address(&one), one)),
                None => unknown.push(name.to_owned()),
            }
        }
        Self {
            distinct: distinct.into_values().collect(),
            unknown,
        }
    }

    /// For what a set is rendered, which has definitions of some API versions itself: it is
    /// rendered as where they are not served yet.
    pub fn targets(&self, defined: &BTreeSet<String>) -> Vec<Capabilities> {
        let without = self.distinct.iter().map(|one| one.without(defined));
        let without: BTreeSet<Capabilities> = without.collect();
        render_targets(&without)
    }
}

/// Which of these variants clusters have.
pub fn assigned<'c>(
    variants: &[Capabilities],
    clusters: impl IntoIterator<Item = (&'c str, &'c Arc<Capabilities>)>,
) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<usize, Option<usize>> = BTreeMap::new();
    let mut assigned = BTreeMap::new();
    for (name, capabilities) in clusters {
        let best = found
            .entry(address(capabilities))
            .or_insert_with(|| best_variant(variants, capabilities));
        assigned.extend(best.map(|best| (name.to_owned(), best)));
    }
    assigned
}

fn address(capabilities: &Arc<Capabilities>) -> usize {
    Arc::as_ptr(capabilities).addr()
}

/// What a member has. `before`: what it had, which counts for API versions that it lists and cannot
/// serve now.
fn capabilities(
    version: &str,
    discovery: &Discovery,
    before: Option<&Capabilities>,
) -> Capabilities {
    let (major, minor, patch) = version_numbers(version).unwrap_or_default();
    let version = format!("{major}.{minor}.{patch}");
    let is_unknown = |one: &&str| {
        let kind = one.match_indices('/').nth(1);
        let api_version = kind.map_or(*one, |(at, _)| &one[..at]);
        discovery.unknown.contains(api_version)
    };
    let mut found = api_versions(discovery);
    let before = before.into_iter().flat_map(Capabilities::api_versions);
    found.extend(before.filter(is_unknown).map(str::to_owned));
    Capabilities::new(&version, found.into_iter().take(MOST_API_VERSIONS))
}

/// The API versions, alone and with each kind, that helm does not know by itself.
fn api_versions(discovery: &Discovery) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for served in &discovery.served {
        let gvk = &served.resource.gvk;
        if kinds::find(gvk).is_some() {
            continue;
        }
        let api_version = gvk.api_version();
        found.insert(format!("{api_version}/{}", gvk.kind));
        found.insert(api_version);
    }
    found
}

#[cfg(test)]
mod tests {
    use fleetdex_clusters::discovery::ServedResource;
    use fleetdex_core::model::{Gvk, Resource};

    use super::*;

    fn served(api_version: &str, kind: &str) -> ServedResource {
        ServedResource {
            resource: Resource {
                gvk: Gvk::from_api_version(api_version, kind),
                plural: "".into(),
                namespaced: true,
            },
            singular: "".into(),
            short_names: Vec::new(),
            list_and_watch: true,
            preferred: true,
            capabilities: Arc::default(),
        }
    }

    fn discovery(kinds: &[(&str, &str)], unknown: &[&str]) -> Arc<Discovery> {
        let served = kinds
            .iter()
            .map(|(api_version, kind)| served(api_version, kind));
        Arc::new(Discovery {
            served: served.collect(),
            unknown: unknown.iter().map(|&one| one.to_owned()).collect(),
            left_out: 0,
        })
    }

    struct Observed {
        known: ClusterCapabilities,
        start: Instant,
    }

    impl Observed {
        fn new() -> Self {
            Self {
                known: ClusterCapabilities::default(),
                start: Instant::now(),
            }
        }

        /// What counts after a member has said something; returns whether it is another revision.
        fn says(
            &mut self,
            second: u64,
            version: &str,
            discovery: &Arc<Discovery>,
        ) -> (String, bool) {
            let (now, before) = (
                self.start + Duration::from_secs(second),
                self.known.revision,
            );
            let is_new = self.known.read("m1", version, discovery, now);
            if is_new || self.known.settle("m1", now) {
                self.known.revision += 1;
            }
            let current = &self.known.clusters["m1"].current;
            let served: Vec<&str> = current.api_versions().collect();
            let text = format!("{} {}", current.kubernetes_version(), served.join(","));
            (text.trim_end().to_owned(), before != self.known.revision)
        }
    }

    #[test]
    fn a_change_counts_when_it_has_lasted() {
        let (bare, web) = (discovery(&[], &[]), discovery(&[("x/v1", "Web")], &[]));
        let mut observed = Observed::new();
        for (second, version, discovery, expected, is_new) in [
            (0, "v1.36.3+k3s1", &bare, "1.36.3", true),
            (1, "v1.36.3+k3s1", &web, "1.36.3", false),
            (5, "v1.36.3+k3s1", &bare, "1.36.3", false),
            (6, "v1.36.3+k3s1", &web, "1.36.3", false),
            (12, "v1.36.3+k3s1", &web, "1.36.3", false),
            (16, "v1.36.3+k3s1", &web, "1.36.3 x/v1,x/v1/Web", true),
            (17, "v1.37.0", &web, "1.36.3 x/v1,x/v1/Web", false),
            (28, "v1.37.0", &web, "1.37.0 x/v1,x/v1/Web", true),
        ] {
            let found = observed.says(second, version, discovery);
            assert_eq!(found, (expected.to_owned(), is_new), "{second}");
        }
    }

    #[test]
    fn what_a_cluster_cannot_serve_now_counts_as_before() {
        let both = discovery(
            &[("x/v1", "Web"), ("y/v1", "Job"), ("apps/v1", "Deployment")],
            &[],
        );
        let broken = discovery(&[("y/v1", "Job")], &["x/v1"]);
        let mut observed = Observed::new();
        let expected = "1.36.3 x/v1,x/v1/Web,y/v1,y/v1/Job".to_owned();
        for (second, discovery, is_new) in [(0, &both, true), (20, &broken, false)] {
            let found = observed.says(second, "v1.36.3", discovery);
            assert_eq!(found, (expected.clone(), is_new));
            assert!(observed.known.clusters["m1"].next.is_none());
        }
    }

    #[test]
    fn a_set_is_rendered_for_what_its_clusters_have_but_not_for_what_it_brings() {
        let of = |version: &str, served: &[&str]| {
            let served = served.iter().map(|&one| one.to_owned());
            Some(Arc::new(Capabilities::new(version, served)))
        };
        let found = TargetCapabilities::of([
            ("a", of("1.36.3", &["own/v1", "x/v1"])),
            ("b", None),
            ("c", of("1.36.3", &["x/v1"])),
            ("d", of("1.35.0", &[])),
            ("e", of("1.36.3", &["x/v1"])),
        ]);
        assert_eq!(
            (found.distinct.len(), &*found.unknown),
            (3, &["b".to_owned()][..])
        );
        assert_eq!(found.targets(&BTreeSet::new()).len(), 3);
        let defined = BTreeSet::from(["own/v1".to_owned()]);
        let targets = found.targets(&defined);
        let versions: Vec<&str> = targets
            .iter()
            .map(Capabilities::kubernetes_version)
            .collect();
        assert_eq!(versions, ["1.36.3", "1.35.0"]);
        // A cluster that serves it has the same variant.
        let [a, d] = ["1.36.4", "1.35.0"].map(|version| of(version, &["own/v1", "x/v1"]).unwrap());
        let assigned = assigned(&targets, [("a", &a), ("d", &d)]);
        assert_eq!(assigned, [("a".to_owned(), 0), ("d".to_owned(), 1)].into());
    }
}
