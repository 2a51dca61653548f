//! What the kubelet and another user see during an attack: `/healthz` and a small list, asked at a
//! steady pace from a thread of their own, however slow the answers are.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Method, StatusCode, header::RETRY_AFTER};
use serde_json::Value;
use tokio::{task::JoinSet, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{
    front::{Front, FrontClient, RequestUser, USUAL_ADDRESS},
    memory,
};
use crate::http;

/// How often `/healthz` is asked: often enough for short attacks.
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);
/// How often the other user lists.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_mins(1);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// What is asked, and of which process.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The process.
    pub pid: u32,
    /// The URL of its `/healthz`.
    pub health_url: String,
    /// How to reach it as another user.
    pub front: Front,
    /// That user.
    pub neighbour: RequestUser,
    /// The path of the small list.
    pub list_path: String,
    /// How many objects it has.
    pub list_length: usize,
    /// Above this resident memory the process is killed, if nothing else limits it.
    pub kill_above: Option<u64>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    /// Of `/healthz`.
    pub health: Vec<Sighting>,
    /// Of the list.
    pub lists: Vec<Sighting>,
}

/// One request and its outcome.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// How long the whole answer took.
    pub took: Duration,
    /// Why it is not what it should be.
    pub problem: Option<String>,
}

/// Asks until it is stopped.
#[derive(Debug)]
pub struct Watchdog {
    stop: CancellationToken,
    seen: Arc<Mutex<Sightings>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Watchdog {
    /// Begins to ask.
    pub fn start(watched: Watched) -> Result<Self> {
        let (stop, seen) = (CancellationToken::new(), Arc::default());
        let (until, into) = (stop.clone(), Arc::clone(&seen));
        let thread = thread::Builder::new().name("watchdog".to_owned());
        let thread = thread
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .context("the runtime of the watchdog")?;
                runtime.block_on(watch(watched, until, &into))
            })
            .context("starting the watchdog")?;
        Ok(Self {
            stop,
            seen,
            thread: Some(thread),
        })
    }

    /// Stops to ask, waits for the answers that are under way, and returns what was seen.
    pub fn stop(mut self) -> Result<Sightings> {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            match thread.join() {
                Ok(ended) => ended?,
                Err(_) => bail!("the watchdog panicked"),
            }
        }
        Ok(std::mem::take(
            &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn watch(watched: Watched, stop: CancellationToken, seen: &Mutex<Sightings>) -> Result<()> {
    let watched = Arc::new(watched);
    let (client, plain) = (watched.front.client(USUAL_ADDRESS)?, http::client(None)?);
    let ticker = |every| {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks
    };
    let (mut health, mut lists, mut samples) = (
        ticker(HEALTH_INTERVAL),
        ticker(LIST_INTERVAL),
        ticker(SAMPLE_INTERVAL),
    );
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = health.tick() => {
                let (watched, plain) = (Arc::clone(&watched), plain.clone());
                asking.spawn(async move { (true, timed(ask_health(&watched, &plain)).await) });
            }
            _ = lists.tick() => {
                let (watched, client) = (Arc::clone(&watched), client.clone());
                asking.spawn(async move { (false, timed(ask_list(&watched, &client)).await) });
            }
            _ = samples.tick(), if watched.kill_above.is_some() => {
                memory::kill_above(watched.pid, watched.kill_above.unwrap_or(u64::MAX));
            }
            Some(Ok(asked)) = asking.join_next() => record(seen, asked),
        }
    }
    while let Some(asked) = asking.join_next().await {
        record(seen, asked.context("a request of the watchdog")?);
    }
    Ok(())
}

fn record(seen: &Mutex<Sightings>, (is_health, sighting): (bool, Sighting)) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if is_health {
        seen.health.push(sighting);
    } else {
        seen.lists.push(sighting);
    }
}

async fn timed(asking: impl Future<Output = Result<()>>) -> Sighting {
    let started = Instant::now();
    let outcome = tokio::time::timeout(PATIENCE, asking).await;
    let problem = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{error:#}")),
        Err(_) => Some(format!("no answer in {} s", PATIENCE.as_secs())),
    };
    Sighting {
        took: started.elapsed(),
        problem,
    }
}

async fn ask_health(watched: &Watched, client: &reqwest::Client) -> Result<()> {
    let response = client.get(&watched.health_url).send().await?;
    let status = response.status();
    let text = response.text().await?;
    ensure!(status.is_success(), "{status}: {text}");
    Ok(())
}

async fn ask_list(watched: &Watched, client: &FrontClient) -> Result<()> {
    check_list(
        client,
        &watched.neighbour,
        &watched.list_path,
        watched.list_length,
    )
    .await
}

/// Lists as a user, and checks how many objects there are. Asks again after a 429, as kubectl and
/// client-go do.
pub async fn check_list(
    client: &FrontClient,
    user: &RequestUser,
    path: &str,
    length: usize,
) -> Result<()> {
    let (status, text) = loop {
        let response = client.request(Method::GET, path, user).send().await?;
        let status = response.status();
        let again = response.headers().get(RETRY_AFTER);
        let again = again.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let text = response.text().await?;
        match again {
            Some(seconds) if status == StatusCode::TOO_MANY_REQUESTS => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            _ => break (status, text),
        }
    };
    ensure!(status.is_success(), "{status}: {text}");
    let list: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    let found = list["items"].as_array().map_or(0, Vec::len);
    ensure!(found == length, "{found} objects instead of {length}");
    Ok(())
}
