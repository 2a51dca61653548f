//! What of a cluster's objects of one resource a store holds, and which store answers for what of it where several hold some.
//!
//! Guarantee: no two stores answer for the same object, and every object that a store holds is answered for by one of them. Where that
//! cannot be told by namespaces alone, it is an error that names the stores.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, Namespace, StoreName},
    query::Grant,
};

/// What of a cluster's objects of one resource a store holds. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Every object outside of these namespaces.
    all_but: Option<BTreeSet<Namespace>>,
    /// Every object of these namespaces.
    whole: BTreeSet<Namespace>,
    /// Some objects of these namespaces, by their labels or fields.
    some_of: BTreeSet<Namespace>,
    /// Some objects of any namespace.
    some_anywhere: bool,
}

impl Reach {
    /// Every object.
    pub fn everything() -> Self {
        Self {
            all_but: Some(BTreeSet::new()),
            ..Self::default()
        }
    }

    /// Every object of some namespaces, or of all but some.
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

    /// Some objects of some namespaces, or of any.
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

    /// Adds what is held for another reason, too.
    pub fn extend(&mut self, other: &Self) {
        self.all_but = match (self.all_but.take(), &other.all_but) {
            (Some(left), Some(right)) => Some(left.intersection(right).cloned().collect()),
            (left, right) => left.or_else(|| right.clone()),
        };
        self.whole.extend(other.whole.iter().cloned());
        self.some_of.extend(other.some_of.iter().cloned());
        self.some_anywhere |= other.some_anywhere;
    }

    fn is_everything(&self) -> bool {
        self.all_but
            .as_ref()
            .is_some_and(|excluded| excluded.is_subset(&self.whole))
    }
}

/// Stores hold parts of the same objects that cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The cluster.
    pub cluster: ClusterName,
    /// The stores.
    pub stores: Vec<StoreName>,
}

/// What a store answers for of a cluster.
type Area<'n> = Option<BTreeSet<&'n Namespace>>;

/// Which store answers for what of some clusters; nothing beside a store's name: for everything that it holds.
pub fn shares(
    holders: &BTreeMap<&StoreName, BTreeMap<&ClusterName, &Reach>>,
    clusters: &BTreeSet<ClusterName>,
) -> Result<BTreeMap<StoreName, Option<Vec<Grant>>>, Overlap> {
    if let [only] = holders.keys().collect::<Vec<_>>().as_slice() {
        return Ok([((**only).clone(), None)].into());
    }
    let mut areas: BTreeMap<StoreName, BTreeMap<Area<'_>, Vec<ClusterName>>> = BTreeMap::new();
    for cluster in clusters {
        let of_cluster: Vec<(&StoreName, &Reach)> = holders
            .iter()
            .filter_map(|(store, reaches)| Some((*store, *reaches.get(cluster)?)))
            .collect();
        let shared = share(&of_cluster).map_err(|stores| Overlap {
            cluster: cluster.clone(),
            stores,
        })?;
        for (store, area) in shared {
            areas
                .entry(store.clone())
                .or_default()
                .entry(area)
                .or_default()
                .push(cluster.clone());
        }
    }
    let grant = |(area, clusters): (Area<'_>, Vec<ClusterName>)| Grant {
        clusters: Some(clusters),
        namespaces: area.map(|names| names.into_iter().cloned().collect()),
    };
    Ok(areas
        .into_iter()
        .map(|(store, areas)| (store, Some(areas.into_iter().map(grant).collect())))
        .collect())
}

/// Which store answers for which namespaces of one cluster. The first store that has everything, or most, comes before the others.
fn share<'n>(
    holders: &[(&'n StoreName, &'n Reach)],
) -> Result<Vec<(&'n StoreName, Area<'n>)>, Vec<StoreName>> {
    if let [(store, _)] = holders {
        return Ok(vec![(store, None)]);
    }
    if let Some((store, _)) = holders.iter().find(|(_, reach)| reach.is_everything()) {
        return Ok(vec![(store, None)]);
    }
    let base = holders
        .iter()
        .find_map(|(store, reach)| Some((*store, *reach, reach.all_but.as_ref()?)));
    let others = || {
        holders
            .iter()
            .filter(|(store, _)| base.is_none_or(|(base, ..)| base != *store))
    };
    if base.is_none() && holders.iter().any(|(_, reach)| reach.some_anywhere) {
        return Err(holders.iter().map(|(store, _)| (*store).clone()).collect());
    }
    // Every namespace that is left to the others, and is not anybody's yet.
    let mut left: BTreeSet<&Namespace> = match base {
        Some((_, reach, excluded)) => excluded
            .iter()
            .filter(|name| !reach.whole.contains(*name))
            .collect(),
        None => holders
            .iter()
            .flat_map(|(_, reach)| reach.whole.iter().chain(&reach.some_of))
            .collect(),
    };
    if let Some((store, reach, _)) = base {
        let has_any = |reach: &Reach, name: &Namespace| {
            let has_all = reach
                .all_but
                .as_ref()
                .is_some_and(|excluded| !excluded.contains(name));
            has_all
                || reach.some_anywhere
                || reach.whole.contains(name)
                || reach.some_of.contains(name)
        };
        for name in left.iter().filter(|name| has_any(reach, name)) {
            if let Some((other, _)) = others().find(|(_, other)| has_any(other, name)) {
                return Err(vec![store.clone(), (*other).clone()]);
            }
        }
    }
    let mut areas: BTreeMap<&StoreName, BTreeSet<&Namespace>> = BTreeMap::new();
    for (store, reach) in others() {
        let is_whole = |name: &Namespace| {
            reach.whole.contains(name)
                || reach
                    .all_but
                    .as_ref()
                    .is_some_and(|excluded| !excluded.contains(name))
        };
        let own: Vec<&Namespace> = left.iter().copied().filter(|name| is_whole(name)).collect();
        left.retain(|name| !own.contains(name));
        areas.entry(store).or_default().extend(own);
    }
    for name in left {
        let has_some = |(_, reach): &&(&StoreName, &Reach)| {
            reach.some_anywhere || reach.some_of.contains(name)
        };
        let having: Vec<&StoreName> = holders
            .iter()
            .filter(has_some)
            .map(|(store, _)| *store)
            .collect();
        match having.as_slice() {
            [store] if base.is_none_or(|(base, ..)| base != *store) => {
                areas.entry(store).or_default().insert(name);
            }
            // The base answers for all that it holds anyhow.
            [] | [_] => {}
            several => return Err(several.iter().map(|store| (*store).clone()).collect()),
        }
    }
    let areas = areas
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(store, names)| (store, Some(names)));
    Ok(base
        .map(|(store, ..)| (store, None))
        .into_iter()
        .chain(areas)
        .collect())
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

    fn shared(reaches: &[(&str, Reach)]) -> Result<String, Vec<StoreName>> {
        let stores: Vec<(StoreName, Reach)> = reaches
            .iter()
            .map(|(name, reach)| (store(name), reach.clone()))
            .collect();
        let holders: Vec<(&StoreName, &Reach)> =
            stores.iter().map(|(name, reach)| (name, reach)).collect();
        let shown = |(store, area): (&StoreName, Area<'_>)| match area {
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
        Ok(share(&holders)?
            .into_iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join("; "))
    }

    fn only(list: &[&str]) -> Reach {
        Reach::of_namespaces(Some(&names(list)), &BTreeSet::new())
    }

    fn all_but(list: &[&str]) -> Reach {
        Reach::of_namespaces(None, &names(list))
    }

    fn some_of(list: &[&str]) -> Reach {
        Reach::some_of(Some(&names(list)))
    }

    #[test]
    fn each_namespace_is_answered_for_by_one_store() {
        let text = |reaches: &[(&str, Reach)]| shared(reaches).unwrap();
        assert_eq!(
            text(&[("a", only(&["x"])), ("b", Reach::everything())]),
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
            text(&[("a", Reach::some_of(None)), ("b", all_but(&["x"]))]),
            "b: all; a: x"
        );
        let mut both = only(&["x"]);
        both.extend(&all_but(&["x"]));
        assert_eq!(text(&[("a", only(&["x"])), ("b", both)]), "b: all");
    }

    #[test]
    fn stores_that_cannot_be_told_apart_are_named() {
        let both = || vec![store("a"), store("b")];
        assert_eq!(
            shared(&[("a", Reach::some_of(None)), ("b", only(&["x"]))]),
            Err(both())
        );
        assert_eq!(
            shared(&[("a", some_of(&["x"])), ("b", some_of(&["x", "y"]))]),
            Err(both())
        );
    }

    fn reach() -> impl Strategy<Value = Reach> {
        let some = || prop::collection::btree_set(prop::sample::select(vec!["x", "y", "z"]), 0..3);
        let set = |list: BTreeSet<&str>| {
            list.iter()
                .map(|name| name.parse().unwrap())
                .collect::<BTreeSet<Namespace>>()
        };
        (prop::option::of(some()), some(), some(), any::<bool>()).prop_map(
            move |(all_but, whole, some_of, anywhere)| Reach {
                all_but: all_but.map(set),
                whole: set(whole),
                some_of: set(some_of),
                some_anywhere: anywhere,
            },
        )
    }

    proptest! {
        /// `w` stands for all namespaces that nobody names.
        #[test]
        fn whatever_is_held_is_answered_for_once(reaches in prop::collection::vec(reach(), 1..4)) {
            let stores: Vec<(StoreName, Reach)> =
                reaches.into_iter().enumerate().map(|(number, reach)| (store(&number.to_string()), reach)).collect();
            let holders: Vec<(&StoreName, &Reach)> = stores.iter().map(|(name, reach)| (name, reach)).collect();
            let Ok(areas) = share(&holders) else { return Ok(()) };
            for name in names(&["w", "x", "y", "z"]) {
                let is_whole = |reach: &Reach| {
                    reach.whole.contains(&name) || reach.all_but.as_ref().is_some_and(|excluded| !excluded.contains(&name))
                };
                let has_some = |reach: &Reach| is_whole(reach) || reach.some_anywhere || reach.some_of.contains(&name);
                // What a store holds nothing of it may be asked about.
                let asked: Vec<&Reach> = areas
                    .iter()
                    .filter(|(_, area)| area.as_ref().is_none_or(|names| names.contains(&name)))
                    .filter_map(|(store, _)| holders.iter().find(|(known, _)| known == store).map(|(_, reach)| *reach))
                    .filter(|reach| has_some(reach))
                    .collect();
                let holding: Vec<&Reach> = holders.iter().map(|(_, reach)| *reach).filter(|reach| has_some(reach)).collect();
                prop_assert!(asked.len() <= 1, "{name}: asked twice: {areas:?}");
                prop_assert_eq!(asked.is_empty(), holding.is_empty(), "{}: {:?}", name, areas);
                if holding.iter().any(|reach| is_whole(reach)) {
                    prop_assert!(asked.iter().all(|reach| is_whole(reach)), "{name}: only some of it: {areas:?}");
                }
            }
        }
    }
}
