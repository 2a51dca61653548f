//! `fleetdex clusters`: lists the clusters of the fleet, and whether their objects are current.

use std::process::ExitCode;

use fleetdex_core::terminal::escaped_line;
use serde_json::Value;

use super::{
    api::{Api, ClientConfig},
    console::{self, CommandError, Console, Warnings},
    output::{
        OutputArgs, OutputFormat,
        columns::{cell_text, write_aligned},
        print_document,
    },
};

/// The columns of the table. Those after the first [`NARROW`] are printed with `-o wide` only.
const COLUMNS: [&str; 8] = [
    "NAME", "STATE", "KINDS", "OBJECTS", "LAG", "MESSAGE", "SINCE", "READ BY",
];
const NARROW: usize = 6;

/// Lists the clusters that you may see, and whether their objects are as they are there.
#[derive(Clone, Debug, clap::Args)]
pub struct ClustersArgs {
    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Lists and prints.
pub async fn run(args: &ClustersArgs) -> ExitCode {
    console::run(async |console: &mut Console<'_>| clusters(args, console).await).await
}

async fn clusters(args: &ClustersArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let (report, warnings) = api.document("clusters", &[]).await?;
    Warnings::default().print(warnings, console)?;
    let clusters = report["clusters"].as_array().map(Vec::as_slice);
    let clusters = clusters.unwrap_or_default();
    let shown = match args.output.format {
        OutputFormat::Table => NARROW,
        OutputFormat::Wide => COLUMNS.len(),
        OutputFormat::Name => {
            for cluster in clusters {
                writeln!(
                    console.out,
                    "{}",
                    escaped_line(&cell_text(&cluster["name"]))
                )?;
            }
            return Ok(true);
        }
        format @ (OutputFormat::Json | OutputFormat::Yaml) => {
            print_document(&report, format, console)?;
            return Ok(true);
        }
    };
    if clusters.is_empty() {
        writeln!(
            console.err,
            "No registry selects a cluster that you may see."
        )?;
        return Ok(true);
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !args.output.no_headers {
        lines.push(COLUMNS.map(str::to_owned).to_vec());
    }
    lines.extend(clusters.iter().map(|cluster| line(cluster, &report)));
    for line in &mut lines {
        line.truncate(shown);
    }
    write_aligned(console.out, &lines)?;
    Ok(true)
}

fn line(cluster: &Value, report: &Value) -> Vec<String> {
    let lag = cluster["lagSeconds"].as_f64();
    let gaps = cluster["gaps"].as_array().map(Vec::as_slice);
    let why = std::iter::once(&cluster["message"]).chain(gaps.unwrap_or_default());
    let why = why.map(cell_text).filter(|text| !text.is_empty());
    vec![
        cell_text(&cluster["name"]),
        cell_text(&cluster["state"]),
        cell_text(&cluster["kinds"]),
        objects(&cluster["name"], report).map_or_else(String::new, |count| count.to_string()),
        lag.map_or_else(String::new, |seconds| format!("{seconds}s")),
        why.collect::<Vec<_>>().join("; "),
        cell_text(&cluster["since"]),
        cell_text(&cluster["replica"]),
    ]
}

/// The objects of a cluster in all registries; `None` if the caller may not see these.
fn objects(name: &Value, report: &Value) -> Option<u64> {
    let registries = report["registries"].as_array()?;
    let statuses = registries.iter().flat_map(|registry| {
        let clusters = registry["status"]["clusters"].as_array();
        clusters.into_iter().flatten()
    });
    let counts = statuses.filter(|status| status["name"] == *name);
    Some(counts.filter_map(|status| status["objects"].as_u64()).sum())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::test_server::TestServer;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ClustersArgs,
    }

    impl TestServer {
        async fn clusters(&self, line: &[&str]) -> (bool, String, String) {
            let args = Command::parse_from(self.words("clusters", line)).args;
            self.run(async |console: &mut Console<'_>| clusters(&args, console).await)
                .await
        }
    }

    #[tokio::test]
    async fn clusters_are_listed() {
        let server = TestServer::with(Vec::new()).await;
        let (_, out, err) = server.clusters(&[]).await;
        assert_eq!(err, "");
        let mut lines = out.lines();
        let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(header, COLUMNS[..NARROW]);
        assert!(lines.next().unwrap().starts_with("member1   Current"));
        let (_, out, _) = server.clusters(&["-o", "name"]).await;
        assert!(out.starts_with("member1\n"), "{out}");
        let (_, out, _) = server.clusters(&["-o", "yaml"]).await;
        assert!(out.contains("kind: FleetReport"), "{out}");
    }

    #[test]
    fn a_line_says_what_is_wrong_and_counts_all_registries() {
        let report = json!({"registries": [
            {"status": {"clusters": [{"name": "a", "objects": 2}, {"name": "b", "objects": 9}]}},
            {"status": {"clusters": [{"name": "a", "objects": 3}]}},
        ]});
        let cluster = json!({
            "name": "a", "state": "Stale", "kinds": 4, "lagSeconds": 0.25,
            "message": "not connected", "gaps": ["no pods"], "since": "2026-02-03T10:00:00Z",
        });
        let expected = [
            "a",
            "Stale",
            "4",
            "5",
            "0.25s",
            "not connected; no pods",
            "2026-02-03T10:00:00Z",
            "",
        ];
        assert_eq!(line(&cluster, &report), expected);
        assert_eq!(line(&cluster, &json!({}))[3], "");
    }
}
