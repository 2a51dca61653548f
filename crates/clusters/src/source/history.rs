//! Decides from their histories whether two members with one cluster UID are one cluster: a cluster
//! that is restored from a backup has the UIDs of its origin.
//!
//! Every write to a cluster gets a `resourceVersion` of its own, and these only grow. The members
//! are read in turn: the first, the other, the first again. If both are one cluster, the sample of
//! the other lies between the two samples of the first in every respect; once two clusters have
//! diverged it does not. Then the other is read again, so that a sample of the first lies between
//! two of the other, too: a member that lies about its versions can put anything between its own
//! samples, but cannot put its own between those of a cluster that it cannot read.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::quoted,
    planted::{Bug, planted},
};
use serde::Deserialize;

/// Objects per list page. A page that is not the last one has as many; from a shorter one no object
/// can be concluded to be missing.
pub const PAGE: usize = 500;

/// The names, UIDs and versions of a member's list: a sample of its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistorySample {
    version: u64,
    /// Name and version by UID.
    objects: BTreeMap<String, (String, u64)>,
    /// Whether the list was read completely.
    is_complete: bool,
}

#[derive(Deserialize)]
struct RawSampleList {
    metadata: RawListMetadata,
    #[serde(default)]
    items: Vec<RawItem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawListMetadata {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

#[derive(Deserialize)]
struct RawItem {
    metadata: RawMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    name: String,
    uid: String,
    resource_version: String,
}

impl HistorySample {
    /// Parses a list of objects or of metadata. Returns `None` if it is no list, continues after
    /// fewer than `PAGE` objects, or has versions that are not numbers.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let raw: RawSampleList = serde_json::from_slice(json).ok()?;
        let is_complete = raw.metadata.r#continue.is_empty();
        if !is_complete && raw.items.len() < PAGE {
            return None;
        }
        let mut objects = BTreeMap::new();
        for RawItem { metadata } in raw.items {
            objects.insert(
                metadata.uid,
                (metadata.name, metadata.resource_version.parse().ok()?),
            );
        }
        Some(Self {
            version: raw.metadata.resource_version.parse().ok()?,
            objects,
            is_complete,
        })
    }
}

/// Describes what rules out that two members are one cluster, given that `other` was read after
/// `first` and before `again`; `None` if nothing does.
pub fn divergence(
    first: &HistorySample,
    other: &HistorySample,
    again: &HistorySample,
) -> Option<String> {
    if other.version < first.version || again.version < other.version {
        return Some(format!(
            "their histories differ: the one was at resourceVersion {} and then {}, the other meanwhile at {}",
            first.version, again.version, other.version
        ));
    }
    for (uid, (name, version)) in &first.objects {
        if again
            .objects
            .get(uid)
            .is_none_or(|(_, later)| later != version)
        {
            continue;
        }
        match other.objects.get(uid) {
            Some((_, there)) if there != version => {
                return Some(format!(
                    "their histories differ: {} has resourceVersion {version} in the one and {there} in the other",
                    quoted(name)
                ));
            }
            None if other.is_complete => return Some(in_one_only(name)),
            Some(_) | None => {}
        }
    }
    let unknown = |(uid, (_, version)): &(&String, &(String, u64))| {
        *version <= first.version && !first.objects.contains_key(*uid)
    };
    let extra = other
        .objects
        .iter()
        .find(unknown)
        .filter(|_| first.is_complete);
    extra.map(|(_, (name, _))| in_one_only(name))
}

fn in_one_only(name: &str) -> String {
    format!(
        "their histories differ: {} is in one of them only",
        quoted(name)
    )
}

/// What was observed of two members that report one cluster UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityEvidence {
    /// Whether both have the same API server address.
    pub same_address: bool,
    /// Whether both certificates are verified against the same certificate authorities.
    pub same_authorities: bool,
    /// The result of comparing their histories.
    pub history: HistoryComparison,
}

/// The result of comparing the histories of two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryComparison {
    /// They may be one cluster.
    Consistent,
    /// They cannot be one cluster.
    Diverged(String),
    /// The histories may not be read.
    Unreadable(String),
}

/// Whether two members are one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityVerdict {
    /// They are one cluster.
    Same,
    /// They are two clusters, or not known to be one.
    Different(String),
}

/// Decides whether two members are one cluster. The histories decide alone where they can be read;
/// otherwise members are one cluster only if their addresses and certificate authorities are the
/// same.
pub fn judge(evidence: &IdentityEvidence) -> IdentityVerdict {
    let connection = || {
        let differ = |same: bool| if same { "are the same" } else { "differ" };
        let (addresses, authorities) = (
            differ(evidence.same_address),
            differ(evidence.same_authorities),
        );
        format!("their addresses {addresses}, their certificate authorities {authorities}")
    };
    match &evidence.history {
        _ if planted(Bug::TrustReportedUid) => IdentityVerdict::Same,
        HistoryComparison::Consistent => IdentityVerdict::Same,
        HistoryComparison::Diverged(what) => {
            IdentityVerdict::Different(format!("{what}; {}", connection()))
        }
        HistoryComparison::Unreadable(_) if evidence.same_address && evidence.same_authorities => {
            IdentityVerdict::Same
        }
        HistoryComparison::Unreadable(why) => IdentityVerdict::Different(format!(
            "their histories cannot be compared ({why}); {}",
            connection()
        )),
    }
}

#[cfg(test)]
mod tests;
