//! Lists and watches, on both engines: whatever writes, revision swaps, removals of clusters and
//! faults happen, a client that lists and then watches, or lists again after 410, converges to the
//! stored objects and never goes back in time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fakes::opensearch::{Fault, OpenSearch, Span};
use fleetdex_core::{
    model::{ClusterName, Gvk, Object, Projection, Projector, Resource},
    query::{Query, ResourceName, Selectable},
};
use fleetdex_store::{
    CompleteResources, IndexRevision, Store, StoreError,
    bulk::{Verdict, Write},
    changes::{EventKind, Watch, WatchError},
    memory::Memory,
    opensearch::ResponseBudget,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const LABELS: [&str; 2] = ["web", "api"];
const SELECTORS: [&str; 4] = ["", "app=web", "app=api", "app!=web"];
const STEPS: usize = 60;

/// Resource version and label of each object, by cluster and name.
type Objects = BTreeMap<(String, String), (u64, String)>;

/// The store under test and its expected objects.
struct World {
    store: Arc<dyn Store>,
    server: Option<OpenSearch>,
    /// The current revision of each cluster, live or not.
    revisions: Mutex<BTreeMap<String, IndexRevision>>,
    objects: Mutex<Objects>,
    /// The UIDs of all objects that have had a name, in order of creation.
    uids: Mutex<BTreeMap<(String, String), Vec<String>>>,
    version: AtomicU64,
    has_ended: AtomicBool,
    swaps: AtomicU64,
}

fn write(
    revision: &IndexRevision,
    (name, uid): (&str, &str),
    version: u64,
    label: Option<&str>,
) -> Write {
    let metadata = json!({
        "name": name, "namespace": "web", "uid": uid, "resourceVersion": version.to_string(),
        "labels": { "app": label.unwrap_or_default() },
    });
    let json = json!({ "metadata": metadata }).to_string();
    let resource = Resource {
        gvk: Gvk::new("", "v1", "Pod"),
        plural: "pods".into(),
        namespaced: true,
    };
    let projector = Projector::new(&revision.cluster, &resource, &Projection::default(), &[]);
    let mut document = projector
        .document(&Object::parse(&json).unwrap(), "2026-01-01T00:00:00Z")
        .unwrap();
    document.body = document.body.filter(|_| label.is_some());
    Write {
        index: revision.target.clone(),
        document,
    }
}

impl World {
    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the UID of an object; a new UID if it `is_new`.
    async fn uid(&self, key: &(String, String), is_new: bool, random: &mut StdRng) -> String {
        let mut uids = self.uids.lock().await;
        let of_name = uids.entry(key.clone()).or_default();
        if is_new || of_name.is_empty() {
            // The random prefix makes the order of UIDs random.
            of_name.push(format!("{:08x}-uid-{}", random.random::<u32>(), key.1));
        }
        of_name.last().cloned().unwrap_or_default()
    }

    /// Restores the previous object of a name, as when a member's history goes back.
    async fn restore_previous(&self, key: &(String, String)) {
        let mut uids = self.uids.lock().await;
        let of_name = uids.entry(key.clone()).or_default();
        let last = of_name.len().saturating_sub(1);
        of_name[last.saturating_sub(1)..].reverse();
    }

    /// Writes until every write is acknowledged, as a pipeline does.
    async fn write(&self, mut writes: Vec<Write>) {
        while !writes.is_empty() {
            writes = self.write_once(writes).await;
        }
    }

    /// Writes like `write`, but objects change while writes fail, so that retries send newer
    /// versions.
    async fn write_changing(
        &self,
        revision: &IndexRevision,
        names: BTreeSet<String>,
        random: &mut StdRng,
    ) {
        let mut writes = self.change(revision, &names, random).await;
        while !writes.is_empty() {
            writes = self.write_once(writes).await;
            if !writes.is_empty() {
                // Clients may list some versions meanwhile, and never observe others.
                sleep(Duration::from_millis(random.random_range(0..1_500))).await;
                // An object is not created again before the deletion of its predecessor is
                // acknowledged.
                let changed = writes.iter().filter(|write| write.document.body.is_some());
                let left: BTreeSet<&str> = changed
                    .filter_map(|write| write.document.id.rsplit("uid-").next())
                    .collect();
                let names = names
                    .iter()
                    .filter(|name| left.contains(name.as_str()) && random.random_bool(0.7));
                let newer = self
                    .change(revision, &names.cloned().collect(), random)
                    .await;
                writes.retain(|write| {
                    newer
                        .iter()
                        .all(|newer| newer.document.id != write.document.id)
                });
                writes.extend(newer);
            }
        }
    }

    /// Writes once. Returns the writes to retry.
    async fn write_once(&self, writes: Vec<Write>) -> Vec<Write> {
        let Ok(verdicts) = self.store.write(&writes).await else {
            sleep(Duration::from_millis(300)).await;
            return writes;
        };
        let outcomes = writes.into_iter().zip(verdicts);
        let again = outcomes
            .filter(|(_, verdict)| matches!(verdict, Verdict::Retry(_) | Verdict::Blocked(_)));
        let again: Vec<Write> = again.map(|(write, _)| write).collect();
        if !again.is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
        again
    }

    /// Changes objects of a cluster. Returns the writes.
    async fn change(
        &self,
        revision: &IndexRevision,
        names: &BTreeSet<String>,
        random: &mut StdRng,
    ) -> Vec<Write> {
        let mut objects = self.objects.lock().await;
        let mut writes = Vec::new();
        for name in names {
            let version = self.next_version();
            let label = random
                .random_bool(0.75)
                .then(|| LABELS[random.random_range(0..LABELS.len())]);
            let key = (revision.cluster.to_string(), name.clone());
            let uid = self
                .uid(&key, label.is_some() && !objects.contains_key(&key), random)
                .await;
            match label {
                Some(label) => drop(objects.insert(key, (version, label.to_owned()))),
                None => drop(objects.remove(&key)),
            }
            writes.push(write(revision, (name, &uid), version, label));
        }
        writes
    }

    async fn write_some(&self, random: &mut StdRng) {
        let revisions = self.revisions.lock().await;
        let Some(revision) = revisions.get(CLUSTERS[random.random_range(0..CLUSTERS.len())]) else {
            return;
        };
        let names = (0..random.random_range(1..6))
            .map(|_| format!("pod-{}", random.random_range(0..8)))
            .collect();
        self.write_changing(revision, names, random).await;
    }

    /// Adds a cluster, or swaps its index revision.
    async fn swap(&self, name: &str, random: &mut StdRng) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
        let cluster: ClusterName = name.parse().unwrap();
        let mut revisions = self.revisions.lock().await;
        let latest_number = revisions.get(name).map_or(0, |revision| revision.number);
        let revision =
            retry_until_done(|| self.store.open(&cluster, Some("uid"), latest_number)).await;
        let mut writes = Vec::new();
        let mut objects = self.objects.lock().await;
        let known: Vec<(String, u64, String)> = objects
            .iter()
            .filter(|((of, _), _)| of == name)
            .map(|((_, pod), (version, label))| (pod.clone(), *version, label.clone()))
            .collect();
        for (pod, version, label) in known {
            let key = (name.to_owned(), pod.clone());
            let kind_of_change = random.random_range(0..6);
            if kind_of_change == 3 {
                self.restore_previous(&key).await;
            }
            let uid = self.uid(&key, kind_of_change == 2, random).await;
            match kind_of_change {
                0 => drop(objects.remove(&key)),
                1..=3 => {
                    let version = self.next_version();
                    objects.insert(key, (version, "web".to_owned()));
                    writes.push(write(&revision, (&pod, &uid), version, Some("web")));
                }
                _ => writes.push(write(&revision, (&pod, &uid), version, Some(&label))),
            }
        }
        self.write(writes).await;
        // Changes arrive during the swap.
        let version = self.next_version();
        let key = (name.to_owned(), "late".to_owned());
        let uid = self.uid(&key, !objects.contains_key(&key), random).await;
        objects.insert(key, (version, "api".to_owned()));
        let late = self.write(vec![write(&revision, ("late", &uid), version, Some("api"))]);
        // A first revision may be shown in part, with or without pods, before it becomes live, if
        // ever.
        let (pods, nodes) = (
            ResourceName::new("", "pods"),
            ResourceName::new("", "nodes"),
        );
        let mut shown = BTreeSet::new();
        if revision.replaces.is_none() && random.random_bool(0.3) {
            shown.insert(nodes);
            let visible = CompleteResources::Only(shown.clone());
            retry_until_done(|| self.store.activate(&revision, &visible)).await;
        }
        if revision.replaces.is_none() && random.random_bool(0.3) {
            shown.insert(pods);
            let visible = CompleteResources::Only(shown.clone());
            tokio::join!(
                late,
                retry_until_done(|| self.store.activate(&revision, &visible))
            );
        } else {
            tokio::join!(
                late,
                retry_until_done(|| self.store.activate(&revision, &CompleteResources::All))
            );
        }
        let live = !shown.contains(&ResourceName::new("", "pods"));
        let is_activated_later = !live && random.random_bool(0.5);
        if is_activated_later {
            retry_until_done(|| self.store.activate(&revision, &CompleteResources::All)).await;
        }
        let live = live || is_activated_later;
        revisions.insert(
            name.to_owned(),
            IndexRevision {
                live,
                shown,
                ..revision
            },
        );
    }

    async fn drop_cluster(&self, name: &str) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
        let mut revisions = self.revisions.lock().await;
        if revisions.remove(name).is_some() {
            self.objects.lock().await.retain(|(of, _), _| of != name);
            retry_until_done(|| async { self.store.drop_cluster(&name.parse().unwrap()).await })
                .await;
        }
    }

    fn inject_fault(&self, random: &mut StdRng) {
        let Some(server) = &self.server else { return };
        let fault = match random.random_range(0..5) {
            0 => Fault::ResponseLost,
            1 => Fault::RequestLost,
            2 => Fault::RejectedItems(50),
            3 => Fault::Unavailable,
            _ => Fault::AppliedLate(Duration::from_millis(700)),
        };
        server.inject(fault, Span::Times(1));
    }

    async fn run(&self, random: &mut StdRng, with_swaps: bool, with_faults: bool) {
        for _ in 0..STEPS {
            match random.random_range(0..20) {
                0 if with_swaps => {
                    self.swap(CLUSTERS[random.random_range(0..CLUSTERS.len())], random)
                        .await;
                }
                1 if with_swaps => {
                    self.drop_cluster(CLUSTERS[random.random_range(0..CLUSTERS.len())])
                        .await;
                }
                2 | 3 if with_faults => self.inject_fault(random),
                4..=6 => sleep(Duration::from_millis(random.random_range(0..1_500))).await,
                _ => self.write_some(random).await,
            }
        }
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

async fn retry_until_done<T, F: Future<Output = Result<T, StoreError>>>(
    attempt: impl Fn() -> F,
) -> T {
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

/// A client that lists and then watches.
struct Client<'w> {
    world: &'w World,
    query: Query,
    known: Objects,
    watch: Option<Watch>,
    lists: usize,
}

impl<'w> Client<'w> {
    fn new(world: &'w World, selector: &str) -> Self {
        let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
        let all = Query::all_of(ResourceName::new("", "pods"), selectable, 7);
        let query = Query {
            labels: selector.parse().unwrap(),
            ..all
        };
        Self {
            world,
            query,
            known: Objects::new(),
            watch: None,
            lists: 0,
        }
    }

    async fn list(&mut self) -> Result<(), StoreError> {
        let store = &self.world.store;
        let (mut page, sequence) = store.first_page(&self.query).await?;
        let mut known = Objects::new();
        loop {
            for hit in &page.items {
                let (key, object) = read(hit.cluster.as_str(), hit.object.get());
                known.insert(key, object);
            }
            let Some(cursor) = page.next else { break };
            page = store.search(&self.query, Some(&cursor)).await?;
        }
        self.lists += 1;
        self.known = known;
        self.start_watch(sequence).await
    }

    async fn start_watch(&mut self, after: u64) -> Result<(), StoreError> {
        let log = self.world.store.change_log().await?;
        match log
            .watch_settled(std::slice::from_ref(&self.query), after)
            .await
        {
            Ok(watch) => self.watch = Some(watch),
            Err(WatchError::TooOld(_)) => self.watch = None,
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// Consumes watch events; returns when none arrives for a while.
    async fn consume_events(&mut self, patience: Duration) {
        while let Some(watch) = &mut self.watch {
            let Ok(events) = timeout(patience, watch.next()).await else {
                return;
            };
            let Ok(events) = events else {
                self.watch = None;
                return;
            };
            for event in events {
                let (key, object) = read(
                    event.object.cluster().as_str(),
                    event.object.hit().unwrap().object.get(),
                );
                let before = self.known.get(&key).map_or(0, |(version, _)| *version);
                let may_go_back = self.world.swaps.load(Ordering::Relaxed) > 0
                    || event.kind == EventKind::Deleted;
                assert!(
                    may_go_back || object.0 >= before,
                    "{key:?} goes back from {before} to {}",
                    object.0
                );
                match event.kind {
                    EventKind::Deleted => drop(self.known.remove(&key)),
                    EventKind::Added | EventKind::Modified => drop(self.known.insert(key, object)),
                }
            }
        }
    }

    async fn run(&mut self, mut random: StdRng) {
        while !self.world.has_ended.load(Ordering::Relaxed) {
            match (&self.watch, random.random_range(0..6)) {
                (None, _) => {
                    if self.list().await.is_err() {
                        sleep(Duration::from_millis(250)).await;
                    }
                }
                (Some(watch), 0) => {
                    let after = watch.sequence();
                    self.watch = None;
                    sleep(Duration::from_millis(random.random_range(0..900))).await;
                    drop(self.start_watch(after).await);
                }
                _ => {
                    self.consume_events(Duration::from_millis(random.random_range(1..400)))
                        .await;
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Consumes the remaining events, and lists again if necessary.
    async fn finish(&mut self) {
        loop {
            self.consume_events(Duration::from_secs(8)).await;
            if self.watch.is_some() {
                return;
            }
            if self.list().await.is_err() {
                sleep(Duration::from_millis(250)).await;
            }
        }
    }

    fn expected(&self, objects: &Objects) -> Objects {
        let selects = |label: &str| {
            self.query
                .labels
                .matches(|key| (key == "app").then_some(label))
        };
        objects
            .iter()
            .filter(|(_, (_, label))| selects(label))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }
}

fn read(cluster: &str, object: &str) -> ((String, String), (u64, String)) {
    let object: Value = serde_json::from_str(object).unwrap();
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let version = text(&metadata["resourceVersion"]).parse().unwrap();
    (
        (cluster.to_owned(), text(&metadata["name"])),
        (version, text(&metadata["labels"]["app"])),
    )
}

#[derive(Clone, Copy, PartialEq)]
enum TestEngine {
    Memory,
    OpenSearch,
    /// An OpenSearch with a low response limit, which a few documents exceed.
    ShortResponses,
}

/// Room for three documents with the metadata of their hits, and for every other response.
const SHORT_RESPONSE_BYTES: usize = 4 << 10;

/// Runs one seed. Returns the number of lists of its clients.
async fn run_seed(
    seed: u64,
    engine_kind: TestEngine,
    with_swaps: bool,
    with_faults: bool,
) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let server = (engine_kind != TestEngine::Memory).then(|| OpenSearch::new(seed));
    let answers = if engine_kind == TestEngine::ShortResponses {
        ResponseBudget::of_at_most(SHORT_RESPONSE_BYTES)
    } else {
        ResponseBudget::default()
    };
    let store: Arc<dyn Store> = match &server {
        None => Arc::new(Memory::new()),
        Some(server) => {
            let prefix = "fleetdex".parse().unwrap();
            let engine = server.engine_reading_into(prefix, answers.clone());
            engine.prepare().await.unwrap();
            Arc::new(engine)
        }
    };
    let world = World {
        store,
        server,
        revisions: Mutex::default(),
        objects: Mutex::default(),
        uids: Mutex::default(),
        version: AtomicU64::new(10),
        has_ended: AtomicBool::new(false),
        swaps: AtomicU64::new(0),
    };
    for cluster in &CLUSTERS[..2] {
        world.swap(cluster, &mut random).await;
    }
    world.swaps.store(0, Ordering::Relaxed);
    let mut clients: Vec<Client<'_>> = SELECTORS
        .iter()
        .map(|selector| Client::new(&world, selector))
        .collect();
    let seeds: Vec<StdRng> = (0..clients.len() as u64)
        .map(|number| StdRng::seed_from_u64(seed * 10 + number))
        .collect();
    let started = Instant::now();
    {
        let following = futures::future::join_all(
            clients
                .iter_mut()
                .zip(seeds)
                .map(|(client, random)| client.run(random)),
        );
        tokio::join!(world.run(&mut random, with_swaps, with_faults), following);
    }
    assert!(started.elapsed() < Duration::from_mins(10), "seed {seed}");
    if let Some(server) = &world.server {
        server.heal();
    }
    let objects = world.objects.lock().await.clone();
    for client in &mut clients {
        client.finish().await;
        assert_eq!(
            client.known,
            client.expected(&objects),
            "seed {seed}, selector {}",
            client.query.labels
        );
    }
    assert_eq!(answers.held(), 0, "seed {seed}");
    clients.iter().map(|client| client.lists).sum()
}

fn run_seeds(
    seeds: std::ops::Range<u64>,
    engine_kind: TestEngine,
    with_swaps: bool,
    with_faults: bool,
) -> usize {
    let mut lists = 0;
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        fastrand::seed(seed);
        lists += runtime.block_on(run_seed(seed, engine_kind, with_swaps, with_faults));
    }
    lists
}

#[test]
fn a_list_and_its_watch_yield_all_objects_in_memory() {
    assert_eq!(
        run_seeds(0..30, TestEngine::Memory, true, false),
        30 * SELECTORS.len(),
        "no client has to list again"
    );
}

#[test]
fn a_list_and_its_watch_yield_all_objects_on_opensearch() {
    assert_eq!(
        run_seeds(0..30, TestEngine::OpenSearch, false, false),
        30 * SELECTORS.len(),
        "no client has to list again"
    );
}

#[test]
fn swapping_index_revisions_does_not_end_a_watch() {
    let lists = run_seeds(100..140, TestEngine::OpenSearch, true, false);
    assert_eq!(lists, 40 * SELECTORS.len(), "no client has to list again");
}

#[test]
fn with_faults_no_watch_misses_an_event_silently() {
    run_seeds(200..260, TestEngine::OpenSearch, true, true);
}

#[test]
fn too_long_responses_are_read_in_parts_without_missing_an_event() {
    let lists = run_seeds(300..320, TestEngine::ShortResponses, true, false);
    assert_eq!(lists, 20 * SELECTORS.len(), "no client has to list again");
    run_seeds(320..340, TestEngine::ShortResponses, true, true);
}
