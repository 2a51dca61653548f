//! The streams of a plan: which routes one list and watch serves, and what the member filters for
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{FieldPath, Gvk, Resource, Scope, Unit, hex},
    selector::{FieldSelector, LabelSelector},
};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_sync::filter::ObjectFilter;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    model::{Plan, Route, StreamKey, StreamPlan},
    resolve::RouteKey,
};

impl Plan {
    /// The streams of `before` whose kind this plan reads in another version.
    pub fn replaced(&self, before: &Self) -> BTreeSet<StreamKey> {
        let gone = before
            .streams
            .keys()
            .filter(|stream| !self.streams.contains_key(*stream));
        gone.filter(|stream| self.successors(stream).next().is_some())
            .cloned()
            .collect()
    }

    /// The streams that show the same objects as this one, in another version of its kind.
    pub fn successors<'p>(&'p self, stream: &'p StreamKey) -> impl Iterator<Item = &'p StreamKey> {
        let Unit {
            cluster, resource, ..
        } = &stream.unit;
        let gvk = &resource.gvk;
        let first_of_group = Resource {
            gvk: Gvk::new(&gvk.group, "", ""),
            plural: "".into(),
            namespaced: false,
        };
        let range_start = StreamKey {
            unit: Unit {
                cluster: cluster.clone(),
                resource: first_of_group,
                scope: Scope::All,
            },
            store: stream.store.clone(),
        };
        let is_same_group = |other: &&StreamKey| {
            other.unit.cluster == *cluster && other.unit.resource.gvk.group == gvk.group
        };
        let same_group = self
            .streams
            .range(range_start..)
            .map(|(other, _)| other)
            .take_while(is_same_group);
        same_group.filter(|other| {
            let gvk_of_other = &other.unit.resource.gvk;
            other.store == stream.store
                && gvk_of_other.kind == gvk.kind
                && gvk_of_other.version != gvk.version
        })
    }

    /// Adds one stream for all namespaces if any route selects them all, else one for each
    /// namespace.
    pub(super) fn add_streams(
        &mut self,
        of: &RouteKey,
        routes: Vec<Route>,
        fields: &[FieldPath],
        rules: Option<&KindRules>,
    ) {
        let mut namespaces = BTreeSet::new();
        for route in &routes {
            let Some(desired) = route.filter.namespaces() else {
                self.add_stream(of, Scope::All, routes, fields, rules);
                return;
            };
            namespaces.extend(desired.iter().cloned());
        }
        for namespace in namespaces {
            let reaches = |route: &&Route| {
                route
                    .filter
                    .namespaces()
                    .is_some_and(|desired| desired.contains(&namespace))
            };
            let of_namespace = routes.iter().filter(reaches).cloned().collect();
            self.add_stream(of, Scope::Namespace(namespace), of_namespace, fields, rules);
        }
    }

    fn add_stream(
        &mut self,
        of: &RouteKey,
        scope: Scope,
        routes: Vec<Route>,
        selectable_fields: &[FieldPath],
        rules: Option<&KindRules>,
    ) {
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
        let plan = StreamPlan {
            selections: selections(&routes),
            routes,
            label_selector,
            field_selector,
            fields: selectable_fields.to_vec(),
            rules: rules.cloned(),
        };
        self.streams.insert(
            StreamKey {
                unit,
                store: of.store.clone(),
            },
            plan,
        );
    }
}

/// The ids of what each registry selects, unless all select the same objects. An id is a hash of
/// the filters, so that it stays the same for other registries that select the same objects.
fn selections(routes: &[Route]) -> BTreeMap<String, Arc<str>> {
    let is_shared = routes.first().is_some_and(|first| {
        let is_other = |route: &Route| route.registry != first.registry;
        routes.iter().any(is_other)
    });
    if !is_shared {
        return BTreeMap::new();
    }
    let mut filters: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for route in routes {
        let of_registry = filters.entry(&route.registry).or_default();
        of_registry.insert(route.filter.identity().to_string());
    }
    let distinct: BTreeSet<&BTreeSet<String>> = filters.values().collect();
    if distinct.len() == 1 {
        return BTreeMap::new();
    }
    let id = |filters: &BTreeSet<String>| {
        let text = json!(filters).to_string();
        Arc::from(hex(&Sha256::digest(text)[..8]))
    };
    let identified = filters.iter();
    identified
        .map(|(registry, filters)| ((*registry).to_owned(), id(filters)))
        .collect()
}

/// A part of the filters that all routes have in common.
fn common<T: PartialEq>(routes: &[Route], part: impl Fn(&ObjectFilter) -> &T) -> Option<&T> {
    let first = part(&routes.first()?.filter);
    routes
        .iter()
        .all(|route| part(&route.filter) == first)
        .then_some(first)
}

/// Fields that the API server of any member can select by, besides name and namespace. Newer ones
/// are left out: an API server refuses the whole list for a field that it does not support.
const WIDELY_SUPPORTED: [(&str, &str, &[&str]); 6] = [
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

/// A field selector as text for the member, if any API server supports every field.
fn pushed_down(gvk: &Gvk, fields: &FieldSelector) -> Option<String> {
    let of_kind = WIDELY_SUPPORTED
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
