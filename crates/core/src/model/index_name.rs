//! Names of indices and aliases, and the reversible escaping of cluster names in them.
//!
//! A prefix has no `-` and no `.`, and an escaped cluster name has no `.`. So the first of these
//! two characters ends the prefix of every name, and the names of two prefixes differ for all
//! clusters.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{ClusterName, hex};

/// The prefix cannot start an index name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "index prefix {0:?} must start with a lower-case letter and hold only lower-case letters, digits and '_' (at most 64); with a '-' its \
     names could be those of a cluster of a shorter prefix"
)]
pub struct InvalidPrefix(String);

/// The start of the names of all indices and aliases of one store (`fleetdex` by default).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IndexPrefix(Arc<str>);

impl IndexPrefix {
    /// The prefix as text; it is also the alias over all clusters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The alias for the complete documents of one cluster.
    pub fn cluster_alias(&self, cluster: &ClusterName) -> IndexName {
        IndexName(format!("{}-{}", self.0, escape(cluster.as_str())).into())
    }

    /// The index of one revision of a cluster's documents.
    pub fn revision(&self, cluster: &ClusterName, revision: u64) -> IndexName {
        IndexName(format!("{}-{}.g{revision}", self.0, escape(cluster.as_str())).into())
    }

    /// The alias through which one revision is written, whether or not queries are answered from
    /// it.
    pub fn write_alias(&self, cluster: &ClusterName, revision: u64) -> IndexName {
        IndexName(format!("{}-{}.w{revision}", self.0, escape(cluster.as_str())).into())
    }

    /// A pattern that all revisions of all clusters match, and no index of another prefix.
    pub fn every_revision(&self) -> IndexName {
        IndexName(format!("{}-*.g*", self.0).into())
    }

    /// A pattern that all revisions of one cluster match, and nothing else, because cluster names
    /// are escaped.
    pub fn revisions(&self, cluster: &ClusterName) -> IndexName {
        IndexName(format!("{}-{}.g*", self.0, escape(cluster.as_str())).into())
    }

    /// A pattern that the write aliases of all revisions of one cluster match, wherever their
    /// documents are.
    pub fn write_aliases(&self, cluster: &ClusterName) -> IndexName {
        IndexName(format!("{}-{}.w*", self.0, escape(cluster.as_str())).into())
    }

    /// The alias of the checkpoint index that permits one deletion of what a cluster has.
    pub fn deletion_permit(&self, cluster: &ClusterName, number: u64) -> IndexName {
        IndexName(format!("{}{number}", self.start_of_permits(cluster)).into())
    }

    /// A pattern that these aliases of one cluster match, and nothing else.
    pub fn deletion_permits(&self, cluster: &ClusterName) -> IndexName {
        IndexName(format!("{}*", self.start_of_permits(cluster)).into())
    }

    /// Whether an alias is such a one of this cluster.
    pub fn is_deletion_permit(&self, cluster: &ClusterName, alias: &IndexName) -> bool {
        alias.0.starts_with(&self.start_of_permits(cluster))
    }

    fn start_of_permits(&self, cluster: &ClusterName) -> String {
        format!("{}-{}.d", self.0, escape(cluster.as_str()))
    }

    /// An index that small clusters share. No cluster's index has such a name.
    pub fn shared_index(&self, number: u64) -> IndexName {
        IndexName(format!("{}{SHARED}{number}", self.0).into())
    }

    /// A pattern that all shared indices match, and no index of another prefix.
    pub fn every_shared_index(&self) -> IndexName {
        IndexName(format!("{}{SHARED}*", self.0).into())
    }

    /// The number of a shared index of this prefix.
    pub fn shared_index_number(&self, index: &IndexName) -> Option<u64> {
        let of_prefix = index.as_str().strip_prefix(self.0.as_ref())?;
        of_prefix.strip_prefix(SHARED)?.parse().ok()
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
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let starts_well = text
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_lowercase());
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

    /// The write alias of a revision whose documents are a partition of a shared index.
    #[must_use]
    pub fn in_partition(&self, partition: Partition) -> Self {
        Self(format!("{}{PARTITION}{}", self.0, partition.0).into())
    }

    /// The partition that this is the write alias of.
    pub fn partition(&self) -> Option<Partition> {
        // Neither a prefix nor an escaped cluster name has a dot.
        let (_, number) = self.0.rsplit_once(PARTITION)?;
        number.parse().ok().map(Partition)
    }

    /// The alias that a shared index has in one state of its other aliases.
    #[must_use]
    pub fn version_alias(&self, version: u64) -> Self {
        Self(format!("{}{VERSION}{version}", self.0).into())
    }

    /// The version that such an alias of this index names.
    pub fn version_of_alias(&self, alias: &str) -> Option<u64> {
        let of_index = alias.strip_prefix(self.0.as_ref())?;
        of_index.strip_prefix(VERSION)?.parse().ok()
    }

    /// The id of a document that is written through this alias.
    pub fn stored_id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        match self.partition() {
            Some(partition) => Cow::Owned(format!("{}:{id}", partition.0)),
            None => Cow::Borrowed(id),
        }
    }
}

/// The id of a document, of what [`IndexName::stored_id`] has made of it. An id starts with an API
/// version, so that digits and a colon are never the start of one.
pub fn document_id(stored: &str) -> &str {
    match stored.split_once(':') {
        Some((partition, id)) if partition.bytes().all(|byte| byte.is_ascii_digit()) => id,
        _ => stored,
    }
}

/// The documents of one revision of a cluster in an index that several clusters share. They carry
/// its number as their routing, and in their ids. No number is used twice in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u64);

impl Partition {
    /// The routing of its documents.
    pub fn routing(self) -> String {
        self.0.to_string()
    }
}

const SHARED: &str = ".shared.";
const PARTITION: &str = ".p";
const VERSION: &str = ".v";

impl fmt::Display for IndexName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Longest escaped name. An index name may have 255 bytes, of which 64 are for the prefix and 23
/// for `-`, `.g` and the revision; in the alias of a partition these 23 are for both numbers, of
/// which each may have nine digits.
const MAX_ESCAPED: usize = 168;
/// Separates the start of a long name from its hash. No escaped byte looks like it.
const CUT: &str = "_z";
/// Bytes of the hash of a long name.
const HASH_BYTES: usize = 16;

/// Escapes a cluster name: lower-case letters, digits and `-` stay, every other byte is `_` and two
/// hex digits. This is reversible, so that no two clusters share an index, and has no `.`, so that
/// no cluster name looks like a revision of another.
///
/// A name that would be too long is its start, `_z` and a hash; the index's `_meta` and each
/// document have the whole name.
fn escape(name: &str) -> String {
    let escaped = escape_bytes(name.bytes());
    if escaped.len() <= MAX_ESCAPED {
        return escaped;
    }
    let room = MAX_ESCAPED - CUT.len() - 2 * HASH_BYTES;
    // Every byte takes at most three, and no escape is cut.
    let start = escape_bytes(name.bytes().take(room / 3));
    let hash = Sha256::digest(name.as_bytes());
    format!("{start}{CUT}{}", hex(&hash[..HASH_BYTES]))
}

fn escape_bytes(name: impl Iterator<Item = u8>) -> String {
    let mut escaped = String::new();
    for byte in name {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' {
            escaped.push(char::from(byte));
        } else {
            escaped.push('_');
            escaped.push_str(&hex(&[byte]));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_partitions_and_shared_indices_read_back() {
        let (prefix, cluster) = (IndexPrefix::default(), "p.1/w2.p3".parse().unwrap());
        let own = prefix.write_alias(&cluster, 7);
        assert_eq!(own.partition(), None);
        assert_eq!(own.stored_id("v1/Pod/1:2"), "v1/Pod/1:2");
        let packed = own.in_partition(Partition(12));
        assert_eq!(packed.as_str(), format!("{own}.p12"));
        assert_eq!(packed.partition(), Some(Partition(12)));
        assert_eq!(packed.stored_id("v1/Pod/1:2"), "12:v1/Pod/1:2");
        for id in ["v1/Pod/1:2", "3scale.net/v1/Pod/1:2", "v1/Pod/u"] {
            assert_eq!(document_id(id), id);
            assert_eq!(document_id(&packed.stored_id(id)), id);
        }
        let shared = prefix.shared_index(3);
        assert_eq!(shared.as_str(), "fleetdex.shared.3");
        assert_eq!(prefix.shared_index_number(&shared), Some(3));
        let alias = shared.version_alias(4);
        assert_eq!(shared.version_of_alias(alias.as_str()), Some(4));
        for other in [alias, prefix.state(), prefix.revision(&cluster, 1)] {
            assert_eq!(prefix.shared_index_number(&other), None, "{other}");
        }
        assert_eq!(shared.version_of_alias("fleetdex.shared.33.v4"), None);
    }

    /// The name before escaping; `None` if it was too long.
    fn unescape(escaped: &str) -> Option<String> {
        let mut name = Vec::with_capacity(escaped.len());
        let mut rest = escaped.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'_' {
                name.push(byte);
                continue;
            }
            let digits = [rest.next()?, rest.next()?];
            name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        }
        String::from_utf8(name).ok()
    }

    #[test]
    fn cluster_names_with_odd_letters_have_different_indices() {
        let prefix = IndexPrefix::default();
        let alias = |name: &str| prefix.cluster_alias(&name.parse().unwrap()).to_string();
        assert_eq!(alias("member1"), "fleetdex-member1");
        assert_eq!(alias("team/prod"), "fleetdex-team_2fprod");
        assert_eq!(alias("a.g2"), "fleetdex-a_2eg2");
        assert_eq!(alias("A_b"), "fleetdex-_41_5fb");
    }

    #[test]
    fn names_of_every_source_are_names_of_indices() {
        let long = format!("{}/{}", "n".repeat(63), "x.".repeat(126));
        for name in [
            "team/prod",
            "arn:aws:eks:eu-west-1:1:cluster/Prod",
            "kubernetes-admin@Kubernetes",
            "a b\"*<>|,#?\\",
            "é",
            &long,
        ] {
            let name: ClusterName = name.parse().unwrap();
            let prefix: IndexPrefix = "p".repeat(64).parse().unwrap();
            let index = prefix.revision(&name, u64::MAX).to_string();
            assert!(index.len() <= 255, "{index}");
            assert!(
                index.bytes().all(|byte| byte.is_ascii_lowercase()
                    || byte.is_ascii_digit()
                    || b"-_.".contains(&byte)),
                "{index}"
            );
        }
    }

    #[test]
    fn long_names_differ_from_each_other_and_from_short_ones() {
        let long = |end: &str| escape(&format!("{}{end}", "x".repeat(300)));
        assert_ne!(long("a"), long("b"));
        assert_eq!(
            (long("a").len() <= MAX_ESCAPED, unescape(&long("a"))),
            (true, None)
        );
        let edge = "x".repeat(MAX_ESCAPED);
        assert_eq!(escape(&edge), edge);
        assert_ne!(
            escape(&long("a")),
            long("a"),
            "a cluster that is named like an escaped name is another one"
        );
    }

    proptest::proptest! {
        #[test]
        fn an_escaped_name_can_be_read_back(name in "\\PC{0,56}") {
            // 56 characters of up to four bytes are too long only if nearly all of them are not
            // ASCII.
            if let Some(read) = unescape(&escape(&name)) {
                proptest::prop_assert_eq!(read, name);
            } else {
                proptest::prop_assert!(3 * name.len() > MAX_ESCAPED);
            }
        }

        #[test]
        fn names_of_kubernetes_objects_can_be_read_back(name in "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?") {
            proptest::prop_assert_eq!(unescape(&escape(&name)), Some(name));
        }
    }

    /// Whether an index name matches a pattern of OpenSearch.
    fn matches(pattern: &str, name: &str) -> bool {
        let Some((before, after)) = pattern.split_once('*') else {
            return pattern == name;
        };
        let Some(rest) = name.strip_prefix(before) else {
            return false;
        };
        (0..=rest.len()).any(|start| rest.get(start..).is_some_and(|rest| matches(after, rest)))
    }

    /// Every name of a cluster, and every name of its prefix.
    fn names(
        prefix: &IndexPrefix,
        cluster: &ClusterName,
        revision: u64,
    ) -> (BTreeSet<IndexName>, BTreeSet<IndexName>) {
        let of_cluster = [
            prefix.cluster_alias(cluster),
            prefix.revision(cluster, revision),
            prefix.write_alias(cluster, revision),
            prefix.deletion_permit(cluster, revision),
        ];
        (of_cluster.into(), [prefix.all(), prefix.state()].into())
    }

    /// Names of clusters as sources give them, and such as are made to collide.
    fn cluster_names() -> impl proptest::strategy::Strategy<Value = ClusterName> {
        use proptest::strategy::Strategy as _;
        "[-ab_.gw1/*E]{1,8}|[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?|(ab-){60,90}[a-c]"
            .prop_map(|name| name.parse().unwrap())
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]
        #[test]
        fn no_name_of_one_prefix_or_cluster_is_a_name_of_another(
            prefixes in proptest::array::uniform2("[ab][ab_1]{0,3}"),
            clusters in proptest::array::uniform2(cluster_names()),
            revisions in proptest::array::uniform2(1_u64..12),
        ) {
            let prefixes = prefixes.map(|prefix| prefix.parse::<IndexPrefix>().unwrap());
            let (of_one, shared) = names(&prefixes[0], &clusters[0], revisions[0]);
            let (of_other, shared_by_other) = names(&prefixes[1], &clusters[1], revisions[1]);
            proptest::prop_assert!(of_one.is_disjoint(&shared_by_other) && of_other.is_disjoint(&shared));
            if prefixes[0] != prefixes[1] {
                proptest::prop_assert!(shared.is_disjoint(&shared_by_other));
            }
            if prefixes[0] != prefixes[1] || clusters[0] != clusters[1] {
                proptest::prop_assert!(of_one.is_disjoint(&of_other), "{of_one:?} {of_other:?}");
                let pattern = prefixes[0].revisions(&clusters[0]);
                for name in of_other.iter().chain(&shared_by_other) {
                    proptest::prop_assert!(!matches(pattern.as_str(), name.as_str()), "{pattern} {name}");
                }
            }
            // The pattern of the index template, and of what is looked for.
            let pattern = prefixes[0].every_revision();
            for name in of_other.iter().chain(&shared_by_other).chain(&shared) {
                let is_revision = *name == prefixes[1].revision(&clusters[1], revisions[1]);
                let expected = is_revision && prefixes[0] == prefixes[1];
                proptest::prop_assert_eq!(matches(pattern.as_str(), name.as_str()), expected, "{} {}", pattern, name);
            }
        }
    }

    #[test]
    fn a_prefix_is_a_plain_lower_case_word() {
        assert!("fleet_1_x".parse::<IndexPrefix>().is_ok());
        for refused in [
            "",
            "1a",
            "Fleet",
            "a.b",
            "a*",
            "_a",
            "a,b",
            "fleetdex-eu",
            "a-",
        ] {
            assert!(refused.parse::<IndexPrefix>().is_err(), "{refused:?}");
        }
    }
}
