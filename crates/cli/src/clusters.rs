//! `fleetdex clusters`: lists the clusters of the fleet, and whether their objects are current.

use std::fmt::Display;

use fleetdex_core::{model::ClusterName, terminal::escaped_line};
use fleetdex_query_api::answer::{ClusterReport, FleetReport};

use super::{
    api::{Api, ClientConfig},
    console::{CommandError, Console, Warnings},
    output::{
        OutputArgs, OutputFormat,
        columns::{first_line, write_aligned},
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
pub async fn clusters(
    args: &ClustersArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    // Printed as it is, with what a newer server adds.
    if let format @ (OutputFormat::Json | OutputFormat::Yaml) = args.output.format {
        let (report, warnings) = api.document("clusters", &[]).await?;
        Warnings::default().print(warnings, console)?;
        print_document(&report, format, console)?;
        return Ok(true);
    }
    let (report, warnings) = api.get_json::<FleetReport>("clusters").await?;
    Warnings::default().print(warnings, console)?;
    if args.output.format == OutputFormat::Name {
        for cluster in &report.clusters {
            writeln!(console.out, "{}", escaped_line(cluster.name.as_str()))?;
        }
        return Ok(true);
    }
    let shown = match args.output.format {
        OutputFormat::Wide => COLUMNS.len(),
        _ => NARROW,
    };
    if report.clusters.is_empty() {
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
    lines.extend(report.clusters.iter().map(|cluster| line(cluster, &report)));
    for line in &mut lines {
        line.truncate(shown);
    }
    write_aligned(console.out, &lines)?;
    Ok(true)
}

fn line(cluster: &ClusterReport, report: &FleetReport) -> Vec<String> {
    let why = std::iter::once(&cluster.message).chain(&cluster.gaps);
    let why = why.filter(|text| !text.is_empty());
    let why: Vec<String> = why.map(|text| first_line(text)).collect();
    vec![
        cluster.name.to_string(),
        cluster.state.as_str().to_owned(),
        cluster.kinds.to_string(),
        shown(objects(&cluster.name, report)),
        shown(cluster.lag_seconds.map(|seconds| format!("{seconds}s"))),
        why.join("; "),
        shown(cluster.since),
        shown(cluster.replica.as_deref().map(first_line)),
    ]
}

fn shown(cell: Option<impl Display>) -> String {
    cell.map(|cell| cell.to_string()).unwrap_or_default()
}

/// The objects of a cluster in all registries; `None` if the caller may not see these.
fn objects(name: &ClusterName, report: &FleetReport) -> Option<u64> {
    let registries = report.registries.as_ref()?.iter();
    let statuses = registries.flat_map(|registry| &registry.status.clusters);
    let counts = statuses.filter(|status| status.name == name.as_str());
    Some(counts.map(|status| status.objects).sum())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fleetdex_query_api::answer::{ClusterState, RegistryReport};
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
        let of = |name: &str, objects: u64| json!({ "name": name, "phase": "Synced", "objects": objects });
        let registries: Vec<RegistryReport> = serde_json::from_value(json!([
            { "name": "one", "status": { "clusters": [of("a", 2), of("b", 9)] } },
            { "name": "two", "status": { "clusters": [of("a", 3)] } },
        ]))
        .unwrap();
        let report = FleetReport::new(Vec::new(), Some(registries));
        let cluster = ClusterReport {
            name: "a".parse().unwrap(),
            state: ClusterState::Stale,
            message: "not connected".to_owned(),
            since: Some("2026-02-03T10:00:00Z".parse().unwrap()),
            lag_seconds: Some(0.25),
            replica: None,
            kinds: 4,
            gaps: ["no pods".to_owned()].into(),
        };
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
        assert_eq!(line(&cluster, &FleetReport::new(Vec::new(), None))[3], "");
    }
}
