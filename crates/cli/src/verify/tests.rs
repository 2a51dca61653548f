use std::sync::Arc;

use clap::Parser;
use fleetdex_server::{
    catalog::{Catalog, planned_stream::PlannedStream},
    fake::{no_clusters, store},
    http::serve::{Server, ServerArgs},
    limits::LimitArgs,
    telemetry::Telemetry,
    watch::peers::Peers,
};
use fleetdex_sync::audit::fake::AuditFixture;
use fleetdex_telemetry::{Metrics, Readiness, Traces};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: VerifyArgs,
}

fn row(cluster: &str, kind: &str, outcome: VerificationResult) -> Row {
    Row {
        cluster: cluster.to_owned(),
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        namespace: String::new(),
        store: "main".to_owned(),
        outcome,
    }
}

fn clean() -> VerificationResult {
    VerificationResult::Clean(ComparisonCounts {
        objects: 12,
        documents: 12,
        ..ComparisonCounts::default()
    })
}

fn drift() -> VerificationResult {
    VerificationResult::Drift(ComparisonCounts {
        objects: 1_200,
        documents: 1_201,
        missing: 1,
        surplus: 2,
        ..ComparisonCounts::default()
    })
}

fn unknown() -> VerificationResult {
    VerificationResult::NotVerified {
        reason: "the cluster is disconnected".to_owned(),
    }
}

fn printed(rows: &[Row], format: ReportFormat) -> String {
    let mut out = Vec::new();
    print(rows, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Exit code, standard output and standard error.
async fn run_against(server: &str, token_file: &str, line: &[&str]) -> (u8, String, String) {
    let words = ["verify", "--server", server, "--token-file", token_file];
    let args = Command::parse_from(words.iter().chain(line)).args;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = verify(&args, &mut out, &mut err).await;
    (
        code,
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

#[test]
fn the_arguments_fit_together() {
    use clap::CommandFactory;
    Command::command().debug_assert();
    assert_eq!(
        Command::parse_from(["verify", "--cluster", "a,b", "--cluster=c"])
            .args
            .clusters,
        ["a", "b", "c"]
    );
}

#[test]
fn a_table_has_one_line_per_kind_and_only_the_columns_that_differ() {
    let rows = [
        row("member1", "Deployment", clean()),
        row("member1", "StatefulSet", drift()),
        row("member2", "", unknown()),
    ];
    insta::assert_snapshot!(printed(&rows, ReportFormat::Table), @r"
    CLUSTER   KIND                  OBJECTS   DOCUMENTS   MISSING   DIFFERING   SURPLUS   RESULT
    member1   apps/v1/Deployment    12        12          0         0           0         ok
    member1   apps/v1/StatefulSet   1200      1201        1         0           2         drift, being repaired
    member2   *                     -         -           -         -           -         not verified: the cluster is disconnected
    ");
    let in_namespace = Row {
        namespace: "web".to_owned(),
        store: "other".to_owned(),
        ..row("member1", "Deployment", clean())
    };
    insta::assert_snapshot!(printed(&[rows[0].clone(), in_namespace], ReportFormat::Table), @r"
    CLUSTER   KIND                 NAMESPACE   STORE   OBJECTS   DOCUMENTS   MISSING   DIFFERING   SURPLUS   RESULT
    member1   apps/v1/Deployment               main    12        12          0         0           0         ok
    member1   apps/v1/Deployment   web         other   12        12          0         0           0         ok
    ");
    assert_eq!(printed(&[], ReportFormat::Table), "");
}

#[test]
fn json_has_the_result_and_the_rows() {
    let report: serde_json::Value = serde_json::from_str(&printed(
        &[row("member1", "Deployment", drift())],
        ReportFormat::Json,
    ))
    .unwrap();
    assert_eq!(
        (&report["result"], &report["rows"][0]["result"]),
        (&json!("Drift"), &json!("Drift"))
    );
    assert_eq!(report["rows"][0]["surplus"], 2);
}

#[test]
fn the_exit_code_is_that_of_the_worst_row() {
    let code = |outcomes: Vec<VerificationResult>| {
        let rows: Vec<Row> = outcomes
            .into_iter()
            .map(|outcome| row("member1", "Deployment", outcome))
            .collect();
        ReportResult::of(&rows).exit_code()
    };
    assert_eq!(code(vec![clean(), clean()]), 0);
    assert_eq!(code(vec![clean(), unknown(), drift()]), 1);
    assert_eq!(code(vec![clean(), unknown()]), 2);
    assert_eq!(code(vec![]), 2, "nothing was verified");
}

#[tokio::test]
async fn a_running_server_verifies_and_its_refusal_is_printed() {
    // The HTTP client wants a provider even though nothing here is encrypted; another test may have
    // been first.
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    let args = ServerArgs {
        api_address: "127.0.0.1:0".parse().unwrap(),
        token_file: token_file.clone(),
        limits: LimitArgs::default(),
    };
    let server = Server::bind(&args, false).await.unwrap();
    let (address, token_file) = (
        format!("http://{}", server.address()),
        token_file.display().to_string(),
    );
    let world = AuditFixture::new("member1").await;
    world.has(&[("a", 3)]);
    world.stores(&[("a", 3)]);
    let mut catalog = Catalog::default();
    let followed = PlannedStream {
        unit: world.audit.unit.clone(),
        store: store("main"),
        audit: Ok(Arc::clone(&world.audit)),
    };
    catalog.add_stream(followed);
    let (catalogs, reader) = watch::channel(Arc::new(catalog));
    let telemetry = Telemetry {
        metrics: Arc::new(Metrics::new()),
        readiness: Readiness::new(),
        traces: Traces::default(),
    };
    let cancel = CancellationToken::new();
    let task = tokio::spawn(server.run(
        reader,
        no_clusters(),
        telemetry,
        None,
        Peers::default(),
        cancel.clone(),
    ));

    let (code, table, err) = run_against(&address, &token_file, &["--cluster", "member1"]).await;
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!(table, @r"
    CLUSTER   KIND           OBJECTS   DOCUMENTS   MISSING   DIFFERING   SURPLUS   RESULT
    member1   v1/ConfigMap   1         1           0         0           0         ok
    ");
    let (code, table, err) = run_against(&address, &token_file, &["--cluster=member9"]).await;
    assert_eq!((code, table.as_str()), (2, ""));
    assert_eq!(
        err,
        "Error from server (NotFound): clusters.search.fleetdex.io \"member9\" not found: no ResourceRegistry selects a member of this name\n"
    );
    catalogs.send_replace(Arc::default());
    let (code, _, err) = run_against(&address, &token_file, &[]).await;
    assert_eq!(
        (code, err.as_str()),
        (
            2,
            "nothing is watched: no ResourceRegistry selects a resource\n"
        )
    );
    cancel.cancel();
    task.await.unwrap();
    let (code, _, err) = run_against(&address, &token_file, &[]).await;
    assert!(
        code == 2 && err.starts_with("error: cannot read the token file"),
        "{err}"
    );
}

/// A report that ends before its last line must not look like a good one.
#[tokio::test]
async fn a_report_without_its_last_line_is_an_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let token = tempfile::NamedTempFile::new().unwrap();
    let line =
        serde_json::to_string(&ReportLine::Row(row("member1", "Deployment", clean()))).unwrap();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{line}\n",
        line.len() + 1
    );
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let read = stream.read(&mut [0; 4_096]).await.unwrap();
        assert!(read > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
    };
    let asked = run_against(&address, token.path().to_str().unwrap(), &[]);
    let ((code, table, err), ()) = tokio::join!(asked, serve);
    assert_eq!((code, table.as_str()), (2, ""));
    assert!(
        err.contains("ended its report before it was complete"),
        "{err}"
    );
}
