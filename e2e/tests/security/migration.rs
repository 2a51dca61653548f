//! `fleetdex migrate karmada-search` on a real control plane, there and back.
//!
//! The registries are those of a simulated API server, or of a real karmada-search:
//! `make migration-test`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::ensure;
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, Registration},
    karmada::{Karmada, NAMESPACE, REGISTRIES, SearchBackend, install_customizations},
    objects::Objects,
    opensearch::OpenSearch,
    scenario::{SECRETS, secret_path, start_operator, until},
    test_result::Tested,
};
use fleetdex_crds::validation::invalid_fields;
use reqwest::Method;
use serde_json::{Value, json};

use crate::helm::tool::{Printed, fleetdex};

const API_SERVICE: &str = "apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.search.karmada.io";
const API_SERVICES: &str = "apis/apiregistration.k8s.io/v1/apiservices";
const CRDS: &str = "apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str =
    "apis/apiextensions.k8s.io/v1/customresourcedefinitions/resourceregistries.search.karmada.io";
const MIGRATE: [&str; 2] = ["migrate", "karmada-search"];
const HOSTS: &str = "fleetdex.io/allowed-hosts";

struct KarmadaStage {
    fleet: Fleet,
    hub: Objects,
    opensearch: OpenSearch,
    karmada: Karmada,
}

impl KarmadaStage {
    /// A Karmada control plane with one cluster and three registries.
    async fn start(backend: SearchBackend) -> Self {
        let fleet = Fleet::start(Options::of(1, OpenSearchKind::Plain))
            .await
            .unwrap();
        let hub = Objects::of(fleet.control_plane()).unwrap();
        install_customizations(&hub).await.unwrap();
        let karmada = Karmada::start(&fleet, backend).await.unwrap();
        let opensearch = fleet.opensearch().unwrap().client().unwrap();
        let stage = Self {
            fleet,
            hub,
            opensearch,
            karmada,
        };
        stage.fill().await;
        stage
    }

    async fn fill(&self) {
        let member = Objects::of(self.fleet.member(1)).unwrap();
        for namespace in ["web", "db"] {
            member.create_namespace(namespace).await.unwrap();
            let data = json!({ "a": "b" });
            member
                .apply_config_map(namespace, "settings", &data)
                .await
                .unwrap();
        }
        self.hub.create_namespace(SECRETS).await.unwrap();
        let registration = self.registration();
        self.hub
            .apply(&secret_path("member1"), &registration.secret)
            .await
            .unwrap();
        let clusters = "apis/cluster.karmada.io/v1alpha1/clusters";
        self.hub
            .create(clusters, &registration.cluster)
            .await
            .unwrap();
        self.hub.apply(&login(), &login_secret(None)).await.unwrap();
        for (name, spec) in self.specs() {
            self.create(name, &spec).await;
        }
        // What karmada-search has written.
        let document = json!({ "kind": "ConfigMap" });
        self.opensearch
            .put("kubernetes-configmap/_doc/1?refresh=true", &document)
            .await
            .unwrap();
    }

    /// As `karmadactl join` writes it: without the hosts that the Secret may be sent to.
    fn registration(&self) -> Registration {
        let member = self.fleet.member(1);
        let mut registration = Registration::new(member, "member1", SECRETS);
        registration.secret["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        registration.cluster["status"] = json!({ "apiEnablements": [
            { "groupVersion": "v1", "resources": [{ "name": "configmaps", "kind": "ConfigMap" }, { "name": "namespaces", "kind": "Namespace" }] },
        ] });
        registration
    }

    fn specs(&self) -> [(&'static str, Value); 3] {
        let url = self.fleet.opensearch().unwrap().url().to_owned();
        let all = json!({ "clusterNames": ["member1", "gone"] });
        [
            (
                "namespaced",
                json!({ "targetCluster": all, "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "web" }] }),
            ),
            (
                "stored",
                json!({ "targetCluster": {}, "resourceSelectors": [{ "apiVersion": "v1", "kind": "Namespace" }, { "apiVersion": "apps/v1", "kind": "Deployment" }],
                    "backendStore": { "openSearch": { "addresses": [url], "secretRef": { "namespace": NAMESPACE, "name": "login" } } } }),
            ),
            (
                "empty",
                json!({ "targetCluster": {}, "resourceSelectors": [] }),
            ),
        ]
    }

    async fn create(&self, name: &str, spec: &Value) {
        self.hub
            .create(REGISTRIES, &registry(name, spec))
            .await
            .unwrap();
    }

    /// Everything that a migration could touch.
    async fn objects(&self) -> Value {
        let mut all = BTreeMap::new();
        for path in [
            API_SERVICES,
            CRDS,
            REGISTRIES,
            &format!("api/v1/namespaces/{NAMESPACE}/services"),
            &format!("api/v1/namespaces/{NAMESPACE}/secrets"),
            &format!("api/v1/namespaces/{SECRETS}/secrets"),
        ] {
            let found = self.hub.find(path).await.unwrap().unwrap_or_default();
            let items = found["items"].as_array().cloned().unwrap_or_default();
            let items = items.into_iter().map(|mut item| {
                item["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("resourceVersion");
                item["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("managedFields");
                item.as_object_mut().unwrap().remove("status");
                item
            });
            all.insert(path.to_owned(), items.collect::<Vec<Value>>());
        }
        serde_json::to_value(all).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.fleet.dir().join(name);
        let _ = fs::remove_file(&path);
        path
    }

    async fn migrate(&self, arguments: &[&str]) -> Printed {
        let kubeconfig = self.fleet.control_plane().kubeconfig();
        fleetdex(&kubeconfig, &[&MIGRATE[..], arguments].concat()).await
    }

    /// Succeeds, and prints these texts.
    async fn succeeds(&self, arguments: &[&str], texts: &[&str]) -> String {
        let printed = self.migrate(arguments).await;
        assert!(printed.success, "{arguments:?}: {}", printed.text);
        contains(&printed.text, texts);
        printed.text
    }

    /// Fails with these texts, and changes nothing.
    async fn is_refused(&self, arguments: &[&str], texts: &[&str]) {
        let before = self.objects().await;
        let printed = self.migrate(arguments).await;
        assert!(!printed.success, "{arguments:?}: {}", printed.text);
        contains(&printed.text, texts);
        assert_eq!(self.objects().await, before, "{}", printed.text);
    }

    /// The registries are Fleetdex's, and as karmada-search had them.
    async fn is_migrated(&self) -> Tested {
        assert!(self.hub.find(CRD).await?.is_some());
        let service = self.hub.find(API_SERVICE).await?.unwrap_or_default();
        assert!(service["spec"]["service"].is_null(), "{service}");
        for (name, spec) in self.specs() {
            let stored = self.hub.get(&format!("{REGISTRIES}/{name}")).await?;
            assert_eq!(
                stored["spec"]["resourceSelectors"],
                spec["resourceSelectors"]
            );
            assert_eq!(
                stored["spec"]["backendStore"]["openSearch"]["secretRef"],
                spec["backendStore"]["openSearch"]["secretRef"]
            );
        }
        Ok(())
    }

    /// The registries are those of karmada-search, as they were.
    async fn is_karmadas(&self, before: &Value) -> Tested {
        assert!(self.hub.find(CRD).await?.is_none());
        let service = self.hub.get(API_SERVICE).await?;
        assert_eq!(service["spec"]["service"]["name"], "karmada-search");
        assert_eq!(service["metadata"]["labels"]["app"], "karmada-search");
        let found = self.hub.get(REGISTRIES).await?;
        let uids = |items: &Value| -> Vec<Value> {
            let items = items.as_array().unwrap().iter();
            items.map(|item| item["metadata"]["uid"].clone()).collect()
        };
        // They have never left its storage.
        assert_eq!(uids(&found["items"]), uids(&before[REGISTRIES]));
        Ok(())
    }

    /// Creates each of these specs without storing it, and compares with what the checks of a
    /// migration say.
    async fn rules_are_those_of_the_crd(&self) -> Tested {
        let with_selector = |selector: Value| json!({ "resourceSelectors": [selector] });
        let with_address = |address: &str| json!({ "resourceSelectors": [], "backendStore": { "openSearch": { "addresses": [address] } } });
        let with_field = |key: &str, operator: &str, values: Value| {
            json!({ "resourceSelectors": [], "targetCluster": { "fieldSelector": { "matchExpressions": [
                { "key": key, "operator": operator, "values": values }] } } })
        };
        let with_label = |operator: &str, values: Value| {
            json!({ "resourceSelectors": [], "targetCluster": { "labelSelector": { "matchExpressions": [
                { "key": "a", "operator": operator, "values": values }] } } })
        };
        let long = "a".repeat(64);
        let mut specs = vec![
            with_selector(json!({ "apiVersion": "*", "kind": "*" })),
            with_selector(json!({ "apiVersion": "*", "kind": "Pod" })),
            with_selector(json!({ "kind": "*" })),
            with_field("zone", "In", json!(["a"])),
            with_field("zone", "In", json!([])),
            with_field("zone", "Exists", json!([])),
            with_field("country", "In", json!(["a"])),
            with_label("In", json!(["a"])),
            with_label("In", json!([])),
            with_label("Exists", json!(["a"])),
            with_label("Gt", json!(["1"])),
            with_label("In", json!([long])),
            json!({ "resourceSelectors": vec![json!({ "apiVersion": "v1", "kind": "Pod" }); 129] }),
        ];
        for version in [
            "v1",
            "apps/v1",
            "Apps/v1",
            "apps/v1/x",
            "/v1",
            "apps/",
            "-v1",
            "",
        ] {
            specs.push(with_selector(
                json!({ "apiVersion": version, "kind": "Pod" }),
            ));
        }
        for kind in ["Pod", "pod-x", "1Pod", "Po d", ""] {
            specs.push(with_selector(json!({ "apiVersion": "v1", "kind": kind })));
        }
        for namespace in ["", "web", "Web", "web-", "a.b", &long] {
            let selector = json!({ "apiVersion": "v1", "kind": "Pod", "namespace": namespace });
            specs.push(with_selector(selector));
        }
        for address in [
            "https://a:9200",
            "HTTP://a",
            "http://[::1]:9200/",
            "a:9200",
            "ftp://a",
            "http://",
            "http://:9200",
            "https://u:p@a",
            "http://a?b",
            "http://a#b",
            "http://a b",
        ] {
            specs.push(with_address(address));
        }
        for spec in specs {
            let problems = invalid_fields(&serde_json::from_value(spec.clone()).unwrap());
            let path = format!("{REGISTRIES}?dryRun=All");
            let object = registry("rules", &spec);
            let (status, answer) = self
                .hub
                .send(Method::POST, &path, "application/json", Some(&object))
                .await?;
            assert_eq!(
                status.is_success(),
                problems.is_empty(),
                "{spec}: {problems:?}, {answer}"
            );
        }
        Ok(())
    }
}

fn registry(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": name }, "spec": spec })
}

/// The path of the Secret of the store.
fn login() -> String {
    format!("api/v1/namespaces/{NAMESPACE}/secrets/login")
}

fn login_secret(hosts: Option<&str>) -> Value {
    let annotations = hosts.map(|hosts| json!({ HOSTS: hosts }));
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login", "annotations": annotations },
        "stringData": { "username": "fleet", "password": "secret" } })
}

fn contains(printed: &str, texts: &[&str]) {
    for text in texts {
        assert!(printed.contains(text), "{text} is not in:\n{printed}");
    }
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

/// Before anything is moved: dry runs and refusals.
async fn check_before(stage: &mut KarmadaStage, before: &Value) -> Tested {
    stage
        .succeeds(
            &[],
            &[
                "3 registries, behind Service karmada-system/karmada-search",
                "only namespace web is indexed",
                "no cluster has the name gone",
                "Deployment (apps/v1): not served by member1",
                "resourceSelectors is empty",
                "kubectl -n karmada-system annotate secret login",
                "kubectl -n fleet-secrets annotate secret member1",
                "Karmada serves Cluster",
                "APIService v1alpha1.search.fleetdex.io is not there",
                "Dry run: nothing was changed",
            ],
        )
        .await;
    let hosts = ["--allow-secret-hosts", "*/*=127.0.0.1"];
    let printed = stage
        .succeeds(&hosts, &["kubernetes-configmap (documents: 1)"])
        .await;
    assert!(!printed.contains("annotate secret"), "{printed}");
    let printed = stage.succeeds(&["-o", "json"], &[]).await;
    let report: Value = serde_json::from_str(&printed)?;
    assert_eq!(
        (&report["kind"], &report["status"]),
        (&json!("Migration"), &json!("Warning"))
    );
    assert_eq!(&stage.objects().await, before);

    stage.is_refused(&["--apply"], &["--export"]).await;
    let other = stage.file("other.json");
    fs::write(&other, "{}")?;
    let export = ["--export", text(&other), "--apply"];
    stage
        .is_refused(&export, &["is no export of", "name a new file"])
        .await;
    let spec = json!({ "targetCluster": { "fieldSelector": { "matchExpressions": [{ "key": "zone", "operator": "Exists" }] } }, "resourceSelectors": [] });
    stage.create("invalid", &spec).await;
    let file = stage.file("refused.json");
    let export = ["--export", text(&file), "--apply"];
    let texts = [
        "registry invalid",
        "operator must be In or NotIn",
        "nothing was changed",
    ];
    stage.is_refused(&export, &texts).await;
    stage.hub.delete(&format!("{REGISTRIES}/invalid")).await?;
    assert!(!file.exists());

    let alice = stage
        .fleet
        .control_plane()
        .kubeconfig()
        .with_extension("alice");
    fs::write(&alice, stage.fleet.control_plane().kubeconfig_of("alice")?)?;
    let printed = fleetdex(&alice, &MIGRATE).await;
    assert!(!printed.success);
    contains(
        &printed.text,
        &["cannot get APIService", "use an account that may do this"],
    );

    stage.karmada.stop_search().await?;
    let texts = [
        "cannot list resourceregistries",
        "start karmada-search behind Service karmada-system/karmada-search",
    ];
    let printed = stage.migrate(&export).await;
    assert!(!printed.success && !file.exists(), "{}", printed.text);
    contains(&printed.text, &texts);
    stage.karmada.start_search().await?;
    Ok(())
}

/// Fleetdex indexes what was moved.
async fn check_operator(stage: &KarmadaStage) -> Tested<e2e::operator::Operator> {
    let url = stage.fleet.opensearch()?.url().to_owned();
    let host = url.trim_start_matches("http://").split(':').next().unwrap();
    stage.hub.apply(&login(), &login_secret(Some(host))).await?;
    let annotation = json!({ "metadata": { "annotations": { HOSTS: "127.0.0.1" } } });
    stage
        .hub
        .merge(&secret_path("member1"), &annotation)
        .await?;
    let operator = start_operator(&stage.fleet, &[]).await?;
    until("the registries are Ready", || async {
        for name in ["namespaced", "stored"] {
            let registry = stage.hub.get(&format!("{REGISTRIES}/{name}")).await?;
            let conditions = registry["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let stored = conditions
                .any(|found| found["type"] == "StoreReachable" && found["status"] == "True");
            let clusters = registry["status"]["clusters"].as_array();
            let has_objects = clusters.into_iter().flatten().any(|cluster| {
                cluster["name"] == "member1" && cluster["objects"].as_u64() > Some(0)
            });
            ensure!(stored && has_objects, "{name}: {}", registry["status"]);
        }
        Ok(())
    })
    .await?;
    let maps = e2e::query_api::list_with_warnings(&operator, "api/v1/configmaps").await?;
    let found: Vec<String> = e2e::query_api::names_of(&maps.0)?;
    assert_eq!(found, ["member1/web/settings"]);
    Ok(operator)
}

async fn there_and_back(backend: SearchBackend) -> Tested {
    let mut stage = KarmadaStage::start(backend).await;
    let before = stage.objects().await;
    check_before(&mut stage, &before).await?;

    let file = stage.file("export.json");
    let forward = ["--export", text(&file), "--apply"];
    let back = ["--rollback", text(&file), "--apply"];
    let done = [
        "remove the APIService",
        "created",
        "3 registries are stored as exported",
    ];
    stage.succeeds(&forward, &done).await;
    stage.is_migrated().await?;
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let migrated = stage.objects().await;
    stage.succeeds(&forward, &["Nothing to do"]).await;
    stage.succeeds(&[], &["Nothing to do"]).await;
    assert_eq!(stage.objects().await, migrated);
    stage.rules_are_those_of_the_crd().await?;

    let operator = check_operator(&stage).await?;
    let spec = json!({ "resourceSelectors": [{ "apiVersion": "v1", "kind": "Namespace" }] });
    stage.create("later", &spec).await;
    // The operator writes its finalizer, which must not happen between two comparisons.
    until("Fleetdex has taken the registry", || async {
        let later = stage.hub.get(&format!("{REGISTRIES}/later")).await?;
        ensure!(later["metadata"]["finalizers"].is_array(), "{later}");
        Ok(())
    })
    .await?;
    stage
        .is_refused(
            &back,
            &["changed since", "later", "name a new file with --export"],
        )
        .await;
    let saved = stage.file("later.json");
    let saving = [
        "--rollback",
        text(&file),
        "--export",
        text(&saved),
        "--apply",
    ];
    stage
        .succeeds(
            &saving,
            &["delete the CRD", "karmada-search serves its registries"],
        )
        .await;
    stage.is_karmadas(&before).await?;
    let saved: Value = serde_json::from_slice(&fs::read(&saved).unwrap())?;
    assert_eq!(saved["items"][0]["metadata"]["name"], "later");
    assert_eq!(saved["items"].as_array().unwrap().len(), 1, "{saved}");
    stage.succeeds(&back, &["Nothing to do"]).await;
    drop(operator);

    // Interrupted after each step, by what each step leaves.
    stage.hub.delete(API_SERVICE).await?;
    stage
        .succeeds(
            &forward[..2],
            &["Dry run: 3 registries of the export are not there yet"],
        )
        .await;
    stage
        .succeeds(&forward, &["3 registries are stored as exported"])
        .await;
    stage.is_migrated().await?;
    stage.hub.delete(&format!("{REGISTRIES}/stored")).await?;
    stage
        .succeeds(&forward, &["stored created", "empty is there"])
        .await;
    stage.is_migrated().await?;
    changed_registries_are_an_error(&stage, &forward).await?;
    stage.hub.delete(CRD).await?;
    stage.succeeds(&back, &["create the APIService"]).await;
    stage.is_karmadas(&before).await
}

/// What was there before is left as it is, and does not pass for what was exported.
async fn changed_registries_are_an_error(stage: &KarmadaStage, forward: &[&str]) -> Tested {
    let path = format!("{REGISTRIES}/namespaced");
    let selector = |namespace: &str| json!({ "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace }] } });
    stage.hub.merge(&path, &selector("db")).await?;
    let texts = [
        "compare: Error: registry namespaced is not as in the export: spec.resourceSelectors[0].namespace",
        "kubectl edit resourceregistry namespaced",
        "not all are as in the export",
    ];
    stage.is_refused(forward, &texts).await;
    let printed = stage.migrate(&[forward, &["-o", "json"]].concat()).await;
    let report: Value = serde_json::from_str(&printed.text)?;
    assert_eq!(
        (printed.success, &report["status"]),
        (false, &json!("Error")),
        "{report}"
    );
    stage.hub.merge(&path, &selector("web")).await?;
    stage.succeeds(forward, &["Nothing to do"]).await;
    Ok(())
}

#[tokio::test]
async fn karmada_search_is_migrated_and_given_back() -> Tested {
    there_and_back(SearchBackend::Simulated).await
}

#[tokio::test]
#[ignore = "make migration-test runs it: karmada-search takes five minutes to build"]
async fn a_real_karmada_search_is_migrated_and_given_back() -> Tested {
    there_and_back(SearchBackend::Real).await
}
