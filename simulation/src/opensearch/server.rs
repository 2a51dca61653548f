//! The server as tests see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    answer::{Answer, Refusal},
    bulk,
    call::{Call, Work},
    cluster::{Cluster, Leniency, Moment},
    counters::Counters,
    document::Document,
    faults::{Fault, FaultKind, Faults, Span},
    plan::Plan,
    query::Query,
    route,
};

/// Long enough that requests of several clients overlap.
const LATENCY: RangeInclusive<u64> = 1..=20;

/// An OpenSearch of one node. Clones are the same server.
#[derive(Clone)]
pub struct OpenSearch(Arc<Mutex<State>>);

/// A document as it is stored, whether searches see it or not.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// The index that holds it.
    pub index: String,
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: u64,
    /// The document.
    pub source: Arc<Value>,
}

/// An index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexState {
    /// Tells it apart from others of that name.
    pub uuid: String,
    /// Its aliases.
    pub aliases: BTreeSet<String>,
    /// `_meta` of its mapping.
    pub meta: Value,
    /// How many documents it holds.
    pub documents: usize,
}

/// Looks at the bodies of `_bulk` requests.
type Inspector = Box<dyn FnMut(&Bytes) + Send>;

pub(super) struct State {
    cluster: Cluster,
    faults: Faults,
    rng: StdRng,
    counters: Counters,
    refused_text: Option<String>,
    latency: RangeInclusive<u64>,
    inspector: Option<Inspector>,
    /// Counts the restarts; requests that began before the last one are cut off.
    life: u64,
}

impl OpenSearch {
    /// An empty server; everything that is left to chance comes from the seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            cluster: Cluster::default(),
            faults: Faults::default(),
            rng: StdRng::seed_from_u64(seed),
            counters: Counters::default(),
            refused_text: None,
            latency: LATENCY,
            inspector: None,
            life: 0,
        })))
    }

    /// Lets something go wrong.
    pub fn inject(&self, fault: Fault, span: Span) {
        self.state().faults.add(fault, span, Instant::now());
    }

    /// Ends all faults that were injected. What is on its way already still arrives late.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// From now on refuses documents that have this text in them, healed or not, as the mapper refuses what does not fit.
    pub fn refuse_documents_with(&self, text: &str) {
        self.state().refused_text = Some(text.to_owned());
    }

    /// Shows the bodies of all `_bulk` requests that arrive to a function, which must not call the server.
    pub fn inspect_bulks(&self, inspector: impl FnMut(&Bytes) + Send + 'static) {
        self.state().inspector = Some(Box::new(inspector));
    }

    /// How long requests take, in milliseconds: twice as much as is drawn from this range.
    pub fn set_latency(&self, milliseconds: RangeInclusive<u64>) {
        self.state().latency = milliseconds;
    }

    /// Kills the node and starts it again: requests are cut off, acknowledged writes stay, deletes and points in time are
    /// forgotten.
    pub fn restart(&self) {
        let mut state = self.state();
        state.cluster.restart();
        state.life += 1;
        state.counters.note_struck(FaultKind::Restarted);
    }

    /// Deletes an index behind everyone's back; whether there was one.
    pub fn delete_index(&self, name: &str) -> bool {
        let mut state = self.state();
        let is_there = state.cluster.indices.remove(name).is_some();
        if is_there {
            state.counters.note_struck(FaultKind::IndexDeleted);
        }
        is_there
    }

    /// Removes an alias from all indices behind everyone's back; whether any had it.
    pub fn remove_alias(&self, alias: &str) -> bool {
        let mut state = self.state();
        let mut was_there = false;
        for index in state.cluster.indices.values_mut() {
            was_there |= index.aliases.remove(alias).is_some();
        }
        if was_there {
            state.counters.note_struck(FaultKind::AliasRemoved);
        }
        was_there
    }

    /// Every document of an index, alias or pattern, in the order of indices and ids, whether it is refreshed or not. None if
    /// there is no such index.
    pub fn documents(&self, target: &str) -> Vec<StoredDocument> {
        let state = self.state();
        let lenient = Leniency {
            ignore_unavailable: true,
            allow_no_indices: true,
        };
        let names = state.cluster.resolve(target, lenient).unwrap_or_default();
        let mut documents = Vec::new();
        for index in names
            .iter()
            .filter_map(|name| state.cluster.indices.get(name))
        {
            let filters = state.cluster.filters(target, &index.name);
            let matchers = filters.map(|filters| {
                filters
                    .iter()
                    .filter_map(|filter| Query::read(filter).ok()?.compile(index.mapping()).ok())
                    .collect::<Vec<_>>()
            });
            let is_seen = |document: &Document| {
                matchers.as_ref().is_none_or(|matchers| {
                    matchers
                        .iter()
                        .any(|matcher| matcher.score(document).is_some())
                })
            };
            documents.extend(index.documents().filter(|document| is_seen(document)).map(
                |document| StoredDocument {
                    index: index.name.clone(),
                    id: document.id.to_string(),
                    version: document.version,
                    source: Arc::clone(&document.source),
                },
            ));
        }
        documents
    }

    /// The indices by name.
    pub fn indices(&self) -> BTreeMap<String, IndexState> {
        let state = self.state();
        let shown = |(name, index): (&String, &super::index::Index)| {
            let meta = index
                .mapping()
                .definition()
                .get("_meta")
                .cloned()
                .unwrap_or_default();
            let documents = index.documents().count();
            (
                name.clone(),
                IndexState {
                    uuid: index.uuid.clone(),
                    aliases: index.alias_names(),
                    meta,
                    documents,
                },
            )
        };
        state.cluster.indices.iter().map(shown).collect()
    }

    /// The aliases, each with its indices.
    pub fn aliases(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut aliases: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, index) in self.indices() {
            for alias in index.aliases {
                aliases.entry(alias).or_default().insert(name.clone());
            }
        }
        aliases
    }

    /// Contexts of points in time that are open; those that nobody closes are limited.
    pub fn open_points_in_time(&self) -> u64 {
        self.state().cluster.points_in_time.open(Instant::now())
    }

    /// What was asked and written so far.
    pub fn counters(&self) -> Counters {
        self.state().counters.clone()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// What becomes of a request that arrives now.
    pub fn receive(&mut self, call: &Call) -> Plan {
        self.counters.requests += 1;
        let (work, bytes) = (call.work(), call.body.len());
        let fault = self
            .faults
            .find(Instant::now(), |fault| fault.is_on_the_way_of(work, bytes));
        if let Some(fault) = fault {
            self.strike(fault.kind());
        }
        if let (Work::Bulk, Some(inspector)) = (work, &mut self.inspector)
            && fault != Some(Fault::ConnectionRefused)
        {
            inspector(&call.body);
        }
        match fault {
            Some(Fault::ConnectionRefused) => Plan::Refuse,
            Some(Fault::Hang) => Plan::Hang,
            Some(Fault::RequestLost) => Plan::Cut,
            Some(Fault::ResponseLost) => Plan::Handle { is_answered: false },
            Some(Fault::AppliedLate(by)) => Plan::HandleLate {
                by,
                breaks_at_once: self.rng.random_bool(0.5),
            },
            Some(Fault::Unauthorized) => {
                Plan::Answer(response(401, Bytes::from_static(b"Unauthorized")))
            }
            Some(Fault::TooLarge(_)) => Plan::Answer(response(413, Bytes::new())),
            Some(Fault::Forbidden) => refuse(&Refusal::new(
                403,
                "security_exception",
                "no permissions for [indices:data/write/bulk]",
            )),
            Some(Fault::TooManyRequests) => refuse(&bulk::rejected()),
            Some(Fault::Unavailable) => {
                let reason =
                    "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];";
                refuse(&Refusal::new(503, "cluster_block_exception", reason))
            }
            _ => Plan::Handle { is_answered: true },
        }
    }

    /// Handles a request now.
    pub fn handle(&mut self, call: &Call) -> Response<Bytes> {
        let now = Instant::now();
        let conditions = self.faults.conditions(now, self.refused_text.as_ref());
        let mut moment = Moment {
            now,
            conditions: &conditions,
            rng: &mut self.rng,
            counters: &mut self.counters,
            struck: BTreeSet::new(),
        };
        let mut answer = route::handle(&mut self.cluster, &mut moment, call);
        for kind in moment.struck {
            self.strike(kind);
        }
        if call.work() == Work::Bulk
            && self
                .faults
                .find(now, |fault| fault == Fault::WrongItemCount)
                .is_some()
        {
            self.miscount(&mut answer);
        }
        let mut body = Bytes::from(answer.body.to_string());
        if self
            .faults
            .find(now, |fault| fault == Fault::TruncatedResponse)
            .is_some()
        {
            self.strike(FaultKind::TruncatedResponse);
            body.truncate(self.rng.random_range(0..body.len()));
        }
        response(answer.status, body)
    }

    fn miscount(&mut self, answer: &mut Answer) {
        let Some(items) = answer
            .body
            .get_mut("items")
            .and_then(Value::as_array_mut)
            .filter(|items| !items.is_empty())
        else {
            return;
        };
        let chosen = self.rng.random_range(0..items.len());
        if self.rng.random_bool(0.5) {
            items.remove(chosen);
        } else {
            items.insert(chosen, items[chosen].clone());
        }
        self.strike(FaultKind::WrongItemCount);
    }

    fn strike(&mut self, kind: FaultKind) {
        self.faults.strike(kind);
        self.counters.note_struck(kind);
    }

    /// A time that half of a request takes.
    pub fn pause(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(self.latency.clone()))
    }

    /// How often it was started.
    pub fn life(&self) -> u64 {
        self.life
    }
}

fn refuse(refusal: &Refusal) -> Plan {
    Plan::Answer(response(
        refusal.status,
        Bytes::from(refusal.body().to_string()),
    ))
}

fn response(status: u16, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    if let Ok(status) = http::StatusCode::from_u16(status) {
        *response.status_mut() = status;
    }
    response
}
