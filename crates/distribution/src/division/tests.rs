use proptest::prelude::*;

use super::*;

fn shares(list: &[i64]) -> Shares {
    let named = list.iter().enumerate();
    named
        .map(|(index, count)| (format!("m{}", index + 1), *count))
        .collect()
}

/// Shares as text; a cluster without one is `–`.
fn shown(found: &Shares, clusters: usize) -> String {
    let one = |index: usize| {
        let share = found.get(&format!("m{}", index + 1));
        share.map_or("–".to_owned(), i64::to_string)
    };
    (0..clusters).map(one).collect::<Vec<_>>().join("/")
}

/// Cases 1 to 12 and 16 of the worked cases of Karmada's division by fixed weights.
#[test]
fn weights_are_divided_by_websters_method() {
    for (amount, weights, expected) in [
        (12, &[3, 2, 1][..], "6/4/2"),
        (13, &[3, 2, 1], "7/4/2"),
        (14, &[3, 2, 1], "7/5/2"),
        (12, &[1, 1, 1], "4/4/4"),
        (3, &[2, 1], "2/1"),
        (2, &[2, 1], "1/1"),
        (1, &[2, 1], "1/–"),
        (5, &[1, 1], "3/2"),
        (5, &[1, 1, 1], "2/2/1"),
        (7, &[2, 1, 1, 1], "3/2/1/1"),
        (8, &[2, 1, 1, 1], "3/2/2/1"),
        (9, &[2, 1, 1, 1], "3/2/2/2"),
        (5, &[170, 110, 60], "2/2/1"),
        (6, &[170, 110, 60], "3/2/1"),
        (9, &[1, 3], "2/7"),
        (8, &[100_000, 80_000, 30_000, 20_000], "3/3/1/1"),
        (3, &[7, 1, 1], "3/–/–"),
        (3, &[5, 1, 1], "2/1/–"),
        (4, &[0, 1], "–/4"),
        (4, &[0, 0], "–/–"),
        (0, &[1, 1], "–/–"),
    ] {
        let found = by_weight(amount, &shares(weights), TieBreak::First);
        assert_eq!(
            shown(&found, weights.len()),
            expected,
            "{amount} by {weights:?}"
        );
    }
}

#[test]
fn the_uid_decides_who_gets_the_odd_replica() {
    assert_eq!(TieBreak::of_uid(""), TieBreak::First);
    // FNV-1a of "a" is 0xe40c292c, of "b" 0xe70c2de5.
    assert_eq!(TieBreak::of_uid("a"), TieBreak::First);
    assert_eq!(TieBreak::of_uid("b"), TieBreak::Last);
    let found = by_weight(5, &shares(&[1, 1]), TieBreak::Last);
    assert_eq!(shown(&found, 2), "2/3");
}

#[test]
fn any_number_of_replicas_is_divided_at_once() {
    let found = by_weight(MAX_REPLICAS, &shares(&[i64::MAX, 1, 1]), TieBreak::First);
    assert_eq!(shown(&found, 3), format!("{MAX_REPLICAS}/–/–"));
    let found = by_weight(i64::MAX, &shares(&[2, 1]), TieBreak::First);
    assert_eq!(sum(found.values()), MAX_REPLICAS);
    assert_eq!(shown(&found, 2), "1431655765/715827882");
}

/// Cases 17 to 33 of Karmada's division by room.
#[test]
fn room_is_divided_as_in_karmada() {
    // Aggregated, fresh, wanted, previous, room (-1: no candidate), result.
    for (is_aggregated, is_fresh, wanted, previous, room, expected) in [
        (false, false, 12, &[0, 0, 0][..], &[18, 12, 6][..], "6/4/2"),
        (false, false, 12, &[0, 0, 0], &[20, 12, 6], "6/4/2"),
        (false, false, 12, &[0, 0, 0], &[6, 8, 10], "3/4/5"),
        (false, false, 12, &[0, 0, 0], &[3, 3, 3], "room for 9 of 12"),
        (false, false, 6, &[2, 4, 6], &[10, 10, 10], "1/2/3"),
        (false, false, 24, &[2, 4, 6], &[10, 10, 10], "6/8/10"),
        (false, false, 12, &[6, 0, 6], &[3, 3, -1], "9/3/–"),
        (false, true, 12, &[0, 12, 0], &[6, 0, 6], "3/6/3"),
        (true, false, 12, &[0, 0, 0], &[6, 8, 10], "–/5/7"),
        (true, false, 12, &[0, 0, 0], &[12, 8, 10], "12/–/–"),
        (true, false, 12, &[0, 0, 0], &[6, 6, 6], "6/6/–"),
        (true, false, 6, &[4, 8], &[9, 9], "–/6"),
        (true, false, 8, &[4, 8], &[9, 9], "–/8"),
        (true, false, 24, &[4, 8, 0], &[4, 6, 8], "7/12/5"),
        (true, false, 24, &[4, 8, 0], &[6, 6, 20], "10/14/–"),
        (true, false, 24, &[4, 8, 0, 0], &[4, -1, 8, 12], "7/–/7/10"),
        (true, true, 12, &[2, 10], &[12, 6], "–/12"),
        (false, false, 12, &[4, 8], &[0, 0], "4/8"),
        (true, false, 3, &[0, 0, 0], &[10, 10, 10], "3/–/–"),
    ] {
        let previous = shares(previous);
        let clusters = room.len();
        let mut room = shares(room);
        room.retain(|_, count| *count >= 0);
        let division = DivisionByRoom {
            wanted,
            room: &room,
            previous: &previous,
            is_aggregated,
            is_fresh,
            tie: TieBreak::First,
        };
        let found = match division.divide() {
            Ok(found) => shown(&found, clusters),
            Err(NoRoom { room, wanted }) => format!("room for {room} of {wanted}"),
        };
        assert_eq!(found, expected, "{division:?}");
    }
}

/// Cases 34 to 37: a tier overflows into the next one.
#[test]
fn tiers_are_filled_in_order() {
    for (wanted, previous, room, expected) in [
        (5, &[0, 0][..], &[10, 10][..], "5/–"),
        (5, &[0, 0], &[2, 10], "2/3"),
        (10, &[0, 0], &[2, 2], "room for 4 of 10"),
        (8, &[3, 0], &[2, 10], "5/3"),
    ] {
        let mut previous = shares(previous);
        previous.retain(|_, count| *count > 0);
        let room = shares(room);
        let tiers: Vec<BTreeSet<String>> = room.keys().map(|name| [name.clone()].into()).collect();
        let division = DivisionByRoom {
            wanted,
            room: &room,
            previous: &previous,
            is_aggregated: true,
            is_fresh: false,
            tie: TieBreak::First,
        };
        let found = match by_tiers(&division, &tiers) {
            Ok(found) => shown(&found, 2),
            Err(NoRoom { room, wanted }) => format!("room for {room} of {wanted}"),
        };
        assert_eq!(found, expected, "{division:?}");
    }
}

/// One replica after the other, as the method is defined.
fn one_by_one(amount: i64, weights: &Shares, tie: TieBreak) -> Shares {
    let mut found: Shares = weights.keys().map(|name| (name.clone(), 0)).collect();
    found.retain(|name, _| weights[name] > 0);
    for _ in 0..amount {
        let next = found
            .iter()
            .max_by(|(one, had), (other, has)| {
                let claim = |name: &String, seats: i64| {
                    i128::from(weights[name]) * i128::from(2 * seats + 1)
                };
                let by_name = match tie {
                    TieBreak::First => other.cmp(one),
                    TieBreak::Last => one.cmp(other),
                };
                claim(one, **has)
                    .cmp(&claim(other, **had))
                    .then(has.cmp(had))
                    .then(by_name)
            })
            .map(|(name, _)| name.clone());
        if let Some(name) = next {
            *found.entry(name).or_default() += 1;
        }
    }
    found.retain(|_, count| *count > 0);
    found
}

fn weights() -> impl Strategy<Value = Shares> {
    prop::collection::vec(prop_oneof![0..6_i64, 0..1_000_i64, 0..i64::MAX], 1..7)
        .prop_map(|list| shares(&list))
}

fn ties() -> impl Strategy<Value = TieBreak> {
    prop_oneof![Just(TieBreak::First), Just(TieBreak::Last)]
}

proptest! {
    #[test]
    fn the_shortcut_gives_what_the_method_gives(
        amount in 0..400_i64, weights in weights(), tie in ties()
    ) {
        prop_assert_eq!(by_weight(amount, &weights, tie), one_by_one(amount, &weights, tie));
    }

    #[test]
    fn shares_sum_to_the_amount_and_one_more_moves_one(
        amount in 0..100_000_i64, weights in weights(), tie in ties()
    ) {
        let found = by_weight(amount, &weights, tie);
        let next = by_weight(amount + 1, &weights, tie);
        let has_weight = weights.values().any(|weight| *weight > 0);
        prop_assert_eq!(sum(found.values()), if has_weight { amount } else { 0 });
        for name in weights.keys() {
            let (before, after) = (found.get(name).unwrap_or(&0), next.get(name).unwrap_or(&0));
            prop_assert!(after - before <= 1 && after >= before, "{name}");
        }
    }

    #[test]
    fn more_weight_never_means_fewer_replicas(
        amount in 0..500_i64, weights in weights(), more in 1..1_000_i64
    ) {
        let found = by_weight(amount, &weights, TieBreak::First);
        let mut heavier = weights.clone();
        if let Some(weight) = heavier.get_mut("m1") {
            *weight = weight.saturating_add(more);
        }
        let after = by_weight(amount, &heavier, TieBreak::First);
        prop_assert!(after.get("m1").unwrap_or(&0) >= found.get("m1").unwrap_or(&0));
    }

    #[test]
    fn a_division_by_room_never_exceeds_the_room(
        wanted in 0..60_i64,
        room in prop::collection::vec(0..20_i64, 1..5),
        previous in prop::collection::vec(0..20_i64, 1..5),
        is_aggregated: bool,
        is_fresh: bool,
    ) {
        let (room, previous) = (shares(&room), shares(&previous));
        let division = DivisionByRoom {
            wanted, room: &room, previous: &previous, is_aggregated, is_fresh, tie: TieBreak::First,
        };
        if let Ok(found) = division.divide() {
            prop_assert_eq!(sum(found.values()), wanted);
            for (name, count) in &found {
                let most = room[name] + previous.get(name).copied().unwrap_or(0);
                prop_assert!(*count <= most, "{name} gets {count} of {most}");
            }
        }
    }
}
