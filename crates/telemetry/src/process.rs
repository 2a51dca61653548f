//! The standard metrics of a process, read from `/proc` when they are asked for:
//! <https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>. Elsewhere than
//! on Linux there are none.

use std::{
    fmt, fs,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use super::families::Description;

/// Linux counts processor time in hundredths of a second, on every architecture that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// In `/proc/self/stat`, user and system time are these fields after the name of the program.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;

/// Name without unit and suffix, type, unit, help.
type ProcessMetric = (&'static str, MetricType, Option<Unit>, &'static str);

const CPU: ProcessMetric = (
    "process_cpu",
    MetricType::Counter,
    Some(Unit::Seconds),
    "User and system time that this process has spent",
);
const MEMORY: ProcessMetric = (
    "process_resident_memory",
    MetricType::Gauge,
    Some(Unit::Bytes),
    "Memory of this process that is resident",
);
const OPEN_FDS: ProcessMetric = (
    "process_open_fds",
    MetricType::Gauge,
    None,
    "Files and connections that this process has open",
);
const START_TIME: ProcessMetric = (
    "process_start_time",
    MetricType::Gauge,
    Some(Unit::Seconds),
    "When this process started, in seconds since 1970",
);

/// Reads the metrics of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    started: f64,
}

impl ProcessCollector {
    /// For a process that starts now.
    pub(super) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            started: now.unwrap_or_default().as_secs_f64(),
        }
    }

    pub(super) fn descriptions() -> Vec<Description> {
        let describe = |(name, kind, unit, help): ProcessMetric| {
            let unit_suffix = unit.as_ref().map(|unit| format!("_{}", unit.as_str()));
            let total = matches!(kind, MetricType::Counter);
            Description {
                name: [
                    name,
                    unit_suffix.as_deref().unwrap_or_default(),
                    if total { "_total" } else { "" },
                ]
                .concat(),
                kind: kind.as_str().to_owned(),
                unit: unit.map(|unit| match unit {
                    Unit::Bytes => "bytes",
                    _ => "seconds",
                }),
                labels: &[],
                help,
            }
        };
        [CPU, MEMORY, OPEN_FDS, START_TIME].map(describe).into()
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(seconds) = cpu_seconds() {
            let (name, kind, unit, help) = CPU;
            let descriptor = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            ConstCounter::new(seconds).encode(descriptor)?;
        }
        let open_fds = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        for (row, value) in [
            (MEMORY, resident_bytes().unwrap_or_default()),
            (OPEN_FDS, u32::try_from(open_fds).unwrap_or(u32::MAX).into()),
            (START_TIME, self.started),
        ] {
            if value > 0.0 {
                let (name, kind, unit, help) = row;
                let descriptor = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
                ConstGauge::new(value).encode(descriptor)?;
            }
        }
        Ok(())
    }
}

/// The line is `VmRSS:     1234 kB`.
fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in parentheses, and may hold spaces.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(USER_TIME)? + ticks(SYSTEM_TIME)?) / TICKS_PER_SECOND)
}
