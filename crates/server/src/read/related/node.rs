//! The objects of a search for relations: what of them decides which others are related.
//!
//! Of each object only this is kept, so that a search holds no more than its result.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, Gvk, JsonTree, MemberMask, TreeMembers, split_api_version},
    query::{Hit, ResourceName},
    selector::LabelSelector,
};
use fleetdex_interpreter::relations::{SelectorEdge, references, selector_edge};

use crate::read::{across_kinds::FromHit, object_summary::ObjectSummary};

/// The relation of an object to its owner.
pub(super) const OWNED_BY: &str = "ownedBy";
/// The relation to an object that an interpreter names without saying why.
pub(super) const DEPENDS_ON: &str = "dependsOn";
/// Owners of one object that are looked at; Kubernetes' controllers set one.
const MAX_OWNERS: usize = 100;

/// Identifies an object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RelationKey {
    pub(super) cluster: ClusterName,
    pub(super) resource: ResourceName,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// An object whose relations are searched.
#[derive(Clone, Debug)]
pub(super) struct RelationNode {
    pub(super) key: RelationKey,
    pub(super) summary: ObjectSummary,
    pub(super) labels: BTreeMap<String, String>,
    /// The UIDs of its owners.
    pub(super) owners: Vec<String>,
    /// The objects that it names, its owners among them.
    pub(super) references: Vec<NamedReference>,
    /// What the index says that it refers to, each as `apiVersion/kind/namespace/name`.
    pub(super) dependencies: Vec<String>,
    /// The objects that it selects.
    pub(super) selection: Option<LabelSelection>,
}

/// An object that another one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedReference {
    pub(super) kind: Gvk,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) relation: String,
}

/// Objects that another one selects by their labels.
#[derive(Clone, Debug)]
pub(super) struct LabelSelection {
    pub(super) group: String,
    pub(super) kind: String,
    /// An empty one: any.
    pub(super) namespaces: Vec<String>,
    /// It may be large.
    pub(super) labels: Arc<LabelSelector>,
    pub(super) relation: String,
}

impl FromHit for RelationNode {
    fn of(resource: &ResourceName, kind: &Gvk, hit: &Hit) -> Self {
        let summary = ObjectSummary::of(resource, kind, hit);
        let api_version = summary.kind.api_version();
        let object = JsonTree::parse(hit.object.get(), MemberMask::everything())
            .with_text("apiVersion", &api_version)
            .with_text("kind", &summary.kind.kind);
        let metadata = object.get("metadata");
        let owner_references = owner_references(metadata);
        let owners = owner_references.iter();
        let owners = owners.filter_map(|owner| owner.get("uid")?.as_str());
        let dependencies = hit.interpretation.as_deref();
        let dependencies = dependencies.map_or(&[][..], |found| &found.dependencies);
        Self {
            key: RelationKey {
                cluster: hit.cluster.clone(),
                resource: resource.clone(),
                namespace: summary.metadata.namespace.clone(),
                name: summary.metadata.name.clone(),
            },
            labels: labels(metadata),
            owners: owners.map(str::to_owned).collect(),
            references: named_references(&object, owner_references, &summary, dependencies),
            dependencies: dependencies.to_vec(),
            selection: selector_edge(&object).and_then(LabelSelection::of),
            summary,
        }
    }
}

impl RelationNode {
    /// The object as results name it in between: `Pod/web-1`.
    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.summary.kind.kind, self.key.name)
    }

    /// The relation by which it names another object, by the term of that.
    pub(super) fn relation_to(&self, term: &str) -> &str {
        let mut references = self.references.iter();
        let named = references.find(|one| one.relation != OWNED_BY && one.term() == term);
        named.map_or(DEPENDS_ON, |reference| &reference.relation)
    }
}

impl NamedReference {
    /// `apiVersion/kind/namespace/name`
    fn term(&self) -> String {
        let Self {
            kind,
            namespace,
            name,
            ..
        } = self;
        format!("{}/{}/{namespace}/{name}", kind.api_version(), kind.kind)
    }

    /// Reads `apiVersion/kind/namespace/name`; `None` if parts are missing.
    fn of_term(term: &str) -> Option<Self> {
        let mut parts = term.rsplitn(4, '/');
        let (name, namespace) = (parts.next()?, parts.next()?);
        let (kind, api_version) = (parts.next()?, parts.next()?);
        Some(Self {
            kind: gvk(api_version, kind),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            relation: DEPENDS_ON.to_owned(),
        })
    }

    fn is_same_object(&self, other: &Self) -> bool {
        (&self.kind.group, &self.kind.kind, &self.name)
            == (&other.kind.group, &other.kind.kind, &other.name)
            && self.namespace == other.namespace
    }
}

impl LabelSelection {
    /// `None` if the selector is malformed.
    fn of(edge: SelectorEdge) -> Option<Self> {
        let parsed = serde_json::from_value(edge.selector).ok()?;
        let (group, _) = split_api_version(edge.api_version);
        Some(Self {
            group: group.to_owned(),
            kind: edge.kind.to_owned(),
            namespaces: edge.namespaces,
            labels: Arc::new(LabelSelector::from_api(&parsed).ok()?),
            relation: edge.relation.to_owned(),
        })
    }

    /// Whether it selects objects of this kind and namespace.
    pub(super) fn is_for(&self, node: &RelationNode) -> bool {
        let kind = &node.summary.kind;
        let is_namespace = |name: &String| name.is_empty() || *name == node.key.namespace;
        *kind.group == *self.group
            && *kind.kind == *self.kind
            && self.namespaces.iter().any(is_namespace)
    }

    /// Whether it selects objects with these labels; `compared` is called for each requirement that
    /// is compared.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>, compared: impl Fn()) -> bool {
        self.labels.matches(|key| {
            compared();
            labels.get(key).map(String::as_str)
        })
    }
}

fn owner_references<'t>(metadata: Option<&'t JsonTree<'t>>) -> &'t [JsonTree<'t>] {
    let owners = metadata.and_then(|metadata| metadata.get("ownerReferences")?.as_array());
    let owners = owners.unwrap_or_default();
    &owners[..owners.len().min(MAX_OWNERS)]
}

fn labels(metadata: Option<&JsonTree<'_>>) -> BTreeMap<String, String> {
    let labels = metadata.and_then(|metadata| metadata.get("labels")?.as_object());
    let labels = labels.into_iter().flat_map(TreeMembers::iter);
    labels
        .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
        .collect()
}

/// The objects that an object names, each with the first relation by which it does.
fn named_references(
    object: &JsonTree<'_>,
    owner_references: &[JsonTree<'_>],
    summary: &ObjectSummary,
    dependencies: &[String],
) -> Vec<NamedReference> {
    let part = |owner: &JsonTree<'_>, key: &str| {
        let text = owner.get(key).and_then(JsonTree::as_str);
        text.unwrap_or_default().to_owned()
    };
    let owners = owner_references.iter().map(|owner| NamedReference {
        kind: gvk(&part(owner, "apiVersion"), &part(owner, "kind")),
        // An owner is in the namespace of its dependant, or cluster-scoped.
        namespace: summary.metadata.namespace.clone(),
        name: part(owner, "name"),
        relation: OWNED_BY.to_owned(),
    });
    let known = references(object);
    let known = known.iter().map(|reference| NamedReference {
        kind: gvk(&reference.api_version, &reference.kind),
        namespace: reference.namespace.clone(),
        name: reference.name.clone(),
        relation: reference.relation.to_owned(),
    });
    let mut named: Vec<NamedReference> = owners.chain(known).collect();
    // What a customization or a webhook says of a custom kind.
    let terms = dependencies.iter();
    for further in terms.filter_map(|term| NamedReference::of_term(term)) {
        if !named.iter().any(|known| known.is_same_object(&further)) {
            named.push(further);
        }
    }
    named
}

fn gvk(api_version: &str, kind: &str) -> Gvk {
    let (group, version) = split_api_version(api_version);
    Gvk::new(group, version, kind)
}
