use std::{convert::Infallible, sync::Arc};

use fleetdex_distribution::template_name::NameParts;
use fleetdex_limits::{computing::ComputingTurns, intake::Budget};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::auth::token_file::TokenVerifier;

/// A control plane with bindings of so many clusters, and what it was asked.
struct Bindings {
    bindings: Vec<Value>,
    asked: Mutex<Vec<String>>,
}

impl Bindings {
    fn of(clusters: &[usize]) -> Arc<Self> {
        let bindings = clusters.iter().enumerate().map(|(number, &count)| {
            let clusters = (0..count).map(|number| json!({"name": format!("member{number}")}));
            let name = format!("web{number}");
            json!({
                "metadata": {"name": format!("{name}-configmap"), "namespace": "shop"},
                "spec": {
                    "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": name},
                    "clusters": clusters.collect::<Vec<_>>(),
                },
            })
        });
        Arc::new(Self {
            bindings: bindings.collect(),
            asked: Mutex::default(),
        })
    }

    fn answer(&self, path: &str, query: &str) -> (StatusCode, Value) {
        self.asked.lock().push(format!("{path}?{query}"));
        let prefix = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
        let Some(below) = path.strip_prefix(prefix) else {
            return (StatusCode::NOT_FOUND, json!({"message": "no such path"}));
        };
        if let Some(name) = below.strip_prefix('/') {
            let mut found = self.bindings.iter();
            let found = found.find(|binding| binding["metadata"]["name"] == name);
            return match found {
                Some(binding) => (StatusCode::OK, binding.clone()),
                None => (StatusCode::NOT_FOUND, json!({"message": "no such binding"})),
            };
        }
        let number = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(key, _)| *key == name)
                .and_then(|(_, value)| value.parse().ok())
        };
        let start: usize = number("continue").unwrap_or(0);
        let end = self.bindings.len().min(start + number("limit").unwrap());
        let next = if end < self.bindings.len() {
            end.to_string()
        } else {
            String::new()
        };
        let items = &self.bindings[start..end];
        let metadata = json!({"resourceVersion": "7", "continue": next});
        (
            StatusCode::OK,
            json!({"metadata": metadata, "items": items}),
        )
    }

    fn reader(self: &Arc<Self>) -> BindingReader {
        let this = Arc::clone(self);
        let service = service_fn(move |request: Request<Body>| {
            let (path, query) = (request.uri().path(), request.uri().query());
            let (status, value) = this.answer(path, query.unwrap_or_default());
            let mut response = Response::new(Body::from(value.to_string().into_bytes()));
            *response.status_mut() = status;
            async move { Ok::<_, Infallible>(response) }
        });
        BindingReader::new(Client::new(service, "default"))
    }

    async fn read(self: &Arc<Self>, question: &BindingsQuestion) -> Result<BindingsPage, ApiError> {
        let mode = AuthenticationMode::LoopbackToken(TokenVerifier::new("secret"));
        let request = UserRequest::new(&Budget::of_users(), &ComputingTurns::default(), "alice");
        let reader = self.reader();
        let caller = Caller::local();
        request.scope(reader.read(&mode, &caller, question)).await
    }
}

fn namespaced(namespace: &str, token: &str) -> BindingsQuestion {
    BindingsQuestion::Namespaced {
        namespace: namespace.to_owned(),
        continue_token: token.to_owned(),
    }
}

fn config_map(name: &str) -> BindingsQuestion {
    BindingsQuestion::OfObject(TemplateName::from(NameParts {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }))
}

#[tokio::test]
async fn bindings_are_read_page_by_page() {
    let control_plane = Bindings::of(&[1; 60]);
    let first = control_plane.read(&namespaced("shop", "")).await.unwrap();
    assert_eq!((first.reports.len(), &*first.continue_token), (50, "50"));
    let second = control_plane.read(&namespaced("shop", "50")).await.unwrap();
    assert_eq!((second.reports.len(), &*second.continue_token), (10, ""));
    assert_eq!(second.reports[9].object.name, "web59");
    let asked = control_plane.asked.lock().clone();
    assert!(
        asked[1].ends_with("/shop/resourcebindings?limit=50&continue=50"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_page_that_is_too_large_is_asked_for_again_with_fewer_bindings() {
    let control_plane = Bindings::of(&[2_000; 60]);
    let first = control_plane.read(&namespaced("shop", "")).await.unwrap();
    assert_eq!((first.reports.len(), &*first.continue_token), (3, "3"));
    assert_eq!(first.reports[0].clusters.len(), 2_000);
    assert_eq!(control_plane.asked.lock().len(), 3);

    // What one binding says is cut, and says so.
    let control_plane = Bindings::of(&[20_000]);
    let page = control_plane.read(&namespaced("shop", "")).await.unwrap();
    let report = &page.reports[0];
    assert!(report.size() <= REPORT_BYTES);
    assert_eq!(report.clusters.len() + report.left_out, 20_000);
    assert!(report.left_out > 0);

    // And a binding that is larger than a page is refused.
    let control_plane = Bindings::of(&[400_000]);
    let refused = control_plane
        .read(&namespaced("shop", ""))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), 422);
    assert!(
        refused.to_string().contains("fleetdex distribute status"),
        "{refused}"
    );
}

#[tokio::test]
async fn the_binding_of_an_object_is_found_by_its_name() {
    let control_plane = Bindings::of(&[1, 1]);
    let page = control_plane.read(&config_map("web1")).await.unwrap();
    assert_eq!(page.reports[0].object.name, "web1");
    let asked = control_plane.asked.lock()[0].clone();
    assert!(
        asked.ends_with("/shop/resourcebindings/web1-configmap?"),
        "{asked}"
    );
    let missing = control_plane.read(&config_map("web2")).await.unwrap_err();
    assert_eq!(missing.code(), 404);
}

#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let control_plane = Bindings::of(&[]);
    for odd in ["Not a name", "shop/pods", "..", "a?limit=1", "-"] {
        let refused = control_plane.read(&namespaced(odd, "")).await;
        assert_eq!(refused.unwrap_err().code(), 400, "{odd}");
    }
    let elsewhere = BindingsQuestion::OfObject(TemplateName::from(NameParts {
        namespace: "../../pods".to_owned(),
        ..NameParts::default()
    }));
    assert_eq!(
        control_plane.read(&elsewhere).await.unwrap_err().code(),
        404
    );
    assert_eq!(control_plane.asked.lock().len(), 0);
    let scope = BindingsQuestion::ClusterScoped {
        continue_token: String::new(),
    };
    let unserved = control_plane.read(&scope).await.unwrap_err();
    assert_eq!(unserved.code(), 404);
    assert!(
        unserved
            .to_string()
            .contains("does not serve clusterresourcebindings of work.karmada.io"),
        "{unserved}"
    );
}
