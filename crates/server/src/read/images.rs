//! The images of Pods, and how many Pods of each cluster have them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use fleetdex_core::{
    model::{ClusterName, JsonTree, MemberMask},
    query::Hit,
    selector::{FieldSelector, FieldTest},
};
use fleetdex_interpreter::field_selector::IMAGE;
use fleetdex_interpreter::{image, pod_template};
use fleetdex_query_api::{
    answer::{
        Answer, FoundAnnotations, FoundMetadata, ImageCount, ImageCountList, ListMetadata, Table,
    },
    group::API_VERSION,
};

use super::{
    object_summary::row,
    page_reader::{PAGE_TIMEOUT, PageReader},
    query_plan::QueryPlan,
};
use crate::{api_error::ApiError, render::representation::OutputKind, store_timeout::in_time};

/// Rows of a result at most: images times clusters.
const MAX_ROWS: usize = 10_000;

/// The columns of a Table.
const COLUMNS: [(&str, &str, i32); 3] = [
    ("Image", "The image as the Pods name it.", 0),
    ("Cluster", "The member that holds the Pods.", 0),
    ("Pods", "How many Pods have the image.", 0),
];

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
    /// The most frequent images first.
    counts: Vec<((String, ClusterName), u64)>,
    /// Whether images are left out.
    is_cut: bool,
}

/// Counts the images of all Pods of a query, the most frequent first, and warnings about what is
/// missing.
pub async fn count(plan: QueryPlan) -> Result<(ImageCounts, Vec<String>), ApiError> {
    if plan.is_empty {
        return Ok((ImageCounts::default(), Vec::new()));
    }
    let wanted = wanted_terms(&plan.query.fields);
    let (first, _) = in_time(PAGE_TIMEOUT, plan.stores.first_page(&plan.query)).await?;
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
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, pods)| Reverse(*pods));
    let counts = ImageCounts { counts, is_cut };
    Ok((counts, warnings.into_iter().collect()))
}

/// The distinct images of a Pod, of containers and image volumes.
fn images(hit: &Hit) -> BTreeSet<String> {
    let pod = JsonTree::parse(hit.object.get(), &READ);
    let spec = pod.get("spec").into_iter();
    let images = spec.flat_map(pod_template::images);
    let images = images.filter(|image| image.len() <= image::MAX_IMAGE_BYTES);
    images.map(str::to_owned).collect()
}

/// The terms of the images that a field selector asks for; `None`: of any. Other containers of the
/// same Pods have other images.
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

/// The answer: an `ImageCountList`, or a Table.
pub fn answer(found: ImageCounts, output: OutputKind) -> Answer {
    let metadata = ListMetadata {
        incomplete: found.is_cut,
        ..ListMetadata::default()
    };
    let counts = found.counts.into_iter();
    if let OutputKind::Table(version, _) = output {
        let row = |((image, cluster), pods): ((String, ClusterName), u64)| {
            let metadata = image_metadata(&image, &cluster);
            let cells = vec![
                image.into(),
                cluster.as_str().into(),
                pods.to_string().into(),
            ];
            row(cells, metadata, version)
        };
        let rows = counts.map(row).collect();
        return Answer::Table(Table::new(version.api_version(), metadata, &COLUMNS, rows));
    }
    let item = |((image, cluster), pods): ((String, ClusterName), u64)| ImageCount {
        kind: "ImageCount".to_owned(),
        api_version: API_VERSION.to_owned(),
        metadata: image_metadata(&image, &cluster),
        image,
        cluster,
        pods,
    };
    Answer::Images(ImageCountList {
        kind: "ImageCountList".to_owned(),
        api_version: API_VERSION.to_owned(),
        metadata,
        items: counts.map(item).collect(),
    })
}

fn image_metadata(image: &str, cluster: &ClusterName) -> FoundMetadata {
    FoundMetadata {
        name: image.to_owned(),
        annotations: FoundAnnotations {
            cluster: cluster.to_string(),
            ..FoundAnnotations::default()
        },
        ..FoundMetadata::default()
    }
}
