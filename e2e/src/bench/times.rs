//! Durations and their quantiles.

use super::figures::Figures;

/// Durations in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<f64>);

impl Times {
    /// Adds a duration.
    pub fn push(&mut self, milliseconds: f64) {
        self.0.push(milliseconds);
    }

    /// The number of durations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest duration that this share of all does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position among at most some million"
        )]
        let position = (part * (sorted.len() as f64 - 1.0)).round() as usize;
        sorted.get(position).copied().unwrap_or(f64::NAN)
    }

    /// Sets the figures of the median and the 99th percentile.
    pub fn set(&self, name: &str, figures: &mut Figures) {
        figures.set(&format!("{name}_p50_ms"), self.quantile(0.5));
        figures.set(&format!("{name}_p99_ms"), self.quantile(0.99));
    }

    /// Median and 99th percentile as text.
    pub fn text(&self) -> String {
        format!(
            "p50 {:.1} ms, p99 {:.1} ms",
            self.quantile(0.5),
            self.quantile(0.99)
        )
    }
}

impl FromIterator<f64> for Times {
    fn from_iter<I: IntoIterator<Item = f64>>(milliseconds: I) -> Self {
        Self(milliseconds.into_iter().collect())
    }
}
