//! Restores objects from documents.

use ahash::{AHashMap, AHashSet};
use serde::de::Error as _;

use crate::model::{
    ClusterName, Interpretation, JsonScanner, ScanFault,
    index_fields::{self, members},
    json::{Json, RawMembers, write_key, write_members, write_text_member},
    well_known::{CLUSTER_ANNOTATION, DOCUMENT_KEYS},
};

/// The object of a document in its native shape, with [`CLUSTER_ANNOTATION`]; the reverse of
/// [`Projector::document`](super::Projector::document).
///
/// Values that are only passed on are read once.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The member that holds it.
    pub cluster: ClusterName,
    /// The object.
    pub object: Json,
    /// What the document says that the object means.
    pub interpretation: Option<Interpretation>,
}

impl Restored {
    /// Restores the object of a document.
    pub fn parse(document: &[u8]) -> Result<Self, serde_json::Error> {
        let document = str::from_utf8(document).map_err(serde_json::Error::custom)?;
        restored(&RawMembers::parse(document)?)
    }
}

/// The `_source` of a hit: the restored object, or the error, so that the reader can name the
/// document that cannot be read.
#[derive(Debug)]
pub struct HitSource(pub Result<Restored, serde_json::Error>);

impl HitSource {
    /// Reads a document.
    pub fn read(scanner: &mut JsonScanner<'_>) -> Result<Self, ScanFault> {
        RawMembers::read(scanner, JsonScanner::skip).map(|document| Self(restored(&document)))
    }
}

fn restored(document: &RawMembers<'_>) -> Result<Restored, serde_json::Error> {
    let cluster = document
        .get(index_fields::CLUSTER)
        .ok_or_else(|| serde_json::Error::missing_field(index_fields::CLUSTER))?;
    let cluster: ClusterName = serde_json::from_str(cluster)?;
    let search = RawMembers::parse(document.get(index_fields::SEARCH).unwrap_or("{}"))?;
    let native = RawMembers::parse(search.get(members::NATIVE).unwrap_or("{}"))?;
    let members = || {
        let all = document.0.iter();
        all.filter(|(key, _)| !DOCUMENT_KEYS.contains(&&*key.0))
    };
    let size: usize = members()
        .chain(&native.0)
        .map(|(key, value)| key.0.len() + value.len() + "\"\":,".len())
        .sum();
    let mut out = Vec::with_capacity(size + CLUSTER_ANNOTATION.len() + cluster.as_str().len() + 64);
    out.push(b'{');
    // Both may have as many members as their object, so they are looked up by name.
    let whole: AHashMap<&str, &str> = native
        .0
        .iter()
        .map(|(key, value)| (&*key.0, *value))
        .collect();
    for (key, value) in members() {
        let value = whole.get(&*key.0).unwrap_or(value);
        write_key(&mut out, &key.0);
        if key.0 == "metadata" {
            write_annotated(&mut out, value, &cluster)?;
        } else {
            out.extend_from_slice(value.as_bytes());
        }
    }
    if !native.0.is_empty() {
        let written: AHashSet<&str> = members().map(|(key, _)| &*key.0).collect();
        let unwritten = native
            .0
            .iter()
            .filter(|(key, _)| !written.contains(&*key.0));
        write_members(&mut out, unwritten);
    }
    out.push(b'}');
    let json = String::from_utf8(out).map_err(serde_json::Error::custom)?;
    Ok(Restored {
        cluster,
        object: Json::known(json),
        interpretation: Interpretation::read(&search),
    })
}

/// Writes `metadata` with [`CLUSTER_ANNOTATION`].
fn write_annotated(
    out: &mut Vec<u8>,
    metadata: &str,
    cluster: &ClusterName,
) -> Result<(), serde_json::Error> {
    let metadata = RawMembers::parse(metadata)?;
    out.push(b'{');
    let others = metadata.0.iter().filter(|(key, _)| key.0 != "annotations");
    write_members(out, others);
    write_key(out, "annotations");
    out.push(b'{');
    if let Some(annotations) = metadata.get("annotations") {
        let annotations = RawMembers::parse(annotations)?;
        let others = annotations.0.iter();
        write_members(out, others.filter(|(key, _)| key.0 != CLUSTER_ANNOTATION));
    }
    write_text_member(out, CLUSTER_ANNOTATION, cluster.as_str());
    out.extend_from_slice(b"}}");
    Ok(())
}
