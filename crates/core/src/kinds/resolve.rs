//! Resolves names of resources as kubectl does.

use super::built_in::{BuiltIn, all};

/// No built-in resource has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no built-in resource {name:?}{}", suggestion(.similar))]
pub struct UnknownKind {
    /// The name that was asked for.
    pub name: String,
    /// Names that differ by little.
    pub similar: Vec<String>,
}

fn suggestion(similar: &[String]) -> String {
    if similar.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", similar.join(" or "))
    }
}

/// Resolves a name to a resource: plural, singular, kind or short name, alone or followed by
/// `.group` or `.version.group`.
///
/// As in kubectl, the start of a group's name matches the group if no version is named, case
/// matters only in short names, and the core group comes first.
pub fn resolve(name: &str) -> Result<&'static BuiltIn, UnknownKind> {
    let unknown = |word: &str| UnknownKind {
        name: name.to_owned(),
        similar: similar_names(word),
    };
    let Some((word, qualifier)) = name.split_once('.') else {
        return all()
            .iter()
            .find(|entry| is_called(entry, name))
            .ok_or_else(|| unknown(name));
    };
    let called: Vec<&BuiltIn> = all()
        .iter()
        .filter(|entry| is_called(entry, word))
        .collect();
    let with_version = qualifier.split_once('.').and_then(|(version, group)| {
        called
            .iter()
            .find(|entry| entry.version == version && entry.group == group)
            .copied()
    });
    with_version
        .or_else(|| first_of_group(&called, qualifier))
        .ok_or_else(|| unknown(word))
}

fn is_called(entry: &BuiltIn, word: &str) -> bool {
    word.eq_ignore_ascii_case(entry.plural)
        || word.eq_ignore_ascii_case(entry.kind)
        || entry.short_names.contains(&word)
}

/// The first candidate of the group, else of a group whose name starts with it.
fn first_of_group(candidates: &[&'static BuiltIn], group: &str) -> Option<&'static BuiltIn> {
    let exact = candidates.iter().find(|entry| entry.group == group);
    let starts_alike = || {
        candidates
            .iter()
            .find(|entry| !group.is_empty() && entry.group.starts_with(group))
    };
    exact.or_else(starts_alike).copied()
}

/// Plurals from which the word differs by a typing error, nearest first.
fn similar_names(word: &str) -> Vec<String> {
    let lower = word.to_ascii_lowercase();
    let tolerance = (lower.len() / 3).min(2);
    let mut near: Vec<(usize, String)> = Vec::new();
    for entry in all().iter().filter(|entry| entry.preferred) {
        let distances = [
            distance(&lower, entry.plural),
            distance(&lower, &entry.singular()),
        ];
        let closest = distances.into_iter().min().unwrap_or(usize::MAX);
        if closest <= tolerance || (lower.len() >= 3 && entry.plural.starts_with(&lower)) {
            near.push((closest, entry.qualified_name()));
        }
    }
    near.sort();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// The edit distance of two words: letters to insert, delete or replace.
fn distance(from: &str, to: &str) -> usize {
    let target: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=target.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut previous = vec![index + 1];
        for (column, other) in target.iter().enumerate() {
            let replaced = row[column] + usize::from(letter != *other);
            let inserted = previous[column] + 1;
            let deleted = row[column + 1] + 1;
            previous.push(replaced.min(inserted).min(deleted));
        }
        row = previous;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve_as_kubectl_resolves_them() {
        let resolved = |name: &str| resolve(name).map(|entry| entry.gvk().to_string());
        let same = |name: &str, expected: &str| {
            assert_eq!(resolved(name).as_deref(), Ok(expected), "{name}");
        };
        for name in ["po", "pod", "pods", "Pod", "PODS", "pods.v1."] {
            same(name, "v1/Pod");
        }
        for name in [
            "deploy",
            "deployment",
            "Deployment.apps",
            "deployments.apps",
            "deployments.v1.apps",
            "deploy.app",
        ] {
            same(name, "apps/v1/Deployment");
        }
        same("ev", "v1/Event");
        same("events.events", "events.k8s.io/v1/Event");
        same("events.v1.events.k8s.io", "events.k8s.io/v1/Event");
        same("hpa", "autoscaling/v2/HorizontalPodAutoscaler");
        same("csinode.storage", "storage.k8s.io/v1/CSINode");
        same(
            "horizontalpodautoscalers.v1.autoscaling",
            "autoscaling/v1/HorizontalPodAutoscaler",
        );
        same("crds", "apiextensions.k8s.io/v1/CustomResourceDefinition");
    }

    #[test]
    fn an_unknown_name_is_refused_with_similar_ones() {
        let refused = |name: &str| resolve(name).unwrap_err().to_string();
        assert_eq!(refused("pdos"), r#"there is no built-in resource "pdos""#);
        assert_eq!(
            refused("podss"),
            r#"there is no built-in resource "podss"; did you mean pods?"#
        );
        assert_eq!(
            refused("deploymnets"),
            r#"there is no built-in resource "deploymnets"; did you mean deployments.apps?"#
        );
        assert_eq!(
            refused("widgets.example.com"),
            r#"there is no built-in resource "widgets.example.com""#
        );
        for name in [
            "",
            "PO",
            "pods.apps",
            "deployments.v1beta1.apps",
            "deployments.v1",
            "deployments.v1.app",
            "Deploy",
        ] {
            assert!(resolve(name).is_err(), "{name:?}");
        }
    }
}
