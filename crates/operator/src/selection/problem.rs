//! What is wrong with a selector on one member.

/// Why a selector matches no resource of a member, or perhaps not all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The member does not serve it.
    #[error("the server doesn't have a resource type {kind:?}{}", in_version(.api_version))]
    UnknownKind {
        /// The kind as the selector has it.
        kind: String,
        /// The `apiVersion` as the selector has it.
        api_version: String,
    },
    /// Several CRD groups have the kind and none is built in.
    #[error("the server has {kind:?} in several groups ({}): set apiVersion to one of them", some_of(.groups))]
    Ambiguous {
        /// The kind.
        kind: String,
        /// The groups.
        groups: Vec<String>,
    },
    /// The member serves it, but it cannot be listed and watched.
    #[error("the server's {kind:?}{} cannot be listed and watched", in_version(.api_version))]
    NotListable {
        /// The kind as the selector has it.
        kind: String,
        /// The `apiVersion` as the selector has it.
        api_version: String,
    },
    /// The discovery of a group failed, so that nothing is certain.
    #[error("the server did not answer for {}: it is not certain which resources {} stands for", some_of(.groups), quoted(.kind, .api_version))]
    Incomplete {
        /// The kind as the selector has it.
        kind: String,
        /// The `apiVersion` as the selector has it.
        api_version: String,
        /// The groups or group versions whose discovery failed.
        groups: Vec<String>,
    },
}

impl Problem {
    /// Whether it is certain which documents should exist in spite of the problem, so that others
    /// may be deleted.
    pub fn is_certain(&self) -> bool {
        matches!(self, Self::UnknownKind { .. } | Self::NotListable { .. })
    }
}

/// How many groups a problem names; a member may list thousands.
const MAX_GROUPS: usize = 10;

fn some_of(groups: &[String]) -> String {
    let (named, more) = groups.split_at(groups.len().min(MAX_GROUPS));
    let named = named.join(", ");
    if more.is_empty() {
        named
    } else {
        format!("{named} and {} more", more.len())
    }
}

fn in_version(api_version: &str) -> String {
    if api_version.is_empty() {
        String::new()
    } else {
        format!(" in {api_version}")
    }
}

fn quoted(kind: &str, api_version: &str) -> String {
    format!("{kind:?}{}", in_version(api_version))
}
