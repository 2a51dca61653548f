//! The roles of `fleetdex dashboards roles` on a secured OpenSearch: each user sees there what the
//! query API shows them, or nothing.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, OpenSearchServer, Options, unique},
    kubectl::Kubectl,
    objects::Objects,
    opensearch::OpenSearch,
    operator::{API_PORT, Operator},
    query_api::{GROUP, make_service, raw},
    scenario::{Registry, SECRETS, prepare, secret_path, start_operator, until},
    test_result::Tested,
};
use reqwest::Method;
use serde_json::{Value, json};

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";
const SECURITY: &str = "_plugins/_security/api";
const PASSWORD: &str = "Sees-0nly-their-own-7";
const CONFIG_MAPS: &str = "api/v1/configmaps";
const COLLECTIONS: [&str; 3] = [CONFIG_MAPS, "api/v1/namespaces", "apis/apps/v1/deployments"];

/// A user, and the groups of that user in Kubernetes.
struct Person {
    name: &'static str,
    groups: &'static [&'static str],
    /// Whether OpenSearch knows the groups, as backend roles.
    has_backend_roles: bool,
    /// The only cluster that the user may see.
    cluster: Option<&'static str>,
}

const fn person(name: &'static str) -> Person {
    Person {
        name,
        groups: &[],
        has_backend_roles: false,
        cluster: None,
    }
}

impl Person {
    /// The alias that the user may search.
    fn alias(&self, prefix: &str) -> String {
        match self.cluster {
            None => prefix.to_owned(),
            Some(cluster) => format!("{prefix}-{cluster}"),
        }
    }
}

const PEOPLE: [Person; 7] = [
    person("alice"),
    Person {
        cluster: Some("member1"),
        ..person("bob")
    },
    // Named with --groups.
    Person {
        groups: &["developers", "team-db"],
        ..person("carol")
    },
    Person {
        groups: &["developers", "team-db"],
        has_backend_roles: true,
        ..person("dave")
    },
    // May query, and list nothing.
    Person {
        groups: &["developers"],
        has_backend_roles: true,
        ..person("erin")
    },
    // May list, and not query.
    Person {
        groups: &["team-db"],
        has_backend_roles: true,
        ..person("frank")
    },
    Person {
        groups: &["administrators"],
        has_backend_roles: true,
        ..person("grace")
    },
];

/// Two members and an OpenSearch with users.
pub fn secured() -> Options {
    Options::of(2, OpenSearchKind::Secure)
}

/// Config maps and Deployments in two namespaces of two members.
async fn fill(fleet: &Fleet) -> Result<()> {
    for number in [1, 2] {
        let member = Objects::of(fleet.member(number))?;
        for namespace in ["web", "db"] {
            member.create_namespace(namespace).await?;
            let name = format!("of-{namespace}-{number}");
            member
                .apply_config_map(namespace, &name, &json!({ "a": "b" }))
                .await?;
            let labels = json!({ "app": "shop" });
            let containers = json!([{ "name": "main", "image": "example.com/main" }]);
            let template =
                json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
            let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "shop" },
                "spec": { "selector": { "matchLabels": labels }, "template": template } });
            let path = format!("apis/apps/v1/namespaces/{namespace}/deployments/shop");
            member.apply(&path, &deployment).await?;
        }
    }
    Ok(())
}

/// Binds rules to a subject, such as `User/alice`, in one namespace or, if it is empty, in all.
async fn grant(hub: &Objects, namespace: &str, subject: &str, rules: &Value) -> Result<()> {
    let (kind, name) = subject.split_once('/').context("a subject")?;
    let role_name = unique(name);
    let (role_kind, folder) = if namespace.is_empty() {
        ("ClusterRole", RBAC.to_owned())
    } else {
        ("Role", format!("{RBAC}/namespaces/{namespace}"))
    };
    let plural = role_kind.to_lowercase();
    let metadata = json!({ "name": role_name });
    let api_version = "rbac.authorization.k8s.io/v1";
    let role = json!({ "apiVersion": api_version, "kind": role_kind, "metadata": metadata, "rules": rules });
    hub.apply(&format!("{folder}/{plural}s/{role_name}"), &role)
        .await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": api_version, "kind": format!("{role_kind}Binding"), "metadata": metadata,
        "roleRef": { "apiGroup": group, "kind": role_kind, "name": role_name },
        "subjects": [{ "apiGroup": group, "kind": kind, "name": name }],
    });
    hub.apply(&format!("{folder}/{plural}bindings/{role_name}"), &binding)
        .await?;
    Ok(())
}

async fn grant_all(hub: &Objects) -> Result<()> {
    let query =
        json!([{ "apiGroups": ["search.fleetdex.io"], "resources": ["*"], "verbs": ["get"] }]);
    let list = |group: &str, resource: &str| json!([{ "apiGroups": [group], "resources": [resource], "verbs": ["list"] }]);
    for namespace in ["web", "db"] {
        hub.create_namespace(namespace).await?;
    }
    grant(hub, "", "User/alice", &query).await?;
    grant(hub, "web", "User/alice", &list("*", "configmaps")).await?;
    grant(hub, "web", "User/alice", &list("apps", "*")).await?;
    // Only member1, and only the core group, of which everything.
    let clusters = json!({ "apiGroups": ["search.fleetdex.io"], "resources": ["clusters"], "resourceNames": ["member1"], "verbs": ["get"] });
    let search = json!({ "apiGroups": ["search.fleetdex.io"], "resources": ["search/v1"], "verbs": ["get"] });
    grant(hub, "", "User/bob", &json!([clusters, search])).await?;
    grant(hub, "", "User/bob", &list("*", "*")).await?;
    grant(hub, "", "Group/developers", &query).await?;
    grant(hub, "db", "Group/team-db", &list("", "configmaps")).await?;
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    grant(hub, "", "Group/administrators", &everything).await
}

/// Selects the kinds for the secured OpenSearch.
async fn register(fleet: &Fleet, hub: &Objects) -> Result<Registry> {
    let server = fleet.opensearch()?;
    let name = unique("opensearch");
    let credentials = json!({ "username": server.username(), "password": server.password() });
    let metadata =
        json!({ "name": name, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": credentials });
    hub.apply(&secret_path(&name), &secret).await?;
    let selectors = json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["web", "db"] },
        { "apiVersion": "v1", "kind": "Namespace" },
        { "apiVersion": "apps/v1", "kind": "Deployment" },
    ]);
    let mut registry = Registry::in_fleet(fleet, "roles", &["member1", "member2"], &selectors)?;
    registry.store()["caBundle"] = json!(server.ca_pem());
    registry.store()["secretRef"] = json!({ "namespace": SECRETS, "name": name });
    registry.apply().await?;
    Ok(registry)
}

/// `cluster/namespace/kind/name` of an object of a kind, in a response or a document.
fn name_of(cluster: &Value, kind: &str, metadata: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "{}/{}/{kind}/{}",
        text(cluster),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

/// What the query API lists for a person, over all kinds.
async fn listed(admin: &Kubectl, person: &Person) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for collection in COLLECTIONS {
        let path = format!("{GROUP}/search/{collection}");
        let mut arguments = vec!["get", "--raw", &path, "--as", person.name];
        for group in person.groups {
            arguments.extend(["--as-group", group]);
        }
        let output = admin.output(&arguments).await?;
        if !output.success {
            ensure!(output.stderr.contains("orbidden"), "{}", output.stderr);
            continue;
        }
        let list: Value = serde_json::from_str(&output.stdout)?;
        let kind = list["kind"]
            .as_str()
            .context("no kind")?
            .trim_end_matches("List")
            .to_owned();
        for item in list["items"].as_array().context("no items")? {
            let cluster =
                &item["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"];
            found.insert(name_of(cluster, &kind, &item["metadata"]));
        }
    }
    Ok(found)
}

/// What OpenSearch shows to a user.
async fn shown(client: &OpenSearch, indices: &str) -> Result<BTreeSet<String>> {
    let body = json!({ "size": 1000, "_source": ["cluster", "kind", "metadata"] });
    let path = format!("{indices}/_search?ignore_unavailable=true");
    let answer = client.send(Method::POST, &path, Some(&body)).await?;
    if answer.status == 403 {
        return Ok(BTreeSet::new());
    }
    ensure!(answer.status == 200, "{answer:?}");
    let hits = answer.body["hits"]["hits"].as_array().context("no hits")?;
    let names = hits.iter().map(|hit| {
        let source = &hit["_source"];
        name_of(
            &source["cluster"],
            source["kind"].as_str().unwrap_or("-"),
            &source["metadata"],
        )
    });
    Ok(names.collect())
}

/// Puts what the command prints into the security plugin, and creates the users.
async fn configure(fleet: &Fleet, operator: &Operator, registry: &Registry) -> Result<()> {
    let kubeconfig = fleet.control_plane().kubeconfig();
    let kubeconfig = kubeconfig.to_str().context("a path")?;
    let printed = operator
        .run_command(&[
            "dashboards",
            "roles",
            "--kubeconfig",
            kubeconfig,
            "--index-prefix",
            &registry.prefix,
            "--groups",
            "carol=developers,team-db",
            "-o",
            "json",
        ])
        .await?;
    ensure!(printed.code == 0, "{printed:?}");
    let configuration: Value = serde_json::from_str(&printed.out)?;
    let client = fleet.opensearch()?.client()?;
    for kind in ["roles", "rolesmapping"] {
        let entries = configuration[kind].as_object().context("no roles")?;
        ensure!(!entries.is_empty(), "{configuration}");
        for (name, body) in entries {
            client
                .put(&format!("{SECURITY}/{kind}/{name}"), body)
                .await?;
        }
    }
    for person in &PEOPLE {
        let backend_roles = if person.has_backend_roles {
            person.groups
        } else {
            &[]
        };
        let body = json!({ "password": PASSWORD, "backend_roles": backend_roles });
        client
            .put(&format!("{SECURITY}/internalusers/{}", person.name), &body)
            .await?;
    }
    Ok(())
}

/// The index in which Dashboards has the saved objects of the global tenant.
async fn create_saved_objects(client: &OpenSearch) -> Result<()> {
    let aliases = json!({ "aliases": { ".kibana": {} } });
    client.put(".kibana_1", &aliases).await?;
    let path = ".kibana/_doc/dashboard:fleet?refresh=true";
    client
        .put(path, &json!({ "type": "dashboard" }))
        .await
        .map(drop)
}

/// A role lets read saved objects, and nothing else.
async fn check_saved_objects(client: &OpenSearch, has_role: bool) -> Result<()> {
    let found = client.send(Method::GET, ".kibana/_search", None).await?;
    let expected = if has_role { 200 } else { 403 };
    ensure!(found.status == expected, "{found:?}");
    let object = json!({ "type": "dashboard" });
    let path = ".kibana/_doc/dashboard:fleet";
    let written = client.send(Method::PUT, path, Some(&object)).await?;
    ensure!(written.status == 403, "{written:?}");
    Ok(())
}

/// Requests by which documents could be read past the query of a role.
async fn check_other_requests(
    server: &OpenSearchServer,
    prefix: &str,
    person: &Person,
    visible: &BTreeSet<String>,
) -> Result<()> {
    let client = server.client_of(person.name, PASSWORD)?;
    if person.cluster.is_some() {
        let over_all = client
            .send(Method::GET, &format!("{prefix}/_search"), None)
            .await?;
        ensure!(over_all.status == 403, "{over_all:?}");
    }
    // The index itself is no way around the alias.
    for cluster in ["member1", "member2"] {
        let direct = shown(&client, &format!("{prefix}-{cluster}.g1")).await?;
        ensure!(direct.is_subset(visible), "{}: {direct:?}", person.name);
    }
    let terms = |more: Value| {
        let mut terms = json!({ "field": "metadata.namespace", "size": 100 });
        terms
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "size": 0, "track_total_hits": true, "aggs": { "a": { "terms": terms } } })
    };
    let path = format!("{}/_search", person.alias(prefix));
    let counted = client.post(&path, &terms(json!({}))).await?;
    ensure!(
        counted["hits"]["total"]["value"] == visible.len(),
        "{counted}"
    );
    let zero = client
        .send(
            Method::POST,
            &path,
            Some(&terms(json!({ "min_doc_count": 0 }))),
        )
        .await?;
    ensure!(zero.status != 200, "{zero:?}");
    let source = json!({ "size": 1, "profile": true });
    let profiled = client.send(Method::POST, &path, Some(&source)).await?;
    ensure!(profiled.status != 200, "{profiled:?}");
    for path in [
        format!("{prefix}/_mapping"),
        format!("{prefix}/_settings"),
        format!("{prefix}/_stats"),
        format!("{prefix}-member1.g1/_doc/x"),
        format!("{prefix}.state/_search"),
        "_cat/indices".to_owned(),
    ] {
        let answer = client.send(Method::GET, &path, None).await?;
        ensure!(answer.status == 403, "{}: {path}: {answer:?}", person.name);
    }
    Ok(())
}

#[tokio::test]
async fn users_see_in_opensearch_what_the_query_api_lists() -> Tested {
    // Not shared: what another test creates between two questions would be in one of the answers
    // only.
    let fleet = Fleet::start(secured()).await?;
    prepare(&fleet).await?;
    let hub = Objects::of(fleet.control_plane())?;
    fill(&fleet).await?;
    grant_all(&hub).await?;
    make_service(&hub).await?;
    let port = format!("--api-service-port={API_PORT}");
    let operator = start_operator(&fleet, &["--api-service=search/fleetdex", &port]).await?;
    let registry = register(&fleet, &hub).await?;
    registry.until_ready().await?;
    let admin = fleet.control_plane().kubectl()?;
    until("the query API answers", || async {
        let list = raw(&admin, &format!("search/{CONFIG_MAPS}")).await?;
        ensure!(
            list["items"]
                .as_array()
                .is_some_and(|items| items.len() >= 4),
            "{list}"
        );
        Ok(())
    })
    .await?;
    configure(&fleet, &operator, &registry).await?;

    let server = fleet.opensearch()?;
    server.client()?.refresh(&registry.prefix).await?;
    create_saved_objects(&server.client()?).await?;
    let mut numbers = Vec::new();
    for person in &PEOPLE {
        let visible = listed(&admin, person).await?;
        let client = server.client_of(person.name, PASSWORD).unwrap();
        let alias = person.alias(&registry.prefix);
        let found = shown(&client, &alias).await?;
        assert_eq!(found, visible, "{}", person.name);
        check_saved_objects(&client, !visible.is_empty()).await?;
        numbers.push(visible.len());
        if !visible.is_empty() {
            check_other_requests(server, &registry.prefix, person, &visible).await?;
        }
    }
    // In each member: alice the config map and the Deployment of web; carol and dave the config
    // map of db.
    assert_eq!(numbers[0], 4, "alice");
    assert!(numbers[1] > 2, "bob");
    assert_eq!(numbers[2..6], [2, 2, 0, 0], "carol, dave, erin, frank");
    assert!(numbers[6] > numbers[1], "grace");
    server.client()?.delete(".kibana_1").await?;
    registry.delete().await?;
    registry.until_absent().await?;
    Ok(())
}
