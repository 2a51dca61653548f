//! One reference: its parts, and how they are read from the value at the end of an edge.

use fleetdex_core::model::JsonTree;

use super::versions;
use crate::{
    request::DependentObject,
    value::{Tree, map, text, text_or},
};

/// The longest name that Kubernetes gives an object, in bytes.
const MAX_NAME_BYTES: usize = 253;
/// The longest group with its version, and the longest kind.
const MAX_API_VERSION_BYTES: usize = 320;
const MAX_KIND_BYTES: usize = 63;

/// The relation to a service account.
pub(super) const RUNS_AS: &str = "runsAs";
/// The service account that every namespace has, which no list of dependencies has.
const DEFAULT_ACCOUNT: &str = "default";

/// An object that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectReference {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What the referring object does with it, such as `uses`, `scales`, `routesTo`.
    pub relation: &'static str,
}

impl ObjectReference {
    /// The term that an index stores: `apiVersion/kind/namespace/name`, with an empty namespace for
    /// a cluster-scoped object.
    pub fn term(&self) -> String {
        [&*self.api_version, &self.kind, &self.namespace, &self.name].join("/")
    }

    /// The reference of a dependency; `None` if that has a selector in place of a name, or parts
    /// that no object has.
    pub fn of_dependency(dependency: DependentObject, relation: &'static str) -> Option<Self> {
        let reference = Self {
            api_version: dependency.api_version,
            kind: dependency.kind,
            namespace: dependency.namespace,
            name: dependency.name,
            relation,
        };
        reference.is_possible().then_some(reference)
    }

    /// Whether an object can have these parts. Texts such as `{{ .name }}` are no names.
    fn is_possible(&self) -> bool {
        let (group, version) = fleetdex_core::model::split_api_version(&self.api_version);
        self.api_version.len() <= MAX_API_VERSION_BYTES
            && !version.is_empty()
            && [group, version]
                .into_iter()
                .all(|part| part.bytes().all(is_domain_byte))
            && (1..=MAX_KIND_BYTES).contains(&self.kind.len())
            && self.kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && (1..=MAX_NAME_BYTES).contains(&self.name.len())
            && self.name.chars().all(is_name_character)
            && self.namespace.len() <= MAX_NAME_BYTES
            && self.namespace.bytes().all(is_domain_byte)
            && versions::has_objects(&self.api_version, &self.kind, &self.namespace)
    }
}

pub(super) struct Referrer<'v> {
    pub(super) object: Tree<'v>,
    pub(super) api_version: &'v str,
    pub(super) kind: &'v str,
    pub(super) namespace: &'v str,
    pub(super) name: &'v str,
}

impl<'v> Referrer<'v> {
    pub(super) fn of(object: Tree<'v>) -> Self {
        Self {
            object,
            api_version: text(object, &["apiVersion"]),
            kind: text(object, &["kind"]),
            namespace: text(object, &["metadata", "namespace"]),
            name: text(object, &["metadata", "name"]),
        }
    }

    /// Whether it is the object of a reference.
    pub(super) fn is_object_of(&self, reference: &ObjectReference) -> bool {
        self.name == reference.name
            && self.kind == reference.kind
            && self.namespace == reference.namespace
            && self.api_version == reference.api_version
    }
}

/// What an edge leads to, as far as the reference itself does not say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) group: &'static str,
    /// Empty: the reference has to name it.
    pub(super) kind: &'static str,
    pub(super) namespace: NamespaceRule,
    pub(super) relation: &'static str,
}

/// The namespace of a reference's object, if its kind is not cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamespaceRule {
    /// The one that the reference names, otherwise that of the referring object.
    GivenOrOwn,
    /// The one that the reference names. One without it is to a cluster-scoped object.
    Given,
    /// The one at these members of the referring object, otherwise that of the object.
    At(&'static [&'static str]),
}

/// The reference that a value is: a name, or a map with `name` and perhaps `namespace`, `kind`, and
/// `apiVersion`, `group` or `apiGroup`. `None` if it is none.
pub(super) fn read(
    referrer: &Referrer<'_>,
    value: Tree<'_>,
    target: &Target,
) -> Option<ObjectReference> {
    let name = match value {
        JsonTree::String(name) => &**name,
        _ => text(value, &["name"]),
    };
    if target.relation == RUNS_AS && name == DEFAULT_ACCOUNT {
        return None;
    }
    let kind = Some(text(value, &["kind"]))
        .filter(|kind| !kind.is_empty())
        .unwrap_or(target.kind);
    let api_version = api_version(referrer, value, kind, target);
    let namespace = if versions::is_cluster_scoped(&api_version, kind) {
        ""
    } else {
        namespace(referrer, value, target)
    };
    let reference = ObjectReference {
        api_version,
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        relation: target.relation,
    };
    reference.is_possible().then_some(reference)
}

fn api_version(referrer: &Referrer<'_>, value: Tree<'_>, kind: &str, target: &Target) -> String {
    let given = text(value, &["apiVersion"]);
    if !given.is_empty() {
        return given.to_owned();
    }
    let group = map(value, &[])
        .and_then(|members| members.get("group").or_else(|| members.get("apiGroup")))
        .and_then(JsonTree::as_str);
    let default = if kind == target.kind {
        target.group
    } else {
        versions::group_of(kind, target.group)
    };
    let group = group.unwrap_or(default);
    let own_group = fleetdex_core::model::split_api_version(referrer.api_version).0;
    if kind == referrer.kind && group == own_group {
        // Its own kind is read in its own version.
        return referrer.api_version.to_owned();
    }
    versions::api_version(group, referrer.api_version)
}

fn namespace<'a>(referrer: &Referrer<'a>, value: Tree<'a>, target: &Target) -> &'a str {
    let own = referrer.namespace;
    match target.namespace {
        NamespaceRule::Given => text(value, &["namespace"]),
        NamespaceRule::GivenOrOwn => text_or(value, &["namespace"], own),
        NamespaceRule::At(path) => text_or(referrer.object, path, own),
    }
}

fn is_domain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')
}

/// Names of roles may have any character that a path segment may have.
fn is_name_character(character: char) -> bool {
    !(character.is_control()
        || character.is_whitespace()
        || matches!(character, '/' | '%' | '{' | '}' | '$'))
}
