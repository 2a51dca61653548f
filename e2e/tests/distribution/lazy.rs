//! A change of a lazy policy has an effect when the template changes.

use e2e::test_result::Tested;
use serde_json::{Value, json};

use crate::fixture::{Distributing, binding_path, clusters, config_map, path_of, policy};

/// A lazy policy for all `ConfigMap`s with the label `app: shop`.
fn lazy(member: &str, preserves: bool) -> Value {
    let spec = json!({
        "activationPreference": "Lazy", "preserveResourcesOnDeletion": preserves,
        "resourceSelectors": [{
            "apiVersion": "v1", "kind": "ConfigMap",
            "labelSelector": {"matchLabels": {"app": "shop"}},
        }],
        "placement": clusters(&[member]),
    });
    policy("shop", &spec)
}

fn of_shop(name: &str, value: &str) -> Value {
    let mut object = config_map(name, value);
    object["metadata"]["labels"] = json!({"app": "shop"});
    object
}

#[tokio::test]
async fn a_lazy_policy_moves_a_template_when_it_changes() -> Tested {
    let fixture = Distributing::start(2, &[]).await?;
    fixture.apply(&lazy("member1", false)).await?;
    let (old, new) = (of_shop("old", "1"), of_shop("new", "1"));
    fixture.apply(&old).await?;
    let path = path_of(&old)?;
    fixture
        .until_member(1, &path, "it is there", |_| true)
        .await?;

    // The change of the policy counts for what is made now, and not for what is there.
    fixture.apply(&lazy("member2", true)).await?;
    fixture
        .until_hub(&binding_path(&old), "the change is known", |binding| {
            binding["spec"]["preserveResourcesOnDeletion"] == true
        })
        .await?;
    fixture.apply(&new).await?;
    fixture
        .until_member(2, &path_of(&new)?, "it is there", |_| true)
        .await?;
    fixture.members[0].get(&path).await?;
    assert!(fixture.members[1].find(&path).await?.is_none());

    fixture.apply(&of_shop("old", "2")).await?;
    fixture
        .until_member(2, &path, "the changed one is there", |found| {
            found["data"]["value"] == "2"
        })
        .await?;
    fixture.until_gone(1, &path).await?;
    Ok(())
}
