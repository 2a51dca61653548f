use std::{
    collections::BTreeMap,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use fleetdex_limits::{
    computing::ComputingTurns,
    intake::Budget,
    parsed::Parsed,
    request::{MEMORY, UserRequest},
};
use futures::FutureExt as _;

use super::*;
use crate::read::interpretation::body::InterpretRequest;

static PARSED: AtomicUsize = AtomicUsize::new(0);
static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::new(MEMORY));

fn counted(body: ReservedJson) -> Result<Parsed<InterpretRequest>, ApiError> {
    PARSED.fetch_add(1, Ordering::Relaxed);
    InterpretRequest::parse(body)
}

fn of(interpreters: &Interpreters, user: &str) -> RequestInterpreter {
    let caller = Caller {
        name: user.to_owned(),
        uid: None,
        groups: Vec::new(),
        extra: BTreeMap::new(),
    };
    let (catalog, time) = (Arc::default(), Duration::from_mins(1));
    RequestInterpreter::new(interpreters, &catalog, &caller, time)
}

fn body(chains: usize) -> Bytes {
    let chain = format!("{}1{}", "{\"\":".repeat(100), "}".repeat(100));
    let chains = vec![chain; chains].join(",");
    format!(
        r#"{{"operation":"InterpretHealth","object":{{"apiVersion":"v1","kind":"Pod","spec":[{chains}]}}}}"#
    )
    .into()
}

/// Asks in a request of its own.
async fn ask(interpreter: &RequestInterpreter, text: Bytes) -> Result<Interpreted, ApiError> {
    let asked = interpreter.run_text(text, counted, |parsed| parsed.request());
    let request = request(&interpreter.user);
    let (_parsed, interpreted) = request.scope(asked).await?;
    Ok(interpreted)
}

fn request(user: &str) -> UserRequest {
    UserRequest::new(&BUDGET, &ComputingTurns::default(), user)
}

#[tokio::test]
async fn a_body_is_parsed_when_it_is_its_turn_and_only_within_its_memory() {
    let interpreters = Interpreters::default();
    let [alice, bob] = ["alice", "bob"].map(|user| of(&interpreters, user));
    let mut turns = Vec::new();
    for interpreter in [&alice, &bob] {
        turns.push(interpreter.run_turn().await.unwrap());
    }
    let mut waiting = Box::pin(ask(&alice, body(10)));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(PARSED.load(Ordering::Relaxed), 0);
    drop(turns);
    waiting.await.unwrap();
    assert_eq!(PARSED.load(Ordering::Relaxed), 1);

    let refused = ask(&alice, body(3_000)).await.unwrap_err();
    assert_eq!(refused.code(), 413);
    insta::assert_snapshot!(refused, @"the body of the request takes more than 96 MiB of memory when it is parsed; send an object with fewer members");
    assert_eq!(PARSED.load(Ordering::Relaxed), 1);

    let other = request("alice");
    let held = ReservedJson::reserve(other.memory(), body(600), COPIES)
        .await
        .unwrap();
    let refused = ask(&alice, body(600)).await.unwrap_err();
    assert_eq!(refused.code(), 429);
    ask(&bob, body(600)).await.unwrap();
    drop(held);
    ask(&alice, body(600)).await.unwrap();
    assert_eq!(BUDGET.held(), 0);
}
