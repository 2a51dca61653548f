//! Makes the revision of a set: one rendering for each version of Kubernetes and API versions that
//! its clusters have.
//!
//! Guarantees: what was rendered from the same inputs before is not rendered again, so that random
//! values stay, whatever other clusters join. A rendering that gives every cluster the objects that
//! it has is no new revision. A revision that a user has undone stays undone when clusters change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    capabilities::TargetCapabilities,
    failure::SetFailure,
    rights::SetAccount,
    set_renderer::SetRenderer,
    set_rendering::{OBJECTS_OF_SET, SetRendering, defined_api_versions},
    variant_objects::{VariantObjects, by_name},
};
use crate::blocking::run_blocking;
use fleetdex_clusters::discovery::Discovery;
use fleetdex_core::model::causes;
use fleetdex_distribution::{sets::SetName, template_name::TemplateName};
use fleetdex_rendering::{
    digest::Sha256Digest,
    hooks::ChartHook,
    kept::{StoredRendering, VariantCollector},
    renderer::RenderError,
    resolve::ResolvedSource,
    source::{Capabilities, RenderSource},
    variants::{MAX_VARIANTS, best_variant, render_targets, revision_digest},
};

/// Clusters that a message names, at most.
const NAMED: usize = 5;

/// What a revision is made with.
#[derive(Clone, Copy)]
pub struct RevisionMaker<'r> {
    /// Renders, and keeps.
    pub with: &'r SetRenderer,
    /// The set.
    pub name: &'r SetName,
    /// Its account: nothing is kept that it may not create.
    pub account: &'r SetAccount,
    /// Whether overrides may change objects.
    pub has_overrides: bool,
    /// What its clusters have.
    pub capabilities: &'r TargetCapabilities,
    /// What its clusters and the control plane serve.
    pub served: &'r [Arc<Discovery>],
    /// The revisions that are known.
    pub known: &'r BTreeMap<String, Arc<SetRendering>>,
    /// The revisions that Secrets have.
    pub kept: &'r BTreeSet<String>,
    /// The revision that is rolled out.
    pub current: Option<&'r str>,
    /// The revision that a user undoes.
    pub undone: Option<&'r str>,
}

/// What a revision is made from.
struct RevisionSource {
    source: RenderSource,
    namespace: String,
    version: String,
    /// The digest of everything but what clusters have.
    digest: Sha256Digest,
}

/// The variants of a revision.
struct CollectedVariants {
    collector: VariantCollector,
    /// The hooks, which all variants have.
    hooks: Vec<ChartHook>,
    notes: String,
    warnings: Vec<String>,
}

impl RevisionMaker<'_> {
    /// The revision of a source: one that is known or kept, or a new one.
    pub async fn make(&self, resolved: ResolvedSource) -> Result<Arc<SetRendering>, SetFailure> {
        let ResolvedSource {
            source,
            namespace,
            version,
        } = resolved;
        let any = Capabilities::default();
        let source = RevisionSource {
            digest: self.with.renderer.inputs(&source, &any).await?,
            source,
            namespace,
            version,
        };
        if let Some(undone) = self.undone(&source.digest).await? {
            return Ok(undone);
        }
        let current = self.current();
        let of_same_source = current.filter(|one| one.source == source.digest);
        let mut defined = current.map(|one| one.defined.clone()).unwrap_or_default();
        let mut targets = self.targets(&source.source, &defined, of_same_source)?;
        let has_all = |one: &&Arc<SetRendering>| {
            let mut targets = targets.iter();
            targets.all(|target| one.targets.contains(target))
        };
        if let Some(current) = of_same_source.filter(has_all) {
            return Ok(Arc::clone(current));
        }
        let mut has_looked = false;
        loop {
            let digests = self.digests(&source.source, &targets).await?;
            let revision = revision_digest(&digests);
            if let Some(known) = self.existing(&revision).await? {
                return Ok(known);
            }
            let collected = self.collect(&source, &targets, digests).await?;
            // The definitions of the set count as missing in all of its clusters: if they are there
            // by now, it would be rendered anew because of itself.
            defined = defined_api_versions(&collected.collector.objects);
            let next = self.targets(&source.source, &defined, of_same_source)?;
            if next != targets && !has_looked {
                targets = next;
                has_looked = true;
                continue;
            }
            if let Some(current) = of_same_source.filter(|one| self.is_as(one, &collected)) {
                return Ok(Arc::clone(current));
            }
            return self.keep(source, revision, collected).await;
        }
    }

    /// The revision that is rolled out, if it is known.
    fn current(&self) -> Option<&Arc<SetRendering>> {
        self.known.get(self.current?)
    }

    /// The revision that a user has undone, if it is of this source.
    async fn undone(&self, source: &Sha256Digest) -> Result<Option<Arc<SetRendering>>, SetFailure> {
        let Some(revision) = self.undone else {
            return Ok(None);
        };
        let found = match self.known.get(revision) {
            Some(known) => Some(Arc::clone(known)),
            None if self.kept.contains(revision) => {
                let kept = self.with.kept(self.name, revision, self.served).await?;
                kept.map(Arc::new)
            }
            None => None,
        };
        Ok(found.filter(|one| one.source == *source))
    }

    /// For what a source is rendered: a chart for what clusters have, other sources do not depend
    /// on it. Of clusters that have not said it yet `current` knows more.
    fn targets(
        &self,
        source: &RenderSource,
        defined: &BTreeSet<String>,
        current: Option<&Arc<SetRendering>>,
    ) -> Result<Vec<Capabilities>, SetFailure> {
        if !matches!(source, RenderSource::Helm(_)) {
            return Ok(vec![Capabilities::default()]);
        }
        let targets = self.capabilities.targets(defined);
        let unknown = &self.capabilities.unknown;
        if !unknown.is_empty()
            && let Some(current) = current
        {
            let all: BTreeSet<&Capabilities> = targets.iter().chain(&current.targets).collect();
            if all.len() <= MAX_VARIANTS {
                return Ok(render_targets(all));
            }
        }
        if !targets.is_empty() {
            return Ok(targets);
        }
        let message = if unknown.is_empty() {
            "spec.placement selects no cluster".to_owned()
        } else {
            let first: Vec<&str> = unknown.iter().take(NAMED).map(String::as_str).collect();
            format!(
                "the Kubernetes version of {} is not known: a chart is rendered for it",
                first.join(", ")
            )
        };
        Err(SetFailure::new("NoCluster", message))
    }

    async fn digests(
        &self,
        source: &RenderSource,
        targets: &[Capabilities],
    ) -> Result<Vec<Sha256Digest>, SetFailure> {
        let mut digests = Vec::new();
        for target in targets {
            digests.push(self.with.renderer.inputs(source, target).await?);
        }
        Ok(digests)
    }

    /// The revision of a digest that is known or kept.
    async fn existing(
        &self,
        revision: &Sha256Digest,
    ) -> Result<Option<Arc<SetRendering>>, SetFailure> {
        let revision = revision.as_str();
        if let Some(known) = self.known.get(revision) {
            return Ok(Some(Arc::clone(known)));
        }
        let kept = self.with.kept(self.name, revision, self.served).await?;
        Ok(kept.map(Arc::new))
    }

    /// The objects of all variants.
    async fn collect(
        &self,
        source: &RevisionSource,
        targets: &[Capabilities],
        digests: Vec<Sha256Digest>,
    ) -> Result<CollectedVariants, SetFailure> {
        let mut collected = CollectedVariants {
            collector: VariantCollector::default(),
            hooks: Vec::new(),
            notes: String::new(),
            warnings: Vec::new(),
        };
        let is_alone = targets.len() == 1;
        let mut unread = None;
        for (target, digest) in targets.iter().zip(digests) {
            let mut found = self.of_known(&digest);
            if found.is_none() {
                if unread.is_none() {
                    unread = Some(self.unread(&source.digest).await);
                }
                let mut kept = unread.iter().flatten();
                found = kept.find_map(|kept| VariantObjects::of_kept(kept, &digest));
            }
            let found = match found {
                Some(found) => found,
                None => self.render(source, target, &digest, is_alone).await?,
            };
            if collected.collector.variants.is_empty() {
                collected.notes = found.notes;
                collected.warnings = found.warnings;
                collected.hooks = found.hooks;
            } else if collected.hooks != found.hooks {
                return Err(different_hooks(&collected.hooks, &found.hooks, target));
            }
            let collector = &mut collected.collector;
            collector.add(digest, target.clone(), found.objects);
            if collector.bytes() > OBJECTS_OF_SET {
                return Err(SetFailure::too_large());
            }
        }
        Ok(collected)
    }

    /// The objects of a variant that another revision has.
    fn of_known(&self, digest: &Sha256Digest) -> Option<VariantObjects> {
        let mut known = self.known.values();
        known.find_map(|known| VariantObjects::of_known(known, digest))
    }

    /// The revisions of a source that Secrets have and that are not known.
    async fn unread(&self, source: &Sha256Digest) -> Vec<StoredRendering> {
        let mut found = Vec::new();
        let unread = self.kept.iter();
        for revision in unread.filter(|one| !self.known.contains_key(*one)) {
            match self.with.secrets.load(self.name, revision).await {
                Ok(kept) => found.extend(kept.filter(|kept| kept.source == *source)),
                Err(failure) => {
                    tracing::warn!(set = %self.name.shown(), %revision, message = %failure.message, "cannot read a kept revision: what it was rendered to is rendered again");
                }
            }
        }
        found
    }

    /// Renders a variant. `is_alone`: it is the only one.
    async fn render(
        &self,
        source: &RevisionSource,
        target: &Capabilities,
        digest: &Sha256Digest,
        is_alone: bool,
    ) -> Result<VariantObjects, SetFailure> {
        let with = self.with;
        let render = async || with.renderer.render(&source.source, target).await;
        let rendered = with.cache.get_or_render(digest, render).await;
        let rendered = rendered.map_err(|error: RenderError| {
            let failure = SetFailure::from(error);
            let version = target.kubernetes_version();
            if is_alone || version.is_empty() {
                return failure;
            }
            let message = format!("for Kubernetes {version}: {}", failure.message);
            SetFailure::new(failure.reason, message)
        })?;
        VariantObjects::rendered(rendered, &source.namespace, self.served).await
    }

    /// Whether a revision gives each cluster the objects of these variants.
    fn is_as(&self, revision: &SetRendering, collected: &CollectedVariants) -> bool {
        let collector = &collected.collector;
        let mut clusters = self.capabilities.distinct.iter();
        let has_same_hooks = revision.of_chart == collected.hooks;
        has_same_hooks
            && clusters.all(|cluster| {
                let targets = collector.variants.iter().map(|one| &one.capabilities);
                let variant = best_variant(targets, cluster);
                let variant = variant.and_then(|at| collector.variants.get(at));
                let positions = variant.into_iter().flat_map(|one| &one.objects);
                let objects = positions.filter_map(|at| collector.objects.get(*at));
                by_name(objects) == by_name(revision.objects_for(cluster))
            })
    }

    /// A new revision, which is kept from now on if it is not too large.
    async fn keep(
        &self,
        source: RevisionSource,
        digest: Sha256Digest,
        collected: CollectedVariants,
    ) -> Result<Arc<SetRendering>, SetFailure> {
        let VariantCollector {
            objects, variants, ..
        } = collected.collector;
        let rendering = StoredRendering {
            digest: digest.clone(),
            source: source.digest,
            version: source.version,
            notes: collected.notes,
            warnings: collected.warnings,
            objects,
            variants,
            hooks: collected.hooks,
        };
        drop(source.source);
        let packed = run_blocking(move || {
            let packed = rendering.pack();
            (rendering, packed)
        });
        let (rendering, packed) = packed.await.map_err(|error| SetFailure::aborted(&error))?;
        let with = self.with;
        let made = with.rendering(rendering, self.served, packed.is_ok());
        let made = made.await?;
        let rights = made.rights(self.has_overrides);
        self.account.check(&with.client, rights).await?;
        let packed = match packed {
            Ok(packed) => packed,
            Err(error) => {
                tracing::warn!(set = %self.name.shown(), error = %causes(&error), "a rendering cannot be kept");
                return Ok(Arc::new(made));
            }
        };
        if with.secrets.keep(self.name, &digest, &packed).await? {
            return Ok(Arc::new(made));
        }
        // Another replica has rendered the same inputs: its random values are in force.
        drop(made);
        let found = with
            .kept(self.name, digest.as_str(), self.served)
            .await?
            .map(Arc::new);
        found.ok_or_else(|| {
            SetFailure::new(
                "RenderingFailed",
                "the Secret with its rendering comes and goes",
            )
        })
    }
}

/// That hooks are not the same for all versions of Kubernetes, by the first one that differs.
fn different_hooks(some: &[ChartHook], others: &[ChartHook], target: &Capabilities) -> SetFailure {
    let mut pairs = others.iter().zip(some);
    let different = pairs
        .find(|(other, one)| other != one)
        .map(|(other, _)| other);
    let longer = if others.len() > some.len() {
        others
    } else {
        some
    };
    let shorter = others.len().min(some.len());
    let different = different.or_else(|| longer.get(shorter));
    let shown = different.map(|hook| TemplateName::of(&hook.object).to_string());
    SetFailure::new(
        "HooksDiffer",
        format!(
            "the hook {} is another one for Kubernetes {} than for other clusters of the set, or \
             has a random value: use one Distribution for each version",
            shown.unwrap_or_default(),
            target.kubernetes_version()
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hooks_that_are_not_the_same_in_all_clusters_are_refused_by_name() {
        let hook = |name: &str, weight: i32| ChartHook {
            events: BTreeSet::new(),
            weight,
            delete_policies: BTreeSet::new(),
            object: json!({"kind": "Job", "metadata": {"name": name}}),
        };
        let target = Capabilities::new("1.35.0", []);
        let both = [hook("a", 0), hook("b", 0)];
        for (some, others, expected) in [
            (&both[..], &[hook("a", 0), hook("b", 1)][..], "Job b"),
            (&both[..], &both[..1], "Job b"),
            (&both[..1], &both[..], "Job b"),
        ] {
            let failure = different_hooks(some, others, &target);
            assert_eq!(failure.reason, "HooksDiffer");
            let message = failure.message;
            let expected = format!("the hook {expected} is another one for Kubernetes 1.35.0");
            assert!(message.starts_with(&expected), "{message}");
        }
    }
}
