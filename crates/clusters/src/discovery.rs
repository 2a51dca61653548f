//! What a member serves, read from its discovery answers.
//!
//! Two shapes are understood: [aggregated](https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery)
//! (`v2` and `v2beta1`: one answer for all groups) and classic (one answer per group and version).

mod reader;

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::{Gvk, Resource};
pub use reader::Reader;
pub(super) use reader::{is_group, is_name};

/// Resources of an answer. API servers become slow with some thousand custom resources.
const MAX_RESOURCES: usize = 10_000;

/// The listable and watchable resources of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Every served resource, in the member's order: core group first, preferred version of a group first.
    pub served: Vec<Served>,
    /// Groups (`group/version`) that the member lists but could not answer for, such as a broken aggregated API.
    /// What they hold is unknown, so nothing of theirs may be deleted.
    pub unknown: BTreeSet<String>,
    /// How many names of the answers were left out, because Kubernetes allows no such names or because they are too many.
    pub left_out: usize,
}

/// One resource that a member serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Group, version, kind, plural, namespaced.
    pub resource: Resource,
    /// Singular name, as kubectl accepts it.
    pub singular: Arc<str>,
    /// Short names, as kubectl accepts them.
    pub short_names: Vec<Arc<str>>,
    /// Whether it can be listed and watched.
    pub list_and_watch: bool,
    /// Whether this is the group's preferred version.
    pub preferred: bool,
    /// What else the member offers for it.
    pub offers: Arc<Offers>,
}

/// What a member offers for a resource, beside its names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Verbs, as the member lists them.
    pub verbs: Vec<Arc<str>>,
    /// Names of sets of resources that it belongs to, such as `all`.
    pub categories: Vec<Arc<str>>,
    /// What its objects have beside themselves.
    pub subresources: Vec<Subresource>,
}

/// Something of an object that has a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// `status`, `scale`, …
    pub name: Arc<str>,
    /// What is read and written there.
    pub kind: Gvk,
    /// Verbs, as the member lists them.
    pub verbs: Vec<Arc<str>>,
}

impl Discovery {
    /// What is served at two places, such as `/api` (`core`) and `/apis` (`groups`), in this order.
    pub fn join(mut core: Self, groups: Self) -> Self {
        core.served.extend(groups.served);
        core.unknown.extend(groups.unknown);
        core.left_out += groups.left_out;
        core
    }

    /// One sentence if anything was left out.
    pub fn note(&self) -> Option<String> {
        let count = Some(self.left_out).filter(|count| *count > 0)?;
        Some(format!(
            "{count} names in its discovery are left out: Kubernetes allows no such names, or they are too many"
        ))
    }

    /// Adds what `previous` knew of groups that are unknown now, so that a short outage of an aggregated API stops no
    /// stream of its kinds.
    #[must_use]
    pub fn keeping_unknown_of(mut self, previous: &Self) -> Self {
        let answered: BTreeSet<String> = self.served.iter().map(Served::group_version).collect();
        let lost = |served: &&Served| {
            let group_version = served.group_version();
            self.unknown.contains(&group_version) && !answered.contains(&group_version)
        };
        // As many as answers may have: otherwise a member whose groups go silent one after the other would have more and more.
        let room = (2 * MAX_RESOURCES).saturating_sub(self.served.len());
        let kept: Vec<Served> = previous
            .served
            .iter()
            .filter(lost)
            .take(room)
            .cloned()
            .collect();
        self.served.extend(kept);
        self
    }
}

impl Served {
    /// The group and version that serve it, such as `apps/v1` or `v1`.
    pub fn group_version(&self) -> String {
        self.resource.gvk.api_version()
    }
}

/// An answer to `GET /api` or `GET /apis`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything at once.
    Aggregated(Discovery),
    /// Only the names of groups and versions: each must be asked for by itself. How many were left out is in the reader.
    Classic(Vec<GroupVersion>),
}

/// A group and version in a classic answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// `v1`, `apps/v1`.
    pub name: String,
    /// Whether it is the group's preferred version.
    pub preferred: bool,
}

impl GroupVersion {
    /// Where its resources are listed.
    pub fn path(&self) -> String {
        let root = if self.name.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.name)
    }
}

/// Reads an answer to `GET /api` or `GET /apis`, of whichever shape the member chose.
pub fn parse_answer(body: &[u8]) -> Result<Answer, serde_json::Error> {
    Reader::default().answer(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &[u8] = include_bytes!("testdata/aggregated_api.json");
    const APIS: &[u8] = include_bytes!("testdata/aggregated_apis.json");

    fn aggregated(body: &[u8]) -> Discovery {
        match parse_answer(body).unwrap() {
            Answer::Aggregated(discovery) => discovery,
            Answer::Classic(_) => panic!("an aggregated answer was read as a classic one"),
        }
    }

    fn names(discovery: &Discovery) -> Vec<String> {
        discovery
            .served
            .iter()
            .map(|served| format!("{} {}", served.group_version(), served.resource.plural))
            .collect()
    }

    #[test]
    fn an_aggregated_answer_is_read_in_the_members_order() {
        let discovery = Discovery::join(aggregated(API), aggregated(APIS));
        assert_eq!(
            names(&discovery),
            [
                "v1 bindings",
                "v1 componentstatuses",
                "v1 namespaces",
                "v1 pods",
                "apps/v1 controllerrevisions",
                "apps/v1 deployments",
                "autoscaling/v2 horizontalpodautoscalers",
                "autoscaling/v1 horizontalpodautoscalers",
                "cluster.karmada.io/v1alpha1 clusters",
            ]
        );
        let preferred: Vec<bool> = discovery.served[6..8]
            .iter()
            .map(|served| served.preferred)
            .collect();
        assert_eq!(preferred, [true, false]);
    }

    #[test]
    fn a_resource_has_its_names_scope_and_verbs() {
        let discovery = aggregated(API);
        let pods = &discovery.served[3];
        let words = |words: &[Arc<str>]| words.join(" ");
        let subresource = |name: &str| {
            pods.offers
                .subresources
                .iter()
                .find(|subresource| &*subresource.name == name)
                .unwrap()
        };
        assert_eq!(
            words(&pods.offers.verbs),
            "create delete deletecollection get list patch update watch"
        );
        assert_eq!(words(&pods.offers.categories), "all");
        assert_eq!(subresource("binding").kind, Gvk::new("", "v1", "Binding"));
        assert_eq!(words(&subresource("attach").verbs), "create get");
        assert_eq!(
            *pods,
            Served {
                offers: Arc::clone(&pods.offers),
                resource: Resource {
                    gvk: Gvk::new("", "v1", "Pod"),
                    plural: "pods".into(),
                    namespaced: true
                },
                singular: "pod".into(),
                short_names: vec!["po".into()],
                list_and_watch: true,
                preferred: true,
            }
        );
        let watchable: Vec<bool> = discovery
            .served
            .iter()
            .map(|served| served.list_and_watch)
            .collect();
        assert_eq!(watchable, [false, false, true, true]);
        assert!(!discovery.served[2].resource.namespaced);
    }

    #[test]
    fn a_stale_group_is_unknown() {
        assert_eq!(
            aggregated(APIS).unknown,
            BTreeSet::from(["metrics.k8s.io/v1beta1".to_owned()])
        );
    }

    #[test]
    fn a_version_without_any_resource_is_unknown() {
        let body =
            br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a"},"versions":[
            {"version":"v1","freshness":"Current","resources":[]}]}]}"#;
        assert_eq!(
            aggregated(body),
            Discovery {
                unknown: ["a/v1".to_owned()].into(),
                ..Discovery::default()
            }
        );
    }

    #[test]
    fn an_unknown_group_keeps_what_was_known_of_it() {
        let metrics = Served {
            resource: Resource {
                gvk: Gvk::new("metrics.k8s.io", "v1beta1", "PodMetrics"),
                plural: "pods".into(),
                namespaced: true,
            },
            ..aggregated(API).served[3].clone()
        };
        let gone = Served {
            resource: Resource {
                gvk: Gvk::new("gone.io", "v1", "Gone"),
                plural: "gones".into(),
                namespaced: true,
            },
            ..metrics.clone()
        };
        let previous = Discovery {
            served: vec![metrics.clone(), gone],
            ..Discovery::default()
        };
        let now = aggregated(APIS).keeping_unknown_of(&previous);
        assert_eq!(now.served.last(), Some(&metrics));
        assert_eq!(now.served.len(), aggregated(APIS).served.len() + 1);
        assert_eq!(now.clone().keeping_unknown_of(&now), now);
    }

    #[test]
    fn groups_that_go_silent_one_after_the_other_do_not_add_up() {
        let pods = aggregated(API).served[3].clone();
        let mut known = Discovery::default();
        for round in 0..5 {
            let gvk = Gvk::new(&format!("g{round}"), "v1", "A");
            let served = Served {
                resource: Resource {
                    gvk,
                    ..pods.resource.clone()
                },
                ..pods.clone()
            };
            let unknown = (0..round).map(|before| format!("g{before}/v1")).collect();
            known = Discovery {
                served: vec![served; MAX_RESOURCES],
                unknown,
                left_out: 0,
            }
            .keeping_unknown_of(&known);
        }
        assert_eq!(known.served.len(), 2 * MAX_RESOURCES);
    }

    #[test]
    fn classic_answers_name_versions_with_the_preferred_one_first() {
        let core = parse_answer(include_bytes!("testdata/classic_api.json")).unwrap();
        assert_eq!(
            core,
            Answer::Classic(vec![GroupVersion {
                name: "v1".into(),
                preferred: true
            }])
        );
        let body = br#"{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"groupVersion":"a/v1","version":"v1"},
            {"groupVersion":"a/v2","version":"v2"}],"preferredVersion":{"groupVersion":"a/v2","version":"v2"}}]}"#;
        let expected = [("a/v2", true), ("a/v1", false)].map(|(name, preferred)| GroupVersion {
            name: name.into(),
            preferred,
        });
        assert_eq!(
            parse_answer(body).unwrap(),
            Answer::Classic(expected.to_vec())
        );
        assert_eq!(expected[0].path(), "/apis/a/v2");
    }

    #[test]
    fn a_classic_resource_list_says_the_same_as_the_aggregated_answer() {
        let version = GroupVersion {
            name: "v1".into(),
            preferred: true,
        };
        let classic = Reader::default()
            .resources(&version, include_bytes!("testdata/classic_v1.json"))
            .unwrap();
        assert_eq!(
            classic,
            Discovery {
                served: aggregated(API).served,
                ..Discovery::default()
            }
        );
    }

    #[test]
    fn something_else_than_discovery_is_an_error() {
        assert!(parse_answer(br#"{"kind":"Status"}"#).is_err());
        assert!(parse_answer(b"<html>").is_err());
    }
}
