//! Many deletions at once are held until a user lets them go.

use std::time::Duration;

use fleetdex_distribution::{binding::ALLOW_DELETION, template_name::TemplateName};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    expected::objects,
    servers::{BINDINGS, CLUSTER_BINDINGS, CLUSTER_POLICIES, MAPS, MEMBERS, USER},
    world::{World, refused},
};

/// More than the brake lets go by number; that they are more than a fifth of what members have is
/// checked.
const MANY: std::ops::Range<usize> = 16..24;
/// How long nothing may be deleted.
const HELD: Duration = Duration::from_mins(3);
/// Long enough that earlier deletions do not count any more.
const CALM: Duration = Duration::from_secs(70);

impl World {
    /// Places many objects, deletes or moves all of them at once, and lets the deletions go later.
    pub(super) async fn brake(&mut self) -> anyhow::Result<()> {
        for member in MEMBERS {
            // Nothing is driven out besides.
            self.set_taint(member, false)?;
        }
        let names: Vec<String> = (0..self.random.random_range(MANY))
            .map(|number| format!("many{number}"))
            .collect();
        for name in &names {
            let metadata =
                json!({ "namespace": "default", "name": name, "labels": { "many": "yes" } });
            self.apply(MAPS, json!({ "metadata": metadata, "data": { "a": "1" } }))?;
        }
        self.place_many(&json!({}))?;
        self.converge("with many objects").await?;
        sleep(CALM).await;
        self.guard
            .keep_all(Some("a deletion is done that is to be held"));
        let moves = self.random.random_ratio(1, 2);
        if moves {
            self.place_many(&json!({ "clusterAffinity": { "exclude": [MEMBERS[0]] } }))?;
        } else {
            for name in &names {
                self.control_plane
                    .delete(MAPS, Some("default"), name)
                    .map_err(refused)?;
            }
        }
        self.evaluate()?;
        self.note(if moves {
            "many objects moved"
        } else {
            "many objects deleted"
        });
        let restart = self.random.random_ratio(1, 2);
        for second in 0..HELD.as_secs() {
            if restart && second == 60 {
                self.restart_operators().await;
            }
            sleep(Duration::from_secs(1)).await;
            self.check()?;
        }
        let count = self
            .held()?
            .iter()
            .filter(|name| name.starts_with("many"))
            .count();
        anyhow::ensure!(
            count == names.len(),
            "{count} of {} held deletions are reported on bindings",
            names.len()
        );
        self.guard.keep_all(None);
        self.converge("after held deletions were let go").await
    }

    fn place_many(&self, placement: &Value) -> anyhow::Result<()> {
        let selector = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default",
            "labelSelector": { "matchLabels": { "many": "yes" } },
        });
        let policy = json!({
            "metadata": { "name": "many" },
            "spec": { "resourceSelectors": [selector], "placement": placement },
        });
        self.apply(CLUSTER_POLICIES, policy)
    }

    /// The names of objects whose bindings say that deletions are held.
    fn held(&self) -> anyhow::Result<Vec<String>> {
        let bindings = objects(&self.control_plane, BINDINGS)?.into_iter();
        let held = bindings.filter(is_held);
        Ok(held
            .map(|binding| {
                let name = binding["spec"]["resource"]["name"].as_str();
                name.unwrap_or_default().to_owned()
            })
            .collect())
    }

    /// Lets held deletions go, as a user does who reads that they are held.
    pub(super) fn let_go(&mut self) -> anyhow::Result<()> {
        for resource in [BINDINGS, CLUSTER_BINDINGS] {
            for binding in objects(&self.control_plane, resource)? {
                let is_allowed = binding["metadata"]["annotations"][ALLOW_DELETION] == "true";
                if is_allowed || !is_held(&binding) {
                    continue;
                }
                self.note("held deletion let go");
                let name = TemplateName::of(&binding);
                let namespace = Some(name.namespace.as_str()).filter(|name| !name.is_empty());
                let allowed =
                    self.control_plane
                        .edit(resource, namespace, &name.name, USER, |object| {
                            object["metadata"]["annotations"][ALLOW_DELETION] = "true".into();
                        });
                allowed.map_err(refused)?;
            }
        }
        Ok(())
    }
}

fn is_held(binding: &Value) -> bool {
    let conditions = binding["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "DeletionHeld" && one["status"] == "True")
}
