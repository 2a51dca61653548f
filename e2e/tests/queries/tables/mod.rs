//! Tables, and the other representations, beside those of a real API server: the same columns and
//! cells for every kind that it serves.

#![allow(clippy::unwrap_used, reason = "a test")]

mod objects;
mod rows;

use std::{collections::BTreeSet, io::Read as _};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{ApiServer, Fleet, OpenSearchKind, Options},
    http,
    objects::Objects,
    operator::Operator,
    poll::eventually,
    scenario::{DEADLINE, prepare, start_operator, until},
    test_result::Tested,
};
use flate2::read::GzDecoder;
use fleetdex_core::kinds;
use reqwest::{Method, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::{Value, json};

use self::rows::{Resource, differences, table};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// One member, all kinds of which are registered.
struct Fixture {
    fleet: Fleet,
    operator: Operator,
}

/// A response.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| String::from_utf8_lossy(&self.body).into_owned())
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

impl Fixture {
    async fn start() -> Result<Self> {
        let fleet = Fleet::start(Options::of(1, OpenSearchKind::None)).await?;
        prepare(&fleet).await?;
        objects::create(&Objects::of(fleet.member(1))?).await?;
        let operator = start_operator(&fleet, &[]).await?;
        let registry = json!({
            "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "all" },
            "spec": { "resourceSelectors": [{ "apiVersion": "*", "kind": "*" }] },
        });
        let hub = Objects::of(fleet.control_plane())?;
        hub.apply(
            "apis/search.karmada.io/v1alpha1/resourceregistries/all",
            &registry,
        )
        .await?;
        Ok(Self { fleet, operator })
    }

    fn member(&self) -> &ApiServer {
        self.fleet.member(1)
    }

    /// A request to the query API for objects of the member.
    fn ours(&self, method: Method, native: &str) -> Result<RequestBuilder> {
        let url = format!(
            "http://{}/apis/search.fleetdex.io/v1alpha1/clusters/member1/{native}",
            self.operator.api_address()
        );
        http::install_tls_provider();
        let client = reqwest::Client::builder().no_proxy().no_gzip().build()?;
        Ok(client
            .request(method, url)
            .bearer_auth(self.operator.token()?))
    }

    /// The same request to the member itself.
    fn theirs(&self, native: &str) -> Result<RequestBuilder> {
        let url = format!("{}/{native}", self.member().url());
        Ok(http::client(Some(self.member().ca_pem()))?
            .get(url)
            .bearer_auth(self.member().token()))
    }
}

async fn send(request: RequestBuilder) -> Result<Answer> {
    let response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    Ok(Answer {
        status,
        headers,
        body: response.bytes().await?.to_vec(),
    })
}

/// Every kind of the table, in its preferred version, and the custom ones.
fn resources() -> Vec<Resource> {
    // Events of both groups are the same objects, and are read once, in the core group.
    let is_read = |entry: &&kinds::BuiltIn| entry.preferred && entry.group != "events.k8s.io";
    let built_in = kinds::all().iter().filter(is_read).map(|entry| Resource {
        kind: entry.gvk().to_string(),
        path: entry
            .resource()
            .path(&fleetdex_core::model::Scope::All)
            .trim_start_matches('/')
            .to_owned(),
    });
    let custom = ["widgets", "gadgets"].map(|plural| Resource {
        kind: plural.to_owned(),
        path: format!("apis/example.com/v1/{plural}"),
    });
    built_in.chain(custom).collect()
}

async fn compare(fixture: &Fixture, resource: &Resource) -> Result<()> {
    let theirs = send(fixture.theirs(&resource.path)?.header("Accept", TABLE)).await?;
    let ours = send(
        fixture
            .ours(Method::GET, &resource.path)?
            .header("Accept", TABLE),
    )
    .await?;
    ensure!(
        ours.status == StatusCode::OK,
        "{}: {}",
        ours.status,
        String::from_utf8_lossy(&ours.body)
    );
    let found = differences(&table(&theirs.json()?)?, &table(&ours.json()?)?);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

async fn every_kind_has_the_columns_and_cells_of_the_api_server(fixture: &Fixture) {
    let mut wrong = Vec::new();
    for resource in resources() {
        // New objects are indexed with a delay, and the server's own objects change.
        let patience = if wrong.is_empty() {
            DEADLINE
        } else {
            DEADLINE / 10
        };
        let compared = eventually(&resource.kind, patience, || compare(fixture, &resource)).await;
        if let Err(error) = compared {
            wrong.push(format!("{}:\n{error:#}", resource.kind));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

async fn rows_carry_the_requested_objects(fixture: &Fixture) {
    let path = "api/v1/namespaces/web/configmaps/settings";
    let object_of = async |parameter: &str| {
        let request = fixture
            .ours(Method::GET, &format!("{path}?includeObject={parameter}"))
            .unwrap()
            .header("Accept", TABLE);
        send(request).await.unwrap().json().unwrap()["rows"][0]["object"].clone()
    };
    assert_eq!(object_of("None").await, json!(null));
    assert_eq!(object_of("Metadata").await["kind"], "PartialObjectMetadata");
    assert_eq!(
        object_of("Object").await["data"],
        json!({ "a": "1", "b": "2" })
    );
}

async fn partial_metadata_matches_the_api_server(fixture: &Fixture) -> Tested {
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let path = "api/v1/namespaces/web/services";
    let mut theirs = send(fixture.theirs(path).unwrap().header("Accept", accept))
        .await?
        .json()
        .unwrap();
    let ours = send(
        fixture
            .ours(Method::GET, path)
            .unwrap()
            .header("Accept", accept),
    )
    .await?
    .json()
    .unwrap();
    assert_eq!(
        (&ours["kind"], &ours["apiVersion"]),
        (&theirs["kind"], &theirs["apiVersion"])
    );
    for item in theirs["items"].as_array_mut().unwrap() {
        let metadata = item["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        metadata.insert(
            "annotations".to_owned(),
            json!({ "resource.karmada.io/cached-from-cluster": "member1" }),
        );
    }
    assert_eq!(ours["items"], theirs["items"]);
    Ok(())
}

async fn yaml_equals_json(fixture: &Fixture) -> Tested {
    for path in [
        "api/v1/configmaps",
        "api/v1/pods",
        "apis/apps/v1/deployments",
        "apis/example.com/v1/widgets",
    ] {
        let mut json = send(fixture.ours(Method::GET, path).unwrap())
            .await?
            .json()
            .unwrap();
        let answer = send(
            fixture
                .ours(Method::GET, path)
                .unwrap()
                .header("Accept", "application/yaml"),
        )
        .await?;
        assert_eq!(answer.header("content-type"), "application/yaml");
        let mut yaml: Value = serde_saphyr::from_slice(&answer.body)?;
        // Objects of other kinds may change between the two requests.
        let [earlier, later] = [&mut json, &mut yaml].map(take_version);
        assert!(earlier <= later, "{path}: {earlier}, then {later}");
        assert_eq!(yaml, json, "{path}");
    }
    Ok(())
}

/// Removes the version of a list.
fn take_version(list: &mut Value) -> u64 {
    let version = list["metadata"]["resourceVersion"].take();
    version.as_str().unwrap().parse().unwrap()
}

async fn responses_have_etags_and_are_compressed(fixture: &Fixture) -> Tested {
    let path = "apis/rbac.authorization.k8s.io/v1/clusterroles";
    let ours = async |method: Method, header: (&'static str, &str)| {
        let request = fixture.ours(method, path)?.header(header.0, header.1);
        send(request).await
    };
    let identity = ("Accept-Encoding", "identity");
    // The tag covers the version of the list, and objects of other kinds may change at any time.
    until("nothing changes meanwhile", || async {
        let first = ours(Method::GET, identity).await?;
        let tag = first.header("etag");
        let again = ours(Method::GET, ("If-None-Match", tag)).await?;
        let head = ours(Method::HEAD, identity).await?;
        let last = ours(Method::GET, identity).await?;
        ensure!(last.header("etag") == tag, "an object has changed");
        assert!(tag.starts_with("W/"), "{tag}");
        assert_eq!(
            (again.status, again.body.len()),
            (StatusCode::NOT_MODIFIED, 0)
        );
        assert_eq!(
            (head.status, head.body.len(), head.header("etag")),
            (StatusCode::OK, 0, tag)
        );
        Ok(())
    })
    .await?;
    // Larger than the threshold of compression; the client does not decompress.
    let large = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "large" }, "data": { "text": "large ".repeat(30_000) },
    });
    let member = Objects::of(fixture.member())?;
    member
        .create("api/v1/namespaces/default/configmaps", &large)
        .await?;
    let path = "api/v1/namespaces/default/configmaps?names=large";
    let whole = until("the large object is found", || async {
        let body = send(fixture.ours(Method::GET, path)?).await?.body;
        ensure!(body.len() > 128 * 1024, "{} bytes", body.len());
        Ok(body)
    })
    .await?;
    let packed = send(
        fixture
            .ours(Method::GET, path)
            .unwrap()
            .header("Accept-Encoding", "gzip"),
    )
    .await?;
    assert_eq!(packed.header("content-encoding"), "gzip");
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed.body[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    let [whole, unpacked] = [whole, unpacked].map(|body| {
        let mut list: Value = serde_json::from_slice(&body).unwrap();
        take_version(&mut list);
        list
    });
    assert_eq!(unpacked, whole);
    Ok(())
}

async fn unavailable_representations_are_refused(fixture: &Fixture) -> Tested {
    let refused = fixture
        .ours(Method::GET, "api/v1/pods")
        .unwrap()
        .header("Accept", "application/vnd.kubernetes.protobuf");
    let status = send(refused).await?;
    assert_eq!(
        (status.status, &status.json().unwrap()["reason"]),
        (StatusCode::NOT_ACCEPTABLE, &json!("NotAcceptable"))
    );
    Ok(())
}

#[tokio::test]
async fn representations_match_an_api_server() -> Tested {
    let fixture = Fixture::start().await?;
    every_kind_has_the_columns_and_cells_of_the_api_server(&fixture).await;
    rows_carry_the_requested_objects(&fixture).await;
    partial_metadata_matches_the_api_server(&fixture).await?;
    yaml_equals_json(&fixture).await?;
    responses_have_etags_and_are_compressed(&fixture).await?;
    unavailable_representations_are_refused(&fixture).await
}

#[test]
fn every_kind_has_at_least_one_object_or_a_reason_why_not() {
    let created: BTreeSet<String> = objects::all()
        .unwrap()
        .iter()
        .map(|object| object["kind"].as_str().unwrap().to_owned())
        .collect();
    // The first two exist in every cluster; a certificate request is created with a generated key.
    let others = [
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CertificateSigningRequest",
    ];
    for entry in kinds::all() {
        assert!(
            created.contains(entry.kind) || others.contains(&entry.kind),
            "{}",
            entry.gvk()
        );
    }
}
