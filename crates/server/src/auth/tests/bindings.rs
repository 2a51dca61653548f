//! The view of what is distributed, as users with rights of their own see it.

use super::*;

/// The bindings of the control plane: one in the namespace `web`, and one without a namespace.
pub(super) fn answer(path: &str) -> Value {
    let binding = |kind: &str, name: &str, metadata: Value| {
        let resource = json!({"apiVersion": "v1", "kind": kind, "name": name});
        let clusters = json!([{"name": "member9"}]);
        json!({"metadata": metadata, "spec": {"resource": resource, "clusters": clusters}})
    };
    let settings = binding(
        "ConfigMap",
        "settings",
        json!({"name": "settings-configmap", "namespace": "web"}),
    );
    let node = binding("Node", "north", json!({"name": "north-node"}));
    let items = match path.rsplit('/').next() {
        Some("clusterresourcebindings") => json!([node]),
        _ => json!([settings]),
    };
    json!({"metadata": {"resourceVersion": "1"}, "items": items})
}

async fn view(world: &World, token: &str, query: &str) -> (StatusCode, String) {
    let response = world
        .response_to(token, &format!("/ui/distribution{query}"))
        .await;
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_user_sees_the_bindings_that_the_control_plane_lets_her_list() {
    let world = World::new(&[
        "alice list work.karmada.io/resourcebindings web ",
        "bob list work.karmada.io/clusterresourcebindings  ",
    ]);
    for (token, query, code, has_settings, has_node) in [
        ("alices", "?namespace=web", 200, true, false),
        ("alices", "?namespace=db", 403, false, false),
        ("alices", "", 403, false, false),
        ("alices", "?scope=cluster", 403, false, false),
        ("bobs", "?namespace=web", 403, false, false),
        ("bobs", "?scope=cluster", 200, false, true),
    ] {
        let (status, html) = view(&world, token, query).await;
        assert_eq!(status, code, "{token} {query}: {html}");
        assert_eq!(html.contains("settings"), has_settings, "{token} {query}");
        assert_eq!(html.contains("north"), has_node, "{token} {query}");
        assert_eq!(html.contains("member9"), code == 200, "{token} {query}");
    }
    let (_, html) = view(&world, "alices", "").await;
    assert!(
        html.contains("User &quot;alice&quot; cannot list resource &quot;resourcebindings&quot;"),
        "{html}"
    );
    let rules = "alice list work.karmada.io/resourcebindings  ";
    let (status, _) = view(&World::new(&[rules]), "alices", "").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn members_that_authorize_decide_nothing_about_bindings() {
    let rules = ["alice list work.karmada.io/resourcebindings web "];
    let world = World::with_members(counting(&[]), &rules, false, Some(BTreeMap::new()));
    let (status, _) = view(&world, "alices", "?namespace=web").await;
    assert_eq!(status, StatusCode::OK);
    let (status, _) = view(&world, "bobs", "?namespace=web").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}
