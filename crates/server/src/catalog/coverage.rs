//! What a store holds of a cluster's objects of one resource, and the assignment of namespaces to
//! stores where several hold some of them.
//!
//! Guarantee: every stored object is queried from exactly one store. Where namespaces alone cannot
//! separate the stores, it is an error that names them.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, Namespace, StoreName},
    query::Grant,
};

/// What a store holds of a cluster's objects of one resource. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreCoverage {
    /// Every object outside these namespaces.
    all_but: Option<BTreeSet<Namespace>>,
    /// Every object of these namespaces.
    whole: BTreeSet<Namespace>,
    /// Some objects of these namespaces, by their labels or fields.
    some_of: BTreeSet<Namespace>,
    /// Some objects of any namespace.
    some_anywhere: bool,
}

impl StoreCoverage {
    /// Every object.
    pub fn everything() -> Self {
        Self {
            all_but: Some(BTreeSet::new()),
            ..Self::default()
        }
    }

    /// Every object of the namespaces `only`, or of all, without those `excluded`.
    pub fn of_namespaces(
        only: Option<&BTreeSet<Namespace>>,
        excluded: &BTreeSet<Namespace>,
    ) -> Self {
        match only {
            Some(only) => Self {
                whole: only.difference(excluded).cloned().collect(),
                ..Self::default()
            },
            None => Self {
                all_but: Some(excluded.clone()),
                ..Self::default()
            },
        }
    }

    /// Some objects of the namespaces `only`, or of any.
    pub fn some_of(only: Option<&BTreeSet<Namespace>>) -> Self {
        match only {
            Some(only) => Self {
                some_of: only.clone(),
                ..Self::default()
            },
            None => Self {
                some_anywhere: true,
                ..Self::default()
            },
        }
    }

    /// Adds another coverage.
    pub fn extend(&mut self, other: &Self) {
        self.all_but = match (self.all_but.take(), &other.all_but) {
            (Some(left), Some(right)) => Some(left.intersection(right).cloned().collect()),
            (left, right) => left.or_else(|| right.clone()),
        };
        self.whole.extend(other.whole.iter().cloned());
        self.some_of.extend(other.some_of.iter().cloned());
        self.some_anywhere |= other.some_anywhere;
    }

    /// Whether it has every object of a namespace, or every one at all.
    pub fn holds_all_of(&self, namespace: Option<&Namespace>) -> bool {
        namespace.map_or_else(|| self.is_everything(), |name| self.holds_whole(name))
    }

    fn is_everything(&self) -> bool {
        self.all_but
            .as_ref()
            .is_some_and(|excluded| excluded.is_subset(&self.whole))
    }

    /// Whether it has every object of a namespace.
    fn holds_whole(&self, name: &Namespace) -> bool {
        let is_not_excluded = |excluded: &BTreeSet<Namespace>| !excluded.contains(name);
        self.whole.contains(name) || self.all_but.as_ref().is_some_and(is_not_excluded)
    }

    /// Whether it may have some objects of a namespace, by their labels or fields.
    fn holds_some(&self, name: &Namespace) -> bool {
        self.some_anywhere || self.some_of.contains(name)
    }

    fn holds_any(&self, name: &Namespace) -> bool {
        self.holds_whole(name) || self.holds_some(name)
    }
}

/// Stores hold objects of the same namespace, and nothing separates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The cluster.
    pub cluster: ClusterName,
    /// The stores.
    pub stores: Vec<StoreName>,
}

/// A store, and what it holds of one cluster's objects of a resource.
type StoreHolding<'n> = (&'n StoreName, &'n StoreCoverage);

/// The namespaces that a store is queried for; `None`: all that it holds.
type AssignedNamespaces<'n> = Option<BTreeSet<&'n Namespace>>;

/// Assigns the namespaces of `clusters` to stores; `None`: everything that the store holds.
pub fn assign(
    holders: &BTreeMap<&StoreName, BTreeMap<&ClusterName, &StoreCoverage>>,
    clusters: &BTreeSet<ClusterName>,
) -> Result<BTreeMap<StoreName, Option<Vec<Grant>>>, Overlap> {
    if let [only] = holders.keys().collect::<Vec<_>>().as_slice() {
        return Ok([((**only).clone(), None)].into());
    }
    let mut assigned: BTreeMap<StoreName, BTreeMap<AssignedNamespaces<'_>, Vec<ClusterName>>> =
        BTreeMap::new();
    for cluster in clusters {
        let of_cluster: Vec<StoreHolding<'_>> = holders
            .iter()
            .filter_map(|(store, coverages)| Some((*store, *coverages.get(cluster)?)))
            .collect();
        let of_stores = assign_cluster(&of_cluster).map_err(|stores| Overlap {
            cluster: cluster.clone(),
            stores,
        })?;
        for (store, namespaces) in of_stores {
            let of_store = assigned.entry(store.clone()).or_default();
            of_store
                .entry(namespaces)
                .or_default()
                .push(cluster.clone());
        }
    }
    let grant = |(names, clusters): (AssignedNamespaces<'_>, Vec<ClusterName>)| Grant {
        clusters: Some(clusters),
        namespaces: names.map(|names| names.into_iter().cloned().collect()),
    };
    Ok(assigned
        .into_iter()
        .map(|(store, grants)| (store, Some(grants.into_iter().map(grant).collect())))
        .collect())
}

/// Assigns the namespaces of one cluster to stores. The first store that holds all namespaces, or
/// all but some, is preferred: it is the base, and is queried for all that it holds.
fn assign_cluster<'n>(
    holders: &[StoreHolding<'n>],
) -> Result<Vec<(&'n StoreName, AssignedNamespaces<'n>)>, Vec<StoreName>> {
    if let [(store, _)] = holders {
        return Ok(vec![(store, None)]);
    }
    let mut whole = holders.iter();
    if let Some((store, _)) = whole.find(|(_, coverage)| coverage.is_everything()) {
        return Ok(vec![(store, None)]);
    }
    let mut bases = holders.iter().copied();
    let base = bases.find(|(_, coverage)| coverage.all_but.is_some());
    if base.is_none() && holders.iter().any(|(_, coverage)| coverage.some_anywhere) {
        return Err(holders.iter().map(|(store, _)| (*store).clone()).collect());
    }
    let mut others = holders.to_vec();
    others.retain(|(store, _)| base.is_none_or(|(base, _)| base != *store));
    let mut unassigned = namespaces_for_others(base, holders);
    if let Some(base) = base {
        check_overlap(base, &others, &unassigned)?;
    }
    let mut assigned = assign_whole(&others, &mut unassigned);
    for name in unassigned {
        if let Some(store) = only_partial_holder(name, holders)?
            // The base is queried for all that it holds in any case.
            && base.is_none_or(|(base, _)| base != store)
        {
            assigned.entry(store).or_default().insert(name);
        }
    }
    let assigned = assigned.into_iter().filter(|(_, names)| !names.is_empty());
    let assigned = assigned.map(|(store, names)| (store, Some(names)));
    let base = base.into_iter().map(|(store, _)| (store, None));
    Ok(base.chain(assigned).collect())
}

/// The namespaces to assign to stores other than the base: those that the base does not hold whole,
/// or without a base all that some store names.
fn namespaces_for_others<'n>(
    base: Option<StoreHolding<'n>>,
    holders: &[StoreHolding<'n>],
) -> BTreeSet<&'n Namespace> {
    match base {
        Some((_, coverage)) => {
            let excluded = coverage.all_but.iter().flatten();
            excluded
                .filter(|name| !coverage.whole.contains(*name))
                .collect()
        }
        None => {
            let coverages = holders.iter().map(|(_, coverage)| coverage);
            coverages
                .flat_map(|one| one.whole.iter().chain(&one.some_of))
                .collect()
        }
    }
}

/// Refuses a namespace of which both the base and another store hold objects: the base would be
/// queried for it, too.
fn check_overlap(
    (base, base_coverage): StoreHolding<'_>,
    others: &[StoreHolding<'_>],
    namespaces: &BTreeSet<&Namespace>,
) -> Result<(), Vec<StoreName>> {
    let of_base = namespaces
        .iter()
        .filter(|name| base_coverage.holds_any(name));
    for name in of_base {
        if let Some((other, _)) = others.iter().find(|(_, coverage)| coverage.holds_any(name)) {
            return Err(vec![base.clone(), (*other).clone()]);
        }
    }
    Ok(())
}

/// Assigns each namespace to the first store that holds all of its objects, and removes it from
/// `unassigned`.
fn assign_whole<'n>(
    others: &[StoreHolding<'n>],
    unassigned: &mut BTreeSet<&'n Namespace>,
) -> BTreeMap<&'n StoreName, BTreeSet<&'n Namespace>> {
    let mut assigned: BTreeMap<&StoreName, BTreeSet<&Namespace>> = BTreeMap::new();
    for (store, coverage) in others {
        let names: Vec<&Namespace> = unassigned
            .iter()
            .copied()
            .filter(|name| coverage.holds_whole(name))
            .collect();
        unassigned.retain(|name| !names.contains(name));
        assigned.entry(store).or_default().extend(names);
    }
    assigned
}

/// The only store that holds some objects of a namespace; an error that names them if there are
/// several.
fn only_partial_holder<'n>(
    name: &Namespace,
    holders: &[StoreHolding<'n>],
) -> Result<Option<&'n StoreName>, Vec<StoreName>> {
    let holding = holders
        .iter()
        .filter(|(_, coverage)| coverage.holds_some(name));
    let holding: Vec<&'n StoreName> = holding.map(|(store, _)| *store).collect();
    match *holding.as_slice() {
        [] => Ok(None),
        [store] => Ok(Some(store)),
        ref several => Err(several.iter().map(|store| (*store).clone()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Namespace> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn store(name: &str) -> StoreName {
        name.parse().unwrap()
    }

    fn assigned(coverages: &[(&str, StoreCoverage)]) -> Result<String, Vec<StoreName>> {
        let stores: Vec<(StoreName, StoreCoverage)> = coverages
            .iter()
            .map(|(name, coverage)| (store(name), coverage.clone()))
            .collect();
        let holders: Vec<(&StoreName, &StoreCoverage)> = stores
            .iter()
            .map(|(name, coverage)| (name, coverage))
            .collect();
        let shown = |(store, names): (&StoreName, AssignedNamespaces<'_>)| match names {
            None => format!("{store}: all"),
            Some(names) => format!(
                "{store}: {}",
                names
                    .iter()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        };
        Ok(assign_cluster(&holders)?
            .into_iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join("; "))
    }

    fn only(list: &[&str]) -> StoreCoverage {
        StoreCoverage::of_namespaces(Some(&names(list)), &BTreeSet::new())
    }

    fn all_but(list: &[&str]) -> StoreCoverage {
        StoreCoverage::of_namespaces(None, &names(list))
    }

    fn some_of(list: &[&str]) -> StoreCoverage {
        StoreCoverage::some_of(Some(&names(list)))
    }

    #[test]
    fn each_namespace_is_assigned_to_one_store() {
        let text = |coverages: &[(&str, StoreCoverage)]| assigned(coverages).unwrap();
        assert_eq!(
            text(&[("a", only(&["x"])), ("b", StoreCoverage::everything())]),
            "b: all"
        );
        assert_eq!(
            text(&[("a", only(&["x", "y"])), ("b", only(&["y", "z"]))]),
            "a: x y; b: z"
        );
        assert_eq!(
            text(&[("a", only(&["x", "y"])), ("b", all_but(&["x", "z"]))]),
            "b: all; a: x"
        );
        assert_eq!(
            text(&[("a", some_of(&["x", "y"])), ("b", only(&["y"]))]),
            "a: x; b: y"
        );
        assert_eq!(
            text(&[("a", StoreCoverage::some_of(None)), ("b", all_but(&["x"]))]),
            "b: all; a: x"
        );
        let mut both = only(&["x"]);
        both.extend(&all_but(&["x"]));
        assert_eq!(text(&[("a", only(&["x"])), ("b", both)]), "b: all");
    }

    #[test]
    fn stores_that_nothing_separates_are_named() {
        let both = || vec![store("a"), store("b")];
        assert_eq!(
            assigned(&[("a", StoreCoverage::some_of(None)), ("b", only(&["x"]))]),
            Err(both())
        );
        assert_eq!(
            assigned(&[("a", some_of(&["x"])), ("b", some_of(&["x", "y"]))]),
            Err(both())
        );
    }

    fn coverage() -> impl Strategy<Value = StoreCoverage> {
        let some = || prop::collection::btree_set(prop::sample::select(vec!["x", "y", "z"]), 0..3);
        let set = |list: BTreeSet<&str>| {
            list.iter()
                .map(|name| name.parse().unwrap())
                .collect::<BTreeSet<Namespace>>()
        };
        (prop::option::of(some()), some(), some(), any::<bool>()).prop_map(
            move |(all_but, whole, some_of, anywhere)| StoreCoverage {
                all_but: all_but.map(set),
                whole: set(whole),
                some_of: set(some_of),
                some_anywhere: anywhere,
            },
        )
    }

    proptest! {
        /// `w` stands for all namespaces that no coverage names.
        #[test]
        fn every_stored_object_is_queried_from_exactly_one_store(coverages in prop::collection::vec(coverage(), 1..4)) {
            let stores: Vec<(StoreName, StoreCoverage)> =
                coverages.into_iter().enumerate().map(|(number, coverage)| (store(&number.to_string()), coverage)).collect();
            let holders: Vec<(&StoreName, &StoreCoverage)> = stores.iter().map(|(name, coverage)| (name, coverage)).collect();
            let Ok(assigned) = assign_cluster(&holders) else { return Ok(()) };
            for name in names(&["w", "x", "y", "z"]) {
                let is_whole = |coverage: &StoreCoverage| {
                    coverage.whole.contains(&name) || coverage.all_but.as_ref().is_some_and(|excluded| !excluded.contains(&name))
                };
                let has_some = |coverage: &StoreCoverage| is_whole(coverage) || coverage.some_anywhere || coverage.some_of.contains(&name);
                // A store may also be queried for namespaces of which it holds nothing.
                let queried: Vec<&StoreCoverage> = assigned
                    .iter()
                    .filter(|(_, names)| names.as_ref().is_none_or(|names| names.contains(&name)))
                    .filter_map(|(store, _)| holders.iter().find(|(known, _)| known == store).map(|(_, coverage)| *coverage))
                    .filter(|coverage| has_some(coverage))
                    .collect();
                let holding: Vec<&StoreCoverage> = holders.iter().map(|(_, coverage)| *coverage).filter(|coverage| has_some(coverage)).collect();
                prop_assert!(queried.len() <= 1, "{name}: queried twice: {assigned:?}");
                prop_assert_eq!(queried.is_empty(), holding.is_empty(), "{}: {:?}", name, assigned);
                if holding.iter().any(|coverage| is_whole(coverage)) {
                    prop_assert!(queried.iter().all(|coverage| is_whole(coverage)), "{name}: only some of it: {assigned:?}");
                }
            }
        }
    }
}
