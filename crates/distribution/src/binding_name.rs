//! Names of bindings.

use fleetdex_core::{
    kinds,
    model::{Gvk, split_api_version},
};

use crate::{marks, template_name::TemplateName};

/// The longest name of an object.
pub(crate) const LONGEST_NAME: usize = 253;

/// The kind of the binding of an object.
pub fn binding_kind(name: &TemplateName) -> &'static str {
    if name.namespace.is_empty() {
        "ClusterResourceBinding"
    } else {
        "ResourceBinding"
    }
}

/// The name of the binding of an object. For built-in kinds it is Karmada's; custom resources have
/// their group besides, as several groups may have a kind of one name. A name that no object may
/// have is a hash.
pub fn binding_name(name: &TemplateName) -> String {
    let (group, _) = split_api_version(&name.api_version);
    let kind = name.kind.to_lowercase();
    let gvk = Gvk::from_api_version(&name.api_version, &name.kind);
    let mut text = format!("{}-{kind}", name.name).to_lowercase();
    if kinds::find(&gvk).is_none() {
        text = format!("{text}.{group}");
    }
    let text = text.replace(':', ".");
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if text.len() <= LONGEST_NAME && text.bytes().all(is_allowed) {
        return text;
    }
    marks::hash_of_text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template_name::NameParts;

    #[test]
    fn names_of_bindings_do_not_collide() {
        let name = |api_version: &str, kind: &str, name: &str| {
            TemplateName::from(NameParts {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                ..NameParts::default()
            })
        };
        for (object, expected) in [
            (name("v1", "Service", "web"), "web-service"),
            (
                name("serving.knative.dev/v1", "Service", "web"),
                "web-service.serving.knative.dev",
            ),
            (
                name("example.io/v1", "Workload", "web"),
                "web-workload.example.io",
            ),
            (
                name("rbac.authorization.k8s.io/v1", "ClusterRole", "system:web"),
                "system.web-clusterrole",
            ),
        ] {
            assert_eq!(binding_name(&object), expected);
        }
        for odd in ["a_b".to_owned(), "a".repeat(250)] {
            assert_eq!(binding_name(&name("v1", "Service", &odd)).len(), 32);
        }
    }
}
