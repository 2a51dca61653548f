//! The interpreter webhook of the simulated fleet, and the rules that name it.
//!
//! It answers for widgets, by [`Rules`] that the run replaces. Its answers are correct for
//! the object of the request, or recognisably wrong: a plausible lie is its author's business. What
//! the operator reads is the bytes of an answer, through the same decoder as from a real webhook.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetdex_interpreter::{
    Request, Response,
    webhook::{MAX_ANSWER_BYTES, configuration::Webhook, decode, encode},
};
use fleetdex_webhooks::{
    client::{CallError, CallFailure, CallWebhook},
    queue::{Held, QueueLimits},
};
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

mod rules;

pub use rules::{INTERPRETED_KIND, Rules, built_in};
use rules::{dependency, replicas};

/// A fault of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is dead: connections are refused.
    Refuse,
    /// It never answers.
    Hang,
    /// It answers after some seconds, perhaps too late, and by the object as it was when it was
    /// asked.
    Slow,
    /// It answers 429, and asks for a pause.
    Overloaded,
    /// It answers 500.
    InternalError,
    /// Its answer has the uid of no request.
    WrongUid,
    /// It repeats its previous answer: about another object, or an older one.
    Replay,
    /// Its answer is no message.
    Malformed,
    /// Its answer is longer than any may be.
    Oversize,
    /// Its answer says that it failed.
    Unsuccessful,
    /// The members of its answer have wrong types.
    WrongTypes,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 11] = [
        Self::Refuse,
        Self::Hang,
        Self::Slow,
        Self::Overloaded,
        Self::InternalError,
        Self::WrongUid,
        Self::Replay,
        Self::Malformed,
        Self::Oversize,
        Self::Unsuccessful,
        Self::WrongTypes,
    ];
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// For a duration.
    For(Duration),
    /// For a number of calls.
    Times(u32),
}

/// The webhook. Clones share it.
#[derive(Clone, Debug)]
pub struct Interpreter(Arc<Mutex<InterpreterState>>);

#[derive(Debug)]
struct InterpreterState {
    random: StdRng,
    faults: Vec<(Fault, Extent, Instant)>,
    strikes: BTreeMap<Fault, u64>,
    /// Number of requests, each of which has its number as the uid.
    requests: u64,
    previous_answer: Option<Vec<u8>>,
    longest_latency: Duration,
}

impl Interpreter {
    /// A webhook that works.
    pub fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let longest_latency = Duration::from_millis(random.random_range(1..300));
        Self(Arc::new(Mutex::new(InterpreterState {
            random,
            faults: Vec::new(),
            strikes: BTreeMap::new(),
            requests: 0,
            previous_answer: None,
            longest_latency,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, InterpreterState> {
        self.0.lock()
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault, extent: Extent) {
        self.lock().faults.push((fault, extent, Instant::now()));
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// How often each fault took effect.
    pub fn strikes(&self) -> BTreeMap<Fault, u64> {
        self.lock().strikes.clone()
    }

    async fn exchange(&self, uid: u64, body: &[u8]) -> Result<Vec<u8>, CallFailure> {
        let (fault, latency) = self.lock().next_call();
        let refused = || CallFailure::Connection("connection refused".to_owned());
        match fault {
            Some(Fault::Refuse) => return Err(refused()),
            Some(Fault::Hang) => std::future::pending().await,
            _ => sleep(latency).await,
        }
        let status = |code, pause| CallFailure::Status {
            code,
            retry_after: pause,
            reason: "planted".to_owned(),
        };
        match fault {
            Some(Fault::Overloaded) => return Err(status(429, Some(Duration::from_secs(20)))),
            Some(Fault::InternalError) => return Err(status(500, None)),
            Some(Fault::Malformed) => return Ok(b"{\"response\":[".to_vec()),
            Some(Fault::Oversize) => return Ok(vec![0; MAX_ANSWER_BYTES + 1]),
            _ => {}
        }
        let message: Value = serde_json::from_slice(body)
            .map_err(|error| CallFailure::Request(error.to_string()))?;
        let answer = answer(&message, uid, fault).to_string().into_bytes();
        let previous = self.lock().previous_answer.replace(answer.clone());
        match fault {
            Some(Fault::Replay) => previous.ok_or_else(refused),
            _ => Ok(answer),
        }
    }

    async fn answer(
        &self,
        webhook: &Webhook,
        request: &Request<'_>,
    ) -> Result<Response, CallFailure> {
        let number = self.lock().next_number();
        let uid = number.to_string();
        let body = encode(webhook.dialect, &uid, request)
            .map_err(|error| CallFailure::Request(error.to_string()))?;
        let Ok(answered) = timeout(webhook.timeout, self.exchange(number, &body)).await else {
            return Err(CallFailure::Timeout(webhook.timeout));
        };
        Ok(decode(webhook.dialect, &uid, request, &answered?)?)
    }
}

#[async_trait]
impl CallWebhook for Interpreter {
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        let answered = self.answer(webhook, request).await;
        answered.map_err(|failure| CallError {
            webhook: webhook.id.clone(),
            failure,
        })
    }
}

impl InterpreterState {
    fn next_number(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// The fault of the next call, and the time that it takes.
    fn next_call(&mut self) -> (Option<Fault>, Duration) {
        let fault = self.strike();
        let latency = match fault {
            Some(Fault::Slow) => Duration::from_secs(self.random.random_range(1..15)),
            _ => self
                .random
                .random_range(Duration::ZERO..=self.longest_latency),
        };
        (fault, latency)
    }

    fn strike(&mut self) -> Option<Fault> {
        self.faults.retain(|(_, extent, since)| match extent {
            Extent::For(duration) => since.elapsed() < *duration,
            Extent::Times(left) => *left > 0,
        });
        let at = self.random.random_range(0..self.faults.len().max(1));
        let (fault, extent, _) = self.faults.get_mut(at)?;
        if let Extent::Times(left) = extent {
            *left -= 1;
        }
        let fault = *fault;
        *self.strikes.entry(fault).or_default() += 1;
        Some(fault)
    }
}

/// The answer to a request. It knows both dialects by their operations.
fn answer(message: &Value, uid: u64, fault: Option<Fault>) -> Value {
    let request = &message["request"];
    let object = &request["object"];
    let value = object["spec"]["value"].as_u64().unwrap_or_default();
    let answered = match fault {
        Some(Fault::WrongTypes) => {
            json!({ "healthy": "perhaps", "replicas": "some", "dependencies": "none" })
        }
        Some(Fault::Unsuccessful) => json!({ "status": { "code": 418, "message": "planted" } }),
        _ => match request["operation"].as_str().unwrap_or_default() {
            "InterpretHealth" | "ExploreHealthy" => json!({ "healthy": value.is_multiple_of(2) }),
            "InterpretReplica" => json!({ "replicas": replicas(object) }),
            "InterpretDependency" => json!({ "dependencies": [dependency(object)] }),
            _ => Value::Null,
        },
    };
    let mut response = answered;
    let uid = match fault {
        Some(Fault::WrongUid) => format!("not {uid}"),
        _ => uid.to_string(),
    };
    response["uid"] = uid.into();
    response["successful"] = (fault != Some(Fault::Unsuccessful)).into();
    json!({ "apiVersion": message["apiVersion"], "kind": message["kind"], "response": response })
}

/// Limits so low that few widgets reach them.
pub fn queue_limits(random: &mut StdRng) -> QueueLimits {
    let parts = random.random_range(4..40);
    let webhook = Held {
        parts,
        bytes: parts << 10,
    };
    QueueLimits {
        total: Held {
            parts: 2 * webhook.parts,
            bytes: 2 * webhook.bytes,
        },
        webhook,
        retries: Held {
            parts: webhook.parts / 2,
            bytes: webhook.bytes / 2,
        },
        calls: 8,
        calls_of_webhook: random.random_range(1..6),
        reserved_calls: 1,
    }
}
