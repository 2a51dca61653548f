//! The command against a server with prepared answers.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
    thread,
};

use clap::{CommandFactory as _, Parser};
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: SearchArgs,
}

/// Serves one prepared answer for each connection, and records what was asked.
struct PreparedServer {
    folder: tempfile::TempDir,
    address: String,
    asked: mpsc::Receiver<String>,
}

/// A status and a body.
type Answer = (u16, String);

impl PreparedServer {
    fn with(answers: Vec<Answer>) -> Self {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "secret").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || {
            for (code, body) in answers {
                let Ok((mut connection, _)) = listener.accept() else {
                    return;
                };
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).unwrap() > 0 {
                    head.extend(byte);
                }
                sender.send(String::from_utf8(head).unwrap()).unwrap();
                let length = body.len();
                write!(connection, "HTTP/1.1 {code} OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
            }
        });
        Self {
            folder,
            address,
            asked,
        }
    }

    /// Whether the command completed, standard output and standard error.
    async fn search(&self, line: &[&str]) -> (bool, String, String) {
        let token_file = self.folder.path().join("token").display().to_string();
        let mut words = vec![
            "search",
            "--server",
            &self.address,
            "--token-file",
            &token_file,
        ];
        words.extend(line);
        let args = Command::parse_from(words).args;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            has_colours: false,
        };
        let result = search(&args, &mut console).await;
        let is_complete = console.finish(result);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (is_complete, text(out), text(err))
    }

    /// The queries of the requests so far, each with what it accepts.
    fn asked(&self) -> Vec<String> {
        let request = |head: String| {
            let (line, rest) = head.split_once(" HTTP/1.1\r\n").unwrap();
            let query = line
                .strip_prefix("GET /apis/search.fleetdex.io/v1alpha1/objects?")
                .unwrap_or(line);
            let is_table = rest.contains("as=Table");
            format!("{} {query}", if is_table { "Table" } else { "objects" })
        };
        self.asked.try_iter().map(request).collect()
    }
}

fn object(cluster: &str, name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "name": name, "namespace": "web", "annotations": { "resource.karmada.io/cached-from-cluster": cluster } } })
}

fn columns() -> Value {
    let column = |name: &str, priority: i32| json!({ "name": name, "type": "string", "format": "", "description": "", "priority": priority });
    json!([
        column("Cluster", 0),
        column("Namespace", 0),
        column("Kind", 0),
        column("Name", 0),
        column("Health", 0),
        column("Reason", 0),
        column("Age", 0),
        column("Message", 1),
    ])
}

fn table(names: &[&str], metadata: &Value) -> Value {
    let row = |name: &&str| {
        json!({
            "cells": ["member1", "web", "Deployment.apps", name, "Degraded", "ReplicasUnavailable", "3d", "1 of 2"],
            "object": object("member1", name),
        })
    };
    json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns(), "rows": names.iter().map(row).collect::<Vec<_>>() })
}

fn found(names: &[&str], metadata: &Value) -> Answer {
    (200, table(names, metadata).to_string())
}

fn listed(names: &[&str], metadata: &Value) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| object("member1", name)).collect();
    let list = json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items });
    (200, list.to_string())
}

fn facets() -> Value {
    json!([
        { "name": "kind", "values": [{ "value": "Deployment", "count": 3 }, { "value": "Pod", "count": 2 }], "others": 7 },
        { "name": "namespace", "values": [{ "value": "", "count": 1 }], "others": 0 },
        { "name": "health", "values": [], "others": 0 },
    ])
}

#[test]
fn the_arguments_are_consistent() {
    Command::command().debug_assert();
    let help = Command::command().render_long_help().to_string();
    assert!(
        help.contains("age:<2h30m") && help.contains("checkout"),
        "{help}"
    );
}

#[tokio::test]
async fn what_is_found_is_printed_as_the_table_of_the_server() {
    let server = PreparedServer::with(vec![
        found(&["web", "api"], &json!({})),
        found(&["web"], &json!({})),
        found(&[], &json!({})),
    ]);
    let (is_complete, out, err) = server.search(&["health:degraded", "pull back-off"]).await;
    assert!(is_complete && err.is_empty(), "{err}");
    insta::assert_snapshot!(out, @r#"
    CLUSTER   NAMESPACE   KIND              NAME   HEALTH     REASON                AGE
    member1   web         Deployment.apps   web    Degraded   ReplicasUnavailable   3d
    member1   web         Deployment.apps   api    Degraded   ReplicasUnavailable   3d
    "#);
    let (_, wide, _) = server.search(&["-o", "wide", "--no-headers"]).await;
    insta::assert_snapshot!(wide, @"member1   web   Deployment.apps   web   Degraded   ReplicasUnavailable   3d    1 of 2");
    let (is_complete, out, err) = server.search(&["nothing"]).await;
    assert_eq!(
        (is_complete, out.as_str(), err.as_str()),
        (true, "", "No resources found.\n")
    );
    insta::assert_snapshot!(server.asked().join("\n"), @r#"
    Table q=health%3Adegraded%20%22pull%20back-off%22&limit=50
    Table q=&limit=50
    Table q=nothing&limit=50
    "#);
}

#[tokio::test]
async fn flags_are_further_terms() {
    let server = PreparedServer::with(vec![
        found(&["web"], &json!({})),
        found(&["web"], &json!({})),
    ]);
    let line = [
        "web",
        "-n",
        "shop",
        "--cluster",
        "member1,a b",
        "-l",
        "app in (x,y),!z",
        "--limit",
        "7",
    ];
    server.search(&line).await;
    server.search(&["-n", "shop", "-A"]).await;
    insta::assert_snapshot!(server.asked().join("\n"), @r#"
    Table q=web%20ns%3Ashop%20cluster%3Amember1%2C%22a%20b%22%20label%3Aapp%3Dx%2Cy%20label%3A%21z&limit=7
    Table q=&limit=50
    "#);
}

#[tokio::test]
async fn pages_are_read_up_to_the_limit_and_the_rest_is_announced() {
    let first = json!({ "continue": "next page", "remainingItemCount": 3 });
    let second = json!({ "continue": "third", "remainingItemCount": 1 });
    let server = PreparedServer::with(vec![
        found(&["a", "b"], &first),
        found(&["a", "b"], &first),
        found(&["c"], &second),
        found(&["d"], &json!({})),
        found(&["e"], &json!({ "continue": "more" })),
    ]);
    let (_, _, cut) = server.search(&["--limit", "2"]).await;
    assert_eq!(
        cut,
        "3 more objects match; raise --limit, use --all, or add terms to the query.\n"
    );
    let (_, out, err) = server.search(&["--all"]).await;
    assert_eq!((out.lines().count(), err.as_str()), (5, ""), "{out}");
    let (_, _, cut) = server.search(&["--limit", "1"]).await;
    assert_eq!(
        cut,
        "More objects match; raise --limit, use --all, or add terms to the query.\n"
    );
    insta::assert_snapshot!(server.asked().join("\n"), @r#"
    Table q=&limit=2
    Table q=&limit=500
    Table q=&limit=500&continue=next%20page
    Table q=&limit=500&continue=third
    Table q=&limit=1
    "#);
}

#[tokio::test]
async fn counts_follow_the_table_and_are_in_the_metadata_of_a_list() {
    let metadata = json!({ "facets": facets() });
    let server = PreparedServer::with(vec![
        found(&["web"], &metadata),
        listed(&["web"], &metadata),
    ]);
    let (_, out, err) = server.search(&["--facets"]).await;
    assert!(err.is_empty(), "{err}");
    insta::assert_snapshot!(out, @r#"
    CLUSTER   NAMESPACE   KIND              NAME   HEALTH     REASON                AGE
    member1   web         Deployment.apps   web    Degraded   ReplicasUnavailable   3d

    KIND         COUNT
    Deployment   3
    Pod          2
    <others>     7

    NAMESPACE   COUNT
    <none>      1
    "#);
    let (_, out, _) = server.search(&["--facets", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["metadata"]["facets"], facets());
    assert_eq!(list["items"], json!([object("member1", "web")]));
    insta::assert_snapshot!(server.asked().join("\n"), @r#"
    Table q=&limit=50&facets=kind%2Ccluster%2Cnamespace%2Chealth
    objects q=&limit=50&facets=kind%2Ccluster%2Cnamespace%2Chealth
    "#);
    for line in [["--facets", "-oname"]] {
        let (_, _, err) = server.search(&line).await;
        assert_eq!(err, "error: --facets cannot be combined with -o name\n");
    }
}

#[tokio::test]
async fn names_and_lists_are_printed_page_by_page() {
    let next = json!({ "continue": "token" });
    let pages = || [listed(&["a"], &next), listed(&["b"], &json!({}))];
    let server = PreparedServer::with([pages(), pages()].concat());
    let (_, names, _) = server.search(&["--all", "-o", "name"]).await;
    assert_eq!(
        names,
        "member1/deployment.apps/a\nmember1/deployment.apps/b\n"
    );
    let (_, yaml, _) = server.search(&["--all", "-o", "yaml"]).await;
    insta::assert_snapshot!(yaml, @r#"
    apiVersion: v1
    items:
    - apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: a
        namespace: web
        annotations:
          resource.karmada.io/cached-from-cluster: member1
    - apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: b
        namespace: web
        annotations:
          resource.karmada.io/cached-from-cluster: member1
    kind: List
    metadata:
      resourceVersion: ""
    "#);
}

/// Lines of a watch.
fn watched(events: &[Value]) -> Answer {
    let lines = events.iter().map(|event| format!("{event}\n"));
    (200, lines.collect())
}

fn bookmark(version: &str) -> Value {
    let metadata = json!({ "resourceVersion": version });
    json!({ "type": "BOOKMARK", "object": { "kind": "Table", "metadata": metadata, "rows": [] } })
}

fn modified(name: &str, version: &str) -> Value {
    let object = table(&[name], &json!({ "resourceVersion": version }));
    json!({ "type": "MODIFIED", "object": object })
}

#[tokio::test]
async fn a_watch_begins_before_the_search_and_continues_until_its_version_expires() {
    let expired = json!({ "type": "ERROR", "object": { "status": "Failure", "code": 410 } });
    let server = PreparedServer::with(vec![
        watched(&[bookmark("5-a"), modified("web", "6-a")]),
        found(&["web"], &json!({})),
        watched(&[bookmark("6-a"), modified("api", "7-a"), bookmark("9-a")]),
        watched(&[expired]),
        watched(&[bookmark("10-b")]),
        (
            410,
            json!({ "kind": "Status", "status": "Failure", "code": 410 }).to_string(),
        ),
        watched(&[bookmark("11-b")]),
        found(&["db"], &json!({ "continue": "more" })),
        (
            403,
            json!({ "kind": "Status", "status": "Failure", "code": 403, "message": "no" })
                .to_string(),
        ),
    ]);
    let (is_complete, out, err) = server.search(&["web", "--watch", "--limit", "1"]).await;
    assert!(!is_complete);
    let seen = format!("{out}\n---\n{err}\n---\n{}", server.asked().join("\n"));
    insta::assert_snapshot!(seen, @r#"
    CLUSTER   NAMESPACE   KIND              NAME   HEALTH     REASON                AGE
    member1   web         Deployment.apps   web    Degraded   ReplicasUnavailable   3d
    member1   web         Deployment.apps   web    Degraded   ReplicasUnavailable   3d
    member1   web         Deployment.apps   api    Degraded   ReplicasUnavailable   3d
    member1   web         Deployment.apps   db     Degraded   ReplicasUnavailable   3d

    ---
    Warning: the resource version has expired, changes may be missing; searching again
    Warning: the resource version has expired, changes may be missing; searching again
    More objects match; raise --limit, use --all, or add terms to the query.
    Error from server (Unknown): no

    ---
    Table q=web&watch=true
    Table q=web&limit=1&resourceVersion=5-a
    Table q=web&resourceVersion=6-a&watch=true
    Table q=web&resourceVersion=9-a&watch=true
    Table q=web&watch=true
    Table q=web&limit=1&resourceVersion=10-b
    Table q=web&watch=true
    Table q=web&limit=1&resourceVersion=11-b
    Table q=web&resourceVersion=11-b&watch=true
    "#);
    let (_, _, err) = server.search(&["--facets", "-w"]).await;
    assert_eq!(err, "error: --facets cannot be combined with --watch\n");
}

#[tokio::test]
async fn an_invalid_query_is_not_sent() {
    let server = PreparedServer::with(vec![]);
    let (is_complete, out, err) = server.search(&["kind:Pod", "heath:Degraded"]).await;
    assert!(!is_complete && out.is_empty());
    insta::assert_snapshot!(err, @r#"
    error: invalid query: column 10: unknown qualifier "heath": write health: instead, or "heath:Degraded" for the word; the qualifiers are kind: health: cluster: ns: namespace: label: name: reason: image: age: uses:
      kind:Pod heath:Degraded
               ^^^^^^
    "#);
    let (_, _, err) = server.search(&["web", "-n", "Shop"]).await;
    assert!(err.contains("invalid namespace \"Shop\""), "{err}");
    let (_, _, err) = server.search(&["--limit", "0"]).await;
    assert_eq!(
        err,
        "error: --limit 0: write a number from 1, or use --all\n"
    );
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_search_is_completed_by_the_server() {
    let answer = json!({
        "kind": "SearchCompletions", "apiVersion": "search.fleetdex.io/v1alpha1", "replace": { "start": 19, "end": 20 },
        "items": [{ "text": "web", "detail": "app", "finished": true }],
    });
    let server = PreparedServer::with(vec![(200, answer.to_string())]);
    let token_file = server.folder.path().join("token").display().to_string();
    let line = [
        "search",
        "--server",
        &server.address,
        "--token-file",
        &token_file,
    ];
    let api = Api::new(&Command::parse_from(line).args.server)
        .await
        .unwrap();
    let completions = api
        .search_completions("kind:Pod label:app=w")
        .await
        .unwrap();
    assert_eq!(completions.replace, 19..20);
    assert_eq!(completions.items[0].text, "web");
    assert!(completions.items[0].is_finished);
    assert_eq!(
        server.asked(),
        [
            "objects GET /apis/search.fleetdex.io/v1alpha1/completions?q=kind%3APod%20label%3Aapp%3Dw"
        ]
    );
}
