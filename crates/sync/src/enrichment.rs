//! Asks interpreter webhooks about objects whose documents are written already, and writes the
//! documents again with their answers.
//!
//! ```text
//!  unit ──document──> pipeline        queue ──> webhook
//!    └───object──> Enrichment ──job──> │
//!                      ▲               └──answer──> document, at the same version ──> pipeline
//!                      └── pass: lists the unit again for what found no room, was lost with a process, or may have been
//!                                replaced by an earlier write that the store applied late
//! ```
//!
//! Guarantee: an answer never delays a change, and never replaces a newer version: the store
//! compares versions. In the end every document has the answer about its version, or why there is
//! none.

mod deletions;
mod object;

use std::{
    convert::Infallible,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ahash::AHashSet;
use backon::{BackoffBuilder, ExponentialBuilder};
use fleetdex_clusters::watch::{FaultKind, ListPage, ListerWatcher, StreamFault};
use fleetdex_core::{
    model::{IndexName, Object, Version},
    planted::{Bug, planted},
};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_limits::intake::Budget;
use fleetdex_webhooks::{
    client::CallWebhook,
    queue::{EnrichmentJob, EnrichmentQueue},
};
use futures::FutureExt as _;
use tokio::sync::{Mutex, Notify};

use self::{
    deletions::{DeletionRecord, RecordGuard},
    object::{EnrichedUnit, OBJECTS, ObjectEnrichment},
};
use crate::{progress::Progress, sink::Sink};

/// Objects of a page of a pass. The page is in memory while its objects are handed to the queue.
const PAGE_SIZE: u32 = 50;
/// The least time between two passes, without jitter.
const MIN_PASS_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time between two passes that are due.
const MAX_PASS_INTERVAL: Duration = Duration::from_mins(10);
/// Bytes of a queued object besides its JSON.
const JOB_BYTES: usize = 512;

/// What asks webhooks, for all streams of the process.
#[derive(Clone)]
pub struct WebhookAccess {
    /// Calls webhooks.
    pub client: Arc<dyn CallWebhook>,
    /// The objects that webhooks are to be asked about.
    pub queue: EnrichmentQueue<ObjectEnrichment>,
    /// The memory of the objects that they are being asked about.
    pub objects: Budget,
}

impl WebhookAccess {
    /// Access by a client.
    pub fn new(client: Arc<dyn CallWebhook>, queue: EnrichmentQueue<ObjectEnrichment>) -> Self {
        Self {
            client,
            queue,
            objects: Budget::new(OBJECTS),
        }
    }
}

/// The enrichment of the documents of one stream.
pub struct UnitEnrichment {
    unit: Arc<EnrichedUnit>,
    /// The ids of the webhooks.
    webhooks: Vec<Arc<str>>,
    queue: EnrichmentQueue<ObjectEnrichment>,
    /// Begins the keys of the stream's jobs. No other stream of the process has it.
    prefix: String,
    /// What the stream deletes while a pass reads.
    deletions: DeletionRecord,
}

/// How a pass ended.
enum Pass {
    /// Every object was submitted.
    Complete,
    /// The stream listed meanwhile, or deleted more than is remembered.
    Interrupted,
}

impl UnitEnrichment {
    /// The enrichment of a stream; `None` if no webhook answers for its kind. `prefix` identifies
    /// the stream among all that the process has ever run.
    pub fn new(
        rules: &KindRules,
        access: &WebhookAccess,
        sink: &Arc<Sink>,
        progress: &Arc<Progress>,
        prefix: String,
    ) -> Option<Arc<Self>> {
        let webhooks: Vec<Arc<str>> = rules
            .webhooks()
            .iter()
            .map(|asked| asked.webhook.id.as_str().into())
            .collect();
        (!webhooks.is_empty()).then(|| {
            let unit = EnrichedUnit {
                rules: rules.clone(),
                client: Arc::clone(&access.client),
                objects: access.objects.clone(),
                sink: Arc::clone(sink),
                progress: Arc::clone(progress),
                target: OnceLock::new(),
                has_ended: AtomicBool::new(false),
                pass_is_due: Notify::new(),
            };
            Arc::new(Self {
                unit: Arc::new(unit),
                webhooks,
                queue: access.queue.clone(),
                prefix,
                deletions: DeletionRecord::default(),
            })
        })
    }

    /// Sets the write alias of the revision. `resumes`: whether the stream lists nothing now, so
    /// that answers may have been lost with another process.
    pub(crate) fn opened(&self, target: &IndexName, resumes: bool) {
        // A stream opens one revision.
        let _ = self.unit.target.set(target.clone());
        if resumes && !planted(Bug::ForgetLostAnswers) {
            self.unit.pass_is_due.notify_one();
        }
    }

    /// The stream begins a list, so a pass under way has to begin again: its pages may show an
    /// object that was created and deleted before the list, of which the stream writes no deletion.
    pub(crate) fn list_begun(&self) {
        self.deletions.end();
    }

    /// Asks the webhooks about an object whose document is being written. Never waits: what finds
    /// no room is left to a pass.
    pub(crate) fn submit(&self, object: &Object<'_>) {
        if !self.try_submit(object) && !planted(Bug::ForgetFullQueue) {
            self.unit.pass_is_due.notify_one();
        }
    }

    /// Forgets an object that was deleted. An answer that is being written is older than the
    /// deletion.
    pub(crate) fn cancel(&self, id: &str) {
        self.deletions.add(id);
        self.queue.cancel(&self.key(id));
    }

    /// The same, for a deletion at the version of the document, which an answer must not follow.
    pub(crate) async fn cancel_and_wait(&self, id: &str) {
        self.deletions.add(id);
        self.queue.cancel_and_wait(&self.key(id)).await;
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    /// Whether there was room.
    fn try_submit(&self, object: &Object<'_>) -> bool {
        let json = object.json();
        let enrichment = ObjectEnrichment {
            unit: Arc::clone(&self.unit),
            json: json.into(),
            answers: Mutex::default(),
        };
        let job = EnrichmentJob {
            key: self.key(&self.unit.sink.projector.id(object.uid())).into(),
            version: object.version(),
            webhooks: self.webhooks.clone(),
            bytes: json.len() + JOB_BYTES,
            payload: Arc::new(enrichment),
        };
        self.queue.submit(&job).is_ok()
    }

    /// Repeats passes whenever one is due, until dropped.
    pub(crate) async fn run_passes(&self, source: &ListerWatcher) -> Infallible {
        let backoff = || {
            ExponentialBuilder::default()
                .with_min_delay(MIN_PASS_INTERVAL)
                .with_max_delay(MAX_PASS_INTERVAL)
                .with_jitter()
                .without_max_times()
                .build()
        };
        let mut delays = backoff();
        loop {
            tokio::select! {
                biased;
                () = self.unit.pass_is_due.notified() => {}
                () = self.unit.progress.settled(), if !planted(Bug::ForgetLateWrites) => {}
            }
            let delay = delays.next().unwrap_or(MAX_PASS_INTERVAL);
            tokio::time::sleep(delay).await;
            // What became due meanwhile is part of this pass.
            let _is_covered = self.unit.pass_is_due.notified().now_or_never();
            match Box::pin(self.pass(source)).await {
                Ok(Pass::Complete) => delays = backoff(),
                Ok(Pass::Interrupted) => self.unit.pass_is_due.notify_one(),
                Err(fault) => {
                    tracing::debug!(stream = self.prefix, %fault, "cannot list the objects that webhooks are to be asked about; it is repeated");
                    self.unit.pass_is_due.notify_one();
                }
            }
        }
    }

    /// Lists the objects of the unit and submits each, as fast as there is room.
    async fn pass(&self, source: &ListerWatcher) -> Result<Pass, StreamFault> {
        let _record = RecordGuard(&self.deletions);
        let mut token: Option<String> = None;
        // The objects of the page that were submitted. A page that finds no room in part is read
        // again for the rest of it, so that no page is in memory while the pass waits.
        let mut submitted = AHashSet::new();
        loop {
            self.queue.room(&self.webhooks).await;
            if token.is_none() {
                // A first page shows no object that was deleted before it is requested.
                self.deletions.begin();
            }
            let Some(reached) = self.unit.progress.reached_version() else {
                return Ok(Pass::Interrupted);
            };
            let body = source.list(token.as_deref(), Some(PAGE_SIZE)).await?;
            if !self.deletions.is_complete() {
                return Ok(Pass::Interrupted);
            }
            let page = ListPage::parse(&body)
                .and_then(|page| page.within(Some(PAGE_SIZE)))
                .map_err(|error| StreamFault {
                    kind: FaultKind::Garbled,
                    message: error.to_string(),
                })?;
            let mut items = page.items.iter();
            if !items.all(|raw| self.submit_listed(raw, reached, &mut submitted)) {
                continue;
            }
            submitted.clear();
            match page.continue_token {
                Some(next) => token = Some(next),
                None => return Ok(Pass::Complete),
            }
        }
    }

    /// Whether there was room for a listed object, or it needs none. `reached`: up to where the
    /// stream had got before the page was requested. The stream submits a later object itself, and
    /// without it no deletion would follow an answer; neither does one that the stream has handled
    /// already.
    fn submit_listed(
        &self,
        json: &str,
        reached: Version,
        submitted: &mut AHashSet<Box<str>>,
    ) -> bool {
        match Object::parse(json) {
            Ok(object)
                if object.version() <= reached
                    && self.unit.sink.filters.selects(&object)
                    && !submitted.contains(object.uid())
                    && !self
                        .deletions
                        .contains(&self.unit.sink.projector.id(object.uid())) =>
            {
                let has_room = self.try_submit(&object);
                if has_room {
                    submitted.insert(object.uid().into());
                }
                has_room
            }
            // The stream has stored its identity only, or nothing, or has deleted it; or it was
            // submitted before.
            _ => true,
        }
    }
}

/// Ends the enrichment of a stream when the stream ends.
pub(crate) struct EnrichmentGuard(pub(crate) Arc<UnitEnrichment>);

impl Drop for EnrichmentGuard {
    fn drop(&mut self) {
        self.0.unit.has_ended.store(true, Ordering::SeqCst);
        let prefix = &self.0.prefix;
        self.0.queue.cancel_matching(|key| key.starts_with(prefix));
    }
}

#[cfg(test)]
mod tests;
