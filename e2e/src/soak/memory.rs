//! The operator's memory over time and over all its lives.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use crate::operator::Operator;

/// How often it is looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// A life has to last this long for its memory to count as that of the run: after a start it grows.
const YOUTH: Duration = Duration::from_secs(20);

/// What was seen.
#[derive(Debug)]
pub struct Memory {
    started: Instant,
    samples: Vec<Sample>,
    peak_bytes: u64,
    lives: u32,
    /// The process of the present life, and since when it is seen.
    present: Option<(u32, Instant)>,
}

/// One look.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Since the beginning.
    pub seconds: u64,
    /// Which life of the operator, from 1.
    pub life: u32,
    /// Resident memory.
    pub bytes: u64,
    /// Whether that life is older than its youth.
    pub is_grown: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            samples: Vec::new(),
            peak_bytes: 0,
            lives: 0,
            present: None,
        }
    }
}

impl Memory {
    /// Looks once a second, for ever.
    pub async fn watch(&mut self, operator: &Operator) -> Infallible {
        loop {
            self.look(operator);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// An operator that does not run at the moment has no memory.
    fn look(&mut self, operator: &Operator) {
        let (Some(process), Ok(usage)) = (operator.process().pid(), operator.usage()) else {
            return;
        };
        let now = Instant::now();
        let since = match self.present {
            Some((known, since)) if known == process => since,
            _ => {
                self.lives += 1;
                now
            }
        };
        self.present = Some((process, since));
        self.peak_bytes = self.peak_bytes.max(usage.peak_memory_bytes);
        let is_grown = now.duration_since(since) >= YOUTH;
        let seconds = self.started.elapsed().as_secs();
        self.samples.push(Sample {
            seconds,
            life: self.lives,
            bytes: usage.memory_bytes,
            is_grown,
        });
    }

    /// The most memory that was resident at any time of any life.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// How often the operator was started.
    pub fn lives(&self) -> u32 {
        self.lives
    }

    /// Every look.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The median of each of `parts` equal parts of the run, of lives that are no longer young; nothing where there was none.
    pub fn medians(&self, parts: u64) -> Vec<Option<u64>> {
        let end = self.samples.last().map_or(1, |sample| sample.seconds + 1);
        let median_of = |part: u64| {
            let is_in_part =
                |sample: &&Sample| sample.is_grown && sample.seconds * parts / end == part;
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
    fn medians_are_of_equal_parts_and_leave_young_lives_out() {
        let sample = |seconds, bytes, is_grown| Sample {
            seconds,
            life: 1,
            bytes,
            is_grown,
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
