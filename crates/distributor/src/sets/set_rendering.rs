//! The objects of a set, with the rights that they need and the memory that they take.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_clusters::discovery::Discovery;
use fleetdex_core::model::value_size;
use fleetdex_distribution::template_name::NamedTemplate;
use fleetdex_rendering::{digest::Sha256Digest, kept::StoredRendering, rendered::RenderedSet};

use super::{
    failure::SetFailure,
    rights::NeededRight,
    set_objects::{self, SetKinds},
};
use crate::copy_memory::CopyMemory;

/// What the objects of one set may take, so that it leaves room for others.
const OBJECTS_OF_SET: usize = 32 << 20;

/// The objects of a set, and what they were made from.
pub struct SetRendering {
    /// In the order in which they are written.
    pub objects: Arc<[NamedTemplate]>,
    /// The digest of all inputs.
    pub digest: Sha256Digest,
    /// The version of what was fetched.
    pub version: String,
    /// The version of Kubernetes that it was rendered for.
    pub kubernetes_version: String,
    /// The notes of the chart.
    pub notes: String,
    /// What the renderer warned of.
    pub warnings: Vec<String>,
    /// Whether a Secret has it.
    pub is_kept: bool,
    /// The rights that the objects need as they are, and if overrides may change them.
    rights: [BTreeSet<NeededRight>; 2],
    memory: CopyMemory,
    bytes: usize,
}

impl Drop for SetRendering {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

impl SetRendering {
    /// Takes over a rendering, if there is room for it. Blocks.
    pub fn new(
        kept: StoredRendering,
        served: &[Arc<Discovery>],
        is_kept: bool,
        memory: &CopyMemory,
    ) -> Result<Self, SetFailure> {
        let bytes = kept.objects.iter().map(value_size).sum();
        let mut taken = memory.taking();
        if bytes > OBJECTS_OF_SET || !taken.takes(bytes) {
            return Err(SetFailure::new(
                "TooLarge",
                "its objects take more than 32 MiB of memory, or those of all sets more than \
                 256 MiB: make sets smaller, or use fewer",
            ));
        }
        let set = RenderedSet {
            objects: kept.objects,
            ..RenderedSet::default()
        };
        let kinds = SetKinds::of(&set, served);
        let rights =
            |has_overrides: bool| set_objects::needed_rights(&set.objects, &kinds, has_overrides);
        let rights = [rights(false)?, rights(true)?];
        taken.keep();
        Ok(Self {
            objects: set.objects.into_iter().map(NamedTemplate::from).collect(),
            digest: kept.digest,
            version: kept.version,
            kubernetes_version: kept.kubernetes_version,
            notes: kept.notes,
            warnings: kept.warnings,
            is_kept,
            rights,
            memory: memory.clone(),
            bytes,
        })
    }

    /// The rights that the objects need. `has_overrides`: they may become others in some clusters.
    pub fn rights(&self, has_overrides: bool) -> &BTreeSet<NeededRight> {
        let [as_they_are, changed] = &self.rights;
        if has_overrides { changed } else { as_they_are }
    }
}

/// What the source of a set is rendered to.
#[derive(Clone)]
pub struct RenderedSource {
    /// The objects.
    pub rendering: Arc<SetRendering>,
    /// What was read, to notice when it is another one.
    pub fingerprint: String,
}

impl RenderedSource {
    /// A rendering of before of which is not known what was read for it.
    pub fn of_before(rendering: Arc<SetRendering>) -> Self {
        Self {
            rendering,
            fingerprint: String::new(),
        }
    }
}

/// What became of rendering a set.
pub struct RenderOutcome {
    /// The kept revisions that were asked for, as far as they are there and may be in force.
    pub loaded: Vec<Arc<SetRendering>>,
    /// The revisions that are not kept any more.
    pub forgotten: Vec<String>,
    /// What the source is rendered to.
    pub result: Result<RenderedSource, SetFailure>,
}

impl RenderOutcome {
    /// Nothing was rendered or read.
    pub fn failed(failure: SetFailure) -> Self {
        Self {
            loaded: Vec::new(),
            forgotten: Vec::new(),
            result: Err(failure),
        }
    }
}
