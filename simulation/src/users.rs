//! People who read lists in pages, and would read more than they may: tokens of others, of other questions, changed and old ones, and lists that they
//! begin and leave alone. Some read slowly, or not at all.
//!
//! What they are shown goes through the server's own code for lists, over an engine of its own on the simulated OpenSearch. Whatever they do,
//! and whatever fails meanwhile, nobody sees what they may not, and no token does more than it was made for.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use fleetdex_core::{
    model::{ClusterName, Gvk, IndexPrefix, StoreName},
    query::{Grant, Permitted, Query, Requester, ResourceName, Selectable},
};
use fleetdex_server::{
    Caller,
    auth::limits::{LimitArgs, RequestLimits},
    continue_token::{self, SealingKeys, TokenBinding},
    list,
    query_plan::QueryPlan,
    representation::{Encoding, OutputKind, Representation},
    request::{self, ApiRequest, ListRequest},
    status::ApiError,
    uri::RequestUri,
};
use fleetdex_store::{
    IndexReader,
    merged::{Merged, StorePart},
    opensearch::Answers,
};
use fleetdex_telemetry::Metrics;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    opensearch::OpenSearch,
    selection::{KINDS, NAMESPACES, STEADY},
};

/// Where each object of an answer says which cluster has it.
const CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
/// Tokens that they remember.
const TOKENS: usize = 24;
/// How long they wait at most until they do the next thing.
const PAUSE_MILLIS: u64 = 6_000;
/// Lists that one of them begins and leaves alone, once all faults are over: more than a user's share.
const FLOOD: usize = 130;
/// Contexts that may be open after lists have been cut off: what the operator itself may be reading from.
const OPEN: u64 = 20;
/// Requests that the server answers at a time.
const PLACES: u32 = 12;
/// Answers that they leave unread at a time while things fail. One user may have all of them and still gets a place for a further request.
const UNREAD: usize = 4;
/// How long a place may take to be given to a user who is entitled to it.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Older than any token may be, in seconds.
const OLD: i64 = 400;

/// What they ask; the labels are those of the objects that the simulation writes.
const QUESTIONS: [&str; 4] = [
    "limit=1",
    "limit=2&labelSelector=tier%3Dweb",
    "limit=3&namespaces=red,green,steady",
    "limit=2&orderBy=name",
];

/// Somebody who asks.
struct User {
    caller: Caller,
    permitted: Permitted,
}

/// A token that somebody has got.
#[derive(Clone)]
struct Held {
    user: usize,
    question: usize,
    text: String,
}

/// What a token is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Genuine,
    OfAnother,
    ForAnotherQuestion,
    WithOtherRights,
    Changed,
    Invented,
    Old,
}

const USES: [Use; 8] = [
    Use::Genuine,
    Use::Genuine,
    Use::OfAnother,
    Use::ForAnotherQuestion,
    Use::WithOtherRights,
    Use::Changed,
    Use::Invented,
    Use::Old,
];

/// A whole list that is read slowly. It has a place until it is dropped.
struct Unread {
    user: usize,
    question: usize,
    /// Locked by nobody: a body may be sent to another thread, and not shared.
    body: Mutex<UnsyncBoxBody<Bytes, String>>,
    read: Vec<u8>,
}

/// Everybody who asks.
pub struct Users {
    store: Arc<dyn IndexReader>,
    answers: Answers,
    limits: RequestLimits,
    unread: Vec<Unread>,
    opensearch: OpenSearch,
    keys: SealingKeys,
    people: Vec<User>,
    random: StdRng,
    held: Vec<Held>,
}

/// The task in which they ask.
pub struct Asking {
    task: JoinHandle<()>,
    violation: Arc<Mutex<Option<String>>>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Asking {
    /// What somebody saw or did that they may not.
    pub fn violation(&self) -> Option<String> {
        self.violation.lock().clone()
    }
}

fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        uid: None,
        groups: Vec::new(),
        extra: BTreeMap::new(),
    }
}

impl Users {
    /// Users of the documents in an OpenSearch.
    pub fn new(
        seed: u64,
        opensearch: &OpenSearch,
        clusters: &[ClusterName],
    ) -> anyhow::Result<Self> {
        let grant = |clusters: &[ClusterName], namespaces: &[&str]| -> anyhow::Result<Grant> {
            let namespaces = namespaces
                .iter()
                .map(|name| name.parse())
                .collect::<Result<Vec<_>, _>>()?;
            let clusters = Some(clusters.to_vec()).filter(|names| !names.is_empty());
            Ok(Grant {
                clusters,
                namespaces: Some(namespaces).filter(|names| !names.is_empty()),
            })
        };
        let people = vec![
            User {
                caller: caller("admin"),
                permitted: Permitted::Everything,
            },
            User {
                caller: caller("alice"),
                permitted: Permitted::Only(vec![grant(&[], &[NAMESPACES[0], STEADY])?]),
            },
            User {
                caller: caller("bob"),
                permitted: Permitted::Only(vec![grant(&clusters[..1], &[])?]),
            },
            User {
                caller: caller("mallory"),
                permitted: Permitted::Only(vec![grant(&clusters[..1], &[NAMESPACES[1]])?]),
            },
        ];
        let answers = Answers::default();
        let places = LimitArgs {
            max_requests_in_flight: PLACES,
            ..LimitArgs::default()
        };
        Ok(Self {
            store: Arc::new(
                opensearch.engine_reading_into(IndexPrefix::default(), answers.clone()),
            ),
            answers,
            limits: RequestLimits::new(&places, &Metrics::new()),
            unread: Vec::new(),
            opensearch: opensearch.clone(),
            keys: SealingKeys::default(),
            people,
            random: StdRng::seed_from_u64(seed.rotate_left(17)),
            held: Vec::new(),
        })
    }

    /// Lets them ask until this is stopped or somebody has got what they may not.
    pub fn start(mut self) -> Asking {
        let violation = Arc::new(Mutex::new(None));
        let told = Arc::clone(&violation);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(
                    self.random.random_range(0..PAUSE_MILLIS),
                ))
                .await;
                if let Err(found) = self.ask().await {
                    *told.lock() = Some(found);
                    return;
                }
            }
        });
        Asking { task, violation }
    }

    async fn ask(&mut self) -> Result<(), String> {
        match self.random.random_range(0..8) {
            0 => return self.begin_slowly().await,
            1 if !self.unread.is_empty() => return self.read_on().await,
            _ => {}
        }
        if self.held.is_empty() || self.random.random_ratio(1, 3) {
            let (user, question) = (
                self.random.random_range(0..self.people.len()),
                self.random.random_range(0..QUESTIONS.len()),
            );
            let answer = self.page(user, question, None, None).await?;
            self.remember(user, question, answer.as_ref().ok());
            return Ok(());
        }
        let held = self.held[self.random.random_range(0..self.held.len())].clone();
        let usage = USES[self.random.random_range(0..USES.len())];
        self.try_token(&held, usage).await
    }

    /// Begins a whole list, of which nothing is read yet. The one that was left alone the longest is given up for it.
    async fn begin_slowly(&mut self) -> Result<(), String> {
        if self.unread.len() == UNREAD {
            drop(self.unread.remove(0));
        }
        let (user, question) = (
            self.random.random_range(0..self.people.len()),
            self.random.random_range(0..QUESTIONS.len()),
        );
        // The store may not answer.
        if let Ok(unread) = self.unread_list(user, question).await? {
            self.unread.push(unread);
        }
        Ok(())
    }

    /// Reads the next bytes of one, or the rest of it.
    async fn read_on(&mut self) -> Result<(), String> {
        let Unread {
            user,
            question,
            body,
            mut read,
        } = self
            .unread
            .swap_remove(self.random.random_range(0..self.unread.len()));
        let mut body = body.into_inner();
        let is_to_the_end = self.random.random_bool(0.5);
        while let Some(frame) = body.frame().await {
            // It is cut short when the store fails, or when nothing was read for so long that its view has ended.
            let Ok(frame) = frame else { return Ok(()) };
            read.extend(frame.into_data().unwrap_or_default());
            if !is_to_the_end {
                self.unread.push(Unread {
                    user,
                    question,
                    body: Mutex::new(body),
                    read,
                });
                return Ok(());
            }
        }
        let Some(asked) = request(question, None) else {
            return Err("a question is not understood".to_owned());
        };
        let list: Value = serde_json::from_slice(&read).map_err(|error| error.to_string())?;
        self.check(user, question, &asked, &self.people[user].permitted, &list)
    }

    /// A list without a limit. The outer error: its user got no place.
    async fn unread_list(
        &self,
        user: usize,
        question: usize,
    ) -> Result<Result<Unread, ApiError>, String> {
        let Some(asked) = request(question, None) else {
            return Err("a question is not understood".to_owned());
        };
        let limit = asked.limit.map_or(1, std::num::NonZeroUsize::get);
        let whole = ListRequest {
            limit: None,
            ..asked
        };
        let answer = self
            .in_a_place(user, Box::pin(self.answer(user, &whole, limit, None)))
            .await?;
        let unread = |body: UnsyncBoxBody<Bytes, String>| Unread {
            user,
            question,
            body: Mutex::new(body),
            read: Vec::new(),
        };
        Ok(answer.map(unread))
    }

    /// An answer that has a place until its body is dropped. The outer error: its user got no place.
    async fn in_a_place(
        &self,
        user: usize,
        answer: impl Future<Output = Result<list::ListResponse, ApiError>>,
    ) -> Result<Result<UnsyncBoxBody<Bytes, String>, ApiError>, String> {
        let caller = &self.people[user].caller;
        let kept_out = || {
            format!(
                "{} gets no place, though others have no more than their shares",
                caller.name
            )
        };
        let uri = RequestUri::parse("/", None).map_err(|error| error.to_string())?;
        let admitted = timeout(AT_ONCE, self.limits.admit(caller, &uri, Request::default()))
            .await
            .map_err(|_| kept_out())?;
        let (place, _) = admitted.map_err(|_| kept_out())?;
        let held = place
            .run(async { Ok(Response::new(answer.await?.body)) })
            .await;
        Ok(held.map(|response| {
            response
                .into_body()
                .map_err(|error| error.to_string())
                .boxed_unsync()
        }))
    }

    async fn try_token(&mut self, held: &Held, usage: Use) -> Result<(), String> {
        let other = |of: usize, count: usize, step: usize| (of + 1 + step % (count - 1)) % count;
        let step = self.random.random_range(0..100);
        let (mut user, mut question, mut text) = (held.user, held.question, held.text.clone());
        let mut rights = None;
        match usage {
            Use::Genuine => {}
            Use::OfAnother => user = other(user, self.people.len(), step),
            Use::ForAnotherQuestion => question = other(question, QUESTIONS.len(), step),
            Use::WithOtherRights => {
                rights = Some(
                    self.people[other(user, self.people.len(), step)]
                        .permitted
                        .clone(),
                );
            }
            Use::Changed => text = self.changed(&text),
            Use::Invented => text = self.invented(),
            Use::Old => match self.aged(held) {
                Some(old) => text = old,
                None => return Ok(()),
            },
        }
        let answer = self.page(user, question, Some(text), rights).await?;
        let expected: &[u16] = match usage {
            Use::Genuine => {
                self.remember(user, question, answer.as_ref().ok());
                return Ok(());
            }
            Use::OfAnother | Use::ForAnotherQuestion | Use::Changed => &[400],
            // Part of it may be the name of a key.
            Use::Invented => &[400, 410],
            Use::WithOtherRights | Use::Old => &[410],
        };
        match answer {
            Err(error)
                if expected.contains(&error.code())
                    || error.code() >= 500 && usage != Use::Changed =>
            {
                Ok(())
            }
            Err(error) => Err(format!(
                "a token that is {usage:?} is answered with {}: {error}",
                error.code()
            )),
            Ok(_) => {
                let (name, question) = (&self.people[user].caller.name, QUESTIONS[question]);
                Err(format!(
                    "a token that is {usage:?} was taken from {name} for {question:?}"
                ))
            }
        }
    }

    /// The same token, of which one character is another one.
    fn changed(&mut self, text: &str) -> String {
        // Behind the name of the key: with another one it is the token of an unknown key.
        // How long a token is no seed decides.
        let at = 14 + self.random.random_range(0..10_000) % (text.len() - 15);
        let mut letters: Vec<u8> = text.bytes().collect();
        letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8_lossy(&letters).into_owned()
    }

    fn invented(&mut self) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        (0..300)
            .map(|_| char::from(LETTERS[self.random.random_range(0..64)]))
            .collect()
    }

    /// What the token was some minutes ago.
    fn aged(&self, held: &Held) -> Option<String> {
        let (user, request) = (&self.people[held.user], request(held.question, None)?);
        let bound = TokenBinding {
            caller: &user.caller,
            request: &request,
            permitted: &user.permitted,
        };
        let now = jiff::Timestamp::now().as_second();
        let continuation = continue_token::open(&self.keys, &held.text, &bound, now).ok()?;
        continue_token::seal(&self.keys, &continuation, &bound, now - OLD).ok()
    }

    fn remember(&mut self, user: usize, question: usize, page: Option<&Value>) {
        let token = page.and_then(|page| page["metadata"]["continue"].as_str());
        self.held.extend(token.map(|text| Held {
            user,
            question,
            text: text.to_owned(),
        }));
        let surplus = self.held.len().saturating_sub(TOKENS);
        self.held.drain(..surplus);
    }

    fn target(
        &self,
        user: usize,
        asked: &ListRequest,
        limit: usize,
        rights: Option<Permitted>,
    ) -> Option<QueryPlan> {
        let kind = Gvk::new("", "v1", "ConfigMap");
        let selectable = Selectable::of(&kind, &[]);
        let sort = asked
            .options
            .order_by
            .first()
            .map(|_| fleetdex_core::query::Sort {
                key: fleetdex_core::query::SortKey::Name,
                descending: false,
            });
        let all = Query::all_of(
            ResourceName::new("", KINDS[0].resource),
            selectable.clone(),
            limit,
        );
        let name = "opensearch".parse::<StoreName>().ok()?;
        let part = StorePart {
            name,
            store: Arc::clone(&self.store),
            selectable,
            area: None,
        };
        let query = Query {
            namespaces: asked.namespaces.clone(),
            labels: asked.labels.clone(),
            permitted: rights.unwrap_or_else(|| self.people[user].permitted.clone()),
            requester: Requester::User(self.people[user].caller.name.as_str().into()),
            sort: sort.map_or(all.sort.clone(), |sort| vec![sort]),
            ..all
        };
        Some(QueryPlan {
            stores: Merged::new(vec![part], vec![Arc::clone(&self.store)]),
            query,
            kind,
            columns: None,
            as_of: BTreeMap::new(),
            warnings: Vec::new(),
            is_empty: false,
        })
    }

    async fn answer(
        &self,
        user: usize,
        asked: &ListRequest,
        limit: usize,
        rights: Option<Permitted>,
    ) -> Result<list::ListResponse, ApiError> {
        let target = self
            .target(user, asked, limit, rights)
            .ok_or_else(|| ApiError::Internal("no target".to_owned()))?;
        let representation = Representation {
            output: OutputKind::Object,
            encoding: Encoding::Json,
            pretty: false,
        };
        list::respond(
            target,
            asked,
            representation,
            &self.people[user].caller,
            &self.keys,
        )
        .await
    }

    /// One page, of which everything was looked at. The outer error is a violation.
    async fn page(
        &self,
        user: usize,
        question: usize,
        token: Option<String>,
        rights: Option<Permitted>,
    ) -> Result<Result<Value, ApiError>, String> {
        let Some(asked) = request(question, token) else {
            return Err("a question is not understood".to_owned());
        };
        let limit = asked.limit.map_or(1, std::num::NonZeroUsize::get);
        let body = match self
            .in_a_place(
                user,
                Box::pin(self.answer(user, &asked, limit, rights.clone())),
            )
            .await?
        {
            Ok(body) => body,
            Err(error) => return Ok(Err(error)),
        };
        let bytes = body.collect().await?.to_bytes();
        let page: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let permitted = rights.unwrap_or_else(|| self.people[user].permitted.clone());
        self.check(user, question, &asked, &permitted, &page)?;
        Ok(Ok(page))
    }

    /// Whether a list holds nothing but what was asked for and may be seen.
    fn check(
        &self,
        user: usize,
        question: usize,
        asked: &ListRequest,
        permitted: &Permitted,
        page: &Value,
    ) -> Result<(), String> {
        for object in page["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            let cluster = metadata["annotations"][CLUSTER]
                .as_str()
                .unwrap_or_default();
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            let is_asked = asked.namespaces.is_empty()
                || asked
                    .namespaces
                    .iter()
                    .any(|name| name.as_str() == namespace);
            let is_selected = asked.labels.matches(|key| metadata["labels"][key].as_str());
            if !permitted.allows(cluster, namespace)
                || !is_asked
                || !is_selected
                || object["kind"]
                    .as_str()
                    .is_some_and(|kind| kind != "ConfigMap")
            {
                let name = &self.people[user].caller.name;
                return Err(format!(
                    "{name} sees {} of namespace {namespace} of {cluster} for {:?}",
                    metadata["name"], QUESTIONS[question]
                ));
            }
        }
        Ok(())
    }

    /// What has to hold once nothing fails any more: lists that are cut off keep nothing open, and one user who begins very many ends no list of
    /// another one.
    pub async fn flood(self) -> Result<(), String> {
        self.flood_of_unread_answers().await?;
        let admin = 0;
        let before = self.opensearch.open_points_in_time();
        for _ in 0..FLOOD {
            let whole = ListRequest {
                limit: None,
                ..request(0, None).unwrap_or_default()
            };
            drop(self.answer(admin, &whole, 1, None).await);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let open = self.opensearch.open_points_in_time();
        if open > before + OPEN {
            return Err(format!(
                "{open} points in time are open after lists were cut off, {before} before"
            ));
        }
        self.flood_of_lists().await?;
        match self.answers.held() {
            0 => Ok(()),
            held => Err(format!(
                "{held} bytes of answers are held when nobody asks any more"
            )),
        }
    }

    /// One user begins very many lists between two pages of another one.
    async fn flood_of_lists(&self) -> Result<(), String> {
        let (admin, bob) = (0, 2);
        loop {
            let indices = self.opensearch.aliases();
            let first = self
                .page(admin, 0, None, None)
                .await?
                .map_err(|error| format!("the first page: {error}"))?;
            let Some(token) = first["metadata"]["continue"].as_str() else {
                return Ok(());
            };
            for _ in 0..FLOOD {
                drop(self.page(bob, 0, None, None).await?);
            }
            match self.page(admin, 0, Some(token.to_owned()), None).await? {
                Ok(_) => return Ok(()),
                // A hostile member's history goes back at any time: then the list ends with the index that it was read from.
                Err(_) if self.opensearch.aliases() != indices => {}
                Err(error) => {
                    return Err(format!(
                        "a page of one user after {FLOOD} lists of another: {error}"
                    ));
                }
            }
        }
    }

    /// Two users who begin lists for as long as they get places, and read none of them, keep nobody out; and nothing is left of them once they go.
    async fn flood_of_unread_answers(&self) -> Result<(), String> {
        let (alice, bob, mallory) = (1, 2, 3);
        let before = self.opensearch.open_points_in_time();
        let mut unread = Vec::new();
        for (greedy, most) in [(mallory, PLACES / 2), (bob, PLACES / 4)] {
            let mut got = 0;
            while let Ok(list) = self.unread_list(greedy, 0).await {
                unread.push(list.map_err(|error| format!("a list that nobody reads: {error}"))?);
                got += 1;
                if got > most {
                    let name = &self.people[greedy].caller.name;
                    return Err(format!(
                        "{name} has {got} of {PLACES} places at a time, and {most} are that user's share"
                    ));
                }
            }
        }
        self.page(alice, 0, None, None)
            .await?
            .map_err(|error| format!("a page beside unread lists: {error}"))?;
        drop(unread);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let open = self.opensearch.open_points_in_time();
        if open > before + OPEN {
            return Err(format!(
                "{open} points in time are open after unread lists were given up, {before} before"
            ));
        }
        self.page(mallory, 0, None, None)
            .await?
            .map(drop)
            .map_err(|error| format!("a page after unread lists: {error}"))
    }
}

fn request(question: usize, token: Option<String>) -> Option<ListRequest> {
    let path = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/configmaps";
    let uri = RequestUri::parse(path, Some(QUESTIONS[question])).ok()?;
    match request::parse(&uri) {
        Ok(ApiRequest::List(list)) => Some(ListRequest {
            continue_token: token,
            ..*list
        }),
        _ => None,
    }
}
