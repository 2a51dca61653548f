//! Many requests of many users at a time, until a deadline.

use std::{
    collections::BTreeMap,
    fmt,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::front::{Front, FrontClient, RequestUser};
use crate::query_api::TABLE;

/// The pause after a refusal, so that the attackers leave processor time to the other servers of
/// this machine.
const PAUSE: Duration = Duration::from_millis(50);

/// The last bytes of the loopback addresses that attackers send from: ports share their connections
/// among addresses.
const ATTACKER_ADDRESSES: RangeInclusive<u8> = 11..=18;
/// How many characters of an answer are kept.
const SAMPLE: usize = 400;

/// Whose requests they are.
#[derive(Clone, Debug)]
pub enum Users {
    /// So many users of a group, each with a name of its own.
    Group(&'static str, usize),
    /// Bearers of these tokens.
    Tokens(Vec<String>),
}

/// What the attacker reads of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Everything.
    All,
    /// Nothing: the connection stays open until the end.
    Nothing,
}

/// The path of a request by its number.
pub type PathOf = Arc<dyn Fn(usize) -> String + Send + Sync>;

/// Requests of one kind.
#[derive(Clone)]
pub struct Volley {
    /// Whose.
    pub users: Users,
    /// How many at a time.
    pub at_a_time: usize,
    /// The method.
    pub method: Method,
    /// The path.
    pub path: PathOf,
    /// Its headers.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Its body.
    pub body: Bytes,
    /// What is read of the answer.
    pub reading: Reading,
}

/// What was sent, and what was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub sent: u64,
    /// Answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// Requests without an answer: the connection was refused or broke.
    pub broken: u64,
    /// The beginning of the first answer of each status.
    pub samples: BTreeMap<u16, String>,
}

impl Volley {
    /// GET requests of one path.
    pub fn get(users: Users, at_a_time: usize, path: impl Into<String>) -> Self {
        let path = path.into();
        Self::numbered(users, at_a_time, move |_| path.clone())
    }

    /// GET requests of paths by the number of the request.
    pub fn numbered(
        users: Users,
        at_a_time: usize,
        path: impl Fn(usize) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            users,
            at_a_time,
            method: Method::GET,
            path: Arc::new(path),
            headers: vec![("accept", "application/json")],
            body: Bytes::new(),
            reading: Reading::All,
        }
    }

    /// As Tables.
    #[must_use]
    pub fn tables(mut self) -> Self {
        self.headers = vec![("accept", TABLE)];
        self
    }

    /// With a method and a body.
    #[must_use]
    pub fn sending(mut self, method: Method, content_type: &'static str, body: Bytes) -> Self {
        self.method = method;
        self.headers.push(("content-type", content_type));
        self.body = body;
        self
    }

    /// Whose answers are not read.
    #[must_use]
    pub fn unread(mut self) -> Self {
        self.reading = Reading::Nothing;
        self
    }

    /// Sends until the deadline, and then drops what is under way.
    pub async fn run(&self, front: &Front, family: &str, deadline: Instant) -> Result<Tally> {
        let tally: Arc<Mutex<Tally>> = Arc::default();
        let clients: Vec<FrontClient> = ATTACKER_ADDRESSES
            .map(|address| match &self.users {
                Users::Group(..) => front.client(address),
                Users::Tokens(_) => front.client_of_tokens(address),
            })
            .collect::<Result<_>>()?;
        let mut workers = JoinSet::new();
        for worker in 0..self.at_a_time {
            let attacker = Attacker {
                volley: self.clone(),
                client: clients[worker % clients.len()].clone(),
                family: family.to_owned(),
                worker,
                tally: Arc::clone(&tally),
            };
            workers.spawn(attacker.attack(deadline));
        }
        while workers.join_next().await.is_some() {}
        let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tally.clone())
    }
}

/// One of the requests at a time.
struct Attacker {
    volley: Volley,
    client: FrontClient,
    family: String,
    worker: usize,
    tally: Arc<Mutex<Tally>>,
}

impl Attacker {
    async fn attack(self, deadline: Instant) {
        for round in 0.. {
            if Instant::now() >= deadline {
                return;
            }
            let number = round * self.volley.at_a_time + self.worker;
            self.count(|tally| tally.sent += 1);
            let answered = timeout_at(deadline, self.once(number, deadline)).await;
            let is_refused = match answered {
                // The client leaves.
                Err(_) => return,
                Ok(Ok(is_refused)) => is_refused,
                Ok(Err(_)) => {
                    self.count(|tally| tally.broken += 1);
                    true
                }
            };
            if is_refused {
                sleep(PAUSE).await;
            }
        }
    }

    fn request(&self, number: usize) -> RequestBuilder {
        let path = (self.volley.path)(number);
        let method = self.volley.method.clone();
        let mut request = match &self.volley.users {
            Users::Group(group, users) => {
                let user = RequestUser {
                    name: format!("{}-{}", self.family, self.worker % users),
                    group,
                };
                self.client.request(method, &path, &user)
            }
            Users::Tokens(tokens) => {
                let request = self.client.anonymous(method, &path);
                request.bearer_auth(&tokens[self.worker % tokens.len()])
            }
        };
        for (name, value) in &self.volley.headers {
            request = request.header(*name, *value);
        }
        if self.volley.body.is_empty() {
            return request;
        }
        request.body(self.volley.body.clone())
    }

    /// Whether the request was refused.
    async fn once(&self, number: usize, deadline: Instant) -> reqwest::Result<bool> {
        let response = self.request(number).send().await?;
        let status = response.status();
        self.count(|tally| *tally.answers.entry(status.as_u16()).or_default() += 1);
        if self.volley.reading == Reading::Nothing && status.is_success() {
            tokio::time::sleep_until(deadline).await;
            return Ok(false);
        }
        self.drain(response).await?;
        Ok(!status.is_success())
    }

    async fn drain(&self, mut response: Response) -> reqwest::Result<()> {
        let status = response.status().as_u16();
        let mut is_first = true;
        while let Some(chunk) = response.chunk().await? {
            if is_first {
                self.count(|tally| tally.sample(status, &chunk));
            }
            is_first = false;
        }
        Ok(())
    }

    fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Tally {
    fn sample(&mut self, status: u16, answer: &[u8]) {
        self.samples.entry(status).or_insert_with(|| {
            let text = String::from_utf8_lossy(&answer[..answer.len().min(4 * SAMPLE)]);
            text.chars().take(SAMPLE).collect()
        });
    }

    /// The sum of both.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.broken += other.broken;
        for (status, count) in &other.answers {
            *self.answers.entry(*status).or_default() += count;
        }
        for (status, text) in &other.samples {
            self.samples.entry(*status).or_insert_with(|| text.clone());
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers: Vec<String> = self
            .answers
            .iter()
            .map(|(status, count)| format!("{count}×{status}"))
            .collect();
        out.write_str(&answers.join(" "))?;
        if self.broken > 0 {
            write!(out, " {}×broken", self.broken)?;
        }
        Ok(())
    }
}
