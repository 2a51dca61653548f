//! The law of watches at several replicas: whoever leaves, dies or comes, amid writes and on a machine where everything comes late, an informer at any
//! of them ends up with what the members hold, or is told to list again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_api::registry::ResourceRegistrySpec;
use fleetdex_core::model::ClusterName;
use fleetdex_operator::RegistryView;
use fleetdex_sync::{pending::BatchLimits, pipeline::PipelineLimits};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    apiserver,
    informer::{Informer, Known, Objects},
    leases::Leases,
    network::Network,
    opensearch::{Fault, OpenSearch, Span},
    operator::{InProcess, control_plane},
    replicas::{Replica, Surroundings},
};

const CLUSTERS: usize = 3;
/// Names of objects of one cluster: few, so that they are deleted and made again.
const NAMES: usize = 10;
/// Writes before the replicas start: informers that are right show that the first lists are done.
const OBJECTS: usize = 60;
/// What happens to the replicas in one run.
const EVENTS: std::ops::RangeInclusive<usize> = 1..=3;
/// How long writes go on before and after each of these, in milliseconds.
const USUAL_CALM: (u64, u64) = (2_000, 12_000);
/// How long it may take until every informer is right: a replica that died is taken for dead after 8 s, one out of reach after 15 s more, and
/// requests to a store that hangs are given up after a minute.
const DEADLINE: Duration = Duration::from_mins(5);

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Writes to the clusters.
    pub operations: u64,
    /// Replicas that have left in good order.
    pub stopped: u64,
    /// Replicas that have died.
    pub killed: u64,
    /// Lists that informers had to make because a replica left in good order.
    pub relists: u32,
}

/// What happened to the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Came,
    Left,
    Died,
}

/// What may happen in a run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// How late everything comes between processes, at most.
    pub slowest: Duration,
    /// Whether OpenSearch fails now and then.
    pub with_faults: bool,
    /// Whether replicas die.
    pub with_deaths: bool,
    /// How long writes go on before and after something happens to a replica, in milliseconds.
    pub calm: (u64, u64),
}

struct World {
    random: StdRng,
    servers: BTreeMap<ClusterName, apiserver::Server>,
    store: OpenSearch,
    surroundings: Surroundings,
    /// By number.
    replicas: BTreeMap<u8, (Replica, Informer)>,
    writes: u64,
    outcome: Outcome,
}

/// The conditions of a seed: any.
pub fn conditions(seed: u64) -> Conditions {
    let mut dice = StdRng::seed_from_u64(seed ^ 0x4a4d_0fe2);
    let slowest = Duration::from_millis([5, 100, 800][dice.random_range(0..3)]);
    Conditions {
        slowest,
        with_faults: dice.random_ratio(1, 3),
        with_deaths: dice.random_ratio(1, 2),
        calm: USUAL_CALM,
    }
}

/// One run. An error says which informer holds something else than the members.
pub async fn simulate(seed: u64, conditions: Conditions) -> anyhow::Result<Outcome> {
    let mut world = World::new(seed, conditions)?;
    for _ in 0..OBJECTS {
        world.write();
    }
    world.start_replica(0)?;
    world.start_replica(1)?;
    world.until_right("at the beginning").await?;
    for _ in 0..world.random.random_range(EVENTS) {
        let time = Duration::from_millis(
            world
                .random
                .random_range(conditions.calm.0..conditions.calm.1),
        );
        world.write_for(time).await;
        if conditions.with_faults {
            world.disturb_store();
        }
        let event = world.disturb_replicas(conditions).await?;
        let lists = world.lists();
        let time = Duration::from_millis(
            world
                .random
                .random_range(conditions.calm.0..conditions.calm.1),
        );
        world.write_for(time).await;
        world.store.heal();
        world
            .until_right(&format!("after a replica {event:?}").to_lowercase())
            .await?;
        if event == Event::Left {
            world.outcome.relists += world.lists() - lists;
        }
    }
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
        let slow = u64::try_from(conditions.slowest.as_millis()).unwrap_or(u64::MAX);
        store.set_latency(1..=slow.clamp(5, 400));
        let spec: ResourceRegistrySpec = serde_json::from_value(json!({
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
            "backendStore": { "openSearch": { "addresses": ["http://opensearch.example.com:9200"] } },
        }))?;
        let registry = RegistryView {
            name: "everything".to_owned(),
            uid: "everything".to_owned(),
            created: None,
            spec,
        };
        let surroundings = Surroundings {
            hub,
            leases: Leases::default(),
            network: Network::new(random.random(), conditions.slowest),
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
            members: servers.keys().cloned().collect(),
            registries: vec![registry],
        };
        let outcome = Outcome::default();
        Ok(Self {
            random,
            servers,
            store,
            surroundings,
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
        let done = if is_deleted {
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
        if let Err(status) = done {
            tracing::error!(?status, "a write was refused");
        }
    }

    fn disturb_store(&mut self) {
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
        tracing::info!(?fault, ?span, "the store is in trouble");
        self.store.inject(fault, span);
    }

    /// One replica leaves while writes go on, or another one comes.
    async fn disturb_replicas(&mut self, conditions: Conditions) -> anyhow::Result<Event> {
        let numbers: Vec<u8> = self.replicas.keys().copied().collect();
        let missing = (0..3).find(|number| !self.replicas.contains_key(number));
        if let Some(missing) =
            missing.filter(|_| numbers.len() == 1 || self.random.random_ratio(1, 3))
        {
            tracing::info!(missing, "a replica comes");
            self.start_replica(missing)?;
            return Ok(Event::Came);
        }
        let leaving = numbers[self.random.random_range(0..numbers.len())];
        let Some((replica, _informer)) = self.replicas.remove(&leaving) else {
            return Ok(Event::Died);
        };
        if conditions.with_deaths && self.random.random_ratio(1, 2) {
            tracing::info!(leaving, "a replica dies");
            self.outcome.killed += 1;
            replica.kill().await;
            return Ok(Event::Died);
        }
        tracing::info!(leaving, "a replica leaves");
        self.outcome.stopped += 1;
        let mut leaves = std::pin::pin!(replica.stop());
        loop {
            let time = Duration::from_millis(self.random.random_range(5..150));
            tokio::select! {
                biased;
                left = &mut leaves => return Ok(left.map(|()| Event::Left)?),
                () = sleep(time) => self.write(),
            }
        }
    }

    /// Waits until every informer holds what the members hold, and watches: one whose watch cannot begin would be wrong after the next change.
    async fn until_right(&mut self, when: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let expected = self.expected()?;
        loop {
            let mut wrong = Vec::new();
            for (number, (_, informer)) in &self.replicas {
                let known = informer.known();
                if let Some(what) = known.wrong {
                    anyhow::bail!("{when}, an informer at replica {number}: {what}");
                }
                if known.objects != expected || !known.is_watching {
                    let what = difference(&known, &expected);
                    wrong.push(format!(
                        "an informer at replica {number}, after {} lists: {what}",
                        known.lists
                    ));
                }
            }
            if wrong.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "{when}, {} later: {}",
                DEADLINE.as_secs(),
                wrong.join("; ")
            );
            sleep(Duration::from_millis(500)).await;
        }
    }

    fn lists(&self) -> u32 {
        self.replicas
            .values()
            .map(|(_, informer)| informer.known().lists)
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

fn difference(known: &Known, expected: &Objects) -> String {
    let is_watching = known.is_watching;
    let known = &known.objects;
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
        "it {watches}, of {} objects it lacks {missing} and has {old} in another version, and it has {gone} that are gone",
        expected.len()
    )
}
