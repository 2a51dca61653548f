//! Makes the objects of one set: reads what it names, fetches, renders, and checks rights.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::discovery::Discovery;
use fleetdex_core::model::causes;
use fleetdex_crds::distribution::{DistributionSource, DistributionSpec};
use fleetdex_distribution::{marks, sets::SetName};
use fleetdex_rendering::{
    fetch::{FetchSettings, HostPolicy},
    named_objects::{NamedKind, NamedObjects, named_by},
    resolve::SourceResolver,
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    capabilities::TargetCapabilities,
    failure::{REVISION_LOST, SetFailure},
    revision::RevisionMaker,
    rights::{NeededRight, SetAccount},
    set_renderer::SetRenderer,
    set_rendering::{RenderOutcome, RenderedSource, SetRendering},
    set_spec::account,
    source_hosts::SourceHosts,
};

/// How long reading one object may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// One set, to be rendered.
pub struct RenderTask {
    /// Its name.
    pub name: Arc<SetName>,
    /// What it says.
    pub spec: Arc<DistributionSpec>,
    /// What its clusters have.
    pub capabilities: TargetCapabilities,
    /// What its clusters and the control plane serve.
    pub served: Vec<Arc<Discovery>>,
    /// What was rendered before.
    pub before: Option<RenderedSource>,
    /// Whether to fetch again although nothing has changed.
    pub fetches_again: bool,
    /// The revisions that are known.
    pub known: BTreeMap<String, Arc<SetRendering>>,
    /// The revisions that are in force.
    pub in_force: BTreeSet<String>,
    /// Those of them that are to be read.
    pub wanted: Vec<String>,
    /// The revisions that Secrets have.
    pub kept: BTreeSet<String>,
    /// The revision that is rolled out.
    pub current: Option<String>,
    /// The revision that a user undoes.
    pub undone: Option<String>,
    /// The kept revisions that are of no use any more.
    pub unneeded: Vec<String>,
    /// The revision whose hooks run because the set is being deleted: nothing else is read then,
    /// and nothing rendered.
    pub ending: Option<String>,
}

impl RenderTask {
    /// Makes the objects, or finds that they are those of before.
    pub async fn run(mut self, with: &SetRenderer) -> RenderOutcome {
        if let Some(revision) = &self.ending {
            return self.load_ending(with, revision).await;
        }
        let loaded = self.load(with).await;
        let known = loaded.iter();
        let known = known.map(|one| (one.digest.to_string(), Arc::clone(one)));
        self.known.extend(known);
        let result = self.source(with).await;
        let made = result.as_ref().ok().map(|source| &source.rendering.digest);
        let made = made.map(ToString::to_string);
        let mut forgotten = Vec::new();
        for revision in self.unneeded {
            if Some(&revision) == made.as_ref() {
                continue;
            }
            match with.secrets.forget(&self.name, &revision).await {
                Ok(()) => forgotten.push(revision),
                Err(error) => {
                    tracing::debug!(set = %self.name.shown(), %revision, error = %causes(&error), "cannot delete a kept revision");
                }
            }
        }
        RenderOutcome {
            loaded,
            forgotten,
            result,
        }
    }

    /// Reads the revision whose hooks run because the set is being deleted.
    async fn load_ending(&self, with: &SetRenderer, revision: &str) -> RenderOutcome {
        let found = self.load_one(with, revision).await;
        let lost = || SetFailure::new(REVISION_LOST, format!("revision {revision} is not kept"));
        let result = found.and_then(|found| found.ok_or_else(lost));
        RenderOutcome {
            loaded: result.iter().cloned().collect(),
            forgotten: Vec::new(),
            result: result.map(RenderedSource::of_before),
        }
    }

    /// Reads the kept revisions. One that cannot be read is tried again the next time.
    async fn load(&self, with: &SetRenderer) -> Vec<Arc<SetRendering>> {
        let mut loaded = Vec::new();
        for revision in &self.wanted {
            match self.load_one(with, revision).await {
                Ok(found) => loaded.extend(found),
                Err(failure) => {
                    tracing::warn!(set = %self.name.shown(), %revision, message = %failure.message, "cannot read a kept revision");
                }
            }
        }
        loaded
    }

    async fn load_one(
        &self,
        with: &SetRenderer,
        revision: &str,
    ) -> Result<Option<Arc<SetRendering>>, SetFailure> {
        let _permit = with.permits.acquire().await.ok();
        let Some(rendering) = with.kept(&self.name, revision, &self.served).await? else {
            return Ok(None);
        };
        self.check(with, &rendering).await?;
        Ok(Some(Arc::new(rendering)))
    }

    /// An error: the account lacks a right that the objects need.
    async fn check(&self, with: &SetRenderer, rendering: &SetRendering) -> Result<(), SetFailure> {
        let rights = rendering.rights(!self.spec.overrides.is_empty());
        self.account().check(&with.client, rights).await
    }

    async fn source(&self, with: &SetRenderer) -> Result<RenderedSource, SetFailure> {
        let named = named_by(&self.spec.source);
        let reading = self.reading(&named);
        self.account().check(&with.client, &reading).await?;
        // What is read, fetched and rendered for one set is bounded, and this bounds the number.
        let _permit = with.permits.acquire().await.ok();
        let objects = self.read(&with.client, &named).await?;
        let fingerprint = self.fingerprint(&objects);
        let before = self.before.as_ref().filter(|_| !self.fetches_again);
        let before = before.filter(|before| before.fingerprint == fingerprint);
        let rendering = match before {
            Some(before) if self.is_rendered_for(before) => {
                let digest = before.rendering.digest.as_str();
                let others = self.in_force.iter().filter(|other| **other != digest);
                for rendering in others.filter_map(|other| self.known.get(other)) {
                    self.check(with, rendering).await?;
                }
                Arc::clone(&before.rendering)
            }
            Some(before) => {
                let source = pinned(&self.spec.source, &before.rendering.version);
                self.render(with, &objects, &source).await?
            }
            None => self.render(with, &objects, &self.spec.source).await?,
        };
        self.check(with, &rendering).await?;
        if self.spec.rollout.is_some() && !rendering.is_kept {
            return Err(SetFailure::too_large_to_keep());
        }
        Ok(RenderedSource {
            rendering,
            fingerprint,
            rendered_for: self.capabilities.distinct.clone(),
        })
    }

    /// Whether a rendering of the same source is one for these clusters, too.
    fn is_rendered_for(&self, before: &RenderedSource) -> bool {
        let rendering = &before.rendering;
        let is_rendered = || {
            let targets = self.capabilities.targets(&rendering.defined);
            targets.iter().all(|one| rendering.targets.contains(one))
        };
        self.spec.source.helm.is_none()
            || before.rendered_for == self.capabilities.distinct
            || is_rendered()
    }

    fn account(&self) -> SetAccount {
        SetAccount {
            namespace: self.name.namespace.clone(),
            name: account(&self.spec).to_owned(),
        }
    }

    fn reading(&self, named: &BTreeSet<(NamedKind, String)>) -> BTreeSet<NeededRight> {
        let rights = named.iter().map(|(kind, name)| NeededRight {
            verb: "get",
            group: String::new(),
            resource: kind.plural().to_owned(),
            namespace: self.name.namespace.clone(),
            name: name.clone(),
        });
        rights.collect()
    }

    /// The objects that the source names; those that do not exist are left out.
    async fn read(
        &self,
        client: &Client,
        named: &BTreeSet<(NamedKind, String)>,
    ) -> Result<NamedObjects, SetFailure> {
        let namespace = &self.name.namespace;
        let mut objects = NamedObjects {
            missing: "does not exist",
            ..NamedObjects::default()
        };
        for (kind, name) in named {
            let key = (namespace.clone(), name.clone());
            match kind {
                NamedKind::ConfigMap => {
                    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
                    if let Some(found) = in_time(kind.plural(), name, api.get_opt(name)).await? {
                        objects.config_maps.insert(key, found);
                    }
                }
                NamedKind::Secret => {
                    let api = Api::<Secret>::namespaced(client.clone(), namespace);
                    if let Some(found) = in_time(kind.plural(), name, api.get_opt(name)).await? {
                        objects.secrets.insert(key, found);
                    }
                }
            }
        }
        Ok(objects)
    }

    /// A hash of the source and of the versions of what it names.
    fn fingerprint(&self, objects: &NamedObjects) -> String {
        let version = |metadata: &ObjectMeta| json!([metadata.uid, metadata.resource_version]);
        let config_maps = objects.config_maps.iter();
        let config_maps: Vec<Value> = config_maps
            .map(|((_, name), one)| json!([name, version(&one.metadata)]))
            .collect();
        let secrets = objects.secrets.iter();
        let secrets: Vec<Value> = secrets
            .map(|((_, name), one)| json!([name, version(&one.metadata)]))
            .collect();
        marks::hash(&json!([self.spec.source, config_maps, secrets]))
    }

    /// The rendering of what was read: one that is known or kept, or a new one.
    async fn render(
        &self,
        with: &SetRenderer,
        objects: &NamedObjects,
        source: &DistributionSource,
    ) -> Result<Arc<SetRendering>, SetFailure> {
        let hosts = |secret: Option<&Secret>| -> Arc<dyn HostPolicy> {
            Arc::new(SourceHosts {
                namespace: self.name.namespace.clone(),
                secret: secret.cloned(),
                allowed: with.source_hosts.clone(),
                secret_hosts: with.secret_hosts.clone(),
            })
        };
        let resolver = SourceResolver {
            objects,
            archive: None,
            settings: FetchSettings::default(),
            hosts: &hosts,
        };
        let SetName {
            namespace, name, ..
        } = &*self.name;
        let resolved = resolver.resolve(source, namespace, name).await?;
        let maker = RevisionMaker {
            with,
            name: &self.name,
            account: &self.account(),
            has_overrides: !self.spec.overrides.is_empty(),
            capabilities: &self.capabilities,
            served: &self.served,
            known: &self.known,
            kept: &self.kept,
            current: self.current.as_deref(),
            undone: self.undone.as_deref(),
        };
        maker.make(resolved).await
    }
}

/// A source with the version of before: clusters that change are no reason to fetch another one.
fn pinned(source: &DistributionSource, version: &str) -> DistributionSource {
    let mut source = source.clone();
    if let Some(helm) = &mut source.helm
        && helm.chart.is_some()
        && !version.is_empty()
    {
        // Tags have no plus sign.
        helm.version = Some(version.replace('_', "+"));
    }
    source
}

async fn in_time<T>(
    plural: &str,
    name: &str,
    reading: impl Future<Output = Result<Option<T>, kube::Error>>,
) -> Result<Option<T>, SetFailure> {
    let failed = |reason: String| {
        SetFailure::new(
            "SourceNotReadable",
            format!("cannot read {plural} {name}: {reason}"),
        )
    };
    match timeout(READ_TIMEOUT, reading).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(failed(causes(&error))),
        Err(_) => Err(failed("no answer in time".to_owned())),
    }
}
