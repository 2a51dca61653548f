//! Asks webhooks about one object, and writes its document with their answers.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use fleetdex_core::{
    model::{IndexName, Interpret, Interpretation, JsonTree, MemberMask, Object, parsed_size},
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
    queue::{Delivery, Enrich, Unanswered},
};
use tokio::sync::{Mutex, Notify};

use crate::{
    object_room::ObjectRoom,
    progress::Progress,
    sink::{Sink, Wait, indexed_at},
};

/// Memory of objects that webhooks are asked about: of one object, of those of one webhook, and of
/// all, beside one more object. An object of a megabyte takes about 20 MiB.
pub(super) const OBJECTS: MemoryLimits = MemoryLimits {
    page: 0,
    line: 0,
    answer: 0,
    refusal: 0,
    small: 0,
    request: 32 << 20,
    share: 32 << 20,
    shared: 32 << 20,
};

/// What the objects of one stream have in common.
pub(super) struct EnrichedUnit {
    pub(super) rules: KindRules,
    pub(super) client: Arc<dyn CallWebhook>,
    /// The memory of the objects that webhooks are being asked about.
    pub(super) objects: Budget,
    pub(super) sink: Arc<Sink>,
    pub(super) progress: Arc<Progress>,
    /// The write alias of the revision, once it is open.
    pub(super) target: OnceLock<IndexName>,
    pub(super) has_ended: AtomicBool,
    /// Notified when a pass is due.
    pub(super) pass_is_due: Notify,
}

impl EnrichedUnit {
    fn webhook(&self, id: &str) -> Option<&KindWebhook> {
        let mut webhooks = self.rules.webhooks().iter();
        webhooks.find(|asked| asked.webhook.id == id)
    }
}

/// One object that webhooks are asked about.
pub struct ObjectEnrichment {
    pub(super) unit: Arc<EnrichedUnit>,
    /// The object as the member sent it.
    pub(super) json: Box<str>,
    /// Locked until the document with them is on its way, so that a document with fewer answers
    /// never follows one with more.
    pub(super) answers: Mutex<WebhookAnswers>,
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
            let called = self.unit.client.call(&asked.webhook, &request).await;
            let response =
                called.map_err(|error| Unanswered::of(&error, asked.webhook.failure_policy))?;
            answers.push((*operation, response));
        }
        Ok(answers)
    }

    /// Memory for the object, which is parsed as long as the webhook is asked.
    async fn memory_for(&self, asked: &KindWebhook) -> Result<MemoryReservation, Unanswered> {
        let intake = self.unit.objects.share(&asked.webhook.id);
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
        let now = indexed_at();
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
