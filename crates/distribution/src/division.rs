//! Divides replicas over clusters, as Karmada does.
//!
//! All divisions are by Webster's method: one replica after the other goes to the cluster with the
//! greatest weight / (2 · replicas + 1). One replica more never takes one from a cluster.
//! Source: `pkg/util/helper/webstermethod.go` and `pkg/scheduler/core/division_algorithm.go` of
//! Karmada.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

/// Replicas by the name of the cluster.
pub type Shares = BTreeMap<String, i64>;

/// The most replicas that are divided: those of a Deployment are an int32.
pub const MAX_REPLICAS: i64 = i32::MAX as i64;

/// Which of two clusters with the same claim gets a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// The first by name.
    First,
    /// The last by name.
    Last,
}

impl TieBreak {
    /// By the UID of the template, so that not every rest goes to the same cluster: its FNV-1a hash
    /// of 32 bits is even or odd.
    pub fn of_uid(uid: &str) -> Self {
        let hash = uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        if uid.is_empty() || hash.is_multiple_of(2) {
            Self::First
        } else {
            Self::Last
        }
    }
}

/// There is less room than replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is room for {room} of {wanted} replicas in the clusters that fit")]
pub struct NoRoom {
    /// The replicas for which there is room.
    pub room: i64,
    /// The replicas to place.
    pub wanted: i64,
}

/// Divides an amount by weights. Clusters without a weight get nothing and are not in the result,
/// nor are those whose share is 0.
pub fn by_weight(amount: i64, weights: &Shares, tie: TieBreak) -> Shares {
    let amount = amount.clamp(0, MAX_REPLICAS);
    let claims: Vec<Claimant<'_>> = weights
        .iter()
        .filter(|(_, weight)| **weight > 0)
        .map(|(cluster, weight)| Claimant {
            cluster,
            weight: weight.unsigned_abs().into(),
            seats: 0,
            tie,
        })
        .collect();
    let mut claims = certain_seats(claims, amount.unsigned_abs().into());
    let given: u128 = claims.iter().map(|claim| claim.seats).sum();
    let rest = amount
        .unsigned_abs()
        .saturating_sub(u64::try_from(given).unwrap_or(u64::MAX));
    let mut queue: BinaryHeap<Claimant<'_>> = claims.drain(..).collect();
    for _ in 0..rest {
        let Some(mut next) = queue.peek_mut() else {
            break;
        };
        next.seats += 1;
    }
    queue
        .into_iter()
        .filter(|claim| claim.seats > 0)
        .map(|claim| {
            let seats = i64::try_from(claim.seats).unwrap_or(MAX_REPLICAS);
            (claim.cluster.to_owned(), seats)
        })
        .collect()
}

/// Gives all seats whose claim is above a bound, so that few remain to be given one by one:
/// otherwise an object with 2 billion replicas would cost as many steps.
fn certain_seats(mut claims: Vec<Claimant<'_>>, amount: u128) -> Vec<Claimant<'_>> {
    let Some(greatest) = claims.iter().map(|claim| claim.weight).max() else {
        return claims;
    };
    // A claim is at least 1/x if (2 · seats + 1) · unit <= weight · x. With this unit, one step of
    // x gives a cluster at most one seat.
    let unit = 2 * greatest;
    let seats_at = |weight: u128, x: u128| (weight * x / unit).div_ceil(2);
    let total_at = |x: u128| -> u128 {
        let seats = claims.iter().map(|claim| seats_at(claim.weight, x));
        seats.fold(0, u128::saturating_add)
    };
    let (mut fits, mut exceeds) = (0, 4 * amount + 8);
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if total_at(middle) <= amount {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    for claim in &mut claims {
        claim.seats = seats_at(claim.weight, fits);
    }
    claims
}

/// A cluster while replicas are given; the greatest one gets the next.
#[derive(Debug)]
struct Claimant<'a> {
    cluster: &'a str,
    weight: u128,
    seats: u128,
    tie: TieBreak,
}

impl Ord for Claimant<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let claim = |one: &Self, another: &Self| one.weight * (2 * another.seats + 1);
        let by_name = match self.tie {
            TieBreak::First => other.cluster.cmp(self.cluster),
            TieBreak::Last => self.cluster.cmp(other.cluster),
        };
        claim(self, other)
            .cmp(&claim(other, self))
            .then_with(|| other.seats.cmp(&self.seats))
            .then(by_name)
    }
}

impl PartialOrd for Claimant<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claimant<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Claimant<'_> {}

/// A division by the room in clusters.
#[derive(Clone, Debug)]
pub struct DivisionByRoom<'a> {
    /// The replicas to place.
    pub wanted: i64,
    /// How many replicas more each cluster has room for; the clusters that fit.
    pub room: &'a Shares,
    /// The replicas that clusters have now.
    pub previous: &'a Shares,
    /// Whether the replicas go to as few clusters as possible.
    pub is_aggregated: bool,
    /// Whether they are divided anew, and not as near as possible to what clusters have now.
    pub is_fresh: bool,
    /// Which of two clusters with the same claim gets a replica.
    pub tie: TieBreak,
}

impl DivisionByRoom<'_> {
    /// The replicas of each cluster.
    pub fn divide(&self) -> Result<Shares, NoRoom> {
        let previous: Shares = self
            .previous
            .iter()
            .filter(|(cluster, replicas)| **replicas > 0 && self.room.contains_key(*cluster))
            .map(|(cluster, replicas)| (cluster.clone(), *replicas))
            .collect();
        let assigned = sum(previous.values());
        if self.is_fresh {
            let mut weights = self.room.clone();
            for (cluster, replicas) in &previous {
                let weight = weights.entry(cluster.clone()).or_default();
                *weight = weight.saturating_add(*replicas);
            }
            return self.share(self.wanted, &weights, &Shares::new());
        }
        match self.wanted.cmp(&assigned) {
            Ordering::Equal => Ok(previous),
            Ordering::Less => self.share(self.wanted, &previous, &Shares::new()),
            Ordering::Greater => {
                let mut shares = self.share(self.wanted - assigned, self.room, &previous)?;
                for (cluster, replicas) in previous {
                    *shares.entry(cluster).or_default() += replicas;
                }
                Ok(shares)
            }
        }
    }

    /// Divides an amount by weights; if aggregated, over the fewest clusters, beginning with those
    /// of `kept`.
    fn share(&self, amount: i64, weights: &Shares, kept: &Shares) -> Result<Shares, NoRoom> {
        let room = sum(weights.values());
        if room < amount {
            return Err(NoRoom {
                room: room.saturating_add(sum(kept.values())),
                wanted: self.wanted,
            });
        }
        if !self.is_aggregated {
            return Ok(by_weight(amount, weights, self.tie));
        }
        let mut ordered: Vec<(&String, i64)> = weights
            .iter()
            .map(|(cluster, weight)| (cluster, *weight))
            .collect();
        ordered.sort_by_key(|(cluster, weight)| {
            let is_kept = kept.get(*cluster).is_some_and(|replicas| *replicas > 0);
            (!is_kept, Reverse(*weight), *cluster)
        });
        let mut chosen = Shares::new();
        let mut total = 0_i64;
        for (cluster, weight) in ordered {
            if total >= amount {
                break;
            }
            total = total.saturating_add(weight.max(0));
            chosen.insert(cluster.clone(), weight);
        }
        Ok(by_weight(amount, &chosen, self.tie))
    }
}

/// Divides by room over tiers of clusters, of which each is filled before the next one.
pub fn by_tiers(
    division: &DivisionByRoom<'_>,
    tiers: &[BTreeSet<String>],
) -> Result<Shares, NoRoom> {
    let mut rest = division.wanted;
    let mut shares = Shares::new();
    for tier in tiers {
        let within = |shares: &Shares| -> Shares {
            let inside = shares.iter().filter(|(cluster, _)| tier.contains(*cluster));
            inside.map(|(name, count)| (name.clone(), *count)).collect()
        };
        let room = within(division.room);
        let mut previous = within(division.previous);
        previous.retain(|cluster, _| room.contains_key(cluster));
        let most = sum(room.values()).saturating_add(sum(previous.values()));
        let wanted = rest.min(most);
        if wanted == 0 {
            continue;
        }
        rest -= wanted;
        shares.extend(
            DivisionByRoom {
                wanted,
                room: &room,
                previous: &previous,
                ..division.clone()
            }
            .divide()?,
        );
    }
    if rest > 0 {
        return Err(NoRoom {
            room: division.wanted - rest,
            wanted: division.wanted,
        });
    }
    Ok(shares)
}

/// The sum of replicas, of which none is negative.
pub fn sum<'a>(replicas: impl IntoIterator<Item = &'a i64>) -> i64 {
    let counted = replicas.into_iter().map(|count| (*count).max(0));
    counted.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests;
