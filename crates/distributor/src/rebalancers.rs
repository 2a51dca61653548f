//! Reports on `WorkloadRebalancer`s, and deletes those that have ended.

use std::time::Duration;

use fleetdex_core::model::causes;
use fleetdex_distribution::template_name::TemplateName;
use fleetdex_interpreter::value::{integer, text};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    control_plane::{ControlPlaneObjects, kinds},
    inputs::ReadInputs,
    object_client::{ObjectClient, ObjectPart, ObjectRequestError},
    wall_clock::WallClock,
};

/// Reports on rebalancers.
pub struct RebalancerWriter {
    /// The objects.
    pub client: ObjectClient,
    /// The time of day.
    pub clock: WallClock,
}

impl RebalancerWriter {
    /// Reports what a plan that was written has placed anew.
    pub async fn write(&self, objects: &ControlPlaneObjects, read: &ReadInputs) {
        for rebalancer in objects.objects(kinds::REBALANCER) {
            let name = TemplateName::of(&rebalancer.object);
            let written = self
                .write_one(&name, &rebalancer.object, &rebalancer.status, read)
                .await;
            if let Err(error) = written {
                tracing::warn!(%name, error = %causes(&error), "cannot report on a WorkloadRebalancer");
            }
        }
    }

    async fn write_one(
        &self,
        name: &TemplateName,
        rebalancer: &Value,
        status: &Value,
        read: &ReadInputs,
    ) -> Result<(), ObjectRequestError> {
        let now = (self.clock)();
        if let Some(uid) = ended(rebalancer, status, now) {
            return self.client.delete(name, uid, None).await;
        }
        let generation = &rebalancer["metadata"]["generation"];
        if status["observedGeneration"] == *generation && !generation.is_null() {
            return Ok(());
        }
        let observed = TemplateName::of_workloads(rebalancer).map(|workload| {
            let is_bound = read.bindings.contains_key(&workload);
            let (result, reason) = if is_bound {
                ("Successful", None)
            } else {
                ("Failed", Some("ReferencedBindingNotFound"))
            };
            let mut item = json!({"workload": workload, "result": result});
            if let Some(reason) = reason {
                item["reason"] = reason.into();
            }
            item
        });
        let object = json!({
            "apiVersion": name.api_version, "kind": name.kind, "metadata": {"name": name.name},
            "status": {
                "observedWorkloads": observed.collect::<Value>(),
                "observedGeneration": generation,
                "finishTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            },
        });
        self.client
            .apply(name, &object, ObjectPart::Status)
            .await
            .map(drop)
    }
}

/// The UID of a rebalancer whose time after its end is over.
fn ended<'v>(rebalancer: &'v Value, status: &Value, now: Timestamp) -> Option<&'v str> {
    let seconds = integer(rebalancer, &["spec", "ttlSecondsAfterFinished"])?;
    let kept = Duration::from_secs(seconds.try_into().ok()?);
    let finished: Timestamp = text(status, &["finishTime"]).parse().ok()?;
    let is_over = finished.checked_add(kept).is_ok_and(|until| until <= now);
    is_over.then(|| text(rebalancer, &["metadata", "uid"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebalancer_is_deleted_after_its_time() {
        let finished = "2026-11-30T00:00:00Z";
        let now = |second: u8| format!("2026-11-30T00:00:{second:02}Z").parse().unwrap();
        let status = json!({"finishTime": finished});
        let with = |ttl: Value| json!({"metadata": {"uid": "u"}, "spec": {"ttlSecondsAfterFinished": ttl}});
        for (ttl, status, second, expected) in [
            (json!(30), &status, 29, None),
            (json!(30), &status, 30, Some("u")),
            (json!(0), &status, 0, Some("u")),
            (json!(-1), &status, 50, None),
            (Value::Null, &status, 50, None),
            (json!(30), &Value::Null, 50, None),
        ] {
            let found = with(ttl.clone());
            assert_eq!(
                ended(&found, status, now(second)),
                expected,
                "{ttl} {second}"
            );
        }
    }
}
