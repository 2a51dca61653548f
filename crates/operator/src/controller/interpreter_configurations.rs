//! Follows the objects that say how others are interpreted: customizations, webhook configurations
//! and the `ConfigMap` of an Argo CD. Makes rules of them, and tells their authors what is wrong.
//!
//! ```text
//!  reflector (one for each kind) ──> inputs ──> publisher ──rules──> plan, query API
//!                                       └──────> acceptance_writer <──problems──┘
//! ```

mod acceptance_writer;
mod inputs;
mod publisher;
mod reflector;
mod source;

use std::{collections::BTreeMap, sync::Arc};

use acceptance_writer::AcceptanceWriter;
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::Replicas;
use fleetdex_telemetry::Readiness;
use inputs::RuleInputs;
use kube::{
    Api, Client,
    core::DynamicObject,
    runtime::{events::Recorder, watcher},
};
use publisher::{AssessedObjects, CHECK, RulePublisher};
use reflector::RuleReflector;
pub use source::ConfigMapName;
use source::RuleSource;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

/// What following them needs.
pub(super) struct RuleContext {
    pub(super) control_plane: Client,
    /// The `ConfigMap` with Argo CD's health scripts.
    pub(super) argocd_health: Option<ConfigMapName>,
    /// Where the rules are published.
    pub(super) rules: watch::Sender<Arc<RuleSet>>,
    /// Notified when the rules change.
    pub(super) changed: Arc<Notify>,
    pub(super) readiness: Readiness,
    pub(super) replicas: Replicas,
    pub(super) recorder: Arc<Recorder>,
}

pub(super) struct InterpreterConfigurations {
    rules: watch::Sender<Arc<RuleSet>>,
    version: watch::Receiver<u64>,
}

impl InterpreterConfigurations {
    /// Starts to follow them.
    pub(super) fn watch(context: RuleContext, tasks: &mut JoinSet<()>) -> Self {
        let readiness = &context.readiness;
        readiness.not_ready(CHECK, "they have not been read yet");
        let inputs = start_reflectors(&context, tasks);
        let assessed = watch::Sender::new(Arc::<AssessedObjects>::default());
        let (version_sender, version) = watch::channel(0);
        let rules = context.rules.clone();
        let writer = AcceptanceWriter {
            control_plane: context.control_plane,
            recorder: context.recorder,
            replicas: context.replicas,
            inputs: inputs.clone(),
            assessed: assessed.subscribe(),
            reported: BTreeMap::new(),
        };
        let publisher = RulePublisher {
            inputs,
            rules: context.rules,
            assessed,
            version: version_sender,
            argocd_health: context.argocd_health,
            changed: context.changed,
            readiness: context.readiness,
        };
        tasks.spawn(publisher.run());
        tasks.spawn(writer.run());
        Self { rules, version }
    }

    /// Waits until there are rules: until every source was listed, or could not be read for ten
    /// seconds. Without it a restart would interpret every object twice.
    pub(super) async fn wait_until_read(&self) {
        // It fails only while the process stops.
        self.version
            .clone()
            .wait_for(|version| *version > 0)
            .await
            .ok();
    }

    /// A number that grows with every change of the rules.
    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// The rules now: at least those of the version that was read before.
    pub(super) fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.borrow())
    }
}

fn start_reflectors(context: &RuleContext, tasks: &mut JoinSet<()>) -> watch::Receiver<RuleInputs> {
    let argocd_health = context.argocd_health.as_ref();
    let sources = RuleSource::CONFIGURATIONS.into_iter();
    let sources = sources.chain(argocd_health.map(|_| RuleSource::ArgoHealth));
    let (inputs, receiver) = watch::channel(RuleInputs::unread(sources));
    let start = |source: RuleSource, api, config, tasks: &mut JoinSet<()>| {
        let reflector = RuleReflector {
            source,
            resource: source.resource(),
            api,
            config,
            inputs: inputs.clone(),
        };
        tasks.spawn(reflector.run());
    };
    for source in RuleSource::CONFIGURATIONS {
        let client = context.control_plane.clone();
        let api = Api::<DynamicObject>::all_with(client, &source.resource());
        start(source, api, watcher::Config::default(), tasks);
    }
    if let Some(ConfigMapName { namespace, name }) = argocd_health {
        let source = RuleSource::ArgoHealth;
        let client = context.control_plane.clone();
        let api = Api::<DynamicObject>::namespaced_with(client, namespace, &source.resource());
        let only = format!("metadata.name={name}");
        start(source, api, watcher::Config::default().fields(&only), tasks);
    }
    receiver
}

#[cfg(test)]
mod tests;
