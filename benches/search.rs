//! A search of the embedded store over 200,000 pods of four clusters: 50 objects, the best matches
//! first, and counts.

use std::{hint::black_box, sync::LazyLock};

use divan::Bencher;
use fleetdex_core::{
    kinds,
    model::{Gvk, Object, Projection, Projector, Resource},
    query::{Facet, Query, RankedQuery, Requester, ResourceName, Selectable, Word},
};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, IndexReader as _, RevisionStore as _, bulk::Write,
    memory::Memory,
};
use serde_json::json;
use tokio::runtime::Runtime;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS: usize = 200_000;
const CLUSTERS: usize = 4;

static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| Runtime::new().ok());
static STORE: LazyLock<Memory> = LazyLock::new(|| {
    let memory = Memory::new();
    if let Some(runtime) = RUNTIME.as_ref() {
        runtime.block_on(fill(&memory));
    }
    memory
});

fn main() {
    divan::main();
}

/// One word of a few objects, one of many, one of all, and two words.
#[divan::bench(args = ["web-4711", "service-07", "pod", "service-07 team-3", ""])]
fn words(bencher: Bencher<'_, '_>, text: &str) {
    let words = text.split_whitespace().map(|word| Word::new(word, false));
    let ranked = RankedQuery {
        queries: vec![Query {
            words: words.collect(),
            ..all_pods()
        }],
        requester: Requester::Operator,
        limit: 50,
        after: None,
        facets: Facet::ALL.to_vec(),
    };
    let store = &*STORE;
    let Some(runtime) = RUNTIME.as_ref() else {
        return;
    };
    bencher.bench_local(|| black_box(runtime.block_on(store.ranked_page(&ranked)).is_ok()));
}

fn gvk() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

fn all_pods() -> Query {
    let fields = kinds::selectable_fields(&gvk()).unwrap_or_default();
    Query::all_of(
        ResourceName::new("", "pods"),
        Selectable::of(&gvk(), fields),
        50,
    )
}

async fn fill(memory: &Memory) {
    let fields = kinds::selectable_fields(&gvk()).unwrap_or_default();
    let resource = Resource {
        gvk: gvk(),
        plural: "pods".into(),
        namespaced: true,
    };
    for cluster in 0..CLUSTERS {
        let Ok(name) = format!("member{cluster}").parse() else {
            continue;
        };
        let Ok(revision) = memory.open(&name, None, 0).await else {
            continue;
        };
        if memory
            .activate(&revision, &CompleteResources::All)
            .await
            .is_err()
        {
            continue;
        }
        let projector = Projector::new(&name, &resource, &Projection::default(), fields);
        for start in (0..PODS / CLUSTERS).step_by(1_000) {
            let pods = (start..start + 1_000).map(|number| pod(cluster, number).to_string());
            let pods: Vec<String> = pods.collect();
            let documents = pods.iter().filter_map(|json| {
                let object = Object::parse(json).ok()?;
                projector.document(&object, "2026-11-21T10:00:00Z").ok()
            });
            let writes: Vec<Write> = documents
                .map(|document| Write {
                    index: revision.target.clone(),
                    document,
                })
                .collect();
            if memory.write(&writes).await.is_err() {
                return;
            }
        }
    }
}

fn pod(cluster: usize, number: usize) -> serde_json::Value {
    let service = format!("service-{:02}", number % 40);
    let age = number % 86_400;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{number}-{:05x}", number * 7_919 % 0xf_ffff), "namespace": format!("team-{}", number % 50),
            "uid": format!("00000000-0000-4000-8000-{cluster:04x}{number:08x}"), "resourceVersion": "1",
            "creationTimestamp": format!("2026-11-21T{:02}:{:02}:{:02}Z", age / 3_600, age / 60 % 60, age % 60),
            "labels": { "app.kubernetes.io/name": service, "pod-template-hash": format!("{:x}", number % 997), "tier": (number % 5).to_string() },
            "annotations": { "prometheus.io/scrape": "true", "checksum/config": "0" },
            "ownerReferences": [{ "kind": "ReplicaSet", "name": format!("{service}-{:x}", number % 997), "uid": format!("owner-{}", number % 997) }],
        },
        "spec": { "nodeName": format!("node-{}", number % 100) },
        "status": { "phase": "Running" },
    })
}
