//! Random specs of sets.

use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

use super::{objects::some_members, servers::MEMBERS};

/// A placement; null: all clusters.
pub fn placement(random: &mut StdRng) -> Value {
    match random.random_range(0..6) {
        0 | 1 => Value::Null,
        2 => {
            let selector = json!({ "matchLabels": { "size": "small" } });
            json!({ "clusterAffinity": { "labelSelector": selector } })
        }
        _ => json!({ "clusterAffinity": { "clusterNames": some_members(random) } }),
    }
}

/// How clusters get changes; null: all at once.
pub fn rollout(random: &mut StdRng) -> Value {
    if random.random_ratio(1, 6) {
        return Value::Null;
    }
    let mut percent = 0;
    let waves: Vec<Value> = (0..random.random_range(1..4))
        .map(|_| wave(random, &mut percent))
        .collect();
    let mut rollout = json!({ "waves": waves });
    if random.random_ratio(1, 10) {
        rollout["paused"] = true.into();
    }
    rollout
}

fn wave(random: &mut StdRng, percent: &mut i64) -> Value {
    let mut wave = json!({ "deadline": format!("{}s", random.random_range(15..60)) });
    match random.random_range(0..6) {
        0 => {
            let selector = json!({ "matchLabels": { "size": "small" } });
            wave["clusterAffinity"] = json!({ "labelSelector": selector });
        }
        1 | 2 => {
            *percent = random.random_range(*percent.max(&mut 1)..=100);
            wave["percent"] = (*percent).into();
        }
        _ => {
            let member = MEMBERS[random.random_range(0..MEMBERS.len())];
            wave["clusterAffinity"] = json!({ "clusterNames": [member] });
        }
    }
    if random.random_ratio(1, 3) {
        wave["healthyFor"] = format!("{}s", random.random_range(2..12)).into();
    }
    if random.random_ratio(1, 6) {
        wave["maxUnhealthy"] = 1.into();
    }
    if random.random_ratio(1, 5) {
        wave["pause"] = true.into();
    }
    wave
}
