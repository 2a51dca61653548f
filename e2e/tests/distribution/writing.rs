//! What is written where: order, namespaces, overrides, dependencies, conflicts, suspension.

#![allow(clippy::unwrap_used, reason = "a test")]

use e2e::test_result::{Tested, assert_contains};
use serde_json::json;

use crate::fixture::{
    Distributing, binding_path, clusters, config_map, nginx, path_of, policy, selector,
};

#[tokio::test]
async fn namespaces_overrides_dependencies_and_suspension() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;

    // A namespace is made only where an object needs it.
    fixture.hub.create_namespace("shop").await?;
    let mut object = config_map("settings", "1");
    object["metadata"]["namespace"] = "shop".into();
    fixture.apply(&object).await?;
    let mut of_shop = policy(
        "settings",
        &json!({"resourceSelectors": [selector(&object)], "placement": clusters(&["member1"])}),
    );
    of_shop["metadata"]["namespace"] = "shop".into();
    fixture.apply(&of_shop).await?;
    let path = path_of(&object)?;
    fixture
        .until_member(1, &path, "it is there", |_| true)
        .await?;
    let others = fixture.members[1].find("api/v1/namespaces/shop").await?;
    assert_eq!(others, None);

    // Overrides, and what a Deployment needs.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"},
        "metadata": {"name": "password", "namespace": "default"},
    });
    fixture.apply(&secret).await?;
    let mut web = nginx("web", 1);
    web["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "p", "secret": {"secretName": "password"}}]);
    fixture.apply(&web).await?;
    let overrides = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "resourceSelectors": [selector(&web)],
            "overrideRules": [{
                "targetCluster": {"clusterNames": ["member2"]},
                "overriders": {"imageOverrider": [
                    {"component": "Registry", "operator": "add", "value": "registry.example"},
                ]},
            }],
        },
    });
    fixture.apply(&overrides).await?;
    let spec = json!({
        "resourceSelectors": [selector(&web)], "propagateDeps": true,
        "placement": clusters(&["member1", "member2"]),
    });
    fixture.apply(&policy("web", &spec)).await?;
    let path = path_of(&web)?;
    for (member, image) in [(1, "nginx"), (2, "registry.example/nginx")] {
        fixture
            .until_member(member, &path, image, |found| {
                found["spec"]["template"]["spec"]["containers"][0]["image"] == image
            })
            .await?;
        fixture
            .until_member(member, &path_of(&secret)?, "it is needed", |_| true)
            .await?;
    }
    let needed = fixture
        .until_hub(&binding_path(&secret), "it is required", |binding| {
            binding["spec"]["requiredBy"][0]["name"] == "web-deployment"
        })
        .await?;
    assert_eq!(needed["spec"]["clusters"].as_array().unwrap().len(), 2);

    // Suspended: nothing is written, and the binding says so.
    let mut suspended = policy("web", &spec);
    suspended["spec"]["suspension"] =
        json!({"dispatchingOnClusters": {"clusterNames": ["member2"]}});
    fixture.apply(&suspended).await?;
    web["spec"]["replicas"] = 3.into();
    fixture.apply(&web).await?;
    let has_three = |found: &serde_json::Value| found["spec"]["replicas"] == 3;
    fixture
        .until_member(1, &path, "3 replicas", has_three)
        .await?;
    let other = fixture.members[1].get(&path).await?;
    assert_eq!(other["spec"]["replicas"], 1);
    fixture.apply(&policy("web", &spec)).await?;
    fixture
        .hub
        .merge(
            &path_of(&policy("web", &spec))?,
            &json!({"spec": {"suspension": null}}),
        )
        .await?;
    fixture
        .until_member(2, &path, "3 replicas", has_three)
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_object_of_the_member_is_not_touched_without_overwrite() -> Tested {
    let fixture = Distributing::start(1, &[]).await?;
    let object = config_map("settings", "new");
    let path = path_of(&object)?;
    let own = fixture.members[0]
        .apply(&path, &config_map("settings", "own"))
        .await?;
    fixture.apply(&object).await?;
    let spec = json!({"resourceSelectors": [selector(&object)], "placement": {}});
    fixture.apply(&policy("settings", &spec)).await?;
    let binding = binding_path(&object);
    let message = fixture
        .until_condition(&binding, "FullyApplied", "False")
        .await?;
    assert_contains(
        &message,
        "the cluster has this object already, which e2e manages",
    );
    let printed = fixture.status("configmap/settings").await?;
    assert_eq!(printed.code, 1, "{printed:?}");
    assert_contains(&printed.out, "the cluster has this object already");
    let missing = fixture.status("configmap/others").await?;
    assert_eq!(missing.code, 2, "{missing:?}");
    assert_contains(&missing.err, "has no binding in namespace default");
    let found = fixture.members[0].get(&path).await?;
    assert_eq!(
        found["metadata"]["resourceVersion"],
        own["metadata"]["resourceVersion"]
    );

    let mut overwriting = policy("settings", &spec);
    overwriting["spec"]["conflictResolution"] = "Overwrite".into();
    fixture.apply(&overwriting).await?;
    fixture
        .until_member(1, &path, "it is taken over", |found| {
            found["data"]["value"] == "new"
        })
        .await?;
    fixture
        .until_condition(&binding, "FullyApplied", "True")
        .await?;
    Ok(())
}
