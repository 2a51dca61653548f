use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, service_fn};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Path, status, tag and body of a response.
type Row = (&'static str, u16, &'static str, &'static str);

/// A member with a table of responses. All other paths are 404.
fn member(table: &[Row]) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (notes, table) = (asked.clone(), table.to_vec());
    let service = service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let (_, code, tag, body) = table
            .iter()
            .find(|row| row.0 == path)
            .copied()
            .unwrap_or(("", 404, "", "not here"));
        let known = request
            .headers()
            .get(IF_NONE_MATCH)
            .is_some_and(|known| known == tag);
        notes.lock().push(if known {
            format!("unchanged {path}")
        } else {
            path.clone()
        });
        let mut response = Response::new(Body::from(if known { Vec::new() } else { body.into() }));
        *response.status_mut() = StatusCode::from_u16(if known { 304 } else { code }).unwrap();
        if !tag.is_empty() {
            response
                .headers_mut()
                .insert(ETAG, HeaderValue::from_static(tag));
        }
        async move { Ok::<_, BoxError>(response) }
    });
    (Client::new(service, "default"), asked)
}

const API: &str = include_str!("../testdata/aggregated_api.json");
const APIS: &str = include_str!("../testdata/aggregated_apis.json");

const CLASSIC_API: Row = (
    "/api",
    200,
    "",
    include_str!("../testdata/classic_api.json"),
);
const CLASSIC_APIS: Row = (
    "/apis",
    200,
    "",
    include_str!("../testdata/classic_apis.json"),
);

async fn discovered(client: &Client) -> Result<Arc<Discovery>, RequestError> {
    DiscoveryCache::default().refresh(client, TIMEOUT).await
}

#[tokio::test]
async fn checklist_46_a_member_with_our_pod_is_our_own_cluster() {
    const PATH: &str = "/api/v1/namespaces/fleet/pods/fleetdex-0";
    let pod = OwnPod {
        namespace: "fleet".into(),
        name: "fleetdex-0".into(),
        uid: "u1".into(),
    };
    for (code, body, expected) in [
        (200, r#"{ "metadata": { "uid": "u1" } }"#, Some(true)),
        (200, r#"{ "metadata": { "uid": "u2" } }"#, Some(false)),
        (404, "", Some(false)),
        // Cannot happen in Cluster API, whose accounts have all rights.
        (403, "", Some(false)),
        (500, "", None),
    ] {
        let (client, asked) = member(&[(PATH, code, "", body)]);
        assert_eq!(
            is_own(&client, Some(&pod), TIMEOUT).await.ok(),
            expected,
            "{code} {body}"
        );
        assert!(!is_own(&client, None, TIMEOUT).await.unwrap());
        assert_eq!(asked.lock().len(), 1);
    }
}

#[tokio::test]
async fn a_uid_is_limited_in_length_and_characters() {
    const PATH: &str = "/api/v1/namespaces/kube-system";
    let asked = async |uid: &str| {
        let body = serde_json::json!({ "metadata": { "uid": uid } }).to_string();
        let (client, _) = member(&[(PATH, 200, "", Box::leak(body.into_boxed_str()))]);
        cluster_uid(&client, TIMEOUT).await
    };
    for good in ["2e8bbd4b-0000-4000-8000-0123456789ab", "A", &"a".repeat(64)] {
        assert_eq!(asked(good).await.unwrap().as_deref(), Some(good));
    }
    for bad in [
        "",
        "a b",
        "a/b",
        "a\n",
        "é",
        &"a".repeat(65),
        &"a".repeat(1 << 20),
    ] {
        let error = asked(bad).await.unwrap_err();
        assert!(
            error.reason() == "NotKubernetes" && error.to_string().len() < 300,
            "{error}"
        );
    }
}

#[tokio::test]
async fn unchanged_discovery_is_shared_and_costs_two_requests() {
    let (client, asked) = member(&[("/api", 200, "\"a\"", API), ("/apis", 200, "\"b\"", APIS)]);
    let mut cache = DiscoveryCache::default();
    let first = cache.refresh(&client, TIMEOUT).await.unwrap();
    let second = cache.refresh(&client, TIMEOUT).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(first.served.len(), 9);
    let mut asked = asked.lock().clone();
    asked.sort();
    assert_eq!(
        asked,
        ["/api", "/apis", "unchanged /api", "unchanged /apis"]
    );
}

#[tokio::test]
async fn a_group_that_fails_keeps_its_kinds() {
    let whole = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"metrics.k8s.io"},"versions":[
            {"version":"v1beta1","freshness":"Current","resources":[{"resource":"nodes","responseKind":{"kind":"NodeMetrics"},
             "scope":"Cluster","verbs":["get","list"]}]}]}]}"#;
    let mut cache = DiscoveryCache::default();
    let before = member(&[("/api", 200, "\"a\"", API), ("/apis", 200, "\"b\"", whole)]).0;
    let after = member(&[("/api", 200, "\"a\"", API), ("/apis", 200, "\"c\"", APIS)]).0;
    let first = cache.refresh(&before, TIMEOUT).await.unwrap();
    let second = cache.refresh(&after, TIMEOUT).await.unwrap();
    assert!(second.unknown.iter().eq(["metrics.k8s.io/v1beta1"]));
    assert_eq!(second.served.last(), first.served.last());
}

#[tokio::test]
async fn a_missing_groups_path_is_an_error_if_there_were_groups_before() {
    let mut cache = DiscoveryCache::default();
    cache
        .refresh(
            &member(&[("/api", 200, "", API), ("/apis", 200, "", APIS)]).0,
            TIMEOUT,
        )
        .await
        .unwrap();
    assert!(
        cache
            .refresh(&member(&[("/api", 200, "", API)]).0, TIMEOUT)
            .await
            .is_err()
    );
    assert!(
        DiscoveryCache::default()
            .refresh(&member(&[("/api", 200, "", API)]).0, TIMEOUT)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_group_that_fails_after_a_reconnect_keeps_its_kinds() {
    let client = member(&[("/api", 200, "", API), ("/apis", 200, "", APIS)]).0;
    let mut silent = discovered(&client).await.unwrap().as_ref().clone();
    silent.served.push(discovery::ServedResource {
        resource: fleetdex_core::model::Resource {
            gvk: fleetdex_core::model::Gvk::new("metrics.k8s.io", "v1beta1", "NodeMetrics"),
            plural: "nodes".into(),
            namespaced: false,
        },
        ..silent.served[0].clone()
    });
    let before = Arc::new(silent);
    let after = DiscoveryCache::after(Some(Arc::clone(&before)))
        .refresh(&client, TIMEOUT)
        .await
        .unwrap();
    assert!(Arc::ptr_eq(&before, &after));
}

#[tokio::test]
async fn equal_discovery_without_entity_tags_is_shared() {
    let (client, _) = member(&[("/api", 200, "", API), ("/apis", 200, "", APIS)]);
    let mut cache = DiscoveryCache::default();
    let first = cache.refresh(&client, TIMEOUT).await.unwrap();
    assert!(Arc::ptr_eq(
        &first,
        &cache.refresh(&client, TIMEOUT).await.unwrap()
    ));
}

#[tokio::test]
async fn a_member_without_aggregated_discovery_is_read_group_by_group() {
    let (client, asked) = member(&[
        CLASSIC_API,
        CLASSIC_APIS,
        (
            "/api/v1",
            200,
            "",
            include_str!("../testdata/classic_v1.json"),
        ),
        (
            "/apis/autoscaling/v2",
            200,
            "",
            include_str!("../testdata/classic_autoscaling_v2.json"),
        ),
        ("/apis/autoscaling/v1", 503, "", "service unavailable"),
    ]);
    let found = discovered(&client).await.unwrap();
    let plurals: Vec<&str> = found
        .served
        .iter()
        .map(|served| &*served.resource.plural)
        .collect();
    assert_eq!(
        plurals,
        [
            "bindings",
            "componentstatuses",
            "namespaces",
            "pods",
            "horizontalpodautoscalers"
        ]
    );
    assert!(
        found
            .unknown
            .iter()
            .eq(["autoscaling/v1", "metrics.k8s.io/v1beta1"])
    );
    assert!(!asked.lock().contains(&"/api/v1/pods/status".to_owned()));
}

#[tokio::test]
async fn a_member_whose_groups_all_fail_has_no_discovery() {
    let (client, _) = member(&[CLASSIC_API, CLASSIC_APIS]);
    assert!(discovered(&client).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_no_api_server_is_reported() {
    let (client, _) = member(&[("/api", 200, "", "<html>"), ("/apis", 200, "", "<html>")]);
    let error = discovered(&client).await.unwrap_err();
    assert_eq!(error.reason(), "NotKubernetes");
}

#[tokio::test]
async fn an_old_server_is_ready_by_healthz() {
    assert!(
        ready(&member(&[("/healthz", 200, "", "ok")]).0, TIMEOUT)
            .await
            .is_ok()
    );
    assert!(
        ready(
            &member(&[("/readyz", 500, "", "no"), ("/healthz", 200, "", "ok")]).0,
            TIMEOUT
        )
        .await
        .is_err()
    );
}

#[tokio::test]
async fn an_error_quotes_the_message_of_the_status() {
    let status = r#"{"kind":"Status","message":"pods is forbidden","code":403}"#;
    let error = ready(&member(&[("/readyz", 403, "", status)]).0, TIMEOUT)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "GET /readyz was answered 403 Forbidden: pods is forbidden"
    );
    assert_eq!(error.reason(), "Forbidden");
}
