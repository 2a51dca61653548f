//! The command line against real clusters: it prints what kubectl prints for the same objects, has
//! kubectl's exit codes, and writes a kubectl context for the fleet.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    kubectl::Kubectl,
    local::{Local, kubeconfig},
    objects::Objects,
    scenario::{DEADLINE, until},
    test_result::{Tested, assert_contains},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

struct Fixture {
    fleet: Fleet,
    local: Local,
}

impl Fixture {
    async fn start() -> Self {
        let fleet = Fleet::start(Options::of(2, OpenSearchKind::None))
            .await
            .unwrap();
        for (number, names) in [(1, ["web-10", "web-9", "api"].as_slice()), (2, &["web-10"])] {
            let member = Objects::of(fleet.member(number)).unwrap();
            member.create_namespace("web").await.unwrap();
            for name in names {
                member
                    .apply(&format!("api/v1/namespaces/web/pods/{name}"), &pod(name))
                    .await
                    .unwrap();
            }
        }
        let folder = fleet.dir().join("local");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("kubeconfig.json");
        fs::write(&path, kubeconfig(&fleet).to_string()).unwrap();
        let contexts = [
            "--context=east",
            "--context=west",
            "--resource=pods,namespaces,configmaps,events",
        ];
        let local = Local::start(&folder, &path, &contexts).unwrap();
        local
            .until(
                "pods -A -o name",
                &[
                    "east/pod/web-10",
                    "east/pod/web-9",
                    "east/pod/api",
                    "west/pod/web-10",
                ],
            )
            .await
            .unwrap();
        Self { fleet, local }
    }

    fn kubectl(&self) -> Kubectl {
        self.fleet.member(1).kubectl().unwrap()
    }
}

fn pod(name: &str) -> Value {
    let labels = match name {
        "api" => json!({ "app": "api" }),
        _ => json!({ "app": "web", "tier": "front", "app.kubernetes.io/name": name }),
    };
    let port = if name == "web-9" { 8080 } else { 80 };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [
            { "name": "main", "image": "example.com/web", "args": ["--if", "a<b&c>d"], "ports": [{ "containerPort": port }] },
            { "name": "side", "image": "example.com/side" },
        ] },
    })
}

#[tokio::test]
async fn the_cli_has_the_output_and_exit_codes_of_kubectl() -> Tested {
    let fixture = Fixture::start().await;
    outputs_equal_those_of_kubectl(&fixture).await?;
    lists_are_sorted_by_the_index_and_select_clusters(&fixture.local).await?;
    exit_codes_say_how_commands_ended(&fixture.local).await?;
    counts_add_up(&fixture.local).await?;
    kubectl_uses_the_context_of_the_fleet(&fixture).await?;
    a_watch_prints_every_change(&fixture).await?;
    pipes_may_be_closed(&fixture.local).await?;
    without_a_server_errors_say_what_to_do(&fixture).await
}

/// Objects of the index lack managed fields, which kubectl does not print either, and have an
/// annotation with their cluster.
async fn outputs_equal_those_of_kubectl(fixture: &Fixture) -> Tested {
    for output in ["json", "yaml"] {
        let theirs = fixture
            .kubectl()
            .output(&format!("get pods -n web -o {output}"))
            .await?;
        let arguments = format!("get pods -n web --cluster east -o {output}");
        let ours = fixture.local.run_command(&arguments).await?;
        match output {
            "json" => assert_eq!(
                unmarked(serde_json::from_str(&ours.out)?),
                serde_json::from_str::<Value>(&theirs.stdout)?
            ),
            _ => assert_eq!(ours.out.lines().next(), theirs.stdout.lines().next()),
        }
    }
    let foreign = fixture
        .local
        .run_command("get pods -o jsonpath={.items}")
        .await?;
    assert!(
        foreign.code == 2 && foreign.err.contains("fleetdex kubeconfig"),
        "{foreign:?}"
    );
    Ok(())
}

fn unmarked(mut list: Value) -> Value {
    for item in list["items"].as_array_mut().into_iter().flatten() {
        let metadata = item["metadata"].as_object_mut().unwrap();
        metadata.shift_remove("annotations");
    }
    list
}

async fn lists_are_sorted_by_the_index_and_select_clusters(local: &Local) -> Tested {
    let result = local
        .run_command("get pods -A --order-by metadata.name -l app")
        .await?;
    let rows: Vec<Vec<&str>> = result
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let headers = [
        "CLUSTER",
        "NAMESPACE",
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
    ];
    assert_eq!(rows[0], headers, "{}", result.out);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[2]).collect();
    assert_eq!(names, ["api", "web-10", "web-10", "web-9"]);
    let several = local.get("pods,namespaces -A --cluster west").await?;
    assert_contains(&several, "pod/web-10");
    assert_contains(&several, "\n\nCLUSTER");
    assert_contains(&several, "namespace/web");
    Ok(())
}

async fn exit_codes_say_how_commands_ended(local: &Local) -> Tested {
    let gone = local.run_command("get pod/gone -n web").await?;
    assert_eq!(
        (gone.code, gone.out.as_str(), gone.err.as_str()),
        (
            1,
            "",
            "Error from server (NotFound): pods \"gone\" not found\n"
        )
    );
    let none = local.run_command("get pods").await?;
    assert_eq!(
        (none.code, none.out.as_str(), none.err.as_str()),
        (0, "", "No resources found in default namespace.\n")
    );
    for wrong in [
        ["get", "widgets"].as_slice(),
        &["get", "pods", "-l", "a in (b"],
    ] {
        let result = local.run_command(wrong).await?;
        assert!(
            result.code == 1 && result.out.is_empty() && !result.err.is_empty(),
            "{wrong:?}: {result:?}"
        );
    }
    Ok(())
}

async fn counts_add_up(local: &Local) -> Tested {
    let result = local
        .run_command("count pods --by cluster,label:app")
        .await?;
    assert_eq!(
        result.out,
        "CLUSTER   APP   COUNT\neast      web   2\neast      api   1\nwest      web   1\n",
        "{}",
        result.err
    );
    let top = local
        .run_command("count pods --by cluster --top 1 --no-headers")
        .await?;
    assert_eq!(
        (top.out.as_str(), top.err.as_str()),
        (
            "east   3\n",
            "1 of 4 pods are in other groups; raise --top to see them.\n"
        )
    );
    let all = local
        .run_command("count pods -n web -l app=web --no-headers")
        .await?;
    assert_eq!(all.out, "3\n");
    Ok(())
}

/// kubectl works over the fleet as over one cluster, with a context of `fleetdex kubeconfig`.
async fn kubectl_uses_the_context_of_the_fleet(fixture: &Fixture) -> Tested {
    let east = Objects::of(fixture.fleet.member(1))?;
    let get_uid = "get pod/api -n web -o jsonpath={.metadata.uid}";
    let uid = fixture.kubectl().run(get_uid).await?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "api.1" }, "type": "Warning", "reason": "BackOff", "count": 3,
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "namespace": "web", "name": "api", "uid": uid },
        "source": { "component": "kubelet" }, "message": "back-off", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    east.create("api/v1/namespaces/web/events", &event).await?;
    let path = fixture.fleet.dir().join("merged");
    fs::write(&path, kubeconfig(&fixture.fleet).to_string())?;
    for change in ["created", "modified"] {
        let output = fixture
            .local
            .command("kubeconfig --merge")
            .unwrap()
            .env("KUBECONFIG", &path)
            .output()
            .await?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let expected = format!("Context \"fleet\" {change} in {}.\n", path.display());
        assert_eq!(printed, expected, "{output:?}");
    }
    let kubectl = Kubectl::new(&path)?;
    let current = kubectl.run("config current-context").await?;
    assert_eq!(current, "east\n");
    let template = "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}";
    let fleet = ["--context", "fleet", "-n", "web"];
    let names = kubectl
        .run(&[&fleet[..], &["get", "pods", "-o", template]].concat())
        .await?;
    let mut names: Vec<&str> = names.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["api", "web-10", "web-10", "web-9"]);
    until("kubectl describe prints the Event", || async {
        let described = kubectl
            .run(&[&fleet[..], &["describe", "pod/api"]].concat())
            .await?;
        ensure!(
            described.contains("app=api") && described.contains("BackOff"),
            "{described}"
        );
        Ok(())
    })
    .await?;
    Ok(())
}

/// A `ConfigMap` is added, modified and deleted in one of the clusters.
async fn a_watch_prints_every_change(fixture: &Fixture) -> Tested {
    let arguments = "get cm -n web -w --field-selector metadata.name=watched";
    let mut command = fixture.local.command(arguments).unwrap();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The watch begins where the list ended; an object that existed before it is in the list.
    let west = Objects::of(fixture.fleet.member(2))?;
    west.apply_config_map("web", "watched", &json!({ "a": "b" }))
        .await?;
    let mut next = async || -> Result<Vec<String>> {
        let line = timeout(DEADLINE, lines.next_line())
            .await??
            .unwrap_or_default();
        Ok(line.split_whitespace().map(str::to_owned).collect())
    };
    assert_eq!(next().await?, ["CLUSTER", "NAME", "DATA", "AGE"]);
    assert_eq!(next().await?[..3], ["west", "watched", "1"]);
    west.apply_config_map("web", "watched", &json!({ "a": "b", "c": "d" }))
        .await?;
    assert_eq!(next().await?[..3], ["west", "watched", "2"]);
    west.delete("api/v1/namespaces/web/configmaps/watched")
        .await?;
    assert_eq!(next().await?[..3], ["west", "watched", "2"]);
    child.kill().await?;
    Ok(())
}

async fn pipes_may_be_closed(local: &Local) -> Tested {
    let mut child = local
        .command("get pods -A -o json")
        .unwrap()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = timeout(Duration::from_secs(30), child.wait_with_output())
        .await?
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    Ok(())
}

/// A member has no `APIService` of Fleetdex; the error says so instead of quoting the API server.
async fn without_a_server_errors_say_what_to_do(fixture: &Fixture) -> Tested {
    let kubeconfig = fixture.fleet.member(1).kubeconfig().display().to_string();
    let absent = fixture
        .local
        .run_command(&format!("get pods --kubeconfig {kubeconfig}"))
        .await?;
    assert!(
        absent.code == 1
            && absent.err.contains(
                "does not serve the API search.fleetdex.io/v1alpha1: its APIService does not exist"
            ),
        "{absent:?}"
    );
    let unread = fixture
        .local
        .run_command("get pods --kubeconfig /nowhere/config")
        .await?;
    assert!(
        unread.code == 1 && unread.err.contains("/nowhere/config"),
        "{unread:?}"
    );
    let both = fixture
        .local
        .run_command("get pods --context east --server http://127.0.0.1:1")
        .await?;
    assert!(
        both.code == 2 && both.err.contains("use one of the two"),
        "{both:?}"
    );
    Ok(())
}
