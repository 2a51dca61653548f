//! The operator's metrics at one time, and differences between two scrapes.

use anyhow::Result;

use crate::operator::{Operator, sum_of_samples};

/// Types of events that change an object.
const CHANGES: [&str; 3] = [
    r#"event="added""#,
    r#"event="modified""#,
    r#"event="deleted""#,
];
/// Final verdicts of a write.
const ACKNOWLEDGED: [&str; 5] = [
    r#"verdict="indexed""#,
    r#"verdict="deleted""#,
    r#"verdict="superseded""#,
    r#"verdict="absent""#,
    r#"verdict="fallback""#,
];

/// All metrics at one time.
#[derive(Debug)]
pub struct Scrape(String);

impl Scrape {
    /// Reads the current metrics.
    pub async fn of(operator: &Operator) -> Result<Self> {
        operator.metrics().await.map(Self)
    }

    /// The sum of all samples of a metric whose labels contain `labels`; 0 when there is none.
    pub fn count(&self, name: &str, labels: &str) -> f64 {
        sum_of_samples(&self.0, name, labels).unwrap_or(0.0)
    }

    /// Changes that watches delivered.
    pub fn received(&self) -> f64 {
        CHANGES
            .iter()
            .map(|event| self.count("fleetdex_watch_events_total", event))
            .sum()
    }

    /// Writes that the store has acknowledged.
    pub fn acknowledged(&self) -> f64 {
        ACKNOWLEDGED
            .iter()
            .map(|verdict| self.count("fleetdex_bulk_items_total", verdict))
            .sum()
    }

    /// Unacknowledged changes, as of the store's last response.
    pub fn pending_documents(&self) -> f64 {
        self.count("fleetdex_pending_documents", "")
    }

    /// Their bytes.
    pub fn pending_bytes(&self) -> f64 {
        self.count("fleetdex_pending_bytes", "")
    }

    /// Latencies from arrival to acknowledgement of the events acknowledged since an earlier
    /// scrape.
    pub fn event_to_ack_since(&self, earlier: &Self) -> Histogram {
        Histogram::gained(&earlier.0, &self.0, "fleetdex_event_to_ack_seconds")
    }

    /// Of all evaluations, the shares of the steps they may take that they took.
    pub fn shares_of_steps(&self) -> Histogram {
        Histogram::gained("", &self.0, "fleetdex_evaluation_steps_ratio")
    }
}

/// Upper bounds and cumulative counts, in order.
#[derive(Debug, PartialEq)]
pub struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    /// The difference of a histogram between two scrapes.
    fn gained(before: &str, after: &str, name: &str) -> Self {
        let before = buckets(before, name);
        let earlier = |bound: f64| {
            before
                .iter()
                .find(|(known, _)| *known == bound)
                .map_or(0.0, |(_, count)| *count)
        };
        Self(
            buckets(after, name)
                .into_iter()
                .map(|(bound, count)| (bound, count - earlier(bound)))
                .collect(),
        )
    }

    /// The number of values.
    pub fn total(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// A quantile, interpolated linearly within its bucket.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let rank = self.total() * quantile;
        let mut lower = (0.0, 0.0);
        for &(bound, count) in &self.0 {
            if count >= rank && count > lower.1 {
                let upper = if bound.is_finite() { bound } else { lower.0 };
                return lower.0 + (upper - lower.0) * (rank - lower.1) / (count - lower.1);
            }
            lower = (bound, count);
        }
        f64::NAN
    }
}

/// The buckets of a histogram, summed over its other labels.
fn buckets(text: &str, name: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{name}_bucket{{");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(&prefix)) {
        let bound = line
            .split("le=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let bound = bound.map(|bound| bound.parse().unwrap_or(f64::INFINITY));
        let count: Option<f64> = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        let (Some(bound), Some(count)) = (bound, count) else {
            continue;
        };
        match buckets.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, sum)) => *sum += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_interpolated_within_its_bucket() {
        let histogram = Histogram(vec![(0.1, 50.0), (0.2, 100.0), (f64::INFINITY, 100.0)]);
        assert!((histogram.quantile(0.5) - 0.1).abs() < 1e-9);
        assert!((histogram.quantile(0.75) - 0.15).abs() < 1e-9);
    }

    #[test]
    fn a_histogram_difference_excludes_earlier_samples() {
        let before = "x_bucket{le=\"1.0\",store=\"a\"} 3\nx_bucket{le=\"+Inf\",store=\"a\"} 4\n";
        let after = "x_bucket{le=\"1.0\",store=\"a\"} 5\nx_bucket{le=\"+Inf\",store=\"a\"} 9\n";
        assert_eq!(
            Histogram::gained(before, after, "x"),
            Histogram(vec![(1.0, 2.0), (f64::INFINITY, 5.0)])
        );
    }

    #[test]
    fn bookmarks_count_neither_as_changes_nor_as_acknowledgements() {
        let events = "fleetdex_watch_events_total{event=\"added\"} 1\nfleetdex_watch_events_total{event=\"bookmark\"} 7\n";
        let items = "fleetdex_bulk_items_total{verdict=\"deleted\"} 2\nfleetdex_bulk_items_total{verdict=\"retried\"} 7\n";
        let scrape = Scrape(format!("{events}{items}"));
        assert_eq!(
            (
                scrape.received(),
                scrape.acknowledged(),
                scrape.pending_documents()
            ),
            (1.0, 2.0, 0.0)
        );
    }
}
