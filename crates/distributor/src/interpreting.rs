//! Runs the operations of resource interpreters for distribution.
//!
//! Planning is a pure function, and webhooks take time. So a plan that needs an answer of a webhook
//! notes the question; the questions are asked, and the plan is made again.

use std::sync::Arc;

use fleetdex_distribution::marks;
use fleetdex_interpreter::{
    Operation, Request, Response,
    levels::{LevelAnswer, Levels},
    request::AggregatedStatusItem,
    rules::RuleSet,
    webhook::configuration::guessed_resource,
};
use fleetdex_webhooks::client::CallWebhook;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::blocking::run_blocking;

mod plan_memory;

pub use plan_memory::{PlanMemory, PlanOperations};

/// An operation with what it is about.
#[derive(Clone, Debug)]
pub struct OperationQuestion {
    operation: Operation,
    object: Arc<Value>,
    /// The observed object, of a retention.
    observed: Option<Value>,
    replicas: i64,
    items: Vec<AggregatedStatusItem>,
}

impl OperationQuestion {
    /// An operation that looks at nothing but an object.
    pub fn about(operation: Operation, object: Arc<Value>) -> Self {
        Self {
            operation,
            object,
            observed: None,
            replicas: 0,
            items: Vec::new(),
        }
    }

    /// The same operation on values of its own.
    pub fn of(request: &Request<'_>) -> Self {
        let object = Arc::new(request.object().clone());
        let mut question = Self::about(request.operation(), object);
        match request {
            Request::Retain { observed, .. } => question.observed = Some((*observed).clone()),
            Request::Revise { replicas, .. } => question.replicas = *replicas,
            Request::AggregateStatus { items, .. } => question.items = items.to_vec(),
            _ => {}
        }
        question
    }

    fn request(&self) -> Request<'_> {
        let object = &self.object;
        match self.operation {
            Operation::Retain => Request::Retain {
                desired: object,
                observed: self.observed.as_ref().unwrap_or(&Value::Null),
            },
            Operation::ReviseReplica => Request::Revise {
                object,
                replicas: self.replicas,
            },
            Operation::AggregateStatus => Request::AggregateStatus {
                object,
                items: &self.items,
            },
            other => Request::about(other, object).unwrap_or(Request::Status { object }),
        }
    }

    fn key(&self) -> String {
        let items = json!(self.items);
        marks::hash(&json!([
            self.operation.name(),
            self.object,
            self.observed,
            self.replicas,
            items
        ]))
    }
}

type OperationAnswer = Result<Option<Response>, String>;

/// Rules and webhooks.
#[derive(Clone)]
pub struct Interpreting {
    rules: watch::Receiver<Arc<RuleSet>>,
    webhooks: Arc<dyn CallWebhook>,
}

impl Interpreting {
    /// By the rules that a channel publishes.
    pub fn new(rules: watch::Receiver<Arc<RuleSet>>, webhooks: Arc<dyn CallWebhook>) -> Self {
        Self { rules, webhooks }
    }

    /// The rules, as they are now.
    pub fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.borrow())
    }

    /// Runs an operation. Scripts take the processor until their limits end them, so that they run
    /// on a thread that may be blocked.
    pub async fn run(&self, question: OperationQuestion) -> OperationAnswer {
        let rules = self.rules();
        let run = run_blocking(move || {
            let first = first_answer(rules.levels(), &question.request());
            (question, rules, first)
        });
        let Ok((question, rules, first)) = run.await else {
            return Err("an operation was aborted".to_owned());
        };
        match first {
            Some(answer) => answer,
            None => self.ask(&question, &rules).await,
        }
    }

    async fn ask(&self, question: &OperationQuestion, rules: &RuleSet) -> OperationAnswer {
        let request = question.request();
        let resource = guessed_resource(question.request().object());
        let LevelAnswer::AskWebhook(webhook) = rules.levels().answer(&request, &resource) else {
            return Err("its webhook is not configured any more".to_owned());
        };
        let called = self.webhooks.call(webhook, &request).await;
        let result = called.map_err(|error| error.failure.to_string());
        let answer = rules.levels().after_webhook(webhook, &request, result);
        known(answer).unwrap_or(Ok(None))
    }
}

/// The answer of a rule that runs here; `None`: a webhook decides.
fn first_answer(levels: &Levels, request: &Request<'_>) -> Option<OperationAnswer> {
    known(levels.answer(request, &guessed_resource(request.object())))
}

/// `None`: a webhook decides.
fn known(answer: LevelAnswer<'_>) -> Option<OperationAnswer> {
    match answer {
        LevelAnswer::Decided { result, .. } => {
            Some(result.map(Some).map_err(|error| error.to_string()))
        }
        LevelAnswer::AskWebhook(_) => None,
        LevelAnswer::NoRule => Some(Ok(None)),
    }
}
