//! Asks interpreter webhooks about objects whose documents are written already, and writes the documents again with their answers.
//!
//! ```text
//!  unit ──document──> pipeline        queue ──> webhook
//!    └───object──> Enrichment ──job──> │
//!                      ▲               └──answer──> document, at the same version ──> pipeline
//!                      └── pass: lists the unit again for what found no room, was lost with a process, or may have been
//!                                replaced by an earlier write that the store applied late
//! ```
//!
//! Guarantee: an answer never delays a change, and never replaces a newer version: the store compares versions. In the end every document has the answer
//! about its version, or why there is none.

mod deletions;

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
    model::{
        IndexName, Interpret, Interpretation, JsonTree, MemberMask, Object, Version, parsed_size,
    },
    planted::{Bug, planted},
};
use fleetdex_interpreter::{
    Operation, Request, Response,
    rules::{KindRules, KindWebhook, WebhookAnswers},
};
use fleetdex_limits::{
    intake::{Budget, IntakeError, MemoryLimits, MemoryReservation},
    parsed::grow,
};
use fleetdex_webhooks::{
    breaker::Contact,
    client::CallWebhook,
    queue::{Delivery, Enrich, EnrichmentJob, EnrichmentQueue, Unanswered},
};
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::{Mutex, Notify};

use self::deletions::{DeletionRecord, RecordGuard};
use crate::{
    object_room::ObjectRoom,
    progress::Progress,
    sink::{Sink, Wait},
};

/// Objects of a page of a pass. The page is in memory while its objects are handed to the queue.
const PAGE_SIZE: u32 = 50;
/// The least time between two passes, without jitter.
const MIN_PASS_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time between two passes that are due.
const MAX_PASS_INTERVAL: Duration = Duration::from_mins(10);
/// Bytes of a queued object besides its JSON.
const JOB_BYTES: usize = 512;

/// Memory of objects that webhooks are asked about: of one object, of those of one webhook, and of
/// all, beside one more object. An object of a megabyte takes about 20 MiB.
const OBJECTS: MemoryLimits = MemoryLimits {
    page: 0,
    line: 0,
    answer: 0,
    refusal: 0,
    small: 0,
    request: 32 << 20,
    share: 32 << 20,
    shared: 32 << 20,
};

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
    rules: KindRules,
    /// The ids of the webhooks.
    webhooks: Vec<Arc<str>>,
    access: WebhookAccess,
    sink: Arc<Sink>,
    progress: Arc<Progress>,
    /// The write alias of the revision, once it is open.
    target: OnceLock<IndexName>,
    /// Begins the keys of the stream's jobs. No other stream of the process has it.
    prefix: String,
    has_ended: AtomicBool,
    /// Notified when a pass is due.
    pass_is_due: Notify,
    /// What the stream deletes while a pass reads.
    deletions: DeletionRecord,
}

/// One object that webhooks are asked about.
pub struct ObjectEnrichment {
    unit: Arc<UnitEnrichment>,
    /// The object as the member sent it.
    json: Box<str>,
    /// Locked until the document with them is on its way, so that a document with fewer answers never
    /// follows one with more.
    answers: Mutex<WebhookAnswers>,
}

/// The rules with the answers of webhooks so far.
#[derive(Debug)]
struct AnsweredRules<'r> {
    rules: &'r KindRules,
    answers: &'r WebhookAnswers,
}

impl Interpret for AnsweredRules<'_> {
    fn reads(&self) -> &MemberMask {
        self.rules.reads()
    }

    fn interpret(&self, object: &JsonTree<'_>) -> Interpretation {
        self.rules.interpret_with(object, self.answers)
    }
}

/// How a pass ended.
enum Pass {
    /// Every object was submitted.
    Complete,
    /// The stream listed meanwhile, or deleted more than is remembered.
    Interrupted,
}

impl UnitEnrichment {
    /// The enrichment of a stream; `None` if no webhook answers for its kind. `prefix` identifies the stream among all that the process has ever run.
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
            Arc::new(Self {
                rules: rules.clone(),
                webhooks,
                access: access.clone(),
                sink: Arc::clone(sink),
                progress: Arc::clone(progress),
                target: OnceLock::new(),
                prefix,
                has_ended: AtomicBool::new(false),
                pass_is_due: Notify::new(),
                deletions: DeletionRecord::default(),
            })
        })
    }

    /// Sets the write alias of the revision. `resumes`: whether the stream lists nothing now, so that answers may have been lost with another process.
    pub(crate) fn opened(&self, target: &IndexName, resumes: bool) {
        // A stream opens one revision.
        let _ = self.target.set(target.clone());
        if resumes && !planted(Bug::ForgetLostAnswers) {
            self.pass_is_due.notify_one();
        }
    }

    /// The stream begins a list, so a pass under way has to begin again: its pages may show an object
    /// that was created and deleted before the list, of which the stream writes no deletion.
    pub(crate) fn list_begun(&self) {
        self.deletions.end();
    }

    /// Asks the webhooks about an object whose document is being written. Never waits: what finds no room is left to a pass.
    pub(crate) fn submit(self: &Arc<Self>, object: &Object<'_>) {
        if !self.try_submit(object) && !planted(Bug::ForgetFullQueue) {
            self.pass_is_due.notify_one();
        }
    }

    /// Forgets an object that was deleted. An answer that is being written is older than the
    /// deletion.
    pub(crate) fn cancel(&self, id: &str) {
        self.deletions.add(id);
        self.access.queue.cancel(&self.key(id));
    }

    /// The same, for a deletion at the version of the document, which an answer must not follow.
    pub(crate) async fn cancel_and_wait(&self, id: &str) {
        self.deletions.add(id);
        self.access.queue.cancel_and_wait(&self.key(id)).await;
    }

    fn key(&self, id: &str) -> String {
        format!("{}{id}", self.prefix)
    }

    /// Whether there was room.
    fn try_submit(self: &Arc<Self>, object: &Object<'_>) -> bool {
        let json = object.json();
        let enrichment = ObjectEnrichment {
            unit: Arc::clone(self),
            json: json.into(),
            answers: Mutex::default(),
        };
        let job = EnrichmentJob {
            key: self.key(&self.sink.projector.id(object.uid())).into(),
            version: object.version(),
            webhooks: self.webhooks.clone(),
            bytes: json.len() + JOB_BYTES,
            payload: Arc::new(enrichment),
        };
        self.access.queue.submit(&job).is_ok()
    }

    /// Repeats passes whenever one is due, until dropped.
    pub(crate) async fn run_passes(self: &Arc<Self>, source: &ListerWatcher) -> Infallible {
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
                () = self.pass_is_due.notified() => {}
                () = self.progress.settled(), if !planted(Bug::ForgetLateWrites) => {}
            }
            let delay = delays.next().unwrap_or(MAX_PASS_INTERVAL);
            tokio::time::sleep(delay).await;
            // What became due meanwhile is part of this pass.
            let _is_covered = self.pass_is_due.notified().now_or_never();
            match Box::pin(self.pass(source)).await {
                Ok(Pass::Complete) => delays = backoff(),
                Ok(Pass::Interrupted) => self.pass_is_due.notify_one(),
                Err(fault) => {
                    tracing::debug!(stream = self.prefix, %fault, "cannot list the objects that webhooks are to be asked about; it is repeated");
                    self.pass_is_due.notify_one();
                }
            }
        }
    }

    /// Lists the objects of the unit and submits each, as fast as there is room.
    async fn pass(self: &Arc<Self>, source: &ListerWatcher) -> Result<Pass, StreamFault> {
        let _record = RecordGuard(&self.deletions);
        let mut token: Option<String> = None;
        // The objects of the page that were submitted. A page that finds no room in part is read
        // again for the rest of it, so that no page is in memory while the pass waits.
        let mut submitted = AHashSet::new();
        loop {
            self.access.queue.room(&self.webhooks).await;
            if token.is_none() {
                // A first page shows no object that was deleted before it is requested.
                self.deletions.begin();
            }
            let Some(reached) = self.progress.reached_version() else {
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

    /// Whether there was room for a listed object, or it needs none. `reached`: up to where the stream
    /// had got before the page was requested. The stream submits a later object itself, and without
    /// it no deletion would follow an answer; neither does one that the stream has handled already.
    fn submit_listed(
        self: &Arc<Self>,
        json: &str,
        reached: Version,
        submitted: &mut AHashSet<Box<str>>,
    ) -> bool {
        match Object::parse(json) {
            Ok(object)
                if object.version() <= reached
                    && self.sink.selects(&object)
                    && !submitted.contains(object.uid())
                    && !self
                        .deletions
                        .contains(&self.sink.projector.id(object.uid())) =>
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

    fn webhook(&self, id: &str) -> Option<&KindWebhook> {
        let mut webhooks = self.rules.webhooks().iter();
        webhooks.find(|asked| asked.webhook.id == id)
    }
}

/// Ends the enrichment of a stream when the stream ends.
pub(crate) struct EnrichmentGuard(pub(crate) Arc<UnitEnrichment>);

impl Drop for EnrichmentGuard {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::SeqCst);
        let prefix = &self.0.prefix;
        self.0
            .access
            .queue
            .cancel_matching(|key| key.starts_with(prefix));
    }
}

impl ObjectEnrichment {
    /// Asks a webhook each of its operations.
    async fn answers_of(
        &self,
        asked: &KindWebhook,
    ) -> Result<Vec<(Operation, Response)>, Unanswered> {
        let unreadable = |error: String| Unanswered {
            text: error.into(),
            contact: Contact::Reached,
            again: false,
        };
        let object = Object::parse(&self.json).map_err(|error| unreadable(error.to_string()))?;
        let _memory = self.memory_for(asked).await?;
        let value = self
            .unit
            .sink
            .projector
            .stored_value(&object)
            .map_err(|error| unreadable(error.to_string()))?;
        let mut answers = Vec::new();
        for operation in &asked.operations {
            let Some(request) = Request::about(*operation, &value) else {
                continue;
            };
            let called = self.unit.access.client.call(&asked.webhook, &request).await;
            let response =
                called.map_err(|error| Unanswered::of(&error, asked.webhook.failure_policy))?;
            answers.push((*operation, response));
        }
        Ok(answers)
    }

    /// Memory for the object, which is parsed as long as the webhook is asked.
    async fn memory_for(&self, asked: &KindWebhook) -> Result<MemoryReservation, Unanswered> {
        let intake = self.unit.access.objects.share(&asked.webhook.id);
        let mut memory = intake.reservation();
        let bytes = parsed_size(self.json.as_bytes());
        let grown = grow(&mut memory, &intake, bytes).await;
        grown.map_err(|error| {
            let is_too_large = matches!(error, IntakeError::TooLarge(_));
            let text = if is_too_large {
                format!(
                    "the object takes {} MiB of memory when it is parsed, and webhooks are asked about objects of {} MiB at most",
                    bytes >> 20,
                    OBJECTS.request >> 20
                )
            } else {
                format!(
                    "other objects that it is asked about take {} MiB of memory",
                    OBJECTS.share >> 20
                )
            };
            Unanswered {
                text: text.into(),
                contact: Contact::Reached,
                again: !is_too_large,
            }
        })?;
        Ok(memory)
    }

    /// Writes the document again, with the answers so far.
    async fn write(&self, answers: &WebhookAnswers) {
        let unit = &self.unit;
        let Some(target) = unit.target.get() else {
            return;
        };
        // The stream that follows this one waits until the ticket is given back.
        let ticket = unit.progress.ticket();
        if !unit.has_ended.load(Ordering::SeqCst) {
            self.write_to(target, answers).await;
        }
        ticket.acknowledge();
    }

    async fn write_to(&self, target: &IndexName, answers: &WebhookAnswers) {
        let unit = &self.unit;
        let rules = AnsweredRules {
            rules: &unit.rules,
            answers,
        };
        let Ok(object) = Object::parse(&self.json) else {
            return;
        };
        let now = Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
            .to_string();
        let document = {
            let _room = ObjectRoom::wait(self.json.len());
            unit.sink.projector.document_by(&object, Some(&rules), &now)
        };
        // An object that cannot be stored has its reason in the store already.
        if let Ok(mut document) = document {
            if planted(Bug::AnswerOverNewer) {
                let reached = unit.progress.reached_version();
                document.version = reached.unwrap_or(document.version).max(document.version);
            }
            let name = unit.sink.name(&object);
            unit.sink
                .write(
                    &unit.progress,
                    target,
                    document,
                    Some(name),
                    None,
                    Wait::Never,
                )
                .await;
        }
    }

    /// The operations of a webhook, each with the reason why it has no answer.
    fn failed(&self, webhook: &str, reason: &str) -> WebhookAnswers {
        let operations = self.unit.webhook(webhook).map(|asked| &asked.operations);
        let failed = |operation: &Operation| (*operation, Err(reason.to_owned()));
        operations.into_iter().flatten().map(failed).collect()
    }
}

impl Enrich for ObjectEnrichment {
    type Answer = Vec<(Operation, Response)>;

    async fn ask(&self, webhook: &str) -> Result<Self::Answer, Unanswered> {
        match self.unit.webhook(webhook) {
            Some(asked) => self.answers_of(asked).await,
            None => Ok(Vec::new()),
        }
    }

    async fn deliver(&self, webhook: &str, delivery: Delivery<Self::Answer>) {
        let mut answers = self.answers.lock().await;
        match delivery {
            Delivery::Answered(answered) => {
                let answered = answered
                    .into_iter()
                    .map(|(operation, response)| (operation, Ok(response)));
                answers.extend(answered);
            }
            Delivery::Postponed(reason) => answers.extend(self.failed(webhook, &reason)),
            Delivery::Failed(unanswered) => {
                answers.extend(self.failed(webhook, &unanswered.text));
                if unanswered.again {
                    self.unit.pass_is_due.notify_one();
                }
            }
        }
        self.write(&answers).await;
    }
}

#[cfg(test)]
mod tests;
