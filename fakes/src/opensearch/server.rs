//! The server and the interface for tests.

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
    bulk,
    call::{Call, Work},
    cluster::{Cluster, Leniency, RequestContext},
    counters::Counters,
    document::Document,
    faults::{Fault, FaultKind, Faults, Span},
    index::Index,
    plan::Plan,
    query::Query,
    response::{ApiResponse, Exception},
    route,
};

/// Long enough that requests of several clients overlap.
const LATENCY: RangeInclusive<u64> = 1..=20;

/// A fake OpenSearch with one node. Clones share the server.
#[derive(Clone)]
pub struct OpenSearch(Arc<Mutex<State>>);

/// A stored document, refreshed or not.
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
    /// Distinguishes it from other indices of that name.
    pub uuid: String,
    /// Its aliases.
    pub aliases: BTreeSet<String>,
    /// `_meta` of its mapping.
    pub meta: Value,
    /// Number of documents.
    pub documents: usize,
}

/// Inspects the bodies of `_bulk` requests.
type Inspector = Box<dyn FnMut(&Bytes) + Send>;

pub(super) struct State {
    cluster: Cluster,
    faults: Faults,
    rng: StdRng,
    counters: Counters,
    refused_text: Option<String>,
    latency: RangeInclusive<u64>,
    inspector: Option<Inspector>,
    /// Number of restarts; a restart resets the connections of open requests.
    restarts: u64,
}

/// Some documents of an index.
type DocumentsOfIndex = for<'i> fn(&'i Index) -> Box<dyn Iterator<Item = &'i Arc<Document>> + 'i>;

impl OpenSearch {
    /// Creates an empty server; all random choices derive from the seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            cluster: Cluster::default(),
            faults: Faults::default(),
            rng: StdRng::seed_from_u64(seed),
            counters: Counters::default(),
            refused_text: None,
            latency: LATENCY,
            inspector: None,
            restarts: 0,
        })))
    }

    /// Injects a fault.
    pub fn inject(&self, fault: Fault, span: Span) {
        self.state().faults.add(fault, span, Instant::now());
    }

    /// Ends all injected faults. Requests that are already delayed still arrive late.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Rejects documents that contain this text from now on, as the mapper rejects invalid values.
    /// Healing does not end it.
    pub fn refuse_documents_with(&self, text: &str) {
        self.state().refused_text = Some(text.to_owned());
    }

    /// Calls a function with the body of every received `_bulk` request. It must not call the
    /// server.
    pub fn inspect_bulks(&self, inspector: impl FnMut(&Bytes) + Send + 'static) {
        self.state().inspector = Some(Box::new(inspector));
    }

    /// Sets the latency range in milliseconds: a request takes the sum of two random values of it.
    pub fn set_latency(&self, milliseconds: RangeInclusive<u64>) {
        self.state().latency = milliseconds;
    }

    /// Restarts the node: connections are reset, acknowledged writes stay, tombstones and points in
    /// time are lost.
    pub fn restart(&self) {
        let mut state = self.state();
        state.cluster.restart();
        state.restarts += 1;
        state.counters.note_struck(FaultKind::Restarted);
    }

    /// Deletes an index directly. Returns whether it existed.
    pub fn delete_index(&self, name: &str) -> bool {
        let mut state = self.state();
        let is_there = state.cluster.indices.remove(name).is_some();
        if is_there {
            state.counters.note_struck(FaultKind::IndexDeleted);
        }
        is_there
    }

    /// Removes an alias from all indices directly. Returns whether any had it.
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

    /// Returns every document of an index, alias or pattern, refreshed or not, in the order of
    /// indices and ids; empty if no such index exists.
    pub fn documents(&self, target: &str) -> Vec<StoredDocument> {
        self.documents_of(target, |index| Box::new(index.documents()))
    }

    /// Returns those that searches have found since the last refresh.
    pub fn searchable_documents(&self, target: &str) -> Vec<StoredDocument> {
        self.documents_of(target, |index| Box::new(index.searchable_documents()))
    }

    fn documents_of(&self, target: &str, of: DocumentsOfIndex) -> Vec<StoredDocument> {
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
            let is_visible = |document: &Document| {
                matchers.as_ref().is_none_or(|matchers| {
                    matchers
                        .iter()
                        .any(|matcher| matcher.score(document).is_some())
                })
            };
            documents.extend(
                of(index)
                    .filter(|document| is_visible(document))
                    .map(|document| StoredDocument {
                        index: index.name.clone(),
                        id: document.id.to_string(),
                        version: document.version,
                        source: Arc::clone(&document.source),
                    }),
            );
        }
        documents
    }

    /// Returns the indices by name.
    pub fn indices(&self) -> BTreeMap<String, IndexState> {
        let state = self.state();
        let shown = |(name, index): (&String, &Index)| {
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

    /// Returns the aliases with their indices.
    pub fn aliases(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut aliases: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, index) in self.indices() {
            for alias in index.aliases {
                aliases.entry(alias).or_default().insert(name.clone());
            }
        }
        aliases
    }

    /// Returns the number of open contexts of points in time, which OpenSearch limits.
    pub fn open_points_in_time(&self) -> u64 {
        self.state().cluster.points_in_time.open(Instant::now())
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.state().counters.clone()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// Decides how to treat a request that arrives now.
    pub fn receive(&mut self, call: &Call) -> Plan {
        self.counters.requests += 1;
        let (work, bytes) = (call.work(), call.body.len());
        let fault = self.faults.find(Instant::now(), |fault| {
            fault.affects_transport_of(work, bytes)
        });
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
            Some(Fault::ResponseLost) => Plan::Handle { responds: false },
            Some(Fault::AppliedLate(by)) => Plan::HandleLate {
                by,
                breaks_at_once: self.rng.random_bool(0.5),
            },
            Some(Fault::Unauthorized) => {
                Plan::Respond(response(401, Bytes::from_static(b"Unauthorized")))
            }
            Some(Fault::TooLarge(_)) => Plan::Respond(response(413, Bytes::new())),
            Some(Fault::Forbidden) => refuse(&Exception::new(
                403,
                "security_exception",
                "no permissions for [indices:data/write/bulk]",
            )),
            Some(Fault::TooManyRequests) => refuse(&bulk::rejected()),
            Some(Fault::Unavailable) => {
                let reason =
                    "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];";
                refuse(&Exception::new(503, "cluster_block_exception", reason))
            }
            _ => Plan::Handle { responds: true },
        }
    }

    /// Handles a request now.
    pub fn handle(&mut self, call: &Call) -> Response<Bytes> {
        let now = Instant::now();
        let conditions = self.faults.conditions(now, self.refused_text.as_ref());
        let mut context = RequestContext {
            now,
            conditions: &conditions,
            rng: &mut self.rng,
            counters: &mut self.counters,
            struck: BTreeSet::new(),
        };
        let mut api_response = route::handle(&mut self.cluster, &mut context, call);
        for kind in context.struck {
            self.strike(kind);
        }
        if call.work() == Work::Bulk
            && self
                .faults
                .find(now, |fault| fault == Fault::WrongItemCount)
                .is_some()
        {
            self.corrupt_item_count(&mut api_response);
        }
        let mut body = Bytes::from(api_response.body.to_string());
        if self
            .faults
            .find(now, |fault| fault == Fault::TruncatedResponse)
            .is_some()
        {
            self.strike(FaultKind::TruncatedResponse);
            body.truncate(self.rng.random_range(0..body.len()));
        }
        response(api_response.status, body)
    }

    fn corrupt_item_count(&mut self, api_response: &mut ApiResponse) {
        let Some(items) = api_response
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

    /// Returns a random latency for one half of a request.
    pub fn pause(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(self.latency.clone()))
    }

    /// Returns the number of restarts.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}

fn refuse(exception: &Exception) -> Plan {
    Plan::Respond(response(
        exception.status,
        Bytes::from(exception.body().to_string()),
    ))
}

fn response(status: u16, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    if let Ok(status) = http::StatusCode::from_u16(status) {
        *response.status_mut() = status;
    }
    response
}
