//! Users who read lists in pages and try to read more than they may: with continue tokens of other
//! users or other queries, with modified and expired tokens, and with lists that they start and
//! abandon. Some read slowly or not at all.
//!
//! Responses come from the server's own list code, over a separate engine on the fake OpenSearch.
//! Whatever the users do and whatever fails meanwhile, no user sees an object without permission,
//! and no token is valid for another user, query or set of permissions than it was issued for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use fakes::opensearch::OpenSearch;
use fleetdex_core::{
    model::{ClusterName, Gvk, IndexPrefix, StoreName},
    query::{Grant, Permitted, Query, Requester, ResourceName, Selectable},
};
use fleetdex_query_api::{
    class::RequestClass,
    question::{self, ListRequest, Question},
    uri::RequestUri,
};
use fleetdex_server::{
    api_error::ApiError,
    auth::{
        caller::Caller,
        continue_token::{self, SealingKeys, TokenBinding},
    },
    limits::{LimitArgs, RequestLimits},
    read::{list, query_plan::QueryPlan, store_moves::StoreMoves},
    render::representation::{Encoding, OutputKind, Representation},
};
use fleetdex_store::{
    IndexReader,
    merged::{Merged, StorePart},
    opensearch::ResponseBudget,
};
use fleetdex_telemetry::Metrics;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::selection::{KINDS, NAMESPACES, STEADY};

/// The annotation that names the cluster of an object.
const CLUSTER_ANNOTATION: &str = "resource.karmada.io/cached-from-cluster";
/// Number of tokens that the users keep.
const MAX_HELD_TOKENS: usize = 24;
/// Maximum pause between two actions.
const PAUSE_MILLIS: u64 = 6_000;
/// Number of lists that one user starts and abandons after all faults have ended: more than a
/// user's share.
const FLOOD_LISTS: usize = 130;
/// Number of contexts that may be open after lists were cancelled: the operator itself may use
/// them.
const MAX_OPEN_CONTEXTS: u64 = 20;
/// Number of requests that the server handles concurrently.
const SLOTS: u32 = 12;
/// Number of unread responses while faults are active. A user who has all of them still gets a slot
/// for another request.
const MAX_UNREAD_LISTS: usize = 4;
/// How long a user within its share may wait for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(1);
/// An age that exceeds the lifetime of tokens, in seconds.
const EXPIRED_TOKEN_AGE: i64 = 400;

/// The query parameters of lists; the labels are those of the objects that the simulation writes.
const QUERIES: [&str; 4] = [
    "limit=1",
    "limit=2&labelSelector=tier%3Dweb",
    "limit=3&namespaces=red,green,steady",
    "limit=2&orderBy=name",
];

/// A user with permissions.
struct User {
    caller: Caller,
    permitted: Permitted,
}

/// A continue token that a user has received.
#[derive(Clone)]
struct HeldToken {
    user: usize,
    query_index: usize,
    text: String,
}

/// How a token is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenUse {
    Genuine,
    OfAnotherUser,
    ForAnotherQuery,
    WithOtherRights,
    Modified,
    Random,
    Expired,
}

const TOKEN_USES: [TokenUse; 8] = [
    TokenUse::Genuine,
    TokenUse::Genuine,
    TokenUse::OfAnotherUser,
    TokenUse::ForAnotherQuery,
    TokenUse::WithOtherRights,
    TokenUse::Modified,
    TokenUse::Random,
    TokenUse::Expired,
];

/// A list without a limit whose response is read slowly. It holds a slot until it is dropped.
struct UnreadList {
    user: usize,
    query_index: usize,
    /// The lock is never contended; it makes the body, which is `Send` only, `Sync`.
    body: Mutex<UnsyncBoxBody<Bytes, String>>,
    read: Vec<u8>,
    /// The unmodified objects that queries could see when the list began.
    steady: BTreeSet<Steady>,
}

/// An unmodified object: its cluster and UID.
type Steady = (String, String);

/// All users.
pub struct Users {
    store: Arc<dyn IndexReader>,
    answers: ResponseBudget,
    limits: RequestLimits,
    unread: Vec<UnreadList>,
    opensearch: OpenSearch,
    /// Members whose histories only go on.
    honest: BTreeSet<ClusterName>,
    keys: SealingKeys,
    people: Vec<User>,
    random: StdRng,
    held: Vec<HeldToken>,
}

/// The task that runs the users.
pub struct RunningUsers {
    task: JoinHandle<()>,
    violation: Arc<Mutex<Option<String>>>,
}

impl Drop for RunningUsers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningUsers {
    /// The first violation: an object or an operation that a user was not permitted.
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
    /// Creates the users of the documents in an OpenSearch.
    pub fn new(
        seed: u64,
        opensearch: &OpenSearch,
        clusters: &[ClusterName],
        honest: BTreeSet<ClusterName>,
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
        let answers = ResponseBudget::default();
        let limit_args = LimitArgs {
            max_requests_in_flight: SLOTS,
            ..LimitArgs::default()
        };
        Ok(Self {
            store: Arc::new(
                opensearch.engine_reading_into(IndexPrefix::default(), answers.clone()),
            ),
            answers,
            limits: RequestLimits::new(&limit_args, &Metrics::new()),
            unread: Vec::new(),
            opensearch: opensearch.clone(),
            honest,
            keys: SealingKeys::default(),
            people,
            random: StdRng::seed_from_u64(seed.rotate_left(17)),
            held: Vec::new(),
        })
    }

    /// Runs the users until the task is dropped or a violation occurs.
    pub fn start(mut self) -> RunningUsers {
        let violation = Arc::new(Mutex::new(None));
        let reported_violation = Arc::clone(&violation);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(
                    self.random.random_range(0..PAUSE_MILLIS),
                ))
                .await;
                if let Err(found) = self.act().await {
                    *reported_violation.lock() = Some(found);
                    return;
                }
            }
        });
        RunningUsers { task, violation }
    }

    async fn act(&mut self) -> Result<(), String> {
        match self.random.random_range(0..8) {
            0 => return self.start_unread_list().await,
            1 if !self.unread.is_empty() => return self.read_more().await,
            _ => {}
        }
        if self.held.is_empty() || self.random.random_ratio(1, 3) {
            let (user, query_index) = (
                self.random.random_range(0..self.people.len()),
                self.random.random_range(0..QUERIES.len()),
            );
            let response = self.page(user, query_index, None, None).await?;
            self.remember(user, query_index, response.as_ref().ok());
            return Ok(());
        }
        let held = self.held[self.random.random_range(0..self.held.len())].clone();
        let usage = TOKEN_USES[self.random.random_range(0..TOKEN_USES.len())];
        self.try_token(&held, usage).await
    }

    /// Starts a list without a limit and reads nothing of it. At the maximum, the oldest unread
    /// list is dropped first.
    async fn start_unread_list(&mut self) -> Result<(), String> {
        if self.unread.len() == MAX_UNREAD_LISTS {
            drop(self.unread.remove(0));
        }
        let (user, query_index) = (
            self.random.random_range(0..self.people.len()),
            self.random.random_range(0..QUERIES.len()),
        );
        // The store may be unavailable.
        if let Ok(unread) = self.begin_list(user, query_index).await? {
            self.unread.push(unread);
        }
        Ok(())
    }

    /// Reads the next frame of an unread list, or the rest of it.
    async fn read_more(&mut self) -> Result<(), String> {
        let UnreadList {
            user,
            query_index,
            body,
            mut read,
            steady,
        } = self
            .unread
            .swap_remove(self.random.random_range(0..self.unread.len()));
        let mut body = body.into_inner();
        let reads_to_end = self.random.random_bool(0.5);
        while let Some(frame) = body.frame().await {
            // The response breaks off when the store fails, or when its point in time has expired
            // because of a slow reader.
            let Ok(frame) = frame else { return Ok(()) };
            read.extend(frame.into_data().unwrap_or_default());
            if !reads_to_end {
                self.unread.push(UnreadList {
                    user,
                    query_index,
                    body: Mutex::new(body),
                    read,
                    steady,
                });
                return Ok(());
            }
        }
        let Some(list_request) = request(query_index, None) else {
            return Err("the query parameters do not parse".to_owned());
        };
        let list: Value = serde_json::from_slice(&read).map_err(|error| error.to_string())?;
        let permitted = &self.people[user].permitted;
        self.check(user, query_index, &list_request, permitted, &list)?;
        let lacks = |(cluster, uid): &&Steady| {
            permitted.allows(cluster, STEADY)
                && items(&list).all(|object| object["metadata"]["uid"] != uid.as_str())
        };
        match steady.iter().find(lacks) {
            None => Ok(()),
            Some((cluster, uid)) => Err(format!(
                "a whole list of {} for {:?} lacks the object {uid} of {cluster}",
                self.people[user].caller.name, QUERIES[query_index]
            )),
        }
    }

    /// The aliases with their indices, and the unmodified objects of honest members that queries
    /// see.
    fn shown(&self) -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<Steady>) {
        let prefix = IndexPrefix::default();
        let steady_of = |alias: &str| {
            let documents = self.opensearch.searchable_documents(alias).into_iter();
            let steady = documents.filter_map(|document| {
                let (source, kind) = (&document.source, KINDS[0].kind);
                (source["kind"] == kind && source["metadata"]["namespace"] == STEADY).then(|| {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    (text(&source["cluster"]), text(&source["metadata"]["uid"]))
                })
            });
            steady.collect::<BTreeSet<_>>()
        };
        let mut steady = steady_of(prefix.as_str());
        steady.retain(|(cluster, uid)| {
            cluster.parse().is_ok_and(|name: ClusterName| {
                if !self.honest.contains(&name) {
                    return false;
                }
                let of_cluster = steady_of(prefix.cluster_alias(&name).as_str());
                of_cluster.contains(&(cluster.clone(), uid.clone()))
            })
        });
        (self.opensearch.aliases(), steady)
    }

    /// Starts a list without a limit. The outer error: the user got no slot.
    async fn begin_list(
        &self,
        user: usize,
        query_index: usize,
    ) -> Result<Result<UnreadList, ApiError>, String> {
        let Some(list_request) = request(query_index, None) else {
            return Err("the query parameters do not parse".to_owned());
        };
        let limit = list_request.limit.map_or(1, std::num::NonZeroUsize::get);
        let unlimited = ListRequest {
            limit: None,
            ..list_request
        };
        let before = self.shown();
        let response = self
            .in_slot(user, Box::pin(self.response(user, &unlimited, limit, None)))
            .await?;
        // While indices come or go, a list may have been answered before or after that.
        let steady = (self.shown() == before).then_some(before.1);
        let unread = |body: UnsyncBoxBody<Bytes, String>| UnreadList {
            user,
            query_index,
            body: Mutex::new(body),
            read: Vec::new(),
            steady: steady.unwrap_or_default(),
        };
        Ok(response.map(unread))
    }

    /// Runs a request in a slot that is held until the body is dropped. The outer error: the user
    /// got no slot.
    async fn in_slot(
        &self,
        user: usize,
        response: impl Future<Output = Result<list::ListResponse, ApiError>>,
    ) -> Result<Result<UnsyncBoxBody<Bytes, String>, ApiError>, String> {
        let caller = &self.people[user].caller;
        let rejected = || {
            format!(
                "{} gets no slot, although the other users are within their shares",
                caller.name
            )
        };
        let admitted = timeout(
            SLOT_TIMEOUT,
            self.limits
                .admit(caller, RequestClass::List, Request::default()),
        )
        .await
        .map_err(|_| rejected())?;
        let (slot, _) = admitted.map_err(|_| rejected())?;
        let held = slot
            .run(async { Ok(Response::new(response.await?.body)) })
            .await;
        Ok(held.map(|response| {
            response
                .into_body()
                .map_err(|error| error.to_string())
                .boxed_unsync()
        }))
    }

    async fn try_token(&mut self, held: &HeldToken, usage: TokenUse) -> Result<(), String> {
        let other =
            |of: usize, count: usize, offset: usize| (of + 1 + offset % (count - 1)) % count;
        let offset = self.random.random_range(0..100);
        let (mut user, mut query_index, mut text) =
            (held.user, held.query_index, held.text.clone());
        let mut rights = None;
        match usage {
            TokenUse::Genuine => {}
            TokenUse::OfAnotherUser => user = other(user, self.people.len(), offset),
            TokenUse::ForAnotherQuery => query_index = other(query_index, QUERIES.len(), offset),
            TokenUse::WithOtherRights => {
                rights = Some(
                    self.people[other(user, self.people.len(), offset)]
                        .permitted
                        .clone(),
                );
            }
            TokenUse::Modified => text = self.modified(&text),
            TokenUse::Random => text = self.random_token(),
            TokenUse::Expired => match self.expired_token(held) {
                Some(old) => text = old,
                None => return Ok(()),
            },
        }
        let response = self.page(user, query_index, Some(text), rights).await?;
        let expected: &[u16] = match usage {
            TokenUse::Genuine => {
                self.remember(user, query_index, response.as_ref().ok());
                return Ok(());
            }
            TokenUse::OfAnotherUser | TokenUse::ForAnotherQuery | TokenUse::Modified => &[400],
            // A random token may begin with the name of a key.
            TokenUse::Random => &[400, 410],
            TokenUse::WithOtherRights | TokenUse::Expired => &[410],
        };
        match response {
            Err(error)
                if expected.contains(&error.code())
                    || error.code() >= 500 && usage != TokenUse::Modified =>
            {
                Ok(())
            }
            Err(error) => Err(format!(
                "the response to a token with use {usage:?} is {}: {error}",
                error.code()
            )),
            Ok(_) => {
                let (name, query) = (&self.people[user].caller.name, QUERIES[query_index]);
                Err(format!(
                    "a token with use {usage:?} was accepted from {name} for {query:?}"
                ))
            }
        }
    }

    /// Returns the token with one character replaced.
    fn modified(&mut self, text: &str) -> String {
        // After the name of the key: a changed name makes it a token of an unknown key. The length
        // of a token does not depend on the seed.
        let at = 14 + self.random.random_range(0..10_000) % (text.len() - 15);
        let mut letters: Vec<u8> = text.bytes().collect();
        letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8_lossy(&letters).into_owned()
    }

    fn random_token(&mut self) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        (0..300)
            .map(|_| char::from(LETTERS[self.random.random_range(0..64)]))
            .collect()
    }

    /// Returns the token as it would be if it had been issued some minutes earlier.
    fn expired_token(&self, held: &HeldToken) -> Option<String> {
        let (user, request) = (&self.people[held.user], request(held.query_index, None)?);
        let bound = TokenBinding {
            caller: &user.caller,
            request: &request,
            permitted: &user.permitted,
        };
        let now = jiff::Timestamp::now().as_second();
        let continuation = continue_token::open(&self.keys, &held.text, &bound, now).ok()?;
        continue_token::seal(&self.keys, &continuation, &bound, now - EXPIRED_TOKEN_AGE).ok()
    }

    fn remember(&mut self, user: usize, query_index: usize, page: Option<&Value>) {
        let token = page.and_then(|page| page["metadata"]["continue"].as_str());
        self.held.extend(token.map(|text| HeldToken {
            user,
            query_index,
            text: text.to_owned(),
        }));
        let surplus = self.held.len().saturating_sub(MAX_HELD_TOKENS);
        self.held.drain(..surplus);
    }

    fn target(
        &self,
        user: usize,
        list_request: &ListRequest,
        limit: usize,
        rights: Option<Permitted>,
    ) -> Option<QueryPlan> {
        let kind = Gvk::new("", "v1", "ConfigMap");
        let selectable = Selectable::of(&kind, &[]);
        let sort = list_request
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
            namespaces: list_request.namespaces.clone(),
            labels: list_request.labels.clone(),
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
            has_health: false,
            as_of: BTreeMap::new(),
            warnings: Vec::new(),
            is_empty: false,
        })
    }

    async fn response(
        &self,
        user: usize,
        list_request: &ListRequest,
        limit: usize,
        rights: Option<Permitted>,
    ) -> Result<list::ListResponse, ApiError> {
        let target = self
            .target(user, list_request, limit, rights)
            .ok_or_else(|| ApiError::Internal("no target".to_owned()))?;
        let representation = Representation {
            output: OutputKind::Object,
            encoding: Encoding::Json,
            pretty: false,
        };
        let (_, published) = watch::channel(Arc::default());
        let planned = StoreMoves::default().planned(&Arc::default(), &published);
        list::respond(
            &planned,
            target,
            list_request,
            representation,
            &self.people[user].caller,
            &self.keys,
        )
        .await
    }

    /// Requests one page and checks each of its objects. The outer error is a violation.
    async fn page(
        &self,
        user: usize,
        query_index: usize,
        token: Option<String>,
        rights: Option<Permitted>,
    ) -> Result<Result<Value, ApiError>, String> {
        let Some(list_request) = request(query_index, token) else {
            return Err("the query parameters do not parse".to_owned());
        };
        let limit = list_request.limit.map_or(1, std::num::NonZeroUsize::get);
        let body = match self
            .in_slot(
                user,
                Box::pin(self.response(user, &list_request, limit, rights.clone())),
            )
            .await?
        {
            Ok(body) => body,
            Err(error) => return Ok(Err(error)),
        };
        let bytes = body.collect().await?.to_bytes();
        let page: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let permitted = rights.unwrap_or_else(|| self.people[user].permitted.clone());
        self.check(user, query_index, &list_request, &permitted, &page)?;
        Ok(Ok(page))
    }

    /// Checks that a list contains only objects that match the request and that the user may see.
    fn check(
        &self,
        user: usize,
        query_index: usize,
        list_request: &ListRequest,
        permitted: &Permitted,
        page: &Value,
    ) -> Result<(), String> {
        for object in items(page) {
            let metadata = &object["metadata"];
            let cluster = metadata["annotations"][CLUSTER_ANNOTATION]
                .as_str()
                .unwrap_or_default();
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            let is_in_namespaces = list_request.namespaces.is_empty()
                || list_request
                    .namespaces
                    .iter()
                    .any(|name| name.as_str() == namespace);
            let is_selected = list_request
                .labels
                .matches(|key| metadata["labels"][key].as_str());
            if !permitted.allows(cluster, namespace)
                || !is_in_namespaces
                || !is_selected
                || object["kind"]
                    .as_str()
                    .is_some_and(|kind| kind != "ConfigMap")
            {
                let name = &self.people[user].caller.name;
                return Err(format!(
                    "{name} sees {} of namespace {namespace} of {cluster} for {:?}",
                    metadata["name"], QUERIES[query_index]
                ));
            }
        }
        Ok(())
    }

    /// Checks, after all faults have ended, that cancelled lists leave no context open, and that a
    /// user who starts very many lists does not end the list of another user.
    pub async fn flood(self) -> Result<(), String> {
        self.flood_of_unread_answers().await?;
        let admin = 0;
        let before = self.opensearch.open_points_in_time();
        for _ in 0..FLOOD_LISTS {
            let unlimited = ListRequest {
                limit: None,
                ..request(0, None).unwrap_or_default()
            };
            drop(self.response(admin, &unlimited, 1, None).await);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let open = self.opensearch.open_points_in_time();
        if open > before + MAX_OPEN_CONTEXTS {
            return Err(format!(
                "{open} points in time are open after lists were cancelled, {before} before"
            ));
        }
        self.flood_of_lists().await?;
        match self.answers.held() {
            0 => Ok(()),
            held => Err(format!(
                "{held} bytes of response memory are reserved after the last request"
            )),
        }
    }

    /// One user starts very many lists between two pages of another user.
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
            for _ in 0..FLOOD_LISTS {
                drop(self.page(bob, 0, None, None).await?);
            }
            match self.page(admin, 0, Some(token.to_owned()), None).await? {
                Ok(_) => return Ok(()),
                // The history of a hostile member may go back at any time: the list then ends with
                // its index.
                Err(_) if self.opensearch.aliases() != indices => {}
                Err(error) => {
                    return Err(format!(
                        "a page of one user after {FLOOD_LISTS} lists of another: {error}"
                    ));
                }
            }
        }
    }

    /// Two users start lists as long as they get slots and read none of them: other users still get
    /// slots, and dropping the lists releases everything.
    async fn flood_of_unread_answers(&self) -> Result<(), String> {
        let (alice, bob, mallory) = (1, 2, 3);
        let before = self.opensearch.open_points_in_time();
        let mut unread = Vec::new();
        for (greedy, most) in [(mallory, SLOTS / 2), (bob, SLOTS / 4)] {
            let mut got = 0;
            while let Ok(list) = self.begin_list(greedy, 0).await {
                unread.push(list.map_err(|error| format!("an unread list: {error}"))?);
                got += 1;
                if got > most {
                    let name = &self.people[greedy].caller.name;
                    return Err(format!(
                        "{name} has {got} of {SLOTS} slots, more than its share of {most}"
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
        if open > before + MAX_OPEN_CONTEXTS {
            return Err(format!(
                "{open} points in time are open after unread lists were dropped, {before} before"
            ));
        }
        self.page(mallory, 0, None, None)
            .await?
            .map(drop)
            .map_err(|error| format!("a page after unread lists: {error}"))
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn request(query_index: usize, token: Option<String>) -> Option<ListRequest> {
    let path = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/configmaps";
    let uri = RequestUri::parse(path, Some(QUERIES[query_index])).ok()?;
    match question::parse(&uri) {
        Ok(Question::List(list)) => Some(ListRequest {
            continue_token: token,
            ..*list
        }),
        _ => None,
    }
}
