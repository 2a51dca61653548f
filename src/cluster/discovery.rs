//! What a member serves, read from its discovery answers.
//!
//! Two shapes are understood: [aggregated](https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery)
//! (`v2` and `v2beta1`: one answer for all groups) and classic (one answer per group and version).

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;

use crate::model::{Gvk, Resource};

/// The listable and watchable resources of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Every served resource, in the member's order: core group first, preferred version of a group first.
    pub served: Vec<Served>,
    /// Groups (`group/version`) that the member lists but could not answer for, such as a broken aggregated API.
    /// What they hold is unknown, so nothing of theirs may be deleted.
    pub unknown: Vec<String>,
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
    /// What is served below `/api` (`core`) and below `/apis` (`groups`), in this order.
    pub fn join(core: &Self, groups: &Self) -> Self {
        Self {
            served: core.served.iter().chain(&groups.served).cloned().collect(),
            unknown: core.unknown.iter().chain(&groups.unknown).cloned().collect(),
        }
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
        let kept: Vec<Served> = previous.served.iter().filter(lost).cloned().collect();
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
    /// Only the names of groups and versions: each must be asked for by itself.
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
        let root = if self.name.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}", self.name)
    }
}

/// Reads an answer to `GET /api` or `GET /apis`, of whichever shape the member chose.
pub fn parse_answer(body: &[u8]) -> Result<Answer, serde_json::Error> {
    let answer: RawAnswer = serde_json::from_slice(body)?;
    Ok(match answer {
        RawAnswer::Aggregated { items } => Answer::Aggregated(from_groups(&items)),
        RawAnswer::Groups { groups } => Answer::Classic(groups.iter().flat_map(RawGroup::versions).collect()),
        RawAnswer::CoreVersions { versions } => {
            let version = |(index, name)| GroupVersion { name, preferred: index == 0 };
            Answer::Classic(versions.into_iter().enumerate().map(version).collect())
        }
    })
}

/// Reads a classic answer to `GET /api/v1` or `GET /apis/<group>/<version>`.
pub fn parse_resources(version: &GroupVersion, body: &[u8]) -> Result<Vec<Served>, serde_json::Error> {
    let list: RawResourceList = serde_json::from_slice(body)?;
    let named = |resource: &&RawResource| !resource.name.contains('/') && !resource.kind.is_empty();
    Ok(list.resources.iter().filter(named).map(|resource| resource.served(version, &list.resources)).collect())
}

fn texts(words: &[String]) -> Vec<Arc<str>> {
    words.iter().map(|word| word.as_str().into()).collect()
}

fn from_groups(groups: &[RawDiscoveryGroup]) -> Discovery {
    let mut discovery = Discovery::default();
    for group in groups {
        for (index, version) in group.versions.iter().enumerate() {
            let name = api_version(&group.metadata.name, &version.version);
            let group_version = GroupVersion { name, preferred: index == 0 };
            let known = version.resources.iter().filter(|resource| !resource.kind().is_empty());
            discovery.served.extend(known.map(|resource| resource.served(&group_version)));
            // An aggregated API that has just been registered is shown with nothing in it.
            if version.freshness == "Stale" || version.resources.is_empty() {
                discovery.unknown.push(group_version.name);
            }
        }
    }
    discovery
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn list_and_watch(verbs: &[String]) -> bool {
    ["list", "watch"].iter().all(|needed| verbs.iter().any(|verb| verb == needed))
}

#[derive(Deserialize)]
#[serde(tag = "kind")]
enum RawAnswer {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated {
        #[serde(default)]
        items: Vec<RawDiscoveryGroup>,
    },
    #[serde(rename = "APIGroupList")]
    Groups { groups: Vec<RawGroup> },
    #[serde(rename = "APIVersions")]
    CoreVersions { versions: Vec<String> },
}

#[derive(Deserialize)]
struct RawDiscoveryGroup {
    #[serde(default)]
    metadata: RawName,
    #[serde(default)]
    versions: Vec<RawDiscoveryVersion>,
}

#[derive(Deserialize, Default)]
struct RawName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawDiscoveryVersion {
    version: String,
    #[serde(default)]
    resources: Vec<RawDiscoveryResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDiscoveryResource {
    resource: String,
    response_kind: Option<RawKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<RawSubresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSubresource {
    subresource: String,
    response_kind: Option<RawKind>,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct RawKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

impl RawSubresource {
    /// A group and version that are not said are those of the resource.
    fn subresource(&self, version: &GroupVersion) -> Subresource {
        let kind = match &self.response_kind {
            Some(said) if !said.version.is_empty() => Gvk::new(&said.group, &said.version, &said.kind),
            said => Gvk::from_api_version(&version.name, said.as_ref().map_or("", |said| &said.kind)),
        };
        Subresource { name: self.subresource.as_str().into(), kind, verbs: texts(&self.verbs) }
    }
}

impl RawDiscoveryResource {
    fn kind(&self) -> &str {
        self.response_kind.as_ref().map_or("", |response| &response.kind)
    }

    fn served(&self, version: &GroupVersion) -> Served {
        Served {
            resource: Resource {
                gvk: Gvk::from_api_version(&version.name, self.kind()),
                plural: self.resource.as_str().into(),
                namespaced: self.scope == "Namespaced",
            },
            singular: singular(&self.singular_resource, self.kind()),
            short_names: texts(&self.short_names),
            list_and_watch: list_and_watch(&self.verbs),
            preferred: version.preferred,
            offers: Arc::new(Offers {
                verbs: texts(&self.verbs),
                categories: texts(&self.categories),
                subresources: self.subresources.iter().map(|subresource| subresource.subresource(version)).collect(),
            }),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGroup {
    versions: Vec<RawGroupVersion>,
    preferred_version: Option<RawGroupVersion>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct RawGroupVersion {
    group_version: String,
}

impl RawGroup {
    /// Its versions, the preferred one first.
    fn versions(&self) -> Vec<GroupVersion> {
        let preferred = self.preferred_version.as_ref().or(self.versions.first());
        let version = |raw: &RawGroupVersion| GroupVersion { name: raw.group_version.clone(), preferred: preferred == Some(raw) };
        let mut versions: Vec<GroupVersion> = self.versions.iter().map(version).collect();
        versions.sort_by_key(|version| !version.preferred);
        versions
    }
}

#[derive(Deserialize)]
struct RawResourceList {
    #[serde(default)]
    resources: Vec<RawResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    /// Of a subresource's kind, where it is not the resource's own.
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

impl RawResource {
    /// `others` are all of the group and version, subresources among them.
    fn served(&self, version: &GroupVersion, others: &[Self]) -> Served {
        let below = |other: &Self| {
            let name = other.name.strip_prefix(&self.name)?.strip_prefix('/')?;
            let kind = match other.version.as_str() {
                "" => Gvk::from_api_version(&version.name, &other.kind),
                said => Gvk::new(&other.group, said, &other.kind),
            };
            Some(Subresource { name: name.into(), kind, verbs: texts(&other.verbs) })
        };
        Served {
            resource: Resource {
                gvk: Gvk::from_api_version(&version.name, &self.kind),
                plural: self.name.as_str().into(),
                namespaced: self.namespaced,
            },
            singular: singular(&self.singular_name, &self.kind),
            short_names: texts(&self.short_names),
            list_and_watch: list_and_watch(&self.verbs),
            preferred: version.preferred,
            offers: Arc::new(Offers {
                verbs: texts(&self.verbs),
                categories: texts(&self.categories),
                subresources: others.iter().filter_map(below).collect(),
            }),
        }
    }
}

/// Some old APIs leave the singular out; kubectl then takes the kind in lower case.
fn singular(given: &str, kind: &str) -> Arc<str> {
    if given.is_empty() { kind.to_lowercase().into() } else { given.into() }
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
        discovery.served.iter().map(|served| format!("{} {}", served.group_version(), served.resource.plural)).collect()
    }

    #[test]
    fn an_aggregated_answer_is_read_in_the_members_order() {
        let discovery = Discovery::join(&aggregated(API), &aggregated(APIS));
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
        let preferred: Vec<bool> = discovery.served[6..8].iter().map(|served| served.preferred).collect();
        assert_eq!(preferred, [true, false]);
    }

    #[test]
    fn a_resource_has_its_names_scope_and_verbs() {
        let discovery = aggregated(API);
        let pods = &discovery.served[3];
        let words = |words: &[Arc<str>]| words.join(" ");
        let subresource = |name: &str| pods.offers.subresources.iter().find(|subresource| &*subresource.name == name).unwrap();
        assert_eq!(words(&pods.offers.verbs), "create delete deletecollection get list patch update watch");
        assert_eq!(words(&pods.offers.categories), "all");
        assert_eq!(subresource("binding").kind, Gvk::new("", "v1", "Binding"));
        assert_eq!(words(&subresource("attach").verbs), "create get");
        assert_eq!(
            *pods,
            Served {
                offers: Arc::clone(&pods.offers),
                resource: Resource { gvk: Gvk::new("", "v1", "Pod"), plural: "pods".into(), namespaced: true },
                singular: "pod".into(),
                short_names: vec!["po".into()],
                list_and_watch: true,
                preferred: true,
            }
        );
        let watchable: Vec<bool> = discovery.served.iter().map(|served| served.list_and_watch).collect();
        assert_eq!(watchable, [false, false, true, true]);
        assert!(!discovery.served[2].resource.namespaced);
    }

    #[test]
    fn a_stale_group_is_unknown() {
        assert_eq!(aggregated(APIS).unknown, ["metrics.k8s.io/v1beta1"]);
    }

    #[test]
    fn a_version_without_any_resource_is_unknown() {
        let body = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a"},"versions":[
            {"version":"v1","freshness":"Current","resources":[]}]}]}"#;
        assert_eq!(aggregated(body), Discovery { served: vec![], unknown: vec!["a/v1".to_owned()] });
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
            resource: Resource { gvk: Gvk::new("gone.io", "v1", "Gone"), plural: "gones".into(), namespaced: true },
            ..metrics.clone()
        };
        let previous = Discovery { served: vec![metrics.clone(), gone], unknown: vec![] };
        let now = aggregated(APIS).keeping_unknown_of(&previous);
        assert_eq!(now.served.last(), Some(&metrics));
        assert_eq!(now.served.len(), aggregated(APIS).served.len() + 1);
        assert_eq!(now.clone().keeping_unknown_of(&now), now);
    }

    #[test]
    fn classic_answers_name_versions_with_the_preferred_one_first() {
        let core = parse_answer(include_bytes!("testdata/classic_api.json")).unwrap();
        assert_eq!(core, Answer::Classic(vec![GroupVersion { name: "v1".into(), preferred: true }]));
        let body = br#"{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"groupVersion":"a/v1","version":"v1"},
            {"groupVersion":"a/v2","version":"v2"}],"preferredVersion":{"groupVersion":"a/v2","version":"v2"}}]}"#;
        let expected = [("a/v2", true), ("a/v1", false)].map(|(name, preferred)| GroupVersion { name: name.into(), preferred });
        assert_eq!(parse_answer(body).unwrap(), Answer::Classic(expected.to_vec()));
        assert_eq!(expected[0].path(), "/apis/a/v2");
    }

    #[test]
    fn a_classic_resource_list_says_the_same_as_the_aggregated_answer() {
        let version = GroupVersion { name: "v1".into(), preferred: true };
        let classic = parse_resources(&version, include_bytes!("testdata/classic_v1.json")).unwrap();
        assert_eq!(classic, aggregated(API).served);
    }

    #[test]
    fn something_else_than_discovery_is_an_error() {
        assert!(parse_answer(br#"{"kind":"Status"}"#).is_err());
        assert!(parse_answer(b"<html>").is_err());
    }
}
