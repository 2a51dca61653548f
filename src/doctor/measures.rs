//! Clocks and certificates, measured against this machine's clock.

use http::{HeaderMap, header::DATE};
use jiff::Timestamp;

use fleetdex_checks::result::Checks;

/// A difference that disturbs no one: that of answers that take a while.
const CLOCK_TOLERANCE: i64 = 10;
/// Certificates and tokens are rejected by a clock that is this wrong.
const CLOCK_LIMIT: i64 = 120;
const SYNCHRONIZE: &str =
    "synchronize the clocks (NTP): certificates, tokens and Leases depend on them";
const DAY: i64 = 24 * 3600;
/// Time to replace a certificate.
const EXPIRY_WARNING: i64 = 14 * DAY;

/// Compares the header Date of an answer with this clock.
pub fn check_date(checks: &mut Checks, headers: &HeaderMap) {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let parsed = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    match parsed {
        Some(date) => check_clock(checks, date.timestamp().as_second()),
        None => checks.skipped("clock", "the answer has no usable Date header", ""),
    }
}

/// Compares the time that another machine states, in seconds since 1970, with this clock.
pub fn check_clock(checks: &mut Checks, theirs: i64) {
    let ahead = theirs - Timestamp::now().as_second();
    let message = format!("{ahead} s ahead of this machine's clock");
    match ahead.abs() {
        ..=CLOCK_TOLERANCE => checks.ok("clock", "as here"),
        difference if difference <= CLOCK_LIMIT => checks.warning("clock", message, SYNCHRONIZE),
        _ => checks.error("clock", message, SYNCHRONIZE),
    }
}

/// Checks when a certificate ends.
pub fn check_expiry(checks: &mut Checks, check: &'static str, not_after: i64, action: &str) {
    let left = not_after - Timestamp::now().as_second();
    let until = Timestamp::from_second(not_after)
        .map_or_else(|_| not_after.to_string(), |time| time.to_string());
    match left {
        ..=0 => checks.error(check, format!("expired at {until}"), action),
        1..=EXPIRY_WARNING => {
            let message = format!("valid for {} more days, until {until}", left / DAY);
            checks.warning(check, message, action);
        }
        _ => checks.ok(check, format!("valid until {until}")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use fleetdex_checks::result::{CheckStatus, worst};

    #[test]
    fn a_clock_that_is_wrong_is_found_by_the_date_of_an_answer() {
        for (date, expected) in [
            (None, CheckStatus::Skipped),
            (Some("yesterday"), CheckStatus::Skipped),
            (Some("Thu, 26 Nov 2020 01:42:00 GMT"), CheckStatus::Error),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(date) = date {
                headers.insert(DATE, HeaderValue::from_static(date));
            }
            let mut checks = Checks::of("cluster");
            check_date(&mut checks, &headers);
            assert_eq!(worst(&checks.results), expected, "{date:?}");
        }
        let now = Timestamp::now().as_second();
        for (theirs, expected) in [
            (now - 1, CheckStatus::Ok),
            (now + 60, CheckStatus::Warning),
            (now - 600, CheckStatus::Error),
        ] {
            let mut checks = Checks::of("cluster");
            check_clock(&mut checks, theirs);
            assert_eq!(worst(&checks.results), expected, "{theirs}");
        }
    }

    #[test]
    fn certificates_that_end_soon_are_warned_of() {
        let now = Timestamp::now().as_second();
        for (not_after, expected) in [
            (now - 1, CheckStatus::Error),
            (now + DAY, CheckStatus::Warning),
            (now + 90 * DAY, CheckStatus::Ok),
        ] {
            let mut checks = Checks::of("store");
            check_expiry(&mut checks, "certificate", not_after, "replace it");
            assert_eq!(worst(&checks.results), expected);
        }
    }
}
