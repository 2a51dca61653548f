//! What operations and objects of one plan are kept for the next one.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fleetdex_distribution::{
    cluster::TargetCluster,
    desired::{DistributedObject, Operations},
    division::Shares,
    object_text::ObjectText,
    template_name::{KindName, NamedTemplate, TemplateName},
};
use fleetdex_interpreter::{
    Operation, Request, Response, native::TEMPLATE_GENERATION_ANNOTATION, rules::RuleSet,
    value::text,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{Interpreting, OperationAnswer, OperationQuestion, first_answer};

/// Questions to webhooks under way.
const CONCURRENT_CALLS: usize = 16;
/// How long a plan waits for answers; others come later.
const PATIENCE: Duration = Duration::from_secs(2);
/// After how long a webhook that failed is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

struct KnownAnswer {
    answer: OperationAnswer,
    asked: Instant,
    is_used: bool,
}

/// What was made of a template before.
struct TemplateMemo {
    object: Arc<Value>,
    answers: HashMap<Operation, OperationAnswer>,
    desired: HashMap<String, (DesiredKey, ObjectText)>,
    /// The completions of Jobs are divided by all shares.
    is_job: bool,
    is_used: bool,
}

/// What was made of templates before. The address of an object says which it is: it is not
/// another one's while the memo holds the object.
#[derive(Default)]
struct TemplateMemos {
    memos: HashMap<usize, TemplateMemo>,
    addresses: BTreeMap<TemplateName, usize>,
}

impl TemplateMemos {
    /// Keeps what was made of an object that has not changed, although it was read again.
    fn begin(&mut self, NamedTemplate { name, object }: &NamedTemplate) {
        let address = address(object);
        if let Some(memo) = self.memos.get_mut(&address) {
            memo.is_used = true;
            return;
        }
        let before = self.addresses.insert(name.clone(), address);
        // While a set is rolled out, a plan has two objects of one name.
        let is_unused = |before: &usize| self.memos.get(before).is_some_and(|memo| !memo.is_used);
        let before = before.filter(is_unused);
        let before = before.and_then(|before| self.memos.remove(&before));
        let memo = match before {
            Some(memo) if memo.object == *object => TemplateMemo {
                object: Arc::clone(object),
                is_used: true,
                ..memo
            },
            _ => TemplateMemo {
                object: Arc::clone(object),
                answers: HashMap::new(),
                desired: HashMap::new(),
                is_job: text(&**object, &["kind"]) == "Job",
                is_used: true,
            },
        };
        self.memos.insert(address, memo);
    }

    fn forget_unused(&mut self) {
        self.memos
            .retain(|_, memo| std::mem::take(&mut memo.is_used));
        let Self { memos, addresses } = self;
        addresses.retain(|_, address| memos.contains_key(address));
    }
}

fn address(object: &Value) -> usize {
    std::ptr::from_ref(object).addr()
}

/// What the object of a cluster depends on, besides its template, the cluster and the policies.
#[derive(Clone, Debug, PartialEq)]
struct DesiredKey {
    share: Option<i64>,
    /// Of a Job the shares of all clusters.
    shares: Option<Shares>,
    is_divided: bool,
}

/// What is kept from one plan to the next. To be dropped when rules, override policies or the
/// properties of clusters are other ones.
#[derive(Default)]
pub struct PlanMemory {
    templates: RefCell<TemplateMemos>,
    answers: RefCell<HashMap<String, KnownAnswer>>,
    open: RefCell<HashMap<String, OperationQuestion>>,
    /// The kinds of what templates need.
    required: RefCell<BTreeSet<KindName>>,
    /// The questions that are being asked.
    asked: BTreeSet<String>,
    asking: JoinSet<(String, OperationAnswer)>,
    permits: CallPermits,
}

/// Bounds the questions under way.
struct CallPermits(Arc<Semaphore>);

impl Default for CallPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CONCURRENT_CALLS)))
    }
}

impl PlanMemory {
    /// Forgets what depends on rules, override policies and properties of clusters.
    pub fn forget_made(&mut self) {
        *self.templates.get_mut() = TemplateMemos::default();
    }

    /// Forgets what webhooks have answered.
    pub fn forget_answers(&mut self) {
        self.answers.get_mut().clear();
        self.asking = JoinSet::new();
        self.asked.clear();
    }

    /// Forgets what the last plan did not use.
    pub fn forget_unused(&mut self) {
        self.templates.get_mut().forget_unused();
        self.answers
            .get_mut()
            .retain(|_, known| std::mem::take(&mut known.is_used));
    }

    /// The kinds of what templates need, by the last plan.
    pub fn required_kinds(&self) -> BTreeSet<KindName> {
        self.required.borrow().clone()
    }

    /// Whether the last plan has questions.
    pub fn has_questions(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Asks the questions of the last plan, and waits some time for the answers. Returns whether
    /// there are new ones; `changed` is notified of those that come later.
    pub async fn ask(&mut self, interpreting: &Interpreting, changed: &Arc<Notify>) -> bool {
        let open = std::mem::take(self.open.get_mut());
        let mut has_new = false;
        for (key, question) in open {
            if !self.asked.insert(key.clone()) {
                continue;
            }
            has_new = true;
            let (interpreting, changed) = (interpreting.clone(), Arc::clone(changed));
            let permits = Arc::clone(&self.permits.0);
            self.asking.spawn(async move {
                let rules = interpreting.rules();
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                let answer = interpreting.ask(&question, &rules).await;
                changed.notify_one();
                (key, answer)
            });
        }
        let mut has_answers = false;
        // A webhook that hangs delays no plan but the one that asks first.
        let patience = if has_new { PATIENCE } else { Duration::ZERO };
        let deadline = Instant::now() + patience;
        while let Ok(Some(ended)) = timeout_at(deadline, self.asking.join_next()).await {
            let Ok((key, answer)) = ended else {
                continue;
            };
            self.asked.remove(&key);
            let known = KnownAnswer {
                answer,
                asked: Instant::now(),
                is_used: true,
            };
            self.answers.get_mut().insert(key, known);
            has_answers = true;
        }
        has_answers
    }
}

/// Answers operations of one plan.
pub struct PlanOperations<'m> {
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// What is known from plans before.
    pub memory: &'m PlanMemory,
}

impl PlanOperations<'_> {
    fn answer(&self, request: &Request<'_>) -> OperationAnswer {
        first_answer(self.rules.levels(), request).unwrap_or_else(|| self.of_webhook(request))
    }

    fn of_webhook(&self, request: &Request<'_>) -> OperationAnswer {
        let question = OperationQuestion::of(request);
        let key = question.key();
        if let Some(known) = self.memory.answers.borrow_mut().get_mut(&key) {
            known.is_used = true;
            if known.answer.is_ok() || known.asked.elapsed() < ASK_AGAIN {
                return known.answer.clone();
            }
        }
        self.memory.open.borrow_mut().insert(key, question);
        Err("its webhook has not answered yet".to_owned())
    }

    fn kept_answer(&self, request: &Request<'_>) -> OperationAnswer {
        let is_kept = matches!(
            request,
            Request::Replica { .. } | Request::Component { .. } | Request::Dependency { .. }
        );
        let (object, operation) = (request.object(), request.operation());
        if !is_kept {
            return self.answer(request);
        }
        let known = self.with_memo(object, |memo| memo.answers.get(&operation).cloned());
        if let Some(Some(answer)) = known {
            return answer;
        }
        let answer = self.answer(request);
        if answer.is_ok() {
            self.with_memo(object, |memo| {
                memo.answers.insert(operation, answer.clone())
            });
        }
        answer
    }

    /// What is kept of a template; forgotten if the template is another one.
    fn with_memo<T>(&self, object: &Value, read: impl FnOnce(&mut TemplateMemo) -> T) -> Option<T> {
        let mut templates = self.memory.templates.borrow_mut();
        templates.memos.get_mut(&address(object)).map(read)
    }

    /// Begins a plan with these templates: what was made of one that has not changed is kept.
    pub fn begin<'t>(&self, templates: impl IntoIterator<Item = &'t NamedTemplate>) {
        self.memory.required.borrow_mut().clear();
        self.go_on(templates);
    }

    /// Goes on with templates of the last plan that are others now.
    pub fn go_on<'t>(&self, templates: impl IntoIterator<Item = &'t NamedTemplate>) {
        let mut memos = self.memory.templates.borrow_mut();
        for template in templates {
            memos.begin(template);
        }
    }
}

/// Notes of which generation of its template a copy is, for the rules that sum up statuses.
fn set_generation(template: &Value, object: &mut Value) {
    let generation = &template["metadata"]["generation"];
    if generation.is_null() {
        return;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if annotations.is_object() {
            annotations[TEMPLATE_GENERATION_ANNOTATION] = generation.to_string().into();
        }
    }
}

impl Operations for PlanOperations<'_> {
    fn run(&self, request: &Request<'_>) -> OperationAnswer {
        let answer = self.kept_answer(request);
        if let Ok(Some(Response::Dependencies(dependencies))) = &answer {
            let kinds = dependencies.iter();
            let kinds = kinds.map(|one| (one.api_version.clone(), one.kind.clone()));
            self.memory.required.borrow_mut().extend(kinds);
        }
        answer
    }

    fn desired(
        &self,
        template: &DistributedObject<'_>,
        cluster: &TargetCluster,
        make: &dyn Fn() -> Result<Value, String>,
    ) -> Result<ObjectText, String> {
        let share = template.shares.and_then(|shares| shares.get(&cluster.name));
        let key = |memo: &TemplateMemo| DesiredKey {
            share: share.copied(),
            shares: template.shares.filter(|_| memo.is_job).cloned(),
            is_divided: template.is_divided,
        };
        let known = self.with_memo(template.object, |memo| {
            let (made_by, object) = memo.desired.get(&cluster.name)?;
            (*made_by == key(memo)).then(|| object.clone())
        });
        if let Some(Some(object)) = known {
            return Ok(object);
        }
        let mut object = make()?;
        set_generation(template.object, &mut object);
        let object = ObjectText::from(&object);
        self.with_memo(template.object, |memo| {
            let made = (key(memo), object.clone());
            memo.desired.insert(cluster.name.clone(), made)
        });
        Ok(object)
    }
}
