//! Renderings in Secrets beside their `Distribution`, so that they outlive a process.
//!
//! Users who may write Secrets in the namespace can change what is in such a Secret: it is bounded
//! when it is read, and the rights of the set bound what of it is written to clusters.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fleetdex_core::model::causes;
use fleetdex_distribution::{
    marks,
    sets::SetName,
    template_name::{NameParts, TemplateName},
    templates::RENDERING_SECRET,
};
use fleetdex_interpreter::value::{list, text};
use fleetdex_rendering::{
    digest::Sha256Digest,
    kept::{MAX_PACKED, StoredRendering},
};
use http::StatusCode;
use serde_json::{Value, json};

use super::failure::SetFailure;
use crate::{
    blocking::run_blocking,
    object_client::{ObjectClient, ObjectRequestError},
};

/// The member of a Secret that has the rendering.
const MEMBER: &str = "rendering";
/// Bytes of a set's name in that of a Secret.
const NAME_BYTES: usize = 200;
/// So many digits of a hash tell the renderings of sets from each other.
const HASH_DIGITS: usize = 16;

/// Reads and writes the Secrets.
pub struct RenderingSecrets {
    /// Secrets of the control plane.
    pub client: ObjectClient,
}

impl RenderingSecrets {
    /// Reads a rendering; `None`: there is none.
    pub async fn load(
        &self,
        set: &SetName,
        revision: &str,
    ) -> Result<Option<StoredRendering>, SetFailure> {
        let name = secret_name(set, revision);
        let secret = self.client.get(&name).await.map_err(|error| {
            let message = format!("cannot read Secret {}: {}", name.name, causes(&error));
            SetFailure::new("RevisionNotReadable", message)
        })?;
        let Some(secret) = secret else {
            return Ok(None);
        };
        let (uid, wanted) = (set.uid.clone(), revision.to_owned());
        let read = run_blocking(move || read(&secret, &uid, &wanted)).await;
        let read = read.map_err(|error| error.to_string()).flatten();
        read.map(Some).map_err(|reason| {
            let message = format!(
                "Secret {} is not what this set was rendered to, delete it: {reason}",
                name.name
            );
            SetFailure::new("RevisionNotReadable", message)
        })
    }

    /// Keeps a rendering. Returns whether there was none.
    pub async fn keep(
        &self,
        set: &SetName,
        digest: &Sha256Digest,
        packed: &[u8],
    ) -> Result<bool, SetFailure> {
        let name = secret_name(set, digest.as_str());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": RENDERING_SECRET, "immutable": true,
            "metadata": {
                "name": name.name, "namespace": name.namespace,
                "ownerReferences": [set.owner_reference()],
            },
            "data": {MEMBER: BASE64_STANDARD.encode(packed)},
        });
        match self.client.create(&name, &secret).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(StatusCode::CONFLICT) => Ok(false),
            Err(error) => {
                let message = format!("cannot write Secret {}: {}", name.name, causes(&error));
                Err(SetFailure::new("RevisionNotWritable", message))
            }
        }
    }

    /// Deletes a rendering, if there is one.
    pub async fn forget(&self, set: &SetName, revision: &str) -> Result<(), ObjectRequestError> {
        let name = secret_name(set, revision);
        let Some(secret) = self.client.get(&name).await? else {
            return Ok(());
        };
        if !is_of_set(&secret, &set.uid) {
            return Ok(());
        }
        let uid = text(&secret, &["metadata", "uid"]);
        self.client.delete(&name, uid, None).await
    }
}

fn secret_name(set: &SetName, revision: &str) -> TemplateName {
    let mut hash = marks::hash_of_text(&format!("{}/{revision}", set.uid));
    hash.truncate(HASH_DIGITS);
    let mut name = set.name.clone();
    name.truncate(name.floor_char_boundary(NAME_BYTES));
    TemplateName::from(NameParts {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: set.namespace.clone(),
        name: format!("{name}-{hash}"),
    })
}

fn is_of_set(secret: &Value, uid: &str) -> bool {
    let mut owners = list(secret, &["metadata", "ownerReferences"]).iter();
    text(secret, &["type"]) == RENDERING_SECRET && owners.any(|owner| owner["uid"] == uid)
}

fn read(secret: &Value, uid: &str, revision: &str) -> Result<StoredRendering, String> {
    if !is_of_set(secret, uid) {
        return Err("it is of another type, or of another owner".to_owned());
    }
    let packed = BASE64_STANDARD.decode(text(secret, &["data", MEMBER]));
    let packed = packed.map_err(|error| causes(&error))?;
    if packed.len() > MAX_PACKED {
        return Err("it is too large".to_owned());
    }
    let kept = StoredRendering::unpack(&packed).map_err(|error| causes(&error))?;
    if kept.digest.as_str() != revision {
        return Err("it has another digest".to_owned());
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use fleetdex_rendering::kept::StoredVariant;

    use super::*;

    fn set(name: &str, uid: &str) -> SetName {
        SetName {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    #[test]
    fn each_revision_of_each_set_has_a_secret_of_its_own() {
        let long = "a".repeat(253);
        let names = [
            secret_name(&set("web", "u"), "sha256:1"),
            secret_name(&set("web", "u"), "sha256:2"),
            secret_name(&set("web", "v"), "sha256:1"),
            secret_name(&set(&long, "u"), "sha256:1"),
        ];
        let distinct: std::collections::BTreeSet<&String> =
            names.iter().map(|one| &one.name).collect();
        assert_eq!(distinct.len(), names.len());
        assert!(names.iter().all(|one| one.name.len() <= 253));
        assert!(names[0].name.starts_with("web-"), "{}", names[0]);
    }

    #[test]
    fn what_a_stranger_has_written_is_refused() {
        let digest = Sha256Digest::of(b"a");
        let kept = StoredRendering {
            digest: digest.clone(),
            source: digest.clone(),
            version: String::new(),
            notes: String::new(),
            warnings: Vec::new(),
            objects: vec![json!({"kind": "ConfigMap"})],
            variants: vec![StoredVariant {
                digest,
                objects: vec![0],
                ..StoredVariant::default()
            }],
            hooks: Vec::new(),
        };
        let revision = kept.digest.to_string();
        let packed = BASE64_STANDARD.encode(kept.pack().unwrap());
        let secret = |kind: &str, owner: &str, data: &str| {
            json!({"type": kind, "metadata": {"ownerReferences": [{"uid": owner}]},
                "data": {MEMBER: data}})
        };
        let own = secret(RENDERING_SECRET, "u", &packed);
        assert_eq!(read(&own, "u", &revision), Ok(kept));
        for (secret, revision, expected) in [
            (secret("Opaque", "u", &packed), &*revision, "another type"),
            (secret(RENDERING_SECRET, "v", &packed), &revision, "owner"),
            (own, "sha256:0", "another digest"),
            (secret(RENDERING_SECRET, "u", "?"), &revision, "Invalid"),
            (secret(RENDERING_SECRET, "u", ""), &revision, "compressed"),
            (
                secret(RENDERING_SECRET, "u", &"A".repeat(4_000_000)),
                &revision,
                "too large",
            ),
        ] {
            let reason = read(&secret, "u", revision).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
