use fleetdex_core::model::CLUSTER_ANNOTATION;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// Decodes what is encoded, and compares.
fn check<T: Clone + PartialEq + std::fmt::Debug + DeserializeOwned>(
    answer: &T,
    of: impl Fn(T) -> Answer,
) -> Value {
    let text = serde_json::to_string(&of(answer.clone())).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, answer);
    serde_json::from_str(&text).unwrap()
}

fn found() -> FoundObject {
    FoundObject {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        metadata: FoundMetadata {
            name: "web".to_owned(),
            uid: "u1".to_owned(),
            namespace: "shop".to_owned(),
            creation_timestamp: Some("2026-01-01T00:00:00Z".to_owned()),
            annotations: FoundAnnotations {
                cluster: "m1".to_owned(),
                health: "Degraded".to_owned(),
                ..FoundAnnotations::default()
            },
            ..FoundMetadata::default()
        },
    }
}

fn metadata() -> ListMetadata {
    ListMetadata {
        incomplete: true,
        remaining_item_count: Some(7),
        facets: vec![FacetCounts {
            name: "kind".to_owned(),
            values: vec![FacetCount {
                value: "Pod".to_owned(),
                count: 3,
            }],
            others: 1,
        }],
        continue_token: "next".to_owned(),
        as_of: [(
            "m1".parse().unwrap(),
            "2026-01-01T00:00:00Z".parse().unwrap(),
        )]
        .into(),
        ..ListMetadata::default()
    }
}

#[test]
fn answers_are_read_as_they_were_written() {
    let row = TableRow {
        cells: vec!["m1".into(), 3.into(), Value::Null],
        object: Some(found()),
    };
    let no_object = TableRow {
        cells: Vec::new(),
        object: None,
    };
    let columns = [("Cluster", "The member.", 0), ("Message", "The cause.", 1)];
    let table = Table::new("meta.k8s.io/v1", metadata(), &columns, vec![row, no_object]);
    let shown = check(&table, Answer::Table);
    assert_eq!(shown["kind"], "Table");
    assert_eq!(shown["metadata"]["continue"], "next");
    assert_eq!(shown["rows"][1], json!({ "cells": [] }));
    let list = FoundObjects {
        kind: "PartialObjectMetadataList".to_owned(),
        api_version: "meta.k8s.io/v1".to_owned(),
        metadata: ListMetadata::default(),
        items: vec![found(), FoundObject::default()],
    };
    let shown = check(&list, Answer::Objects);
    assert_eq!(shown["metadata"], json!({}));
    assert_eq!(
        shown["items"][0]["metadata"]["annotations"],
        json!({ CLUSTER_ANNOTATION: "m1", "fleetdex.io/health": "Degraded" })
    );
    let related = RelatedObject {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        metadata: found().metadata,
        relation: ObjectRelation {
            direction: Direction::UsedBy,
            name: "mounts".to_owned(),
            via: "Pod web".to_owned(),
            depth: 2,
            exists: true,
        },
    };
    let list = RelatedObjectList {
        kind: "RelatedObjectList".to_owned(),
        api_version: crate::group::API_VERSION.to_owned(),
        metadata: metadata(),
        items: vec![related],
    };
    let shown = check(&list, Answer::Related);
    assert_eq!(
        shown["items"][0]["relation"]["direction"],
        Direction::UsedBy.as_str()
    );
}

#[test]
fn documents_are_read_as_they_were_written() {
    let api_version = crate::group::API_VERSION.to_owned();
    check(
        &ImageCountList {
            kind: "ImageCountList".to_owned(),
            api_version: api_version.clone(),
            metadata: ListMetadata::default(),
            items: vec![ImageCount {
                kind: "ImageCount".to_owned(),
                api_version: api_version.clone(),
                metadata: FoundMetadata::default(),
                image: "nginx".to_owned(),
                cluster: "m1".parse().unwrap(),
                pods: 2,
            }],
        },
        Answer::Images,
    );
    check(
        &Counts {
            kind: "Aggregate".to_owned(),
            api_version,
            metadata: ListMetadata::default(),
            by: vec!["cluster".to_owned()],
            total: 3,
            others: 1,
            items: vec![GroupCount {
                values: vec![Some("m1".to_owned()), None],
                count: 2,
            }],
        },
        Answer::Counts,
    );
    let completions = fleetdex_search::complete("kin", 3, &fleetdex_search::NoVocabulary);
    let shown = check(
        &SearchCompletions::new("kind:", completions),
        Answer::Completions,
    );
    assert!(shown["error"]["column"].is_u64(), "{shown}");
    let shown = check(
        &Explanation::of(vec![json!({ "query": {} })]),
        Answer::Explanation,
    );
    assert!(shown.get("store").is_none() && shown.get("stores").is_none());
    let cluster = ClusterReport {
        name: "m1".parse().unwrap(),
        state: ClusterState::Stale,
        message: "disconnected".to_owned(),
        since: Some("2026-02-03T10:00:00Z".parse().unwrap()),
        lag_seconds: Some(0.25),
        replica: None,
        kinds: 4,
        gaps: ["no pods".to_owned()].into(),
    };
    let registry = RegistryReport {
        name: "all".to_owned(),
        status: fleetdex_crds::registry::ResourceRegistryStatus::default(),
    };
    let report = FleetReport::new(vec![cluster], Some(vec![registry]));
    let shown = check(&report, |report| Answer::Fleet(Box::new(report)));
    assert_eq!(shown["clusters"][0]["state"], ClusterState::Stale.as_str());
}
