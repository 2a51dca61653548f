//! Whether two members that report one identity are one cluster: a cluster that is restored from a backup has the UIDs of its origin.
//!
//! Every write of a cluster has a number of its own, `resourceVersion`, and numbers only grow. Of two members one is read, then the other, then
//! the first again. If both are one cluster, the second look is between the two others in every respect. As soon as two clusters have gone their
//! own ways, it is not. Then the other is looked at again, so that the first is between two looks, too: a member that lies about its versions can
//! let anything be between its own, but not its own between those of a cluster that it cannot read.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::quoted,
    planted::{Bug, planted},
};
use serde::Deserialize;

/// Objects of a page of a list. One that goes on has as many; where a member answers otherwise nothing follows from what a page lacks.
pub const PAGE: usize = 500;

/// A list of a member's objects, as far as it tells its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    version: u64,
    /// By UID: name and version.
    objects: BTreeMap<String, (String, u64)>,
    /// Whether these are all of them.
    is_complete: bool,
}

#[derive(Deserialize)]
struct RawList {
    metadata: RawListMetadata,
    #[serde(default)]
    items: Vec<RawItem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawListMetadata {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

#[derive(Deserialize)]
struct RawItem {
    metadata: RawMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    name: String,
    uid: String,
    resource_version: String,
}

impl Sample {
    /// Reads a list, of objects or of metadata. `None` if it is none, goes on after fewer than [`PAGE`] objects, or has versions that are no
    /// numbers.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let raw: RawList = serde_json::from_slice(json).ok()?;
        let is_complete = raw.metadata.r#continue.is_empty();
        if !is_complete && raw.items.len() < PAGE {
            return None;
        }
        let mut objects = BTreeMap::new();
        for RawItem { metadata } in raw.items {
            objects.insert(
                metadata.uid,
                (metadata.name, metadata.resource_version.parse().ok()?),
            );
        }
        Some(Self {
            version: raw.metadata.resource_version.parse().ok()?,
            objects,
            is_complete,
        })
    }
}

/// What cannot be if two members are one cluster, `other` being read after `first` and before `again`; `None` if all of it can be.
pub fn divergence(first: &Sample, other: &Sample, again: &Sample) -> Option<String> {
    if other.version < first.version || again.version < other.version {
        return Some(format!(
            "their histories differ: the one was at resourceVersion {} and then {}, the other meanwhile at {}",
            first.version, again.version, other.version
        ));
    }
    for (uid, (name, version)) in &first.objects {
        if again
            .objects
            .get(uid)
            .is_none_or(|(_, later)| later != version)
        {
            continue;
        }
        match other.objects.get(uid) {
            Some((_, there)) if there != version => {
                return Some(format!(
                    "their histories differ: {} has resourceVersion {version} in the one and {there} in the other",
                    quoted(name)
                ));
            }
            None if other.is_complete => return Some(in_one_only(name)),
            Some(_) | None => {}
        }
    }
    let unknown = |(uid, (_, version)): &(&String, &(String, u64))| {
        *version <= first.version && !first.objects.contains_key(*uid)
    };
    let extra = other
        .objects
        .iter()
        .find(unknown)
        .filter(|_| first.is_complete);
    extra.map(|(_, (name, _))| in_one_only(name))
}

fn in_one_only(name: &str) -> String {
    format!(
        "their histories differ: {} is in one of them only",
        quoted(name)
    )
}

/// What is known of two members that report one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Whether they are reached at one address.
    pub same_address: bool,
    /// Whether their certificates are checked against the same authorities.
    pub same_authorities: bool,
    /// What their histories say.
    pub history: History,
}

/// What the histories of two members say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum History {
    /// Nothing speaks against one cluster.
    Alike,
    /// They cannot be one cluster.
    Diverged(String),
    /// They may not be read.
    Unreadable(String),
}

/// Whether two members are one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are.
    Same,
    /// They are two, or not known to be one.
    Different(String),
}

/// Decides. What can be read decides alone; where nothing can be read, members are one only if they are reached in the same way.
pub fn judge(evidence: &Evidence) -> Verdict {
    let reached = || {
        let differ = |same: bool| if same { "are the same" } else { "differ" };
        let (addresses, authorities) = (
            differ(evidence.same_address),
            differ(evidence.same_authorities),
        );
        format!("their addresses {addresses}, their certificate authorities {authorities}")
    };
    match &evidence.history {
        _ if planted(Bug::TrustReportedUid) => Verdict::Same,
        History::Alike => Verdict::Same,
        History::Diverged(what) => Verdict::Different(format!("{what}; {}", reached())),
        History::Unreadable(_) if evidence.same_address && evidence.same_authorities => {
            Verdict::Same
        }
        History::Unreadable(why) => Verdict::Different(format!(
            "their histories cannot be compared ({why}); {}",
            reached()
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(version: u64, objects: &[(&str, u64)]) -> Sample {
        let objects = objects
            .iter()
            .map(|(uid, version)| ((*uid).to_owned(), (format!("name-{uid}"), *version)))
            .collect();
        Sample {
            version,
            objects,
            is_complete: true,
        }
    }

    #[test]
    fn a_list_is_read_by_its_metadata() {
        let json = r#"{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},
                       "items":[{"metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{}}}]}"#;
        let expected = Sample {
            is_complete: true,
            objects: [("u".into(), ("a".into(), 7))].into(),
            version: 9,
        };
        assert_eq!(Sample::parse(json.as_bytes()), Some(expected));
        let page = |length: usize| {
            let items: Vec<_> = (0..length)
                .map(|at| {
                    format!(r#"{{"metadata":{{"name":"a","uid":"{at}","resourceVersion":"7"}}}}"#)
                })
                .collect();
            format!(
                r#"{{"metadata":{{"resourceVersion":"9","continue":"x"}},"items":[{}]}}"#,
                items.join(",")
            )
        };
        assert!(Sample::parse(page(PAGE).as_bytes()).is_some_and(|sample| !sample.is_complete));
        for odd in [
            "",
            "{}",
            r#"{"metadata":{"resourceVersion":"x"}}"#,
            &page(0),
            &page(PAGE - 1),
        ] {
            assert_eq!(Sample::parse(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn what_cannot_be_one_history_is_named() {
        let first = sample(10, &[("a", 3), ("b", 7)]);
        let again = sample(20, &[("a", 3), ("b", 15)]);
        for (other, expected) in [
            (sample(15, &[("a", 3), ("b", 15)]), None),
            (sample(15, &[("a", 3)]), None),
            (sample(15, &[("a", 3), ("b", 12), ("c", 11)]), None),
            (sample(9, &[("a", 3), ("b", 7)]), Some("at 9")),
            (sample(21, &[("a", 3), ("b", 7)]), Some("at 21")),
            (
                sample(15, &[("a", 4), ("b", 7)]),
                Some("name-a has resourceVersion 3 in the one and 4"),
            ),
            (
                sample(15, &[("b", 7)]),
                Some("name-a is in one of them only"),
            ),
            (
                sample(15, &[("a", 3), ("b", 7), ("c", 9)]),
                Some("name-c is in one of them only"),
            ),
        ] {
            let found = divergence(&first, &other, &again);
            match expected {
                None => assert_eq!(found, None, "{other:?}"),
                Some(expected) => assert!(
                    found.as_ref().is_some_and(|found| found.contains(expected)),
                    "{found:?} {other:?}"
                ),
            }
        }
        let mut odd = sample(15, &[("b", 7)]);
        odd.objects
            .insert("c".to_owned(), ("x\n".repeat(1 << 20), 9));
        let found = divergence(&first, &odd, &again).unwrap();
        assert!(
            found.len() < 1_000 && !found.contains('\n'),
            "a name is repeated shortly and on one line: {found}"
        );
        let partial = Sample {
            is_complete: false,
            ..sample(15, &[("b", 7)])
        };
        assert_eq!(
            divergence(&first, &partial, &again),
            None,
            "more pages may have the rest"
        );
    }

    #[test]
    fn only_what_everything_says_is_one_cluster() {
        let evidence = |history, same_address, same_authorities| Evidence {
            same_address,
            same_authorities,
            history,
        };
        let judged = |history: History| {
            [(true, true), (true, false), (false, true), (false, false)].map(
                |(address, authorities)| {
                    judge(&evidence(history.clone(), address, authorities)) == Verdict::Same
                },
            )
        };
        assert_eq!(
            judged(History::Alike),
            [true; 4],
            "two addresses of one cluster have one history"
        );
        assert_eq!(judged(History::Diverged("x".into())), [false; 4]);
        assert_eq!(
            judged(History::Unreadable("x".into())),
            [true, false, false, false]
        );
        let Verdict::Different(why) = judge(&evidence(History::Diverged("x".into()), false, true))
        else {
            panic!()
        };
        assert_eq!(
            why,
            "x; their addresses differ, their certificate authorities are the same"
        );
    }

    /// Objects by UID, as a history of writes leaves them.
    fn apply(from: &Sample, writes: &[(u8, bool)]) -> Sample {
        let mut sample = from.clone();
        for (object, deletes) in writes {
            sample.version += 1;
            let uid = object.to_string();
            if *deletes && sample.objects.contains_key(&uid) {
                sample.objects.remove(&uid);
            } else {
                // What is made again has another UID.
                let uid = if *deletes {
                    format!("{uid}-{}", sample.version)
                } else {
                    uid
                };
                sample.objects.insert(uid, ("x".to_owned(), sample.version));
            }
        }
        sample
    }

    fn writes() -> impl Strategy<Value = Vec<(u8, bool)>> {
        prop::collection::vec((0_u8..5, any::<bool>()), 0..8)
    }

    proptest! {
        #[test]
        fn a_cluster_never_differs_from_itself(one in writes(), two in writes(), three in writes()) {
            let first = apply(&sample(100, &[("0", 3)]), &one);
            // An object that was deleted and is written again under its UID would be two objects.
            let first = Sample { objects: first.objects, ..first };
            let only_writes = |writes: &[(u8, bool)]| writes.iter().map(|(object, _)| (*object + 10, false)).collect::<Vec<_>>();
            let other = apply(&first, &only_writes(&two));
            let again = apply(&other, &only_writes(&three));
            prop_assert_eq!(divergence(&first, &other, &again), None);
        }

        #[test]
        fn of_a_quiet_cluster_whatever_differs_is_another_one(backup in writes(), own in writes(), others in writes()) {
            let backup = apply(&sample(100, &[("0", 3), ("1", 4)]), &backup);
            let (first, other) = (apply(&backup, &own), apply(&backup, &others));
            if divergence(&first, &other, &first).is_none() {
                prop_assert_eq!(&first.objects, &other.objects);
            }
        }
    }
}
