//! Bodies that arrive in chunks, on a paused clock.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, future::join_all, stream};
use http_body_util::StreamBody;
use tokio::time::timeout;

use super::{reservation::PACE_WINDOW, *};

const MIB: usize = 1 << 20;
const LIMITS: MemoryLimits = MemoryLimits {
    page: MIB,
    line: MIB,
    answer: MIB,
    refusal: 1_000,
    small: 0,
    request: 0,
    share: 4 * MIB,
    shared: 2 * MIB,
};

/// A body of `chunks` chunks of 32 KiB, one each millisecond.
fn body(chunks: usize) -> impl http_body::Body<Data = Bytes, Error = Infallible> {
    let chunk = Bytes::from(vec![b' '; 32 << 10]);
    let frames = stream::unfold(chunks, move |left| {
        let chunk = chunk.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            (left > 0).then(|| (Ok(http_body::Frame::data(chunk)), left - 1))
        }
    });
    StreamBody::new(frames)
}

#[tokio::test(start_paused = true)]
async fn a_body_is_read_to_its_limit_and_no_further() {
    let budget = Budget::new(LIMITS);
    let intake = budget.share("a");
    let read = intake.read(body(32), MIB).await.unwrap();
    assert_eq!((read.len(), budget.held()), (MIB, MIB));
    let clone = read.clone();
    drop(read);
    assert_eq!(budget.held(), MIB);
    drop(clone);
    assert!(matches!(
        intake.read(body(33), MIB).await,
        Err(IntakeError::TooLarge(MIB))
    ));
    assert!(
        matches!(
            intake.read(body(usize::MAX), MIB).await,
            Err(IntakeError::TooLarge(MIB))
        ),
        "an endless one"
    );
    assert_eq!(budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_beginning_of_an_error_response_is_read() {
    let intake = Budget::new(LIMITS).share("a");
    assert_eq!(
        intake.read_refusal(body(usize::MAX)).await.unwrap().len(),
        1_000
    );
}

#[tokio::test(start_paused = true)]
async fn readers_that_exceed_the_budget_together_all_finish_within_the_bound() {
    let budget = Budget::new(LIMITS);
    let members: Vec<Intake> = (0..40)
        .map(|number| budget.share(&number.to_string()))
        .collect();
    let reads = join_all(members.iter().map(|intake| async {
        // Dropped at once, like a page that is written.
        intake.read(body(32), MIB).await.map(|bytes| bytes.len())
    }));
    let lengths = timeout(Duration::from_mins(1), reads)
        .await
        .expect("they block each other");
    assert!(lengths.into_iter().all(|length| length.unwrap() == MIB));
    assert!(
        budget.peak() <= LIMITS.bound() && budget.peak() > LIMITS.shared,
        "{}",
        budget.peak()
    );
    assert_eq!(budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_aborted_when_others_wait_for_memory() {
    // Much at first, so that it reserves much memory, and then a byte each second for an hour.
    let trickle = || {
        let beginning = stream::iter([Bytes::from(vec![b' '; 700 << 10])]);
        let rest = stream::iter(0..3_600).then(|_| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Bytes::from_static(b" ")
        });
        StreamBody::new(
            beginning
                .chain(rest)
                .map(|data| Ok::<_, Infallible>(http_body::Frame::data(data)))
                .boxed(),
        )
    };
    let budget = Budget::new(LIMITS);
    let intakes: Vec<Intake> = (0..3)
        .map(|number| budget.share(&number.to_string()))
        .collect();
    let slow: Vec<_> = intakes
        .into_iter()
        .map(|intake| tokio::spawn(async move { intake.read(trickle(), MIB).await }))
        .collect();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(
        slow.iter().all(|read| !read.is_finished()),
        "no other reader waits"
    );
    assert!(
        budget.held() > LIMITS.shared,
        "{} bytes, the reserve among them",
        budget.held()
    );

    let other = budget.share("other");
    assert_eq!(
        timeout(2 * PACE_WINDOW, other.read(body(32), MIB))
            .await
            .expect("it waits for ever")
            .unwrap()
            .len(),
        MIB
    );
    let read = join_all(slow).await;
    assert!(
        read.iter()
            .any(|read| matches!(read, Ok(Err(IntakeError::Slow)))),
        "{read:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_exhausts_its_share_is_refused_and_others_are_not() {
    let limits = MemoryLimits {
        share: MIB,
        shared: 8 * MIB,
        ..LIMITS
    };
    let budget = Budget::new(limits);
    let (greedy, other) = (budget.share("greedy"), budget.share("other"));
    let held = greedy.read(body(32), MIB).await.unwrap();
    assert!(matches!(
        budget.share("greedy").read(body(4), MIB).await,
        Err(IntakeError::ShareExhausted(_))
    ));
    assert!(other.read(body(32), MIB).await.is_ok());
    drop(held);
    assert!(greedy.read(body(32), MIB).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_returns_its_memory() {
    let budget = Budget::new(MemoryLimits {
        shared: MIB,
        ..LIMITS
    });
    let intakes = ["a", "b", "c"].map(|name| budget.share(name));
    let held = [
        intakes[0].read(body(32), MIB).await.unwrap(),
        intakes[1].read(body(32), MIB).await.unwrap(),
    ];
    assert!(
        timeout(Duration::from_secs(5), intakes[2].read(body(32), MIB))
            .await
            .is_err()
    );
    drop(held);
    assert_eq!((budget.held(), intakes[2].share.get()), (0, 0));
    assert!(intakes[2].read(body(32), MIB).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_wants_little_does_not_wait_for_all_who_came_before() {
    let budget = Budget::new(MemoryLimits {
        share: usize::MAX,
        ..LIMITS
    });
    let greedy = budget.share("greedy");
    let reserved = |intake: &Intake, bytes| {
        let mut reservation = intake.reservation();
        async move { reservation.grow(bytes).await.map(|()| reservation) }
    };
    // The shared part and the reserve.
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(reserved(&greedy, MIB).await.unwrap());
    }
    let greedy: Vec<_> = (0..20)
        .map(|_| tokio::spawn(reserved(&greedy, MIB)))
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let quiet = tokio::spawn(reserved(&budget.share("quiet"), 64 << 10));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!quiet.is_finished());
    held.pop();
    held.remove(0);
    // Two more of the other user, who keep what they get, would leave nothing.
    let quiet = timeout(Duration::from_secs(1), quiet).await;
    assert!(quiet.expect("it waits for all of them").unwrap().is_ok());
    drop(held);
    for read in greedy {
        assert!(read.await.unwrap().is_ok());
    }
    assert_eq!(budget.held(), 0);
}
