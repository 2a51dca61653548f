//! Names of indices and aliases, and the reversible escaping of cluster names in them.

use std::{fmt, fmt::Write as _, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::ClusterName;

/// The prefix cannot start an index name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "index prefix {0:?} must start with a lower-case letter and hold only lower-case letters, digits, '-' and '_' (at most 64)"
)]
pub struct InvalidPrefix(String);

/// What every index and alias of one store starts with (`fleetdex` by default).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IndexPrefix(Arc<str>);

impl IndexPrefix {
    /// The prefix as text; it is also the alias over all clusters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The alias that always stands for the complete documents of one cluster.
    pub fn cluster_alias(&self, cluster: &ClusterName) -> IndexName {
        IndexName(format!("{}-{}", self.0, escape(cluster.as_str())).into())
    }

    /// The index of one generation of a cluster's documents.
    pub fn generation(&self, cluster: &ClusterName, generation: u64) -> IndexName {
        IndexName(format!("{}-{}.g{generation}", self.0, escape(cluster.as_str())).into())
    }

    /// The alias through which one generation is written, whether or not queries are answered from it.
    pub fn write_alias(&self, cluster: &ClusterName, generation: u64) -> IndexName {
        IndexName(format!("{}-{}.w{generation}", self.0, escape(cluster.as_str())).into())
    }

    /// What all generations of one cluster match. Cluster names are escaped, so nothing else does.
    pub fn generations(&self, cluster: &ClusterName) -> IndexName {
        IndexName(format!("{}-{}.g*", self.0, escape(cluster.as_str())).into())
    }

    /// The index of checkpoints. No cluster's index has such a name.
    pub fn state(&self) -> IndexName {
        IndexName(format!("{}.state", self.0).into())
    }

    /// The alias over all clusters.
    pub fn all(&self) -> IndexName {
        IndexName(Arc::clone(&self.0))
    }
}

impl Default for IndexPrefix {
    fn default() -> Self {
        Self("fleetdex".into())
    }
}

impl FromStr for IndexPrefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        let starts_well = text.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
        if starts_well && text.len() <= 64 && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidPrefix(text.to_owned()))
        }
    }
}

impl TryFrom<String> for IndexPrefix {
    type Error = InvalidPrefix;

    fn try_from(text: String) -> Result<Self, InvalidPrefix> {
        text.parse()
    }
}

impl From<IndexPrefix> for String {
    fn from(prefix: IndexPrefix) -> Self {
        prefix.0.as_ref().to_owned()
    }
}

/// The name of an index or alias.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IndexName(Arc<str>);

impl IndexName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Lower-case letters, digits and `-` stand for themselves, every other byte is `_` and two hex digits: reversible, so that
/// no two clusters share an index, and free of `.`, so that no cluster name can look like a generation of another.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' {
            escaped.push(char::from(byte));
        } else {
            #[expect(clippy::let_underscore_must_use, reason = "writing to a String cannot fail")]
            let _ = write!(escaped, "_{byte:02x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_cluster_names_stay_apart() {
        let prefix = IndexPrefix::default();
        let alias = |name: &str| prefix.cluster_alias(&name.parse().unwrap()).to_string();
        assert_eq!(alias("member1"), "fleetdex-member1");
        assert_eq!(alias("team/prod"), "fleetdex-team_2fprod");
        assert_eq!(alias("a.g2"), "fleetdex-a_2eg2");
        assert_eq!(alias("A_b"), "fleetdex-_41_5fb");
    }

    #[test]
    fn a_prefix_is_a_plain_lower_case_word() {
        assert!("fleet-1_x".parse::<IndexPrefix>().is_ok());
        for refused in ["", "1a", "Fleet", "a.b", "a*", "_a", "a,b"] {
            assert!(refused.parse::<IndexPrefix>().is_err(), "{refused:?}");
        }
    }
}
