//! Registries × members × what they serve → units, routes and stores.
//!
//! Pure and total: the same views give the same plan, whatever their order, and what cannot be planned is told in the plan. The caller
//! compares a plan with the one before: what is in both is left running, the rest is started or stopped.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_api::registry::{Indexing, OpenSearch, ResourceSelector};
use fleetdex_core::{
    kinds,
    model::{
        ClusterName, FieldPath, Gvk, IndexPrefix, Namespace, Projection, Resource, Scope,
        SelectableField, StoreName, Unit,
    },
    selector::{FieldSelector, LabelSelector},
};
use fleetdex_sync::filter::{ObjectFilter, other_paths};

use super::{
    MemberView, RegistryView, affinity,
    selection::{self, Problem},
};

mod store;

pub use store::{place, store_name};

/// What should run, and what to tell about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every store that a registry names.
    pub stores: BTreeMap<StoreName, StorePlan>,
    /// Every stream that should run, and where its objects go.
    pub units: BTreeMap<Stream, UnitPlan>,
    /// What each registry came to.
    pub registries: BTreeMap<String, RegistryPlan>,
    /// What may exist in a store of a cluster. A pair that is not here should have no documents at all.
    pub scopes: BTreeMap<(StoreName, ClusterName), Coverage>,
}

/// One store, as the registries that share it want it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorePlan {
    /// How to reach it and make its indices: as the oldest registry says. Absent: it is the embedded store.
    pub config: Option<OpenSearch>,
    /// What its indices and aliases start with.
    pub prefix: IndexPrefix,
    /// Redactions of all registries.
    pub redact: BTreeSet<String>,
    /// Extra selectable fields of all registries.
    pub field_paths: BTreeSet<FieldPath>,
    /// Redactions and extra fields, ready for use.
    pub projection: Projection,
    /// `Full` if any registry says so.
    pub indexing: Indexing,
    /// The registries that share it, the oldest first.
    pub registries: Vec<String>,
}

impl StorePlan {
    /// Whether the objects are held in the memory of this process.
    pub fn is_embedded(&self) -> bool {
        self.config.is_none()
    }
}

/// A unit, read for one store: a store that cannot be written to holds up its own streams and no others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// What is read.
    pub unit: Unit,
    /// Where it goes.
    pub store: StoreName,
}

/// One stream: who wants its objects, and what the member can leave out already.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitPlan {
    /// Who wants which of its objects.
    pub routes: Vec<Route>,
    /// Label selector for the member, when every route has this one.
    pub label_selector: Option<String>,
    /// Field selector for the member, when every route has this one and every apiserver understands it.
    pub field_selector: Option<String>,
    /// What the member's definition of a custom resource makes selectable.
    pub fields: Vec<FieldPath>,
}

impl UnitPlan {
    /// The selectable fields of its kind, those that a definition makes selectable among them.
    pub fn selectable_fields(&self, gvk: &Gvk) -> Vec<SelectableField> {
        let built_in = kinds::selectable_fields(gvk).unwrap_or_default();
        built_in
            .iter()
            .cloned()
            .chain(self.fields.iter().map(SelectableField::optional))
            .collect()
    }

    /// The paths that a registry names and that are no selectable fields.
    pub fn sought_by(&self, registry: &str, gvk: &Gvk) -> BTreeSet<FieldPath> {
        let filters = self
            .routes
            .iter()
            .filter(|route| route.registry == registry)
            .map(|route| &route.filter);
        other_paths(filters, &self.selectable_fields(gvk))
    }
}

/// Where objects of a unit go.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The store.
    pub store: StoreName,
    /// The registry that asks for it.
    pub registry: String,
    /// Which of the unit's objects.
    pub filter: ObjectFilter,
}

/// What a registry came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegistryPlan {
    /// Its store; `None` when it names one that cannot exist.
    pub store: Option<StoreName>,
    /// Why nothing of it can be done, such as a redaction that is no `JSONPath`. What its store has of it is kept.
    pub invalid: Option<String>,
    /// What an older registry of the same store decides differently.
    pub conflict: Option<String>,
    /// The selected clusters.
    pub clusters: BTreeMap<ClusterName, ClusterPlan>,
    /// Names of `clusterNames` that no cluster has.
    pub not_found: BTreeSet<String>,
    /// Its list of resources is empty.
    pub selects_nothing: bool,
}

/// A registry on one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterPlan {
    /// Whether it is known what the cluster serves. Until then there are no units, or none of its custom resources.
    pub discovered: bool,
    /// The streams that the registry has a part in.
    pub units: BTreeSet<Unit>,
    /// What of the registry cannot be done here.
    pub problems: Vec<KindProblem>,
    /// What is done otherwise than the registry says.
    pub notes: BTreeSet<String>,
}

/// A resource selector that names no resource of a cluster, or maybe not all.
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
    /// The kinds, and the namespaces that are wanted of them.
    pub kinds: BTreeMap<Gvk, Extent>,
    /// Whether that is all there should be, so that other documents may be deleted. False while the cluster's answer is missing or
    /// incomplete.
    pub certain: bool,
}

/// Which namespaces of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of them, or a kind that has none.
    All,
    /// Only these.
    Namespaces(BTreeSet<Namespace>),
}

impl Extent {
    fn of(filter: &ObjectFilter) -> Self {
        filter
            .namespaces()
            .map_or(Self::All, |namespaces| Self::Namespaces(namespaces.clone()))
    }

    fn extend(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (Self::Namespaces(own), Self::Namespaces(more)) => own.extend(more.iter().cloned()),
            (Self::Namespaces(_), Self::All) => *self = Self::All,
        }
    }
}

/// Plans the registries on the members.
pub fn plan(registries: &[RegistryView], members: &[MemberView]) -> Plan {
    let mut oldest_first: Vec<&RegistryView> = registries.iter().collect();
    oldest_first.sort_by(|left, right| age_order(left).cmp(&age_order(right)));
    let mut plan = Plan::default();
    let mut wanted = Wanted::default();
    for registry in oldest_first {
        let mut outcome = plan.join_store(registry);
        outcome.not_found = missing_names(registry, members);
        for member in members
            .iter()
            .filter(|member| affinity::matches(&registry.spec.target_cluster, member))
        {
            let mut part = Part {
                registry,
                member,
                outcome: ClusterPlan::default(),
            };
            part.resolve(&outcome, &mut plan.scopes, &mut wanted);
            outcome.clusters.insert(member.name.clone(), part.outcome);
        }
        plan.registries.insert(registry.name.clone(), outcome);
    }
    let members: BTreeMap<&ClusterName, &MemberView> = members
        .iter()
        .map(|member| (&member.name, member))
        .collect();
    for (of, routes) in wanted.routes {
        let definitions = members
            .get(&of.cluster)
            .and_then(|member| member.definitions.as_deref());
        plan.add_units(
            &of,
            routes,
            definitions.map_or(&[], |definitions| definitions.fields(&of.resource)),
        );
    }
    plan
}

/// A registry that does not say when it was created counts as the youngest.
fn age_order(registry: &RegistryView) -> impl Ord {
    (
        registry.created.is_none(),
        registry.created,
        registry.name.clone(),
    )
}

fn missing_names(registry: &RegistryView, members: &[MemberView]) -> BTreeSet<String> {
    let exists = |name: &str| members.iter().any(|member| member.name.as_str() == name);
    registry
        .spec
        .target_cluster
        .cluster_names
        .iter()
        .filter(|name| !exists(name))
        .cloned()
        .collect()
}

/// The routes of every resource of every cluster into every store.
#[derive(Default)]
struct Wanted {
    routes: BTreeMap<Source, Vec<Route>>,
    /// In which version a store takes a kind of a cluster: the first one that was asked for. All versions show the same objects, and a
    /// store holds each object once.
    versions: BTreeMap<(ClusterName, StoreName, GroupKind), Resource>,
}

/// What the versions of a kind have in common.
type GroupKind = (Arc<str>, Arc<str>);

fn group_kind(gvk: &Gvk) -> GroupKind {
    (Arc::clone(&gvk.group), Arc::clone(&gvk.kind))
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    cluster: ClusterName,
    resource: Resource,
    store: StoreName,
}

/// One registry on one member.
struct Part<'a> {
    registry: &'a RegistryView,
    member: &'a MemberView,
    outcome: ClusterPlan,
}

impl Part<'_> {
    fn resolve(
        &mut self,
        registry: &RegistryPlan,
        scopes: &mut BTreeMap<(StoreName, ClusterName), Coverage>,
        wanted: &mut Wanted,
    ) {
        self.outcome.discovered = self.member.discovery.is_some();
        self.outcome.notes.extend(
            self.member
                .discovery
                .as_ref()
                .and_then(|discovery| discovery.note()),
        );
        if self.member.left_to_another {
            return;
        }
        let Some(store) = &registry.store else {
            return;
        };
        let complete = Coverage {
            certain: true,
            ..Coverage::default()
        };
        let coverage = scopes
            .entry((store.clone(), self.member.name.clone()))
            .or_insert(complete);
        coverage.certain &= self.outcome.discovered && registry.invalid.is_none();
        if registry.invalid.is_some() {
            return;
        }
        for selector in &self.registry.spec.resource_selectors {
            for resource in self.resources(selector, coverage) {
                self.add_route(selector, &resource, store, coverage, wanted);
            }
        }
    }

    /// Those that are selected. Custom resources wait until it is known what of them is selectable.
    fn resources(&mut self, selector: &ResourceSelector, coverage: &mut Coverage) -> Vec<Resource> {
        let Some(discovery) = &self.member.discovery else {
            return Vec::new();
        };
        let mut selection = selection::resolve(selector, discovery);
        if self.member.definitions.is_none() {
            let selected = selection.resources.len();
            selection
                .resources
                .retain(|resource| kinds::is_built_in(&resource.gvk));
            let is_complete = selection.resources.len() == selected;
            self.outcome.discovered &= is_complete;
            coverage.certain &= is_complete;
        }
        if let Some(problem) = selection.problem {
            coverage.certain &= problem.is_certain();
            let (api_version, kind) = (selector.api_version.clone(), selector.kind.clone());
            self.outcome.problems.push(KindProblem {
                api_version,
                kind,
                problem,
            });
        }
        selection.resources
    }

    fn add_route(
        &mut self,
        selector: &ResourceSelector,
        found: &Resource,
        store: &StoreName,
        coverage: &mut Coverage,
        wanted: &mut Wanted,
    ) {
        let key = (
            self.member.name.clone(),
            store.clone(),
            group_kind(&found.gvk),
        );
        let resource = wanted
            .versions
            .get(&key)
            .cloned()
            .unwrap_or_else(|| found.clone());
        let names_namespaces = !selector.namespace.is_empty() || !selector.namespaces.is_empty();
        if names_namespaces && !resource.namespaced {
            if selector.every_kind() {
                return;
            }
            self.outcome.notes.insert(format!(
                "{} has no namespaces: all of it is indexed",
                resource.gvk
            ));
        }
        // Whether every selector can be read has been asked when the registry joined its store.
        let Ok(Some(filter)) = ObjectFilter::new(selector, &self.registry.spec, &resource) else {
            return;
        };
        if resource != *found {
            let (gvk, version) = (&found.gvk, &resource.gvk.version);
            self.outcome
                .notes
                .insert(format!("{gvk} is stored in version {version}, which was asked for before: an object is stored once"));
        }
        wanted
            .versions
            .entry(key)
            .or_insert_with(|| resource.clone());
        let extent = Extent::of(&filter);
        coverage
            .kinds
            .entry(resource.gvk.clone())
            .and_modify(|known| known.extend(&extent))
            .or_insert(extent);
        let route = Route {
            store: store.clone(),
            registry: self.registry.name.clone(),
            filter,
        };
        let routes = wanted
            .routes
            .entry(Source {
                cluster: self.member.name.clone(),
                resource,
                store: store.clone(),
            })
            .or_default();
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
}

impl Plan {
    /// The streams of `before` that go on here in another version of their kind.
    pub fn replaced(&self, before: &Self) -> BTreeSet<Stream> {
        let gone = before
            .units
            .keys()
            .filter(|stream| !self.units.contains_key(*stream));
        gone.filter(|stream| self.successors(stream).next().is_some())
            .cloned()
            .collect()
    }

    /// The streams that show what this one does, in another version of its kind.
    pub fn successors<'p>(&'p self, stream: &'p Stream) -> impl Iterator<Item = &'p Stream> {
        let Unit {
            cluster, resource, ..
        } = &stream.unit;
        let gvk = &resource.gvk;
        let least = Resource {
            gvk: Gvk::new(&gvk.group, "", ""),
            plural: "".into(),
            namespaced: false,
        };
        let from = Stream {
            unit: Unit {
                cluster: cluster.clone(),
                resource: least,
                scope: Scope::All,
            },
            store: stream.store.clone(),
        };
        let of_group = |other: &&Stream| {
            other.unit.cluster == *cluster && other.unit.resource.gvk.group == gvk.group
        };
        let of_group = self
            .units
            .range(from..)
            .map(|(other, _)| other)
            .take_while(of_group);
        of_group.filter(|other| {
            let others = &other.unit.resource.gvk;
            other.store == stream.store && others.kind == gvk.kind && others.version != gvk.version
        })
    }

    /// One stream for all namespaces if any route wants them all, else one for each namespace.
    fn add_units(&mut self, of: &Source, routes: Vec<Route>, fields: &[FieldPath]) {
        let mut namespaces = BTreeSet::new();
        for route in &routes {
            let Some(wanted) = route.filter.namespaces() else {
                self.add_unit(of, Scope::All, routes, fields);
                return;
            };
            namespaces.extend(wanted.iter().cloned());
        }
        for namespace in namespaces {
            let reaches = |route: &&Route| {
                route
                    .filter
                    .namespaces()
                    .is_some_and(|wanted| wanted.contains(&namespace))
            };
            let of_namespace = routes.iter().filter(reaches).cloned().collect();
            self.add_unit(of, Scope::Namespace(namespace), of_namespace, fields);
        }
    }

    fn add_unit(&mut self, of: &Source, scope: Scope, routes: Vec<Route>, defined: &[FieldPath]) {
        let unit = Unit {
            cluster: of.cluster.clone(),
            resource: of.resource.clone(),
            scope,
        };
        for route in &routes {
            let cluster = self
                .registries
                .get_mut(&route.registry)
                .and_then(|registry| registry.clusters.get_mut(&unit.cluster));
            if let Some(cluster) = cluster {
                cluster.units.insert(unit.clone());
            }
        }
        let labels = common(&routes, ObjectFilter::labels).filter(|labels| !labels.is_empty());
        let fields = common(&routes, ObjectFilter::fields).filter(|fields| !fields.is_empty());
        let label_selector = labels.map(LabelSelector::to_string);
        let field_selector = fields.and_then(|fields| pushed_down(&unit.resource.gvk, fields));
        let plan = UnitPlan {
            routes,
            label_selector,
            field_selector,
            fields: defined.to_vec(),
        };
        self.units.insert(
            Stream {
                unit,
                store: of.store.clone(),
            },
            plan,
        );
    }
}

/// What all routes have, if it is the same.
fn common<T: PartialEq>(routes: &[Route], part: impl Fn(&ObjectFilter) -> &T) -> Option<&T> {
    let first = part(&routes.first()?.filter);
    routes
        .iter()
        .all(|route| part(&route.filter) == first)
        .then_some(first)
}

/// Fields that the apiserver of any member can select by, besides name and namespace. Newer ones are left out: an apiserver refuses the
/// whole list for a field that it does not know.
const LONG_KNOWN: [(&str, &str, &[&str]); 6] = [
    (
        "",
        "Event",
        &[
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "reason",
            "type",
        ],
    ),
    ("", "Namespace", &["status.phase"]),
    ("", "Node", &["spec.unschedulable"]),
    (
        "",
        "Pod",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
    ),
    ("", "Secret", &["type"]),
    ("batch", "Job", &["status.successful"]),
];

/// A field selector as text for the member, if every field is one that any apiserver supports.
fn pushed_down(gvk: &Gvk, fields: &FieldSelector) -> Option<String> {
    let of_kind = LONG_KNOWN
        .iter()
        .find(|(group, kind, _)| *group == &*gvk.group && *kind == &*gvk.kind);
    let known = of_kind.map_or(&[][..], |(_, _, paths)| paths);
    let is_known = |path: &str| {
        matches!(path, "metadata.name" | "metadata.namespace") || known.contains(&path)
    };
    fields
        .requirements()
        .all(|requirement| is_known(requirement.path.as_str()))
        .then(|| fields.to_kubernetes())
        .flatten()
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` is written where it is passed"
)]
mod tests;
