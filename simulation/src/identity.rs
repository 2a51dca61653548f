//! Cluster identity: an indexed member stays indexed, whatever UIDs and histories other members
//! report, across restarts of the operator too. A cluster that was restored from the backup of
//! another cluster is indexed beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::model::{ClusterName, IndexPrefix};
use fleetdex_crds::registry::ResourceRegistrySpec;
use fleetdex_limits::intake::{self, Budget};
use fleetdex_operator::RegistryView;
use fleetdex_store::opensearch::PlacementRules;
use fleetdex_sync::pipeline::PipelineLimits;
use fleetdex_webhooks::queue::QueueLimits;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    hostile::{Gauge, Hostile, Malice},
    interpreter::Interpreter,
    operator::{DesiredState, InProcess, Operator, Surroundings, control_plane},
    oracle::stored,
};
use fakes::{apiserver, opensearch::OpenSearch};

/// The first by name, so that it counts as the oldest registration.
const MALLORY: &str = "mallory";
const HONEST: [&str; 2] = ["member1", "member2"];
/// Starts with a copy of the etcd of `member1`.
const RESTORED: &str = "restored";
/// Number of events in one run.
const EVENTS: std::ops::RangeInclusive<usize> = 4..=12;
/// Pauses between events, in seconds: from less than a probe interval to more than the time to
/// repeat a comparison.
const PAUSES: std::ops::Range<u64> = 1..100;
/// Seconds between two writes while the run waits.
const WRITE_SECONDS: u64 = 20;
/// How long indexing may take: 260 s for a failing comparison, then a connection and a list.
const DEADLINE: Duration = Duration::from_mins(10);

struct World {
    random: StdRng,
    servers: BTreeMap<ClusterName, apiserver::Server>,
    mallory: Hostile,
    store: OpenSearch,
    surroundings: Surroundings,
    desired: DesiredState,
    operator: Option<Operator>,
    writes: u64,
    /// The indices of the indexed members: each has to exist until the end of the run.
    established_indices: BTreeSet<String>,
}

/// Runs one seed. Returns how often a member reported a false identity.
pub async fn simulate(seed: u64) -> anyhow::Result<u64> {
    let mut world = World::new(seed)?;
    world.wait_until_indexed("at the start").await?;
    world.established_indices = world.indices();
    let mut joined = vec![MALLORY, RESTORED];
    let events = world.random.random_range(EVENTS);
    for number in 0..events {
        let what = if joined.is_empty() || world.random.random_ratio(1, 2) {
            world.disrupt().await?
        } else {
            let at = world.random.random_range(0..joined.len());
            world.join(joined.swap_remove(at))?
        };
        tracing::info!(number, what, "event");
        let pause = world.random.random_range(PAUSES);
        for _ in 0..pause {
            world.write();
            sleep(Duration::from_secs(1)).await;
            world.check(what)?;
        }
    }
    for name in joined {
        world.join(name)?;
    }
    world.wait_until_indexed("at the end").await?;
    world.check("at the end")?;
    if let Some(operator) = world.operator.take() {
        operator.kill().await;
    }
    Ok(world.mallory.struck().into_values().sum())
}

impl World {
    fn new(seed: u64) -> anyhow::Result<Self> {
        let mut random = StdRng::seed_from_u64(seed.rotate_left(43));
        fastrand::seed(seed);
        let origin = random.random();
        let mut servers = BTreeMap::new();
        for (name, seed) in [
            (HONEST[0], origin),
            (HONEST[1], random.random()),
            (RESTORED, origin),
        ] {
            servers.insert(
                name.parse()?,
                apiserver::Server::new(apiserver::Options::new(seed)),
            );
        }
        let server = apiserver::Server::new(apiserver::Options::new(random.random()));
        let mallory = Hostile::new(
            server,
            random.random(),
            &[Malice::LyingIdentity],
            Vec::new(),
            0,
        );
        let hub = control_plane(random.random())?;
        let store = OpenSearch::new(random.random());
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
        let connect = InProcess {
            servers: servers.clone(),
            hostile: BTreeMap::from([(MALLORY.parse()?, mallory.clone())]),
            budget: Budget::new(intake::MemoryLimits::default()),
            gauge: Gauge::default(),
        };
        let surroundings = Surroundings {
            hub,
            connect: Arc::new(connect),
            store: store.service(),
            limits: PipelineLimits::default(),
            placement: PlacementRules::default(),
            audit_interval: None,
            interpreter: Interpreter::new(1),
            questions: QueueLimits::default(),
        };
        let members = HONEST
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()?;
        let desired = DesiredState {
            members,
            registries: vec![registry],
            store_locations: Vec::new(),
            rules: Arc::default(),
        };
        let operator = Some(Operator::start(surroundings.clone(), desired.clone()));
        let established_indices = BTreeSet::new();
        let mut world = Self {
            random,
            servers,
            mallory,
            store,
            surroundings,
            desired,
            operator,
            writes: 0,
            established_indices,
        };
        for _ in 0..20 {
            world.write();
        }
        Ok(world)
    }

    /// Writes to a random cluster.
    fn write(&mut self) {
        self.writes += 1;
        let at = self.random.random_range(0..self.servers.len());
        let Some(server) = self.servers.values().nth(at) else {
            return;
        };
        let metadata = json!({ "name": format!("object{}", self.random.random_range(0..9)), "namespace": "default" });
        let object = json!({ "metadata": metadata, "data": { "write": self.writes.to_string() } });
        if let Err(status) = server.apply("configmaps", object) {
            tracing::error!(?status, "the API server refused a write");
        }
    }

    fn join(&mut self, name: &'static str) -> anyhow::Result<&'static str> {
        self.desired.members.push(name.parse()?);
        if let Some(operator) = &self.operator {
            operator.update(self.desired.clone());
        }
        Ok(name)
    }

    /// Lets the hostile member impersonate another one, or ends the operator or a connection.
    async fn disrupt(&mut self) -> anyhow::Result<&'static str> {
        match self.random.random_range(0..6) {
            0 | 1 => {
                let victim =
                    HONEST[self.random.random_range(0..HONEST.len())].parse::<ClusterName>()?;
                let relays = self.random.random_ratio(2, 3);
                self.mallory
                    .impersonate(self.servers.get(&victim).cloned(), relays);
                Ok(if relays {
                    "mallory shows the history of another member"
                } else {
                    "mallory reports the UID of another member"
                })
            }
            2 => {
                self.mallory.impersonate(None, false);
                Ok("mallory reports its own identity again")
            }
            3 => {
                let at = self.random.random_range(0..self.servers.len());
                self.servers
                    .values()
                    .nth(at)
                    .into_iter()
                    .for_each(apiserver::Server::restart);
                Ok("an API server restarted")
            }
            kills => {
                if let Some(operator) = self.operator.take() {
                    if kills == 4 {
                        operator.kill().await;
                    } else {
                        operator.stop().await?;
                    }
                }
                self.operator = Some(Operator::start(
                    self.surroundings.clone(),
                    self.desired.clone(),
                ));
                Ok("the operator restarted")
            }
        }
    }

    /// Checks that every indexed member still is.
    fn check(&self, when: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.operator.as_ref().is_some_and(Operator::has_ended),
            "the operator ended without being stopped"
        );
        let indices = self.indices();
        let lost: Vec<&String> = self.established_indices.difference(&indices).collect();
        anyhow::ensure!(
            lost.is_empty(),
            "{when}: an indexed member was displaced: {lost:?} are missing, {indices:?} exist"
        );
        Ok(())
    }

    /// Returns the indices of the honest members.
    fn indices(&self) -> BTreeSet<String> {
        let starts: Vec<String> = HONEST
            .iter()
            .filter_map(|name| {
                Some(format!(
                    "{}.g",
                    IndexPrefix::default().cluster_alias(&name.parse().ok()?)
                ))
            })
            .collect();
        let is_honest = |index: &String| starts.iter().any(|start| index.starts_with(start));
        self.store.indices().into_keys().filter(is_honest).collect()
    }

    /// Waits until the objects of every honest member are stored. Writes continue, as in any
    /// cluster: two clusters of one origin that stayed at the same resource version could not be
    /// distinguished.
    async fn wait_until_indexed(&mut self, when: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            if started.elapsed().as_secs() % WRITE_SECONDS == WRITE_SECONDS - 1 {
                self.write();
            }
            let wrong = self.differences()?;
            if wrong.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(
                started.elapsed() < DEADLINE,
                "{when}, {} s later: {}",
                DEADLINE.as_secs(),
                wrong.join("; ")
            );
            sleep(Duration::from_secs(1)).await;
        }
    }

    fn differences(&self) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        for (name, server) in self
            .servers
            .iter()
            .filter(|(name, _)| self.desired.members.contains(name))
        {
            let objects = server
                .objects("configmaps", None)
                .map_err(|status| anyhow::anyhow!("{status:?}"))?;
            let expected: BTreeMap<String, u64> = objects
                .into_iter()
                .map(|object| (format!("v1/ConfigMap/{}", object.uid), object.version))
                .collect();
            let alias = IndexPrefix::default().cluster_alias(name);
            let found: BTreeMap<String, u64> = stored(&self.store, alias.as_str())
                .into_iter()
                .map(|(id, (version, _))| (id, version))
                .collect();
            if found != expected {
                wrong.push(format!(
                    "the {} objects of {name} differ from its {} documents",
                    expected.len(),
                    found.len()
                ));
            }
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_indexed_member_is_never_displaced_and_a_restored_one_is_indexed() {
        let mut lies = 0;
        for seed in 1..=20 {
            lies += simulate(seed)
                .await
                .unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        }
        assert!(lies > 0, "no member lied");
    }
}
