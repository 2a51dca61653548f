use proptest::prelude::*;

use super::*;

fn sample(version: u64, objects: &[(&str, u64)]) -> HistorySample {
    let objects = objects
        .iter()
        .map(|(uid, version)| ((*uid).to_owned(), (format!("name-{uid}"), *version)))
        .collect();
    HistorySample {
        version,
        objects,
        is_complete: true,
    }
}

#[test]
fn a_list_is_sampled_by_its_metadata() {
    let json = r#"{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9"},
                       "items":[{"metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{}}}]}"#;
    let expected = HistorySample {
        is_complete: true,
        objects: [("u".into(), ("a".into(), 7))].into(),
        version: 9,
    };
    assert_eq!(HistorySample::parse(json.as_bytes()), Some(expected));
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
    assert!(HistorySample::parse(page(PAGE).as_bytes()).is_some_and(|sample| !sample.is_complete));
    for odd in [
        "",
        "{}",
        r#"{"metadata":{"resourceVersion":"x"}}"#,
        &page(0),
        &page(PAGE - 1),
    ] {
        assert_eq!(HistorySample::parse(odd.as_bytes()), None, "{odd}");
    }
}

#[test]
fn a_divergence_of_histories_is_described() {
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
    let partial = HistorySample {
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
fn histories_decide_and_without_them_address_and_authorities() {
    let evidence = |history, same_address, same_authorities| IdentityEvidence {
        same_address,
        same_authorities,
        history,
    };
    let judged = |history: HistoryComparison| {
        [(true, true), (true, false), (false, true), (false, false)].map(
            |(address, authorities)| {
                judge(&evidence(history.clone(), address, authorities)) == IdentityVerdict::Same
            },
        )
    };
    assert_eq!(
        judged(HistoryComparison::Consistent),
        [true; 4],
        "two addresses of one cluster have one history"
    );
    assert_eq!(judged(HistoryComparison::Diverged("x".into())), [false; 4]);
    assert_eq!(
        judged(HistoryComparison::Unreadable("x".into())),
        [true, false, false, false]
    );
    let IdentityVerdict::Different(why) = judge(&evidence(
        HistoryComparison::Diverged("x".into()),
        false,
        true,
    )) else {
        panic!()
    };
    assert_eq!(
        why,
        "x; their addresses differ, their certificate authorities are the same"
    );
}

/// Objects by UID, after a history of writes.
fn apply(from: &HistorySample, writes: &[(u8, bool)]) -> HistorySample {
    let mut sample = from.clone();
    for (object, deletes) in writes {
        sample.version += 1;
        let uid = object.to_string();
        if *deletes && sample.objects.contains_key(&uid) {
            sample.objects.remove(&uid);
        } else {
            // A recreated object has another UID.
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
        let first = HistorySample { objects: first.objects, ..first };
        let only_writes = |writes: &[(u8, bool)]| writes.iter().map(|(object, _)| (*object + 10, false)).collect::<Vec<_>>();
        let other = apply(&first, &only_writes(&two));
        let again = apply(&other, &only_writes(&three));
        prop_assert_eq!(divergence(&first, &other, &again), None);
    }

    #[test]
    fn a_quiet_cluster_that_differs_is_another_one(backup in writes(), own in writes(), others in writes()) {
        let backup = apply(&sample(100, &[("0", 3), ("1", 4)]), &backup);
        let (first, other) = (apply(&backup, &own), apply(&backup, &others));
        if divergence(&first, &other, &first).is_none() {
            prop_assert_eq!(&first.objects, &other.objects);
        }
    }
}
