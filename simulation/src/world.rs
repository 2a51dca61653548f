//! The fleet of one run: clusters, OpenSearch and operators, with the operations and disruptions
//! that the run applies to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, IndexPrefix};
use fleetdex_limits::intake::{self, Budget};
use fleetdex_operator::plan::store_location;
use fleetdex_sync::{pending::BatchLimits, pipeline::PipelineLimits};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::{
    SECRET_VALUE,
    hostile::{Gauge, Hostile, Malice},
    interpreter::{self, Interpreter, Rules},
    operator::{DesiredState, InProcess, Operator, Surroundings, control_plane, placement},
    oracle,
    selection::{KINDS, Kind, NAMESPACES, STEADY, Selection},
};
use fakes::{apiserver, opensearch::OpenSearch};

/// Number of objects that each cluster has at the start.
const OBJECTS: std::ops::Range<usize> = 5..60;
/// Number of object names per kind and namespace: few, so that names are deleted and reused.
const NAMES: usize = 12;
const STEADY_OBJECTS: usize = 3;
/// The index prefixes that the registry may have.
const PREFIXES: [&str; 3] = ["fleetdex", "moved", "fleetdex_moved"];
/// Fifty times the requests of the busiest of 10,000 runs. More indicates an endless loop, which
/// would run for hours under a paused clock.
const MAX_REQUESTS: u64 = 200_000;
/// OpenSearch rejects documents that contain this text.
const REFUSED_TEXT: &str = "unbearable";

/// The state of one run.
pub struct World {
    /// The random number generator of the run.
    pub random: StdRng,
    /// Every cluster.
    pub servers: BTreeMap<ClusterName, apiserver::Server>,
    /// OpenSearch.
    pub store: OpenSearch,
    /// The objects that the registry selects.
    pub selection: Selection,
    /// The selection before the last edit.
    selection_before: Option<Selection>,
    /// The index prefix of the registry.
    prefix: IndexPrefix,
    /// How often each disruption of the fleet took place; servers count their own faults.
    pub disruptions: BTreeMap<&'static str, u64>,
    desired: DesiredState,
    surroundings: Surroundings,
    /// Whether a bulk request contained a Secret's value.
    leaked: Arc<AtomicBool>,
    /// A line of a bulk request that is no valid JSON, or whose document is in the index of another
    /// cluster.
    invalid_bulk_line: Arc<Mutex<Option<String>>>,
    /// Members that try to harm the others.
    hostile: BTreeMap<ClusterName, Hostile>,
    /// The interpreter webhook.
    pub interpreter: Interpreter,
    /// The rules by which objects are interpreted.
    rules: Rules,
    /// Whether two operators have written at a time.
    had_two_operators: bool,
    /// The memory budget for the responses of members.
    budget: Budget,
    /// How much was read of these responses.
    gauge: Gauge,
    operators: Vec<Operator>,
    /// Number of writes; part of each object, so that each write is a change.
    writes: u64,
    /// For each cluster that queries have shown completely: the sets of documents, one of which has
    /// to be visible from then on.
    visible: BTreeMap<ClusterName, Vec<BTreeSet<String>>>,
    /// The documents of the unmodified objects of every cluster that ever had the name. Whenever
    /// queries show any document of their kind, they show one of these sets completely.
    steady: BTreeMap<ClusterName, Vec<BTreeSet<String>>>,
}

impl World {
    /// Creates a fleet with some objects and a running operator.
    pub fn new(seed: u64, audit_interval: Option<Duration>) -> anyhow::Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        fastrand::seed(seed);
        let names: Vec<ClusterName> = (1..=random.random_range(1..=3))
            .map(|number| format!("member{number}").parse())
            .collect::<Result<_, _>>()?;
        let servers: BTreeMap<ClusterName, apiserver::Server> = names
            .iter()
            .map(|name| (name.clone(), cluster(&mut random)))
            .collect();
        let hub = control_plane(random.random())?;
        let store = OpenSearch::new(random.random());
        let budget = Budget::new(intake_limits(seed));
        let hostile = hostile_members(seed, &servers, budget.limits());
        let gauge = Gauge::default();
        store.refuse_documents_with(REFUSED_TEXT);
        let (leaked, invalid_bulk_line) = (Arc::default(), Arc::default());
        inspect_bulks_for_leaks(&store, &leaked, &invalid_bulk_line);
        let selection = Selection::random(&mut random);
        let members = names.into_iter().chain(hostile.keys().cloned()).collect();
        // Beside the other random choices, so that a seed stays the same fleet.
        let mut of_interpreter = StdRng::seed_from_u64(seed.rotate_left(43));
        let interpreter = Interpreter::new(of_interpreter.random());
        let rules = Rules::random(&mut of_interpreter);
        let desired = DesiredState {
            members,
            registries: vec![selection.registry(PREFIXES[0])?],
            store_locations: Vec::new(),
            rules: rules.rule_set(),
        };
        let surroundings = Surroundings {
            hub,
            connect: Arc::new(InProcess {
                servers: servers.clone(),
                hostile: hostile.clone(),
                budget: budget.clone(),
                gauge: gauge.clone(),
            }),
            store: store.service(),
            limits: limits(&mut random),
            placement: placement(seed),
            audit_interval,
            interpreter: interpreter.clone(),
            questions: interpreter::queue_limits(&mut of_interpreter),
        };
        let operators = vec![Operator::start(surroundings.clone(), desired.clone())];
        let mut world = Self {
            random,
            servers,
            store,
            selection,
            selection_before: None,
            prefix: IndexPrefix::default(),
            disruptions: BTreeMap::new(),
            desired,
            surroundings,
            leaked,
            invalid_bulk_line,
            hostile,
            interpreter,
            rules,
            had_two_operators: false,
            budget,
            gauge,
            operators,
            writes: 0,
            visible: BTreeMap::new(),
            steady: BTreeMap::new(),
        };
        world.populate();
        Ok(world)
    }

    fn populate(&mut self) {
        for name in self.servers.keys().cloned().collect::<Vec<_>>() {
            self.populate_cluster(&name);
        }
    }

    fn populate_cluster(&mut self, cluster: &ClusterName) {
        for number in 0..STEADY_OBJECTS {
            let object = json!({
                "metadata": { "name": format!("steady{number}"), "namespace": STEADY, "labels": { "tier": "web" } },
                "spec": { "value": number },
            });
            self.apply(cluster, KINDS[0], object);
        }
        let steady = self
            .servers
            .get(cluster)
            .map(oracle::steady)
            .unwrap_or_default();
        self.steady.entry(cluster.clone()).or_default().push(steady);
        for _ in 0..self.random.random_range(OBJECTS) {
            self.write_to(cluster);
        }
    }

    fn apply(&self, cluster: &ClusterName, kind: Kind, object: Value) {
        if let Some(server) = self.servers.get(cluster)
            && let Err(status) = server.apply(kind.resource, object)
        {
            tracing::error!(%cluster, ?status, "the API server refused an object");
        }
    }

    /// Returns the current members.
    pub fn member_names(&self) -> Vec<ClusterName> {
        self.desired.members.clone()
    }

    /// Returns a random cluster.
    pub fn some_cluster(&mut self) -> ClusterName {
        let names: Vec<ClusterName> = self.servers.keys().cloned().collect();
        let at = self.random.random_range(0..names.len());
        names[at].clone()
    }

    /// Creates, changes or deletes a random object of a random cluster.
    pub fn write(&mut self) {
        let cluster = self.some_cluster();
        self.write_to(&cluster);
    }

    /// Changes one object many times in a row.
    pub fn write_often(&mut self) {
        let cluster = self.some_cluster();
        for _ in 0..self.random.random_range(5..20) {
            self.writes += 1;
            let object = json!({
                "metadata": { "name": "busy", "namespace": NAMESPACES[0], "labels": { "tier": "web" } },
                "spec": { "value": self.writes },
            });
            self.apply(&cluster, KINDS[0], object);
        }
    }

    fn write_to(&mut self, cluster: &ClusterName) {
        self.writes += 1;
        let writes = self.writes;
        let Some(kind) = KINDS.choose(&mut self.random).copied() else {
            return;
        };
        let Some(namespace) = NAMESPACES.choose(&mut self.random).copied() else {
            return;
        };
        let name = format!("object{}", self.random.random_range(0..NAMES));
        if self.random.random_ratio(1, 4) {
            if let Some(server) = self.servers.get(cluster) {
                // An object of that name need not exist.
                let _existed = server.delete(kind.resource, Some(namespace), &name);
            }
            return;
        }
        let tier = if self.random.random_ratio(1, 2) {
            "web"
        } else {
            "db"
        };
        let mut object = json!({
            "metadata": { "name": name, "namespace": namespace, "labels": { "tier": tier } },
            "spec": { "value": writes, "hidden": "x".repeat(self.random.random_range(0..200)) },
        });
        if kind.kind == "Secret" {
            object["data"] = json!({ "password": SECRET_VALUE });
        }
        if self.random.random_ratio(1, 40) {
            object["metadata"]["annotations"] = json!({ "example.com/note": REFUSED_TEXT });
        }
        self.apply(cluster, kind, object);
    }

    /// Changes the resource selectors of the registry.
    pub fn edit_registry(&mut self) -> anyhow::Result<()> {
        // Often restores the previous selection: removed objects have to be indexed again.
        let other = match self.selection_before.take() {
            Some(before) if self.random.random_ratio(2, 3) => before,
            _ => Selection::random(&mut self.random),
        };
        self.selection_before = Some(std::mem::replace(&mut self.selection, other));
        self.desired.registries = vec![self.selection.registry(self.prefix.as_str())?];
        self.update_operators();
        self.count("registry edited");
        Ok(())
    }

    /// Moves the registry to another index prefix.
    pub fn move_registry(&mut self) -> anyhow::Result<()> {
        let Some(prefix) = PREFIXES.choose(&mut self.random) else {
            return Ok(());
        };
        // The leader records the location before the first write to it.
        for registry in &self.desired.registries {
            self.desired
                .store_locations
                .extend(store_location(&registry.spec));
        }
        self.prefix = prefix.parse()?;
        self.desired.registries = vec![self.selection.registry(prefix)?];
        self.update_operators();
        self.count("registry moved");
        Ok(())
    }

    /// Replaces the rules by which objects are interpreted.
    pub fn change_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.desired.rules = rules.rule_set();
        self.update_operators();
        self.count("interpreter rules changed");
    }

    fn update_operators(&self) {
        for operator in &self.operators {
            operator.update(self.desired.clone());
        }
    }

    /// Removes a member, or adds a removed one again.
    pub fn join_or_leave(&mut self) {
        let name = self.some_cluster();
        let members = &mut self.desired.members;
        match members.iter().position(|member| *member == name) {
            Some(position) if members.len() > 1 => drop(members.remove(position)),
            Some(_) => {}
            None => members.push(name.clone()),
        }
        self.update_operators();
        self.visible.remove(&name);
        self.count("member left or joined");
    }

    /// Replaces a cluster by a new one of the same name.
    pub fn recreate(&mut self) {
        let name = self.some_cluster();
        if let Some(server) = self.servers.get(&name) {
            server.recreate();
            server.restart();
        }
        self.populate_cluster(&name);
        let now = self
            .servers
            .get(&name)
            .map(oracle::steady)
            .unwrap_or_default();
        if let Some(acceptable) = self.visible.get_mut(&name) {
            acceptable.push(now);
        }
        self.count("cluster recreated");
    }

    /// Restores the etcd of a cluster from a backup.
    pub fn restore(&mut self) {
        let name = self.some_cluster();
        let Some(server) = self.servers.get(&name).cloned() else {
            return;
        };
        let (oldest, newest) = (
            server.compacted().max(newest_steady(&server)),
            server.revision(),
        );
        if oldest < newest {
            let revision = self.random.random_range(oldest..newest);
            if server.restore(revision).is_ok() {
                server.restart();
                self.count("etcd restored");
            }
        }
    }

    /// Compacts the history of a cluster up to the current or a recent revision.
    pub fn compact(&mut self) {
        let name = self.some_cluster();
        if let Some(server) = self.servers.get(&name) {
            server.compact(
                server
                    .revision()
                    .saturating_sub(self.random.random_range(0..10)),
            );
        }
        self.count("etcd compacted");
    }

    /// Restarts an API server.
    pub fn restart_apiserver(&mut self) {
        let name = self.some_cluster();
        if let Some(server) = self.servers.get(&name) {
            server.restart();
        }
        self.count("apiserver restarted");
    }

    /// Restarts OpenSearch, which loses its tombstones of deleted documents.
    pub fn restart_store(&mut self) {
        self.store.restart();
    }

    /// Deletes a random index.
    pub fn delete_index(&mut self) {
        let indices: Vec<String> = self.store.indices().into_keys().collect();
        if let Some(index) = indices.choose(&mut self.random) {
            self.store.delete_index(index);
            self.visible.clear();
        }
    }

    /// Removes a random alias.
    pub fn remove_alias(&mut self) {
        let aliases: Vec<String> = self.store.aliases().into_keys().collect();
        if let Some(alias) = aliases.choose(&mut self.random) {
            self.store.remove_alias(alias);
            self.visible.clear();
        }
    }

    /// Kills or stops an operator; a later step starts one again.
    pub async fn disturb_operators(&mut self) -> anyhow::Result<()> {
        if self.operators.is_empty() {
            return Ok(());
        }
        let operator = self.operators.remove(0);
        if self.random.random_ratio(1, 3) {
            self.count("operator stopped");
            operator.stop().await?;
        } else {
            self.count("operator killed");
            operator.kill().await;
        }
        Ok(())
    }

    /// Starts a second operator beside the first.
    pub fn start_second_operator(&mut self) {
        if self.operators.len() < 2 {
            self.count("second operator");
            self.had_two_operators = true;
            self.operators.push(Operator::start(
                self.surroundings.clone(),
                self.desired.clone(),
            ));
        }
    }

    /// Starts an operator if none runs.
    pub fn ensure_operator(&mut self) {
        if self.operators.is_empty() {
            self.operators.push(Operator::start(
                self.surroundings.clone(),
                self.desired.clone(),
            ));
        }
    }

    /// Ends all faults and leaves one operator running.
    pub async fn heal(&mut self) {
        for server in self.servers.values() {
            server.heal();
        }
        self.store.heal();
        self.interpreter.heal();
        // Of two operators that know nothing of each other, the document of one replaces that of
        // the other at the same version, even if only the other one has the answer of a webhook. A
        // start asks again; without webhooks the survivor has to do without it.
        let left = usize::from(!(self.had_two_operators && self.rules.ask_webhooks()));
        while self.operators.len() > left {
            self.operators.remove(0).kill().await;
        }
        self.ensure_operator();
    }

    /// Checks the invariants that hold at any time, with faults too. The error names the violated
    /// one.
    pub fn check_always(&mut self) -> Result<(), String> {
        if self.operators.iter().any(Operator::has_ended) {
            return Err("an operator ended without being stopped".to_owned());
        }
        let requests = self.store.counters().requests;
        if requests > MAX_REQUESTS {
            return Err(format!(
                "OpenSearch received {requests} requests: something retries in an endless loop"
            ));
        }
        if self.leaked.load(Ordering::Relaxed) {
            return Err("a bulk request contained a Secret's value".to_owned());
        }
        if let Some(line) = &*self.invalid_bulk_line.lock() {
            return Err(format!(
                "a bulk request has an invalid line or a document of another cluster: {line}"
            ));
        }
        let limits = self.budget.limits();
        if self.budget.peak() > limits.bound() {
            return Err(format!(
                "responses took {} bytes of memory, more than {}",
                self.budget.peak(),
                limits.bound()
            ));
        }
        let longest = limits.page.max(limits.line).max(limits.answer) + SLACK;
        if self.gauge.longest() > longest {
            return Err(format!(
                "{} bytes of one response were read, more than {longest}",
                self.gauge.longest()
            ));
        }
        for name in self.member_names() {
            // Until the new store location is complete, queries read the previous one.
            let mut shown = BTreeSet::new();
            for prefix in PREFIXES
                .iter()
                .filter_map(|prefix| prefix.parse::<IndexPrefix>().ok())
            {
                shown.extend(
                    oracle::stored(&self.store, prefix.cluster_alias(&name).as_str()).into_keys(),
                );
                let over_all = oracle::stored(&self.store, prefix.as_str()).into_iter();
                let of_cluster =
                    over_all.filter(|(_, (_, source))| source["cluster"] == name.as_str());
                shown.extend(of_cluster.map(|(id, _)| id));
            }
            // Kinds become visible one by one, but each of them completely.
            let of_kind = oracle::id(KINDS[0], "");
            let is_visible = shown.iter().any(|id| id.starts_with(&of_kind));
            if is_visible
                && self
                    .steady
                    .get(&name)
                    .is_some_and(|sets| !sets.iter().any(|ids| ids.is_subset(&shown)))
            {
                return Err(format!(
                    "a query of {name} shows an incomplete kind: {} documents",
                    shown.len()
                ));
            }
            let steady = self
                .servers
                .get(&name)
                .map(oracle::steady)
                .unwrap_or_default();
            match self.visible.get_mut(&name) {
                Some(acceptable) if !acceptable.iter().any(|ids| ids.is_subset(&shown)) => {
                    return Err(format!(
                        "a query of {name} shows a half-filled revision: {} documents",
                        shown.len()
                    ));
                }
                None if steady.is_subset(&shown) => drop(self.visible.insert(name, vec![steady])),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the differences between the index and the fleet.
    pub fn differences(&self) -> Vec<String> {
        let hostile: Vec<&ClusterName> = self.hostile.keys().collect();
        oracle::differences(
            &self.member_names(),
            &self.servers,
            &hostile,
            &self.store,
            &self.prefix,
            oracle::Policy {
                selection: &self.selection,
                rules: self.rules,
            },
        )
    }

    /// Returns how often hostile members applied each kind of malice.
    pub fn malice(&self) -> BTreeMap<Malice, u64> {
        let mut struck = BTreeMap::new();
        for (malice, times) in self.hostile.values().flat_map(Hostile::struck) {
            *struck.entry(malice).or_default() += times;
        }
        struck
    }

    /// Kills all operators and checks that no response memory stays reserved.
    pub async fn finish(&mut self) -> Result<(), String> {
        for operator in self.operators.drain(..) {
            operator.kill().await;
        }
        // The tasks of streams end shortly after the task that started them.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let held = self.budget.held();
        if held > 0 {
            Err(format!(
                "{held} bytes of response memory are reserved after all readers ended"
            ))
        } else {
            Ok(())
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.disruptions.entry(what).or_default() += 1;
    }
}

fn inspect_bulks_for_leaks(
    store: &OpenSearch,
    leaked: &Arc<AtomicBool>,
    invalid_bulk_line: &Arc<Mutex<Option<String>>>,
) {
    let (leaked, invalid_bulk_line) = (Arc::clone(leaked), Arc::clone(invalid_bulk_line));
    store.inspect_bulks(move |body| {
        let has_secret = body
            .windows(SECRET_VALUE.len())
            .any(|window| window == SECRET_VALUE.as_bytes());
        leaked.fetch_or(has_secret, Ordering::Relaxed);
        if let Err(line) = check_lines(body) {
            invalid_bulk_line.lock().get_or_insert(line);
        }
    });
}

/// Checks that each line of a bulk request is JSON, and that each document goes to an index of its
/// own cluster. The error is the line.
fn check_lines(body: &[u8]) -> Result<(), String> {
    /// The only member that is parsed: the rest may be nested deeper than a `Value` allows.
    #[derive(serde::Deserialize)]
    struct Document {
        cluster: String,
    }
    let shown = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
    let prefixes: Vec<IndexPrefix> = PREFIXES
        .iter()
        .filter_map(|prefix| prefix.parse().ok())
        .collect();
    let mut lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        let action: Value = serde_json::from_slice(line).map_err(|_| shown(line))?;
        let Some(index) = action["index"]["_index"].as_str() else {
            if action["delete"]["_index"].is_string() {
                continue;
            }
            return Err(shown(line));
        };
        let document = lines.next().unwrap_or_default();
        if action["index"]["_id"] == "guard"
            || prefixes
                .iter()
                .any(|prefix| index == prefix.state().as_str())
        {
            continue;
        }
        let Document { cluster } = serde_json::from_slice(document).map_err(|_| shown(document))?;
        let of_cluster = |name: &ClusterName| {
            prefixes
                .iter()
                .any(|prefix| index.starts_with(&format!("{}.", prefix.cluster_alias(name))))
        };
        if !cluster.parse().is_ok_and(|name| of_cluster(&name)) {
            return Err(format!("{action} has a document of {cluster}"));
        }
    }
    Ok(())
}

/// Bytes beyond a response's limit: the chunk that reaches the limit.
const SLACK: usize = 64 << 10;

/// Limits so low that readers compete for memory, and that pages of some honest members exceed.
fn intake_limits(seed: u64) -> intake::MemoryLimits {
    let mut random = StdRng::seed_from_u64(seed.rotate_left(17));
    let page = random.random_range(24..128) << 10;
    let share = 4 * page;
    intake::MemoryLimits {
        page,
        line: page / 2,
        answer: 128 << 10,
        refusal: 2 << 10,
        small: 0,
        request: 0,
        share: share.max(256 << 10),
        shared: random.random_range(4..12) * page,
    }
}

/// Creates one hostile member in half of the runs. It knows the document ids of the other members.
fn hostile_members(
    seed: u64,
    servers: &BTreeMap<ClusterName, apiserver::Server>,
    limits: &intake::MemoryLimits,
) -> BTreeMap<ClusterName, Hostile> {
    let mut random = StdRng::seed_from_u64(seed.rotate_left(31));
    let Ok(name) = "mallory".parse() else {
        return BTreeMap::new();
    };
    if random.random_ratio(1, 2) {
        return BTreeMap::new();
    }
    let mut options = apiserver::Options::new(random.random());
    options.largest_page = Some(random.random_range(2..20));
    let server = apiserver::Server::new(options);
    for number in 0..random.random_range(3..12) {
        let namespace = if number % 2 == 0 {
            STEADY
        } else {
            NAMESPACES[0]
        };
        let object = json!({
            "metadata": { "name": format!("evil{number}"), "namespace": namespace, "labels": { "tier": "web" } },
            "spec": { "value": number },
        });
        if let Err(status) = server.apply(KINDS[number % KINDS.len()].resource, object) {
            tracing::error!(?status, "the API server refused an object");
        }
    }
    let victims = servers.keys().flat_map(|cluster| {
        let alias = IndexPrefix::default().cluster_alias(cluster).to_string();
        (1..3).map(move |number| (alias.clone(), format!("v1/ConfigMap/uid{number}")))
    });
    let malices = Malice::ALL;
    let most = limits.page.max(limits.answer);
    let hostile = Hostile::new(
        server,
        random.random(),
        &malices,
        victims.collect(),
        8 * most,
    );
    if random.random_ratio(1, 2) {
        hostile.impersonate(servers.values().next().cloned(), false);
    }
    BTreeMap::from([(name, hostile)])
}

/// The highest resource version of the unmodified objects; every backup contains them.
fn newest_steady(server: &apiserver::Server) -> u64 {
    let steady = server
        .objects(KINDS[0].resource, Some(STEADY))
        .unwrap_or_default();
    steady
        .iter()
        .map(|stored| stored.version)
        .max()
        .unwrap_or_default()
}

fn cluster(random: &mut StdRng) -> apiserver::Server {
    let mut options = apiserver::Options::new(random.random());
    options.largest_page = Some(random.random_range(2..20));
    // Just below a power of ten, so that versions soon gain a digit.
    options.first_revision = 10_u64
        .pow(random.random_range(1..4))
        .saturating_sub(random.random_range(1..60))
        .max(1);
    options.cached_events = random.random_range(10..200);
    options.latency = Duration::from_millis(random.random_range(0..50));
    apiserver::Server::new(options)
}

/// Limits so low that few objects reach them.
fn limits(random: &mut StdRng) -> PipelineLimits {
    PipelineLimits {
        pending_bytes: random.random_range(2_000..50_000),
        batch: BatchLimits {
            count: random.random_range(1..20),
            bytes: random.random_range(1_000..20_000),
        },
        in_flight: random.random_range(1..=3),
    }
}
