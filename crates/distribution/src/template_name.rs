//! Names of objects.

use std::{cmp::Ordering, fmt, ops::Deref, sync::Arc};

use fleetdex_interpreter::value::{list, text};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Group and version, and kind.
pub type KindName = (String, String);

/// Which object. Clones share the parts.
#[derive(Clone, Debug, Default)]
pub struct TemplateName(Arc<OrderedParts>);

/// The parts, and what they are ordered by: names have most of their parts in common, and are
/// compared some hundred thousand times a plan.
#[derive(Debug, Default)]
struct OrderedParts {
    parts: NameParts,
    key: Box<str>,
}

/// The parts of an object's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameParts {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl From<NameParts> for TemplateName {
    fn from(parts: NameParts) -> Self {
        let NameParts {
            api_version,
            kind,
            namespace,
            name,
        } = &parts;
        let key = format!("{api_version}\0{kind}\0{namespace}\0{name}").into();
        Self(Arc::new(OrderedParts { parts, key }))
    }
}

impl Deref for TemplateName {
    type Target = NameParts;

    fn deref(&self) -> &NameParts {
        &self.0.parts
    }
}

impl PartialEq for TemplateName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for TemplateName {}

impl Ord for TemplateName {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        let (one, other) = (&self.0, &other.0);
        let order = one.key.cmp(&other.key);
        // The name of a stranger's object may have a zero byte.
        order.then_with(|| one.parts.cmp(&other.parts))
    }
}

impl Serialize for TemplateName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.parts.serialize(serializer)
    }
}

impl PartialOrd for TemplateName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TemplateName {
    /// Of an object.
    pub fn of(object: &Value) -> Self {
        let owned = |path: &[&str]| text(object, path).to_owned();
        Self::from(NameParts {
            api_version: owned(&["apiVersion"]),
            kind: owned(&["kind"]),
            namespace: owned(&["metadata", "namespace"]),
            name: owned(&["metadata", "name"]),
        })
    }

    /// Of the object that a reference names.
    pub fn of_reference(reference: &Value) -> Self {
        Self::from(NameParts::of_reference(reference))
    }

    /// Of the object that a reference names, by default in a namespace.
    pub fn of_reference_in(reference: &Value, namespace: &str) -> Self {
        let mut parts = NameParts::of_reference(reference);
        if parts.namespace.is_empty() {
            namespace.clone_into(&mut parts.namespace);
        }
        Self::from(parts)
    }

    /// Of the objects that a `WorkloadRebalancer` places anew.
    pub fn of_workloads(rebalancer: &Value) -> impl Iterator<Item = Self> {
        let workloads = list(rebalancer, &["spec", "workloads"]).iter();
        workloads.map(Self::of_reference)
    }

    /// Group and version, and kind.
    pub fn kind_name(&self) -> KindName {
        (self.api_version.clone(), self.kind.clone())
    }
}

/// An object of the control plane or of a set, and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTemplate {
    /// Its name.
    pub name: TemplateName,
    /// The object.
    pub object: Arc<Value>,
}

impl From<Value> for NamedTemplate {
    fn from(object: Value) -> Self {
        Self {
            name: TemplateName::of(&object),
            object: Arc::new(object),
        }
    }
}

impl NameParts {
    fn of_reference(reference: &Value) -> Self {
        let owned = |member: &str| text(reference, &[member]).to_owned();
        Self {
            api_version: owned("apiVersion"),
            kind: owned("kind"),
            namespace: owned("namespace"),
            name: owned("name"),
        }
    }
}

/// Such as `Deployment shop/web`.
impl fmt::Display for TemplateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(out, "{}/", self.namespace)?;
        }
        out.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(parts: [&str; 4]) -> TemplateName {
        let [api_version, kind, namespace, name] = parts.map(str::to_owned);
        TemplateName::from(NameParts {
            api_version,
            kind,
            namespace,
            name,
        })
    }

    #[test]
    fn names_are_ordered_by_their_parts_and_differ_when_one_of_these_does() {
        let names = [
            ["", "", "", ""],
            ["apps/v1", "Deployment", "", "web"],
            ["apps/v1", "Deployment", "shop", "web"],
            ["apps/v1", "Deployment", "shop-2", "web"],
            ["apps/v1beta1", "Deployment", "shop", "web"],
            ["v1", "Pod", "a", "b\0c"],
            ["v1", "Pod", "a\0b", "c"],
        ];
        for (at, one) in names.iter().enumerate() {
            for (other_at, other) in names.iter().enumerate() {
                let (one, other) = (name(*one), name(*other));
                assert_eq!(one.cmp(&other), at.cmp(&other_at), "{one:?} {other:?}");
                assert_eq!(one == other, at == other_at);
            }
        }
    }
}
