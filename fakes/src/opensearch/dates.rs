//! Dates in the formats of OpenSearch.

/// Parses a date, a time or a number of milliseconds; returns milliseconds since 1970.
pub(super) fn parse_date(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_millisecond());
    }
    if let Ok(millis) = text.parse::<i64>() {
        return Some(millis);
    }
    let time = text.parse::<jiff::civil::DateTime>().or_else(|_| {
        text.parse::<jiff::civil::Date>()
            .map(|date| date.at(0, 0, 0, 0))
    });
    Some(
        time.ok()?
            .to_zoned(jiff::tz::TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_millisecond(),
    )
}
