//! What a plan consists of.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    kinds,
    model::{
        ClusterName, FieldPath, Gvk, IndexPrefix, InterpretationLevel, Namespace, Projection,
        SelectableField, StoreName, Unit,
    },
};
use fleetdex_crds::registry::{Indexing, OpenSearch};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_sync::filter::{ObjectFilter, other_paths};

use crate::selection::Problem;

/// What should run, and what the statuses say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every store that a registry names.
    pub stores: BTreeMap<StoreName, StorePlan>,
    /// Every stream that should run, and where its objects go.
    pub streams: BTreeMap<StreamKey, StreamPlan>,
    /// The plan of each registry.
    pub registries: BTreeMap<String, RegistryPlan>,
    /// What may exist in a store of a cluster. A pair that is absent here should have no documents
    /// at all.
    pub coverage: BTreeMap<(StoreName, ClusterName), Coverage>,
}

/// One store, for all registries that share it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorePlan {
    /// How to reach it and create its indices: as the oldest registry says. `None` for the embedded
    /// store.
    pub config: Option<OpenSearch>,
    /// The prefix of its indices and aliases.
    pub prefix: IndexPrefix,
    /// The redactions of all registries.
    pub redact: BTreeSet<String>,
    /// The additional selectable fields of all registries.
    pub field_paths: BTreeSet<FieldPath>,
    /// The redactions and additional fields, ready for use.
    pub projection: Projection,
    /// `Full` if any registry says so.
    pub indexing: Indexing,
    /// The greatest level that a registry asks for.
    pub interpretation: InterpretationLevel,
    /// The registries that share it, the oldest first.
    pub registries: Vec<String>,
}

impl StorePlan {
    /// Whether the objects are held in the memory of this process.
    pub fn is_embedded(&self) -> bool {
        self.config.is_none()
    }
}

/// Identifies a stream: one list and watch of a unit for one store. A store that cannot be written
/// to delays its own streams and no others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamKey {
    /// The unit that is read.
    pub unit: Unit,
    /// The store that its objects are written to.
    pub store: StoreName,
}

/// One stream: which registries select its objects, and what the member can already filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamPlan {
    /// Which registry selects which of its objects.
    pub routes: Vec<Route>,
    /// The label selector for the member, if every route has this one.
    pub label_selector: Option<String>,
    /// The field selector for the member, if every route has this one and every API server supports
    /// it.
    pub field_selector: Option<String>,
    /// The fields that the member's definition of a custom resource makes selectable.
    pub fields: Vec<FieldPath>,
    /// The interpretation rules of the kind, if any.
    pub rules: Option<KindRules>,
    /// The ids of what each registry selects, by its name; empty if all select the same objects.
    pub selections: BTreeMap<String, Arc<str>>,
}

impl StreamPlan {
    /// The selections that differ: their ids, and the positions of their routes.
    pub fn routes_of_selections(&self) -> Vec<(Arc<str>, Vec<usize>)> {
        let mut routes: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
        for (position, route) in self.routes.iter().enumerate() {
            if let Some(selection) = self.selections.get(&route.registry) {
                routes.entry(selection).or_default().push(position);
            }
        }
        let owned = |(id, routes): (&Arc<str>, Vec<usize>)| (Arc::clone(id), routes);
        routes.into_iter().map(owned).collect()
    }

    /// The selectable fields of its kind, including those of its definition.
    pub fn selectable_fields(&self, gvk: &Gvk) -> Vec<SelectableField> {
        let built_in = kinds::selectable_fields(gvk).unwrap_or_default();
        built_in
            .iter()
            .cloned()
            .chain(self.fields.iter().map(SelectableField::optional))
            .collect()
    }

    /// The paths that the selectors of a registry name and that are not selectable fields.
    pub fn selector_paths(&self, registry: &str, gvk: &Gvk) -> BTreeSet<FieldPath> {
        let filters = self
            .routes
            .iter()
            .filter(|route| route.registry == registry)
            .map(|route| &route.filter);
        other_paths(filters, &self.selectable_fields(gvk))
    }
}

/// Where objects of a stream are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The store.
    pub store: StoreName,
    /// The registry that selects them.
    pub registry: String,
    /// Which objects of the unit.
    pub filter: ObjectFilter,
}

/// The plan of a registry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegistryPlan {
    /// Its store; `None` if it names none that is valid.
    pub store: Option<StoreName>,
    /// Why nothing of it can be done, such as a redaction that is not a valid `JSONPath`. What its
    /// store contains of it stays.
    pub invalid: Option<String>,
    /// What an older registry of the same store decides otherwise.
    pub conflict: Option<String>,
    /// The selected clusters.
    pub clusters: BTreeMap<ClusterName, ClusterPlan>,
    /// The names in `clusterNames` that no cluster has.
    pub not_found: BTreeSet<String>,
    /// Whether its list of resources is empty.
    pub selects_nothing: bool,
    /// The namespaces that its selectors name, if each selector names some.
    pub namespaces: BTreeSet<String>,
}

/// The plan of a registry for one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterPlan {
    /// Whether discovery of the cluster has completed. Until then there are no streams, or none of
    /// its custom resources.
    pub discovered: bool,
    /// The units of the streams that the registry selects objects of.
    pub units: BTreeSet<Unit>,
    /// What of the registry cannot be done on this cluster.
    pub problems: Vec<KindProblem>,
    /// What is done otherwise than the registry says.
    pub notes: BTreeSet<String>,
}

/// A resource selector that matches no resource of a cluster, or perhaps not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindProblem {
    /// `apiVersion` of the selector; empty when it has none.
    pub api_version: String,
    /// `kind` of the selector.
    pub kind: String,
    /// What is wrong.
    pub problem: Problem,
}

/// Which documents of a cluster may exist in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The selected kinds, each with its selected namespaces.
    pub kinds: BTreeMap<Gvk, NamespaceExtent>,
    /// Whether that is all that should exist, so that other documents may be deleted. False while
    /// the discovery of the cluster is missing or incomplete.
    pub certain: bool,
}

/// The selected namespaces of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceExtent {
    /// All of them, or a kind that has none.
    All,
    /// Only these.
    Namespaces(BTreeSet<Namespace>),
}

impl NamespaceExtent {
    pub(super) fn of(filter: &ObjectFilter) -> Self {
        filter
            .namespaces()
            .map_or(Self::All, |namespaces| Self::Namespaces(namespaces.clone()))
    }

    pub(super) fn extend(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (Self::Namespaces(own), Self::Namespaces(more)) => own.extend(more.iter().cloned()),
            (Self::Namespaces(_), Self::All) => *self = Self::All,
        }
    }
}
