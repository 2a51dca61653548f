//! Values of gauges.

pub(super) fn saturating(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
