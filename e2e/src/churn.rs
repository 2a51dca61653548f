//! Writes that go on whatever happens to the server: objects are created, changed and deleted at a
//! steady rate.
//!
//! What is lost on the way is lost: the truth is what the API server holds in the end, which the
//! [`oracle`](crate::oracle) asks.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use fakes::churn::{Action, Writes};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{fleet::ApiServer, objects::Objects};

/// The kinds that are written, as collections of a namespace.
pub const COLLECTIONS: [&str; 2] = ["configmaps", "secrets"];
/// How many requests are under way at any time.
const CONCURRENCY: usize = 16;
/// A request that takes longer counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often new requests are started.
const TICK: Duration = Duration::from_millis(5);
/// Of requests to objects that are there, so many in a hundred delete.
const DELETES_PERCENT: u32 = 25;
const LARGEST_VALUE: usize = 1_500;
/// Objects that are created at a time to begin with.
const BEGINNING: usize = 32;

/// What to write to one server, and how fast.
#[derive(Debug, Clone)]
pub struct Churn {
    objects: Objects,
    namespace: String,
    names: usize,
    per_second: f64,
    seed: u64,
}

/// How many writes the server acknowledged, and how many it refused or left unanswered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Acknowledged writes.
    pub writes: Writes,
    /// Refused or unanswered, such as those to a server that was down.
    pub failed: u64,
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            failed: self.failed + other.failed,
        }
    }
}

/// A churn that runs. Dropping it stops it; what is under way then is not waited for.
#[derive(Debug)]
pub struct Running {
    tally: Arc<Mutex<Tally>>,
    stop: Arc<tokio::sync::Notify>,
    task: tokio::task::JoinHandle<()>,
}

/// The names that are believed to be taken.
type Present = Mutex<BTreeSet<usize>>;

impl Churn {
    /// Writes to a namespace of its own, over that many names (half of them of each kind).
    pub async fn new(
        server: &ApiServer,
        namespace: &str,
        names: usize,
        per_second: u32,
    ) -> Result<Self> {
        let objects = Objects::of(server)?;
        objects.create_namespace(namespace).await?;
        Ok(Self {
            objects,
            namespace: namespace.to_owned(),
            names,
            per_second: f64::from(per_second),
            seed: 0,
        })
    }

    /// The same with other random numbers.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Creates an object under every second name, and waits for the answers.
    pub async fn begin(&self) -> Result<()> {
        let every_second: Vec<usize> = (0..self.names).filter(|number| number % 4 < 2).collect();
        for some in every_second.chunks(BEGINNING) {
            let created = some.iter().map(|&number| self.create(number, "beginning"));
            for status in futures::future::try_join_all(created).await? {
                ensure!(status.is_success(), "an object is not created: {status}");
            }
        }
        Ok(())
    }

    /// Starts writing, until it is stopped.
    pub fn start(&self) -> Running {
        let tally = Arc::new(Mutex::new(Tally::default()));
        let stop = Arc::new(tokio::sync::Notify::new());
        let task = tokio::spawn(self.clone().write(Arc::clone(&tally), Arc::clone(&stop)));
        Running { tally, stop, task }
    }

    async fn write(self, tally: Arc<Mutex<Tally>>, stop: Arc<tokio::sync::Notify>) {
        let present = Arc::new(Present::default());
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut requests = JoinSet::new();
        let mut due = 0.0;
        let mut last = Instant::now();
        loop {
            tokio::select! {
                () = stop.notified() => break,
                () = tokio::time::sleep(TICK) => {}
            }
            while requests.try_join_next().is_some() {}
            // What a stall keeps from being written is not made up for.
            due = (due + last.elapsed().as_secs_f64() * self.per_second).min(self.per_second);
            last = Instant::now();
            while due >= 1.0 && requests.len() < CONCURRENCY {
                due -= 1.0;
                let (number, die) = (
                    random.random_range(0..self.names),
                    random.random_range(0..100),
                );
                let value = "x".repeat(random.random_range(1..LARGEST_VALUE));
                requests.spawn(self.clone().write_one(
                    number,
                    die,
                    value,
                    Arc::clone(&present),
                    Arc::clone(&tally),
                ));
            }
        }
        requests.join_all().await;
    }

    async fn write_one(
        self,
        number: usize,
        die: u32,
        value: String,
        present: Arc<Present>,
        tally: Arc<Mutex<Tally>>,
    ) {
        let exists = present.lock().contains(&number);
        let action = Action::next(exists, || die < DELETES_PERCENT);
        let answered = tokio::time::timeout(TIMEOUT, self.act(action, number, &value)).await;
        let status = answered.ok().and_then(Result::ok);
        if status.is_some_and(|status| status.is_success()) {
            tally.lock().writes.count(action);
        } else {
            tally.lock().failed += 1;
        }
        let is_there = match status {
            Some(StatusCode::CONFLICT) => true,
            Some(StatusCode::NOT_FOUND) => false,
            Some(status) if status.is_success() => action != Action::Delete,
            _ => return,
        };
        let mut names = present.lock();
        if is_there {
            names.insert(number)
        } else {
            names.remove(&number)
        };
    }

    async fn act(&self, action: Action, number: usize, value: &str) -> Result<StatusCode> {
        match action {
            Action::Create => self.create(number, value).await,
            Action::Update => self.update(number, value).await,
            Action::Delete => self.delete(number).await,
        }
    }

    async fn create(&self, number: usize, value: &str) -> Result<StatusCode> {
        let mut object = content(value);
        object["metadata"] =
            json!({ "name": name(number), "labels": { "churn": format!("c{}", number % 10) } });
        self.send(
            Method::POST,
            self.collection(number),
            "application/json",
            &object,
        )
        .await
    }

    async fn update(&self, number: usize, value: &str) -> Result<StatusCode> {
        self.send(
            Method::PATCH,
            self.path(number),
            "application/merge-patch+json",
            &content(value),
        )
        .await
    }

    async fn delete(&self, number: usize) -> Result<StatusCode> {
        let options =
            json!({ "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0 });
        self.send(
            Method::DELETE,
            self.path(number),
            "application/json",
            &options,
        )
        .await
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        content_type: &str,
        body: &Value,
    ) -> Result<StatusCode> {
        Ok(self
            .objects
            .send(method, &path, content_type, Some(body))
            .await?
            .0)
    }

    fn collection(&self, number: usize) -> String {
        format!(
            "api/v1/namespaces/{}/{}",
            self.namespace,
            COLLECTIONS[number % COLLECTIONS.len()]
        )
    }

    fn path(&self, number: usize) -> String {
        format!("{}/{}", self.collection(number), name(number))
    }
}

impl Running {
    /// How much was written so far.
    pub fn tally(&self) -> Tally {
        *self.tally.lock()
    }

    /// Waits until that many more writes are acknowledged.
    pub async fn goes_on_for(&self, writes: u64) {
        let wanted = self.tally().writes.total() + writes;
        while self.tally().writes.total() < wanted && !self.task.is_finished() {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Stops, and waits for what is under way.
    pub async fn stop(mut self) -> Result<Tally> {
        self.stop.notify_one();
        (&mut self.task).await?;
        Ok(self.tally())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn name(number: usize) -> String {
    format!("churn-{number:05}")
}

/// Both kinds have `data`; that of Secrets is base64, which this is.
fn content(value: &str) -> Value {
    let padded = value.len().next_multiple_of(4);
    json!({ "data": { "value": format!("{value:x<padded$}") } })
}
