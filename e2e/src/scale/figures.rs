//! What one size has cost, and a table of several.

use serde::{Deserialize, Serialize};

/// The figures of one size. Processor time and memory are sums over all replicas.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ScaleFigures {
    pub clusters: usize,
    pub kinds: usize,
    pub objects: usize,
    pub replicas: usize,
    /// Until every replica has connected every cluster.
    pub connect_seconds: f64,
    pub connect_cpu_seconds: f64,
    pub connected_bytes: u64,
    /// From the registry to its condition Ready.
    pub sync_seconds: f64,
    pub sync_cpu_seconds: f64,
    pub control_plane_sync_cpu_seconds: f64,
    pub synced_bytes: u64,
    pub peak_bytes: u64,
    /// Open files of all replicas, nearly all of them sockets.
    pub sockets: usize,
    /// The registry as JSON, with its managed fields.
    pub registry_bytes: usize,
    pub sync_status_writes: u64,
    pub sync_status_bytes: u64,
    pub quiet_cores: f64,
    pub quiet_status_writes: u64,
    pub list_objects: u64,
    pub list_seconds: f64,
    pub list_cpu_seconds: f64,
    pub restart_seconds: f64,
    pub restart_cpu_seconds: f64,
    pub restart_pages: f64,
    pub death_seconds: f64,
    pub death_cpu_seconds: f64,
    pub death_pages: f64,
    /// Where templates were distributed.
    pub distribution: Option<DistributionFigures>,
}

/// What the distribution of templates to all clusters has cost.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct DistributionFigures {
    pub templates: usize,
    /// From the policy until every cluster has every object.
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Memory that was added.
    pub bytes: u64,
    pub peak_bytes: u64,
    /// A binding as JSON, with its managed fields.
    pub binding_bytes: usize,
    /// From a change of a template until it is written to every cluster.
    pub change_seconds: f64,
    /// Until all objects are known again.
    pub restart_seconds: f64,
    pub restart_writes: f64,
}

impl ScaleFigures {
    /// One for each cluster and kind.
    pub fn watches(&self) -> usize {
        self.clusters * self.kinds
    }

    /// Memory that indexing takes beside the connections, for each watch.
    pub fn bytes_per_watch(&self) -> f64 {
        (self.synced_bytes as f64 - self.connected_bytes as f64) / self.watches() as f64
    }
}

/// What a row shows of one size.
type Column = fn(&ScaleFigures) -> String;

const ROWS: [(&str, Column); 21] = [
    ("watches", |of| of.watches().to_string()),
    ("objects", |of| (of.watches() * of.objects).to_string()),
    ("replicas", |of| of.replicas.to_string()),
    ("connected after, s", |of| seconds(of.connect_seconds)),
    ("processor time to connect, s", |of| {
        seconds(of.connect_cpu_seconds)
    }),
    ("memory when connected, MB", |of| {
        megabytes(of.connected_bytes)
    }),
    ("first sync, s", |of| seconds(of.sync_seconds)),
    ("processor time of the first sync, s", |of| {
        seconds(of.sync_cpu_seconds)
    }),
    ("the same of the control plane, s", |of| {
        seconds(of.control_plane_sync_cpu_seconds)
    }),
    ("memory after it, MB", |of| megabytes(of.synced_bytes)),
    ("memory at its peak, MB", |of| megabytes(of.peak_bytes)),
    ("memory for each watch, kB", |of| {
        format!("{:.1}", of.bytes_per_watch() / 1e3)
    }),
    ("sockets", |of| of.sockets.to_string()),
    ("the registry, kB", |of| {
        format!("{:.0}", of.registry_bytes as f64 / 1e3)
    }),
    ("writes of its status in the first sync (MB)", |of| {
        format!(
            "{} ({:.1})",
            of.sync_status_writes,
            of.sync_status_bytes as f64 / 1e6
        )
    }),
    ("cores in a quiet time", |of| {
        format!("{:.3}", of.quiet_cores)
    }),
    ("writes of the status in it", |of| {
        of.quiet_status_writes.to_string()
    }),
    ("list by label: objects", |of| of.list_objects.to_string()),
    ("list by label: processor time, s", |of| {
        seconds(of.list_cpu_seconds)
    }),
    ("rolling restart: s, processor time, pages", |of| {
        format!(
            "{:.1}, {:.1}, {}",
            of.restart_seconds, of.restart_cpu_seconds, of.restart_pages
        )
    }),
    ("death of a replica: s, processor time, pages", |of| {
        format!(
            "{:.1}, {:.1}, {}",
            of.death_seconds, of.death_cpu_seconds, of.death_pages
        )
    }),
];

/// What a row shows of a distribution.
type DistributionColumn = fn(&DistributionFigures) -> String;

const DISTRIBUTION_ROWS: [(&str, DistributionColumn); 8] = [
    ("templates to all clusters", |of| of.templates.to_string()),
    ("distributed after, s", |of| seconds(of.seconds)),
    ("processor time of it, s", |of| seconds(of.cpu_seconds)),
    ("memory that it adds, MB", |of| megabytes(of.bytes)),
    ("memory at its peak with it, MB", |of| {
        megabytes(of.peak_bytes)
    }),
    ("a binding, kB", |of| {
        format!("{:.0}", of.binding_bytes as f64 / 1e3)
    }),
    ("a change of a template is in all clusters, s", |of| {
        seconds(of.change_seconds)
    }),
    ("restart: s, writes", |of| {
        format!("{:.1}, {:.0}", of.restart_seconds, of.restart_writes)
    }),
];

/// A table in Markdown with a column for each size.
pub fn table(sizes: &[ScaleFigures]) -> String {
    let cells = |name: &str, column: &dyn Fn(&ScaleFigures) -> String| {
        let cells: Vec<String> = sizes.iter().map(column).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let mut text = cells("clusters", &|of| of.clusters.to_string());
    text.push_str("|---|");
    text.push_str(&"---|".repeat(sizes.len()));
    text.push('\n');
    for (name, column) in ROWS {
        text.push_str(&cells(name, &column));
    }
    if sizes.iter().any(|of| of.distribution.is_some()) {
        for (name, column) in DISTRIBUTION_ROWS {
            let cell =
                |of: &ScaleFigures| of.distribution.as_ref().map_or_else(String::new, column);
            text.push_str(&cells(name, &cell));
        }
    }
    text
}

fn seconds(value: f64) -> String {
    format!("{value:.1}")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1e6)
}
