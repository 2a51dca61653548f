//! The Kubernetes API over the fleet: kubectl with `fleetdex local` and two real members, and users
//! with and without permissions.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, unique},
    http,
    kubectl::Kubectl,
    kubelet::Kubelet,
    local::{Local, kubeconfig_of_members},
    objects::{Objects, config_map_path},
    scenario::{DEADLINE, until},
    test_result::{Tested, assert_contains, assert_fails},
};
use fleetdex_clusters::{
    Clusters, ConnectionTiming,
    connect::Network,
    discovery::ServedResource,
    source::{Loader, contexts, read_kubeconfig},
};
use fleetdex_core::model::{ClusterName, Gvk, Resource, StoreName};
use fleetdex_query_api::{fleet_request, uri::RequestUri};
use fleetdex_server::{
    answers::Answers,
    auth::{authentication_mode::AuthenticationMode, caller::Caller, token_file::TokenVerifier},
    catalog::{Catalog, CatalogEntry},
    http::api_state::ApiState,
    limits::{LimitArgs, RequestLimits},
    proxying::{self, MemberProxy},
};
use fleetdex_store::memory::Memory;
use fleetdex_telemetry::Metrics;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};
use tokio_util::sync::CancellationToken;

const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";
const RESOURCES: &str = "--resource=pods,configmaps,secrets,deployments,namespaces,nodes";
const OURS: [&str; 3] = [
    "fleetdex.io/resource-version",
    "resource.karmada.io/cached-from-cluster",
    "fleetdex.io/redacted",
];

/// `fleetdex local` over the members of a fixture.
struct ServedFleet {
    local: Local,
    token_file: PathBuf,
    folder: PathBuf,
}

impl ServedFleet {
    async fn start(
        Fixture {
            folder, kubeconfig, ..
        }: &Fixture,
    ) -> Result<Self> {
        let token_file = folder.join("token");
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--token-file={}", token_file.display()),
        ];
        let arguments = [RESOURCES, &arguments[0], &arguments[1]];
        let local = Local::start(folder, kubeconfig, &arguments)?;
        local.until_logged(&["ready: fleetdex get"]).await?;
        Ok(Self {
            local,
            token_file,
            folder: folder.to_owned(),
        })
    }

    fn token(&self) -> Result<String> {
        let token = fs::read_to_string(&self.token_file).context("the token")?;
        Ok(token.trim().to_owned())
    }

    /// kubectl with the fleet's URL, or a path `below` it, as server.
    fn kubectl(&self, below: &str) -> Result<Kubectl> {
        let (token, address) = (self.token()?, self.local.address());
        let server = format!("http://fleetdex:{token}@{address}{PROXY}{below}");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fleet", "users": [],
            "clusters": [{ "name": "fleet", "cluster": { "server": server } }],
            "contexts": [{ "name": "fleet", "context": { "cluster": "fleet", "namespace": "web" } }],
        });
        let path = self
            .folder
            .join(format!("kubectl{}", below.replace('/', "-")));
        fs::write(&path, config.to_string())?;
        Kubectl::new(&path)
    }
}

struct Fixture {
    fleet: Fleet,
    east: Objects,
    west: Objects,
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Fixture {
    async fn start() -> Self {
        let options = Options::of(2, OpenSearchKind::None);
        let fleet = Fleet::start(options).await.unwrap();
        let (east, west) = (
            Objects::of(fleet.member(1)).unwrap(),
            Objects::of(fleet.member(2)).unwrap(),
        );
        for member in [&east, &west] {
            member.create_namespace("web").await.unwrap();
            member
                .apply_config_map("web", "both", &json!({ "a": "b" }))
                .await
                .unwrap();
        }
        // A new folder: a log or token of an earlier run would be taken for this one's.
        let folder = fleet.dir().join(unique("proxying"));
        fs::create_dir_all(&folder).unwrap();
        let kubeconfig_path = folder.join("members");
        fs::write(&kubeconfig_path, kubeconfig_of_members(&fleet).to_string()).unwrap();
        Self {
            fleet,
            east,
            west,
            folder,
            kubeconfig: kubeconfig_path,
        }
    }

    async fn east_has_objects(&self) -> Tested {
        let annotated = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one", "annotations": { "note": "kept: \"as\" it is" } },
            "data": { "a": "old", "b": "line 1\nline 2\n", "c": "x: 1.50" },
        });
        self.east
            .apply(&config_map_path("web", "one"), &annotated)
            .await?;
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" }, "stringData": { "password": "moonlight" } });
        self.east
            .apply("api/v1/namespaces/web/secrets/key", &secret)
            .await?;
        let template = json!({
            "metadata": { "labels": { "app": "shop" } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/shop" }] },
        });
        let shop = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "shop" } }, "template": template },
        });
        self.east
            .apply("apis/apps/v1/namespaces/web/deployments/shop", &shop)
            .await?;
        Ok(())
    }

    /// Reads an object of the first member, and checks that it has no annotations of Fleetdex.
    async fn in_east(&self, path: &str) -> Value {
        let object = self.east.get(path).await.unwrap();
        for ours in OURS {
            assert_eq!(
                object["metadata"]["annotations"].get(ours),
                None,
                "{object}"
            );
        }
        object
    }

    /// An editor script that replaces text in a file.
    fn editor(&self, expression: &str) -> Tested<String> {
        let path = self.folder.join("editor.sh");
        fs::write(
            &path,
            format!("#!/bin/sh\nexec sed -i '{expression}' \"$1\"\n"),
        )?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    }
}

#[tokio::test]
async fn kubectl_changes_objects_of_a_fleet_like_those_of_a_cluster() -> Tested {
    let fixture = Fixture::start().await;
    fixture.east_has_objects().await?;
    let local = ServedFleet::start(&fixture).await?;
    let kubectl = local.kubectl("")?;

    reads(&fixture, &kubectl).await;
    changes(&fixture, &kubectl).await?;
    changes_in_protobuf(&fixture, &local).await?;
    conflicts(&fixture, &local, &kubectl).await?;
    keeps_secrets(&fixture, &kubectl).await?;
    objects_of_an_unreachable_member_are_read_from_the_index(&fixture, &kubectl).await?;
    assert!(local.local.process.terminate(DEADLINE).await?.success());
    Ok(())
}

async fn reads(fixture: &Fixture, kubectl: &Kubectl) {
    let table = kubectl
        .run("get configmaps --field-selector metadata.name=both")
        .await
        .unwrap();
    assert!(table.contains("east") && table.contains("west"), "{table}");
    let one = kubectl.json("get configmap one").await.unwrap();
    let own = fixture.in_east(&config_map_path("web", "one")).await;
    assert_eq!(one["data"], own["data"]);
    assert_eq!(
        one["metadata"]["annotations"]["fleetdex.io/resource-version"],
        own["metadata"]["resourceVersion"]
    );
    assert_eq!(
        one["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"],
        "east"
    );
    assert!(
        kubectl
            .run("get configmap one")
            .await
            .unwrap()
            .contains("CLUSTER")
    );
    assert!(
        kubectl
            .run("get configmap one -o yaml")
            .await
            .unwrap()
            .contains("line 2")
    );
    assert_fails(
        kubectl.run("get configmap none").await,
        r#"Error from server (NotFound): configmaps "none" not found"#,
    );
    let explained = kubectl
        .run("explain deployment.spec.replicas")
        .await
        .unwrap();
    assert!(explained.contains("Number of desired pods"), "{explained}");
    let listed = kubectl
        .json("get configmaps --field-selector metadata.name=one")
        .await
        .unwrap();
    let item = &listed["items"][0]["metadata"];
    assert_eq!(
        item["annotations"]["fleetdex.io/resource-version"],
        own["metadata"]["resourceVersion"]
    );
    assert!(
        item["resourceVersion"].as_str().unwrap().len() > 15,
        "{item}"
    );
    assert!(
        kubectl
            .run("api-resources")
            .await
            .unwrap()
            .contains("deployments")
    );
}

async fn changes(fixture: &Fixture, kubectl: &Kubectl) -> Tested {
    let path = config_map_path("web", "one");
    kubectl.run("label configmap one tier=gold").await?;
    kubectl.run("annotate configmap one who=me").await?;
    let labelled = fixture.in_east(&path).await;
    assert_eq!(
        (
            &labelled["metadata"]["labels"]["tier"],
            &labelled["metadata"]["annotations"]["who"]
        ),
        (&json!("gold"), &json!("me"))
    );

    let edited = kubectl
        .clone()
        .with("KUBE_EDITOR", &fixture.editor("s/a: old/a: new/")?);
    edited.run("edit configmap one").await?;
    let mut expected = labelled;
    expected["data"]["a"] = json!("new");
    let mut now = fixture.in_east(&path).await;
    for moves in ["resourceVersion", "managedFields"] {
        now["metadata"][moves] = expected["metadata"][moves].clone();
    }
    assert_eq!(
        now.to_string(),
        expected.to_string(),
        "an edit changes what was edited"
    );

    let merge = r#"patch configmap one --type=merge -p {"data":{"a":"merged"}}"#;
    kubectl.run(merge).await?;
    let operations = r#"[{"op":"replace","path":"/data/c","value":"j"}]"#;
    let by_operations = format!("patch configmap one --type=json -p {operations}");
    kubectl.run(&by_operations).await?;
    let strategic = r#"patch deployment shop -p {"spec":{"minReadySeconds":7}}"#;
    kubectl.run(strategic).await?;
    kubectl.run("scale deployment shop --replicas=3").await?;
    kubectl
        .run("set image deployment/shop main=example.com/shop:2")
        .await?;
    let data = fixture.in_east(&path).await;
    assert_eq!(
        (&data["data"]["a"], &data["data"]["c"]),
        (&json!("merged"), &json!("j"))
    );
    let shop = fixture
        .in_east("apis/apps/v1/namespaces/web/deployments/shop")
        .await;
    assert_eq!(
        (&shop["spec"]["replicas"], &shop["spec"]["minReadySeconds"]),
        (&json!(3), &json!(7))
    );
    assert_eq!(
        shop["spec"]["template"]["spec"]["containers"][0]["image"],
        "example.com/shop:2"
    );

    let manifest = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one", "namespace": "web" }, "data": { "a": "applied" } });
    kubectl.apply(&manifest.to_string()).await?;
    assert_eq!(fixture.in_east(&path).await["data"]["a"], "applied");
    let manifest = manifest.to_string().replace("applied", "by the server");
    kubectl.apply_server_side(&manifest).await?;
    assert_eq!(fixture.in_east(&path).await["data"]["a"], "by the server");
    Ok(())
}

/// Writes as Go controllers do: reads an object and writes it back changed.
async fn changes_in_protobuf(fixture: &Fixture, local: &ServedFleet) -> Tested {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let (path, member) = (config_map_path("web", "one"), fixture.fleet.member(1));
    let own = http::client(Some(member.ca_pem()))?;
    let read = own
        .get(format!("{}/{path}", member.url()))
        .bearer_auth(member.token())
        .header("Accept", PROTOBUF);
    let read = read.send().await?.bytes().await?;
    // Of the same length, so that lengths in the message hold.
    let (old, new) = (b"by the server", b"by a PUT here");
    // The last one is in the data; an annotation of kubectl may hold a copy.
    let at = read
        .windows(old.len())
        .rposition(|window| window == old)
        .unwrap();
    let written = [&read[..at], new, &read[at + old.len()..]].concat();
    let client = http::client(None)?;
    let put = async |query: &str| {
        let url = format!("http://{}{PROXY}/{path}{query}", local.local.address());
        let request = client
            .put(url)
            .bearer_auth(local.token().unwrap())
            .header("Content-Type", PROTOBUF);
        request
            .header("Accept", format!("{PROTOBUF}, */*"))
            .body(written.clone())
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(put("").await, 200);
    assert_eq!(fixture.in_east(&path).await["data"]["a"], "by a PUT here");
    assert_eq!(put("").await, 409, "the version of before is a conflict");
    Ok(())
}

async fn conflicts(fixture: &Fixture, local: &ServedFleet, kubectl: &Kubectl) -> Tested {
    let mut stale = kubectl.json("get configmap one").await?;
    stale["data"]["a"] = json!("first");
    let file = fixture.folder.join("stale.json");
    fs::write(&file, stale.to_string())?;
    let replace = ["replace", "-f", file.to_str().unwrap()];
    kubectl.run(&replace).await?;
    assert_fails(kubectl.run(&replace).await, "the object has been modified");

    // An optimistic lock on the fleet's version alone succeeds while nothing changes and the index
    // is up to date.
    let lock = |version: &str, label: &str| {
        let patch =
            json!({ "metadata": { "resourceVersion": version, "labels": { "lock": label } } });
        format!("patch configmap one --type=merge -p {patch}")
    };
    let version = until("an optimistic lock is taken", || async {
        let one = kubectl.json("get configmap one").await?;
        let version = one["metadata"]["resourceVersion"]
            .as_str()
            .context("no version")?
            .to_owned();
        kubectl.run(&lock(&version, "first")).await?;
        Ok::<_, anyhow::Error>(version)
    })
    .await?;
    let late = kubectl.run(&lock(&version, "late")).await;
    assert_fails(late, "latest version");

    let both = kubectl
        .run("get configmap both")
        .await
        .unwrap_err()
        .to_string();
    assert_contains(&both, "(Conflict)");
    assert_contains(&both, "is in several clusters: east, west");
    let west = local.kubectl("/clusters/west")?;
    west.run("label configmap both side=west").await?;
    assert_eq!(
        fixture.west.get_config_map("web", "both").await?["metadata"]["labels"]["side"],
        "west"
    );
    assert_eq!(
        fixture.in_east(&config_map_path("web", "both")).await["metadata"].get("labels"),
        None
    );

    assert_fails(
        kubectl.run("create configmap new --from-literal=a=b").await,
        "an object is created in one cluster",
    );
    west.run("create configmap new --from-literal=a=b").await?;
    until("the index has the new object", || async {
        kubectl.run("get configmap new").await
    })
    .await?;
    kubectl.run("delete configmap new").await?;
    assert_eq!(
        fixture.west.find(&config_map_path("web", "new")).await?,
        None
    );
    assert_fails(
        kubectl.run("get --raw /api/v1/namespaces/web/events").await,
        "does not read events",
    );
    Ok(())
}

async fn keeps_secrets(fixture: &Fixture, kubectl: &Kubectl) -> Tested {
    let path = "api/v1/namespaces/web/secrets/key";
    let listed = kubectl.json("get secrets").await?;
    let redacted = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["name"] == "key")
        .unwrap()
        .clone();
    assert_eq!(
        (
            &redacted["data"]["password"],
            &redacted["metadata"]["annotations"]["fleetdex.io/redacted"]
        ),
        (&json!(""), &json!("$.data"))
    );
    let file = fixture.folder.join("redacted.json");
    fs::write(&file, redacted.to_string())?;
    for command in [
        &["replace"][..],
        &["apply", "--server-side", "--force-conflicts"],
    ] {
        let arguments = [command, &["-f", file.to_str().unwrap()]].concat();
        assert_fails(kubectl.run(&arguments).await, "fleetdex.io/redacted");
    }
    assert_eq!(
        fixture.in_east(path).await["data"]["password"],
        STANDARD.encode("moonlight")
    );
    let edited = kubectl.clone().with(
        "KUBE_EDITOR",
        &fixture.editor("s/^type: Opaque/type: Opaque\\nimmutable: true/")?,
    );
    edited.run("edit secret key").await?;
    let after = fixture.in_east(path).await;
    assert_eq!(
        (&after["data"]["password"], &after["immutable"]),
        (&json!(STANDARD.encode("moonlight")), &json!(true))
    );
    Ok(())
}

async fn objects_of_an_unreachable_member_are_read_from_the_index(
    fixture: &Fixture,
    kubectl: &Kubectl,
) -> Tested {
    fixture.fleet.member(1).kill();
    let output = kubectl.output("get configmap one -o json").await?;
    assert!(
        output.success && output.stderr.contains("as it was last seen"),
        "{output:?}"
    );
    let one: Value = serde_json::from_str(&output.stdout)?;
    assert!(
        one["metadata"]["annotations"]["fleetdex.io/answered-from-index"].is_string(),
        "{one}"
    );
    assert_fails(
        kubectl.run("label configmap one a=b").await,
        "cluster east cannot be reached",
    );
    fixture.fleet.member(1).restart().await?;
    Ok(())
}

/// Registers the pods of a member: requests that name a member need a registered resource.
fn catalog_of_pods(cluster: &ClusterName) -> Catalog {
    let store: StoreName = "embedded".parse().unwrap();
    let mut catalog = Catalog::default();
    catalog.add_store(store.clone(), Arc::new(Memory::new()));
    let served = ServedResource {
        resource: Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        },
        singular: "pod".into(),
        short_names: Vec::new(),
        list_and_watch: true,
        preferred: true,
        capabilities: Arc::default(),
    };
    catalog.add(CatalogEntry {
        served: &served,
        cluster,
        store: &store,
        fields: &[],
        any_path: false,
    });
    catalog
}

/// Reads a log as a user.
async fn log_of(api: &ApiState, user: &str) -> (u16, String) {
    let path = "/clusters/east/api/v1/namespaces/web/pods/web-1/log";
    let request = ::http::Request::get(format!("{PROXY}{path}?container=main"))
        .body(Body::empty())
        .unwrap();
    let caller = Caller {
        name: user.to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..Caller::local()
    };
    let uri = request.uri().clone();
    let uri = RequestUri::parse(uri.path(), uri.query()).unwrap();
    let asked = fleet_request::parse("GET", &uri).unwrap().unwrap();
    let response = proxying::handle(&api.answers, &api.members, &caller, &uri, asked, request)
        .await
        .unwrap();
    let code = response.status().as_u16();
    (
        code,
        String::from_utf8(
            response
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .to_vec(),
        )
        .unwrap(),
    )
}

const WEB_SOCKET: &str = "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    sec-websocket-protocol: v4.channel.k8s.io\r\n";
/// As kubectl with `KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false`.
const SPDY: &str = "upgrade: SPDY/3.1\r\ncontent-length: 0\r\n\
    x-stream-protocol-version: v5.channel.k8s.io\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n";

/// Opens a session, and returns the start of the response.
async fn session(
    local: &ServedFleet,
    method: &str,
    protocol: &str,
    subresource: &str,
) -> Tested<(String, TcpStream)> {
    let mut stream = TcpStream::connect(local.local.address()).await?;
    let head = format!(
        "{method} {PROXY}/api/v1/namespaces/web/pods/web-1/{subresource} HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {}\r\nconnection: Upgrade\r\n{protocol}\r\n",
        local.token()?
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    Ok((String::from_utf8(answer).unwrap(), stream))
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn logs_and_sessions_reach_a_kubelet_with_the_rights_of_the_user() -> Tested {
    let fixture = Fixture::start().await;
    let east = fixture.fleet.member(1);
    let kubelet = Kubelet::start(east).unwrap();
    fixture
        .east
        .apply("api/v1/nodes/node-1", &kubelet.node("node-1"))
        .await?;
    fixture
        .east
        .merge("api/v1/nodes/node-1/status", &kubelet.node_status())
        .await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-1", "labels": { "app": "web" } },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "main", "image": "example.com/web" }] },
    });
    fixture
        .east
        .apply("api/v1/namespaces/web/pods/web-1", &pod)
        .await?;

    let local = ServedFleet::start(&fixture).await?;
    let kubectl = local.kubectl("")?;
    let log = kubectl.run("logs web-1 --tail=5").await?;
    assert_contains(&log, "log of /containerLogs/web/web-1/main?tailLines=5");
    assert!(kubectl.run("logs -f web-1").await?.contains("follow=true"));
    for (method, protocol, agreement) in
        [("GET", WEB_SOCKET, "websocket"), ("POST", SPDY, "SPDY/3.1")]
    {
        let path = "exec?command=sh&command=-c&stdin=true&stdout=true";
        let (agreed, mut stream) = session(&local, method, protocol, path).await?;
        let is_agreed = |line: &str| line.eq_ignore_ascii_case(&format!("upgrade: {agreement}"));
        assert!(
            agreed.starts_with("HTTP/1.1 101") && agreed.lines().any(is_agreed),
            "{agreed}"
        );
        // More bytes than any buffer on the way can hold.
        let sent: Vec<u8> = (0..200_000_u32).flat_map(u32::to_be_bytes).collect();
        let mut back = vec![0; sent.len()];
        let (mut reads, mut writes) = stream.split();
        let both = async { tokio::try_join!(writes.write_all(&sent), reads.read_exact(&mut back)) };
        tokio::time::timeout(Duration::from_secs(30), both)
            .await?
            .unwrap();
        assert!(
            back == sent,
            "{agreement}: what came back is not what was sent"
        );
        drop(stream);
        let (refused, _) = session(
            &local,
            method,
            protocol,
            "exec?container=none&command=sh&stdout=true",
        )
        .await?;
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    }

    // The member itself checks the users' permissions.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "logs" },
        "rules": [{ "apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"] }],
    });
    fixture
        .east
        .apply(
            "apis/rbac.authorization.k8s.io/v1/namespaces/web/roles/logs",
            &role,
        )
        .await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "logs" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "logs" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice" }],
    });
    fixture
        .east
        .apply(
            "apis/rbac.authorization.k8s.io/v1/namespaces/web/rolebindings/logs",
            &binding,
        )
        .await?;
    let cancel = CancellationToken::new();
    let kubeconfig = read_kubeconfig(Some(&fixture.kubeconfig)).await?;
    let clusters = Clusters::new(
        Loader::without_control_plane(),
        Arc::new(Network::default()),
        ConnectionTiming::default(),
        cancel.clone(),
    );
    clusters.set_members(contexts(&kubeconfig, Some(&fixture.kubeconfig), &[]).members);
    let (_sender, catalog) = watch::channel(Arc::new(catalog_of_pods(&"east".parse().unwrap())));
    let members = Arc::new(MemberProxy::new(Arc::new(clusters), cancel.clone()));
    let metrics = Arc::new(Metrics::new());
    let limits = RequestLimits::new(&LimitArgs::default(), &metrics);
    let authentication_mode = AuthenticationMode::LoopbackToken(TokenVerifier::new("unused"));
    let api = ApiState::new(
        Answers::new(catalog, authentication_mode, limits, metrics),
        members,
    );
    until("the right of alice is there", || async {
        let (code, text) = log_of(&api, "alice").await;
        ensure!(
            code == 200 && text.contains("/containerLogs/web/web-1/main"),
            "{code} {text}"
        );
        Ok(())
    })
    .await?;
    let (code, text) = log_of(&api, "bob").await;
    assert!(
        code == 403 && text.contains(r#"User \"bob\" cannot get resource \"pods/log\""#),
        "{code} {text}"
    );
    cancel.cancel();
    Ok(())
}
