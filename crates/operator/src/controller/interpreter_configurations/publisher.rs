//! Makes rules of what has been read, whenever that changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_interpreter::rules::RuleSet;
use fleetdex_telemetry::Readiness;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    inputs::{RuleInputs, RuleObject, RuleObjectKey, SourceContents},
    source::{ConfigMapName, RuleSource},
};
use crate::interpreter_rules::{RuleProblem, acceptance::accepted, assemble};

/// The readiness check.
pub(super) const CHECK: &str = "interpreter configurations";
/// How long the first rules wait for sources that cannot be read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Changes within this time are handled together.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The objects of which rules were made.
#[derive(Debug, Default)]
pub(super) struct AssessedObjects(BTreeMap<RuleObjectKey, AssessedObject>);

#[derive(Debug)]
struct AssessedObject {
    content: Arc<Value>,
    problems: Vec<RuleProblem>,
}

impl AssessedObjects {
    /// What is wrong with an object; `None` if it has not been assessed in this version.
    pub(super) fn problems(
        &self,
        key: &RuleObjectKey,
        object: &RuleObject,
    ) -> Option<&[RuleProblem]> {
        let assessed = self.0.get(key)?;
        (assessed.content == object.content).then_some(&assessed.problems)
    }
}

/// Makes the rules, and publishes them.
pub(super) struct RulePublisher {
    pub(super) inputs: watch::Receiver<RuleInputs>,
    pub(super) rules: watch::Sender<Arc<RuleSet>>,
    pub(super) assessed: watch::Sender<Arc<AssessedObjects>>,
    /// How often rules were published.
    pub(super) version: watch::Sender<u64>,
    pub(super) argocd_health: Option<ConfigMapName>,
    pub(super) changed: Arc<Notify>,
    pub(super) readiness: Readiness,
}

impl RulePublisher {
    /// Publishes rules until aborted: the first once every source was listed or has had
    /// [`READ_TIMEOUT`].
    pub(super) async fn run(mut self) {
        let all_read = self.inputs.wait_for(RuleInputs::are_complete);
        if timeout(READ_TIMEOUT, all_read).await.is_err() {
            tracing::warn!(
                "objects are interpreted without the interpreter configurations that cannot be read; /readyz names them"
            );
        }
        let mut published: Option<BTreeMap<RuleObjectKey, Arc<Value>>> = None;
        loop {
            let inputs = self.inputs.borrow_and_update().clone();
            self.report_readiness(&inputs);
            let contents = inputs.contents();
            if published.as_ref() != Some(&contents) {
                self.publish(&contents).await;
                published = Some(contents);
            }
            if self.inputs.changed().await.is_err() {
                return;
            }
            sleep(DEBOUNCE).await;
        }
    }

    /// Compiling scripts may take long, so it does not block other tasks.
    async fn publish(&self, contents: &BTreeMap<RuleObjectKey, Arc<Value>>) {
        let objects: Vec<Arc<Value>> = contents.values().cloned().collect();
        let assembling = spawn_blocking(move || {
            let mut assembled = assemble(objects.iter().map(AsRef::as_ref));
            let problems = std::mem::take(&mut assembled.problems);
            (assembled.into_rules(), problems)
        });
        let (rules, problems) = match assembling.await {
            Ok(assembled) => assembled,
            Err(error) => {
                tracing::error!(%error, "cannot make rules of the interpreter configurations; the former rules stay in use");
                self.version.send_modify(|version| *version += 1);
                return;
            }
        };
        let assessed = contents
            .iter()
            .zip(problems)
            .map(|((key, content), problems)| {
                let content = Arc::clone(content);
                (key.clone(), AssessedObject { content, problems })
            });
        let assessed = AssessedObjects(assessed.collect());
        self.log_problems(&assessed);
        tracing::info!(
            objects = contents.len(),
            "interpreter configurations have changed"
        );
        self.assessed.send_replace(Arc::new(assessed));
        self.rules.send_replace(Arc::new(rules));
        // After the rules: who reads the version first reads rules that are at least as new.
        self.version.send_modify(|version| *version += 1);
        self.changed.notify_one();
    }

    /// Warns about every object of which a part is not in use, once for each version of it.
    fn log_problems(&self, assessed: &AssessedObjects) {
        let before = self.assessed.borrow();
        for (key, object) in &assessed.0 {
            let is_known = before
                .0
                .get(key)
                .is_some_and(|earlier| earlier.problems == object.problems);
            if !object.problems.is_empty() && !is_known {
                let (kind, problem) = (key.0.resource().kind, accepted(&object.problems).message);
                tracing::warn!(%kind, name = %key.1, %problem, "a part of an interpreter configuration is not in use");
            }
        }
    }

    /// A source that cannot be read only degrades readiness: its last objects stay in use, and
    /// without any the other levels answer.
    fn report_readiness(&self, inputs: &RuleInputs) {
        let unread: Vec<String> = inputs
            .0
            .iter()
            .filter_map(|(source, contents)| self.shortcoming(*source, contents))
            .collect();
        if unread.is_empty() {
            self.readiness.ready(CHECK);
        } else {
            self.readiness.degraded(CHECK, unread.join("; "));
        }
    }

    fn shortcoming(&self, source: RuleSource, contents: &SourceContents) -> Option<String> {
        let kind = source.resource().kind;
        let name = self
            .argocd_health
            .as_ref()
            .filter(|_| source == RuleSource::ArgoHealth);
        let name = name.map_or(kind.clone(), |name| format!("{kind} {name}"));
        match (&contents.error, &contents.objects) {
            (Some(error), _) => Some(format!("{name}: {error}")),
            (None, None) => Some(format!("{name}: the control plane does not respond")),
            (None, Some(objects)) => {
                let is_missing = source == RuleSource::ArgoHealth && objects.is_empty();
                is_missing.then(|| format!("{name}: there is no such object"))
            }
        }
    }
}
