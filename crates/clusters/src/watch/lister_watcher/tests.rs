use fleetdex_core::model::Gvk;
use fleetdex_limits::intake::{Budget, MemoryLimits};

use super::*;

const LIMITS: MemoryLimits = MemoryLimits {
    page: 256 << 10,
    line: 128 << 10,
    answer: 64 << 10,
    refusal: 1_000,
    small: 0,
    request: 0,
    share: 1 << 20,
    shared: 2 << 20,
};

/// A member with a number of objects of one size, which respects the requested limit.
fn source(
    budget: &Budget,
    objects: usize,
    size: usize,
) -> (ListerWatcher, Arc<parking_lot::Mutex<Vec<String>>>) {
    let asked: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
    let (notes, intake) = (Arc::clone(&asked), budget.share("a"));
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let limit = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("limit=")?.parse().ok());
        notes.lock().push(query);
        let item = format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"1"}},"spec":"{}"}}"#,
            "x".repeat(size)
        );
        let items = vec![item; objects.min(limit.unwrap_or(objects))].join(",");
        let mut response = Response::new(Body::from(
            format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#).into_bytes(),
        ));
        response.extensions_mut().insert(intake.clone());
        async move { Ok::<_, tower::BoxError>(response) }
    });
    let resource = Resource {
        gvk: Gvk::new("", "v1", "Pod"),
        plural: "pods".into(),
        namespaced: true,
    };
    let collection = Collection {
        resource,
        scope: Scope::All,
        label_selector: None,
        field_selector: None,
    };
    (
        ListerWatcher::new(kube::Client::new(service, "default"), collection),
        asked,
    )
}

#[tokio::test]
async fn a_page_that_is_too_large_is_requested_with_fewer_objects_and_grows_again() {
    let budget = Budget::new(LIMITS);
    let (source, asked) = source(&budget, 500, 2_000);
    let body = source.list(None, Some(500)).await.unwrap();
    assert_eq!(ListPage::parse(&body).unwrap().items.len(), 125);
    assert_eq!(*asked.lock(), ["limit=500", "limit=125"]);
    drop(body);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn a_single_object_that_is_too_large_is_an_error() {
    let budget = Budget::new(LIMITS);
    let (source, asked) = source(&budget, 500, 300 << 10);
    let fault = source.list(None, Some(500)).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::TooLarge);
    assert_eq!(
        fault.message,
        "a page of one object of pods was not read: it is longer than 262144 bytes"
    );
    assert_eq!(asked.lock().len(), 5);
    assert_eq!(
        source.list(None, None).await.unwrap_err().kind,
        FaultKind::TooLarge
    );
    assert_eq!(budget.held(), 0);
}

#[test]
fn selectors_are_encoded_into_the_request() {
    let collection = Collection {
        resource: Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        },
        scope: Scope::Namespace("web".parse().unwrap()),
        label_selector: Some("app in (a,b)".to_owned()),
        field_selector: None,
    };
    assert_eq!(
        collection.uri(&[("limit", "5".to_owned())]),
        "/api/v1/namespaces/web/pods?limit=5&labelSelector=app%20in%20%28a%2Cb%29"
    );
}
