//! What clusters shall have of sets, by what is written of them on the control plane.

use fakes::apiserver::Server;
use fleetdex_crds::distribution::RolloutStatus;
use fleetdex_distribution::sets::{ObjectSet, SetContents, SetObjects, UnreachedContents};
use fleetdex_distributor::SetSpec;
use fleetdex_interpreter::value::text;
use serde::Deserialize as _;
use serde_json::Value;

use super::{expected::objects, guard::Guard, servers::SETS, set_users::account_of};

/// The sets of a control plane.
pub fn object_sets(control_plane: &Server, guard: &Guard) -> anyhow::Result<Vec<ObjectSet>> {
    let sets = objects(control_plane, SETS)?;
    let sets = sets.iter();
    Ok(sets
        .map(|set| {
            let contents = contents(set, control_plane, guard);
            let (contents, unreached) =
                contents.unwrap_or_else(|| (SetContents::Unknown(String::new()), None));
            SetSpec::of(set).object_set(contents, unreached)
        })
        .collect())
}

type Contents = (SetContents, Option<UnreachedContents>);

/// What is in the set, and what clusters have that are not reached; `None`: all of it stays.
fn contents(set: &Value, control_plane: &Server, guard: &Guard) -> Option<Contents> {
    let metadata = &set["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        return Some((SetContents::Known(SetObjects::default()), None));
    }
    let is_held = set["spec"]["suspend"] == true || metadata["finalizers"].is_null();
    if is_held || control_plane.is_denied(&account_of(set)) {
        return None;
    }
    let status = RolloutStatus::deserialize(&set["status"]["rollout"]).ok()?;
    let uid = text(metadata, &["uid"]);
    let objects = |revision: &str| guard.revision(uid, revision).map(SetObjects::from);
    let stable = Some(&status.stable).filter(|stable| !stable.is_empty());
    let stable = match stable {
        Some(stable) => Some(objects(stable)?),
        None => None,
    };
    match (status.phase.as_str(), stable) {
        ("Undone", stable) => Some((SetContents::Known(stable?), None)),
        ("Complete", _) => Some((SetContents::Known(objects(&status.revision)?), None)),
        (_, stable) => {
            let unreached = UnreachedContents {
                objects: stable.unwrap_or_default(),
                reached: status.reached.iter().cloned().collect(),
            };
            let contents = SetContents::Known(objects(&status.revision)?);
            Some((contents, Some(unreached)))
        }
    }
}
