//! What is registered, and which store answers for it. The registry controller swaps a new catalog in whenever that changes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use fleetdex_clusters::discovery::{Offers, Served};
use fleetdex_core::{
    kinds,
    model::{ClusterName, Gvk, Namespace, PrinterColumn, Resource, SelectableField, StoreName},
    query::{ResourceName, Selectable},
};
use fleetdex_store::Store;
use jiff::Timestamp;
use kube::core::Version;

use super::{followed::Followed, reach::Reach};

/// One resource of one cluster, held by one store.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e> {
    /// The resource, as the cluster serves it.
    pub served: &'e Served,
    /// The cluster.
    pub cluster: &'e ClusterName,
    /// The store.
    pub store: &'e StoreName,
    /// Selectable fields beyond the built-in ones: of the custom resource definition, and the registry's `fieldPaths`.
    pub fields: &'e [SelectableField],
    /// Any path is selectable, because everything is indexed, or looked up in the objects themselves.
    pub any_path: bool,
}

/// A cluster, or one namespace of it.
pub type Place = (ClusterName, Option<Namespace>);

/// Everything that can be asked for at one moment.
#[derive(Clone, Default)]
pub struct Catalog {
    resources: BTreeMap<ResourceName, Registered>,
    stores: BTreeMap<StoreName, Arc<dyn Store>>,
    stale: BTreeMap<ClusterName, (Timestamp, String)>,
    registries: BTreeSet<String>,
    is_local: bool,
    followed: Vec<Followed>,
    uncertain: Vec<(ClusterName, StoreName)>,
    elsewhere: BTreeMap<ClusterName, String>,
    /// What answers about a resource lack, as whole sentences.
    gaps: BTreeMap<ResourceName, BTreeMap<Place, String>>,
    /// Clusters of which it is not known what they serve, and why.
    unread: BTreeMap<ClusterName, String>,
    /// Every cluster of which anything is registered, or should be.
    clusters: BTreeSet<ClusterName>,
    /// Other clusters are left out because the caller may not see them.
    is_restricted: bool,
    /// What stores hold only a part of.
    reaches: BTreeMap<(ResourceName, StoreName, ClusterName), Reach>,
}

/// What discovery says of the objects of a resource. Source of that of built-in resources: Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Naming {
    kind: Arc<str>,
    singular: Arc<str>,
    namespaced: bool,
}

impl Naming {
    fn of(served: &Served) -> Self {
        let Resource {
            gvk, namespaced, ..
        } = &served.resource;
        Self {
            kind: Arc::clone(&gvk.kind),
            singular: Arc::clone(&served.singular),
            namespaced: *namespaced,
        }
    }

    fn of_built_in(name: &ResourceName) -> Option<Self> {
        let built_in = kinds::find_plural(&name.group, &name.plural)?;
        Some(Self {
            kind: built_in.kind.into(),
            singular: built_in.singular().into(),
            namespaced: built_in.namespaced,
        })
    }
}

/// A resource that some registry selects in some cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Group and plural.
    pub name: ResourceName,
    /// Kind of its objects.
    pub kind: Arc<str>,
    /// Singular name, as kubectl accepts it.
    pub singular: Arc<str>,
    /// Short names, as kubectl accepts them.
    pub short_names: BTreeSet<Arc<str>>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The versions that clusters are read in, the most stable and newest first.
    pub versions: Vec<Arc<str>>,
    /// What any of its clusters offers for it.
    pub offers: Offers,
    /// Who holds it.
    pub holdings: BTreeMap<StoreName, Holding>,
    /// What clusters say of kind, singular and scope; nothing of a built-in resource.
    namings: Vec<(Naming, BTreeSet<ClusterName>)>,
    /// Whether its kind, singular and scope are what Kubernetes has, whatever clusters say.
    is_built_in: bool,
    /// What clusters say of the columns of each version; what most of them say counts.
    columns: BTreeMap<Arc<str>, Vec<ClusterColumns>>,
    /// What all of it was made from.
    sources: Vec<Source>,
}

/// The columns of a version, and the clusters whose definitions have them.
type ClusterColumns = (Arc<[PrinterColumn]>, BTreeSet<ClusterName>);

/// Clusters that serve a resource alike and have it held alike.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    served: Served,
    store: StoreName,
    fields: Vec<SelectableField>,
    any_path: bool,
    clusters: BTreeSet<ClusterName>,
}

/// What one store holds of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The clusters whose objects it holds.
    pub clusters: BTreeSet<ClusterName>,
    /// The clusters by the version that they are read in, which is that of their objects.
    pub versions: BTreeMap<Arc<str>, BTreeSet<ClusterName>>,
    fields: Vec<SelectableField>,
    /// Of some cluster not any path is selectable.
    is_closed: bool,
}

impl Catalog {
    /// Makes a store known. A resource counts only when its store is.
    pub fn add_store(&mut self, name: StoreName, store: Arc<dyn Store>) {
        self.stores.insert(name, store);
    }

    /// Names a registry that exists, for messages that say what could be changed.
    pub fn add_registry(&mut self, name: &str) {
        self.registries.insert(name.to_owned());
    }

    /// Says that there are no registries, but the flags of `fleetdex local`.
    pub fn set_local(&mut self) {
        self.is_local = true;
    }

    /// Whether that is so.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Says that the answers for a cluster are as of some time. `text` completes the sentence "cluster member2 is …", for example
    /// "disconnected since 2026-02-03T10:00:00Z".
    pub fn add_stale(&mut self, cluster: ClusterName, since: Timestamp, text: impl Into<String>) {
        self.stale.insert(cluster, (since, text.into()));
    }

    /// Names a stream, for verification.
    pub fn add_followed(&mut self, followed: Followed) {
        self.clusters.insert(followed.unit.cluster.clone());
        self.followed.push(followed);
    }

    /// Says that not everything of a cluster that should be in a store may be followed.
    pub fn add_uncertain(&mut self, cluster: ClusterName, store: StoreName) {
        self.clusters.insert(cluster.clone());
        self.uncertain.push((cluster, store));
    }

    /// Says what answers about a resource lack, in a whole sentence. The first one of a place counts.
    pub fn add_gap(&mut self, place: Place, resource: ResourceName, sentence: String) {
        self.gaps
            .entry(resource)
            .or_default()
            .entry(place)
            .or_insert(sentence);
    }

    /// Says what a store holds of a cluster that has not said yet what it serves.
    pub fn add_remembered(
        &mut self,
        cluster: &ClusterName,
        store: &StoreName,
        resource: Resource,
        any_path: bool,
    ) {
        let offers = Offers {
            verbs: ["get", "list", "watch"].map(Arc::from).to_vec(),
            ..Offers::default()
        };
        let served = Served {
            singular: resource.gvk.kind.to_ascii_lowercase().into(),
            resource,
            short_names: Vec::new(),
            list_and_watch: true,
            preferred: true,
            offers: Arc::new(offers),
        };
        self.add(Entry {
            served: &served,
            cluster,
            store,
            fields: &[],
            any_path,
        });
    }

    /// Says that it is not known what a cluster serves of which something should be held, and why.
    pub fn add_unread(&mut self, cluster: ClusterName, why: String) {
        self.clusters.insert(cluster.clone());
        self.unread.insert(cluster, why);
    }

    /// What answers about a resource lack, and where.
    pub fn gaps<'c>(
        &'c self,
        resource: &ResourceName,
    ) -> impl Iterator<Item = (&'c Place, &'c str)> {
        self.gaps
            .get(resource)
            .into_iter()
            .flatten()
            .map(|(place, sentence)| (place, sentence.as_str()))
    }

    /// The clusters of which it is not known what they serve, and why.
    pub fn unread(&self) -> impl Iterator<Item = (&ClusterName, &str)> {
        self.unread
            .iter()
            .map(|(cluster, why)| (cluster, why.as_str()))
    }

    /// Says that another replica, of this name, reads a cluster.
    pub fn add_elsewhere(&mut self, cluster: ClusterName, replica: String) {
        self.elsewhere.insert(cluster, replica);
    }

    /// The clusters that other replicas read, and their names.
    pub fn read_elsewhere(&self) -> impl Iterator<Item = (&ClusterName, &str)> {
        self.elsewhere
            .iter()
            .map(|(cluster, replica)| (cluster, replica.as_str()))
    }

    /// Registers one resource of one cluster. Kind, singular and scope of built-in resources are those of Kubernetes; where clusters disagree about others, what
    /// most of them say counts: no single member decides for all.
    pub fn add(&mut self, entry: Entry<'_>) {
        let resource = &entry.served.resource;
        let name = ResourceName::from(resource);
        self.clusters.insert(entry.cluster.clone());
        let registered = self.resources.entry(name).or_insert_with_key(|name| {
            let built_in = Naming::of_built_in(name);
            let is_built_in = built_in.is_some();
            let Naming {
                kind,
                singular,
                namespaced,
            } = built_in.unwrap_or_else(|| Naming::of(entry.served));
            Registered {
                name: name.clone(),
                kind,
                singular,
                short_names: BTreeSet::new(),
                namespaced,
                namings: Vec::new(),
                is_built_in,
                versions: Vec::new(),
                offers: Offers::default(),
                holdings: BTreeMap::new(),
                columns: BTreeMap::new(),
                sources: Vec::new(),
            }
        });
        registered.add_source(entry);
        registered.add_naming(entry);
        registered
            .short_names
            .extend(entry.served.short_names.iter().cloned());
        registered.add_version(&resource.gvk.version);
        registered.add_offers(&entry.served.offers);
        registered
            .holdings
            .entry(entry.store.clone())
            .or_default()
            .add(entry);
    }

    /// Says how a custom resource of a cluster is to be shown, if it is registered. Where clusters disagree, what most of them say counts.
    pub fn add_columns(
        &mut self,
        cluster: &ClusterName,
        name: &ResourceName,
        version: &Arc<str>,
        columns: &Arc<[PrinterColumn]>,
    ) {
        let Some(registered) = self.resources.get_mut(name) else {
            return;
        };
        let known = registered.columns.entry(Arc::clone(version)).or_default();
        match known.iter_mut().find(|(known, _)| known == columns) {
            Some((_, clusters)) => drop(clusters.insert(cluster.clone())),
            None => known.push((Arc::clone(columns), [cluster.clone()].into())),
        }
    }

    /// The part of it that is about these clusters, without the streams that run. With `resource`, other resources are left out, too.
    #[must_use]
    pub fn of_clusters(
        &self,
        clusters: &BTreeSet<ClusterName>,
        resource: Option<&ResourceName>,
    ) -> Self {
        let of_cluster = |name: &ClusterName| clusters.contains(name);
        let mut part = Self {
            stores: self.stores.clone(),
            registries: self.registries.clone(),
            is_local: self.is_local,
            clusters: self.clusters.intersection(clusters).cloned().collect(),
            is_restricted: self.is_restricted,
            ..Self::default()
        };
        part.stale.extend(
            self.stale
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .map(|(name, stale)| (name.clone(), stale.clone())),
        );
        part.elsewhere.extend(
            self.elsewhere
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .map(|(name, replica)| (name.clone(), replica.clone())),
        );
        part.unread.extend(
            self.unread
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .map(|(name, why)| (name.clone(), why.clone())),
        );
        for (of, places) in self
            .gaps
            .iter()
            .filter(|(of, _)| resource.is_none_or(|only| only == *of))
        {
            for ((name, namespace), sentence) in
                places.iter().filter(|((name, _), _)| of_cluster(name))
            {
                part.add_gap(
                    (name.clone(), namespace.clone()),
                    of.clone(),
                    sentence.clone(),
                );
            }
        }
        part.uncertain.extend(
            self.uncertain
                .iter()
                .filter(|(name, _)| of_cluster(name))
                .cloned(),
        );
        let reaches = self
            .reaches
            .iter()
            .filter(|((_, _, cluster), _)| of_cluster(cluster));
        part.reaches
            .extend(reaches.map(|(key, reach)| (key.clone(), reach.clone())));
        for registered in self
            .resources
            .values()
            .filter(|registered| resource.is_none_or(|only| registered.name == *only))
        {
            for Source {
                served,
                store,
                fields,
                any_path,
                clusters: serving,
            } in &registered.sources
            {
                for cluster in serving.intersection(clusters) {
                    part.add(Entry {
                        served,
                        cluster,
                        store,
                        fields,
                        any_path: *any_path,
                    });
                }
            }
            for (version, known) in &registered.columns {
                for (columns, saying) in known {
                    for cluster in saying.intersection(clusters) {
                        part.add_columns(cluster, &registered.name, version, columns);
                    }
                }
            }
        }
        part
    }

    /// The part of it that a caller may know of who may see these clusters and no others. Nothing in it depends on the others.
    #[must_use]
    pub fn seen_by(
        &self,
        visible: &BTreeSet<ClusterName>,
        resource: Option<&ResourceName>,
    ) -> Self {
        Self {
            is_restricted: true,
            registries: BTreeSet::new(),
            ..self.of_clusters(visible, resource)
        }
    }

    /// Whether clusters are left out because the caller may not see them.
    pub fn is_restricted(&self) -> bool {
        self.is_restricted
    }

    /// Says what of a cluster's objects of a resource a store holds; everything, as long as nothing else is said.
    pub fn add_reach(
        &mut self,
        name: &ResourceName,
        store: &StoreName,
        cluster: &ClusterName,
        reach: &Reach,
    ) {
        self.reaches
            .entry((name.clone(), store.clone(), cluster.clone()))
            .or_default()
            .extend(reach);
    }

    /// What of a cluster's objects of a resource a store holds, if that is said.
    pub fn reach(
        &self,
        name: &ResourceName,
        store: &StoreName,
        cluster: &ClusterName,
    ) -> Option<&Reach> {
        self.reaches
            .get(&(name.clone(), store.clone(), cluster.clone()))
    }

    /// Every store, by name.
    pub fn stores(&self) -> impl Iterator<Item = (&StoreName, &Arc<dyn Store>)> {
        self.stores.iter()
    }

    /// The resource of this name.
    pub fn find(&self, name: &ResourceName) -> Option<&Registered> {
        self.resources.get(name)
    }

    /// Every resource, sorted by group and plural.
    pub fn resources(&self) -> impl Iterator<Item = &Registered> {
        self.resources.values()
    }

    /// The store of this name.
    pub fn store(&self, name: &StoreName) -> Option<&Arc<dyn Store>> {
        self.stores.get(name)
    }

    /// How the answers for a cluster are old, if they are.
    pub fn stale(&self, cluster: &ClusterName) -> Option<&str> {
        self.stale.get(cluster).map(|(_, text)| text.as_str())
    }

    /// As of when the answers for a cluster are, if that is not now.
    pub fn stale_since(&self, cluster: &ClusterName) -> Option<Timestamp> {
        self.stale.get(cluster).map(|(since, _)| *since)
    }

    /// The registries that exist, sorted.
    pub fn registries(&self) -> impl Iterator<Item = &str> {
        self.registries.iter().map(String::as_str)
    }

    /// Every stream of the plan.
    pub fn followed(&self) -> &[Followed] {
        &self.followed
    }

    /// Clusters of which not everything that should be in a store may be followed.
    pub fn uncertain(&self) -> &[(ClusterName, StoreName)] {
        &self.uncertain
    }

    /// Whether anything of a cluster is followed, or should be.
    pub fn follows_cluster(&self, cluster: &ClusterName) -> bool {
        let is_followed = self
            .followed
            .iter()
            .any(|followed| followed.unit.cluster == *cluster);
        is_followed || self.uncertain.iter().any(|(name, _)| name == cluster)
    }

    /// Whether anything of a cluster is held, or should be.
    pub fn knows_cluster(&self, cluster: &ClusterName) -> bool {
        self.clusters.contains(cluster)
    }

    /// Every cluster of which anything is held, or should be.
    pub fn clusters(&self) -> &BTreeSet<ClusterName> {
        &self.clusters
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Catalog")
            .field("resources", &self.resources)
            .field("stores", &self.stores.keys())
            .field("stale", &self.stale)
            .field("registries", &self.registries)
            .field("is_local", &self.is_local)
            .field("elsewhere", &self.elsewhere)
            .field("followed", &self.followed.len())
            .field("uncertain", &self.uncertain)
            .field("gaps", &self.gaps)
            .field("unread", &self.unread)
            .field("clusters", &self.clusters)
            .field("is_restricted", &self.is_restricted)
            .field("reaches", &self.reaches)
            .finish()
    }
}

impl Registered {
    /// Its kind in its best version.
    pub fn gvk(&self) -> Gvk {
        let version = self.versions.first().map_or("", |version| version);
        Gvk::new(&self.name.group, version, &self.kind)
    }

    /// Whether some store holds it for this cluster.
    pub fn is_held_for(&self, cluster: &ClusterName) -> bool {
        self.holdings
            .values()
            .any(|holding| holding.clusters.contains(cluster))
    }

    /// The clusters whose objects some store holds; one that several stores hold comes several times.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.holdings.values().flat_map(|holding| &holding.clusters)
    }

    /// The columns of a version, or else of the best version that has any; `None` if nobody knows them.
    pub fn columns(&self, version: &str) -> Option<Arc<[PrinterColumn]>> {
        // The first of those that as many clusters say: the last one is the greatest.
        let usual = |version: &str| {
            self.columns
                .get(version)?
                .iter()
                .rev()
                .max_by_key(|(_, saying)| saying.len())
        };
        let best = || self.versions.iter().find_map(|version| usual(version));
        usual(version)
            .or_else(best)
            .map(|(columns, _)| Arc::clone(columns))
    }

    fn add_naming(&mut self, entry: Entry<'_>) {
        if self.is_built_in {
            return;
        }
        let naming = Naming::of(entry.served);
        match self.namings.iter_mut().find(|(known, _)| *known == naming) {
            Some((_, saying)) => drop(saying.insert(entry.cluster.clone())),
            None => self.namings.push((naming, [entry.cluster.clone()].into())),
        }
        // In a tie it has namespaces, which hides nothing from a caller who may list all of it; then the first one counts.
        let usual = self
            .namings
            .iter()
            .rev()
            .max_by_key(|(naming, saying)| (saying.len(), naming.namespaced));
        if let Some((
            Naming {
                kind,
                singular,
                namespaced,
            },
            _,
        )) = usual
        {
            (self.kind, self.singular, self.namespaced) =
                (Arc::clone(kind), Arc::clone(singular), *namespaced);
        }
    }

    fn add_source(&mut self, entry: Entry<'_>) {
        let is_alike = |source: &&mut Source| {
            source.store == *entry.store
                && source.any_path == entry.any_path
                && source.fields == entry.fields
                && source.served == *entry.served
        };
        if let Some(source) = self.sources.iter_mut().find(is_alike) {
            source.clusters.insert(entry.cluster.clone());
            return;
        }
        self.sources.push(Source {
            served: entry.served.clone(),
            store: entry.store.clone(),
            fields: entry.fields.to_vec(),
            any_path: entry.any_path,
            clusters: [entry.cluster.clone()].into(),
        });
    }

    /// What field selectors may name in one store.
    pub fn selectable(&self, holding: &Holding) -> Selectable {
        let selectable = Selectable::of(&self.gvk(), &holding.fields);
        if holding.is_closed {
            selectable
        } else {
            selectable.and_any_path()
        }
    }

    /// What one cluster offers is offered for the fleet; a member that does not have it says so itself.
    fn add_offers(&mut self, offers: &Offers) {
        let add = |known: &mut Vec<Arc<str>>, words: &[Arc<str>]| {
            for word in words {
                if !known.contains(word) {
                    known.push(Arc::clone(word));
                }
            }
        };
        add(&mut self.offers.verbs, &offers.verbs);
        add(&mut self.offers.categories, &offers.categories);
        for subresource in &offers.subresources {
            match self
                .offers
                .subresources
                .iter_mut()
                .find(|known| known.name == subresource.name)
            {
                Some(known) => add(&mut known.verbs, &subresource.verbs),
                None => self.offers.subresources.push(subresource.clone()),
            }
        }
    }

    fn add_version(&mut self, version: &Arc<str>) {
        if !self.versions.contains(version) {
            self.versions.push(Arc::clone(version));
            self.versions
                .sort_by_cached_key(|known| Reverse(Version::parse(known).priority()));
        }
    }
}

impl Holding {
    fn add(&mut self, entry: Entry<'_>) {
        self.clusters.insert(entry.cluster.clone());
        let version = &entry.served.resource.gvk.version;
        self.versions
            .entry(Arc::clone(version))
            .or_default()
            .insert(entry.cluster.clone());
        self.is_closed |= !entry.any_path;
        for field in entry.fields {
            if !self.fields.contains(field) {
                self.fields.push(field.clone());
            }
        }
    }
}

/// The name that people write: `pods`, `deployments.apps`.
pub fn qualified(name: &ResourceName) -> String {
    if name.group.is_empty() {
        name.plural.to_string()
    } else {
        format!("{}.{}", name.plural, name.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{pods, served, store};

    /// What the catalog has of a resource that these clusters serve.
    fn registered(served: &[(&str, Served)]) -> Registered {
        let mut catalog = Catalog::default();
        for (cluster, served) in served {
            let cluster = cluster.parse().unwrap();
            catalog.add(Entry {
                served,
                cluster: &cluster,
                store: &store("main"),
                fields: &[],
                any_path: false,
            });
        }
        catalog.resources().next().unwrap().clone()
    }

    #[test]
    fn no_member_decides_what_a_built_in_resource_is() {
        let odd = served(Gvk::new("", "v1", "Hod"), "pods", false, &[]);
        for served in [vec![("a", odd.clone()), ("b", pods())], vec![("a", odd)]] {
            let registered = registered(&served);
            assert_eq!(
                (
                    &*registered.kind,
                    &*registered.singular,
                    registered.namespaced
                ),
                ("Pod", "pod", true)
            );
        }
    }

    #[test]
    fn of_a_custom_resource_what_most_members_say_counts() {
        let widgets = |kind: &str, namespaced| {
            served(
                Gvk::new("example.com", "v1", kind),
                "widgets",
                namespaced,
                &[],
            )
        };
        let shown = |served: &[(&str, Served)]| {
            let registered = registered(served);
            format!(
                "{} {} {}",
                registered.kind, registered.singular, registered.namespaced
            )
        };
        let (odd, honest) = (widgets("Odd", false), widgets("Widget", true));
        assert_eq!(
            shown(&[
                ("a", odd.clone()),
                ("b", honest.clone()),
                ("c", honest.clone())
            ]),
            "Widget widget true"
        );
        assert_eq!(
            shown(&[
                ("a", odd.clone()),
                ("a", odd.clone()),
                ("b", honest.clone()),
                ("c", honest.clone())
            ]),
            "Widget widget true"
        );
        assert_eq!(
            shown(&[("a", odd.clone()), ("b", honest.clone())]),
            "Widget widget true",
            "with namespaces nothing is hidden"
        );
        assert_eq!(
            shown(&[
                ("a", odd),
                ("b", widgets("Widget", false)),
                ("c", widgets("Widget", false))
            ]),
            "Widget widget false"
        );
        assert_eq!(
            shown(&[("a", widgets("A", true)), ("b", widgets("B", true))]),
            "A a true"
        );
    }
}
