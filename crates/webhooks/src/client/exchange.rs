//! One request and its answer.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use fleetdex_core::model::{causes, quoted};
use fleetdex_interpreter::webhook::AnswerError;
use fleetdex_limits::intake::{Intake, IntakeError};
use fleetdex_tls::TlsFailure;
use http::{
    HeaderMap,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST},
};
use reqwest::{Body, Client};

use super::{endpoint::WebhookDestination, error::CallFailure, refusal};

/// Sends a request and reads the body of its answer.
pub(super) async fn exchange(
    client: &Client,
    destination: WebhookDestination,
    timeout: Duration,
    body: Vec<u8>,
    intake: &Intake,
) -> Result<Bytes, CallFailure> {
    let mut url = destination.url;
    url.set_query(Some(&format!("timeout={}s", whole_seconds(timeout))));
    let mut request = client
        .post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(ACCEPT_ENCODING, "identity")
        .body(body);
    if let Some(host) = destination.host_header {
        request = request.header(HOST, host);
    }
    let response = request
        .send()
        .await
        .map_err(|error| lost(&error.without_url()))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = Body::from(response);
    if !status.is_success() {
        return Err(refusal::read(status, &headers, body, intake).await);
    }
    check_encoding(&headers)?;
    let limit = intake.limits().answer;
    intake.read(body, limit).await.map_err(unread)
}

fn check_encoding(headers: &HeaderMap) -> Result<(), CallFailure> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(CallFailure::Encoded(quoted(
            &String::from_utf8_lossy(encoding.as_bytes()),
        ))),
        _ => Ok(()),
    }
}

fn unread(error: IntakeError) -> CallFailure {
    match error {
        IntakeError::TooLarge(limit) => AnswerError::TooLarge(limit.saturating_add(1)).into(),
        IntakeError::Broken(error) => lost(&*error),
        other => CallFailure::Connection(other.to_string()),
    }
}

fn lost(error: &(dyn Error + 'static)) -> CallFailure {
    let failure = TlsFailure::of(error)
        .filter(|failure| !matches!(failure, TlsFailure::NotHttp | TlsFailure::Closed));
    let text = failure.map_or_else(|| causes(error), |failure| explained(&failure));
    CallFailure::Connection(quoted(&text))
}

fn explained(failure: &TlsFailure) -> String {
    let advice = match failure {
        TlsFailure::UnknownAuthority { .. } => {
            ": put the PEM certificate of that authority into clientConfig.caBundle"
        }
        TlsFailure::Expired { .. } => ": renew it",
        TlsFailure::OtherName { .. } => ": issue one for the name in clientConfig",
        _ => "",
    };
    format!("{}{advice}", failure.description("the webhook"))
}

/// The whole seconds of a timeout, rounded up, as the webhook is given them.
fn whole_seconds(limit: Duration) -> u64 {
    limit.as_secs() + u64::from(limit.subsec_nanos() > 0)
}

/// A random UUID: version 4 of RFC 9562.
pub(super) fn request_uid() -> String {
    let random = u128::from_be_bytes(rand::random());
    let marked = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{marked:032x}");
    let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
    format!("{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_random_uuid_of_version_4() {
        for _ in 0..1000 {
            let uid = request_uid();
            let parts: Vec<&str> = uid.split('-').collect();
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
            assert!(parts[2].starts_with('4'), "{uid}");
            assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{uid}");
        }
        assert_ne!(request_uid(), request_uid());
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (milliseconds, seconds) in [(1, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), seconds);
        }
    }
}
