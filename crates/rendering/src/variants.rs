//! For what a source is rendered whose clusters differ: once for each version of Kubernetes and API
//! versions that they have.
//!
//! Guarantees: there are at most [`MAX_VARIANTS`] renderings. Every cluster fits one: it has the
//! version that the rendering is for, or a newer one, and all of its API versions. Neither depends
//! on the order of clusters.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{digest::Sha256Digest, source::Capabilities, version::parse_version};

/// Renderings of one source, at most: a fleet has some versions of Kubernetes, and as many sets of
/// definitions as it has teams.
pub const MAX_VARIANTS: usize = 16;

/// Major, minor and patch of a version of Kubernetes.
type VersionNumbers = (u64, u64, u64);

/// For what a source is rendered, so that each of these clusters fits: the newest version first.
///
/// These are the distinct capabilities of the clusters. If there are too many, those of one version
/// of Kubernetes are united, with the API versions that all of them serve, and then the nearest
/// versions, from the lowest on, to the lower one of both.
pub fn render_targets<'c>(
    clusters: impl IntoIterator<Item = &'c Capabilities>,
) -> Vec<Capabilities> {
    let distinct: BTreeSet<&Capabilities> = clusters.into_iter().collect();
    let mut targets: Vec<Capabilities> = distinct.into_iter().cloned().collect();
    if targets.len() > MAX_VARIANTS {
        targets = united(&targets);
    }
    targets.sort_by_cached_key(|one| Reverse((rank(one), one.clone())));
    targets
}

/// Which of the renderings a cluster has: of those that it fits that of the newest version, and of
/// the most API versions. A cluster that fits none has the one that asks for the least that it does
/// not have. `None`: there is no rendering.
pub fn best_variant<'v>(
    variants: impl IntoIterator<Item = &'v Capabilities>,
    cluster: &Capabilities,
) -> Option<usize> {
    let version = numbers(cluster);
    let key = |variant: &Capabilities| {
        let of_variant = numbers(variant);
        let is_newer = of_variant > version;
        let missing = variant.missing_in(cluster);
        // Of newer ones the lowest is the nearest, of the others the highest.
        let below = (!is_newer).then_some(of_variant);
        let above = is_newer.then_some(of_variant);
        let number = variant.api_versions().count();
        (is_newer, missing, Reverse(below), above, Reverse(number))
    };
    let variants = variants.into_iter().enumerate();
    let best = variants.min_by_key(|(position, variant)| (key(variant), *position));
    best.map(|(position, _)| position)
}

/// The digest of a revision: that of its rendering, or of all of them if there are several.
pub fn revision_digest<'d>(renderings: impl IntoIterator<Item = &'d Sha256Digest>) -> Sha256Digest {
    let distinct: BTreeSet<&Sha256Digest> = renderings.into_iter().collect();
    let texts: Vec<&str> = distinct.iter().map(|one| one.as_str()).collect();
    match distinct.first() {
        Some(only) if texts.len() == 1 => (*only).clone(),
        _ => Sha256Digest::of(texts.join("\n").as_bytes()),
    }
}

/// At most [`MAX_VARIANTS`], of which each cluster fits one.
fn united(targets: &[Capabilities]) -> Vec<Capabilities> {
    let mut by_version: BTreeMap<VersionNumbers, Capabilities> = BTreeMap::new();
    for one in targets {
        let version = numbers(one);
        let known = by_version.remove(&version);
        let both = known.map_or_else(|| one.clone(), |known| known.common(one));
        by_version.insert(version, both);
    }
    while by_version.len() > MAX_VARIANTS {
        let versions: Vec<VersionNumbers> = by_version.keys().copied().collect();
        let pairs = versions.iter().zip(versions.iter().skip(1));
        let nearest = pairs.min_by_key(|(lower, higher)| distance(**lower, **higher));
        let Some((lower, higher)) = nearest else {
            break;
        };
        if let (Some(below), Some(above)) = (by_version.remove(lower), by_version.remove(higher)) {
            by_version.insert(*lower, below.common(&above));
        }
    }
    by_version.into_values().collect()
}

/// How far a version is from a lower one.
fn distance(lower: VersionNumbers, higher: VersionNumbers) -> VersionNumbers {
    let (major, minor) = (higher.0 - lower.0, higher.1.abs_diff(lower.1));
    let is_same_minor = (major, minor) == (0, 0);
    let patch = if is_same_minor {
        higher.2.abs_diff(lower.2)
    } else {
        0
    };
    (major, minor, patch)
}

fn rank(one: &Capabilities) -> (VersionNumbers, usize) {
    (numbers(one), one.api_versions().count())
}

/// Of a version that is none: zeros.
fn numbers(one: &Capabilities) -> VersionNumbers {
    let version = parse_version(one.kubernetes_version());
    version.map_or((0, 0, 0), |version| {
        (version.major, version.minor, version.patch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: &str, served: &[&str]) -> Capabilities {
        Capabilities::new(version, served.iter().map(|&one| one.to_owned()))
    }

    fn shown(targets: &[Capabilities]) -> Vec<String> {
        let targets = targets.iter().map(|one| {
            let served: Vec<&str> = one.api_versions().collect();
            format!("{} {}", one.kubernetes_version(), served.join(","))
        });
        targets.collect()
    }

    #[test]
    fn what_differs_is_rendered_each_and_the_newest_version_comes_first() {
        let clusters = [
            of("1.9.7", &[]),
            of("1.36.3", &["x/v1"]),
            of("1.35.0", &["x/v1"]),
            of("1.36.3", &[]),
            of("1.36.3", &["x/v1"]),
        ];
        let targets = render_targets(&clusters);
        let expected = ["1.36.3 x/v1", "1.36.3 ", "1.35.0 x/v1", "1.9.7 "];
        assert_eq!(shown(&targets), expected);
        assert_eq!(render_targets([]), []);
    }

    #[test]
    fn too_many_are_united_by_version_and_then_to_the_nearest_lower_version() {
        let mut clusters: Vec<Capabilities> = (0..20)
            .map(|number| of("1.36.3", &["x/v1", &format!("team{number}/v1")]))
            .collect();
        assert_eq!(shown(&render_targets(&clusters)), ["1.36.3 x/v1"]);
        clusters.extend((1..=17).map(|minor| of(&format!("1.{minor}.0"), &["x/v1", "y/v1"])));
        clusters.push(of("1.5.1", &["y/v1"]));
        let targets = render_targets(&clusters);
        assert_eq!(targets.len(), MAX_VARIANTS);
        let shown = shown(&targets);
        assert_eq!(shown[0], "1.36.3 x/v1");
        // The patches of one minor version first, and then the lowest versions.
        let last = ["1.5.0 y/v1", "1.3.0 x/v1,y/v1", "1.1.0 x/v1,y/v1"];
        assert_eq!(shown[13..], last);
    }

    #[test]
    fn a_cluster_has_the_newest_rendering_that_it_fits() {
        let variants = [
            of("1.36.3", &["x/v1", "y/v1"]),
            of("1.36.3", &["x/v1"]),
            of("1.35.0", &[]),
            of("1.33.0", &["x/v1"]),
        ];
        for (cluster, expected) in [
            (of("1.36.3", &["x/v1", "y/v1"]), 0),
            (of("1.37.0", &["x/v1", "y/v1", "z/v1"]), 0),
            (of("1.36.3", &["x/v1", "z/v1"]), 1),
            // It lacks what the newer ones ask for.
            (of("1.36.3", &["z/v1"]), 2),
            (of("1.35.9", &["x/v1", "y/v1"]), 2),
            (of("1.34.0", &["x/v1"]), 3),
            // It fits none: the API version is what it lacks, or the version.
            (of("1.34.0", &[]), 3),
            (of("1.20.0", &["x/v1", "y/v1"]), 3),
            (of("1.20.0", &[]), 2),
        ] {
            let found = best_variant(&variants, &cluster);
            assert_eq!(found, Some(expected), "{cluster:?}");
        }
        assert_eq!(best_variant([], &of("1.36.3", &[])), None);
    }

    /// Clusters of a pseudo-random fleet.
    fn fleet(seed: u64, clusters: usize) -> Vec<Capabilities> {
        let mut state = seed;
        let mut next = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let cluster = |_| {
            let version = format!("1.{}.{}", 20 + next(17), next(4));
            let served = (0..6).filter(|_| next(2) == 0);
            let served: Vec<String> = served.map(|number| format!("team{number}/v1")).collect();
            Capabilities::new(&version, served)
        };
        (0..clusters).map(cluster).collect()
    }

    #[test]
    fn every_cluster_fits_its_rendering_in_whatever_order_clusters_come() {
        for seed in 0..200 {
            let size = usize::try_from(seed % 40).unwrap();
            let mut clusters = fleet(seed, size);
            let targets = render_targets(&clusters);
            assert!(targets.len() <= MAX_VARIANTS);
            clusters.reverse();
            assert_eq!(render_targets(&clusters), targets);
            assert_eq!(render_targets(&targets), targets, "nothing more is united");
            let distinct: BTreeSet<&Capabilities> = clusters.iter().collect();
            for cluster in &clusters {
                let found = &targets[best_variant(&targets, cluster).unwrap()];
                assert!(numbers(found) <= numbers(cluster), "seed {seed}");
                assert_eq!(found.missing_in(cluster), 0, "seed {seed}");
                if distinct.len() <= MAX_VARIANTS {
                    assert_eq!(found, cluster);
                }
            }
        }
    }

    #[test]
    fn the_digest_of_a_revision_is_that_of_its_renderings() {
        let [a, b] = ["a", "b"].map(|name| Sha256Digest::of(name.as_bytes()));
        assert_eq!(revision_digest([&a]), a);
        assert_eq!(revision_digest([&a, &a]), a);
        assert_eq!(revision_digest([&a, &b]), revision_digest([&b, &a]));
        let all = [revision_digest([&a, &b]), a, b, revision_digest([])];
        let distinct: BTreeSet<&Sha256Digest> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
