//! The way back: from a document to the object that it was made of.

use serde_json::value::RawValue;

use super::OWN_KEYS;
use crate::model::{
    ClusterName,
    json::{RawMembers, write_key, write_text},
};

/// The annotation on every answered object that names its member. Source: Karmada's search API.
pub const CLUSTER_ANNOTATION: &str = "resource.karmada.io/cached-from-cluster";

/// The object of a document in its native shape, with [`CLUSTER_ANNOTATION`]; the reverse of [`Projector::document`](super::Projector::document).
pub fn restore(source: &RawValue) -> Result<(ClusterName, Box<RawValue>), serde_json::Error> {
    use serde::de::Error as _;
    let document: RawMembers<'_> = serde_json::from_str(source.get())?;
    let member = |members: &RawMembers<'_>, name: &str| {
        members.0.iter().find(|(key, _)| key.0 == name).map(|(_, value)| value.get().to_owned())
    };
    let cluster: ClusterName = match member(&document, "cluster") {
        Some(cluster) => serde_json::from_str(&cluster)?,
        None => return Err(serde_json::Error::missing_field("cluster")),
    };
    let search = member(&document, "search").unwrap_or_else(|| "{}".to_owned());
    let search: RawMembers<'_> = serde_json::from_str(&search)?;
    let native = member(&search, "native").unwrap_or_else(|| "{}".to_owned());
    let native: RawMembers<'_> = serde_json::from_str(&native)?;
    let mut out = Vec::with_capacity(source.get().len() + 64);
    out.push(b'{');
    for (key, value) in document.0.iter().filter(|(key, _)| !OWN_KEYS.contains(&&*key.0)) {
        if key.0 == "metadata" {
            let metadata = member(&native, "metadata").unwrap_or_else(|| value.get().to_owned());
            write_key(&mut out, "metadata");
            write_annotated(&mut out, &metadata, &cluster)?;
        } else {
            let whole = native.0.iter().find(|(name, _)| name.0 == key.0).map_or(value, |(_, whole)| whole);
            write_key(&mut out, &key.0);
            out.extend_from_slice(whole.get().as_bytes());
        }
    }
    let is_elsewhere = |key: &str| OWN_KEYS.contains(&key) || document.0.iter().all(|(name, _)| name.0 != key);
    for (key, value) in native.0.iter().filter(|(key, _)| is_elsewhere(&key.0)) {
        write_key(&mut out, &key.0);
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    let json = String::from_utf8(out).map_err(serde_json::Error::custom)?;
    Ok((cluster, RawValue::from_string(json)?))
}

/// Writes `metadata` with the annotation that names the member.
fn write_annotated(out: &mut Vec<u8>, metadata: &str, cluster: &ClusterName) -> Result<(), serde_json::Error> {
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
        for (key, value) in annotations.0.iter().filter(|(key, _)| key.0 != CLUSTER_ANNOTATION) {
            write_key(out, &key.0);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    write_key(out, CLUSTER_ANNOTATION);
    write_text(out, cluster.as_str());
    out.extend_from_slice(b"}}");
    Ok(())
}
