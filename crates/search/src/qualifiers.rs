//! The qualifiers and the words of health, with a line of description each.

/// A qualifier: what stands before the `:` of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qualifier {
    /// Which one it is.
    pub key: QualifierKey,
    /// Its name, in lower case.
    pub name: &'static str,
    /// A second name.
    pub alias: Option<&'static str>,
    /// What it selects.
    pub description: &'static str,
    /// A valid term.
    pub example: &'static str,
}

/// The qualifiers as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QualifierKey {
    /// `kind:`
    Kind,
    /// `cluster:`
    Cluster,
    /// `ns:` or `namespace:`
    Namespace,
    /// `name:`
    Name,
    /// `label:`
    Label,
    /// `health:`
    Health,
    /// `reason:`
    Reason,
    /// `image:`
    Image,
    /// `age:`
    Age,
    /// `uses:`
    Uses,
}

/// A word of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthWord {
    /// The word, as documents have it.
    pub word: &'static str,
    /// What it means.
    pub description: &'static str,
}

/// All qualifiers, the most useful first.
pub const QUALIFIERS: &[Qualifier] = &[
    Qualifier {
        key: QualifierKey::Kind,
        name: "kind",
        alias: None,
        description: "objects of these kinds: kind, plural, singular or short name, optionally with .group",
        example: "kind:Pod,deploy",
    },
    Qualifier {
        key: QualifierKey::Health,
        name: "health",
        alias: None,
        description: "objects of this health",
        example: "health:Degraded,Missing",
    },
    Qualifier {
        key: QualifierKey::Cluster,
        name: "cluster",
        alias: None,
        description: "objects in these member clusters",
        example: "cluster:member1,member2",
    },
    Qualifier {
        key: QualifierKey::Namespace,
        name: "ns",
        alias: Some("namespace"),
        description: "objects in these namespaces",
        example: "ns:web,shop",
    },
    Qualifier {
        key: QualifierKey::Label,
        name: "label",
        alias: None,
        description: "objects with this label, or with one of these values of it",
        example: "label:app=web,api",
    },
    Qualifier {
        key: QualifierKey::Name,
        name: "name",
        alias: None,
        description: "objects with exactly these names",
        example: "name:checkout",
    },
    Qualifier {
        key: QualifierKey::Reason,
        name: "reason",
        alias: None,
        description: "objects with exactly these reasons of their health",
        example: "reason:CrashLoopBackOff",
    },
    Qualifier {
        key: QualifierKey::Image,
        name: "image",
        alias: None,
        description: "objects with containers of these images: a repository, with a tag, or with a digest",
        example: "image:nginx:1.27",
    },
    Qualifier {
        key: QualifierKey::Age,
        name: "age",
        alias: None,
        description: "objects younger (<) or older (>) than this, in s, m, h, d and w",
        example: "age:<2h30m",
    },
    Qualifier {
        key: QualifierKey::Uses,
        name: "uses",
        alias: None,
        description: "objects that refer to this one: kind/namespace/name, or kind/name of a cluster-scoped object",
        example: "uses:secret/web/credentials",
    },
];

/// The words of health.
pub const HEALTH_WORDS: [HealthWord; 6] = [
    health_word("Healthy", "works as it should"),
    health_word("Progressing", "does not work yet, and may soon"),
    health_word("Degraded", "does not work"),
    health_word("Suspended", "is paused on purpose"),
    health_word("Missing", "is referred to and does not exist"),
    health_word("Unknown", "cannot be assessed"),
];

const fn health_word(word: &'static str, description: &'static str) -> HealthWord {
    HealthWord { word, description }
}

impl Qualifier {
    /// Its name and its alias.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }

    /// The qualifier of this name, in any case.
    pub fn named(name: &str) -> Option<&'static Self> {
        let is_named = |qualifier: &&Self| {
            qualifier
                .names()
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        QUALIFIERS.iter().find(is_named)
    }

    /// The name of a qualifier that was probably meant, of a name that is none.
    pub(super) fn meant_by(name: &str) -> Option<&'static str> {
        if name.len() > LONGEST_MISTYPED_NAME {
            return None;
        }
        let given = name.to_ascii_lowercase();
        let mut names = QUALIFIERS.iter().flat_map(Self::names);
        names.find(|known| {
            let edits = edit_distance(given.as_bytes(), known.as_bytes());
            (1..=accepted_edits(known)).contains(&edits)
        })
    }
}

/// Two letters more than `namespace`.
const LONGEST_MISTYPED_NAME: usize = 11;

/// How many typing errors a name may have to be recognized. Short names differ by one letter from
/// too many words.
fn accepted_edits(name: &str) -> usize {
    match name.len() {
        ..=3 => 0,
        4..=7 => 1,
        8.. => 2,
    }
}

/// How many letters have to be inserted, deleted, replaced, or swapped with their neighbour: the
/// optimal string alignment distance.
fn edit_distance(left: &[u8], right: &[u8]) -> usize {
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in 0..=left.len() {
        for j in 0..=right.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
                let is_swapped =
                    i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
                let swapped = if is_swapped {
                    rows[i - 2][j - 2] + 1
                } else {
                    usize::MAX
                };
                let inserted = rows[i - 1][j].min(rows[i][j - 1]) + 1;
                replaced.min(swapped).min(inserted)
            };
        }
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualifiers_are_found_by_both_names_in_any_case() {
        assert_eq!(
            Qualifier::named("NameSpace").map(|found| found.name),
            Some("ns")
        );
        assert_eq!(
            Qualifier::named("KIND").map(|found| found.name),
            Some("kind")
        );
        assert_eq!(Qualifier::named("nginx"), None);
    }

    #[test]
    fn typing_errors_are_told_from_other_names() {
        let meant = Qualifier::meant_by;
        for (typed, name) in [
            ("heath", "health"),
            ("lable", "label"),
            ("Labels", "label"),
            ("kinds", "kind"),
            ("namspce", "namespace"),
            ("clsuter", "cluster"),
            ("imgae", "image"),
            ("use", "uses"),
        ] {
            assert_eq!(meant(typed), Some(name), "{typed}");
        }
        for other in [
            "",
            "nginx",
            "system",
            "redis",
            "node",
            "http",
            "ages",
            "n",
            "sns",
            "kind",
            "healthiest",
        ] {
            assert_eq!(meant(other), None, "{other}");
        }
    }
}
