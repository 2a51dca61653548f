use std::time::Duration;

use fleetdex_limits::intake::{Budget, MemoryLimits};
use futures::StreamExt as _;

use super::*;

const LIMITS: MemoryLimits = MemoryLimits {
    page: 256 << 10,
    line: 128 << 10,
    answer: 64 << 10,
    refusal: 1_000,
    small: 0,
    request: 0,
    share: 1 << 20,
    shared: 2 << 20,
};

fn lines(chunks: &[&'static str]) -> WatchLines {
    let chunks: Vec<Result<Bytes, std::convert::Infallible>> = chunks
        .iter()
        .map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))
        .collect();
    let stream = futures::stream::iter(
        chunks
            .into_iter()
            .map(|chunk| chunk.map(http_body::Frame::data)),
    );
    let intake = Budget::new(LIMITS).share("a");
    WatchLines::new(
        http_body_util::StreamBody::new(stream),
        intake,
        tokio::time::Instant::now() + Duration::from_mins(1),
    )
}

#[tokio::test]
async fn lines_are_independent_of_chunks_and_a_truncated_line_is_not_returned() {
    let mut lines = lines(&["{\"a\":", "1}\n{\"b\"", ":2}\n\n{\"c\":3}\n{\"cut"]);
    let mut read = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        read.push(String::from_utf8(line.to_vec()).unwrap());
    }
    assert_eq!(read, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
}

#[tokio::test]
async fn the_memory_of_a_long_line_is_freed_with_its_reservation() {
    for rest in ["", "{\"a\":"] {
        let budget = Budget::new(LIMITS);
        let chunks = [
            format!("\"{}", "x".repeat(60_000)),
            format!("{}\"\n{rest}", "x".repeat(40_000)),
        ];
        let frames =
            futures::stream::iter(chunks.map(Bytes::from)).chain(futures::stream::pending());
        let frames =
            frames.map(|chunk| Ok::<_, std::convert::Infallible>(http_body::Frame::data(chunk)));
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        let mut lines = WatchLines::new(
            http_body_util::StreamBody::new(frames),
            budget.share("a"),
            deadline,
        );
        assert_eq!(
            lines.next().await.unwrap().map(|line| line.len()),
            Some(100_002)
        );
        assert!(budget.held() >= 100_000);
        assert!(futures::poll!(std::pin::pin!(lines.next())).is_pending());
        assert_eq!(budget.held(), 0);
        assert!(
            !lines.buffer.try_reclaim(100_000),
            "the allocation is still there"
        );
        assert_eq!(lines.buffer, rest.as_bytes());
    }
}

fn endless() -> impl http_body::Body<Data = Bytes, Error = std::convert::Infallible> {
    let chunk = Bytes::from(vec![b' '; 10_000]);
    http_body_util::StreamBody::new(
        futures::stream::repeat(chunk).map(|chunk| Ok(http_body::Frame::data(chunk))),
    )
}

#[tokio::test]
async fn an_endless_line_fails_and_frees_its_memory() {
    let budget = Budget::new(LIMITS);
    let mut lines = WatchLines::new(
        endless(),
        budget.share("a"),
        tokio::time::Instant::now() + Duration::from_mins(1),
    );
    assert_eq!(lines.next().await.unwrap_err().kind, FaultKind::TooLarge);
    assert!(budget.held() >= LIMITS.line);
    drop(lines);
    assert_eq!(budget.held(), 0);
}
