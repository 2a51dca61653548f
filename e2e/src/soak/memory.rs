//! The operator's memory over time and over all its processes.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use crate::operator::Operator;

/// Interval of the samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Samples of a process count towards the medians from this age on: memory grows after a start.
const WARM_UP: Duration = Duration::from_secs(20);

/// All samples.
#[derive(Debug)]
pub struct Memory {
    started: Instant,
    samples: Vec<Sample>,
    peak_bytes: u64,
    process_count: u32,
    /// The current process, and when it was first observed.
    present: Option<(u32, Instant)>,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Seconds since the start of the run.
    pub seconds: u64,
    /// The number of the operator's process, from 1.
    pub life: u32,
    /// Resident memory.
    pub bytes: u64,
    /// Whether that process is older than its warm-up.
    pub is_warm: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            samples: Vec::new(),
            peak_bytes: 0,
            process_count: 0,
            present: None,
        }
    }
}

impl Memory {
    /// Samples once a second, without end.
    pub async fn watch(&mut self, operator: &Operator) -> Infallible {
        loop {
            self.record(operator);
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Adds a sample, unless the operator is not running.
    fn record(&mut self, operator: &Operator) {
        let (Some(process), Ok(usage)) = (operator.process().pid(), operator.usage()) else {
            return;
        };
        let now = Instant::now();
        let since = match self.present {
            Some((known, since)) if known == process => since,
            _ => {
                self.process_count += 1;
                now
            }
        };
        self.present = Some((process, since));
        self.peak_bytes = self.peak_bytes.max(usage.peak_memory_bytes);
        let is_warm = now.duration_since(since) >= WARM_UP;
        let seconds = self.started.elapsed().as_secs();
        self.samples.push(Sample {
            seconds,
            life: self.process_count,
            bytes: usage.memory_bytes,
            is_warm,
        });
    }

    /// The peak of resident memory of any process.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Number of starts of the operator.
    pub fn process_count(&self) -> u32 {
        self.process_count
    }

    /// All samples.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The median of the warm samples in each of `parts` equal parts of the run; none for a part
    /// without samples.
    pub fn medians(&self, parts: u64) -> Vec<Option<u64>> {
        let end = self.samples.last().map_or(1, |sample| sample.seconds + 1);
        let median_of = |part: u64| {
            let is_in_part =
                |sample: &&Sample| sample.is_warm && sample.seconds * parts / end == part;
            let mut bytes: Vec<u64> = self
                .samples
                .iter()
                .filter(is_in_part)
                .map(|sample| sample.bytes)
                .collect();
            bytes.sort_unstable();
            bytes.get(bytes.len() / 2).copied()
        };
        (0..parts).map(median_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_cover_equal_parts_and_skip_young_processes() {
        let sample = |seconds, bytes, is_warm| Sample {
            seconds,
            life: 1,
            bytes,
            is_warm,
        };
        let samples = vec![
            sample(0, 1, false),
            sample(1, 5, true),
            sample(2, 7, true),
            sample(3, 9, true),
            sample(7, 4, true),
        ];
        let memory = Memory {
            samples,
            ..Memory::default()
        };
        assert_eq!(memory.medians(2), [Some(7), Some(4)]);
        assert_eq!(memory.medians(4), [Some(5), Some(9), None, Some(4)]);
    }
}
