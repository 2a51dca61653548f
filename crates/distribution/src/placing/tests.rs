use serde_json::{Value, json};

use super::*;

fn clusters(list: &Value) -> Vec<TargetCluster> {
    let objects = list.as_array().unwrap().iter();
    objects
        .map(|cluster| {
            let cluster = json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": cluster["name"], "labels": cluster.get("labels").unwrap_or(&json!({}))},
                "spec": {
                    "region": cluster.get("region"), "taints": cluster.get("taints"),
                },
                "status": {"apiEnablements": cluster.get("serves").map(|kind| json!([
                    {"groupVersion": "apps/v1", "resources": [{"name": "x", "kind": kind}]}
                ]))},
            });
            TargetCluster::from(&serde_json::from_value(cluster).unwrap())
        })
        .collect()
}

struct Case {
    placement: Value,
    replicas: Option<i64>,
    clusters: Value,
    previous: PreviousPlacement,
    room: i64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            placement: json!({}),
            replicas: Some(3),
            clusters: json!([{"name": "m1"}, {"name": "m2"}]),
            previous: PreviousPlacement::default(),
            room: 100,
        }
    }
}

impl Case {
    fn place(&self) -> Placed {
        let clusters = clusters(&self.clusters);
        Placer {
            object: &PlacedObject {
                kind: ("apps/v1".to_owned(), "Deployment".to_owned()),
                replicas: self.replicas,
                ..PlacedObject::default()
            },
            placement: &serde_json::from_value(self.placement.clone()).unwrap(),
            clusters: &clusters,
            previous: &self.previous,
            companions: &Companions::default(),
            avoided: &AvoidedClusters::default(),
            room: &|_| self.room,
        }
        .place()
    }

    /// `m1=2 m2=1`, or why not.
    fn shown(&self) -> String {
        let placed = self.place();
        let shares: Vec<String> = placed
            .clusters
            .iter()
            .map(|one| format!("{}={}", one.name, one.replicas))
            .collect();
        match placed.unschedulable {
            Some(reason) => format!("[{}] {reason}", shares.join(" ")),
            None => shares.join(" "),
        }
    }
}

fn previous(clusters: &[(&str, i64)]) -> PreviousPlacement {
    PreviousPlacement {
        clusters: clusters
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
        ..PreviousPlacement::default()
    }
}

fn weighted(weights: &[(&str, i64)]) -> Value {
    let list: Vec<Value> = weights
        .iter()
        .map(|(name, weight)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight}))
        .collect();
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
           "weightPreference": {"staticWeightList": list}})
}

fn by_room(preference: &str) -> Value {
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference,
           "weightPreference": {"dynamicWeight": "AvailableReplicas"}})
}

#[test]
fn replicas_are_duplicated_or_divided() {
    for (scheduling, replicas, expected) in [
        (Value::Null, Some(6), "m1=6 m2=6"),
        (
            json!({"replicaSchedulingType": "Duplicated"}),
            Some(6),
            "m1=6 m2=6",
        ),
        (json!({}), Some(3), "m1=2 m2=1"),
        (
            json!({"replicaSchedulingType": "Divided"}),
            Some(4),
            "m1=2 m2=2",
        ),
        (weighted(&[("m1", 2), ("m2", 1)]), Some(3), "m1=2 m2=1"),
        (weighted(&[("m1", 2), ("m2", 1)]), None, "m1=0 m2=0"),
        (weighted(&[("m1", 2), ("m2", 1)]), Some(0), "m1=0 m2=0"),
        (weighted(&[("m1", 1)]), Some(2), "m1=2"),
        (
            weighted(&[("m1", 1), ("m1", 2), ("m2", 1)]),
            Some(3),
            "m1=2 m2=1",
        ),
        (weighted(&[("m9", 5)]), Some(2), "m1=1 m2=1"),
        (by_room("Weighted"), Some(4), "m1=2 m2=2"),
        (by_room("Aggregated"), Some(4), "m1=4"),
    ] {
        let placement = json!({"replicaScheduling": scheduling});
        let case = Case {
            placement,
            replicas,
            ..Case::default()
        };
        assert_eq!(case.shown(), expected, "{scheduling} {replicas:?}");
    }
}

#[test]
fn every_reason_of_a_cluster_that_does_not_fit_is_said() {
    let case = Case {
        placement: json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}}),
        clusters: json!([
            {"name": "a", "labels": {"env": "prod"}, "serves": "Deployment"},
            {"name": "b", "serves": "DaemonSet",
             "taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]},
        ]),
        ..Case::default()
    };
    let placed = case.place();
    assert_eq!(placed.clusters.len(), 1);
    assert_eq!(
        placed.not_chosen,
        [NotChosen {
            cluster: "b".to_owned(),
            reason: "the policy's cluster affinity does not select it; its taint gpu=only:NoSchedule is not \
                     tolerated; it does not serve Deployment of apps/v1"
                .to_owned()
        }]
    );
}

#[test]
fn where_nothing_fits_the_object_stays() {
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    let case = Case {
        placement: nowhere,
        previous: previous(&[("m1", 3)]),
        ..Case::default()
    };
    assert_eq!(
        case.shown(),
        "[m1=3] no cluster fits: 2 of 2: the policy's cluster affinity does not select it"
    );
    let case = Case {
        placement: json!({"replicaScheduling": by_room("Weighted")}),
        previous: previous(&[("m1", 3)]),
        replicas: Some(30),
        room: 5,
        ..Case::default()
    };
    assert_eq!(
        case.shown(),
        "[m1=3] there is room for 13 of 30 replicas in the clusters that fit"
    );
}

#[test]
fn a_new_taint_takes_nothing_from_a_cluster_that_has_the_object() {
    let tainted = json!([
        {"name": "m1", "taints": [{"key": "drain", "effect": "NoExecute"}]}, {"name": "m2"},
    ]);
    for (previous, expected) in [
        (PreviousPlacement::default(), "m2=3"),
        (previous(&[("m1", 3)]), "m1=3 m2=3"),
    ] {
        let case = Case {
            clusters: tainted.clone(),
            previous,
            ..Case::default()
        };
        assert_eq!(case.shown(), expected);
    }
    let tolerating = json!({"clusterTolerations": [{"key": "drain", "operator": "Exists"}]});
    let case = Case {
        clusters: tainted,
        placement: tolerating,
        ..Case::default()
    };
    assert_eq!(case.shown(), "m1=3 m2=3");
}

#[test]
fn the_first_group_of_clusters_that_fits_is_used() {
    let placement = json!({
        "clusterAffinities": [
            {"affinityName": "own", "clusterNames": ["m9"]},
            {"affinityName": "cloud", "clusterNames": ["m2"]},
            {"affinityName": "other", "clusterNames": ["m1"]},
        ]
    });
    let case = Case {
        placement: placement.clone(),
        ..Case::default()
    };
    assert_eq!(case.shown(), "m2=3");
    assert_eq!(case.place().affinity_name.as_deref(), Some("cloud"));
    let after = |is_rebalanced| PreviousPlacement {
        affinity_name: Some("other".to_owned()),
        is_rebalanced,
        ..previous(&[("m1", 3)])
    };
    for (is_rebalanced, expected) in [(false, "m1=3"), (true, "m2=3")] {
        let previous = after(is_rebalanced);
        let case = Case {
            placement: placement.clone(),
            previous,
            ..Case::default()
        };
        assert_eq!(case.shown(), expected);
    }
}

#[test]
fn replicas_overflow_into_the_next_clusters() {
    let placement = json!({
        "clusterAffinities": [{
            "affinityName": "own", "clusterNames": ["m1"],
            "overflowAffinities": [{"affinityName": "cloud", "affinity": {"clusterNames": ["m2"]}}],
        }],
        "replicaScheduling": by_room("Aggregated"),
    });
    for (replicas, room, expected) in [
        (2, 2, "m1=2"),
        (5, 3, "m1=3 m2=2"),
        (
            9,
            2,
            "[] there is room for 4 of 9 replicas in the clusters that fit",
        ),
    ] {
        let replicas = Some(replicas);
        let case = Case {
            placement: placement.clone(),
            replicas,
            room,
            ..Case::default()
        };
        assert_eq!(case.shown(), expected, "{replicas:?}");
    }
}

/// A divided workload moves when its rules or its replicas change, and not because a label does.
#[test]
fn a_divided_workload_stays_while_nothing_that_decides_changes() {
    let placement = json!({
        "clusterAffinity": {"clusterNames": ["m1"]},
        "replicaScheduling": weighted(&[("m1", 1), ("m2", 1)]),
    });
    let known = PreviousPlacement {
        placement: Some(serde_json::from_value(placement.clone()).unwrap()),
        ..previous(&[("m2", 3)])
    };
    for (previous, replicas, expected) in [
        (known.clone(), 3, "m2=3"),
        (known.clone(), 4, "m1=4"),
        (
            PreviousPlacement {
                placement: None,
                ..known.clone()
            },
            3,
            "m1=3",
        ),
        (
            PreviousPlacement {
                is_rebalanced: true,
                ..known
            },
            3,
            "m1=3",
        ),
    ] {
        let case = Case {
            placement: placement.clone(),
            previous,
            replicas: Some(replicas),
            ..Case::default()
        };
        assert_eq!(case.shown(), expected);
    }
}

#[test]
fn replicas_0_stay_where_they_are() {
    let placement = json!({"replicaScheduling": by_room("Aggregated")});
    let case = Case {
        placement,
        replicas: Some(0),
        previous: previous(&[("m2", 3)]),
        ..Case::default()
    };
    assert_eq!(case.shown(), "m2=0");
}

/// Case 45: fixed weights say themselves where replicas go.
#[test]
fn spread_constraints_do_not_limit_fixed_weights() {
    let constraint = json!([{"spreadByField": "cluster", "maxGroups": 1}]);
    for (scheduling, expected) in [
        (json!({"replicaSchedulingType": "Divided"}), "m1=2 m2=1"),
        (by_room("Weighted"), "m1=3"),
        (Value::Null, "m1=3"),
    ] {
        let placement = json!({"spreadConstraints": constraint, "replicaScheduling": scheduling});
        let case = Case {
            placement,
            ..Case::default()
        };
        assert_eq!(case.shown(), expected, "{scheduling}");
    }
}
