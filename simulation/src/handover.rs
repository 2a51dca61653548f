//! Watches at several replicas: while replicas start, stop and die during writes, or the registry
//! moves to another store location, and every message is delayed, an informer at any replica
//! converges to the objects of the members, by its watch or by a new list after 410.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::model::ClusterName;
use fleetdex_crds::registry::ResourceRegistrySpec;
use fleetdex_operator::RegistryView;
use fleetdex_sync::{pending::BatchLimits, pipeline::PipelineLimits};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    informer::{Informer, InformerState, Objects},
    leases::Leases,
    network::Network,
    operator::{InProcess, control_plane, placement},
    replicas::{Replica, Surroundings},
};
use fakes::{
    apiserver,
    opensearch::{Fault, OpenSearch, Span},
};

const CLUSTERS: usize = 3;
/// Number of object names per cluster: few, so that names are deleted and reused.
const NAMES: usize = 10;
/// Number of writes before the replicas start: consistent informers prove that the first lists are
/// done.
const OBJECTS: usize = 60;
/// Number of replica events in one run.
const EVENTS: std::ops::RangeInclusive<usize> = 1..=3;
/// How long writes continue before and after each event, in milliseconds.
const USUAL_WRITE_MILLIS: (u64, u64) = (2_000, 12_000);
/// How long the informers may take to converge: a dead replica is detected after 8 s, an
/// unreachable one after 15 s more, and requests to a store that hangs time out after a minute.
const DEADLINE: Duration = Duration::from_mins(5);

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of writes to the clusters.
    pub operations: u64,
    /// Number of replicas that shut down gracefully.
    pub stopped: u64,
    /// Number of replicas that were killed.
    pub killed: u64,
    /// Number of lists that informers repeated after a graceful shutdown of a replica.
    pub relists: u32,
}

/// What happened to a replica, or to the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Started,
    Stopped,
    Killed,
    Moved,
}

/// The conditions of a run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Maximum delay of a message between processes.
    pub max_delay: Duration,
    /// Whether OpenSearch has faults.
    pub with_faults: bool,
    /// Whether replicas are killed.
    pub with_kills: bool,
    /// Whether the registry moves, too.
    pub with_moves: bool,
    /// How long writes continue before and after a replica event, in milliseconds.
    pub write_millis: (u64, u64),
}

struct World {
    random: StdRng,
    servers: BTreeMap<ClusterName, apiserver::Server>,
    store: OpenSearch,
    surroundings: Surroundings,
    registries: watch::Sender<Vec<RegistryView>>,
    /// Number of moves of the registry.
    moves: u32,
    /// By number.
    replicas: BTreeMap<u8, (Replica, Informer)>,
    writes: u64,
    outcome: Outcome,
}

/// Returns random conditions for a seed.
pub fn conditions(seed: u64) -> Conditions {
    let mut random = StdRng::seed_from_u64(seed ^ 0x4a4d_0fe2);
    let max_delay = Duration::from_millis([5, 100, 800][random.random_range(0..3)]);
    Conditions {
        max_delay,
        with_faults: random.random_ratio(1, 3),
        with_kills: random.random_ratio(1, 2),
        with_moves: random.random_ratio(1, 3),
        write_millis: USUAL_WRITE_MILLIS,
    }
}

/// Runs one seed. The error names the informer whose objects differ from those of the members.
pub async fn simulate(seed: u64, conditions: Conditions) -> anyhow::Result<Outcome> {
    let mut world = World::new(seed, conditions)?;
    for _ in 0..OBJECTS {
        world.write();
    }
    world.start_replica(0)?;
    world.start_replica(1)?;
    world.wait_until_consistent("at the start").await?;
    for _ in 0..world.random.random_range(EVENTS) {
        let time = Duration::from_millis(
            world
                .random
                .random_range(conditions.write_millis.0..conditions.write_millis.1),
        );
        world.write_for(time).await;
        if conditions.with_faults {
            world.inject_store_fault();
        }
        let event = world.disrupt_replicas(conditions).await?;
        let lists = world.lists();
        let time = Duration::from_millis(
            world
                .random
                .random_range(conditions.write_millis.0..conditions.write_millis.1),
        );
        world.write_for(time).await;
        world.store.heal();
        world
            .wait_until_consistent(&format!("after the event {event:?}"))
            .await?;
        if event == Event::Stopped {
            world.outcome.relists += world.lists() - lists;
        }
    }
    world.replace_objects()?;
    world
        .wait_until_consistent("after every object was replaced while no watch was open")
        .await?;
    Ok(world.outcome)
}

impl World {
    fn new(seed: u64, conditions: Conditions) -> anyhow::Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        fastrand::seed(seed);
        let mut servers = BTreeMap::new();
        for number in 1..=CLUSTERS {
            let mut options = apiserver::Options::new(random.random());
            options.latency = Duration::from_millis(random.random_range(0..50));
            servers.insert(
                format!("member{number}").parse()?,
                apiserver::Server::new(options),
            );
        }
        let hub = control_plane(random.random())?;
        let store = OpenSearch::new(random.random());
        let slow = u64::try_from(conditions.max_delay.as_millis()).unwrap_or(u64::MAX);
        store.set_latency(1..=slow.clamp(5, 400));
        let registries = watch::Sender::new(vec![registry(0)?]);
        let surroundings = Surroundings {
            hub,
            leases: Leases::default(),
            network: Network::new(random.random(), conditions.max_delay),
            connect: Arc::new(InProcess::honest(servers.clone())),
            store: store.service(),
            limits: PipelineLimits {
                batch: BatchLimits {
                    count: random.random_range(1..20),
                    bytes: random.random_range(1_000..20_000),
                },
                in_flight: random.random_range(1..=3),
                ..PipelineLimits::default()
            },
            placement: placement(seed),
            members: servers.keys().cloned().collect(),
            registries: registries.subscribe(),
        };
        let outcome = Outcome::default();
        Ok(Self {
            random,
            servers,
            store,
            surroundings,
            registries,
            moves: 0,
            replicas: BTreeMap::new(),
            writes: 0,
            outcome,
        })
    }

    fn start_replica(&mut self, number: u8) -> anyhow::Result<()> {
        let replica = Replica::start(&self.surroundings, number)?;
        let informer = Informer::start(&self.surroundings.network, replica.address);
        self.replicas.insert(number, (replica, informer));
        Ok(())
    }

    async fn write_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.write();
            sleep(Duration::from_millis(self.random.random_range(5..150))).await;
        }
    }

    fn write(&mut self) {
        self.writes += 1;
        self.outcome.operations += 1;
        let at = self.random.random_range(0..self.servers.len());
        let name = format!("object{}", self.random.random_range(0..NAMES));
        let is_deleted = self.random.random_ratio(2, 5);
        let Some(server) = self.servers.values().nth(at) else {
            return;
        };
        let result = if is_deleted {
            server
                .delete("configmaps", Some("default"), &name)
                .map(drop)
        } else {
            let metadata = json!({ "name": name, "namespace": "default" });
            server
                .apply(
                    "configmaps",
                    json!({ "metadata": metadata, "data": { "write": self.writes.to_string() } }),
                )
                .map(drop)
        };
        if let Err(status) = result {
            tracing::error!(?status, "the API server refused a write");
        }
    }

    /// Replaces every object by another one of its name, and restarts the API servers before a
    /// watch shows that. No watch can resume then, so lists find the new objects beside the
    /// documents of the former ones. Later writes would hide what an informer has lost.
    fn replace_objects(&mut self) -> anyhow::Result<()> {
        let refused = |status: apiserver::Status| anyhow::anyhow!("{status:?}");
        for server in self.servers.values() {
            for former in server.objects("configmaps", None).map_err(refused)? {
                let namespace = former.namespace.as_deref();
                server
                    .delete("configmaps", namespace, &former.name)
                    .map_err(refused)?;
                let metadata = json!({ "name": former.name, "namespace": namespace });
                let object = json!({ "metadata": metadata, "data": { "write": "replaced" } });
                server.apply("configmaps", object).map_err(refused)?;
                self.outcome.operations += 2;
            }
            server.restart();
        }
        Ok(())
    }

    fn inject_store_fault(&mut self) {
        let fault = match self.random.random_range(0..4) {
            0 => Fault::ResponseLost,
            1 => Fault::RequestLost,
            2 => Fault::RejectedItems(50),
            _ => Fault::Unavailable,
        };
        let span = if self.random.random_ratio(1, 2) {
            Span::Times(self.random.random_range(1..4))
        } else {
            Span::For(Duration::from_secs(self.random.random_range(1..30)))
        };
        tracing::info!(?fault, ?span, "injecting a store fault");
        self.store.inject(fault, span);
    }

    /// Stops or kills a replica while writes continue, or starts another one; or moves the
    /// registry.
    async fn disrupt_replicas(&mut self, conditions: Conditions) -> anyhow::Result<Event> {
        if conditions.with_moves && self.random.random_ratio(1, 2) {
            self.moves += 1;
            tracing::info!(moves = self.moves, "moving the registry");
            self.registries.send_replace(vec![registry(self.moves)?]);
            return Ok(Event::Moved);
        }
        let numbers: Vec<u8> = self.replicas.keys().copied().collect();
        let missing = (0..3).find(|number| !self.replicas.contains_key(number));
        if let Some(missing) =
            missing.filter(|_| numbers.len() == 1 || self.random.random_ratio(1, 3))
        {
            tracing::info!(missing, "starting a replica");
            self.start_replica(missing)?;
            return Ok(Event::Started);
        }
        let number = numbers[self.random.random_range(0..numbers.len())];
        let Some((replica, _informer)) = self.replicas.remove(&number) else {
            return Ok(Event::Killed);
        };
        if conditions.with_kills && self.random.random_ratio(1, 2) {
            tracing::info!(number, "killing a replica");
            self.outcome.killed += 1;
            replica.kill().await;
            return Ok(Event::Killed);
        }
        tracing::info!(number, "stopping a replica");
        self.outcome.stopped += 1;
        let mut stopping = std::pin::pin!(replica.stop());
        loop {
            let time = Duration::from_millis(self.random.random_range(5..150));
            tokio::select! {
                biased;
                stopped = &mut stopping => return Ok(stopped.map(|()| Event::Stopped)?),
                () = sleep(time) => self.write(),
            }
        }
    }

    /// Waits until every informer holds the objects of the members and has an open watch: without a
    /// watch it would be inconsistent after the next change.
    async fn wait_until_consistent(&mut self, when: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let expected = self.expected()?;
        loop {
            let mut wrong = Vec::new();
            for (number, (_, informer)) in &self.replicas {
                let state = informer.state();
                if let Some(what) = state.violation {
                    anyhow::bail!("{when}, the informer at replica {number}: {what}");
                }
                if state.objects != expected || !state.is_watching {
                    let what = difference(&state, &expected);
                    wrong.push(format!(
                        "the informer at replica {number}, after {} lists: {what}",
                        state.lists
                    ));
                }
            }
            if wrong.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "{when}, not consistent after {} s: {}",
                DEADLINE.as_secs(),
                wrong.join("; ")
            );
            sleep(Duration::from_millis(500)).await;
        }
    }

    fn lists(&self) -> u32 {
        self.replicas
            .values()
            .map(|(_, informer)| informer.state().lists)
            .sum()
    }

    fn expected(&self) -> anyhow::Result<Objects> {
        let mut expected = Objects::new();
        for (cluster, server) in &self.servers {
            let objects = server
                .objects("configmaps", None)
                .map_err(|status| anyhow::anyhow!("{status:?}"))?;
            expected.extend(objects.into_iter().map(|stored| {
                let namespace = stored.namespace.unwrap_or_default();
                (
                    crate::informer::key(cluster.as_str(), &namespace, &stored.name),
                    (stored.uid, stored.version),
                )
            }));
        }
        Ok(expected)
    }
}

/// The registry after some moves, each to an index prefix of its own.
fn registry(moves: u32) -> anyhow::Result<RegistryView> {
    let location = json!({ "addresses": ["http://opensearch.example.com:9200"], "indexPrefix": format!("location{moves}") });
    let spec: ResourceRegistrySpec = serde_json::from_value(json!({
        "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
        "backendStore": { "openSearch": location },
    }))?;
    Ok(RegistryView {
        name: "everything".to_owned(),
        uid: "everything".to_owned(),
        created: None,
        spec,
    })
}

fn difference(state: &InformerState, expected: &Objects) -> String {
    let is_watching = state.is_watching;
    let known = &state.objects;
    let gone = known
        .keys()
        .filter(|uid| !expected.contains_key(*uid))
        .count();
    let missing = expected
        .keys()
        .filter(|uid| !known.contains_key(*uid))
        .count();
    let old = known
        .iter()
        .filter(|(uid, version)| expected.get(*uid).is_some_and(|newer| newer != *version))
        .count();
    let watches = if is_watching {
        "watches"
    } else {
        "has no watch"
    };
    format!(
        "it {watches}; of {} objects it lacks {missing} and has {old} in another version; it has {gone} deleted objects",
        expected.len()
    )
}
