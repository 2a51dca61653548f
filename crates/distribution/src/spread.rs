//! Chooses clusters by spread constraints, as Karmada does, and also by zone, provider and label.
//!
//! Source: `pkg/scheduler/core/spreadconstraint` of Karmada. Where a cluster spans several zones it
//! is in the group of each.

use std::collections::BTreeSet;

use fleetdex_crds::policy::SpreadConstraint;

mod groups;
mod values;

use groups::GroupChoice;
use values::GroupBounds;
pub use values::{NeededRoom, RankedCluster, SpreadError, SpreadKey};

/// Chooses clusters that keep the constraints; the best ones first.
pub fn choose<'a>(
    constraints: &[SpreadConstraint],
    clusters: &[RankedCluster<'a>],
    needed: NeededRoom,
) -> Result<Vec<&'a str>, SpreadError> {
    let mut ordered: Vec<&RankedCluster<'a>> = clusters.iter().collect();
    ordered.sort_by_cached_key(|cluster| cluster.rank());
    let by_cluster = constraints
        .iter()
        .find(|one| SpreadKey::of(one) == SpreadKey::Cluster);
    let bounds = GroupBounds::of(by_cluster);
    let mut groups = Vec::new();
    for constraint in constraints {
        let key = SpreadKey::of(constraint);
        if key == SpreadKey::Cluster {
            continue;
        }
        let chosen = GroupChoice {
            key: &key,
            bounds: GroupBounds::of(Some(constraint)),
            least_clusters: bounds.least,
            needed,
        }
        .choose(&ordered)?;
        ordered.retain(|ranked| {
            let own = key.groups(ranked.cluster);
            // One in other groups as well would exceed the most of them.
            let fits = |group: &String| chosen.contains(group);
            if constraint.max_groups.is_some_and(|most| most > 0) {
                own.iter().all(fits)
            } else {
                own.iter().any(fits)
            }
        });
        groups.push((key, chosen));
    }
    let chosen = if groups.is_empty() {
        best_clusters(&ordered, bounds, needed)?
    } else {
        clusters_of_groups(&ordered, bounds, &groups)?
    };
    Ok(chosen
        .into_iter()
        .map(|ranked| ranked.cluster.name.as_str())
        .collect())
}

/// The first clusters in order; where they have too little room together, the last ones are
/// exchanged for those with the most room.
fn best_clusters<'r, 'a>(
    ordered: &[&'r RankedCluster<'a>],
    bounds: GroupBounds,
    needed: NeededRoom,
) -> Result<Vec<&'r RankedCluster<'a>>, SpreadError> {
    if ordered.len() < bounds.least {
        return Err(SpreadError::TooFew {
            by: SpreadKey::Cluster.to_string(),
            found: ordered.len(),
            least: bounds.least,
        });
    }
    let most = bounds.most.min(ordered.len());
    let (chosen, others) = ordered.split_at(most);
    let (mut chosen, mut others) = (chosen.to_vec(), others.to_vec());
    let NeededRoom::Together(wanted) = needed else {
        return Ok(chosen);
    };
    let wanted_room = i128::from(wanted);
    let mut room: i128 = chosen.iter().map(|one| i128::from(one.available)).sum();
    for one in chosen.iter_mut().rev() {
        if room >= wanted_room {
            break;
        }
        let roomiest = others.iter_mut().reduce(|best, other| {
            if other.available > best.available {
                other
            } else {
                best
            }
        });
        if let Some(other) = roomiest
            && other.available > one.available
        {
            room += i128::from(other.available) - i128::from(one.available);
            std::mem::swap(one, other);
        }
    }
    if room < wanted_room {
        return Err(SpreadError::NoRoom { most, wanted });
    }
    Ok(chosen)
}

/// For each group a cluster, of which those come first that stand for most groups, and then the
/// best others.
fn clusters_of_groups<'r, 'a>(
    ordered: &[&'r RankedCluster<'a>],
    bounds: GroupBounds,
    groups: &[(SpreadKey, BTreeSet<String>)],
) -> Result<Vec<&'r RankedCluster<'a>>, SpreadError> {
    let own: Vec<BTreeSet<(usize, String)>> = ordered
        .iter()
        .map(|ranked| {
            let of_key = |(index, (key, _)): (usize, &(SpreadKey, _))| {
                let names = key.groups(ranked.cluster);
                names.into_iter().map(move |name| (index, name))
            };
            groups.iter().enumerate().flat_map(of_key).collect()
        })
        .collect();
    let mut missing: BTreeSet<(usize, String)> = groups
        .iter()
        .enumerate()
        .flat_map(|(index, (_, names))| names.iter().map(move |name| (index, name.clone())))
        .collect();
    let mut is_chosen = vec![false; ordered.len()];
    while !missing.is_empty() {
        let gain = |position: &usize| own[*position].intersection(&missing).count();
        let best = (0..ordered.len()).rev().max_by_key(gain);
        let Some(best) = best.filter(|position| gain(position) > 0) else {
            break;
        };
        is_chosen[best] = true;
        missing.retain(|group| !own[best].contains(group));
    }
    let needed = is_chosen.iter().filter(|chosen| **chosen).count();
    if needed > bounds.most {
        return Err(SpreadError::TooManyGroups {
            needed,
            most: bounds.most,
        });
    }
    let mut free = bounds.most - needed;
    for chosen in &mut is_chosen {
        if !*chosen && free > 0 {
            *chosen = true;
            free -= 1;
        }
    }
    let chosen: Vec<_> = ordered
        .iter()
        .zip(&is_chosen)
        .filter_map(|(ranked, chosen)| chosen.then_some(*ranked))
        .collect();
    if chosen.len() < bounds.least {
        return Err(SpreadError::TooFew {
            by: SpreadKey::Cluster.to_string(),
            found: chosen.len(),
            least: bounds.least,
        });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests;
