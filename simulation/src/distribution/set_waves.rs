//! Which clusters a spec selects, and which wave each of them belongs to, as the documentation
//! says it.

use std::collections::BTreeSet;

use fleetdex_interpreter::value::text;
use jiff::SignedDuration;
use serde_json::Value;

use super::{operator::labels, servers::MEMBERS};

/// Names of clusters.
pub type Names = BTreeSet<String>;

/// The clusters that the placement of a set selects.
pub fn selected(set: &Value) -> Names {
    let affinity = &set["spec"]["placement"]["clusterAffinity"];
    let members = MEMBERS.iter().filter(|name| matches(affinity, name));
    members.map(|name| (*name).to_owned()).collect()
}

/// Sets of clusters that a rollout may be of: those that are selected, and any that have objects
/// of the set from before.
pub fn fleets(set: &Value) -> Vec<Names> {
    let selected = selected(set);
    let others: Vec<&str> = MEMBERS
        .into_iter()
        .filter(|name| !selected.contains(*name))
        .collect();
    let subsets = 0..1_usize << others.len();
    subsets
        .map(|subset| {
            let chosen = others.iter().enumerate();
            let chosen = chosen.filter(|(at, _)| subset & (1 << at) != 0);
            let mut fleet = selected.clone();
            fleet.extend(chosen.map(|(_, name)| (*name).to_owned()));
            fleet
        })
        .collect()
}

/// The waves of a set in these clusters. `reached`: those that come first within a percentage.
pub fn waves(set: &Value, fleet: &Names, reached: &Names) -> Vec<Names> {
    let rules = set["spec"]["rollout"]["waves"].as_array();
    let mut left: Vec<&String> = fleet.intersection(reached).collect();
    left.extend(fleet.difference(reached));
    let mut waves = Vec::new();
    for rule in rules.into_iter().flatten() {
        let mut room = usize::MAX;
        if let Some(percent) = rule["percent"].as_u64() {
            let percent = usize::try_from(percent).unwrap_or(0);
            let wanted = (percent * fleet.len()).div_ceil(100);
            room = wanted.saturating_sub(fleet.len() - left.len());
        }
        let mut wave = Names::new();
        left.retain(|name| {
            let is_taken = wave.len() < room && matches(&rule["clusterAffinity"], name);
            if is_taken {
                wave.insert((*name).clone());
            }
            !is_taken
        });
        waves.push(wave);
    }
    if !left.is_empty() {
        waves.push(left.into_iter().cloned().collect());
    }
    waves
}

/// What a spec says of a wave.
#[derive(Clone, Copy, Debug)]
pub struct WaveTerms {
    /// In how many clusters objects may be ill.
    pub most_ill: usize,
    /// How long it has to be healthy.
    pub healthy_for: SignedDuration,
    /// When it has failed.
    pub deadline: SignedDuration,
    /// Whether the next one waits for a user.
    pub pauses: bool,
}

/// What a spec says of the wave of a number, from 1 on.
pub fn terms(set: &Value, wave: i64) -> WaveTerms {
    let at = usize::try_from(wave - 1).unwrap_or(usize::MAX);
    let rules = set["spec"]["rollout"]["waves"].as_array();
    let rule = rules.and_then(|rules| rules.get(at));
    let null = Value::Null;
    let rule = rule.unwrap_or(&null);
    let seconds = |field: &str, default: i64| {
        let seconds = text(rule, &[field]).trim_end_matches('s').parse();
        SignedDuration::from_secs(seconds.unwrap_or(default))
    };
    WaveTerms {
        most_ill: rule["maxUnhealthy"]
            .as_u64()
            .map_or(0, |most| usize::try_from(most).unwrap_or(usize::MAX)),
        healthy_for: seconds("healthyFor", 0),
        deadline: seconds("deadline", 600),
        pauses: rule["pause"] == true,
    }
}

fn matches(affinity: &Value, cluster: &str) -> bool {
    if let Some(names) = affinity["clusterNames"].as_array() {
        return names.iter().any(|name| name == cluster);
    }
    let size = &affinity["labelSelector"]["matchLabels"]["size"];
    size.is_null() || labels(cluster).get("size").is_some_and(|own| size == own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(names: &[&str]) -> Names {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn clusters_are_in_the_first_wave_that_has_them() {
        let all = names(&MEMBERS);
        let of = |name: &str| json!({ "clusterAffinity": { "clusterNames": [name] } });
        let small = json!({ "labelSelector": { "matchLabels": { "size": "small" } } });
        let cases = [
            (json!(null), names(&[]), vec![all.clone()]),
            (
                json!([of("member2"), { "clusterAffinity": small }]),
                names(&[]),
                vec![
                    names(&["member2"]),
                    names(&["member3"]),
                    names(&["member1"]),
                ],
            ),
            (
                json!([{ "percent": 34 }, { "percent": 100 }]),
                names(&[]),
                vec![names(&["member1", "member2"]), names(&["member3"])],
            ),
            // Those that are reached come first.
            (
                json!([{ "percent": 33 }]),
                names(&["member3"]),
                vec![names(&["member3"]), names(&["member1", "member2"])],
            ),
        ];
        for (rules, reached, expected) in cases {
            let set = json!({ "spec": { "rollout": { "waves": rules } } });
            assert_eq!(waves(&set, &all, &reached), expected, "{rules}");
        }
    }

    #[test]
    fn a_fleet_has_all_selected_clusters_and_any_others() {
        let affinity = json!({ "clusterNames": ["member1", "member2"] });
        let set = json!({ "spec": { "placement": { "clusterAffinity": affinity } } });
        assert_eq!(selected(&set), names(&["member1", "member2"]));
        assert_eq!(fleets(&set).len(), 2);
        assert_eq!(fleets(&json!({})), [names(&MEMBERS)]);
    }
}
