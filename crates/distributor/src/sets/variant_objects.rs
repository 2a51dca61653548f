//! The objects of one variant of a set: rendered, or of a revision that has it.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_clusters::discovery::Discovery;
use fleetdex_distribution::template_name::TemplateName;
use fleetdex_rendering::{
    digest::Sha256Digest, hooks::ChartHook, kept::StoredRendering, rendered::RenderedSet,
};
use serde_json::Value;

use super::{
    failure::{SetFailure, cut},
    set_objects::{self, SetKinds},
    set_rendering::SetRendering,
};
use crate::blocking::run_blocking;

/// Bytes of notes that are kept.
const NOTES: usize = 4_096;
/// Warnings that are kept, and bytes of each.
const WARNINGS: (usize, usize) = (16, 512);

/// The objects of one variant.
pub struct VariantObjects {
    /// The objects.
    pub objects: Vec<Value>,
    /// The hooks.
    pub hooks: Vec<ChartHook>,
    /// The notes of the chart.
    pub notes: String,
    /// What the renderer warned of.
    pub warnings: Vec<String>,
}

impl VariantObjects {
    /// Of what was rendered. `served`: what the clusters of the set and the control plane serve.
    pub async fn rendered(
        set: Arc<RenderedSet>,
        namespace: &str,
        served: &[Arc<Discovery>],
    ) -> Result<Self, SetFailure> {
        let mut notes = set.notes.clone();
        cut(&mut notes, NOTES);
        let warnings = warnings(&set);
        let (namespace, served) = (namespace.to_owned(), served.to_vec());
        let made = run_blocking(move || {
            let kinds = SetKinds::of(&set, &served);
            let objects = set_objects::objects(RenderedSet::clone(&set), &namespace, &kinds)?;
            Ok::<_, SetFailure>((objects, set_objects::hooks(&set, &namespace, &kinds)))
        });
        let (objects, hooks) = made.await.map_err(|error| SetFailure::aborted(&error))??;
        Ok(Self {
            objects,
            hooks,
            notes,
            warnings,
        })
    }

    /// Of a revision; `None`: it does not have the variant.
    pub fn of_known(revision: &SetRendering, digest: &Sha256Digest) -> Option<Self> {
        Some(Self {
            objects: revision.variant(digest)?,
            hooks: revision.of_chart.clone(),
            notes: revision.notes.clone(),
            warnings: revision.warnings.clone(),
        })
    }

    /// Of a revision that a Secret has; `None`: it does not have the variant.
    pub fn of_kept(revision: &StoredRendering, digest: &Sha256Digest) -> Option<Self> {
        let mut variants = revision.variants.iter();
        let variant = variants.find(|one| one.digest == *digest)?;
        Some(Self {
            objects: revision.objects_of(variant).cloned().collect(),
            hooks: revision.hooks.clone(),
            notes: revision.notes.clone(),
            warnings: revision.warnings.clone(),
        })
    }
}

/// Objects by their names: their order in a revision depends on its variants.
pub fn by_name<'o>(objects: impl Iterator<Item = &'o Value>) -> BTreeMap<TemplateName, &'o Value> {
    objects.map(|one| (TemplateName::of(one), one)).collect()
}

fn warnings(rendered: &RenderedSet) -> Vec<String> {
    let (number, bytes) = WARNINGS;
    let first = rendered.warnings.iter().take(number).cloned();
    first
        .map(|mut warning| {
            cut(&mut warning, bytes);
            warning
        })
        .collect()
}
