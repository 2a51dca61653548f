//! Makes the objects of one set: reads what it names, fetches, renders, and checks rights.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{
    discovery::Discovery,
    secret_hosts::{HostPattern, SecretHosts},
};
use fleetdex_core::model::causes;
use fleetdex_crds::distribution::DistributionSpec;
use fleetdex_distribution::{marks, sets::SetName};
use fleetdex_rendering::{
    cache::RenderCache,
    fetch::{FetchSettings, HostPolicy},
    kept::StoredRendering,
    named_objects::{NamedKind, NamedObjects, named_by},
    rendered::RenderedSet,
    renderer::Renderer,
    resolve::{ResolvedSource, SourceResolver},
    source::{Capabilities, RenderSource},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    capabilities::CommonCapabilities,
    failure::{SetFailure, cut},
    rendering_secrets::RenderingSecrets,
    rights::{NeededRight, SetAccount},
    set_objects::{self, SetKinds},
    set_rendering::{RenderOutcome, RenderedSource, SetRendering},
    set_spec::account,
    source_hosts::SourceHosts,
};
use crate::{blocking::run_blocking, copy_memory::CopyMemory};

/// How long reading one object may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of notes that are kept.
const NOTES: usize = 4_096;
/// Warnings that are kept, and bytes of each.
const WARNINGS: (usize, usize) = (16, 512);

/// What all sets are rendered with.
pub struct SetRenderer {
    /// The control plane.
    pub client: Client,
    /// Runs helm and kustomize.
    pub renderer: Renderer,
    /// Renderings by the digest of their inputs.
    pub cache: RenderCache,
    /// The hosts that may be fetched from.
    pub source_hosts: Vec<HostPattern>,
    /// The hosts that Secrets may be sent to.
    pub secret_hosts: SecretHosts,
    /// What the objects of all sets may take.
    pub memory: CopyMemory,
    /// How many sets are rendered at a time: what each may take meanwhile is bounded.
    pub permits: Semaphore,
    /// Renderings that outlive this process.
    pub secrets: RenderingSecrets,
}

/// One set, to be rendered.
pub struct RenderTask {
    /// Its name.
    pub name: Arc<SetName>,
    /// What it says.
    pub spec: Arc<DistributionSpec>,
    /// What its clusters have.
    pub capabilities: CommonCapabilities,
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
    /// The kept revisions that are of no use any more.
    pub unneeded: Vec<String>,
}

impl RenderTask {
    /// Makes the objects, or finds that they are those of before.
    pub async fn run(mut self, with: &SetRenderer) -> RenderOutcome {
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
        let Some(kept) = with.secrets.load(&self.name, revision).await? else {
            return Ok(None);
        };
        let rendering = self.kept(with, kept, true).await?;
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
        let rendering = match &self.before {
            Some(before) if before.fingerprint == fingerprint && !self.fetches_again => {
                let digest = before.rendering.digest.as_str();
                let others = self.in_force.iter().filter(|other| **other != digest);
                for rendering in others.filter_map(|other| self.known.get(other)) {
                    self.check(with, rendering).await?;
                }
                Arc::clone(&before.rendering)
            }
            _ => self.render(with, &objects).await?,
        };
        self.check(with, &rendering).await?;
        if self.spec.rollout.is_some() && !rendering.is_kept {
            return Err(SetFailure::too_large_to_keep());
        }
        Ok(RenderedSource {
            rendering,
            fingerprint,
        })
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

    /// The rendering of what was read: that which is kept, or a new one.
    async fn render(
        &self,
        with: &SetRenderer,
        objects: &NamedObjects,
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
        let ResolvedSource {
            source,
            namespace,
            version,
        } = resolver.resolve(&self.spec.source, namespace, name).await?;
        let capabilities = self.capabilities_for(&source)?;
        let inputs = with.renderer.inputs(&source, &capabilities).await?;
        if let Some(known) = self.known.get(inputs.as_str()) {
            return Ok(Arc::clone(known));
        }
        if let Some(kept) = with.secrets.load(&self.name, inputs.as_str()).await? {
            return self.kept(with, kept, true).await.map(Arc::new);
        }
        let render = async || with.renderer.render(&source, &capabilities).await;
        let rendered = with.cache.get_or_render(&inputs, render).await?;
        drop(source);
        let served = self.served.clone();
        let set = Arc::clone(&rendered);
        let made = run_blocking(move || made(&set, &namespace, &served)).await;
        let mut notes = rendered.notes.clone();
        cut(&mut notes, NOTES);
        let rendering = StoredRendering {
            digest: inputs,
            version,
            kubernetes_version: capabilities.kubernetes_version().to_owned(),
            notes,
            warnings: warnings(&rendered),
            objects: made.map_err(|error| aborted(&error))??,
        };
        self.new_rendering(with, rendering).await
    }

    /// A new rendering, which is kept from now on if it is not too large.
    async fn new_rendering(
        &self,
        with: &SetRenderer,
        rendering: StoredRendering,
    ) -> Result<Arc<SetRendering>, SetFailure> {
        let digest = rendering.digest.clone();
        let packed = run_blocking(move || {
            let packed = rendering.pack();
            (rendering, packed)
        });
        let (rendering, packed) = packed.await.map_err(|error| aborted(&error))?;
        let made = self.kept(with, rendering, packed.is_ok()).await?;
        self.check(with, &made).await?;
        let packed = match packed {
            Ok(packed) => packed,
            Err(error) => {
                tracing::warn!(set = %self.name.shown(), error = %causes(&error), "a rendering cannot be kept");
                return Ok(Arc::new(made));
            }
        };
        if with.secrets.keep(&self.name, &digest, &packed).await? {
            return Ok(Arc::new(made));
        }
        // Another replica has rendered the same inputs: its random values are in force.
        drop(made);
        let found = with.secrets.load(&self.name, digest.as_str()).await?;
        let found = found.ok_or_else(|| {
            SetFailure::new(
                "RenderingFailed",
                "the Secret with its rendering comes and goes",
            )
        })?;
        self.kept(with, found, true).await.map(Arc::new)
    }

    /// A rendering with the rights that it needs.
    async fn kept(
        &self,
        with: &SetRenderer,
        rendering: StoredRendering,
        is_kept: bool,
    ) -> Result<SetRendering, SetFailure> {
        let (served, memory) = (self.served.clone(), with.memory.clone());
        let made = run_blocking(move || SetRendering::new(rendering, &served, is_kept, &memory));
        made.await.map_err(|error| aborted(&error))?
    }

    /// What a chart is rendered for. Other sources do not depend on it.
    fn capabilities_for(&self, source: &RenderSource) -> Result<Capabilities, SetFailure> {
        let CommonCapabilities { known, unknown } = &self.capabilities;
        match (source, known) {
            (RenderSource::Helm(_), Some(known)) => Ok(known.clone()),
            (RenderSource::Helm(_), None) => Err(SetFailure::new(
                "NoCluster",
                if unknown.is_empty() {
                    "spec.placement selects no cluster".to_owned()
                } else {
                    let first: Vec<&str> = unknown.iter().take(5).map(String::as_str).collect();
                    format!(
                        "the Kubernetes version of {} is not known: a chart is rendered for it",
                        first.join(", ")
                    )
                },
            )),
            _ => Ok(Capabilities::default()),
        }
    }
}

/// The objects of a rendering.
fn made(
    rendered: &RenderedSet,
    namespace: &str,
    served: &[Arc<Discovery>],
) -> Result<Vec<Value>, SetFailure> {
    let kinds = SetKinds::of(rendered, served);
    set_objects::objects(rendered.clone(), namespace, &kinds)
}

fn aborted(error: &dyn std::fmt::Display) -> SetFailure {
    SetFailure::new("RenderingFailed", error.to_string())
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
