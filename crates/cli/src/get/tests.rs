use std::fs;

use clap::Parser;
use fleetdex_core::{
    model::CLUSTER_ANNOTATION,
    query::{HeldMemory, Hit, Page},
};
use fleetdex_server::{
    fake::{catalog, cluster, cursor},
    http::serve::{Server, ServerArgs, ServerError},
    limits::LimitArgs,
};
use fleetdex_store::{StoreError, fake::PreparedReader};
use jiff::Timestamp;
use serde_json::{json, value::to_raw_value};

use super::*;
use crate::test_server::{TestServer, hit, two_pods};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: GetArgs,
}

impl TestServer {
    /// Whether all was found, standard output and standard error.
    async fn get(&self, line: &[&str]) -> (bool, String, String) {
        let args = Command::parse_from(self.words("get", line)).args;
        self.run(async |console: &mut Console<'_>| get(&args, console).await)
            .await
    }
}

#[test]
fn the_arguments_are_consistent_and_unlimited_by_default() {
    use clap::CommandFactory;
    Command::command().debug_assert();
    assert_eq!(Command::parse_from(["get", "pods"]).args.query.limit, 0);
}

#[tokio::test]
async fn a_table_begins_with_the_cluster_and_looks_like_that_of_kubectl() {
    let server = TestServer::with(vec![Ok(two_pods()), Ok(two_pods()), Ok(two_pods())]).await;
    let (found, table, err) = server.get(&["po", "-A"]).await;
    assert!(found && err.is_empty(), "{err}");
    // How old they are depends on when this is read.
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "CLUSTER   NAMESPACE     NAME    READY   STATUS    RESTARTS   AGE"
    );
    assert!(
        lines[1].starts_with("member1   default       web-1   0/1     Pending   0          "),
        "{table}"
    );
    assert!(
        lines[2].starts_with("member2   kube-system   dns     0/1     Pending   0          "),
        "{table}"
    );
    let (_, wide, _) = server.get(&["pods", "-o", "wide"]).await;
    let header: Vec<&str> = wide
        .lines()
        .next()
        .unwrap()
        .split("  ")
        .map(str::trim)
        .filter(|title| !title.is_empty())
        .collect();
    let titles = [
        "CLUSTER",
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "NODE",
        "NOMINATED NODE",
        "READINESS GATES",
    ];
    assert_eq!(header, titles);
    let first: Vec<&str> = wide.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(first[6..], ["<none>", "n1", "<none>", "<none>"]);
    let (_, names, _) = server.get(&["pod", "-o", "name"]).await;
    assert_eq!(names, "member1/pod/web-1\nmember2/pod/dns\n");
}

#[tokio::test]
async fn json_and_yaml_are_lists_of_whole_objects() {
    let one = || {
        Ok(Page {
            items: vec![hit("member1", "default", "web-1")],
            next: None,
            remaining: None,
        })
    };
    let server = TestServer::with(vec![one(), one()]).await;
    let (_, json_text, _) = server.get(&["pods", "-o", "json"]).await;
    let list: serde_json::Value = serde_json::from_str(&json_text).unwrap();
    assert_eq!(
        (&list["kind"], &list["items"][0]["metadata"]["name"]),
        (&json!("List"), &json!("web-1"))
    );
    let (_, yaml, _) = server.get(&["pods", "-o", "yaml"]).await;
    insta::assert_snapshot!(yaml, @r#"
    apiVersion: v1
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
    kind: List
    metadata:
      resourceVersion: ""
    "#);
    let read_back: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read_back, list);
}

#[tokio::test]
async fn awkward_strings_survive_yaml() {
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
    values.extend([
        json!(long),
        json!(long.trim()),
        json!(1),
        json!(1.5),
        json!(null),
        json!([]),
        json!({}),
        json!([[1, []]]),
    ]);
    let object = json!({ "metadata": { "name": "a" }, "data": values, "1": { "true": 1, "a: b": 2, "": 3 } });
    let items = vec![Hit {
        interpretation: None,
        cluster: cluster("member1"),
        object: to_raw_value(&object).unwrap().into(),
        memory: HeldMemory::default(),
    }];
    let server = TestServer::with(vec![Ok(Page {
        items,
        next: None,
        remaining: None,
    })])
    .await;
    let (_, yaml, err) = server.get(&["pods", "-o", "yaml"]).await;
    let read_back: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read_back["items"][0], object, "{yaml}{err}");
}

#[tokio::test]
async fn the_namespace_is_default_unless_one_or_all_are_requested() {
    let server = TestServer::with(vec![]).await;
    let (_, _, nothing) = server.get(&["pods"]).await;
    assert_eq!(nothing, "No resources found in default namespace.\n");
    server.get(&["pods", "-n", "web"]).await;
    server.get(&["pods", "-A"]).await;
    server.get(&["nodes", "-n", "web"]).await;
    let namespaces = server
        .store
        .asked()
        .into_iter()
        .map(|(query, _)| query.namespaces);
    let names: Vec<String> = namespaces
        .map(|list| list.iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(names, ["default", "web", "", ""]);
}

#[tokio::test]
async fn arguments_become_the_query_of_the_store() {
    let server = TestServer::with(vec![]).await;
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
    server.get(&line).await;
    let (query, _) = server.store.asked().pop().unwrap();
    assert_eq!(query.names, ["a b", "c"]);
    assert_eq!(
        query.labels.to_string(),
        "app in (api,web),!canary"
            .parse::<fleetdex_core::selector::LabelSelector>()
            .unwrap()
            .to_string()
    );
    assert_eq!(query.fields.to_string(), "metadata.name!=x&y");
    assert_eq!(query.clusters, [cluster("member2")]);
    assert_eq!(
        (&*query.resource.group, &*query.resource.plural),
        ("apps", "deployments")
    );
}

#[tokio::test]
async fn pages_are_read_to_the_end_or_to_the_limit() {
    let first = || {
        Ok(Page {
            items: vec![hit("member1", "a", "p1")],
            next: Some(cursor(1)),
            remaining: None,
        })
    };
    let second = || {
        Ok(Page {
            items: vec![hit("member1", "a", "p2")],
            next: None,
            remaining: None,
        })
    };
    let server = TestServer::with(vec![first(), second(), first()]).await;
    let (_, all, err) = server.get(&["pods", "-A", "-o", "name"]).await;
    assert_eq!(all, "member1/pod/p1\nmember1/pod/p2\n", "{err}");
    let (_, limited, _) = server
        .get(&["pods", "-A", "-o", "name", "--limit", "1"])
        .await;
    assert_eq!(limited, "member1/pod/p1\n");
    let limits: Vec<usize> = server
        .store
        .asked()
        .into_iter()
        .map(|(query, _)| query.limit)
        .collect();
    assert_eq!(limits, [500, 500, 1]);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_an_error() {
    let server = TestServer::with(vec![Ok(two_pods())]).await;
    let (found, table, err) = server.get(&["pods", "web-1", "gone"]).await;
    assert!(!found);
    assert!(table.contains("web-1"));
    assert_eq!(
        err,
        "Error from server (NotFound): pods \"gone\" not found\n"
    );
    let (slash, _, missing) = server.get(&["pod/other"]).await;
    assert_eq!(
        (slash, missing.as_str()),
        (
            false,
            "Error from server (NotFound): pods \"other\" not found\n"
        )
    );
}

#[tokio::test]
async fn text_of_an_object_does_not_control_the_terminal() {
    let text = "\u{1b}]0;title\u{7}\r\u{9b}2J\u{7f}\u{202e}";
    let object = serde_json::json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web", "namespace": "default", "labels": { "app": text, "c1": "\u{9b}2J", "c0": "\u{1b}c", "del": "\u{7f}" }, "annotations": { CLUSTER_ANNOTATION: "member1" } },
        "status": { "phase": text } });
    let page = || {
        let hit = Hit {
            interpretation: None,
            cluster: cluster("member1"),
            object: serde_json::value::to_raw_value(&object).unwrap().into(),
            memory: HeldMemory::default(),
        };
        Ok(Page {
            items: vec![hit],
            ..Page::default()
        })
    };
    let outputs = ["table", "wide", "json", "yaml"];
    let server = TestServer::with(outputs.iter().map(|_| page()).collect()).await;
    for output in outputs {
        let (_, shown, err) = server.get(&["pods", "-o", output]).await;
        assert!(shown.contains("title"), "{output}: {shown} {err}");
        // YAML has no escapes outside of quotes, and kubectl leaves what changes the direction of
        // text alone everywhere.
        let is_direction = |letter: char| letter == '\u{202e}' && output != "yaml";
        let acted_on =
            |letter: char| is_direction(letter) || (letter.is_control() && letter != '\n');
        assert!(!shown.contains(acted_on), "{output}: {shown:?}");
    }
}

#[tokio::test]
async fn refusals_and_warnings_go_to_standard_error() {
    let store = PreparedReader::with(vec![Err(StoreError::Expired)]);
    let mut stale = catalog(store.clone());
    stale.add_stale(
        cluster("member1"),
        Timestamp::UNIX_EPOCH,
        "disconnected since noon",
    );
    let server = TestServer::over(stale, store).await;
    let (found, _, expired) = server.get(&["pods"]).await;
    assert!(!found);
    assert_eq!(
        expired,
        "Error from server (Expired): the continue token has expired; start the list again without it\n"
    );
    let (_, _, warned) = server.get(&["pods"]).await;
    assert!(
        warned.starts_with("Warning: cluster member1 is disconnected since noon\n"),
        "{warned}"
    );
    let (_, _, selector) = server.get(&["pods", "-l", "a in (b"]).await;
    assert!(
        selector.starts_with("Error from server (BadRequest): parameter labelSelector"),
        "{selector}"
    );
    let (_, _, unknown) = server.get(&["widgets"]).await;
    assert_eq!(
        unknown,
        "error: the server doesn't have a resource type \"widgets\": no ResourceRegistry selects it\n"
    );
}

#[tokio::test]
async fn a_stopped_server_leaves_no_token_file_and_a_helpful_error() {
    let server = TestServer::with(vec![]).await;
    let token_file = server.token_file();
    let token = fs::read_to_string(&token_file).unwrap();
    fs::write(&token_file, "wrong").unwrap();
    let (_, _, refused) = server.get(&["pods"]).await;
    assert!(
        refused.starts_with("Error from server (Unauthorized)"),
        "{refused}"
    );
    fs::write(&token_file, token).unwrap();
    server.cancel.cancel();
    while server.is_running() {
        tokio::task::yield_now().await;
    }
    let (_, _, without_token) = server.get(&["pods"]).await;
    assert!(
        without_token.starts_with("error: cannot read the token file"),
        "{without_token}"
    );
    fs::write(&token_file, "old").unwrap();
    let (_, _, unreachable) = server.get(&["pods"]).await;
    assert!(
        unreachable.starts_with("error: cannot reach the server at http://127.0.0.1:"),
        "{unreachable}"
    );
}

#[tokio::test]
async fn only_loopback_addresses_are_served() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let args = ServerArgs {
            api_address: address.parse().unwrap(),
            token_file: folder.path().join("token"),
            limits: LimitArgs::default(),
        };
        let error = Server::bind(&args, false).await.unwrap_err();
        assert!(matches!(error, ServerError::NotLoopback(_)), "{error}");
        assert!(error.to_string().contains("--api-address"));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn lists_are_formatted_as_by_kubectl() {
    let server = TestServer::with(vec![Ok(two_pods()), Ok(Page::default())]).await;
    let (_, text, _) = server.get(&["pods", "-A", "-o", "json"]).await;
    assert!(
        text.starts_with("{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        {\n            \"apiVersion\": \"v1\","),
        "{text}"
    );
    assert!(text.ends_with(
        "\n        }\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
    ));
    let (_, empty, _) = server.get(&["pods", "-A", "-o", "json"]).await;
    let list: serde_json::Value = serde_json::from_str(&empty).unwrap();
    assert_eq!(
        list,
        json!({ "apiVersion": "v1", "items": [], "kind": "List", "metadata": { "resourceVersion": "" } })
    );
}

#[tokio::test]
async fn several_resources_are_printed_one_after_the_other() {
    let server = TestServer::with(vec![Ok(two_pods()), Ok(two_pods())]).await;
    let (_, tables, err) = server.get(&["pods,deploy", "-A"]).await;
    let tables: Vec<&str> = tables.split("\n\n").collect();
    assert!(
        tables[0].contains("member1   default       pod/web-1 "),
        "{tables:?}{err}"
    );
    assert!(tables[1].contains("deployment.apps/web-1 "), "{tables:?}");
    let (found, _, mixed) = server.get(&["pods/a", "b"]).await;
    assert!(!found && mixed.contains("TYPE/NAME"), "{mixed}");
}

#[tokio::test]
async fn chunks_have_the_requested_size() {
    let server = TestServer::with(vec![]).await;
    for size in ["0", "7"] {
        server.get(&["pods", "--chunk-size", size]).await;
    }
    let limits: Vec<usize> = server
        .store
        .asked()
        .into_iter()
        .map(|(query, _)| query.limit)
        .collect();
    assert_eq!(limits, [fleetdex_server::read::query_plan::PAGE, 7]);
}
