use fleetdex_core::model::{Gvk, Resource, Scope, Unit};
use fleetdex_sync::progress::AuditSummary;

use super::*;
use crate::completeness::{IncompleteReason, StreamCompleteness};

fn status(objects: u64) -> UnitStatus {
    UnitStatus {
        filter_paths: None,
        state: UnitState::Synced,
        synced_at: Some("2026-02-03T10:00:00Z".parse().unwrap()),
        objects,
        selected: std::sync::Arc::default(),
        skipped: 0,
        rejected: 0,
        rejected_example: None,
        audits: AuditSummary::default(),
    }
}

/// The share of one of three replicas in 10,000 clusters of 30 kinds.
#[test]
fn a_report_of_a_large_share_fits_into_an_object() {
    let kinds = |cluster: u32| (0..30_u32).map(move |kind| (cluster, kind));
    let streams: Vec<(StreamKey, UnitStatus)> = (0..3_334)
        .flat_map(kinds)
        .map(|(cluster, kind)| {
            let stream = stream(&format!("member{}", cluster * 3), &format!("Kind{kind}"));
            let nanoseconds = i64::from(fastrand::u32(0..1_000_000_000));
            let seconds = 1_769_000_000 + i64::from(cluster / 30);
            let time =
                Timestamp::from_nanosecond(i128::from(seconds * 1_000_000_000 + nanoseconds));
            let status = UnitStatus {
                synced_at: time.ok(),
                ..status(u64::from(fastrand::u32(0..200)))
            };
            (stream, status)
        })
        .collect();
    let statuses = streams
        .iter()
        .map(|(stream, status)| (stream, status.clone()));
    let report = ReplicaReport {
        units: unit_statuses(statuses),
        ..ReplicaReport::default()
    };
    let packed = pack(&report).unwrap();
    assert!(
        packed.len() < 1_000_000,
        "{} bytes; base64 adds a third",
        packed.len()
    );
    assert_eq!(unpack(&packed).unwrap(), report);
}

#[tokio::test(start_paused = true)]
async fn a_large_report_is_written_less_often_unless_something_waits_for_it() {
    let written = WrittenReport {
        report: ReplicaReport::default(),
        bytes: 500_000,
        at: Instant::now(),
    };
    let outdates = |report: &ReplicaReport| written.is_outdated_by(report);
    let changed = ReplicaReport {
        live: ["store member1".to_owned()].into(),
        ..ReplicaReport::default()
    };
    let awaited = ReplicaReport {
        cleaned_up: ["uid".to_owned()].into(),
        ..ReplicaReport::default()
    };
    assert!(!outdates(&changed) && outdates(&awaited));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(outdates(&changed));
    assert!(!outdates(&ReplicaReport::default()));
}

fn stream(cluster: &str, kind: &str) -> StreamKey {
    let resource = Resource {
        gvk: Gvk::new("apps", "v1", kind),
        plural: format!("{}s", kind.to_lowercase()).as_str().into(),
        namespaced: true,
    };
    StreamKey {
        unit: Unit {
            cluster: cluster.parse().unwrap(),
            resource,
            scope: Scope::All,
        },
        store: "https://opensearch.example.com:9200/fleetdex"
            .parse()
            .unwrap(),
    }
}

#[test]
fn a_member_that_invents_messages_for_all_kinds_does_not_fill_a_report() {
    let message = || {
        std::iter::repeat_with(fastrand::alphanumeric)
            .take(512)
            .collect::<String>()
    };
    let stream = |kind: usize| {
        let gvk = Gvk::new("apps", "v1", &format!("Kind{kind}"));
        let resource = Resource {
            gvk,
            plural: format!("kinds{kind}").as_str().into(),
            namespaced: true,
        };
        StreamKey {
            unit: Unit {
                cluster: "evil".parse().unwrap(),
                resource,
                scope: Scope::All,
            },
            store: "main".parse().unwrap(),
        }
    };
    let streams: Vec<StreamKey> = (0..10_000).map(stream).collect();
    let failing = || UnitState::Failing {
        reason: "InvalidAnswer".into(),
        message: message(),
    };
    let statuses = || UnitStatus {
        state: failing(),
        rejected: 1,
        rejected_example: Some(message().as_str().into()),
        ..status(0)
    };
    let units = unit_statuses(streams.iter().map(|stream| (stream, statuses())));
    assert_eq!(units.len(), 10_000);
    assert_eq!(
        units
            .values()
            .filter(|status| status.rejected_example.is_some())
            .count(),
        MAX_QUOTED
    );
    let packed = pack(&ReplicaReport {
        units,
        ..ReplicaReport::default()
    })
    .unwrap();
    assert!(
        packed.len() < 700_000,
        "{} bytes; base64 adds a third",
        packed.len()
    );
}

#[test]
fn a_report_that_cannot_be_read_does_not_hide_the_others() {
    let replica = |name: &str| name.parse::<ReplicaName>().unwrap();
    let good = pack(&ReplicaReport::default()).unwrap();
    let cut = pack(&ReplicaReport {
        cleaned_up: [String::from_utf8(vec![b'a'; 65 << 20]).unwrap()].into(),
        ..ReplicaReport::default()
    })
    .unwrap();
    let packed = [
        (replica("a"), good.clone()),
        (replica("b"), cut),
        (replica("c"), b"no gzip".to_vec()),
        (replica("d"), good),
    ];
    let read: Vec<ReplicaName> = readable(packed.into_iter()).into_keys().collect();
    assert_eq!(read, [replica("a"), replica("d")]);
}

#[test]
fn the_completeness_of_many_clusters_fits_into_an_annotation_or_is_left_out() {
    let completeness_of =
        |clusters: u64, gap: &dyn Fn(u64, u64) -> Option<IncompleteReason>| -> StreamCompleteness {
            let of_cluster = |cluster: u64| {
                (0..30).map(move |kind| {
                    let gvk = Gvk::new("apps.example.com", "v1", &format!("Kind{kind}"));
                    let resource = Resource {
                        gvk,
                        plural: format!("kind{kind}s").into(),
                        namespaced: true,
                    };
                    let unit = Unit {
                        cluster: format!("member{cluster}").parse().unwrap(),
                        resource,
                        scope: Scope::All,
                    };
                    (
                        cluster,
                        kind,
                        StreamKey {
                            unit,
                            store: "fleetdex-0123456789abcdef".parse().unwrap(),
                        },
                    )
                })
            };
            let streams = (0..clusters).flat_map(of_cluster);
            streams
                .map(|(cluster, kind, stream)| (stream, gap(cluster, kind)))
                .collect()
        };
    let packed = |completeness: &StreamCompleteness| {
        pack_completeness(&CompletenessReport::of(completeness)).unwrap()
    };
    // Every cluster differs from all others.
    let filling = completeness_of(1_000, &|cluster, kind| {
        (((cluster * 7_919) >> (kind % 13)) & 1 == 0).then_some(IncompleteReason::FirstList)
    });
    let text = packed(&filling).unwrap();
    assert!(text.len() < MAX_COMPLETENESS_BYTES, "{} bytes", text.len());
    let annotations = Some(BTreeMap::from([(COMPLETENESS_ANNOTATION.to_owned(), text)]));
    let mut config_map = ConfigMap {
        metadata: ObjectMeta {
            annotations,
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    assert_eq!(
        read_completeness(&config_map),
        CompletenessReport::of(&filling)
    );
    // Random reasons do not pack.
    let reason = |cluster: u64, kind: u64| {
        format!(
            "{:x}",
            fastrand::Rng::with_seed(cluster * 30 + kind).u128(..)
        )
    };
    let failing = |cluster, kind| {
        Some(IncompleteReason::Failing {
            reason: reason(cluster, kind).into(),
            is_shown: false,
            is_given_up: false,
        })
    };
    assert_eq!(packed(&completeness_of(500, &failing)), None);
    for broken in ["%", "aGVsbG8="] {
        config_map.metadata.annotations = Some(BTreeMap::from([(
            COMPLETENESS_ANNOTATION.to_owned(),
            broken.to_owned(),
        )]));
        assert_eq!(
            read_completeness(&config_map),
            CompletenessReport::default()
        );
    }
}

#[test]
fn a_report_reads_back_as_it_was_written() {
    let failing = UnitState::Failing {
        reason: "Forbidden".into(),
        message: "pods is forbidden".to_owned(),
    };
    let report = ReplicaReport {
        units: BTreeMap::from([(
            "store member1:v1/Pod".to_owned(),
            UnitStatus {
                state: failing,
                ..status(0)
            },
        )]),
        live: BTreeSet::from(["store member1".to_owned()]),
        health: BTreeMap::from([(
            "member1".to_owned(),
            MemberHealth {
                ready: false,
                reason: "Unreachable".into(),
                message: "no route".to_owned(),
                note: None,
            },
        )]),
        replicas: ReplicaNames::from(["fleetdex-0".parse().unwrap()]),
        cleaned_up: BTreeSet::from(["uid".to_owned()]),
    };
    assert_eq!(unpack(&pack(&report).unwrap()).unwrap(), report);
    assert!(unpack(b"not gzip").is_err());
}
