//! The report of a soak.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    ops::Range,
    time::Duration,
};

use serde_json::{Value, json};

use super::{faults::Kind, memory::Memory};
use fakes::churn::Writes;

use crate::churn::Tally;

/// Number of parts of the run whose memory is compared.
const PARTS: u64 = 6;
/// Memory is flat if the last part has at most this much more than the middle ones. The allocator
/// may retain memory from an outage, which early parts did not have.
const FLAT_PERCENT: u64 = 20;
const MIDDLE: Range<usize> = 2..4;
/// Faults of each kind that are needed before memory can be judged.
const ROUNDS: u32 = 2;
/// Every n-th sample is in the results.
const THINNED: usize = 10;
const MEGABYTE: u64 = 1_000_000;

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub churned: Duration,
    pub tally: Tally,
    pub faults: BTreeMap<Kind, u32>,
    /// The number of objects at the end, if the index was equal.
    pub objects: Option<usize>,
    /// Documents that were missing, superfluous or of another version at the end.
    pub drift: usize,
    /// From the end of the last fault to an equal index.
    pub repaired: Duration,
    pub memory: Memory,
}

impl Report {
    /// The report as JSON.
    pub fn json(&self) -> Value {
        let faults: BTreeMap<String, u32> = self
            .faults
            .iter()
            .map(|(kind, count)| (kind.to_string(), *count))
            .collect();
        let Tally { writes, failed } = self.tally;
        let Writes {
            created,
            updated,
            deleted,
        } = writes;
        let samples = self.memory.samples().iter().step_by(THINNED);
        let over_time = samples.map(|sample| json!({ "seconds": sample.seconds, "life": sample.life, "bytes": sample.bytes }));
        json!({
            "seed": self.seed,
            "seconds": self.churned.as_secs(),
            "writes": { "created": created, "updated": updated, "deleted": deleted, "failed": failed },
            "writes_per_second": self.writes_per_second(),
            "faults": faults,
            "objects": self.objects,
            "drift": self.drift,
            "repaired_seconds": self.repaired.as_secs(),
            "operator_lives": self.memory.process_count(),
            "peak_rss_bytes": self.memory.peak_bytes(),
            "rss_medians_bytes": self.memory.medians(PARTS),
            "rss_is_flat": self.is_flat(),
            "rss_over_time": over_time.collect::<Vec<Value>>(),
        })
    }

    fn writes_per_second(&self) -> u64 {
        self.tally.writes.total() / self.churned.as_secs().max(1)
    }

    /// Whether memory is flat; `None` if the run was too short.
    fn is_flat(&self) -> Option<bool> {
        let rounds = Kind::ALL
            .iter()
            .map(|kind| self.faults.get(kind).copied().unwrap_or_default())
            .min();
        if rounds < Some(ROUNDS) {
            return None;
        }
        let medians = self.memory.medians(PARTS);
        let middle = medians[MIDDLE].iter().flatten().max()?;
        let last = medians.last().copied().flatten()?;
        Some(last * 100 <= middle * (100 + FLAT_PERCENT))
    }
}

impl Display for Report {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { writes, failed } = self.tally;
        let Writes {
            created,
            updated,
            deleted,
        } = writes;
        let rate = self.writes_per_second();
        writeln!(
            text,
            "operations   {created} created, {updated} updated, {deleted} deleted ({rate}/s); {failed} failed"
        )?;
        for (kind, count) in &self.faults {
            writeln!(text, "fault        {kind:<32} {count:>3}")?;
        }
        match self.objects {
            Some(objects) => writeln!(
                text,
                "objects      {objects}, equal {} s after the last fault",
                self.repaired.as_secs()
            )?,
            None => writeln!(
                text,
                "objects      not equal after {} s",
                self.repaired.as_secs()
            )?,
        }
        writeln!(text, "drift        {}", self.drift)?;
        let (peak, process_count) = (
            self.memory.peak_bytes() / MEGABYTE,
            self.memory.process_count(),
        );
        writeln!(
            text,
            "peak memory  {peak} MB over {process_count} operator processes"
        )?;
        let medians = self.memory.medians(PARTS).into_iter();
        let medians: Vec<String> = medians
            .map(|bytes| bytes.map_or("-".to_owned(), |bytes| (bytes / MEGABYTE).to_string()))
            .collect();
        let verdict = match self.is_flat() {
            Some(true) => "flat",
            Some(false) => "GROWING",
            None => "run too short",
        };
        writeln!(
            text,
            "memory       {} MB, medians of {PARTS} equal parts: {verdict}",
            medians.join(" ")
        )?;
        write!(text, "seed         {}", self.seed)
    }
}
