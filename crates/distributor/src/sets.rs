//! Sets of objects: `Distribution`s are rendered beside the planner, and each plan gets what they
//! were rendered to.
//!
//! ```text
//!  Distributions ──> set_spec ──> rendering: rights, named objects ──> revision ──> set_objects
//!  members ──> capabilities ──────────┴───────────────────────────────────┘ │
//!  status <── reporter <── SetReports <── DistributionSets <── set_rollout <────────┤
//!  status.rollout <── rollouts <───────────────┘       rendering_secrets <──────────┘
//!  status.hooks <── hook_steps <── hook_board <── hook_runner <── members
//! ```
//!
//! Guarantee: a set that cannot be rendered changes nothing: what was rendered last stays in force,
//! also in another process, which reads it from a Secret. If it is not kept there, what clusters
//! have of the set stays as it is. A plan acts on no step of a rollout that is not written,
//! and neither do hooks.

mod capabilities;
mod chart_hooks;
mod failure;
mod finalizer;
mod hook_board;
mod hook_runner;
mod hook_steps;
mod rendering;
mod rendering_secrets;
mod report;
mod reporter;
mod revision;
mod rights;
mod rollouts;
mod set_metrics;
mod set_objects;
mod set_renderer;
mod set_rendering;
mod set_rollout;
mod set_spec;
mod set_state;
mod source_hosts;
mod variant_objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{
    Clusters, MemberState,
    discovery::Discovery,
    secret_hosts::{HostPattern, SecretHosts},
};
use fleetdex_core::{
    model::{ClusterName, causes},
    planted::{Bug, planted},
};
use fleetdex_distribution::{
    hooks::HookTask,
    plan::{DistributionInputs, DistributionPlan, selected_clusters},
    sets::ObjectSet,
};
use fleetdex_interpreter::value::text;
use fleetdex_rendering::{
    cache::RenderCache,
    programs::Programs,
    renderer::{RenderLimits, Renderer},
};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_telemetry::metrics::DistributionMetrics;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::{Client, runtime::events::Recorder};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use self::{
    capabilities::ClusterCapabilities, finalizer::set_finalizer, hook_board::HookBoard,
    hook_runner::RunningHooks, rendering::RenderTask, rendering_secrets::RenderingSecrets,
    report::SetReports, rollouts::RolloutView, rollouts::RolloutWriter, set_metrics::SetMetrics,
    set_renderer::SetRenderer, set_rendering::RenderOutcome, set_spec::interval,
    set_state::SetState,
};
pub use self::{
    capabilities::{TargetCapabilities, assigned as assigned_variants},
    chart_hooks::set_hooks,
    failure::SetFailure,
    hook_runner::HookRunner,
    reporter::SetReporter,
    set_objects::{SetKinds, hooks as chart_hooks, objects as set_objects},
    set_rendering::defined_api_versions,
    set_spec::SetSpec,
};
use crate::{
    control_plane::{ControlPlaneObjects, kinds},
    copy_memory::CopyMemory,
    inputs::ReadInputs,
    object_client::ObjectClient,
    published::PublishedPlan,
    status_board::StatusBoard,
};

/// How long a set may take, with everything that is fetched.
const DEADLINE: Duration = Duration::from_mins(6);
/// How long after a start the versions of clusters are awaited that are not connected yet.
const CONNECTING: Duration = Duration::from_secs(30);
/// Sets that are rendered at a time. Each reads at most 32 MiB of archives and [`OUTPUT`] of text,
/// which takes ten times as much when it is parsed.
const CONCURRENT: usize = 2;
/// What a renderer prints for one set, at most.
const OUTPUT: u64 = 8 << 20;
/// Statuses that are written at a time.
const CONCURRENT_WRITES: usize = 16;
/// What the objects of all sets may take.
const OBJECTS: usize = 256 << 20;
/// What renderings may take that are kept by their digests.
const CACHE: usize = 64 << 20;

/// What renders sets, and from where their sources may be fetched.
#[derive(Clone, Debug, Default)]
pub struct SetSources {
    /// Fleetdex itself, which starts the renderers within limits.
    pub sandbox: PathBuf,
    /// The program helm, instead of that in PATH.
    pub helm: Option<PathBuf>,
    /// The program kustomize, instead of that in PATH.
    pub kustomize: Option<PathBuf>,
    /// The hosts that charts and folders may be fetched from.
    pub source_hosts: Vec<HostPattern>,
    /// The hosts that Secrets may be sent to.
    pub secret_hosts: SecretHosts,
}

/// What writes to the control plane for sets.
pub struct SetClients {
    /// `Distribution`s.
    pub distributions: ObjectClient,
    /// Secrets.
    pub secrets: ObjectClient,
    /// Events.
    pub recorder: Arc<Recorder>,
    /// Metrics.
    pub metrics: DistributionMetrics,
}

/// Renders sets, and keeps what they were rendered to.
pub struct DistributionSets {
    renderer: Arc<SetRenderer>,
    client: ObjectClient,
    /// Notified when a set has been rendered.
    changed: Arc<Notify>,
    states: BTreeMap<String, SetState>,
    /// What clusters have that charts ask for.
    capabilities: ClusterCapabilities,
    finished: Arc<Mutex<Vec<(String, i64, RenderOutcome)>>>,
    reports: Arc<SetReports>,
    rollouts: RolloutWriter,
    metrics: SetMetrics,
    hook_board: Arc<HookBoard>,
    /// What is to be done for hooks.
    hook_tasks: watch::Sender<Arc<Vec<HookTask>>>,
    started: Instant,
}

impl DistributionSets {
    /// `clients` write; `changed` is notified when a set has been rendered.
    pub fn new(
        control_plane: Client,
        clients: SetClients,
        sources: SetSources,
        changed: Arc<Notify>,
    ) -> Self {
        let SetClients {
            distributions: client,
            secrets,
            recorder,
            metrics,
        } = clients;
        let limits = RenderLimits {
            output_bytes: OUTPUT,
            concurrent: CONCURRENT,
            ..RenderLimits::default()
        };
        let programs = Programs::find(sources.sandbox, sources.helm, sources.kustomize);
        let renderer = SetRenderer {
            client: control_plane,
            renderer: Renderer::new(programs, limits),
            cache: RenderCache::new(CACHE),
            source_hosts: sources.source_hosts,
            secret_hosts: sources.secret_hosts,
            memory: CopyMemory::limited_to(OBJECTS),
            permits: Semaphore::new(CONCURRENT),
            secrets: RenderingSecrets { client: secrets },
        };
        Self {
            renderer: Arc::new(renderer),
            rollouts: RolloutWriter {
                client: client.clone(),
                recorder,
                metrics: metrics.clone(),
            },
            metrics: SetMetrics(metrics),
            client,
            changed,
            states: BTreeMap::new(),
            capabilities: ClusterCapabilities::default(),
            finished: Arc::default(),
            reports: Arc::default(),
            hook_board: Arc::default(),
            hook_tasks: watch::Sender::default(),
            started: Instant::now(),
        }
    }

    /// What is reported of sets.
    pub fn reports(&self) -> Arc<SetReports> {
        Arc::clone(&self.reports)
    }

    /// What runs hooks in clusters. `control_plane`: its UID.
    pub fn hook_runner(
        &self,
        clusters: Arc<Clusters>,
        control_plane: Arc<str>,
        fence: WriteFence,
    ) -> HookRunner {
        HookRunner {
            tasks: self.hook_tasks.subscribe(),
            running: Arc::new(RunningHooks {
                board: Arc::clone(&self.hook_board),
                clusters,
                control_plane,
                fence,
                changed: Arc::clone(&self.changed),
            }),
        }
    }

    /// Adds the sets to what a plan is made from, and begins to render those that have changed.
    pub fn add_to(
        &mut self,
        plan: &mut DistributionInputs,
        objects: &ControlPlaneObjects,
        clusters: &Clusters,
        served: &watch::Receiver<Arc<Discovery>>,
    ) {
        plan.knows_sets = objects.knows(kinds::SET);
        if !plan.knows_sets {
            return;
        }
        self.take_finished();
        self.read(objects);
        let members = clusters.states();
        self.capabilities.observe(&members, Instant::now());
        let uids: Vec<String> = self.states.keys().cloned().collect();
        for uid in uids {
            if self.is_due(&uid) {
                let served = Arc::clone(&served.borrow());
                self.start(&uid, plan, &members, served);
            }
        }
    }

    /// Takes the next steps of rollouts, writes them to the control plane, and adds the sets to
    /// what a plan is made from: a plan acts on nothing that is not written.
    pub async fn roll_out(
        &mut self,
        plan: &mut DistributionInputs,
        board: &StatusBoard,
        published: &PublishedPlan,
        now: Timestamp,
    ) {
        if !plan.knows_sets {
            return;
        }
        let placed = rollouts::placed_clusters(plan);
        let view = RolloutView {
            plan,
            board,
            hooks: &self.hook_board,
            published,
            now,
        };
        let mut written = Vec::new();
        for (uid, state) in &self.states {
            let clusters = placed.get(uid.as_str());
            if let Some(step) = rollouts::next(state, clusters, &view) {
                written.push(self.rollouts.write(uid, step));
            }
        }
        let mut written = Box::pin(stream::iter(written).buffer_unordered(CONCURRENT_WRITES));
        let mut steps = Vec::new();
        while let Some(step) = written.next().await {
            steps.extend(step);
        }
        drop(written);
        for (uid, step) in steps {
            if step.has_other_hooks() {
                // What follows from that is known after the next plan.
                self.changed.notify_one();
            }
            if let Some(state) = self.states.get_mut(&uid) {
                state.rollout.written(step.state, step.status, step.hooks);
                let newest = state.rendering.as_ref().map(|source| &source.rendering);
                state.rollout.forget_unneeded(newest);
            }
        }
        let sets = self.states.values();
        let sets = sets.map(|state| state.object_set(&self.capabilities));
        plan.sets = sets.collect();
    }

    /// Takes over what has been rendered.
    fn take_finished(&mut self) {
        let finished = std::mem::take(&mut *self.finished.lock());
        for (uid, generation, outcome) in finished {
            let Some(state) = self.states.get_mut(&uid) else {
                continue;
            };
            if state.spec.generation == generation {
                state.finish(generation, outcome);
            }
        }
    }

    /// Reads the `Distribution`s.
    fn read(&mut self, objects: &ControlPlaneObjects) {
        let mut known = BTreeSet::new();
        for object in objects.objects(kinds::SET) {
            let uid = text(&*object.object, &["metadata", "uid"]).to_owned();
            known.insert(uid.clone());
            match self.states.get_mut(&uid) {
                Some(state) => state.take(object.object),
                None => {
                    self.states.insert(uid, SetState::new(object));
                }
            }
        }
        self.states.retain(|uid, _| known.contains(uid));
    }

    fn is_due(&self, uid: &str) -> bool {
        self.states.get(uid).is_some_and(|state| {
            let may_run = if state.spec.is_ending {
                state.unread_ending().is_some()
            } else {
                !state.is_suspended()
            };
            may_run && state.running.is_none() && state.due <= Instant::now()
        })
    }

    /// Begins to render a set.
    fn start(
        &mut self,
        uid: &str,
        plan: &DistributionInputs,
        members: &BTreeMap<ClusterName, MemberState>,
        served: Arc<Discovery>,
    ) {
        let is_connecting = self.started.elapsed() < CONNECTING;
        let Some(state) = self.states.get_mut(uid) else {
            return;
        };
        let spec = match &state.spec.spec {
            Ok(spec) => Arc::clone(spec),
            Err(failure) => {
                let failure = failure.clone();
                state.fail(state.spec.generation, failure);
                return;
            }
        };
        let selected = selected(plan, &state.placement(), members);
        let names = selected.iter().map(|one| one.member.name.as_str());
        let capabilities = self.capabilities.of(names);
        let ending = state.unread_ending();
        let needs_versions = spec.source.helm.is_some() && ending.is_none();
        if is_connecting && needs_versions && !capabilities.unknown.is_empty() {
            state.due = Instant::now() + Duration::from_secs(1);
            return;
        }
        let discoveries = selected.iter().filter_map(|one| one.discovery.clone());
        let age = state.fetched.elapsed();
        let fetches_again = interval(&spec).is_some_and(|interval| age >= interval);
        let task = RenderTask {
            name: Arc::clone(&state.spec.name),
            spec,
            capabilities,
            served: discoveries.chain([served]).collect(),
            before: state.rendering.clone(),
            fetches_again,
            known: state.rollout.renderings().clone(),
            in_force: state.rollout.in_force(),
            wanted: state.rollout.wanted(),
            kept: state.rollout.kept(),
            current: state.current_revision(),
            undone: state.spec.undone.clone(),
            unneeded: state.rollout.unneeded(),
            ending,
        };
        if fetches_again {
            state.fetched = Instant::now();
        }
        let generation = state.spec.generation;
        let has_finalizer = state.spec.has_finalizer;
        let (renderer, client) = (Arc::clone(&self.renderer), self.client.clone());
        let (finished, changed) = (Arc::clone(&self.finished), Arc::clone(&self.changed));
        let uid = uid.to_owned();
        let running = tokio::spawn(async move {
            let name = Arc::clone(&task.name);
            let kept = if has_finalizer {
                Ok(())
            } else {
                set_finalizer(&client, &name, true).await
            };
            let outcome = match kept {
                Ok(()) => match timeout(DEADLINE, task.run(&renderer)).await {
                    Ok(outcome) => outcome,
                    Err(_) => RenderOutcome::failed(SetFailure::new(
                        "TimedOut",
                        "fetching and rendering takes more than 6 minutes",
                    )),
                },
                Err(error) => RenderOutcome::failed(SetFailure::new(
                    "NotWritable",
                    format!("cannot write its finalizer: {}", causes(&error)),
                )),
            };
            finished.lock().push((uid, generation, outcome));
            changed.notify_one();
        });
        state.running = Some(AbortOnDropHandle::new(running));
    }

    /// Lets sets go of which no cluster has anything any more, and notes what is to be reported.
    pub async fn planned(&mut self, plan: &DistributionPlan, read: &ReadInputs) {
        let previous = read.plan.previous.values();
        let bound = previous.filter_map(|one| one.set.as_ref());
        let bound: BTreeSet<&str> = bound.map(|set| set.uid.as_str()).collect();
        for state in self.states.values() {
            let spec = &state.spec;
            let is_bound = bound.contains(spec.name.uid.as_str());
            let is_over = state.is_over() && (!is_bound || planted(Bug::SetFinalizerGoesEarly));
            if !is_over || !spec.has_finalizer {
                continue;
            }
            if let Err(error) = set_finalizer(&self.client, &spec.name, false).await {
                tracing::warn!(set = %spec.name.shown(), error = %causes(&error), "cannot let a Distribution go");
            }
        }
        for state in self.states.values_mut() {
            state.planned(plan);
        }
        self.metrics.count(self.states.values(), &read.plan);
        let reports = self.states.values();
        self.reports
            .set(reports.map(|state| state.report(plan)).collect());
        let states = self.states.values();
        let clusters = &read.plan.clusters;
        let tasks: Vec<HookTask> = states
            .flat_map(|state| hook_steps::tasks(state, clusters))
            .collect();
        self.hook_tasks.send_if_modified(|before| {
            let is_other = **before != tasks;
            if is_other {
                *before = Arc::new(tasks);
            }
            is_other
        });
    }
}

/// The members that the placement of a set selects.
fn selected<'m>(
    plan: &DistributionInputs,
    set: &ObjectSet,
    members: &'m BTreeMap<ClusterName, MemberState>,
) -> Vec<&'m MemberState> {
    let clusters = selected_clusters(plan, set);
    let names: BTreeSet<&str> = clusters.map(|cluster| cluster.name.as_str()).collect();
    let members = members.iter();
    let selected = members.filter(|(name, _)| names.contains(name.as_str()));
    selected.map(|(_, state)| state).collect()
}
