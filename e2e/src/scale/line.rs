//! Lines through the figures of several sizes, and what they say of 10,000 clusters.

use std::fmt::Write as _;

use super::figures::ScaleFigures;

/// The fleet that the lines are extended to.
const FLEET: f64 = 10_000.0;

/// The line through points with the least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLine {
    pub start: f64,
    pub slope: f64,
    /// The largest distance of a point from the line, as a part of its value.
    pub residual: f64,
}

impl FittedLine {
    /// `None` for fewer than two different points.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (middle_x, middle_y) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(x, _)| (x - middle_x).powi(2)).sum();
        if points.len() < 2 || spread == 0.0 {
            return None;
        }
        let common: f64 = points
            .iter()
            .map(|(x, y)| (x - middle_x) * (y - middle_y))
            .sum();
        let slope = common / spread;
        let start = middle_y - slope * middle_x;
        let residual = points
            .iter()
            .map(|(x, y)| ((start + slope * x - y) / y).abs())
            .fold(0.0, f64::max);
        Some(Self {
            start,
            slope,
            residual,
        })
    }

    pub fn at(&self, x: f64) -> f64 {
        self.start + self.slope * x
    }
}

/// One line of text for each figure that grows with the clusters.
pub fn lines(sizes: &[ScaleFigures]) -> String {
    type Value = fn(&ScaleFigures) -> f64;
    let values: [(&str, Value); 7] = [
        ("memory when connected, MB", |of| {
            of.connected_bytes as f64 / 1e6
        }),
        ("memory after the first sync, MB", |of| {
            of.synced_bytes as f64 / 1e6
        }),
        ("memory at its peak, MB", |of| of.peak_bytes as f64 / 1e6),
        ("processor time of the first sync, s", |of| {
            of.sync_cpu_seconds
        }),
        ("cores in a quiet time", |of| of.quiet_cores),
        ("the registry, kB", |of| of.registry_bytes as f64 / 1e3),
        ("sockets", |of| of.sockets as f64),
    ];
    let mut text = String::new();
    for (name, value) in values {
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .map(|of| (of.clusters as f64, value(of)))
            .collect();
        let Some(line) = FittedLine::through(&points) else {
            continue;
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name}: {:.3} + {:.5} for each cluster, within {:.0} %; {:.1} for {FLEET} clusters",
            line.start,
            line.slope,
            line.residual * 100.0,
            line.at(FLEET)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_points_on_it_has_no_residual() {
        let line = FittedLine::through(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]).unwrap();
        assert!((line.start - 3.0).abs() < 1e-9 && (line.slope - 2.0).abs() < 1e-9);
        assert!(line.residual < 1e-9 && (line.at(10.0) - 23.0).abs() < 1e-9);
    }

    #[test]
    fn one_size_makes_no_line() {
        assert_eq!(FittedLine::through(&[(1.0, 5.0)]), None);
        assert_eq!(FittedLine::through(&[(1.0, 5.0), (1.0, 6.0)]), None);
    }
}
