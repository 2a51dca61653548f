//! The objects of a set, with the rights that they need and the memory that they take.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::discovery::Discovery;
use fleetdex_core::model::value_size;
use fleetdex_distribution::{
    hooks::SetHook,
    sets::{SetObjects, SetVariant},
    template_name::{NamedTemplate, TemplateName},
};
use fleetdex_interpreter::value::{list, text};
use fleetdex_rendering::{
    digest::Sha256Digest, hooks::ChartHook, kept::StoredRendering, rendered::RenderedSet,
    source::Capabilities, variants::best_variant,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    capabilities::ClusterCapabilities,
    chart_hooks::set_hooks,
    failure::SetFailure,
    rights::NeededRight,
    set_objects::{self, SetKinds},
};
use crate::copy_memory::CopyMemory;

/// What the objects of one set may take, so that it leaves room for others.
pub const OBJECTS_OF_SET: usize = 32 << 20;

/// The objects of a set, and what they were made from.
pub struct SetRendering {
    /// The objects of all variants, each once.
    objects: Arc<[NamedTemplate]>,
    /// The hooks, in the order in which those of one step run.
    pub hooks: Arc<[SetHook]>,
    /// The same as the chart has them.
    pub of_chart: Vec<ChartHook>,
    /// The digest of the revision.
    pub digest: Sha256Digest,
    /// The digest of everything that was rendered but what clusters have.
    pub source: Sha256Digest,
    /// The version of what was fetched.
    pub version: String,
    /// The notes of the chart.
    pub notes: String,
    /// What the renderer warned of.
    pub warnings: Vec<String>,
    /// Whether a Secret has it.
    pub is_kept: bool,
    /// How many objects it has, in whatever variant.
    pub number: usize,
    /// What its variants were rendered for.
    pub targets: Vec<Capabilities>,
    /// The API versions that its own definitions bring.
    pub defined: BTreeSet<String>,
    digests: Vec<Sha256Digest>,
    variants: Arc<[SetVariant]>,
    /// Which clusters have which variant, by the revision of their capabilities.
    assigned: Mutex<Option<AssignedClusters>>,
    /// The rights that the objects need as they are, and if overrides may change them.
    rights: [BTreeSet<NeededRight>; 2],
    memory: CopyMemory,
    bytes: usize,
}

/// Which clusters have which variant.
struct AssignedClusters {
    revision: u64,
    variants: Arc<BTreeMap<String, usize>>,
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
        let objects = kept.objects.iter().map(value_size).sum::<usize>();
        let capabilities = kept.variants.iter().map(|one| one.capabilities.size());
        // Hooks are kept twice: as the chart has them, and as they run.
        let hooks = kept.hooks.iter().map(|hook| 2 * value_size(&hook.object));
        let bytes = objects + hooks.sum::<usize>() + capabilities.sum::<usize>();
        let mut taken = memory.taking();
        if bytes > OBJECTS_OF_SET || !taken.takes(bytes) {
            return Err(SetFailure::too_large());
        }
        let set = RenderedSet {
            objects: kept.objects,
            hooks: kept.hooks,
            ..RenderedSet::default()
        };
        let kinds = SetKinds::of(&set, served);
        let rights = |has_overrides: bool| {
            let of_hooks = set.hooks.iter().map(|hook| &hook.object);
            let all = set.objects.iter().chain(of_hooks);
            set_objects::needed_rights(all, &kinds, has_overrides)
        };
        let rights = [rights(false)?, rights(true)?];
        let defined = defined_api_versions(&set.objects);
        let objects: Arc<[NamedTemplate]> =
            set.objects.into_iter().map(NamedTemplate::from).collect();
        let hooks = set_hooks(set.hooks.clone(), &objects)?;
        taken.keep();
        let names: BTreeSet<&TemplateName> = objects.iter().map(|one| &one.name).collect();
        let variants = kept.variants.iter().map(|one| SetVariant {
            kubernetes_version: one.capabilities.kubernetes_version().to_owned(),
            objects: one.objects.clone(),
        });
        Ok(Self {
            number: names.len(),
            variants: variants.collect(),
            digests: kept.variants.iter().map(|one| one.digest.clone()).collect(),
            targets: kept
                .variants
                .into_iter()
                .map(|one| one.capabilities)
                .collect(),
            objects,
            hooks: hooks.into(),
            of_chart: set.hooks,
            digest: kept.digest,
            source: kept.source,
            version: kept.version,
            notes: kept.notes,
            warnings: kept.warnings,
            is_kept,
            defined,
            assigned: Mutex::default(),
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

    /// The objects for a plan.
    pub fn for_clusters(&self, clusters: &ClusterCapabilities) -> SetObjects {
        let assigned = if self.variants.len() < 2 {
            Arc::default()
        } else {
            self.assigned(clusters)
        };
        SetObjects::of_variants(Arc::clone(&self.objects), &self.variants, &assigned)
    }

    fn assigned(&self, clusters: &ClusterCapabilities) -> Arc<BTreeMap<String, usize>> {
        let mut known = self.assigned.lock();
        let revision = clusters.revision();
        if let Some(known) = known.as_ref().filter(|known| known.revision == revision) {
            return Arc::clone(&known.variants);
        }
        let variants = Arc::new(clusters.assign(&self.targets));
        *known = Some(AssignedClusters {
            revision,
            variants: Arc::clone(&variants),
        });
        variants
    }

    /// The objects of the variant with a digest; `None`: it has no such variant.
    pub fn variant(&self, digest: &Sha256Digest) -> Option<Vec<Value>> {
        let position = self.digests.iter().position(|one| one == digest)?;
        Some(self.objects_at(position).cloned().collect())
    }

    /// The objects of a cluster that has these capabilities.
    pub fn objects_for(&self, cluster: &Capabilities) -> impl Iterator<Item = &Value> {
        let position = best_variant(&self.targets, cluster);
        position.into_iter().flat_map(|at| self.objects_at(at))
    }

    fn objects_at(&self, variant: usize) -> impl Iterator<Item = &Value> {
        let variant = self.variants.get(variant);
        let positions = variant.into_iter().flat_map(|variant| &variant.objects);
        let objects = positions.filter_map(|position| self.objects.get(*position));
        objects.map(|one| &*one.object)
    }

    /// The versions of Kubernetes that it was rendered for: the newest one first.
    pub fn kubernetes_versions(&self) -> Vec<String> {
        let versions = self.targets.iter().map(Capabilities::kubernetes_version);
        let mut versions: Vec<&str> = versions.filter(|version| !version.is_empty()).collect();
        versions.dedup();
        versions.into_iter().map(str::to_owned).collect()
    }
}

/// The API versions that definitions among objects bring, alone and with each kind.
pub fn defined_api_versions(objects: &[Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let definitions = objects.iter();
    for one in definitions.filter(|one| one["kind"] == "CustomResourceDefinition") {
        let group = text(one, &["spec", "group"]);
        let kind = text(one, &["spec", "names", "kind"]);
        for version in list(one, &["spec", "versions"]) {
            let api_version = format!("{group}/{}", text(version, &["name"]));
            found.insert(format!("{api_version}/{kind}"));
            found.insert(api_version);
        }
    }
    found
}

/// What the source of a set is rendered to.
#[derive(Clone)]
pub struct RenderedSource {
    /// The objects.
    pub rendering: Arc<SetRendering>,
    /// What was read, to notice when it is another one.
    pub fingerprint: String,
    /// What clusters had, for the same.
    pub rendered_for: BTreeSet<Arc<Capabilities>>,
}

impl RenderedSource {
    /// A rendering of before of which is not known what was read for it.
    pub fn of_before(rendering: Arc<SetRendering>) -> Self {
        Self {
            rendering,
            fingerprint: String::new(),
            rendered_for: BTreeSet::new(),
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

#[cfg(test)]
mod tests {
    use fleetdex_rendering::{kept::VariantCollector, variants::revision_digest};
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, value: u32) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop"}, "data": {"value": value}})
    }

    fn definition() -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "fleets.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster",
                "names": {"kind": "Fleet", "plural": "fleets"}, "versions": [{"name": "v1"}]}})
    }

    fn rendering() -> SetRendering {
        let mut collector = VariantCollector::default();
        for (version, objects) in [
            ("1.36.3", vec![definition(), config_map("a", 1)]),
            ("1.36.1", vec![definition(), config_map("a", 2)]),
            ("1.35.0", vec![definition(), config_map("b", 1)]),
        ] {
            let digest = Sha256Digest::of(version.as_bytes());
            collector.add(digest, Capabilities::new(version, []), objects);
        }
        let kept = StoredRendering {
            digest: revision_digest(collector.variants.iter().map(|one| &one.digest)),
            source: Sha256Digest::of(b"source"),
            version: String::new(),
            notes: String::new(),
            warnings: Vec::new(),
            objects: collector.objects,
            variants: collector.variants,
            hooks: Vec::new(),
        };
        let memory = CopyMemory::limited_to(1 << 20);
        SetRendering::new(kept, &[], true, &memory).unwrap()
    }

    #[test]
    fn the_objects_of_a_variant_are_found_by_its_digest_and_by_what_clusters_have() {
        let rendering = rendering();
        assert_eq!(rendering.number, 3);
        let versions = ["1.36.3", "1.36.1", "1.35.0"];
        assert_eq!(rendering.kubernetes_versions(), versions);
        let found = rendering.variant(&Sha256Digest::of(b"1.36.1")).unwrap();
        assert_eq!(found, [definition(), config_map("a", 2)]);
        assert_eq!(rendering.variant(&Sha256Digest::of(b"1.34.0")), None);
        let cluster = Capabilities::new("1.36.2", []);
        let objects: Vec<&Value> = rendering.objects_for(&cluster).collect();
        assert_eq!(objects, [&definition(), &config_map("a", 2)]);
        let objects = rendering.for_clusters(&ClusterCapabilities::default());
        assert!(objects.has_variants());
    }

    #[test]
    fn definitions_bring_api_versions() {
        let expected = ["example.com/v1", "example.com/v1/Fleet"];
        let expected: BTreeSet<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(rendering().defined, expected);
    }
}
