//! Reads answers of discovery. They are a member's own words, and everything downstream repeats them: paths, keys, metric labels, statuses and
//! log lines. So only names that Kubernetes allows are taken, and only so many; the rest is counted.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use fleetdex_core::model::{First, Gvk, Resource};
use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;

use super::{Answer, Discovery, GroupVersion, MAX_RESOURCES, Offers, Served, Subresource};

/// Groups and versions of an answer. A control plane with every provider of Crossplane has about 1,500.
pub(super) const MAX_GROUP_VERSIONS: usize = 5_000;
/// Verbs, short names and categories of a resource, and verbs of a subresource. Kubernetes has 8 verbs.
pub(super) const MAX_WORDS: usize = 32;
/// Subresources of a resource. Pods have 10.
pub(super) const MAX_SUBRESOURCES: usize = 64;
/// Verbs, short names, categories and subresources of all resources together: each takes a pointer. A custom resource has about 14.
const MAX_PARTS: usize = 20 * MAX_RESOURCES;
/// Entries of a classic list, where subresources are entries, too.
const MAX_ENTRIES: usize = 5 * MAX_RESOURCES;
/// Memory for the different names of an answer. 10,000 resources with three names of 30 bytes each take 3 MB.
const MAX_NAMES_BYTES: usize = 8 << 20;
/// What a name takes besides its bytes: counters, length, and its place in the set of names.
const NAME_OVERHEAD: usize = 64;
/// Source: DNS subdomains of RFC 1123, which groups are.
const MAX_GROUP: usize = 253;
/// Source: DNS labels of RFC 1123, which versions, plurals and, but for capitals, kinds are.
const MAX_NAME: usize = 63;

/// Reads the answers of one member; the limits are those of all that one reader reads.
#[derive(Debug, Default)]
pub struct Reader {
    names: HashSet<Arc<str>>,
    names_bytes: usize,
    resources: usize,
    group_versions: usize,
    parts: usize,
    left_out: usize,
}

/// A group and version whose resources are read.
struct Place {
    group: Arc<str>,
    version: Arc<str>,
    preferred: bool,
}

/// What is said of a resource.
struct Described<'a> {
    plural: &'a str,
    singular: &'a str,
    kind: &'a str,
    namespaced: bool,
    verbs: &'a Words,
    short_names: &'a Words,
    categories: &'a Words,
}

impl Reader {
    /// How many names were left out so far.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Reads an answer to `GET /api` or `GET /apis`, of whichever shape the member chose.
    pub fn answer(&mut self, body: &[u8]) -> Result<Answer, serde_json::Error> {
        let RawAnswer {
            kind,
            items,
            groups,
            versions,
        } = serde_json::from_slice(body)?;
        match kind {
            AnswerKind::Aggregated => self.aggregated(&items).map(Answer::Aggregated),
            AnswerKind::Groups => {
                let groups = groups.ok_or_else(|| serde_json::Error::missing_field("groups"))?;
                self.group_list(&groups).map(Answer::Classic)
            }
            AnswerKind::CoreVersions => {
                let versions =
                    versions.ok_or_else(|| serde_json::Error::missing_field("versions"))?;
                let named =
                    versions
                        .first
                        .into_iter()
                        .enumerate()
                        .map(|(index, name)| GroupVersion {
                            name,
                            preferred: index == 0,
                        });
                self.left_out += versions.more;
                Ok(Answer::Classic(self.classic_versions(named)))
            }
        }
    }

    /// Reads a classic answer to `GET /api/v1` or `GET /apis/<group>/<version>`.
    pub fn resources(
        &mut self,
        version: &GroupVersion,
        body: &[u8],
    ) -> Result<Discovery, serde_json::Error> {
        let RawResourceList { resources } = serde_json::from_slice(body)?;
        let mut found = Discovery::default();
        let (group, name) = split(&version.name);
        let Some(place) = self.place(group, name, version.preferred) else {
            return Ok(found);
        };
        self.left_out += resources.more;
        let mut subresources = self.classic_subresources(&place, &resources.first)?;
        for entry in &resources.first {
            let entry: RawResource = serde_json::from_str(entry.get())?;
            if entry.name.contains('/') || entry.kind.is_empty() {
                continue;
            }
            let (below, more) = subresources.remove(&*entry.name).unwrap_or_default();
            self.left_out += more;
            let described = Described {
                plural: &entry.name,
                singular: &entry.singular_name,
                kind: &entry.kind,
                namespaced: entry.namespaced,
                verbs: &entry.verbs,
                short_names: &entry.short_names,
                categories: &entry.categories,
            };
            self.add(&mut found, &place, &described, below);
        }
        if resources.more > 0 {
            found.unknown.insert(version.name.clone());
        }
        Ok(found)
    }

    fn aggregated(
        &mut self,
        groups: &First<&RawValue, MAX_GROUP_VERSIONS>,
    ) -> Result<Discovery, serde_json::Error> {
        let mut discovery = Discovery::default();
        self.left_out += groups.more;
        for group in &groups.first {
            let RawDiscoveryGroup { metadata, versions } = serde_json::from_str(group.get())?;
            self.left_out += versions.more;
            for (index, version) in versions.first.iter().enumerate() {
                let version: RawDiscoveryVersion<'_> = serde_json::from_str(version.get())?;
                let Some(place) = self.place(&metadata.name, &version.version, index == 0) else {
                    continue;
                };
                self.aggregated_version(&mut discovery, &place, &version)?;
            }
        }
        discovery.left_out = self.left_out;
        Ok(discovery)
    }

    fn aggregated_version(
        &mut self,
        discovery: &mut Discovery,
        place: &Place,
        version: &RawDiscoveryVersion<'_>,
    ) -> Result<(), serde_json::Error> {
        let resources = &version.resources;
        for resource in &resources.first {
            let resource: RawDiscoveryResource = serde_json::from_str(resource.get())?;
            let kind = resource
                .response_kind
                .as_ref()
                .map_or("", |response| &response.kind);
            if kind.is_empty() {
                continue;
            }
            let below = resource.subresources.first.iter().filter_map(|below| {
                let said = below.response_kind.as_ref();
                let kind = said.map(|said| (&*said.group, &*said.version, &*said.kind));
                self.subresource(
                    place,
                    &below.subresource,
                    kind.unwrap_or_default(),
                    &below.verbs,
                )
            });
            let below = below.collect();
            self.left_out += resource.subresources.more;
            let described = Described {
                plural: &resource.resource,
                singular: &resource.singular_resource,
                kind,
                namespaced: resource.scope == "Namespaced",
                verbs: &resource.verbs,
                short_names: &resource.short_names,
                categories: &resource.categories,
            };
            self.add(discovery, place, &described, below);
        }
        self.left_out += resources.more;
        // An aggregated API that has just been registered is shown with nothing in it.
        if version.freshness == "Stale" || resources.first.is_empty() || resources.more > 0 {
            discovery.unknown.insert(place.name());
        }
        Ok(())
    }

    fn group_list(
        &mut self,
        groups: &First<&RawValue, MAX_GROUP_VERSIONS>,
    ) -> Result<Vec<GroupVersion>, serde_json::Error> {
        let mut named = Vec::new();
        self.left_out += groups.more;
        for group in &groups.first {
            let group: RawGroup = serde_json::from_str(group.get())?;
            self.left_out += group.versions.more;
            named.extend(self.classic_versions(group.versions().into_iter()));
            // Each of them is a request.
            self.left_out += named.len().saturating_sub(MAX_GROUP_VERSIONS);
            named.truncate(MAX_GROUP_VERSIONS);
        }
        Ok(named)
    }

    /// Those of these group versions that have names.
    fn classic_versions(
        &mut self,
        versions: impl Iterator<Item = GroupVersion>,
    ) -> Vec<GroupVersion> {
        let mut kept = Vec::new();
        for version in versions {
            let (group, name) = split(&version.name);
            if is_group(group) && is_name(name) {
                kept.push(version);
            } else {
                self.left_out += 1;
            }
        }
        kept
    }

    /// By the name of the resource: its subresources, and how many more it has than are taken.
    fn classic_subresources(
        &mut self,
        place: &Place,
        entries: &[&RawValue],
    ) -> Result<BTreeMap<String, (Vec<Subresource>, usize)>, serde_json::Error> {
        let mut found: BTreeMap<String, (Vec<Subresource>, usize)> = BTreeMap::new();
        for entry in entries {
            let entry: RawResource = serde_json::from_str(entry.get())?;
            let Some((resource, name)) = entry.name.split_once('/') else {
                continue;
            };
            let (known, more) = found.entry(resource.to_owned()).or_default();
            if known.len() >= MAX_SUBRESOURCES {
                *more += 1;
                continue;
            }
            known.extend(self.subresource(
                place,
                name,
                (&entry.group, &entry.version, &entry.kind),
                &entry.verbs,
            ));
        }
        Ok(found)
    }

    /// A group and version, unless its name is none or there are too many of them.
    fn place(&mut self, group: &str, version: &str, preferred: bool) -> Option<Place> {
        let place = self.place_if_allowed(group, version, preferred);
        self.left_out += usize::from(place.is_none());
        place
    }

    fn place_if_allowed(&mut self, group: &str, version: &str, preferred: bool) -> Option<Place> {
        if self.group_versions >= MAX_GROUP_VERSIONS {
            return None;
        }
        let place = Place {
            group: self.group(group)?,
            version: self.name(version)?,
            preferred,
        };
        self.group_versions += 1;
        Some(place)
    }

    /// Adds a resource. Of one for which there is no room it is not known whether it has documents, so that its group version is unknown.
    fn add(
        &mut self,
        discovery: &mut Discovery,
        place: &Place,
        described: &Described<'_>,
        subresources: Vec<Subresource>,
    ) {
        if !is_name(described.plural) || !is_name(described.kind) {
            self.left_out += 1;
            return;
        }
        match self.served(place, described, subresources) {
            Some(served) => discovery.served.push(served),
            None => {
                self.left_out += 1;
                discovery.unknown.insert(place.name());
            }
        }
    }

    fn served(
        &mut self,
        place: &Place,
        described: &Described<'_>,
        subresources: Vec<Subresource>,
    ) -> Option<Served> {
        if self.resources >= MAX_RESOURCES {
            return None;
        }
        let kind = self.name(described.kind)?;
        let plural = self.name(described.plural)?;
        // Some old APIs leave the singular out; kubectl then takes the kind in lower case.
        let singular = match described.singular {
            given if is_name(given) => self.name(given)?,
            _ => self.name(&kind.to_lowercase())?,
        };
        self.resources += 1;
        let verbs = self.words(described.verbs);
        let has = |needed: &str| verbs.iter().any(|verb| &**verb == needed);
        Some(Served {
            resource: Resource {
                gvk: place.gvk(kind),
                plural,
                namespaced: described.namespaced,
            },
            singular,
            short_names: self.words(described.short_names),
            list_and_watch: has("list") && has("watch"),
            preferred: place.preferred,
            offers: Arc::new(Offers {
                verbs,
                categories: self.words(described.categories),
                subresources,
            }),
        })
    }

    /// A subresource. A group and version that are not said are those of the resource.
    fn subresource(
        &mut self,
        place: &Place,
        name: &str,
        kind: (&str, &str, &str),
        verbs: &Words,
    ) -> Option<Subresource> {
        let subresource = self.subresource_if_allowed(place, name, kind, verbs);
        self.left_out += usize::from(subresource.is_none());
        subresource
    }

    fn subresource_if_allowed(
        &mut self,
        place: &Place,
        name: &str,
        (group, version, kind): (&str, &str, &str),
        verbs: &Words,
    ) -> Option<Subresource> {
        self.part()?;
        let name = self.name(name)?;
        let kind = if kind.is_empty() {
            Arc::from("")
        } else {
            self.name(kind)?
        };
        let kind = match version {
            "" => place.gvk(kind),
            said => Gvk {
                group: self.group(group)?,
                version: self.name(said)?,
                kind,
            },
        };
        Some(Subresource {
            name,
            kind,
            verbs: self.words(verbs),
        })
    }

    fn words(&mut self, words: &Words) -> Vec<Arc<str>> {
        let mut kept = Vec::with_capacity(words.first.len());
        for word in &words.first {
            match self.part().and_then(|()| self.name(word)) {
                Some(word) => kept.push(word),
                None => self.left_out += 1,
            }
        }
        self.left_out += words.more;
        kept
    }

    /// Room for one more part of a resource, if there is any.
    fn part(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= MAX_PARTS).then_some(())
    }

    fn group(&mut self, group: &str) -> Option<Arc<str>> {
        if is_group(group) {
            self.kept(group)
        } else {
            None
        }
    }

    fn name(&mut self, name: &str) -> Option<Arc<str>> {
        if is_name(name) { self.kept(name) } else { None }
    }

    /// Each different name is kept once.
    fn kept(&mut self, text: &str) -> Option<Arc<str>> {
        if let Some(known) = self.names.get(text) {
            return Some(Arc::clone(known));
        }
        let bytes = self.names_bytes + text.len() + NAME_OVERHEAD;
        if bytes > MAX_NAMES_BYTES {
            return None;
        }
        self.names_bytes = bytes;
        let text: Arc<str> = text.into();
        self.names.insert(Arc::clone(&text));
        Some(text)
    }
}

impl Place {
    fn gvk(&self, kind: Arc<str>) -> Gvk {
        Gvk {
            group: Arc::clone(&self.group),
            version: Arc::clone(&self.version),
            kind,
        }
    }

    fn name(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Whether a text names a group; the core group's name is empty.
pub(crate) fn is_group(text: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    text.len() <= MAX_GROUP && text.bytes().all(is_allowed)
}

/// Whether a text names a version, a kind, a resource or what belongs to one. Aggregated APIs are not checked as custom resources are: those of metrics have
/// names with more than letters, digits and `-`. Anything that means something in a path, a label or on a terminal is no name.
pub(crate) fn is_name(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'|');
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !matches!(text, "." | "..")
}

fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

type Words = First<String, MAX_WORDS>;

#[derive(Deserialize)]
struct RawAnswer<'a> {
    kind: AnswerKind,
    #[serde(borrow, default)]
    items: First<&'a RawValue, MAX_GROUP_VERSIONS>,
    #[serde(borrow)]
    groups: Option<First<&'a RawValue, MAX_GROUP_VERSIONS>>,
    versions: Option<First<String, MAX_WORDS>>,
}

#[derive(Deserialize)]
enum AnswerKind {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated,
    #[serde(rename = "APIGroupList")]
    Groups,
    #[serde(rename = "APIVersions")]
    CoreVersions,
}

#[derive(Deserialize)]
struct RawDiscoveryGroup<'a> {
    #[serde(default)]
    metadata: RawName,
    #[serde(borrow, default)]
    versions: First<&'a RawValue, MAX_GROUP_VERSIONS>,
}

#[derive(Deserialize, Default)]
struct RawName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawDiscoveryVersion<'a> {
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow, default)]
    resources: First<&'a RawValue, MAX_RESOURCES>,
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
    verbs: Words,
    #[serde(default)]
    short_names: Words,
    #[serde(default)]
    categories: Words,
    #[serde(default)]
    subresources: First<RawSubresource, MAX_SUBRESOURCES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSubresource {
    subresource: String,
    response_kind: Option<RawKind>,
    #[serde(default)]
    verbs: Words,
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGroup {
    versions: First<RawGroupVersion, MAX_GROUP_VERSIONS>,
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
        let versions = &self.versions.first;
        let preferred = self.preferred_version.as_ref().or(versions.first());
        let version = |raw: &RawGroupVersion| GroupVersion {
            name: raw.group_version.clone(),
            preferred: preferred == Some(raw),
        };
        let mut versions: Vec<GroupVersion> = versions.iter().map(version).collect();
        versions.sort_by_key(|version| !version.preferred);
        versions
    }
}

#[derive(Deserialize)]
struct RawResourceList<'a> {
    #[serde(borrow, default)]
    resources: First<&'a RawValue, MAX_ENTRIES>,
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
    verbs: Words,
    #[serde(default)]
    short_names: Words,
    #[serde(default)]
    categories: Words,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn aggregated(body: &Value) -> Discovery {
        match Reader::default()
            .answer(body.to_string().as_bytes())
            .unwrap()
        {
            Answer::Aggregated(discovery) => discovery,
            Answer::Classic(_) => panic!("an aggregated answer was read as a classic one"),
        }
    }

    fn group(name: &str, version: &str, resources: &[Value]) -> Value {
        let versions =
            json!([{ "version": version, "freshness": "Current", "resources": resources }]);
        json!({ "kind": "APIGroupDiscoveryList", "items": [{ "metadata": { "name": name }, "versions": versions }] })
    }

    fn resource(plural: &str, kind: &str) -> Value {
        json!({ "resource": plural, "responseKind": { "kind": kind }, "scope": "Namespaced", "verbs": ["list", "watch"] })
    }

    #[test]
    fn names_that_kubernetes_does_not_allow_are_left_out_and_counted() {
        let long = "a".repeat(64);
        let resources = [
            resource("pods", "Pod"),
            resource("pods?x=y", "A"),
            resource("../secrets", "B"),
            resource(&long, "C"),
            resource("ds", "X\n2026-02-03T10:00:00Z ERROR forged"),
            resource("es", &long),
        ];
        let found = aggregated(&group("a.example", "v1", &resources));
        assert_eq!((found.served.len(), found.left_out), (1, 5), "{found:?}");
        assert!(found.unknown.is_empty() && found.note().unwrap().starts_with("5 names"));
        for (group_name, version) in [
            ("A.example", "v1"),
            ("a/b", "v1"),
            (&*"a".repeat(254), "v1"),
            ("a", "v1\n"),
            ("a", ""),
        ] {
            let found = aggregated(&group(group_name, version, &resources[..1]));
            assert_eq!(
                (found.served.len(), found.unknown.len(), found.left_out),
                (0, 0, 1),
                "{group_name} {version:?}"
            );
        }
    }

    #[test]
    fn a_long_name_of_a_group_is_kept_once_for_all_of_its_resources() {
        let resources: Vec<Value> = (0..100)
            .map(|number| resource(&format!("r{number}"), "R"))
            .collect();
        let found = aggregated(&group(&"g".repeat(253), "v1", &resources));
        let first = &found.served[0].resource.gvk;
        assert_eq!(found.served.len(), 100);
        assert!(
            found
                .served
                .iter()
                .all(|served| Arc::ptr_eq(&served.resource.gvk.group, &first.group))
        );
        assert!(
            found.served.iter().all(|served| Arc::ptr_eq(
                &served.offers.verbs[0],
                &found.served[0].offers.verbs[0]
            ))
        );
    }

    #[test]
    fn more_resources_than_there_may_be_leave_their_group_unknown() {
        let resources: Vec<Value> = (0..MAX_RESOURCES + 5)
            .map(|number| resource(&format!("r{number}"), "R"))
            .collect();
        let found = aggregated(&group("a", "v1", &resources));
        assert_eq!((found.served.len(), found.left_out), (MAX_RESOURCES, 5));
        assert_eq!(
            found.unknown,
            BTreeSet::from(["a/v1".to_owned()]),
            "what was there before is not taken for gone"
        );
    }

    #[test]
    fn lists_of_a_resource_have_limits() {
        let words: Vec<String> = (0..1_000).map(|number| format!("w{number}")).collect();
        let below: Vec<Value> = words
            .iter()
            .map(|name| json!({ "subresource": name, "verbs": words }))
            .collect();
        let pods = json!({ "resource": "pods", "responseKind": { "kind": "Pod" }, "verbs": words, "shortNames": words,
            "categories": words, "subresources": below });
        let found = aggregated(&group("", "v1", &[pods]));
        let offers = &found.served[0].offers;
        assert_eq!(
            (
                offers.verbs.len(),
                offers.categories.len(),
                offers.subresources.len()
            ),
            (MAX_WORDS, MAX_WORDS, MAX_SUBRESOURCES)
        );
        assert!(
            found.served[0].short_names.len() == MAX_WORDS
                && offers.subresources[0].verbs.len() == MAX_WORDS
        );
        let more = 1_000 - MAX_WORDS;
        assert_eq!(
            found.left_out,
            3 * more + MAX_SUBRESOURCES * more + 1_000 - MAX_SUBRESOURCES
        );
    }

    /// With a look at all entries for each of them this takes minutes.
    #[test]
    fn a_classic_list_with_very_many_entries_is_read_in_one_pass() {
        let entry = |number: usize| {
            let name = if number.is_multiple_of(2) {
                format!("r{number}")
            } else {
                format!("r{}/status", number - 1)
            };
            json!({ "name": name, "kind": "R", "verbs": ["list", "watch"] })
        };
        let list = json!({ "kind": "APIResourceList", "resources": (0..60_000).map(entry).collect::<Vec<_>>() });
        let version = GroupVersion {
            name: "a/v1".to_owned(),
            preferred: true,
        };
        let mut reader = Reader::default();
        let found = reader
            .resources(&version, list.to_string().as_bytes())
            .unwrap();
        assert_eq!(found.served.len(), MAX_RESOURCES);
        assert!(
            found
                .served
                .iter()
                .all(|served| served.offers.subresources.len() == 1)
        );
        assert_eq!(
            reader.left_out(),
            60_000 - MAX_ENTRIES + MAX_ENTRIES / 2 - MAX_RESOURCES
        );
    }

    #[test]
    fn lists_may_be_null() {
        let pods = json!({ "resource": "pods", "responseKind": { "kind": "Pod" }, "verbs": null, "subresources": null });
        assert_eq!(aggregated(&group("", "v1", &[pods])).served.len(), 1);
        let version = GroupVersion {
            name: "a/v1".to_owned(),
            preferred: true,
        };
        assert_eq!(
            Reader::default()
                .resources(&version, br#"{"resources":null}"#)
                .unwrap(),
            Discovery::default()
        );
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z]{0,4}",
            "[A-Za-z0-9.:|_-]{60,70}",
            "\\PC{0,6}",
            Just("a\nb".to_owned()),
            Just("\u{1b}[2J".to_owned())
        ]
    }

    fn hostile_resource() -> impl Strategy<Value = Value> {
        let words = || prop::collection::vec(text(), 0..40);
        (text(), text(), text(), words(), words(), words(), text()).prop_map(
            |(plural, kind, singular, verbs, short, below, said)| {
                let kind_of = json!({ "group": said, "version": said, "kind": said });
                let below: Vec<Value> =
                    below.iter().map(|name| json!({ "subresource": name, "responseKind": kind_of, "verbs": short })).collect();
                json!({ "resource": plural, "responseKind": { "kind": kind }, "singularResource": singular, "verbs": verbs,
                    "shortNames": short, "categories": short, "subresources": below })
            },
        )
    }

    proptest! {
        #[test]
        fn nothing_of_a_hostile_answer_is_longer_or_other_than_a_name(
            name in text(), version in text(), resources in prop::collection::vec(hostile_resource(), 0..6)
        ) {
            let found = aggregated(&group(&name, &version, &resources));
            let allowed = |text: &str| text.len() <= MAX_GROUP && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
            for Served { resource, singular, short_names, offers, .. } in &found.served {
                let Gvk { group, version, kind } = &resource.gvk;
                let own = [group, version, kind, &resource.plural, singular];
                let below = offers.subresources.iter().flat_map(|below| {
                    [&below.kind.group, &below.kind.version, &below.kind.kind, &below.name].into_iter().chain(&below.verbs)
                });
                let words = short_names.iter().chain(&offers.verbs).chain(&offers.categories);
                for text in own.into_iter().chain(words).chain(below) {
                    prop_assert!(allowed(text), "{text:?}");
                }
            }
            prop_assert!(found.unknown.iter().all(|name| name.split('/').all(allowed)));
        }
    }
}
