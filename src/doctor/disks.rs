//! How full the disks of an OpenSearch are, against its watermarks, by OpenSearch's own rules
//! (`DiskThresholdSettings`, `DiskThresholdMonitor`).

use std::fmt;

use serde_json::Value;

use super::cluster_settings::ClusterSettings;
use fleetdex_checks::result::Checks;

const CHECK: &str = "disks";
const ENABLED: &str = "cluster.routing.allocation.disk.threshold_enabled";
const HIGH: &str = "cluster.routing.allocation.disk.watermark.high";
const FLOOD_STAGE: &str = "cluster.routing.allocation.disk.watermark.flood_stage";
const DEFAULT_HIGH: &str = "90%";
const DEFAULT_FLOOD_STAGE: &str = "95%";
const FREE_SPACE: &str = "free disk space on these nodes, enlarge their disks, or add nodes";

/// From where on a disk is too full.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Watermark {
    /// This part of it is used, between 0 and 1.
    Used(f64),
    /// Fewer bytes than these are free.
    Free(f64),
}

/// The fullest data path of a node: OpenSearch judges a node by it.
#[derive(Debug, PartialEq)]
struct DataDisk<'s> {
    node: &'s str,
    size: f64,
    free: f64,
}

/// Compares the fullest disk of each data node with the watermarks. `stats`: an answer of
/// `/_nodes/stats/fs`.
pub fn check_disks(checks: &mut Checks, stats: &Value, settings: &ClusterSettings) {
    let nodes = stats["nodes"].as_object();
    let disks: Vec<DataDisk<'_>> = nodes
        .into_iter()
        .flat_map(serde_json::Map::values)
        .filter_map(DataDisk::of)
        .collect();
    let Some(fullest) = disks
        .iter()
        .max_by(|disk, other| disk.used().total_cmp(&other.used()))
    else {
        checks.skipped(CHECK, "OpenSearch reports the disk of no data node", "");
        return;
    };
    if settings.text(ENABLED) == Some("false") {
        let message = format!(
            "the fullest is of {fullest}; {ENABLED} is false, so that OpenSearch does not act on watermarks"
        );
        checks.ok(CHECK, message);
        return;
    }
    let watermark = |key: &'static str, default| {
        let text = settings.text(key).unwrap_or(default);
        parse(text)
            .map(|watermark| (text, watermark))
            .ok_or_else(|| format!("{key} is {text:?}, which is no percentage, ratio or size"))
    };
    let watermarks = watermark(HIGH, DEFAULT_HIGH)
        .and_then(|high| Ok((high, watermark(FLOOD_STAGE, DEFAULT_FLOOD_STAGE)?)));
    let ((high_text, high), (flood_text, flood)) = match watermarks {
        Ok(watermarks) => watermarks,
        Err(problem) => return checks.skipped(CHECK, problem, ""),
    };
    let over = |watermark: Watermark| -> Vec<String> {
        let over = disks.iter().filter(|disk| watermark.is_exceeded_by(disk));
        over.map(ToString::to_string).collect()
    };
    let (over_flood, over_high) = (over(flood), over(high));
    if !over_flood.is_empty() {
        let message = format!(
            "over the flood-stage watermark ({flood_text}): {}. OpenSearch makes the indices there read-only, and Fleetdex's documents wait",
            over_flood.join(", ")
        );
        checks.error(CHECK, message, FREE_SPACE);
    } else if !over_high.is_empty() {
        let message = format!(
            "over the high watermark ({high_text}): {}. While all data nodes are, no index can be created; over the flood-stage watermark ({flood_text}) indices become read-only",
            over_high.join(", ")
        );
        checks.warning(CHECK, message, FREE_SPACE);
    } else {
        checks.ok(
            CHECK,
            format!("the fullest is of {fullest}; the high watermark is {high_text}"),
        );
    }
}

impl Watermark {
    fn is_exceeded_by(self, disk: &DataDisk<'_>) -> bool {
        match self {
            Self::Used(part) => disk.used() > part,
            Self::Free(bytes) => disk.free < bytes,
        }
    }
}

impl<'s> DataDisk<'s> {
    /// `None` for a node without data, and for one that does not report its disks.
    fn of(stats: &'s Value) -> Option<Self> {
        let roles = stats["roles"].as_array();
        if roles.is_some_and(|roles| !roles.iter().any(|role| role == "data")) {
            return None;
        }
        let paths = stats["fs"]["data"].as_array();
        let paths = paths.filter(|paths| !paths.is_empty());
        let paths = paths.map_or(std::slice::from_ref(&stats["fs"]["total"]), Vec::as_slice);
        let disk = |path: &Value| {
            let size = path["total_in_bytes"].as_f64().filter(|size| *size > 0.0)?;
            let free = path["available_in_bytes"].as_f64()?;
            Some(Self {
                node: stats["name"].as_str().unwrap_or("without a name"),
                size,
                free,
            })
        };
        let disks = paths.iter().filter_map(disk);
        disks.min_by(|disk, other| disk.free.total_cmp(&other.free))
    }

    /// The part that is used, between 0 and 1.
    fn used(&self) -> f64 {
        1.0 - self.free / self.size
    }
}

impl fmt::Display for DataDisk<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gibibytes = self.free / f64::from(1 << 30);
        write!(
            formatter,
            "node {} (used to {:.0} %, {gibibytes:.1} GiB free)",
            self.node,
            self.used() * 100.0
        )
    }
}

/// A watermark as OpenSearch reads it: a percentage (`90%`), a ratio (`0.9`), or the bytes that
/// have to stay free (`50gb`).
fn parse(text: &str) -> Option<Watermark> {
    let text = text.trim().to_ascii_lowercase();
    let number = |text: &str| -> Option<f64> {
        let number = text.trim().parse::<f64>().ok()?;
        (number >= 0.0 && number.is_finite()).then_some(number)
    };
    if let Some(percent) = text.strip_suffix('%') {
        let percent = number(percent).filter(|percent| *percent <= 100.0)?;
        return Some(Watermark::Used(percent / 100.0));
    }
    if let Some(ratio) = number(&text) {
        return (ratio <= 1.0).then_some(Watermark::Used(ratio));
    }
    // Longer suffixes first: `gb` ends in `b`.
    let units = [
        ("kb", 10),
        ("mb", 20),
        ("gb", 30),
        ("tb", 40),
        ("pb", 50),
        ("k", 10),
        ("m", 20),
        ("g", 30),
        ("t", 40),
        ("p", 50),
        ("b", 0),
    ];
    let (size, power) = units
        .iter()
        .find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))?;
    Some(Watermark::Free(number(size)? * 2_f64.powi(power)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use fleetdex_checks::result::CheckStatus;

    const GIB: f64 = 1_073_741_824.0;

    fn node(name: &str, roles: &Value, size: f64, free: f64) -> Value {
        let disk = json!({ "total_in_bytes": size * GIB, "available_in_bytes": free * GIB });
        json!({ "name": name, "roles": roles, "fs": { "total": disk, "data": [disk] } })
    }

    fn result(stats: &Value, settings: Value) -> (CheckStatus, String) {
        let mut checks = Checks::of("store");
        check_disks(&mut checks, stats, &ClusterSettings::new(settings));
        let result = checks.results.remove(0);
        assert!(checks.results.is_empty());
        (result.status, result.message)
    }

    #[test]
    fn watermarks_are_percentages_ratios_or_free_bytes() {
        for (text, expected) in [
            ("90%", Some(Watermark::Used(0.9))),
            ("87.5%", Some(Watermark::Used(0.875))),
            ("0.9", Some(Watermark::Used(0.9))),
            ("1", Some(Watermark::Used(1.0))),
            ("50gb", Some(Watermark::Free(50.0 * GIB))),
            ("50GB", Some(Watermark::Free(50.0 * GIB))),
            ("1.5g", Some(Watermark::Free(1.5 * GIB))),
            ("512mb", Some(Watermark::Free(0.5 * GIB))),
            ("2tb", Some(Watermark::Free(2048.0 * GIB))),
            ("1b", Some(Watermark::Free(1.0))),
            ("101%", None),
            ("90", None),
            ("-1", None),
            ("much", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn each_node_is_judged_by_the_watermarks_of_the_cluster() {
        let data = json!(["cluster_manager", "data"]);
        let watermarks =
            |high: &str, flood: &str| json!({ "persistent": { HIGH: high, FLOOD_STAGE: flood } });
        let cases = [
            // Free of 100 GiB, settings, expectation.
            (50.0, json!({}), CheckStatus::Ok),
            (9.0, json!({}), CheckStatus::Warning),
            (4.0, json!({}), CheckStatus::Error),
            (
                4.0,
                json!({ "defaults": { ENABLED: "false" } }),
                CheckStatus::Ok,
            ),
            (9.0, watermarks("0.95", "0.98"), CheckStatus::Ok),
            (4.0, watermarks("0.95", "0.98"), CheckStatus::Warning),
            (1.0, watermarks("0.95", "0.98"), CheckStatus::Error),
            (4.0, watermarks("3gb", "1gb"), CheckStatus::Ok),
            (50.0, watermarks("51gb", "1gb"), CheckStatus::Warning),
            (50.0, watermarks("60gb", "51gb"), CheckStatus::Error),
            (50.0, watermarks("high", "95%"), CheckStatus::Skipped),
        ];
        for (free, settings, expected) in cases {
            let stats = json!({ "nodes": {
                "a": node("roomy", &data, 1000.0, 900.0),
                "b": node("full", &data, 100.0, free),
                "c": node("manager", &json!(["cluster_manager"]), 10.0, 0.0),
            } });
            let (status, message) = result(&stats, settings.clone());
            assert_eq!(status, expected, "{free} GiB, {settings}: {message}");
            assert!(!message.contains("manager ("), "{message}");
            if status != CheckStatus::Skipped {
                assert!(message.contains("node full (used to"), "{message}");
            }
        }
        // A transient setting is before a persistent one.
        let settings =
            json!({ "transient": { ENABLED: "true" }, "persistent": { ENABLED: "false" } });
        let stats = json!({ "nodes": { "a": node("full", &data, 100.0, 1.0) } });
        assert_eq!(result(&stats, settings).0, CheckStatus::Error);
    }

    #[test]
    fn the_fullest_path_of_a_node_counts_and_a_node_without_disks_does_not() {
        let path =
            |free: f64| json!({ "total_in_bytes": 100.0 * GIB, "available_in_bytes": free * GIB });
        let stats = json!({ "nodes": { "a": { "name": "a", "fs": { "total": path(50.0), "data": [path(60.0), path(2.0)] } } } });
        assert_eq!(result(&stats, json!({})).0, CheckStatus::Error);
        let hidden = json!({ "nodes": { "a": { "name": "a", "roles": ["data"] } } });
        assert_eq!(result(&hidden, json!({})).0, CheckStatus::Skipped);
        assert_eq!(result(&json!({}), json!({})).0, CheckStatus::Skipped);
    }
}
