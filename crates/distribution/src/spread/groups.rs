//! Chooses groups of clusters, such as regions.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::values::{GroupBounds, NeededRoom, RankedCluster, SpreadError, SpreadKey};

/// How many sets of groups are compared. Where there are more, the first groups are taken and then
/// exchanged until they have enough clusters.
const MAX_SETS: usize = 50_000;

/// A choice of groups, such as regions.
pub(super) struct GroupChoice<'k> {
    pub(super) key: &'k SpreadKey,
    pub(super) bounds: GroupBounds,
    pub(super) least_clusters: usize,
    pub(super) needed: NeededRoom,
}

/// A group of clusters.
struct RankedGroup {
    name: String,
    score: i128,
    clusters: usize,
}

impl GroupChoice<'_> {
    /// The names of the chosen groups.
    pub(super) fn choose(
        &self,
        ordered: &[&RankedCluster<'_>],
    ) -> Result<BTreeSet<String>, SpreadError> {
        let mut members: BTreeMap<String, Vec<&RankedCluster<'_>>> = BTreeMap::new();
        for ranked in ordered {
            for group in self.key.groups(ranked.cluster) {
                members.entry(group).or_default().push(ranked);
            }
        }
        let mut groups: Vec<RankedGroup> = members
            .into_iter()
            .map(|(name, clusters)| RankedGroup {
                name,
                score: self.score(&clusters),
                clusters: clusters.len(),
            })
            .collect();
        if groups.len() < self.bounds.least {
            return Err(SpreadError::TooFew {
                by: self.key.to_string(),
                found: groups.len(),
                least: self.bounds.least,
            });
        }
        groups.sort_by(|one, other| {
            (Reverse(one.score), Reverse(one.clusters), &one.name).cmp(&(
                Reverse(other.score),
                Reverse(other.clusters),
                &other.name,
            ))
        });
        let most = self.bounds.most.min(groups.len());
        let chosen = if has_few_sets(groups.len(), most) {
            self.best_set(&groups, most)
        } else {
            self.exchanged_set(&groups, most)
        };
        let Some(mut chosen) = chosen else {
            return Err(SpreadError::TooFewClusters {
                by: self.key.to_string(),
                least: self.least_clusters,
            });
        };
        // As few groups as suffice.
        let mut clusters = 0;
        for (index, group) in chosen.iter().enumerate() {
            clusters += groups[*group].clusters;
            if index + 1 >= self.bounds.least && clusters >= self.least_clusters {
                chosen.truncate(index + 1);
                break;
            }
        }
        Ok(chosen
            .into_iter()
            .map(|group| groups[group].name.clone())
            .collect())
    }

    /// Room counts thousandfold, and then how much its clusters are preferred.
    fn score(&self, clusters: &[&RankedCluster<'_>]) -> i128 {
        let mean = |counted: &[&RankedCluster<'_>]| -> i128 {
            let total: i128 = counted.iter().map(|one| i128::from(one.score)).sum();
            total / i128::try_from(counted.len().max(1)).unwrap_or(i128::MAX)
        };
        match self.needed {
            NeededRoom::Each(replicas) => {
                let fitting: Vec<_> = clusters
                    .iter()
                    .filter(|one| one.available >= replicas)
                    .copied()
                    .collect();
                i128::try_from(fitting.len()).unwrap_or(0) * 1000 + mean(&fitting)
            }
            NeededRoom::Together(replicas) => {
                let groups = u64::try_from(self.bounds.least).unwrap_or(u64::MAX).max(1);
                let target = i128::from(replicas.max(0).unsigned_abs().div_ceil(groups));
                let least = self.least_clusters.max(self.bounds.least);
                let mut room = 0_i128;
                for (index, one) in clusters.iter().enumerate() {
                    room += i128::from(one.available);
                    if index + 1 >= least && room >= target {
                        return target * 1000 + mean(&clusters[..=index]);
                    }
                }
                room * 1000 + mean(clusters)
            }
        }
    }

    /// The set with the greatest score, then the most clusters, then the first groups.
    fn best_set(&self, groups: &[RankedGroup], most: usize) -> Option<Vec<usize>> {
        let mut best: Option<(i128, usize, Vec<usize>)> = None;
        let mut path = Vec::new();
        self.extend_set(groups, most, &mut path, &mut best);
        best.map(|(_, _, set)| set)
    }

    fn extend_set(
        &self,
        groups: &[RankedGroup],
        most: usize,
        path: &mut Vec<usize>,
        best: &mut Option<(i128, usize, Vec<usize>)>,
    ) {
        if path.len() >= self.bounds.least {
            let score = path.iter().map(|group| groups[*group].score).sum();
            let clusters = path.iter().map(|group| groups[*group].clusters).sum();
            let is_better = best
                .as_ref()
                .is_none_or(|(most, count, _)| (score, clusters) > (*most, *count));
            if clusters >= self.least_clusters && is_better {
                *best = Some((score, clusters, path.clone()));
            }
        }
        if path.len() == most {
            return;
        }
        let next = path.last().map_or(0, |last| last + 1);
        for group in next..groups.len() {
            path.push(group);
            self.extend_set(groups, most, path, best);
            path.pop();
        }
    }

    /// The first groups; while they have too few clusters, the last ones are exchanged for those
    /// with the most.
    fn exchanged_set(&self, groups: &[RankedGroup], most: usize) -> Option<Vec<usize>> {
        let mut chosen: Vec<usize> = (0..most).collect();
        let mut others: Vec<usize> = (most..groups.len()).collect();
        let clusters = |chosen: &[usize]| -> usize {
            chosen.iter().map(|group| groups[*group].clusters).sum()
        };
        for position in (0..most).rev() {
            if clusters(&chosen) >= self.least_clusters {
                break;
            }
            let largest = others.iter_mut().reduce(|best, one| {
                if groups[*one].clusters > groups[*best].clusters {
                    one
                } else {
                    best
                }
            });
            if let Some(other) = largest
                && groups[*other].clusters > groups[chosen[position]].clusters
            {
                std::mem::swap(&mut chosen[position], other);
            }
        }
        let suffices = clusters(&chosen) >= self.least_clusters;
        chosen.sort_unstable();
        suffices.then_some(chosen)
    }
}

/// Whether there are few enough sets of at most `most` of `groups` to compare them all.
fn has_few_sets(groups: usize, most: usize) -> bool {
    let mut total = 0;
    let mut of_size = 1;
    for size in 1..=most {
        // Below the bound, so that no product overflows.
        of_size = of_size * (groups + 1 - size) / size;
        total += of_size;
        if total > MAX_SETS {
            return false;
        }
    }
    true
}
