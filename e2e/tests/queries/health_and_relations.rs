//! What is unhealthy, what uses a Secret, and which images run, over two real members: with the
//! command line, with kubectl through the control plane, and from every store.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options},
    kubectl::Kubectl,
    objects::{Objects, config_map_path},
    operator::{API_PORT, Operator},
    query_api::{GROUP, make_service, raw},
    scenario::{Registry, prepare, start_operator, until},
    test_result::Tested,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";
const UNHEALTHY: &str = "health in (Degraded,Missing,Unknown)";

/// How the only pod of a member is.
struct PodProblem {
    image: &'static str,
    reason: &'static str,
    message: &'static str,
}

const PROBLEMS: [PodProblem; 2] = [
    PodProblem {
        image: "nginx:1.27",
        reason: "CrashLoopBackOff",
        message: "back-off 5m0s restarting failed container=web",
    },
    PodProblem {
        image: "docker.io/library/nginx:1.28",
        reason: "ImagePullBackOff",
        message: "Back-off pulling image \"docker.io/library/nginx:1.28\"",
    },
];

/// Two members with the Deployment `web`, its `ReplicaSet`, a broken pod of it and a working one of
/// another image, a Service, and the Secret that the pod template names. Its `ConfigMap` is
/// missing.
struct Fixture {
    fleet: Fleet,
    operator: Operator,
    hub: Objects,
    kubectl: Kubectl,
}

impl Fixture {
    async fn start() -> Self {
        let options = Options::of(2, OpenSearchKind::Plain);
        let fleet = Fleet::start(options).await.unwrap();
        prepare(&fleet).await.unwrap();
        let hub = Objects::of(fleet.control_plane()).unwrap();
        make_service(&hub).await.unwrap();
        for (number, problem) in (1..).zip(&PROBLEMS) {
            let member = Objects::of(fleet.member(number)).unwrap();
            fill(&member, problem).await.unwrap();
        }
        let port = format!("--api-service-port={API_PORT}");
        let flags = [
            "--api-service=search/fleetdex",
            &port,
            "--argocd-health-config-map=default/argocd-cm",
        ];
        let operator = start_operator(&fleet, &flags).await.unwrap();
        Self {
            operator,
            kubectl: fleet.control_plane().kubectl().unwrap(),
            hub,
            fleet,
        }
    }

    /// The lines of a command's output, with one space between words. It prints no warning.
    async fn asked(&self, line: &str) -> Vec<String> {
        let arguments: Vec<&str> = line.split(' ').collect();
        let result = self.operator.run_command(&arguments).await.unwrap();
        let is_complete = result.code == 0 && result.err.is_empty();
        assert!(is_complete, "{line}: {result:?}");
        rows(&result.out)
    }

    /// The rows of a table of kubectl.
    async fn kubectl_rows(&self, arguments: &[&str]) -> Tested<Vec<String>> {
        let command = [&["get", "--no-headers"], arguments].concat();
        Ok(rows(&self.kubectl.run(&command).await?))
    }

    async fn raw(&self, path: &str) -> Value {
        raw(&self.kubectl, path).await.unwrap()
    }
}

/// The lines of a table, with one space between words.
fn rows(table: &str) -> Vec<String> {
    let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    table.lines().map(row).collect()
}

/// The rows without their last word.
fn without_age(rows: Vec<String>) -> Vec<String> {
    let cut = |row: String| {
        row.rsplit_once(' ')
            .map_or(row.clone(), |(rest, _)| rest.to_owned())
    };
    rows.into_iter().map(cut).collect()
}

async fn fill(member: &Objects, problem: &PodProblem) -> Result<()> {
    member.create_namespace(NAMESPACE).await?;
    let core = format!("api/v1/namespaces/{NAMESPACE}");
    let apps = format!("apis/apps/v1/namespaces/{NAMESPACE}");
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db" }, "stringData": { "password": "moonlight" } });
    member.apply(&format!("{core}/secrets/db"), &secret).await?;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    member
        .apply(&format!("{core}/services/web"), &service)
        .await?;

    let deployment = workload("Deployment", "web", problem.image, &[]);
    let path = format!("{apps}/deployments/web");
    let deployment = member.apply(&path, &deployment).await?;
    let failed = json!({ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "ReplicaSet \"web-1\" has timed out progressing." });
    let status = json!({ "status": { "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1, "conditions": [failed] } });
    member.merge(&format!("{path}/status"), &status).await?;

    let replica_set = workload("ReplicaSet", "web-1", problem.image, &[owner(&deployment)]);
    let path = format!("{apps}/replicasets/web-1");
    let replica_set = member.apply(&path, &replica_set).await?;

    let path = format!("{core}/pods/web-1-a");
    let broken = pod("web-1-a", &pod_spec(problem.image), &[owner(&replica_set)]);
    member.apply(&path, &broken).await?;
    let waiting = json!({ "waiting": { "reason": problem.reason, "message": problem.message } });
    let status = pod_status("Running", "web", problem.image, &waiting);
    member.merge(&format!("{path}/status"), &status).await?;

    let spec = json!({ "containers": [{ "name": "job", "image": "registry.example.com/job:3" }] });
    let path = format!("{core}/pods/working");
    member
        .apply(&path, &self::pod("working", &spec, &[]))
        .await?;
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    let status = pod_status("Running", "job", "registry.example.com/job:3", &running);
    member
        .merge(&format!("{path}/status"), &status)
        .await
        .map(drop)
}

fn owner(object: &Value) -> Value {
    json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"], "uid": object["metadata"]["uid"], "controller": true })
}

fn pod_spec(image: &str) -> Value {
    json!({ "containers": [{
        "name": "web", "image": image,
        "envFrom": [{ "secretRef": { "name": "db" } }, { "configMapRef": { "name": "settings" } }],
        "resources": { "requests": { "cpu": "250m", "memory": "64Mi" } },
    }] })
}

fn workload(kind: &str, name: &str, image: &str, owners: &[Value]) -> Value {
    let labels = json!({ "app": "web" });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name, "labels": labels, "ownerReferences": owners },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod_spec(image) } },
    })
}

fn pod(name: &str, spec: &Value, owners: &[Value]) -> Value {
    let app = if owners.is_empty() { "job" } else { "web" };
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": app }, "ownerReferences": owners }, "spec": spec })
}

/// The status of a pod of one container, ready if the container runs.
fn pod_status(phase: &str, container: &str, image: &str, state: &Value) -> Value {
    let is_ready = state.get("running").is_some();
    let ready = if is_ready { "True" } else { "False" };
    let container = json!({ "name": container, "ready": is_ready, "restartCount": 0, "image": image, "imageID": "", "state": state });
    json!({ "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }], "containerStatuses": [container] } })
}

/// All kinds of the fixture, and `ConfigMap`s, of which there are none.
fn selectors() -> Value {
    let selector = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "namespace": NAMESPACE });
    let core = ["Pod", "Service", "Secret", "ConfigMap"].map(|kind| selector("v1", kind));
    let apps = ["Deployment", "ReplicaSet"].map(|kind| selector("apps/v1", kind));
    json!([&core[..], &apps[..]].concat())
}

#[tokio::test]
async fn the_fleet_answers_what_is_unhealthy_what_uses_a_secret_and_which_images_run() -> Tested {
    let fixture = Fixture::start().await;
    let clusters = ["member1", "member2"];
    let registry = Registry::in_fleet(&fixture.fleet, "meaning", &clusters, &selectors())?;
    registry.apply_until_ready().await?;
    every_question_is_answered(&fixture).await?;
    registry.remove().await?;

    let mut embedded = registry.sibling("embedded");
    embedded
        .spec
        .as_object_mut()
        .unwrap()
        .remove("backendStore");
    embedded.apply_until_ready().await?;
    every_question_is_answered(&fixture).await?;
    scripts_of_argo_cd_answer(&fixture).await?;
    fixture.hub.delete(&embedded.path()).await?;
    Ok(())
}

async fn every_question_is_answered(fixture: &Fixture) -> Tested {
    until_available(fixture).await?;
    the_command_line_answers(fixture).await?;
    searches_find_objects_of_all_kinds(fixture).await?;
    kubectl_answers(fixture).await?;
    documents_have_the_details(fixture).await;
    an_object_is_interpreted_for_a_caller(fixture).await
}

/// Waits until kubectl finds the pods of both members.
async fn until_available(fixture: &Fixture) -> Tested {
    until("kubectl finds all pods", || async {
        let found = raw(&fixture.kubectl, "search/api/v1/pods").await?;
        let items = found["items"].as_array().context("no items")?;
        ensure!(items.len() == 4, "{found}");
        Ok(())
    })
    .await?;
    Ok(())
}

const UNHEALTHY_ROWS: [&str; 4] = [
    "member1 shop Deployment.apps web Degraded ProgressDeadlineExceeded",
    "member1 shop Pod web-1-a Degraded CrashLoopBackOff",
    "member2 shop Deployment.apps web Degraded ProgressDeadlineExceeded",
    "member2 shop Pod web-1-a Degraded ImagePullBackOff",
];

const USERS_OF_SECRET: [&str; 3] = [
    "member1 used by uses shop Deployment.apps web Degraded",
    "member1 used by uses shop Pod web-1-a Degraded",
    "member1 used by uses shop ReplicaSet.apps web-1 Progressing",
];
const NGINX_ROWS: [&str; 2] = [
    "docker.io/library/nginx:1.28 member2 1",
    "nginx:1.27 member1 1",
];

async fn the_command_line_answers(fixture: &Fixture) -> Tested {
    let unhealthy = fixture.asked("unhealthy --no-headers").await;
    assert_eq!(without_age(unhealthy), UNHEALTHY_ROWS);
    let pods = fixture
        .asked("unhealthy pods --no-headers --cluster member2")
        .await;
    assert_eq!(without_age(pods), UNHEALTHY_ROWS[3..]);
    let wide = fixture.asked("unhealthy pods -o wide").await.join("\n");
    for problem in &PROBLEMS {
        assert!(wide.contains(problem.message), "{wide}");
    }
    let deployments = fixture.asked("get deploy -n shop --no-headers").await;
    let wide = fixture
        .asked("get deploy -n shop --no-headers -o wide")
        .await;
    assert_eq!((deployments.len(), wide.len()), (2, 2));
    let health = " Degraded ProgressDeadlineExceeded";
    assert!(wide.iter().all(|row| row.ends_with(health)), "{wide:?}");
    assert!(!deployments.join("\n").contains("Degraded"));
    let progressing = fixture
        .asked("unhealthy rs --progressing --no-headers")
        .await;
    assert_eq!(progressing.len(), 2, "{progressing:?}");

    let related = fixture
        .asked("related secret/db -n shop --cluster member1 --no-headers")
        .await;
    assert_eq!(related, USERS_OF_SECRET);
    let images = fixture.asked("images --image nginx --no-headers").await;
    assert_eq!(images, NGINX_ROWS);
    assert_eq!(fixture.asked("images --no-headers").await.len(), 4);

    for (selector, clusters) in [
        ("dependsOn=v1/Secret/shop/db", &["member1", "member2"][..]),
        ("dependsOn=v1/Secret/shop/other", &[]),
        ("image=nginx", &["member1", "member2"]),
        ("image=nginx:1.28", &["member2"]),
        ("replicas.ready<1", &["member1", "member2"]),
        ("replicas.desired>1", &[]),
        (
            "resources.cpu>=250m,resources.memory<=64Mi",
            &["member1", "member2"],
        ),
        (
            "healthReason=ProgressDeadlineExceeded",
            &["member1", "member2"],
        ),
        ("health=Healthy", &[]),
    ] {
        let command = ["get", "deploy", "-A", "-o", "name", "--field-selector"];
        let command = [&command[..], &[selector]].concat();
        let result = fixture.operator.run_command(&command).await?;
        let found: Vec<&str> = result.out.lines().collect();
        let name = |cluster: &&str| format!("{cluster}/deployment.apps/web");
        let expected: Vec<String> = clusters.iter().map(name).collect();
        assert_eq!(found, expected, "{selector}: {}", result.err);
    }
    let mut counts = fixture
        .asked("count pods --by health,cluster --no-headers")
        .await;
    counts.sort_unstable();
    let expected = [
        "Degraded member1 1",
        "Degraded member2 1",
        "Healthy member1 1",
        "Healthy member2 1",
    ];
    assert_eq!(counts, expected);
    Ok(())
}

async fn searches_find_objects_of_all_kinds(fixture: &Fixture) -> Tested {
    for (search, expected) in [
        (
            "nginx:1.27 kind:pod",
            &["member1 shop Pod web-1-a Degraded CrashLoopBackOff"][..],
        ),
        (
            "imagepull",
            &["member2 shop Pod web-1-a Degraded ImagePullBackOff"],
        ),
        (
            "kind:deploy name:web cluster:member2",
            &["member2 shop Deployment.apps web Degraded ProgressDeadlineExceeded"],
        ),
        (
            "uses:secret/shop/db health:degraded kind:Pod cluster:member1",
            &["member1 shop Pod web-1-a Degraded CrashLoopBackOff"],
        ),
        ("NOT kind:Pod,Deployment,ReplicaSet,Service,Secret", &[]),
    ] {
        let line = format!("search --no-headers {search}");
        let arguments: Vec<&str> = line.split(' ').collect();
        let result = fixture.operator.run_command(&arguments).await?;
        assert_eq!(result.code, 0, "{search}: {result:?}");
        assert_eq!(without_age(rows(&result.out)), expected, "{search}");
    }
    let mut names = fixture.asked("search -o name --all web-1-a").await;
    names.sort_unstable();
    assert_eq!(names, ["member1/pod/web-1-a", "member2/pod/web-1-a"]);
    let path = "objects?q=shop%20kind:pod&limit=1&facets=kind,cluster,namespace,health";
    let first = fixture.raw(path).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3, "{first}");
    let facets = json!([
        { "name": "kind", "values": [{ "value": "Pod", "count": 4 }], "others": 0 },
        { "name": "cluster", "values": [{ "value": "member1", "count": 2 }, { "value": "member2", "count": 2 }], "others": 0 },
        { "name": "namespace", "values": [{ "value": "shop", "count": 4 }], "others": 0 },
        { "name": "health", "values": [{ "value": "Degraded", "count": 2 }, { "value": "Healthy", "count": 2 }], "others": 0 },
    ]);
    assert_eq!(first["metadata"]["facets"], facets);
    a_search_is_completed(fixture).await;
    Ok(())
}

async fn a_search_is_completed(fixture: &Fixture) {
    for (query, expected) in [
        ("kind:Deploy", json!(["Deployment"])),
        ("cluster:mem", json!(["member1", "member2"])),
        ("ns:SH", json!(["shop"])),
        ("ns:shop%20kind:Deployment%20label:", json!(["app="])),
        ("ns:shop%20kind:Deployment%20label:app=W", json!(["web"])),
        (
            "ns:shop%20kind:Pod%20reason:",
            json!(["CrashLoopBackOff", "ImagePullBackOff"]),
        ),
        (
            "ns:shop%20kind:Pod%20image:ngi",
            json!(["nginx", "nginx:1.27", "nginx:1.28"]),
        ),
        (
            "image:registry.example.com/j",
            json!(["registry.example.com/job", "registry.example.com/job:3"]),
        ),
        ("cluster:member2%20image:nginx:1.27", json!([])),
    ] {
        let document = fixture.raw(&format!("completions?q={query}")).await;
        let items = document["items"].as_array().unwrap();
        let offered: Vec<&Value> = items.iter().map(|item| &item["text"]).collect();
        assert_eq!(json!(offered), expected, "{query}: {document}");
    }
    let unfinished = fixture.raw("completions?q=kind:&cursor=2").await;
    assert_eq!(unfinished["replace"], json!({ "start": 0, "end": 5 }));
    assert_eq!(unfinished["error"]["column"], 1);
}

async fn kubectl_answers(fixture: &Fixture) -> Tested {
    let unhealthy = ["objects.search.fleetdex.io", "--field-selector", UNHEALTHY];
    let unhealthy = fixture.kubectl_rows(&unhealthy).await?;
    assert_eq!(without_age(unhealthy), UNHEALTHY_ROWS);
    let images = [
        "images.search.fleetdex.io",
        "--field-selector",
        "image=nginx",
    ];
    let images = fixture.kubectl_rows(&images).await?;
    assert_eq!(images, NGINX_ROWS);
    let server = format!(
        "{}{GROUP}/proxying/karmada/proxy",
        fixture.fleet.control_plane().url()
    );
    let over_fleet = [
        "--server",
        &server,
        "deploy",
        "-A",
        "-o",
        "name",
        "--field-selector",
    ];
    for selector in [
        "health=Degraded",
        "dependsOn=v1/Secret/shop/db",
        "replicas.ready<1",
    ] {
        let command = [&["get"], &over_fleet[..], &[selector]].concat();
        let found = fixture.kubectl.run(&command).await?;
        assert_eq!(
            found, "deployment.apps/web\ndeployment.apps/web\n",
            "{selector}"
        );
    }
    Ok(())
}

async fn documents_have_the_details(fixture: &Fixture) {
    let query = "fieldSelector=health%3DDegraded&kinds=pods&clusters=member1";
    let objects = fixture.raw(&format!("objects?{query}")).await;
    let annotations = &objects["items"][0]["metadata"]["annotations"];
    assert_eq!(annotations["fleetdex.io/health"], "Degraded");
    assert_eq!(annotations["fleetdex.io/health-reason"], "CrashLoopBackOff");

    let path = format!("api/v1/namespaces/{NAMESPACE}/secrets/db?depth=3&clusters=member1");
    let related = fixture.raw(&format!("related/{path}")).await;
    let relation = |item: &Value| {
        let (kind, name) = (&item["kind"], &item["metadata"]["name"]);
        let text = format!(
            "{kind}/{name} {} {}",
            item["relation"]["name"], item["relation"]["depth"]
        );
        text.replace('"', "")
    };
    let mut found: Vec<String> = related["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(relation)
        .collect();
    found.sort_unstable();
    let expected = [
        "Deployment/web uses 1",
        "Pod/web-1-a uses 1",
        "ReplicaSet/web-1 uses 1",
        "Service/web routesTo 2",
    ];
    assert_eq!(found, expected);

    let path = format!("apis/apps/v1/namespaces/{NAMESPACE}/deployments/web");
    let related = fixture
        .raw(&format!("related/{path}?clusters=member2"))
        .await;
    let missing = related["items"].as_array().unwrap().iter();
    let missing: Vec<&Value> = missing
        .filter(|item| item["relation"]["exists"] == false)
        .collect();
    assert_eq!(missing.len(), 1, "{related}");
    assert_eq!(
        (&missing[0]["kind"], &missing[0]["metadata"]["name"]),
        (&json!("ConfigMap"), &json!("settings"))
    );

    let merged = fixture.raw(&format!("merged/{path}")).await;
    assert_eq!(
        merged["object"]["status"]["unavailableReplicas"], 2,
        "{merged}"
    );
    for (status, cluster) in merged["aggregatedStatus"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["member1", "member2"])
    {
        assert_eq!(
            (&status["clusterName"], &status["health"]),
            (&json!(cluster), &json!("Unhealthy"))
        );
        assert_eq!(
            status["assessment"]["reason"], "ProgressDeadlineExceeded",
            "{status}"
        );
    }

    let counts = fixture.raw("aggregate/api/v1/pods?by=health,cluster").await;
    assert_eq!(
        (&counts["total"], &counts["others"]),
        (&json!(4), &json!(0))
    );
    assert_eq!(counts["items"].as_array().unwrap().len(), 4, "{counts}");
}

/// With kubectl alone, as the documentation shows it.
async fn an_object_is_interpreted_for_a_caller(fixture: &Fixture) -> Tested {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Failed", "reason": "Evicted" } });
    let body = json!({ "operation": "interprethealth", "object": pod });
    let path = fixture.fleet.dir().join("interpret.json");
    std::fs::write(&path, body.to_string())?;
    let url = format!("{GROUP}/interpret");
    let command = ["create", "--raw", &url, "-f", path.to_str().unwrap()];
    let answer: Value = serde_json::from_str(&fixture.kubectl.run(&command).await?)?;
    let found = ["healthy", "health", "reason", "interpretedBy"].map(|key| answer[key].clone());
    assert_eq!(
        found,
        [
            json!(false),
            json!("Degraded"),
            json!("Evicted"),
            json!("built-in")
        ],
        "{answer}"
    );
    Ok(())
}

/// A `ConfigMap` on the control plane, as Argo CD has it, decides while it exists.
async fn scripts_of_argo_cd_answer(fixture: &Fixture) -> Tested {
    let script = "return { status = 'Suspended', message = 'as ' .. obj.kind .. ' always is' }";
    let scripts = json!({ "resource.customizations.health.apps_Deployment": script });
    let hub = &fixture.hub;
    hub.apply_config_map("default", "argocd-cm", &scripts)
        .await?;
    let by_script = "unhealthy deploy --health suspended --no-headers -o wide";
    until_answered(fixture, by_script, |rows| {
        let is_scripts = |row: &String| row.ends_with("as Deployment always is");
        rows.len() == 2 && rows.iter().all(is_scripts)
    })
    .await?;
    let path = config_map_path("default", "argocd-cm");
    hub.delete(&path).await?;
    let by_rules = "unhealthy --no-headers";
    until_answered(fixture, by_rules, |rows| {
        without_age(rows.to_vec()) == UNHEALTHY_ROWS
    })
    .await?;
    Ok(())
}

/// Waits until a command prints such rows.
async fn until_answered(
    fixture: &Fixture,
    line: &str,
    is_answer: impl Fn(&[String]) -> bool,
) -> Tested {
    let arguments: Vec<&str> = line.split(' ').collect();
    until(line, || async {
        let result = fixture.operator.run_command(&arguments).await?;
        ensure!(is_answer(&rows(&result.out)), "{result:?}");
        Ok(())
    })
    .await?;
    Ok(())
}
