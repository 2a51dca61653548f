//! A registered resource: what the clusters that serve it say of it, and which stores hold it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::discovery::{ResourceCapabilities, ServedResource};
use fleetdex_core::{
    kinds,
    model::{ClusterName, Gvk, PrinterColumn, SelectableField, StoreName},
    query::{ResourceName, Selectable},
};
use kube::core::Version;

/// One resource of one cluster in one store.
#[derive(Clone, Copy, Debug)]
pub struct CatalogEntry<'e> {
    /// The resource, as the cluster serves it.
    pub served: &'e ServedResource,
    /// The cluster.
    pub cluster: &'e ClusterName,
    /// The store.
    pub store: &'e StoreName,
    /// Selectable fields beyond the built-in ones: those of the custom resource definition and the
    /// registry's `fieldPaths`.
    pub fields: &'e [SelectableField],
    /// Whether every path is selectable, because everything is indexed, or the store reads the
    /// objects.
    pub any_path: bool,
}

/// The kind, singular and scope of a resource, from discovery; of built-in resources from
/// Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceNames {
    kind: Arc<str>,
    singular: Arc<str>,
    namespaced: bool,
}

impl ResourceNames {
    fn of(served: &ServedResource) -> Self {
        Self {
            kind: Arc::clone(&served.resource.gvk.kind),
            singular: Arc::clone(&served.singular),
            namespaced: served.resource.namespaced,
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
pub struct RegisteredResource {
    /// Group and plural.
    pub name: ResourceName,
    /// Kind of its objects.
    pub kind: Arc<str>,
    /// Singular name, as kubectl accepts it.
    pub singular: Arc<str>,
    /// Short names, as kubectl accepts them.
    pub short_names: BTreeSet<Arc<str>>,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// The versions in which clusters are read, the most stable and newest first.
    pub versions: Vec<Arc<str>>,
    /// What at least one of its clusters offers.
    pub capabilities: ResourceCapabilities,
    /// What each store has of it.
    pub by_store: BTreeMap<StoreName, StoredResource>,
    /// The names that clusters give it; empty for a built-in resource.
    names_by_clusters: Vec<(ResourceNames, BTreeSet<ClusterName>)>,
    /// Whether its kind, singular and scope are Kubernetes', whatever clusters say.
    is_built_in: bool,
    /// The columns that clusters give each version; those of most clusters are used.
    pub(super) columns: BTreeMap<Arc<str>, Vec<ClusterColumns>>,
    /// The entries that this is made of.
    pub(super) sources: Vec<ResourceSource>,
}

/// The columns of a version, and the clusters whose definitions have them.
type ClusterColumns = (Arc<[PrinterColumn]>, BTreeSet<ClusterName>);

/// Clusters with equal [`CatalogEntry`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceSource {
    pub(super) served: ServedResource,
    pub(super) store: StoreName,
    pub(super) fields: Vec<SelectableField>,
    pub(super) any_path: bool,
    pub(super) clusters: BTreeSet<ClusterName>,
}

/// What one store has of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredResource {
    /// The clusters whose objects it has.
    pub clusters: BTreeSet<ClusterName>,
    /// The clusters by the version in which they are read, which is their objects' version.
    pub versions: BTreeMap<Arc<str>, BTreeSet<ClusterName>>,
    fields: Vec<SelectableField>,
    /// Whether some cluster has paths that are not selectable.
    is_closed: bool,
}

impl RegisteredResource {
    /// A resource without clusters.
    pub(super) fn new(name: &ResourceName, served: &ServedResource) -> Self {
        let built_in = ResourceNames::of_built_in(name);
        let is_built_in = built_in.is_some();
        let names = built_in.unwrap_or_else(|| ResourceNames::of(served));
        Self {
            name: name.clone(),
            kind: names.kind,
            singular: names.singular,
            short_names: BTreeSet::new(),
            namespaced: names.namespaced,
            names_by_clusters: Vec::new(),
            is_built_in,
            versions: Vec::new(),
            capabilities: ResourceCapabilities::default(),
            by_store: BTreeMap::new(),
            columns: BTreeMap::new(),
            sources: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, entry: CatalogEntry<'_>) {
        self.add_source(entry);
        self.add_names(entry);
        self.short_names
            .extend(entry.served.short_names.iter().cloned());
        self.add_version(&entry.served.resource.gvk.version);
        self.add_capabilities(&entry.served.capabilities);
        let of_store = self.by_store.entry(entry.store.clone());
        of_store.or_default().add(entry);
    }

    /// Its kind in its best version.
    pub fn gvk(&self) -> Gvk {
        let version = self.versions.first().map_or("", |version| version);
        Gvk::new(&self.name.group, version, &self.kind)
    }

    /// Whether some store has it of this cluster.
    pub fn is_stored_for(&self, cluster: &ClusterName) -> bool {
        let mut stored = self.by_store.values();
        stored.any(|stored| stored.clusters.contains(cluster))
    }

    /// The clusters whose objects some store has; a cluster in several stores occurs several times.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.by_store.values().flat_map(|stored| &stored.clusters)
    }

    /// The columns of a version, or else of the best version that has any; `None` if there are
    /// none.
    pub fn columns(&self, version: &str) -> Option<Arc<[PrinterColumn]>> {
        // In a tie the first one: `max_by_key` returns the last maximum, so the order is reversed.
        let usual = |version: &str| {
            let known = self.columns.get(version)?.iter().rev();
            known.max_by_key(|(_, clusters)| clusters.len())
        };
        let best = || self.versions.iter().find_map(|version| usual(version));
        usual(version)
            .or_else(best)
            .map(|(columns, _)| Arc::clone(columns))
    }

    fn add_names(&mut self, entry: CatalogEntry<'_>) {
        if self.is_built_in {
            return;
        }
        let names = ResourceNames::of(entry.served);
        let all = &mut self.names_by_clusters;
        match all.iter_mut().find(|(known, _)| *known == names) {
            Some((_, clusters)) => drop(clusters.insert(entry.cluster.clone())),
            None => all.push((names, [entry.cluster.clone()].into())),
        }
        // In a tie it is namespaced, which hides nothing from callers that can list all of it; then
        // the first one wins.
        let known = self.names_by_clusters.iter().rev();
        let usual = known.max_by_key(|(names, clusters)| (clusters.len(), names.namespaced));
        if let Some((names, _)) = usual {
            self.kind = Arc::clone(&names.kind);
            self.singular = Arc::clone(&names.singular);
            self.namespaced = names.namespaced;
        }
    }

    fn add_source(&mut self, entry: CatalogEntry<'_>) {
        let is_equal = |source: &&mut ResourceSource| {
            source.store == *entry.store
                && source.any_path == entry.any_path
                && source.fields == entry.fields
                && source.served == *entry.served
        };
        if let Some(source) = self.sources.iter_mut().find(is_equal) {
            source.clusters.insert(entry.cluster.clone());
            return;
        }
        self.sources.push(ResourceSource {
            served: entry.served.clone(),
            store: entry.store.clone(),
            fields: entry.fields.to_vec(),
            any_path: entry.any_path,
            clusters: [entry.cluster.clone()].into(),
        });
    }

    /// The fields that selectors can name in one store.
    pub fn selectable(&self, stored: &StoredResource) -> Selectable {
        let selectable = Selectable::of(&self.gvk(), &stored.fields);
        if stored.is_closed {
            selectable
        } else {
            selectable.and_any_path()
        }
    }

    /// Whether some store has an interpreted field for it. Its path is not that of a value in the
    /// objects.
    pub fn is_interpreted(&self, path: &str) -> bool {
        let mut stored = self.by_store.values();
        stored.any(|stored| stored.is_interpreted(path))
    }

    /// What one cluster offers is offered for the fleet; a member that does not have it says so
    /// itself.
    fn add_capabilities(&mut self, capabilities: &ResourceCapabilities) {
        let add = |known: &mut Vec<Arc<str>>, words: &[Arc<str>]| {
            for word in words {
                if !known.contains(word) {
                    known.push(Arc::clone(word));
                }
            }
        };
        add(&mut self.capabilities.verbs, &capabilities.verbs);
        add(&mut self.capabilities.categories, &capabilities.categories);
        for subresource in &capabilities.subresources {
            let all = &mut self.capabilities.subresources;
            match all.iter_mut().find(|known| known.name == subresource.name) {
                Some(known) => add(&mut known.verbs, &subresource.verbs),
                None => all.push(subresource.clone()),
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

impl StoredResource {
    /// Whether it has an interpreted field.
    fn is_interpreted(&self, path: &str) -> bool {
        let is_it =
            |field: &SelectableField| field.path.as_str() == path && field.sources.is_empty();
        self.fields.iter().any(is_it)
    }

    fn add(&mut self, entry: CatalogEntry<'_>) {
        self.clusters.insert(entry.cluster.clone());
        let version = &entry.served.resource.gvk.version;
        let of_version = self.versions.entry(Arc::clone(version));
        of_version.or_default().insert(entry.cluster.clone());
        self.is_closed |= !entry.any_path;
        for field in entry.fields {
            if !self.fields.contains(field) {
                self.fields.push(field.clone());
            }
        }
    }
}
