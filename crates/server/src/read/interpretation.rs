//! Runs operations of resource interpreters for a request.
//!
//! Guarantee: an operation ends before the time of the request does, with the cause if a webhook
//! has no answer by then. A webhook that was not reached is not called again for the same request.

pub mod body;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use fleetdex_core::{
    model::{Gvk, Resource, split_api_version},
    query::ResourceName,
};
use fleetdex_interpreter::{
    InterpretError, Operation, Request, Response,
    levels::{AnsweringLevel, LevelAnswer, Levels},
    rules::RuleSet,
    webhook::{
        Dialect,
        configuration::{Webhook, guessed_resource},
    },
};
use fleetdex_limits::{intake::IntakeError, parsed::ReservedJson, request::UserRequest};
use fleetdex_webhooks::{
    breaker::Contact,
    client::{CallError, CallFailure},
};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::interpreters::{Interpreters, Turn, TurnError};
use crate::{
    api_error::{ApiError, WebhookFailure},
    auth::caller::Caller,
    catalog::Catalog,
    limits::no_memory,
};

/// The result of an operation, and the level that has answered: `built-in`, `customization/<name>`
/// …
#[derive(Clone, Debug, PartialEq)]
pub struct Interpreted {
    /// The result.
    pub response: Response,
    /// The level.
    pub interpreted_by: String,
}

/// Makes a request about a subject, which may live on another thread.
pub type MakeRequest<S> = for<'s> fn(&'s S) -> Result<Request<'s>, ApiError>;

/// Parses a subject.
pub type ParseSubject<S> = fn(ReservedJson) -> Result<S, ApiError>;

/// An object is in memory at most this often: as it was parsed, and either as rules read it or as a
/// result.
const COPIES: usize = 2;

/// Why an operation has no result.
#[derive(Debug, thiserror::Error)]
pub enum InterpretationError {
    /// No level has a rule.
    #[error("there is no rule for {operation} of {} {}", gvk.api_version(), gvk.kind)]
    NoRule {
        /// The operation.
        operation: Operation,
        /// The kind of the object.
        gvk: Gvk,
    },
    /// The rule that decides has failed.
    #[error("{operation} of the {kind} failed by the rule of {by}: {error}")]
    Rule {
        /// The operation.
        operation: Operation,
        /// The kind of the object.
        kind: Arc<str>,
        /// The level of the rule.
        by: AnsweringLevel,
        /// The cause.
        error: InterpretError,
    },
    /// The webhook that decides has no answer.
    #[error("{operation} of the {kind} failed: {error}")]
    Webhook {
        /// The operation.
        operation: Operation,
        /// The kind of the object.
        kind: Arc<str>,
        /// How the webhook is configured.
        dialect: Dialect,
        /// The cause.
        error: CallError,
    },
    /// It was not run.
    #[error(transparent)]
    NotRun(#[from] ApiError),
}

/// Runs operations for one request of a user.
pub struct RequestInterpreter {
    interpreters: Interpreters,
    rules: Arc<RuleSet>,
    catalog: Arc<Catalog>,
    user: Arc<str>,
    /// What all operations together may take.
    time: Duration,
    deadline: Instant,
    /// Webhooks that were not reached, and why.
    unreached: Mutex<BTreeMap<String, CallFailure>>,
    warnings: Mutex<BTreeSet<String>>,
}

impl RequestInterpreter {
    /// Operations of a request that may take `time` altogether, from now on.
    pub fn new(
        interpreters: &Interpreters,
        catalog: &Arc<Catalog>,
        caller: &Caller,
        time: Duration,
    ) -> Self {
        // The rest is for the answer.
        let for_operations = time.mul_f64(0.75);
        Self {
            interpreters: interpreters.clone(),
            rules: interpreters.rules(),
            catalog: Arc::clone(catalog),
            user: caller.name.as_str().into(),
            time: for_operations,
            deadline: Instant::now() + for_operations,
            unreached: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// Runs an operation on what `request` makes of a subject.
    pub async fn run<S: Send + Sync + 'static>(
        &self,
        subject: &Arc<S>,
        request: MakeRequest<S>,
    ) -> Result<Interpreted, InterpretationError> {
        let turn = self.run_turn().await?;
        let subject = Arc::clone(subject);
        let (subject, first) = self.first_level(turn, move || Ok(subject), request).await?;
        self.after_first_level(&subject, request, first).await
    }

    /// Runs an operation on what `request` makes of a text that is parsed when it is its turn, and
    /// only then; returns what was parsed, too, whose memory counts until it is dropped.
    pub async fn run_text<S: Send + Sync + 'static>(
        &self,
        text: Bytes,
        parse: ParseSubject<S>,
        request: MakeRequest<S>,
    ) -> Result<(Arc<S>, Interpreted), InterpretationError> {
        // Who has a turn waits for no memory: others wait for turns while they hold memory.
        let current = UserRequest::current();
        let reserved = ReservedJson::reserve(current.memory(), text, COPIES);
        let reserved = timeout_at(self.deadline, reserved)
            .await
            .map_err(|_| self.refusal(TurnError::Deadline))?;
        let reserved = reserved.map_err(|error| not_reserved(&error))?;
        let turn = self.run_turn().await?;
        let parse = move || parse(reserved).map(Arc::new);
        let (subject, first) = self.first_level(turn, parse, request).await?;
        let interpreted = self.after_first_level(&subject, request, first).await?;
        Ok((subject, interpreted))
    }

    async fn run_turn(&self) -> Result<Turn, ApiError> {
        let turn = self.interpreters.run_turn(&self.user, self.deadline);
        turn.await.map_err(|error| self.refusal(error))
    }

    async fn after_first_level<S>(
        &self,
        subject: &Arc<S>,
        request: MakeRequest<S>,
        first: FirstLevel,
    ) -> Result<Interpreted, InterpretationError> {
        match first {
            FirstLevel::Decided(decided) => decided,
            FirstLevel::Webhook(webhook, resource) => {
                let request = request(subject)?;
                let called = self.call(&webhook, &request).await;
                self.after_webhook(&webhook, &request, &resource, called)
            }
        }
    }

    /// What the caller should know about the operations so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().iter().cloned().collect()
    }

    /// What `subject` returns, and the first level that has a rule for it. Both run on a thread
    /// that may be blocked: scripts take the processor until their limits end them.
    async fn first_level<S: Send + Sync + 'static>(
        &self,
        turn: Turn,
        subject: impl FnOnce() -> Result<Arc<S>, ApiError> + Send + 'static,
        request: MakeRequest<S>,
    ) -> Result<(Arc<S>, FirstLevel), InterpretationError> {
        let (rules, catalog) = (Arc::clone(&self.rules), Arc::clone(&self.catalog));
        let run = tokio::task::spawn_blocking(move || {
            // The thread keeps it even if the request ends before.
            let _turn = turn;
            let subject = subject()?;
            let request = request(&subject)?;
            let resource = resource_of(&catalog, &request);
            let first = first_level(rules.levels(), &request, resource);
            Ok::<_, ApiError>((subject, first))
        });
        let run = run.await.map_err(|error| {
            ApiError::Internal(format!("an interpretation was aborted: {error}"))
        })?;
        Ok(run?)
    }

    /// The answer to an operation that got no turn.
    fn refusal(&self, error: TurnError) -> ApiError {
        match error {
            TurnError::QueueFull => ApiError::TooManyRequests,
            TurnError::Deadline => ApiError::RequestTimeout(self.time.as_secs()),
        }
    }

    /// Calls a webhook, unless it was not reached before.
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        let unreached = self.unreached.lock().get(&webhook.id).cloned();
        match unreached {
            Some(failure) => Err(CallError::new(&webhook.id, failure)),
            None => self.call_in_turn(webhook, request).await,
        }
    }

    async fn call_in_turn(
        &self,
        webhook: &Webhook,
        request: &Request<'_>,
    ) -> Result<Response, CallError> {
        let failed = |failure| CallError::new(&webhook.id, failure);
        let Some(webhooks) = &self.interpreters.webhooks else {
            let cause = "this server calls no webhooks; run fleetdex interpret --webhooks";
            return Err(failed(CallFailure::Endpoint(cause.to_owned())));
        };
        let turn = self.interpreters.call_turn(&self.user, self.deadline).await;
        // That there is no turn says nothing about the webhook: calls for other clusters may get
        // one.
        let _turn = turn.map_err(|error| {
            failed(match error {
                TurnError::QueueFull => CallFailure::QueueFull,
                TurnError::Deadline => CallFailure::Busy(self.time),
            })
        })?;
        let begun = Instant::now();
        let in_time = timeout_at(self.deadline, webhooks.call(webhook, request)).await;
        let called = in_time.unwrap_or_else(|_| Err(failed(CallFailure::Timeout(begun.elapsed()))));
        if let Err(error) = &called
            && concerns_all_objects(error)
        {
            let mut unreached = self.unreached.lock();
            unreached.insert(webhook.id.clone(), error.failure.clone());
        }
        called
    }

    /// Continues with the answer of a webhook, or without one as its configuration says.
    fn after_webhook(
        &self,
        webhook: &Webhook,
        request: &Request<'_>,
        resource: &Resource,
        called: Result<Response, CallError>,
    ) -> Result<Interpreted, InterpretationError> {
        let levels = self.rules.levels();
        let result = called.as_ref().cloned();
        let result = result.map_err(|error| error.failure.to_string());
        let answer = levels.after_webhook(webhook, request, result);
        match (answer, called) {
            (
                LevelAnswer::Decided {
                    result: Err(_),
                    by: AnsweringLevel::Webhook(_),
                },
                Err(error),
            ) => Err(InterpretationError::Webhook {
                operation: request.operation(),
                kind: Arc::clone(&resource.gvk.kind),
                dialect: webhook.dialect,
                error,
            }),
            (answer, called) => {
                if let Err(error) = called {
                    let warning = format!("{error}; the next level answers");
                    self.warnings.lock().insert(warning);
                }
                decided(answer, request.operation(), resource)
            }
        }
    }
}

/// The refusal of a text that there is no memory to parse for.
fn not_reserved(error: &IntakeError) -> ApiError {
    match error {
        IntakeError::TooLarge(limit) | IntakeError::RequestTooLarge(limit) => {
            ApiError::TooLargeParsed(*limit)
        }
        other => no_memory(other),
    }
}

/// Who answers.
enum FirstLevel {
    /// A level that runs here has decided, or none has a rule.
    Decided(Result<Interpreted, InterpretationError>),
    /// This webhook, about objects of this resource.
    Webhook(Webhook, Resource),
}

fn first_level(levels: &Levels, request: &Request<'_>, resource: Resource) -> FirstLevel {
    match levels.answer(request, &resource) {
        LevelAnswer::AskWebhook(webhook) => FirstLevel::Webhook(webhook.clone(), resource),
        answer => FirstLevel::Decided(decided(answer, request.operation(), &resource)),
    }
}

fn decided(
    answer: LevelAnswer<'_>,
    operation: Operation,
    resource: &Resource,
) -> Result<Interpreted, InterpretationError> {
    match answer {
        LevelAnswer::Decided { by, result } => match result {
            Ok(response) => Ok(Interpreted {
                response,
                interpreted_by: by.to_string(),
            }),
            Err(error) => Err(InterpretationError::Rule {
                operation,
                kind: Arc::clone(&resource.gvk.kind),
                by,
                error,
            }),
        },
        LevelAnswer::NoRule | LevelAnswer::AskWebhook(_) => Err(InterpretationError::NoRule {
            operation,
            gvk: resource.gvk.clone(),
        }),
    }
}

/// Whether a call about another object would fail, too.
fn concerns_all_objects(error: &CallError) -> bool {
    let is_of_object = matches!(error.failure, CallFailure::Request(_));
    !is_of_object && error.contact() != Contact::Reached
}

/// The resource of an object: as it is registered, or by a guess of its plural, which webhooks may
/// name.
fn resource_of(catalog: &Catalog, request: &Request<'_>) -> Resource {
    let object = request.object();
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let gvk = Gvk::new(group, version, text("kind"));
    let is_same = |name: &ResourceName, kind: &str| *name.group == *group && *kind == *gvk.kind;
    let mut resources = catalog.resources();
    match resources.find(|registered| is_same(&registered.name, &registered.kind)) {
        Some(registered) => Resource {
            plural: Arc::clone(&registered.name.plural),
            namespaced: registered.namespaced,
            gvk,
        },
        None => guessed_resource(object),
    }
}

impl From<InterpretationError> for ApiError {
    fn from(failed: InterpretationError) -> Self {
        let message = failed.to_string();
        match failed {
            InterpretationError::NoRule { .. } | InterpretationError::Rule { .. } => {
                Self::Unprocessable(message)
            }
            InterpretationError::Webhook { dialect, error, .. } => {
                let (configuration, webhook) = error
                    .webhook
                    .split_once('/')
                    .unwrap_or((&error.webhook, ""));
                Self::from(WebhookFailure {
                    kind: dialect.configuration_kind(),
                    configuration: configuration.to_owned(),
                    webhook: webhook.to_owned(),
                    was_reached: error.contact() == Contact::Reached,
                    cause: error.failure.to_string(),
                    message,
                })
            }
            InterpretationError::NotRun(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;
