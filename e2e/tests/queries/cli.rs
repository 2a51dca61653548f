//! The command line against real clusters: what it prints is what kubectl prints of the same objects, and it ends as kubectl ends.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    kubectl::Kubectl,
    local::{Local, kubeconfig},
    objects::Objects,
    poll::eventually,
    scenario::PATIENCE,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

/// Templates and columns that both programs are given; the objects are those of one cluster.
const OUTPUTS: [&str; 16] = [
    "jsonpath={.items[*].metadata.name}",
    "jsonpath={range .items[*]}{.metadata.name}{\"\\t\"}{.status.phase}{\"\\n\"}{end}",
    "jsonpath={range .items[*]}{.metadata.name}:{range .spec.containers[*]} {.name}={.image}{end};{end}",
    "jsonpath={.items[?(@.metadata.labels.app==\"web\")].metadata.name}",
    "jsonpath={.items[?(@.metadata.labels.tier)].metadata.name}",
    "jsonpath={.items[?(@.spec.containers[0].ports[0].containerPort>80)].metadata.name}",
    "jsonpath={.items[*]['metadata.name', 'spec.restartPolicy']}",
    "jsonpath={.items[0].metadata.labels}",
    "jsonpath={.items[*].metadata.labels.app\\.kubernetes\\.io/name}",
    "jsonpath={.items[-1:].spec.containers[*].name}|{.items[0:2].metadata.name}|{.items[1,0].metadata.name}",
    "jsonpath={.items[*].spec.containers[*].ports}{.items[0].nowhere}{.kind}",
    "jsonpath={.items[0].spec.containers[*].args[*]}",
    "custom-columns=NAME:.metadata.name,LABELS:.metadata.labels,PORTS:.spec.containers[*].ports[*].containerPort,NONE:.a.b",
    "custom-columns=NAME:metadata.name,ARGS:{.spec.containers[*].args}",
    "json",
    "yaml",
];

struct Setting {
    fleet: Fleet,
    local: Local,
}

impl Setting {
    async fn start() -> Self {
        let fleet = Fleet::start(Options {
            members: 2,
            opensearch: OpenSearchKind::None,
            ..Options::default()
        })
        .await
        .unwrap();
        for (number, names) in [(1, ["web-10", "web-9", "api"].as_slice()), (2, &["web-10"])] {
            let member = Objects::of(fleet.member(number).unwrap()).unwrap();
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
                &["pods", "-A", "-o", "name"],
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
        self.fleet.member(1).unwrap().kubectl().unwrap()
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
async fn the_command_line_prints_and_ends_as_kubectl() {
    let setting = Setting::start().await;
    outputs_are_kubectls(&setting).await;
    lists_come_in_the_order_and_with_the_labels_that_are_asked_for(&setting.local).await;
    ends_tell_what_came_of_it(&setting.local).await;
    counts_add_up(&setting.local).await;
    descriptions_hold_the_events(&setting).await;
    changes_are_shown_as_they_come(&setting).await;
    pipes_may_be_closed(&setting.local).await;
    without_a_server_it_says_what_to_do(&setting).await;
}

/// Objects of the index lack managed fields, which kubectl does not show either, and carry their cluster.
async fn outputs_are_kubectls(setting: &Setting) {
    for output in OUTPUTS {
        let theirs = setting
            .kubectl()
            .output(&["get", "pods", "-n", "web", "-o", output])
            .await
            .unwrap();
        let ours = setting
            .local
            .ask(&[
                "get",
                "pods",
                "-n",
                "web",
                "--cluster",
                "east",
                "-o",
                output,
            ])
            .await
            .unwrap();
        match output {
            "json" => assert_eq!(
                unmarked(serde_json::from_str(&ours.out).unwrap()),
                serde_json::from_str::<Value>(&theirs.stdout).unwrap()
            ),
            "yaml" => assert_eq!(ours.out.lines().next(), theirs.stdout.lines().next()),
            _ => assert_eq!(
                ours.out, theirs.stdout,
                "{output}\n{}{}",
                ours.err, theirs.stderr
            ),
        }
    }
    let sorted = [
        "get",
        "pods",
        "-n",
        "web",
        "--sort-by",
        ".metadata.name",
        "-o",
        "custom-columns=N:.metadata.name",
    ];
    let theirs = setting.kubectl().output(&sorted).await.unwrap();
    let ours = setting
        .local
        .ask(&[sorted.as_slice(), &["--cluster", "east"]].concat())
        .await
        .unwrap();
    assert_eq!(ours.out, theirs.stdout, "the order of --sort-by");
}

fn unmarked(mut list: Value) -> Value {
    for item in list["items"].as_array_mut().into_iter().flatten() {
        let metadata = item["metadata"].as_object_mut().unwrap();
        metadata.shift_remove("annotations");
    }
    list
}

async fn lists_come_in_the_order_and_with_the_labels_that_are_asked_for(local: &Local) {
    let ran = local
        .ask(&[
            "get",
            "pods",
            "-A",
            "-L",
            "app",
            "--sort-by=.metadata.name",
            "-l",
            "app",
        ])
        .await
        .unwrap();
    let rows: Vec<Vec<&str>> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        [
            "CLUSTER",
            "NAMESPACE",
            "NAME",
            "READY",
            "STATUS",
            "RESTARTS",
            "AGE",
            "APP"
        ],
        "{}",
        ran.out
    );
    let names: Vec<&str> = rows[1..].iter().map(|row| row[2]).collect();
    assert_eq!(names, ["api", "web-10", "web-10", "web-9"]);
    assert_eq!(rows[1].last(), Some(&"api"));
    let several = local
        .get(&["pods,namespaces", "-A", "--cluster", "west"])
        .await
        .unwrap();
    assert!(
        several.contains("pod/web-10")
            && several.contains("\n\nCLUSTER")
            && several.contains("namespace/web"),
        "{several}"
    );
}

async fn ends_tell_what_came_of_it(local: &Local) {
    let gone = local.ask(&["get", "pod/gone", "-n", "web"]).await.unwrap();
    assert_eq!(
        (gone.code, gone.out.as_str(), gone.err.as_str()),
        (
            1,
            "",
            "Error from server (NotFound): pods \"gone\" not found\n"
        )
    );
    let ignored = local
        .ask(&["get", "pod/gone", "-n", "web", "--ignore-not-found"])
        .await
        .unwrap();
    assert_eq!(
        (ignored.code, ignored.out, ignored.err),
        (0, String::new(), String::new())
    );
    let none = local.ask(&["get", "pods"]).await.unwrap();
    assert_eq!(
        (none.code, none.out.as_str(), none.err.as_str()),
        (0, "", "No resources found in default namespace.\n")
    );
    for wrong in [
        ["get", "widgets"].as_slice(),
        &["get", "pods", "-l", "a in (b"],
        &["describe", "pod/gone", "-n", "web"],
    ] {
        let ran = local.ask(wrong).await.unwrap();
        assert!(
            ran.code == 1 && ran.out.is_empty() && !ran.err.is_empty(),
            "{wrong:?}: {ran:?}"
        );
    }
}

async fn counts_add_up(local: &Local) {
    let ran = local
        .ask(&["count", "pods", "--by", "cluster,label:app"])
        .await
        .unwrap();
    assert_eq!(
        ran.out, "CLUSTER   APP   COUNT\neast      web   2\neast      api   1\nwest      web   1\n",
        "{}",
        ran.err
    );
    let top = local
        .ask(&[
            "count",
            "pods",
            "--by",
            "cluster",
            "--top",
            "1",
            "--no-headers",
        ])
        .await
        .unwrap();
    assert_eq!(
        (top.out.as_str(), top.err.as_str()),
        (
            "east   3\n",
            "1 of 4 pods are in further groups; --top shows more of them.\n"
        )
    );
    let all = local
        .ask(&[
            "count",
            "pods",
            "-n",
            "web",
            "-l",
            "app=web",
            "--no-headers",
        ])
        .await
        .unwrap();
    assert_eq!(all.out, "3\n");
}

async fn descriptions_hold_the_events(setting: &Setting) {
    let east = Objects::of(setting.fleet.member(1).unwrap()).unwrap();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "api.1" }, "type": "Warning", "reason": "BackOff", "count": 3,
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "namespace": "web", "name": "api" },
        "source": { "component": "kubelet" }, "message": "back-off", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    east.create("api/v1/namespaces/web/events", &event)
        .await
        .unwrap();
    let parts = [
        "Name:         api\n",
        "Cluster:      east\n",
        "Labels:       app=api\n",
        "  Restart Policy:",
        "  Warning   BackOff",
    ];
    eventually("describe shows the Event", PATIENCE, || async {
        let ran = setting
            .local
            .ask(&["describe", "pod/api", "-n", "web"])
            .await?;
        let missing: Vec<&&str> = parts
            .iter()
            .filter(|part| !ran.out.contains(**part))
            .collect();
        ensure!(
            ran.code == 0 && missing.is_empty(),
            "missing {missing:?}: {ran:?}"
        );
        Ok(())
    })
    .await
    .unwrap();
}

/// A pod that comes, changes and goes, in whichever cluster.
async fn changes_are_shown_as_they_come(setting: &Setting) {
    let arguments = [
        "get",
        "cm",
        "-n",
        "web",
        "-w",
        "--output-watch-events",
        "--field-selector",
        "metadata.name=told",
    ];
    let mut command = setting.local.command(&arguments).unwrap();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Watching begins where the list ended, whenever that is: an object that was there before it is told as ADDED all the same.
    let west = Objects::of(setting.fleet.member(2).unwrap()).unwrap();
    west.apply_config_map("web", "told", &json!({ "a": "b" }))
        .await
        .unwrap();
    let mut next = async || -> Result<Vec<String>> {
        let line = timeout(PATIENCE, lines.next_line())
            .await??
            .unwrap_or_default();
        Ok(line.split_whitespace().map(str::to_owned).collect())
    };
    assert_eq!(
        next().await.unwrap(),
        ["EVENT", "CLUSTER", "NAME", "DATA", "AGE"]
    );
    assert_eq!(next().await.unwrap()[..4], ["ADDED", "west", "told", "1"]);
    west.apply_config_map("web", "told", &json!({ "a": "b", "c": "d" }))
        .await
        .unwrap();
    assert_eq!(
        next().await.unwrap()[..4],
        ["MODIFIED", "west", "told", "2"]
    );
    west.delete("api/v1/namespaces/web/configmaps/told")
        .await
        .unwrap();
    assert_eq!(next().await.unwrap()[..4], ["DELETED", "west", "told", "2"]);
    child.kill().await.unwrap();
}

async fn pipes_may_be_closed(local: &Local) {
    let mut child = local
        .command(&["get", "pods", "-A", "-o", "json"])
        .unwrap()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = timeout(Duration::from_secs(30), child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// A member has no `APIService` of ours: that is what it says, and not what its apiserver said.
async fn without_a_server_it_says_what_to_do(setting: &Setting) {
    let kubeconfig = setting
        .fleet
        .member(1)
        .unwrap()
        .kubeconfig()
        .display()
        .to_string();
    let absent = setting
        .local
        .ask(&["get", "pods", "--kubeconfig", &kubeconfig])
        .await
        .unwrap();
    assert!(
        absent.code == 1
            && absent.err.contains(
                "does not know the API search.fleetdex.io/v1alpha1: its APIService is not there"
            ),
        "{absent:?}"
    );
    let unread = setting
        .local
        .ask(&["get", "pods", "--kubeconfig", "/nowhere/config"])
        .await
        .unwrap();
    assert!(
        unread.code == 1 && unread.err.contains("/nowhere/config"),
        "{unread:?}"
    );
    let both = setting
        .local
        .ask(&[
            "get",
            "pods",
            "--context",
            "east",
            "--server",
            "http://127.0.0.1:1",
        ])
        .await
        .unwrap();
    assert!(
        both.code == 2 && both.err.contains("give one of the two"),
        "{both:?}"
    );
}
