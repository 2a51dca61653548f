//! Judges what operators write of replicas.

use std::time::Duration;

use fakes::apiserver::ClientWrite;
use fleetdex_interpreter::value::{list, text};
use serde_json::Value;
use tokio::time::Instant;

use super::{guard::GuardState, timeline::Place};

/// What is done twice in this time is no race.
const REPEATED: Duration = Duration::from_secs(10);

impl GuardState {
    /// What an autoscaler has set stays.
    pub(super) fn judge_scaled(&mut self, place: &Place, write: &ClientWrite) {
        let (Some(before), Some(after)) = (&write.before, &write.after) else {
            return;
        };
        let has_changed = before["spec"]["replicas"] != after["spec"]["replicas"];
        let is_known = self
            .scaled
            .get(place)
            .is_some_and(|scaled| scaled.elapsed() >= self.stale);
        if !has_changed || !is_scaled(before) {
            return;
        }
        let last = self.unscaled.insert(place.clone(), Instant::now());
        let is_repeated = last.is_some_and(|last| last.elapsed() < REPEATED);
        if is_known || is_repeated {
            let what = "the replicas that an autoscaler has set are overwritten";
            self.violated(what, &place.0, write);
        }
    }

    pub(super) fn judge_replicas(&mut self, place: &Place, write: &ClientWrite) {
        let replicas = |object: &Option<Value>| {
            let object = object.as_ref()?;
            object["spec"]["replicas"].as_i64()
        };
        let Some(now) = replicas(&write.after) else {
            return;
        };
        let most = self.allowance.get(place).copied().unwrap_or(0);
        if Some(now) != replicas(&write.before) && now > most {
            let what =
                format!("{now} replicas are written, and no plan has given more than {most}");
            self.violated(&what, &place.0, write);
        }
    }
}

/// Whether an autoscaler has set the replicas of an object.
pub fn is_scaled(object: &Value) -> bool {
    let mut entries = list(object, &["metadata", "managedFields"]).iter();
    entries.any(|entry| {
        text(entry, &["subresource"]) == "scale" && text(entry, &["manager"]) != "kubectl"
    })
}
