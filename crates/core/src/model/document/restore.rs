//! Restores objects from documents.

use ahash::{AHashMap, AHashSet};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::model::{
    ClusterName, Interpretation,
    json::{Json, RawMembers, write_key, write_text},
    well_known::{CLUSTER_ANNOTATION, DOCUMENT_KEYS},
};

/// The object of a document in its native shape, with [`CLUSTER_ANNOTATION`]; the reverse of [`Projector::document`](super::Projector::document).
///
/// A document deserializes directly to its object, so that values that are only passed on are read once.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The member that holds it.
    pub cluster: ClusterName,
    /// The object.
    pub object: Json,
    /// What the document says that the object means.
    pub interpretation: Option<Interpretation>,
}

impl<'de> Deserialize<'de> for Restored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        HitSource::deserialize(deserializer)?
            .0
            .map_err(D::Error::custom)
    }
}

/// The `_source` of a hit: the restored object, or the error, so that the reader can name the document that cannot be read.
#[derive(Debug)]
pub struct HitSource(pub Result<Restored, serde_json::Error>);

impl<'de> Deserialize<'de> for HitSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(restored(&RawMembers::deserialize(deserializer)?)))
    }
}

fn restored(document: &RawMembers<'_>) -> Result<Restored, serde_json::Error> {
    let cluster =
        member(document, "cluster").ok_or_else(|| serde_json::Error::missing_field("cluster"))?;
    let cluster: ClusterName = serde_json::from_str(cluster)?;
    let search: RawMembers<'_> = serde_json::from_str(member(document, "search").unwrap_or("{}"))?;
    let native: RawMembers<'_> = serde_json::from_str(member(&search, "native").unwrap_or("{}"))?;
    let size: usize = document
        .0
        .iter()
        .map(|(key, value)| key.0.len() + value.get().len() + "\"\":,".len())
        .sum();
    let mut out = Vec::with_capacity(size + CLUSTER_ANNOTATION.len() + cluster.as_str().len() + 64);
    out.push(b'{');
    // Both may have as many members as their object, so they are looked up by name.
    let whole: AHashMap<&str, &str> = native
        .0
        .iter()
        .map(|(key, value)| (&*key.0, value.get()))
        .collect();
    for (key, value) in document
        .0
        .iter()
        .filter(|(key, _)| !DOCUMENT_KEYS.contains(&&*key.0))
    {
        let value = whole.get(&*key.0).copied().unwrap_or(value.get());
        write_key(&mut out, &key.0);
        if key.0 == "metadata" {
            write_annotated(&mut out, value, &cluster)?;
        } else {
            out.extend_from_slice(value.as_bytes());
        }
    }
    let written: AHashSet<&str> = document
        .0
        .iter()
        .map(|(key, _)| &*key.0)
        .filter(|key| !DOCUMENT_KEYS.contains(key))
        .collect();
    for (key, value) in native
        .0
        .iter()
        .filter(|(key, _)| !written.contains(&*key.0))
    {
        write_key(&mut out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    let json = String::from_utf8(out).map_err(serde_json::Error::custom)?;
    Ok(Restored {
        cluster,
        object: Json::known(json),
        interpretation: Interpretation::read(&search),
    })
}

fn member<'m>(members: &RawMembers<'m>, name: &str) -> Option<&'m str> {
    members
        .0
        .iter()
        .find(|(key, _)| key.0 == name)
        .map(|(_, value)| value.get())
}

/// Writes `metadata` with [`CLUSTER_ANNOTATION`].
fn write_annotated(
    out: &mut Vec<u8>,
    metadata: &str,
    cluster: &ClusterName,
) -> Result<(), serde_json::Error> {
    let metadata: RawMembers<'_> = serde_json::from_str(metadata)?;
    out.push(b'{');
    for (key, value) in metadata.0.iter().filter(|(key, _)| key.0 != "annotations") {
        write_key(out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    write_key(out, "annotations");
    out.push(b'{');
    if let Some((_, annotations)) = metadata.0.iter().find(|(key, _)| key.0 == "annotations") {
        let annotations: RawMembers<'_> = serde_json::from_str(annotations.get())?;
        for (key, value) in annotations
            .0
            .iter()
            .filter(|(key, _)| key.0 != CLUSTER_ANNOTATION)
        {
            write_key(out, &key.0);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    write_key(out, CLUSTER_ANNOTATION);
    write_text(out, cluster.as_str());
    out.extend_from_slice(b"}}");
    Ok(())
}
