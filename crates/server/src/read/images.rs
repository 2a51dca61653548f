//! The images of Pods, and how many Pods of each cluster have them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use fleetdex_core::{
    model::{CLUSTER_ANNOTATION, ClusterName, JsonTree, MemberMask},
    query::Hit,
    selector::{FieldSelector, FieldTest},
};
use fleetdex_interpreter::field_selector::IMAGE;
use fleetdex_interpreter::{image, pod_template};
use fleetdex_query_api::group::{GROUPS, VERSION};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use super::{
    aggregate::raw,
    object_summary::{ResultExtent, table},
    page_reader::{PAGE_TIMEOUT, PageReader},
    query_plan::QueryPlan,
};
use crate::{
    api_error::ApiError,
    render::representation::{MetaVersion, OutputKind},
};

/// Rows of a result at most: images times clusters.
const MAX_ROWS: usize = 10_000;

/// The columns of a Table.
const COLUMNS: [(&str, &str, u8); 3] = [
    ("Image", "The image as the Pods name it.", 0),
    ("Cluster", "The member that holds the Pods.", 0),
    ("Pods", "How many Pods have the image.", 0),
];

/// How many Pods of a cluster have an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCount {
    image: String,
    cluster: ClusterName,
    pods: u64,
}

/// What is read of a Pod.
static READ: LazyLock<MemberMask> = LazyLock::new(|| {
    let mut mask = MemberMask::default();
    for field in pod_template::CONTAINERS {
        mask.add(["spec", field, "image"]);
    }
    mask.add(["spec", "volumes", "image", "reference"]);
    mask
});

/// Counts of images.
#[derive(Default)]
pub struct ImageCounts {
    counts: Vec<ImageCount>,
    extent: ResultExtent,
}

/// Counts the images of all Pods of a query, the most frequent first, and warnings about what is missing.
pub async fn count(plan: QueryPlan) -> Result<(ImageCounts, Vec<String>), ApiError> {
    if plan.is_empty {
        return Ok((ImageCounts::default(), Vec::new()));
    }
    let wanted = wanted_terms(&plan.query.fields);
    let first = timeout(PAGE_TIMEOUT, plan.stores.first_page(&plan.query)).await;
    let (first, _) = first.map_err(|_| ApiError::Timeout(PAGE_TIMEOUT.as_secs()))??;
    let mut pods = PageReader::begin(plan.stores, plan.query, first, false);
    let mut counts: BTreeMap<(String, ClusterName), u64> = BTreeMap::new();
    let mut is_cut = false;
    while let Some(hit) = pods.next().await? {
        for image in images(&hit) {
            if !is_wanted(&image, wanted.as_ref()) {
                continue;
            }
            let key = (image, hit.cluster.clone());
            if counts.len() >= MAX_ROWS && !counts.contains_key(&key) {
                is_cut = true;
                continue;
            }
            *counts.entry(key).or_default() += 1;
        }
    }
    let warnings = is_cut.then(|| {
        format!("more than {MAX_ROWS} images are left out; name clusters, namespaces or an image")
    });
    let counts = ImageCounts {
        counts: sorted(counts),
        extent: ResultExtent::cut(is_cut),
    };
    Ok((counts, warnings.into_iter().collect()))
}

fn sorted(counts: BTreeMap<(String, ClusterName), u64>) -> Vec<ImageCount> {
    let rows = counts
        .into_iter()
        .map(|((image, cluster), pods)| ImageCount {
            image,
            cluster,
            pods,
        });
    let mut rows: Vec<ImageCount> = rows.collect();
    rows.sort_by_key(|row| Reverse(row.pods));
    rows
}

/// The distinct images of a Pod, of containers and image volumes.
fn images(hit: &Hit) -> BTreeSet<String> {
    let pod = JsonTree::parse(hit.object.get(), &READ);
    let spec = pod.get("spec").into_iter();
    spec.flat_map(pod_template::images)
        .filter(|image| image.len() <= image::MAX_IMAGE_BYTES)
        .map(str::to_owned)
        .collect()
}

/// The terms of the images that a field selector asks for; `None`: of any. Other containers of the same Pods have other images.
fn wanted_terms(fields: &FieldSelector) -> Option<BTreeSet<String>> {
    let mut requirements = fields.requirements();
    requirements.find_map(|requirement| match &requirement.test {
        FieldTest::In(terms) if requirement.path.as_str() == IMAGE => Some(terms.clone()),
        _ => None,
    })
}

fn is_wanted(image: &str, wanted: Option<&BTreeSet<String>>) -> bool {
    wanted.is_none_or(|wanted| image::terms(image).iter().any(|term| wanted.contains(term)))
}

/// The result as JSON: an `ImageCountList`, or a Table.
pub fn document(found: &ImageCounts, output: OutputKind) -> Result<Box<RawValue>, ApiError> {
    let ImageCounts { counts, extent } = found;
    if let OutputKind::Table(version, _) = output {
        let rows: Vec<Value> = counts.iter().map(|count| row(count, version)).collect();
        return raw(&table(&COLUMNS, &rows, &extent.metadata().into(), version));
    }
    let api_version = format!("{}/{VERSION}", GROUPS[0]);
    let item = |count: &ImageCount| {
        json!({
            "kind": "ImageCount",
            "apiVersion": api_version,
            "metadata": metadata(count),
            "image": count.image,
            "cluster": count.cluster.as_str(),
            "pods": count.pods,
        })
    };
    raw(&json!({
        "kind": "ImageCountList",
        "apiVersion": api_version,
        "metadata": extent.metadata(),
        "items": counts.iter().map(item).collect::<Vec<Value>>(),
    }))
}

fn metadata(count: &ImageCount) -> Value {
    json!({ "name": count.image, "annotations": { CLUSTER_ANNOTATION: count.cluster.as_str() } })
}

fn row(count: &ImageCount, version: MetaVersion) -> Value {
    json!({
        "cells": [count.image, count.cluster.as_str(), count.pods.to_string()],
        "object": { "kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata(count) },
    })
}
