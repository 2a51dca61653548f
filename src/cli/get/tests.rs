use std::{fs, sync::Arc};

use clap::Parser;
use serde_json::{json, value::to_raw_value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    model::CLUSTER_ANNOTATION,
    query::{Hit, Page},
    server::{
        Catalog, Server, ServerArgs, ServerError, Telemetry,
        fake::{Prepared, catalog, cluster, cursor, no_clusters},
    },
    store::StoreError,
    telemetry::{Metrics, Readiness},
};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

/// A real server on a free port, over prepared pages.
struct Running {
    store: Arc<Prepared>,
    folder: tempfile::TempDir,
    server: String,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn with(pages: Vec<Result<Page, StoreError>>) -> Self {
        let store = Prepared::with(pages);
        Self::over(catalog(store.clone()), store).await
    }

    async fn over(catalog: Catalog, store: Arc<Prepared>) -> Self {
        // The HTTP client wants a provider even though nothing here is encrypted; another test may have been first.
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let args = ServerArgs { api_address: "127.0.0.1:0".parse().unwrap(), token_file: folder.path().join("fleetdex/token") };
        let server = Server::bind(&args).await.unwrap();
        let address = format!("http://{}", server.address());
        let (_sender, reader) = watch::channel(Arc::new(catalog));
        let telemetry = Telemetry { metrics: Arc::new(Metrics::new()), readiness: Readiness::new() };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(server.run(reader, no_clusters(), telemetry, cancel.clone()));
        Self { store, folder, server: address, cancel, task }
    }

    /// Whether all was found, standard output and standard error.
    async fn get(&self, line: &[&str]) -> (bool, String, String) {
        let token_file = self.folder.path().join("fleetdex/token");
        let mut words = vec!["get", "--server", &self.server, "--token-file", token_file.to_str().unwrap()];
        words.extend(line);
        let args = Command::parse_from(words).args;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let found = match get(&args, "2026-02-03T10:00:00Z".parse().unwrap(), &mut out, &mut err).await {
            Ok(found) => found,
            Err(error) => {
                writeln!(err, "{}", explanation(&error)).unwrap();
                false
            }
        };
        (found, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }
}

fn hit(cluster_name: &str, namespace: &str, name: &str) -> Hit {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-02-03T09:59:00Z",
            "annotations": { CLUSTER_ANNOTATION: cluster_name, "note": "yes" },
        },
        "spec": { "nodeName": "n1", "containers": [{ "name": "a" }] },
        "status": { "phase": "Pending" },
    });
    Hit { cluster: cluster(cluster_name), object: to_raw_value(&object).unwrap() }
}

fn two_pods() -> Page {
    let items = vec![hit("member1", "default", "web-1"), hit("member2", "kube-system", "dns")];
    Page { items, next: None, remaining: None }
}

#[test]
fn the_arguments_fit_together_and_no_limit_means_everything() {
    use clap::CommandFactory;
    Command::command().debug_assert();
    assert_eq!(Command::parse_from(["get", "pods"]).args.query.limit, 0);
}

#[tokio::test]
async fn a_table_starts_with_the_cluster_and_looks_like_kubectls() {
    let running = Running::with(vec![Ok(two_pods()), Ok(two_pods()), Ok(two_pods())]).await;
    let (found, table, err) = running.get(&["po", "-A"]).await;
    assert!(found && err.is_empty(), "{err}");
    insta::assert_snapshot!(table, @r"
    CLUSTER   NAMESPACE     NAME    READY   STATUS    RESTARTS   AGE
    member1   default       web-1   0/1     Pending   0          60s
    member2   kube-system   dns     0/1     Pending   0          60s
    ");
    let (_, wide, _) = running.get(&["pods", "-o", "wide"]).await;
    insta::assert_snapshot!(wide, @r"
    CLUSTER   NAME    READY   STATUS    RESTARTS   AGE   IP       NODE   NOMINATED NODE   READINESS GATES
    member1   web-1   0/1     Pending   0          60s   <none>   n1     <none>           <none>
    member2   dns     0/1     Pending   0          60s   <none>   n1     <none>           <none>
    ");
    let (_, names, _) = running.get(&["pod", "-o", "name"]).await;
    assert_eq!(names, "member1/pod/web-1\nmember2/pod/dns\n");
}

#[tokio::test]
async fn json_and_yaml_are_lists_of_whole_objects() {
    let one = || Ok(Page { items: vec![hit("member1", "default", "web-1")], next: None, remaining: None });
    let running = Running::with(vec![one(), one()]).await;
    let (_, json_text, _) = running.get(&["pods", "-o", "json"]).await;
    let list: serde_json::Value = serde_json::from_str(&json_text).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("List"), &json!("web-1")));
    let (_, yaml, _) = running.get(&["pods", "-o", "yaml"]).await;
    insta::assert_snapshot!(yaml, @r#"
    apiVersion: v1
    kind: List
    metadata:
      resourceVersion: ""
    items:
    - apiVersion: v1
      kind: Pod
      metadata:
        name: web-1
        namespace: default
        creationTimestamp: "2026-02-03T09:59:00Z"
        annotations:
          resource.karmada.io/cached-from-cluster: member1
          note: "yes"
      spec:
        nodeName: n1
        containers:
        - name: a
      status:
        phase: Pending
    "#);
    let read_back: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read_back, list);
}

#[tokio::test]
async fn awkward_texts_survive_yaml() {
    let texts = [
        "",
        " lead",
        "trail ",
        "a: b",
        "- a",
        "#c",
        "on",
        "~",
        "null",
        "1e3",
        "0x10",
        "017",
        "1_000",
        ".inf",
        "2026-02-03",
        "!t",
        "&a",
        "*a",
        "%",
        "@",
        "`",
        "'",
        "\"",
        "\\",
        "tab\there",
        "two\nlines",
        "ends\n",
        "ends\n\n",
        "\n starts",
        "a\r\nb",
        "\u{7f}\u{85}\u{feff}",
    ];
    let long = "word ".repeat(60);
    let mut values: Vec<serde_json::Value> = texts.iter().map(|text| json!(text)).collect();
    values.extend([json!(long), json!(long.trim()), json!(1), json!(1.5), json!(null), json!([]), json!({}), json!([[1, []]])]);
    let object = json!({ "metadata": { "name": "a" }, "data": values, "1": { "true": 1, "a: b": 2, "": 3 } });
    let items = vec![Hit { cluster: cluster("member1"), object: to_raw_value(&object).unwrap() }];
    let running = Running::with(vec![Ok(Page { items, next: None, remaining: None })]).await;
    let (_, yaml, err) = running.get(&["pods", "-o", "yaml"]).await;
    let read_back: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read_back["items"][0], object, "{yaml}{err}");
}

#[tokio::test]
async fn the_namespace_is_default_unless_one_or_all_are_asked_for() {
    let running = Running::with(vec![]).await;
    let (_, _, nothing) = running.get(&["pods"]).await;
    assert_eq!(nothing, "No resources found in default namespace.\n");
    running.get(&["pods", "-n", "web"]).await;
    running.get(&["pods", "-A"]).await;
    running.get(&["nodes", "-n", "web"]).await;
    let namespaces = running.store.asked().into_iter().map(|(query, _)| query.namespaces);
    let names: Vec<String> = namespaces.map(|list| list.iter().map(ToString::to_string).collect()).collect();
    assert_eq!(names, ["default", "web", "", ""]);
}

#[tokio::test]
async fn arguments_reach_the_store_as_they_were_meant() {
    let running = Running::with(vec![]).await;
    let line = [
        "deploy",
        "a b",
        "c",
        "-l",
        "app in (web,api),!canary",
        "--field-selector",
        "metadata.name!=x&y",
        "--cluster",
        "member2",
    ];
    running.get(&line).await;
    let (query, _) = running.store.asked().pop().unwrap();
    assert_eq!(query.names, ["a b", "c"]);
    assert_eq!(
        query.labels.to_string(),
        "app in (api,web),!canary".parse::<crate::selector::LabelSelector>().unwrap().to_string()
    );
    assert_eq!(query.fields.to_string(), "metadata.name!=x&y");
    assert_eq!(query.clusters, [cluster("member2")]);
    assert_eq!((&*query.resource.group, &*query.resource.plural), ("apps", "deployments"));
}

#[tokio::test]
async fn pages_are_followed_to_the_end_or_to_the_limit() {
    let first = || Ok(Page { items: vec![hit("member1", "a", "p1")], next: Some(cursor(1)), remaining: None });
    let second = || Ok(Page { items: vec![hit("member1", "a", "p2")], next: None, remaining: None });
    let running = Running::with(vec![first(), second(), first()]).await;
    let (_, all, err) = running.get(&["pods", "-A", "-o", "name"]).await;
    assert_eq!(all, "member1/pod/p1\nmember1/pod/p2\n", "{err}");
    let (_, limited, _) = running.get(&["pods", "-A", "-o", "name", "--limit", "1"]).await;
    assert_eq!(limited, "member1/pod/p1\n");
    let limits: Vec<usize> = running.store.asked().into_iter().map(|(query, _)| query.limit).collect();
    assert_eq!(limits, [500, 500, 1]);
}

#[tokio::test]
async fn a_name_that_is_nowhere_is_a_failure_that_names_it() {
    let running = Running::with(vec![Ok(two_pods())]).await;
    let (found, table, err) = running.get(&["pods", "web-1", "gone"]).await;
    assert!(!found);
    assert!(table.contains("web-1"));
    assert_eq!(err, "Error from server (NotFound): pods \"gone\" not found\n");
    let (slash, _, missing) = running.get(&["pod/other"]).await;
    assert_eq!((slash, missing.as_str()), (false, "Error from server (NotFound): pods \"other\" not found\n"));
}

#[tokio::test]
async fn refusals_and_warnings_go_to_standard_error() {
    let store = Prepared::with(vec![Err(StoreError::Expired)]);
    let mut stale = catalog(store.clone());
    stale.add_stale(cluster("member1"), Timestamp::UNIX_EPOCH, "disconnected since noon");
    let running = Running::over(stale, store).await;
    let (found, _, expired) = running.get(&["pods"]).await;
    assert!(!found);
    assert_eq!(expired, "Error from server (Expired): the continue token has expired; start the list again without it\n");
    let (_, _, warned) = running.get(&["pods"]).await;
    assert!(warned.starts_with("Warning: cluster member1 is disconnected since noon\n"), "{warned}");
    let (_, _, selector) = running.get(&["pods", "-l", "a in (b"]).await;
    assert!(selector.starts_with("Error from server (BadRequest): parameter labelSelector"), "{selector}");
    let (_, _, unknown) = running.get(&["widgets"]).await;
    assert_eq!(unknown, "error: the server doesn't have a resource type \"widgets\": no ResourceRegistry selects it\n");
}

#[tokio::test]
async fn a_server_that_is_gone_leaves_no_token_and_an_error_that_helps() {
    let running = Running::with(vec![]).await;
    let token_file = running.folder.path().join("fleetdex/token");
    let token = fs::read_to_string(&token_file).unwrap();
    fs::write(&token_file, "wrong").unwrap();
    let (_, _, refused) = running.get(&["pods"]).await;
    assert!(refused.starts_with("Error from server (Unauthorized)"), "{refused}");
    fs::write(&token_file, token).unwrap();
    running.cancel.cancel();
    while !running.task.is_finished() {
        tokio::task::yield_now().await;
    }
    let (_, _, without_token) = running.get(&["pods"]).await;
    assert!(without_token.starts_with("error: cannot read the token file"), "{without_token}");
    fs::write(&token_file, "old").unwrap();
    let (_, _, unreachable) = running.get(&["pods"]).await;
    assert!(unreachable.starts_with("error: cannot reach the server at http://127.0.0.1:"), "{unreachable}");
}

#[tokio::test]
async fn only_loopback_addresses_are_served() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let args = ServerArgs { api_address: address.parse().unwrap(), token_file: folder.path().join("token") };
        let error = Server::bind(&args).await.unwrap_err();
        assert!(matches!(error, ServerError::NotLoopback(_)), "{error}");
        assert!(error.to_string().contains("--api-address"));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
