//! Many watchers over TLS, each of a small part of the changes: their latency, and the memory of
//! their connections.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use super::{
    figures::{Figures, verdict},
    members::{Members, MembersSpec},
    query_client::report_line,
    sizes::{DEADLINE, Sizes},
    times::Times,
    watcher::{Delivery, OpenWatch, TlsClient, watch_apiserver},
};
use crate::{
    fleet::{Fleet, certificates::Authority},
    http,
    operator::{Operator, OperatorOptions},
    poll::eventually,
};

const NAME: &str = "watchers";
const PODS: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy/api/v1/pods";
/// Changes per second.
const RATE: u32 = 500;
/// Nodes of the simulated pods: a watcher of one node receives a fiftieth of all changes.
const NODES: usize = 50;
/// Changes per second that fill the log of changes first, whose memory must not count towards
/// connections.
const FILLING_RATE: u32 = 2_000;
/// Concurrent connection attempts.
const HANDSHAKES: usize = 16;
/// After this long without a line, all lines have arrived.
const QUIET: Duration = Duration::from_secs(2);
/// Limit of the 99th percentile from a change to the watcher, in milliseconds.
const LATE_MILLISECONDS: f64 = 200.0;
/// Limit of memory per connection, with what the allocator holds for 10 ms after events were sent.
const CONNECTION_BYTES: f64 = 90e3;
/// The same with the embedded store, whose own growth by the changes of the measurement, in the
/// same process, counts besides.
const CONNECTION_BYTES_EMBEDDED: f64 = 110e3;

/// The store behind the watches.
#[derive(Clone, Copy, Debug)]
enum WatchedStore {
    OpenSearch,
    Embedded,
}

impl WatchedStore {
    fn figure(self) -> &'static str {
        match self {
            Self::OpenSearch => "watchers_opensearch",
            Self::Embedded => "watchers_memory",
        }
    }

    fn connection_bytes(self) -> f64 {
        match self {
            Self::OpenSearch => CONNECTION_BYTES,
            Self::Embedded => CONNECTION_BYTES_EMBEDDED,
        }
    }

    fn subject(self, watchers: usize) -> String {
        match self {
            Self::OpenSearch => format!("{watchers} watchers over TLS"),
            Self::Embedded => "  the same of the embedded store".to_owned(),
        }
    }
}

/// Measures both stores with a simulated API server.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("{} watchers over TLS, {RATE} changes/s …", sizes.watchers);
    let members = Members::start(
        fleet,
        MembersSpec {
            name: NAME,
            members: 1,
            kinds: 0,
            pods: sizes.pods,
        },
    )
    .await?;
    members.register(&members.urls, 0).await?;
    for store in [WatchedStore::OpenSearch, WatchedStore::Embedded] {
        match store {
            WatchedStore::OpenSearch => members.apply_registry(1).await?,
            WatchedStore::Embedded => members.apply_embedded_registry().await?,
        }
        let watched = WatchBenchmark::start(fleet, &members).await?;
        let outcome = watched.measure(sizes).await?;
        report(store, &outcome, sizes, figures);
        members.remove_registries().await?;
        watched.operator.terminate(Duration::from_secs(30)).await?;
    }
    members.unregister().await
}

/// The result for one store.
struct Outcome {
    watched: Times,
    bare: Times,
    connection_bytes: f64,
    /// Processor seconds of the operator per second.
    cores: f64,
    /// Events per second and watcher.
    events_per_s: f64,
}

/// An operator that serves over TLS, and its member.
struct WatchBenchmark<'m> {
    operator: Operator,
    members: &'m Members,
    client: TlsClient,
}

impl<'m> WatchBenchmark<'m> {
    /// Starts an operator process, and waits until it finds all pods.
    async fn start(fleet: &Fleet, members: &'m Members) -> Result<Self> {
        let authority = Authority::new("watchers-ca")?;
        let (certificate, key) = authority.server("fleetdex")?.write(fleet.dir(), NAME)?;
        let operator = Operator::start(OperatorOptions {
            arguments: vec![
                format!("--tls-cert-file={}", certificate.display()),
                format!("--tls-private-key-file={}", key.display()),
            ],
            ..OperatorOptions::of(fleet)
        })?;
        members.until_watching(&operator, 1).await?;
        let token = fleet.control_plane().token().to_owned();
        let client = TlsClient::new(operator.api_address(), token, authority.pem())?;
        let watched = Self {
            operator,
            members,
            client,
        };
        eventually("all pods are found", DEADLINE, || async {
            let metadata = watched.metadata().await?;
            let found = metadata["remainingItemCount"].as_u64().unwrap_or(0) + 1;
            let pods = members.pods_of_first().await?;
            ensure!(found == pods, "{found} of {pods}");
            Ok(())
        })
        .await?;
        Ok(watched)
    }

    /// The metadata of a list of one pod.
    async fn metadata(&self) -> Result<Value> {
        let url = format!("http://{}{PODS}?limit=1", self.operator.api_address());
        let answer = http::client(None)?
            .get(url)
            .bearer_auth(self.operator.token()?)
            .send()
            .await?
            .error_for_status()?;
        let list: Value = answer.json().await?;
        Ok(list["metadata"].clone())
    }

    async fn measure(&self, sizes: &Sizes) -> Result<Outcome> {
        // The log of changes starts with the first request: until then there is no version to watch
        // from.
        let first = eventually("a watch begins", DEADLINE, || async {
            let first = self.begin(1, Arc::default()).await?;
            // From an unknown version the response is one error event.
            tokio::time::sleep(Duration::from_millis(200)).await;
            ensure!(first.iter().all(OpenWatch::is_running), "it ended at once");
            Ok(first)
        })
        .await?;
        self.fill_log(sizes).await?;
        let before = self.operator.usage()?;
        let count = Arc::<AtomicU64>::default();
        let watching = self.begin(sizes.watchers, Arc::clone(&count)).await?;
        let bare = watch_apiserver(&self.members.watch_url().await?).await?;
        self.members.set_rate(1, RATE).await?;
        tokio::time::sleep(sizes.warm_up).await;
        // Change times are recorded from here on.
        self.members.set_rate(1, RATE).await?;
        let (started, used) = (Instant::now(), self.operator.usage()?.cpu_seconds);
        tokio::time::sleep(sizes.latency).await;
        let change_times = self.members.change_times().await?;
        let seconds = started.elapsed().as_secs_f64();
        let cores = (self.operator.usage()?.cpu_seconds - used) / seconds;
        self.members.set_rate(1, 0).await?;
        until_quiet(&count).await;
        let after = self.operator.usage()?;

        let deliveries = stopped(watching).await?;
        stopped(first).await?;
        check_alike(&deliveries)?;
        let watched = delays(deliveries.iter().flatten(), &change_times);
        let taken = after.memory_bytes.saturating_sub(before.memory_bytes) as f64;
        Ok(Outcome {
            events_per_s: watched.len() as f64 / seconds / sizes.watchers as f64,
            watched,
            bare: delays(&bare.stop().await?, &change_times),
            connection_bytes: taken / sizes.watchers as f64,
            cores,
        })
    }

    /// Makes enough changes to fill the log of changes.
    async fn fill_log(&self, sizes: &Sizes) -> Result<()> {
        self.members.set_rate(1, FILLING_RATE).await?;
        tokio::time::sleep(4 * sizes.warm_up).await;
        self.members.set_rate(1, 0).await?;
        eventually("all changes are written", DEADLINE, || async {
            let pending = self
                .operator
                .count_of("fleetdex_pending_documents", "")
                .await?;
            ensure!(pending == 0.0, "{pending} changes are pending");
            Ok(())
        })
        .await?;
        tokio::time::sleep(sizes.warm_up).await;
        Ok(())
    }

    /// Opens watches from the current version, each of the pods of one node.
    async fn begin(&self, watchers: usize, count: Arc<AtomicU64>) -> Result<Vec<OpenWatch>> {
        let metadata = self.metadata().await?;
        let version = metadata["resourceVersion"]
            .as_str()
            .context("a list without a version")?;
        let path = |node| {
            format!(
                "{PODS}?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3Dnode-{node}"
            )
        };
        let begun = (0..watchers).map(|number| {
            let (client, path, count) = (
                self.client.clone(),
                path(number % NODES),
                Arc::clone(&count),
            );
            async move { client.watch(&path, count).await }
        });
        stream::iter(begun).buffered(HANDSHAKES).try_collect().await
    }
}

async fn until_quiet(count: &AtomicU64) {
    let mut last = None;
    while last != Some(count.load(Ordering::Relaxed)) {
        last = Some(count.load(Ordering::Relaxed));
        tokio::time::sleep(QUIET).await;
    }
}

async fn stopped(watching: Vec<OpenWatch>) -> Result<Vec<Vec<Delivery>>> {
    let mut deliveries = Vec::with_capacity(watching.len());
    for watching in watching {
        deliveries.push(watching.stop().await?);
    }
    Ok(deliveries)
}

/// Fails if watchers of one node received different events: their delays would mean nothing.
fn check_alike(deliveries: &[Vec<Delivery>]) -> Result<()> {
    for (number, one) in deliveries.iter().enumerate() {
        let of_node = &deliveries[number % NODES];
        let is_alike = one
            .iter()
            .map(|(version, _)| version)
            .eq(of_node.iter().map(|(version, _)| version));
        ensure!(
            is_alike,
            "watchers of one node received {} and {} events",
            one.len(),
            of_node.len()
        );
    }
    Ok(())
}

/// Delays from each of these changes to the watchers that received it.
fn delays<'s>(
    deliveries: impl IntoIterator<Item = &'s Delivery>,
    change_times: &BTreeMap<u64, u64>,
) -> Times {
    let delay = |(version, at): &Delivery| {
        Some(at.saturating_sub(*change_times.get(version)?) as f64 / 1000.0)
    };
    deliveries.into_iter().filter_map(delay).collect()
}

fn report(store: WatchedStore, outcome: &Outcome, sizes: &Sizes, figures: &mut Figures) {
    let figure = store.figure();
    let (late, bytes) = (outcome.watched.quantile(0.99), outcome.connection_bytes);
    outcome.watched.set(figure, figures);
    outcome.bare.set(&format!("{figure}_bare"), figures);
    figures.set(&format!("{figure}_events_per_s"), outcome.events_per_s);
    figures.set(&format!("{figure}_cores"), outcome.cores);
    figures.set(&format!("{figure}_connection_bytes"), bytes);
    let text = format!(
        "{}; bare watch {}; at most {LATE_MILLISECONDS:.0} ms: {}",
        outcome.watched.text(),
        outcome.bare.text(),
        verdict(late <= LATE_MILLISECONDS)
    );
    report_line(figures, &store.subject(sizes.watchers), text);
    let (each, cores) = (outcome.events_per_s, outcome.cores);
    let text = format!(
        "{:.0} kB; at most {:.0} kB: {}; {each:.1} events/s each, {cores:.2} cores",
        bytes / 1e3,
        store.connection_bytes() / 1e3,
        verdict(bytes <= store.connection_bytes())
    );
    report_line(figures, "  memory for each connection", text);
}
