//! The rules that hold for one kind: what the indexing path asks.
//!
//! Built-in rules and scripts answer at once. Where a webhook answers, the interpretation says that
//! it is awaited, and is made again with its answer ([`KindRules::interpret_with`]).

use std::{
    cell::LazyCell,
    collections::BTreeMap,
    fmt, iter,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fleetdex_core::model::{
    Interpret, Interpretation, InterpretationLevel, JsonTree, MemberMask, Resource,
};
use serde_json::{Value, json};

use crate::{
    InterpretError, Operation, Request, Response,
    customization::CustomizationSet,
    health::{self, Assessment, Health, KnownStatus, deletion, generic},
    image,
    levels::{AnsweringLevel, LevelAnswer, Levels},
    native, reads,
    relations::ObjectReference,
    request::{DependentObject, ReplicaRequirements},
    script::{ArgoHealth, ScriptCompiler, sandbox},
    summary::summarize,
    webhook::configuration::{Webhook, select},
};

mod script_suspension;

use script_suspension::OverrunScores;
pub use script_suspension::SuspendedScript;

/// Changes whenever the built-in rules do, so that documents made by older ones are made again.
/// `tests/pure/built_in_rules.rs` fails if it does not.
const BUILT_IN_RULES: &str = "5";
/// What documents show of an object.
const SHOWN: [Operation; 3] = [
    Operation::InterpretHealth,
    Operation::InterpretReplica,
    Operation::InterpretDependency,
];
/// Dependencies of an object at most, with those that a script or webhook names.
const MAX_DEPENDENCIES: usize = 2_000;

/// What is configured about interpreters, at one time.
#[derive(Debug, Default)]
pub struct RuleSet {
    customizations: CustomizationSet,
    argocd: ArgoHealth,
    webhooks: Vec<Webhook>,
    levels: Arc<Levels>,
}

/// The rules for one kind. They are equal if they give the same results.
#[derive(Clone)]
pub struct KindRules(Arc<KindRulesInner>);

struct KindRulesInner {
    resource: Resource,
    /// What is known of the status of its objects.
    known_status: KnownStatus,
    /// Whether an object was seen that has one.
    has_seen_status: AtomicBool,
    /// The levels above the built-in rules; `None` if these decide alone.
    levels: Option<Arc<Levels>>,
    /// Whether there are scripts among the levels.
    has_scripts: bool,
    webhooks: Vec<KindWebhook>,
    /// What the rules read. An answer of a webhook was made from the whole object.
    reads: MemberMask,
    /// The scripts that are not run.
    suspended: BTreeMap<Operation, SuspendedScript>,
    overruns: OverrunScores,
    /// Of what is configured.
    configured_hash: String,
    /// The same, with what is suspended and what is known of the status.
    hash: String,
}

/// A webhook that answers for a kind.
#[derive(Clone, Debug)]
pub struct KindWebhook {
    /// The webhook.
    pub webhook: Arc<Webhook>,
    /// What it is asked about each object.
    pub operations: Vec<Operation>,
}

impl KindWebhook {
    fn identity(&self) -> Value {
        let Self {
            webhook,
            operations,
        } = self;
        let operations = operations.iter().map(|operation| operation.name());
        json!([webhook.identity(), operations.collect::<Vec<_>>()])
    }
}

/// What webhooks have answered about an object, or why they have not.
pub type WebhookAnswers = BTreeMap<Operation, Result<Response, String>>;

impl RuleSet {
    /// The rules of a configuration.
    pub fn new(
        customizations: CustomizationSet,
        argocd: ArgoHealth,
        webhooks: Vec<Webhook>,
    ) -> Self {
        Self::compiled_by(
            &mut ScriptCompiler::default(),
            customizations,
            argocd,
            webhooks,
        )
    }

    /// The same with a compiler that may have compiled some of the scripts already.
    pub fn compiled_by(
        compiler: &mut ScriptCompiler,
        customizations: CustomizationSet,
        argocd: ArgoHealth,
        webhooks: Vec<Webhook>,
    ) -> Self {
        let levels = Levels::built_in()
            .with_customizations_by(compiler, &customizations)
            .with_argocd(argocd.clone())
            .with_webhooks(webhooks.iter().cloned());
        Self {
            customizations,
            argocd,
            webhooks,
            levels: Arc::new(levels),
        }
    }

    /// All levels, for operations on single objects.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The rules for the objects of a resource; `None` if they are not interpreted. `has_status`:
    /// whether the member serves its `status` subresource.
    pub fn of_kind(
        &self,
        resource: &Resource,
        has_status: bool,
        level: InterpretationLevel,
    ) -> Option<KindRules> {
        let mut hash = format!("{BUILT_IN_RULES} {has_status}");
        let mut inner = KindRulesInner {
            resource: resource.clone(),
            known_status: known_status(resource, has_status),
            has_seen_status: AtomicBool::default(),
            levels: None,
            has_scripts: false,
            webhooks: Vec::new(),
            reads: reads::of_kind(&resource.gvk),
            suspended: BTreeMap::new(),
            overruns: OverrunScores::default(),
            configured_hash: String::new(),
            hash: String::new(),
        };
        match level {
            InterpretationLevel::Off => return None,
            InterpretationLevel::BuiltIn => {}
            InterpretationLevel::All => {
                let scripts = self.scripts_of(resource);
                inner.has_scripts = !scripts.is_empty();
                inner.webhooks = self.webhooks_of(resource);
                if inner.has_scripts || !inner.webhooks.is_empty() {
                    inner.levels = Some(Arc::clone(&self.levels));
                    if inner.has_scripts {
                        inner.reads = MemberMask::everything().clone();
                    }
                    let webhooks: Vec<Value> =
                        inner.webhooks.iter().map(KindWebhook::identity).collect();
                    hash = format!("{hash} {}", json!([scripts, webhooks]));
                }
            }
        }
        inner.configured_hash = short_hash(&hash);
        inner.hash = inner.hash_in_use();
        Some(KindRules(Arc::new(inner)))
    }

    /// The scripts that documents of a kind depend on.
    fn scripts_of(&self, resource: &Resource) -> Vec<&str> {
        let gvk = &resource.gvk;
        let customizations = SHOWN
            .into_iter()
            .flat_map(|operation| self.customizations.scripts(gvk, operation))
            .map(|script| &*script.text);
        let health = Operation::InterpretHealth;
        let argocd = self
            .argocd
            .script_for(&gvk.group, &gvk.kind)
            .filter(|_| self.customizations.scripts(gvk, health).is_empty());
        let argocd = argocd.into_iter().map(|script| script.text());
        customizations.chain(argocd).collect()
    }

    /// The webhooks that answer for documents of a kind, unless a script answers before them.
    fn webhooks_of(&self, resource: &Resource) -> Vec<KindWebhook> {
        let gvk = &resource.gvk;
        let mut found: Vec<KindWebhook> = Vec::new();
        for operation in SHOWN {
            if !self.customizations.scripts(gvk, operation).is_empty() {
                continue;
            }
            let Some(webhook) = select(&self.webhooks, operation, resource) else {
                continue;
            };
            match found
                .iter_mut()
                .find(|known| known.webhook.id == webhook.id)
            {
                Some(known) => known.operations.push(operation),
                None => found.push(KindWebhook {
                    webhook: Arc::new(webhook.clone()),
                    operations: vec![operation],
                }),
            }
        }
        found
    }
}

impl KindRules {
    /// Identifies the rules, with the scripts that are suspended.
    pub fn hash(&self) -> &str {
        &self.0.hash
    }

    /// Identifies the rules as they are configured.
    pub fn configured_hash(&self) -> &str {
        &self.0.configured_hash
    }

    /// The scripts that are suspended.
    pub fn suspended_scripts(&self) -> &BTreeMap<Operation, SuspendedScript> {
        &self.0.suspended
    }

    /// Whether a script is to be suspended.
    pub fn have_exhausted_script(&self) -> bool {
        self.0.levels.is_some() && self.0.overruns.is_exhausted()
    }

    /// The scripts that reach their limits so often that they are to be suspended.
    pub fn exhausted_scripts(&self) -> BTreeMap<Operation, SuspendedScript> {
        self.0.overruns.exhausted()
    }

    /// The rules without these scripts: what they would answer is unknown. No run is counted yet.
    #[must_use]
    pub fn suspending(&self, suspended: BTreeMap<Operation, SuspendedScript>) -> Self {
        self.changed(suspended, self.0.known_status)
    }

    /// Whether an object was seen that has a status, so that [`Self::of_written_status`] hold.
    pub fn have_seen_status(&self) -> bool {
        self.0.known_status == KnownStatus::NeverWritten
            && self.0.has_seen_status.load(Ordering::Relaxed)
    }

    /// Notes that an object of the kind has, or had, a status.
    pub fn note_status(&self) {
        self.0.has_seen_status.store(true, Ordering::Relaxed);
    }

    /// The rules that hold once any object of the kind has had a status: one without waits for its
    /// own. `None` if these rules know already, or need not.
    pub fn of_written_status(&self) -> Option<Self> {
        let is_never_written = self.0.known_status == KnownStatus::NeverWritten;
        is_never_written.then(|| self.changed(self.0.suspended.clone(), KnownStatus::Written))
    }

    /// Whether they hold for a kind of which an object has had a status, which others do not know.
    pub fn know_of_status(&self) -> bool {
        let resource = &self.0.resource;
        self.0.known_status == KnownStatus::Written
            && health::depends_on_known_status(&resource.gvk)
    }

    fn changed(
        &self,
        suspended: BTreeMap<Operation, SuspendedScript>,
        known_status: KnownStatus,
    ) -> Self {
        let rules = &self.0;
        let mut inner = KindRulesInner {
            resource: rules.resource.clone(),
            known_status,
            has_seen_status: AtomicBool::default(),
            levels: rules.levels.clone(),
            has_scripts: rules.has_scripts,
            webhooks: rules.webhooks.clone(),
            reads: rules.reads.clone(),
            suspended,
            overruns: OverrunScores::default(),
            configured_hash: rules.configured_hash.clone(),
            hash: String::new(),
        };
        inner.hash = inner.hash_in_use();
        Self(Arc::new(inner))
    }

    /// The webhooks that are asked about each object.
    pub fn webhooks(&self) -> &[KindWebhook] {
        &self.0.webhooks
    }

    /// What an object means, with what webhooks have answered so far.
    pub fn interpret_with(
        &self,
        object: &JsonTree<'_>,
        answers: &WebhookAnswers,
    ) -> Interpretation {
        let rules = &self.0;
        if rules.known_status == KnownStatus::NeverWritten
            && generic::written_status(object).is_some()
        {
            self.note_status();
        }
        let mut found = built_in(object, rules.known_status);
        if let Some(levels) = &rules.levels {
            let value = LazyCell::new(|| Value::from(object));
            for operation in SHOWN {
                if let Some(answer) = rules.answer_without_scripts(operation, answers) {
                    apply(&mut found, operation, answer);
                } else if let Some(request) = Request::about(operation, &value) {
                    let answer = rules.answer(levels, &request, answers);
                    apply(&mut found, operation, answer);
                }
            }
        }
        if found.interpreted_by.is_empty() {
            found
                .interpreted_by
                .push(AnsweringLevel::BuiltIn.to_string());
        }
        found
    }
}

impl PartialEq for KindRules {
    fn eq(&self, other: &Self) -> bool {
        self.0.resource == other.0.resource && self.hash() == other.hash()
    }
}

impl fmt::Debug for KindRules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rules {} of {}", self.hash(), self.0.resource.gvk)
    }
}

impl Interpret for KindRules {
    fn reads(&self) -> &MemberMask {
        &self.0.reads
    }

    fn interpret(&self, object: &JsonTree<'_>) -> Interpretation {
        self.interpret_with(object, &WebhookAnswers::new())
    }
}

/// What a level above the built-in rules says.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is made"
)]
enum KindAnswer {
    /// The built-in rules decide.
    BuiltIn,
    /// A level has decided.
    Decided(AnsweringLevel, Result<Response, InterpretError>),
    /// The script of this level would decide.
    Suspended(AnsweringLevel, InterpretError),
    /// This webhook has not answered yet.
    Awaited(AnsweringLevel),
}

/// What is known of the status of a kind before any of its objects is seen.
fn known_status(resource: &Resource, has_status: bool) -> KnownStatus {
    if !has_status {
        KnownStatus::Absent
    } else if health::depends_on_known_status(&resource.gvk) {
        KnownStatus::NeverWritten
    } else {
        KnownStatus::Written
    }
}

impl KindRulesInner {
    fn hash_in_use(&self) -> String {
        let operations = self.suspended.keys().map(|operation| operation.name());
        let operations: Vec<&str> = operations.collect();
        let is_never_written = self.known_status == KnownStatus::NeverWritten;
        if operations.is_empty() && !is_never_written {
            return self.configured_hash.clone();
        }
        let configured = &self.configured_hash;
        short_hash(&json!([configured, operations, is_never_written]).to_string())
    }

    /// What is known without a look at the object: `None` if there are scripts, or the answer of a
    /// webhook to apply.
    fn answer_without_scripts(
        &self,
        operation: Operation,
        answers: &WebhookAnswers,
    ) -> Option<KindAnswer> {
        if self.has_scripts {
            return None;
        }
        let mut webhooks = self.webhooks.iter();
        let Some(asked) = webhooks.find(|asked| asked.operations.contains(&operation)) else {
            return Some(KindAnswer::BuiltIn);
        };
        let id = asked.webhook.id.as_str().into();
        (!answers.contains_key(&operation))
            .then_some(KindAnswer::Awaited(AnsweringLevel::Webhook(id)))
    }

    /// What the levels say, without the scripts that are suspended. Counts the run of a script.
    fn answer(
        &self,
        levels: &Levels,
        request: &Request<'_>,
        answers: &WebhookAnswers,
    ) -> KindAnswer {
        let operation = request.operation();
        if let Some(script) = self.suspended.get(&operation) {
            // A pending deletion counts more than what a script says.
            if let Request::Health { object } = request
                && deletion::assess(*object).is_some()
            {
                return KindAnswer::BuiltIn;
            }
            return KindAnswer::Suspended(script.by.clone(), script.error(operation));
        }
        drop(sandbox::take_last_run());
        let answer = answer(levels, request, &self.resource, answers);
        match (sandbox::take_last_run(), &answer) {
            (Some(Err(limit)), KindAnswer::Decided(by, _)) => {
                let script = SuspendedScript {
                    by: by.clone(),
                    limit,
                };
                self.overruns.add(operation, script);
            }
            (Some(_), _) => self.overruns.ended_well(operation),
            (None, _) => {}
        }
        answer
    }
}

fn answer(
    levels: &Levels,
    request: &Request<'_>,
    resource: &Resource,
    answers: &WebhookAnswers,
) -> KindAnswer {
    let mut answer = levels.answer(request, resource);
    if let LevelAnswer::AskWebhook(webhook) = answer {
        let Some(result) = answers.get(&request.operation()) else {
            return KindAnswer::Awaited(AnsweringLevel::Webhook(webhook.id.as_str().into()));
        };
        answer = levels.after_webhook(webhook, request, result.clone());
    }
    match answer {
        LevelAnswer::Decided {
            by: AnsweringLevel::BuiltIn,
            ..
        }
        | LevelAnswer::NoRule
        | LevelAnswer::AskWebhook(_) => KindAnswer::BuiltIn,
        LevelAnswer::Decided { by, result } => KindAnswer::Decided(by, result),
    }
}

/// What the built-in rules say, all of it.
fn built_in(object: &JsonTree<'_>, status: KnownStatus) -> Interpretation {
    let summary = summarize(object, status);
    Interpretation {
        images: image_terms(summary.images),
        ..summary
    }
}

fn apply(found: &mut Interpretation, operation: Operation, answer: KindAnswer) {
    let by = match answer {
        KindAnswer::BuiltIn => return,
        KindAnswer::Awaited(by) => {
            if operation == Operation::InterpretHealth {
                let message = format!("{by} has not answered yet");
                unknown(found, "AwaitingWebhook", &message);
            }
            by
        }
        KindAnswer::Decided(by, Ok(response)) => {
            apply_response(found, response);
            by
        }
        KindAnswer::Decided(by, Err(error)) => {
            apply_failure(found, operation, "InterpretationFailed", &error);
            by
        }
        KindAnswer::Suspended(by, error) => {
            apply_failure(found, operation, "ScriptSuspended", &error);
            by
        }
    };
    for name in by.names() {
        if !found.interpreted_by.contains(&name) {
            found.interpreted_by.push(name);
        }
    }
}

fn apply_failure(
    found: &mut Interpretation,
    operation: Operation,
    reason: &str,
    error: &InterpretError,
) {
    match operation {
        Operation::InterpretHealth => unknown(found, reason, &error.to_string()),
        Operation::InterpretReplica => forget_replicas(found),
        _ => {}
    }
}

fn apply_response(found: &mut Interpretation, response: Response) {
    match response {
        Response::Health { assessment, .. } => set_health(found, assessment),
        Response::Replica {
            replicas,
            requirements,
        } => {
            forget_replicas(found);
            found.desired_replicas = Some(replicas);
            if let Some(requirements) = requirements {
                add_requests(found, replicas, &requirements);
            }
        }
        Response::Dependencies(dependencies) => add_dependencies(found, dependencies),
        _ => {}
    }
}

fn unknown(found: &mut Interpretation, reason: &str, message: &str) {
    set_health(found, Assessment::new(Health::Unknown, reason, message));
}

fn set_health(found: &mut Interpretation, assessment: Assessment) {
    found.health = assessment.health.as_str();
    found.health_reason = assessment.reason;
    found.health_message = assessment.message;
}

/// Forgets the replicas that the built-in rules guess; the ready ones are counted in the status,
/// which no operation is about.
fn forget_replicas(found: &mut Interpretation) {
    found.desired_replicas = None;
    found.cpu = None;
    found.memory = None;
}

#[expect(clippy::cast_precision_loss, reason = "no object has so many replicas")]
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn add_requests(found: &mut Interpretation, replicas: i64, requirements: &ReplicaRequirements) {
    let requested = |name: &str| {
        let text = requirements.resource_request.get(name)?;
        let text = text
            .as_str()
            .map_or_else(|| text.to_string(), str::to_owned);
        native::quantity::to_number(&text).ok()
    };
    found.cpu = requested("cpu").map(|cores| cores * replicas as f64);
    found.memory = requested("memory").map(|bytes| (bytes * replicas as f64) as i64);
}

fn add_dependencies(found: &mut Interpretation, dependencies: Vec<DependentObject>) {
    for dependency in dependencies {
        let reference = ObjectReference::of_dependency(dependency, "dependsOn");
        let Some(term) = reference.map(|reference| reference.term()) else {
            continue;
        };
        if found.dependencies.len() < MAX_DEPENDENCIES && !found.dependencies.contains(&term) {
            found.dependencies.push(term);
        }
    }
}

/// Images as they are written, and the terms that they are found by.
fn image_terms(images: Vec<String>) -> Vec<String> {
    let mut terms = Vec::new();
    for image in images {
        let found = image::terms(&image);
        for term in iter::once(image).chain(found) {
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
    }
    terms
}

/// A hash that stays the same between builds of one release.
fn short_hash(text: &str) -> String {
    // FNV-1a: short, and the same on every machine.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}
