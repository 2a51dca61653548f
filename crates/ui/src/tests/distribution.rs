//! The view of what is distributed, and its part of the view of an object.

use fleetdex_distribution::{
    placement_report::PlacementReport,
    sets::SetName,
    template_name::{NameParts, TemplateName},
};

use super::*;

/// Where [`PreparedApi`] has the bindings; without them nothing is distributed.
pub(super) const BINDINGS: &str = "bindings";

/// Where it has a `Distribution`.
pub(super) const SETS: &str = "sets";

/// What the caller may read of these bindings: not those of the namespace `secret`, and of all
/// namespaces together nothing but a refusal if there is one. Pages have one binding.
pub(super) fn prepared_bindings(
    bindings: &[Value],
    question: &BindingsQuestion,
) -> Result<BindingsPage, QueryRefusal> {
    let refused = |status, message: &str| QueryRefusal {
        status,
        message: message.to_owned(),
    };
    let reports = bindings.iter().map(PlacementReport::of);
    let (namespace, token) = match question {
        BindingsQuestion::OfObject(name) => {
            let is_it = |report: &PlacementReport| report.object == *name;
            let found: Vec<PlacementReport> = reports.filter(is_it).collect();
            let none = refused(StatusCode::NOT_FOUND, "no binding");
            if found.is_empty() {
                return Err(none);
            }
            return Ok(BindingsPage {
                reports: found,
                ..BindingsPage::default()
            });
        }
        BindingsQuestion::Namespaced {
            namespace,
            continue_token,
        } => (Some(namespace), continue_token),
        BindingsQuestion::OfSet { set, .. } => {
            let own = bindings
                .iter()
                .filter(|binding| SetName::of_binding(binding).as_ref() == Some(set));
            return Ok(BindingsPage {
                reports: own.map(PlacementReport::of).collect(),
                ..BindingsPage::default()
            });
        }
        BindingsQuestion::ClusterScoped { continue_token } => (None, continue_token),
    };
    let of_secret = |binding: &Value| binding["metadata"]["namespace"] == "secret";
    if namespace.is_some_and(|name| name == "secret")
        || (namespace.is_some_and(String::is_empty) && bindings.iter().any(of_secret))
    {
        return Err(refused(StatusCode::FORBIDDEN, "User <b> cannot list them"));
    }
    if token == "expired" {
        return Err(refused(StatusCode::GONE, "too old"));
    }
    let is_asked = |report: &PlacementReport| match namespace {
        None => report.object.namespace.is_empty(),
        Some(name) if name.is_empty() => !report.object.namespace.is_empty(),
        Some(name) => report.object.namespace == *name,
    };
    let asked: Vec<PlacementReport> = reports.filter(is_asked).collect();
    let start = token.parse().unwrap_or(0);
    let next = start + 1;
    let has_more = next < asked.len();
    Ok(BindingsPage {
        continue_token: if has_more {
            next.to_string()
        } else {
            String::new()
        },
        reports: asked.into_iter().skip(start).take(1).collect(),
    })
}

fn binding(kind: &str, namespace: &str, name: &str) -> Value {
    let api_version = match kind {
        "Deployment" => "apps/v1",
        _ => "example.io/v1",
    };
    let object = TemplateName::from(NameParts {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    });
    let mut metadata = json!({
        "name": fleetdex_distribution::binding_name::binding_name(&object),
        "annotations": {"clusterpropagationpolicy.karmada.io/name": "all"},
    });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": "Reason", "message": message});
    json!({
        "metadata": metadata,
        "spec": {
            "resource": object, "replicas": 3,
            "clusters": [{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 1}],
            "gracefulEvictionTasks": [{"fromCluster": "member3", "reason": "Moved"}],
        },
        "status": {
            "conditions": [
                condition("Scheduled", "True", "not chosen: member4: its taint is not tolerated"),
                condition("FullyApplied", "False", "member2: conflict"),
            ],
            "aggregatedStatus": [
                {"clusterName": "member1", "applied": true, "health": "Unhealthy",
                 "status": {"readyReplicas": 1}},
                {"clusterName": "member2", "applied": false, "appliedMessage": HOSTILE},
            ],
        },
    })
}

fn distributing(bindings: &[Value]) -> PreparedApi {
    let mut api = fleet();
    api.0.push((BINDINGS, bindings.into()));
    api
}

#[tokio::test]
async fn distributed_objects_are_shown_with_their_clusters_and_reasons() {
    let api = distributing(&[
        binding("Deployment", "shop", "checkout"),
        binding("Shop", "shop", "cart"),
        binding("Zone", "", "north"),
    ]);
    let (status, html) = view(&api, "/ui/distribution?namespace=shop").await;
    assert_eq!(status, StatusCode::OK);
    assert!(!html.contains("<script>"), "{html}");
    for expected in [
        "Deployment checkout",
        &format!("href=\"{PAGE}\""),
        "leaving",
        "▲",
        "member4",
        "its taint is not tolerated",
        "FullyApplied is False",
        "by the policy all",
        "/ui/distribution?namespace=shop&amp;continue=1",
        "fleetdex distribute status -n shop",
        "data-every=\"10\"",
        "href=\"/ui/distribution\"",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    assert!(!html.contains("cart") && !html.contains("north"), "{html}");

    let (_, html) = view(&api, "/ui/distribution?namespace=shop&continue=1").await;
    assert!(
        html.contains("Shop cart") && !html.contains("Next page"),
        "{html}"
    );
    // How its resource is called is not known, so that a search finds it.
    let search = "/ui/?q=kind%3AShop.example.io%20name%3Acart%20ns%3Ashop%20cluster%3Amember1";
    assert!(html.contains(search), "{html}");

    let (_, html) = view(&api, "/ui/distribution?scope=cluster").await;
    assert!(
        html.contains("Zone north") && !html.contains("checkout"),
        "{html}"
    );
    let (_, html) = view(&api, "/ui/distribution?continue=expired").await;
    assert!(html.contains("this is the first page"), "{html}");
    let (_, html) = view(&api, "/ui/distribution?namespace=other").await;
    assert!(html.contains("Nothing is distributed here"), "{html}");
}

#[tokio::test]
async fn who_may_not_list_all_bindings_is_asked_for_a_namespace() {
    let bindings = [
        binding("Deployment", "shop", "checkout"),
        binding("Deployment", "secret", "concealed"),
    ];
    let api = distributing(&bindings);
    let (status, html) = view(&api, "/ui/distribution").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(html.contains("User &lt;b&gt; cannot list them"), "{html}");
    assert!(html.contains("Enter a namespace in which"), "{html}");
    assert!(
        !html.contains("concealed") && !html.contains("data-every"),
        "{html}"
    );
    let (status, html) = view(&api, "/ui/distribution?namespace=secret").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(!html.contains("Enter a namespace in which"), "{html}");
    let (status, _) = view(&api, "/ui/distribution?namespace=shop").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn an_object_says_where_it_is_distributed_if_it_is() {
    // The prepared object has no namespace.
    let mut here = binding("Deployment", "", "checkout");
    here["spec"]["clusters"] = json!([{"name": "member2"}]);
    let (_, html) = view(&distributing(&[here]), PAGE).await;
    for expected in [
        "The control plane distributes Deployment checkout",
        "and not to this cluster",
        "/ui/distribution?scope=cluster",
        "member4",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    let others = distributing(&[binding("Deployment", "", "cart")]);
    for api in [others, fleet()] {
        let (_, html) = view(&api, PAGE).await;
        assert!(!html.contains("The control plane distributes"), "{html}");
    }
}

#[tokio::test]
async fn without_distribution_there_is_no_view_of_it() {
    let (status, html) = view(&fleet(), "/ui/distribution").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(!html.contains("href=\"/ui/distribution\""), "{html}");
}

/// The binding of an object of the set `shop/web`.
fn binding_of_set(name: &str) -> Value {
    let mut binding = binding("Deployment", "shop", name);
    binding["metadata"]["annotations"] = json!({"distribute.fleetdex.io/distribution": "web"});
    binding["metadata"]["labels"] = json!({"distribute.fleetdex.io/distribution-uid": "u7"});
    binding["spec"]["resource"]["namespace"] = "shop".into();
    binding
}

fn set() -> Value {
    json!({
        "apiVersion": "distribute.fleetdex.io/v1alpha1", "kind": "Distribution",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u7"},
        "spec": {"source": {}},
        "status": {
            "version": "1.4.0",
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "WaitingForWave",
                "message": HOSTILE, "lastTransitionTime": "2026-02-03T10:00:00Z",
            }],
            "rollout": {
                "phase": "Progressing", "revision": "sha256:new", "stable": "sha256:old",
                "wave": 1, "waves": 2, "progress": "1/2", "reached": ["member2"],
                "message": "wave 1 of 2: member2: web is not healthy",
            },
        },
    })
}

#[tokio::test]
async fn a_set_is_shown_as_a_matrix_of_objects_and_clusters() {
    let mut api = distributing(&[
        binding_of_set("api"),
        binding_of_set("cache"),
        binding("Deployment", "shop", "checkout"),
    ]);
    api.0.push((SETS, set()));
    let (status, html) = view(&api, "/ui/distribution/sets/shop/web").await;
    assert_eq!(status, StatusCode::OK);
    for expected in [
        "Distribution shop/web",
        "Deployment api",
        "Deployment cache",
        "member1 (waits for its wave)",
        "member2 (new revision)",
        "1/2",
        "wave 1 of 2: member2: web is not healthy",
        "sha256:old",
        "fleetdex rollout status web -n shop",
        "data-every=\"10\"",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    assert!(
        !html.contains("checkout") && !html.contains("<script>"),
        "{html}"
    );
    // The list of what is distributed leads there.
    let (_, html) = view(&api, "/ui/distribution?namespace=shop").await;
    assert!(html.contains("/ui/distribution/sets/shop/web"), "{html}");
    let (status, _) = view(&api, "/ui/distribution/sets/shop/other").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn clusters_of_a_set_are_shown_some_at_a_time() {
    let mut wide = binding_of_set("api");
    let clusters = (0..50).map(|number| json!({"name": format!("m{number:02}")}));
    wide["spec"]["clusters"] = clusters.collect();
    wide["spec"]["gracefulEvictionTasks"] = json!([]);
    let mut api = distributing(&[wide]);
    api.0.push((SETS, set()));
    for (column, first, absent, next) in [
        ("0", "m00", "m20", "column=20"),
        ("40", "m49", "m39", "column=0"),
        ("900", "m00", "m20", "column=20"),
    ] {
        let address = format!("/ui/distribution/sets/shop/web?column={column}");
        let (_, html) = view(&api, &address).await;
        let cell = |cluster: &str| format!("data-label=\"{cluster}\"");
        assert!(html.contains(&cell(first)) && html.contains(next), "{html}");
        assert!(!html.contains(&cell(absent)), "{html}");
    }
}
