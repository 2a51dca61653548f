use serde_json::{Value, json};

use super::*;
use crate::cluster::TargetCluster;

/// Name, region, zones, provider, score, available.
type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, i64, i64);

fn chosen(constraints: &Value, rows: &[Row<'_>], needed: NeededRoom) -> String {
    let constraints: Vec<SpreadConstraint> = serde_json::from_value(constraints.clone()).unwrap();
    let clusters: Vec<TargetCluster> = rows
        .iter()
        .map(|(name, region, zones, provider, ..)| TargetCluster {
            name: (*name).to_owned(),
            region: (*region).to_owned(),
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            provider: (*provider).to_owned(),
            labels: [("tier".to_owned(), (*provider).to_owned())].into(),
            ..TargetCluster::default()
        })
        .collect();
    let ranked: Vec<RankedCluster<'_>> = clusters
        .iter()
        .zip(rows)
        .map(|(cluster, row)| RankedCluster {
            cluster,
            tier: 0,
            score: row.4,
            available: row.5,
        })
        .collect();
    match choose(&constraints, &ranked, needed) {
        Ok(mut names) => {
            names.sort_unstable();
            names.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

/// Cases 41 to 46.
#[test]
fn clusters_are_chosen_by_score_and_room() {
    let rows: [Row<'_>; 4] = [
        ("m1", "", &[], "", 20, 40),
        ("m2", "", &[], "", 40, 60),
        ("m3", "", &[], "", 30, 80),
        ("m4", "", &[], "", 60, 50),
    ];
    let at_most_two = json!([{"spreadByField": "cluster", "maxGroups": 2}]);
    let at_least_seven = json!([{"spreadByField": "cluster", "minGroups": 7}]);
    let unlimited = json!([{"spreadByField": "cluster", "minGroups": 1}]);
    for (constraints, needed, expected) in [
        (&at_most_two, NeededRoom::Together(100), "m2 m4"),
        (&at_most_two, NeededRoom::Together(120), "m3 m4"),
        (
            &at_most_two,
            NeededRoom::Together(200),
            "no 2 clusters have room for 200 replicas together",
        ),
        (&at_most_two, NeededRoom::Each(120), "m2 m4"),
        (&unlimited, NeededRoom::Together(100), "m1 m2 m3 m4"),
        (
            &at_least_seven,
            NeededRoom::Together(0),
            "4 clusters or groups by name fit, and at least 7 are wanted",
        ),
    ] {
        assert_eq!(
            chosen(constraints, &rows, needed),
            expected,
            "{constraints} {needed:?}"
        );
    }
}

/// Cases 47 and 48, and the same by zone, provider and label.
#[test]
fn groups_are_chosen_by_score_and_size() {
    let rows: [Row<'_>; 5] = [
        ("m1", "R1", &["R1"], "R1", 100, 0),
        ("m2", "R1", &["R1"], "R1", 100, 0),
        ("m3", "R2", &["R2"], "R2", 80, 0),
        ("m4", "R2", &["R2"], "R2", 80, 0),
        ("m5", "R2", &["R2"], "R2", 80, 0),
    ];
    for by in [
        json!({"spreadByField": "region"}),
        json!({"spreadByField": "zone"}),
        json!({"spreadByField": "provider"}),
        json!({"spreadByLabel": "tier"}),
    ] {
        for (clusters, expected) in [(2, "m1 m2"), (3, "m3 m4 m5")] {
            let mut group = by.clone();
            group["minGroups"] = 1.into();
            group["maxGroups"] = 1.into();
            let constraints = json!([
                group,
                {"spreadByField": "cluster", "minGroups": clusters, "maxGroups": clusters},
            ]);
            assert_eq!(
                chosen(&constraints, &rows, NeededRoom::Together(0)),
                expected,
                "{constraints}"
            );
        }
    }
}

/// Case 49: R1 and R4 have five clusters together, and the greatest score of all such pairs.
#[test]
fn few_groups_with_enough_clusters_are_found() {
    let groups = [("R1", 60, 1), ("R2", 50, 2), ("R3", 40, 3), ("R4", 30, 4)];
    let names: Vec<(String, &str, i64)> = groups
        .iter()
        .flat_map(|(group, score, count)| {
            (0..*count).map(move |index| (format!("{group}-{index}"), *group, *score))
        })
        .collect();
    let rows: Vec<Row<'_>> = names
        .iter()
        .map(|(name, group, score)| (name.as_str(), *group, &[][..], "", *score, 0))
        .collect();
    let constraints = json!([
        {"spreadByField": "region", "minGroups": 2, "maxGroups": 2},
        {"spreadByField": "cluster", "minGroups": 5},
    ]);
    assert_eq!(
        chosen(&constraints, &rows, NeededRoom::Together(0)),
        "R1-0 R4-0 R4-1 R4-2 R4-3"
    );
}

#[test]
fn a_cluster_in_several_zones_stands_for_each_of_them() {
    let rows: [Row<'_>; 3] = [
        ("m1", "", &["a", "b"], "", 0, 0),
        ("m2", "", &["a"], "", 0, 0),
        ("m3", "", &["c"], "", 0, 0),
    ];
    let constraints = json!([
        {"spreadByField": "zone", "minGroups": 3},
        {"spreadByField": "cluster", "maxGroups": 2},
    ]);
    assert_eq!(
        chosen(&constraints, &rows, NeededRoom::Together(0)),
        "m1 m3"
    );
}

#[test]
fn several_groupings_hold_at_once() {
    let rows: [Row<'_>; 4] = [
        ("m1", "eu", &[], "aws", 0, 9),
        ("m2", "eu", &[], "gcp", 0, 8),
        ("m3", "us", &[], "aws", 0, 7),
        ("m4", "us", &[], "gcp", 0, 6),
    ];
    let constraints = |most: i64| {
        json!([
            {"spreadByField": "region", "minGroups": 2, "maxGroups": 2},
            {"spreadByField": "provider", "minGroups": 2, "maxGroups": 2},
            {"spreadByField": "cluster", "maxGroups": most},
        ])
    };
    assert_eq!(
        chosen(&constraints(3), &rows, NeededRoom::Together(0)),
        "m1 m2 m4"
    );
    assert_eq!(
        chosen(&constraints(2), &rows, NeededRoom::Together(0)),
        "m1 m4"
    );
    assert_eq!(
        chosen(&constraints(1), &rows, NeededRoom::Together(0)),
        "the chosen groups need 2 clusters, and at most 1 are allowed"
    );
}

#[test]
fn hundreds_of_groups_are_chosen_from_in_bounded_time() {
    let names: Vec<(String, String)> = (0..400)
        .map(|index| (format!("m{index:03}"), format!("r{:03}", index / 2)))
        .collect();
    let rows: Vec<Row<'_>> = names
        .iter()
        .map(|(name, region)| (name.as_str(), region.as_str(), &[][..], "", 0, 1))
        .collect();
    let constraints = json!([
        {"spreadByField": "region", "minGroups": 50, "maxGroups": 100},
        {"spreadByField": "cluster", "minGroups": 150, "maxGroups": 160},
    ]);
    let found = chosen(&constraints, &rows, NeededRoom::Each(1));
    assert_eq!(found.split(' ').count(), 150);
}
