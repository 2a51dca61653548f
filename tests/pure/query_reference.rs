//! What queries find among some objects: the reference that every store must agree with.

use std::{borrow::Cow, collections::BTreeSet};

use fleetdex_core::{
    fuel::Fuel,
    model::{FieldType, decode_sort_key, encode_sort_key, index_fields},
    query::{
        GroupKey, Groups, Query, QueryError, Relation, Relative, RelativesQuery, ResourceName,
        SortField, WordText,
        aggregate::{GroupCounts, ResolvedGroupKey, resolve_group_keys},
    },
};

/// The properties of an object or a document that a [`Query`] compares.
pub trait Searchable {
    /// The member that holds it.
    fn cluster(&self) -> &str;
    /// Its group and plural.
    fn resource(&self) -> &ResourceName;
    /// `metadata.namespace`; empty where there is none.
    fn namespace(&self) -> &str;
    /// `metadata.name`
    fn name(&self) -> &str;
    /// `metadata.creationTimestamp`, in milliseconds since 1970.
    fn created(&self) -> Option<i64>;
    /// `metadata.uid`
    fn uid(&self) -> Cow<'_, str>;
    /// UIDs of its owner references.
    fn owners(&self) -> Vec<Cow<'_, str>>;
    /// The objects that it refers to, each `apiVersion/kind/namespace/name`.
    fn dependencies(&self) -> Vec<Cow<'_, str>>;
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
    /// The value of a selectable field other than `metadata.name` and `metadata.namespace`; `None`
    /// if it is absent.
    fn field(&self, path: &str) -> Option<Cow<'_, str>>;
    /// The texts in which words are looked for.
    fn texts(&self) -> Vec<WordText<'_>>;
}

/// What a query selects.
pub trait QueryReference {
    /// Whether an object matches. A field that is not selectable reads empty.
    fn matches(&self, object: &impl Searchable) -> bool;
    /// How well an object matches the words: 1 to 3 for each of them. `None` if it does not match
    /// them.
    fn score(&self, object: &impl Searchable) -> Option<u32>;
}

impl QueryReference for Query {
    fn matches(&self, object: &impl Searchable) -> bool {
        *object.resource() == self.resource
            && allows(&self.clusters, |cluster| {
                cluster.as_str() == object.cluster()
            })
            && allows(&self.namespaces, |namespace| {
                namespace.as_str() == object.namespace()
            })
            && allows(&self.names, |name| name == object.name())
            && self.permitted.allows(object.cluster(), object.namespace())
            && self
                .since
                .is_none_or(|since| object.created().is_some_and(|created| created >= since))
            && self
                .before
                .is_none_or(|before| object.created().is_some_and(|created| created < before))
            && self
                .owners
                .as_ref()
                .is_none_or(|owners| owners.matches(object.cluster(), object.owners()))
            && self.labels.matches(|key| object.label(key))
            && self.fields.matches(|label| reads(self, object, label))
            && self.score(object).is_some()
    }

    fn score(&self, object: &impl Searchable) -> Option<u32> {
        let unbounded = Fuel::unbounded();
        self.words.score(&object.texts(), &unbounded).ok().flatten()
    }
}

fn reads<'a>(query: &Query, object: &'a impl Searchable, label: &str) -> Option<Cow<'a, str>> {
    let path = query.selectable.stored_path(label).ok()??;
    match path.as_str() {
        index_fields::NAME => Some(object.name().into()),
        index_fields::NAMESPACE => Some(object.namespace().into()),
        path => object
            .field(path)
            .or_else(|| Some(query.selectable.absent(path).into())),
    }
}

fn allows<T>(allowed: &[T], matches: impl Fn(&T) -> bool) -> bool {
    allowed.is_empty() || allowed.iter().any(matches)
}

/// What a search for owners or dependants finds.
pub trait RelativesReference {
    /// The matching objects among some objects.
    fn among<'o, S: Searchable + 'o>(
        &self,
        objects: impl IntoIterator<Item = &'o S>,
    ) -> BTreeSet<Relative>;
}

impl RelativesReference for RelativesQuery {
    fn among<'o, S: Searchable + 'o>(
        &self,
        objects: impl IntoIterator<Item = &'o S>,
    ) -> BTreeSet<Relative> {
        let mut found = BTreeSet::new();
        for object in objects.into_iter().filter(|object| selects(self, *object)) {
            // No cluster has an invalid name.
            let Ok(cluster) = object.cluster().parse() else {
                continue;
            };
            found.insert(Relative {
                cluster,
                namespace: object.namespace().to_owned(),
                resource: object.resource().clone(),
                uid: object.uid().into_owned(),
            });
        }
        found
    }
}

fn selects(relatives: &RelativesQuery, object: &impl Searchable) -> bool {
    let namespace = object.namespace();
    let in_cluster = allows(&relatives.clusters, |name| {
        name.as_str() == object.cluster()
    });
    let in_namespace =
        namespace.is_empty() || allows(&relatives.namespaces, |name| name.as_str() == namespace);
    let is_related = match &relatives.relation {
        Relation::Named { resource, names } => {
            let is_of = resource
                .as_ref()
                .is_none_or(|resource| resource == object.resource());
            is_of && names.iter().any(|name| name == object.name())
        }
        Relation::OwnedBy(owners) => owners.matches(object.cluster(), object.owners()),
        Relation::DependsOn(terms) => {
            let mut dependencies = object.dependencies().into_iter();
            dependencies.any(|term| terms.contains(&*term))
        }
    };
    in_cluster
        && in_namespace
        && is_related
        && relatives.permitted.allows(object.cluster(), namespace)
}

/// Aggregates some objects.
pub fn aggregate<'o, S: Searchable + 'o>(
    objects: impl IntoIterator<Item = &'o S>,
    query: &Query,
    by: &[GroupKey],
    top: usize,
) -> Result<Groups, QueryError> {
    query.check()?;
    let keys = resolve_group_keys(query, by)?;
    let mut counts = GroupCounts::default();
    for object in objects.into_iter().filter(|object| query.matches(*object)) {
        counts.add(keys.iter().map(|key| value(key, object)).collect(), 1)?;
    }
    Ok(counts.largest(top))
}

fn value(key: &ResolvedGroupKey, object: &impl Searchable) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    match key {
        ResolvedGroupKey::Cluster => text(object.cluster()),
        ResolvedGroupKey::Label(key) => object.label(key).map(str::to_owned),
        ResolvedGroupKey::SortField(SortField::Always(value)) => text(value),
        ResolvedGroupKey::SortField(SortField::Name) => text(object.name()),
        ResolvedGroupKey::SortField(SortField::Namespace) => {
            text(object.namespace()).filter(|namespace| !namespace.is_empty())
        }
        ResolvedGroupKey::SortField(SortField::Field(path, kind)) => {
            let read = object
                .field(path.as_str())
                .filter(|value| *kind != FieldType::Optional || !value.is_empty());
            let value =
                read.map(|value| decode_sort_key(&encode_sort_key(*kind, &value)).to_owned());
            value.or_else(|| (*kind != FieldType::Optional).then(|| kind.absent().to_owned()))
        }
    }
}
