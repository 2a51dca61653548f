//! Makes the objects of one set: reads what it names, fetches, renders, and checks rights.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_clusters::{
    discovery::Discovery,
    secret_hosts::{HostPattern, SecretDestination, SecretHosts, SecretRef},
};
use fleetdex_core::model::{causes, value_size};
use fleetdex_crds::distribution::DistributionSpec;
use fleetdex_distribution::{marks, sets::SetName, template_name::NamedTemplate};
use fleetdex_rendering::{
    cache::RenderCache,
    digest::Sha256Digest,
    fetch::{BasicCredentials, FetchSettings, HostPolicy, RemoteHost},
    named_objects::{NamedKind, NamedObjects, basic_credentials, named_by},
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
    rights::{NeededRight, SetAccount},
    set_objects::{self, SetKinds},
    set_spec::account,
};
use crate::{blocking::run_blocking, copy_memory::CopyMemory};

/// How long reading one object may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// What the objects of one set may take, so that it leaves room for others.
const OBJECTS_OF_SET: usize = 32 << 20;
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
}

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
    /// What was read, to notice when it is another one.
    pub fingerprint: String,
    /// The rights that the objects need.
    rights: BTreeSet<NeededRight>,
    memory: CopyMemory,
    bytes: usize,
}

impl Drop for SetRendering {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
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
    pub before: Option<Arc<SetRendering>>,
    /// Whether to fetch again although nothing has changed.
    pub fetches_again: bool,
}

impl RenderTask {
    /// Makes the objects, or finds that they are those of before.
    pub async fn run(self, with: &SetRenderer) -> Result<Arc<SetRendering>, SetFailure> {
        let account = SetAccount {
            namespace: self.name.namespace.clone(),
            name: account(&self.spec).to_owned(),
        };
        let named = named_by(&self.spec.source);
        account.check(&with.client, &self.reading(&named)).await?;
        // What is read, fetched and rendered for one set is bounded, and this bounds the number.
        let _permit = with.permits.acquire().await.ok();
        let objects = self.read(&with.client, &named).await?;
        let fingerprint = self.fingerprint(&objects);
        if let Some(before) = &self.before
            && before.fingerprint == fingerprint
            && !self.fetches_again
        {
            account.check(&with.client, &before.rights).await?;
            return Ok(Arc::clone(before));
        }
        let rendering = self.render(with, &objects, fingerprint).await?;
        account.check(&with.client, &rendering.rights).await?;
        Ok(Arc::new(rendering))
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
        let has_overrides = !self.spec.overrides.is_empty();
        marks::hash(&json!([
            self.spec.source,
            config_maps,
            secrets,
            has_overrides
        ]))
    }

    async fn render(
        &self,
        with: &SetRenderer,
        objects: &NamedObjects,
        fingerprint: String,
    ) -> Result<SetRendering, SetFailure> {
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
        let render = async || with.renderer.render(&source, &capabilities).await;
        let rendered = with.cache.get_or_render(&inputs, render).await?;
        drop(source);
        let (served, has_overrides) = (self.served.clone(), !self.spec.overrides.is_empty());
        let set = Arc::clone(&rendered);
        let made = run_blocking(move || made(&set, &namespace, &served, has_overrides)).await;
        let made = made.map_err(|error| SetFailure::new("RenderingFailed", error.to_string()))?;
        let (objects, rights) = made?;
        let bytes = objects.iter().map(value_size).sum();
        let mut taken = with.memory.taking();
        if bytes > OBJECTS_OF_SET || !taken.takes(bytes) {
            return Err(SetFailure::new(
                "TooLarge",
                "its objects take more than 32 MiB of memory, or those of all sets more than \
                 256 MiB: make sets smaller, or use fewer",
            ));
        }
        taken.keep();
        let mut notes = rendered.notes.clone();
        cut(&mut notes, NOTES);
        Ok(SetRendering {
            objects: objects.into_iter().map(NamedTemplate::from).collect(),
            digest: inputs,
            version,
            kubernetes_version: capabilities.kubernetes_version().to_owned(),
            notes,
            warnings: warnings(&rendered),
            fingerprint,
            rights,
            memory: with.memory.clone(),
            bytes,
        })
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

/// The objects of a rendering, and the rights that they need.
fn made(
    rendered: &RenderedSet,
    namespace: &str,
    served: &[Arc<Discovery>],
    has_overrides: bool,
) -> Result<(Vec<Value>, BTreeSet<NeededRight>), SetFailure> {
    let kinds = SetKinds::of(rendered, served);
    let objects = set_objects::objects(rendered.clone(), namespace, &kinds)?;
    let rights = set_objects::needed_rights(&objects, &kinds, has_overrides)?;
    Ok((objects, rights))
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

/// The hosts that flags allow, with the credentials that a Secret binds to them.
struct SourceHosts {
    namespace: String,
    secret: Option<Secret>,
    allowed: Vec<HostPattern>,
    secret_hosts: SecretHosts,
}

impl HostPolicy for SourceHosts {
    fn is_allowed(&self, host: &RemoteHost) -> bool {
        let destination = SecretDestination::new(&host.host, host.port);
        let mut allowed = self.allowed.iter();
        allowed.any(|pattern| pattern.matches(&destination))
    }

    fn credentials(&self, host: &RemoteHost) -> Option<BasicCredentials> {
        let secret = self.secret.as_ref()?;
        let reference = SecretRef {
            namespace: &self.namespace,
            name: secret.metadata.name.as_deref().unwrap_or_default(),
        };
        let destination = SecretDestination::new(&host.host, host.port);
        let checked = self.secret_hosts.check(reference, secret, [destination]);
        checked.ok()?;
        basic_credentials(secret)
    }
}
