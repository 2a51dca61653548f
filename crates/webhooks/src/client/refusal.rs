//! Answers with an HTTP error: why, and when to call again.

use std::time::Duration;

use fleetdex_core::model::{quoted, status_message};
use fleetdex_limits::intake::Intake;
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::Body;
use serde_json::Value;

use super::error::CallFailure;

/// The failure of an answer whose status is not 2xx.
pub(super) async fn read(
    status: StatusCode,
    headers: &HeaderMap,
    body: Body,
    intake: &Intake,
) -> CallFailure {
    // A reason that does not arrive is none.
    let body = intake.read_refusal(body).await.unwrap_or_default();
    CallFailure::Status {
        code: status.as_u16(),
        retry_after: retry_after(status, headers, Timestamp::now()),
        reason: reason(headers, &body),
    }
}

/// The pause that a webhook asks for, as seconds or a date. As in Kubernetes' clients, only 429 and
/// 5xx ask for one.
fn retry_after(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let left = date.duration_since(now).max(SignedDuration::ZERO);
    Duration::try_from(left).ok()
}

/// What the body says in one of the forms that servers use: an answer that is not successful, a
/// `Status` of Kubernetes, or plain text. A page of a proxy in HTML says nothing.
fn reason(headers: &HeaderMap, body: &[u8]) -> String {
    if let Some(message) = status_message(body) {
        return quoted(&message);
    }
    if let Ok(answer) = serde_json::from_slice::<Value>(body) {
        let message = answer.pointer("/response/status/message");
        return quoted(message.and_then(Value::as_str).unwrap_or_default());
    }
    let is_text = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if is_text {
        quoted(&String::from_utf8_lossy(body))
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(status: u16, text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        let now = "1994-11-06T08:49:37Z".parse().unwrap();
        retry_after(StatusCode::from_u16(status).unwrap(), &headers, now)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_of_a_server_in_trouble() {
        let seconds = Duration::from_secs;
        for (text, expected) in [
            ("7", Some(seconds(7))),
            (" 7 ", Some(seconds(7))),
            ("0", Some(seconds(0))),
            ("99999999999999999999999", Some(seconds(u64::MAX))),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(seconds(30))),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(seconds(0))),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(pause(429, text), expected, "{text}");
            assert_eq!(pause(500, text), expected, "{text}");
            assert_eq!(pause(503, text), expected, "{text}");
            assert_eq!(pause(404, text), None, "{text}");
        }
    }

    #[test]
    fn the_reason_is_what_an_answer_a_status_or_a_text_says() {
        let of = |content_type: &str, body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
            reason(&headers, body.as_bytes())
        };
        let answer = r#"{"kind":"ExploreReview","response":{"successful":false,"status":{"message":"no\u001b[2J pods","code":500}}}"#;
        let status = r#"{"kind":"Status","message":"not allowed"}"#;
        for (content_type, body, expected) in [
            ("application/json", answer, "no^[[2J pods"),
            ("application/json", status, "not allowed"),
            ("application/json", r#"{"response":[]}"#, ""),
            (
                "text/plain; charset=utf-8",
                "out of order\n",
                "out of order",
            ),
            ("text/html", "<html>Bad Gateway</html>", ""),
        ] {
            let found = of(content_type, body);
            assert!(!found.contains('\u{1b}'), "{found:?}");
            assert_eq!(found, expected);
        }
        assert!(of("text/plain", &"x".repeat(1 << 20)).len() < 1000);
    }
}
