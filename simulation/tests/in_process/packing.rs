//! The real store on the fake OpenSearch: small clusters that share indices.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fakes::opensearch::{IndexState, OpenSearch};
use fleetdex_core::{
    model::{ClusterName, Document, Gvk, JsonLine},
    query::{Query, ResourceName, Selectable},
};
use fleetdex_store::{
    CompleteResources, DocumentVersions as _, DocumentWriter as _, Extent, IndexReader as _,
    IndexRevision, IndexSharing as _, KindExtent, RevisionStore as _,
    bulk::{Verdict, Write},
    opensearch::{Engine, EngineOptions, IndexSettings, OpenSearchService, PlacementRules},
};
use serde_json::json;

pub const RULES: PlacementRules = PlacementRules {
    shares_indices: true,
    small_documents: 2,
    clusters_per_index: 2,
    shards_percent: 0,
    interval: Duration::from_secs(1),
};

pub fn engine(server: &OpenSearch, placement: PlacementRules) -> Engine {
    engine_over(server.service(), placement)
}

/// An engine over whatever is between it and its server.
pub fn engine_over(service: OpenSearchService, placement: PlacementRules) -> Engine {
    let engine = Engine::new(
        service,
        EngineOptions {
            prefix: "fleetdex".parse().unwrap(),
            settings: IndexSettings::default(),
            fields: Vec::new(),
            projection: String::new(),
            placement,
            owner: "me".to_owned(),
            address: "simulation".to_owned(),
        },
    );
    engine.expect_clusters(3);
    engine
}

pub fn cluster(number: usize) -> ClusterName {
    format!("member{number}").parse().unwrap()
}

/// A pod of one UID in every cluster.
fn pod(revision: &IndexRevision, name: &str, version: u64) -> Write {
    let body = json!({
        "cluster": revision.cluster, "apiVersion": "v1", "kind": "Pod",
        "search": { "resource": "pods", "group": "" },
        "metadata": { "name": name, "uid": name, "resourceVersion": version.to_string() },
    });
    Write {
        index: revision.target.clone(),
        document: Document {
            id: format!("v1/Pod/{name}").into(),
            version: version.to_string().parse().unwrap(),
            body: Some(JsonLine::new(body.to_string())),
            is_partial: false,
        },
    }
}

async fn write(engine: &Engine, revision: &IndexRevision, names: &[&str]) {
    let writes: Vec<Write> = names.iter().map(|name| pod(revision, name, 1)).collect();
    let verdicts = engine.write(&writes).await.unwrap();
    assert!(
        verdicts.iter().all(|verdict| *verdict == Verdict::Indexed),
        "{verdicts:?}"
    );
}

async fn open(engine: &Engine, number: usize) -> IndexRevision {
    engine.open(&cluster(number), None, 0).await.unwrap()
}

pub async fn fill(engine: &Engine, number: usize, names: &[&str]) -> IndexRevision {
    let revision = open(engine, number).await;
    write(engine, &revision, names).await;
    engine
        .activate(&revision, &CompleteResources::All)
        .await
        .unwrap();
    open(engine, number).await
}

/// The names of the pods that queries of these clusters see, by cluster; none: of all clusters.
pub async fn seen(engine: &Engine, numbers: &[usize]) -> BTreeMap<ClusterName, Vec<String>> {
    let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
    let query = Query {
        clusters: numbers.iter().copied().map(cluster).collect(),
        ..Query::all_of(ResourceName::new("", "pods"), selectable, 100)
    };
    let mut seen: BTreeMap<ClusterName, Vec<String>> = BTreeMap::new();
    for hit in engine.search(&query, None).await.unwrap().items {
        let object: serde_json::Value = serde_json::from_str(hit.object.get()).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        seen.entry(hit.cluster).or_default().push(name);
    }
    seen
}

async fn stored(engine: &Engine, revision: &IndexRevision) -> BTreeSet<String> {
    let pods = Extent::Kind(KindExtent {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: None,
    });
    let mut ids = BTreeSet::new();
    engine
        .visit_versions(revision, &pods, &mut |stored| {
            ids.insert(stored.id.to_owned());
        })
        .await
        .unwrap();
    ids
}

/// The indices of documents; "shared" for each that clusters share.
fn indices(server: &OpenSearch) -> Vec<String> {
    let names = server.indices().into_keys();
    names
        .filter(|name| name != "fleetdex.state")
        .map(|name| {
            if name.starts_with("fleetdex.shared.") {
                "shared".to_owned()
            } else {
                name
            }
        })
        .collect()
}

/// The only index that clusters share.
fn shared_index(server: &OpenSearch) -> IndexState {
    let mut shared = server.indices().into_iter();
    let is_shared = |(name, _): &(String, IndexState)| name.starts_with("fleetdex.shared.");
    shared.find(is_shared).unwrap().1
}

#[tokio::test(start_paused = true)]
async fn clusters_share_indices_and_each_alias_shows_its_own_documents() {
    let server = OpenSearch::new(1);
    let engine = engine(&server, RULES);
    engine.prepare().await.unwrap();
    let mut revisions = Vec::new();
    for number in 0..3 {
        revisions.push(fill(&engine, number, &["a", "b"]).await);
    }
    assert_eq!(indices(&server), ["shared", "shared"]);
    let own = |number| (cluster(number), vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(seen(&engine, &[]).await, (0..3).map(own).collect());
    for (number, revision) in revisions.iter().enumerate() {
        assert!(revision.live, "{revision:?}");
        assert_eq!(seen(&engine, &[number]).await, [own(number)].into());
        assert_eq!(
            stored(&engine, revision).await,
            ["v1/Pod/a".to_owned(), "v1/Pod/b".to_owned()].into()
        );
        let alias = format!("fleetdex-member{number}");
        assert_eq!(server.documents(&alias).len(), 2);
    }
    let listed: BTreeSet<_> = engine
        .revisions()
        .await
        .unwrap()
        .into_iter()
        .map(|revision| revision.id)
        .collect();
    assert_eq!(
        listed,
        revisions
            .iter()
            .map(|revision| revision.id.clone())
            .collect()
    );
    assert!(engine.lost(&revisions).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_cluster_leaves_nothing_and_its_neighbour_everything() {
    let server = OpenSearch::new(1);
    let engine = engine(&server, RULES);
    engine.prepare().await.unwrap();
    let dropped = fill(&engine, 0, &["a", "b"]).await;
    fill(&engine, 1, &["a"]).await;
    engine.drop_cluster(&cluster(0)).await.unwrap();
    assert_eq!(
        seen(&engine, &[]).await,
        [(cluster(1), vec!["a".to_owned()])].into()
    );
    engine.sweep().await.unwrap();
    assert_eq!(shared_index(&server).documents, 1);
    // A write that arrives late finds no alias.
    let late = engine.write(&[pod(&dropped, "c", 3)]).await.unwrap();
    assert!(matches!(late[0], Verdict::IndexMissing(_)), "{late:?}");
    // The cluster comes back: nothing of before is seen.
    let again = fill(&engine, 0, &["d"]).await;
    assert_ne!(again.id, dropped.id);
    assert_eq!(
        seen(&engine, &[0]).await,
        [(cluster(0), vec!["d".to_owned()])].into()
    );
    engine.drop_cluster(&cluster(0)).await.unwrap();
    engine.drop_cluster(&cluster(1)).await.unwrap();
    engine.sweep().await.unwrap();
    assert!(indices(&server).is_empty(), "{:?}", indices(&server));
}

#[tokio::test(start_paused = true)]
async fn clusters_move_in_and_out_and_queries_see_them_whole() {
    let server = OpenSearch::new(1);
    let plenty = engine(
        &server,
        PlacementRules {
            shards_percent: 100,
            ..RULES
        },
    );
    plenty.prepare().await.unwrap();
    let own = fill(&plenty, 0, &["a"]).await;
    assert_eq!(indices(&server), ["fleetdex-member0.g1"]);

    let scarce = engine(&server, RULES);
    let misplaced = scarce.misplaced(std::slice::from_ref(&own)).await.unwrap();
    assert_eq!(misplaced, [cluster(0)].into());
    let packed = open(&scarce, 0).await;
    assert_eq!(
        packed.replaces.as_ref().map(|own| &own.index),
        Some(&own.index)
    );
    assert_eq!(packed.number, 2);
    write(&scarce, &packed, &["a", "b", "c", "d", "e"]).await;
    assert_eq!(
        seen(&scarce, &[]).await,
        [(cluster(0), vec!["a".to_owned()])].into()
    );
    assert_eq!(
        seen(&scarce, &[0]).await,
        [(cluster(0), vec!["a".to_owned()])].into()
    );
    scarce
        .activate(&packed, &CompleteResources::All)
        .await
        .unwrap();
    let all: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
    for numbers in [&[][..], &[0]] {
        assert_eq!(
            seen(&scarce, numbers).await,
            [(cluster(0), all.clone())].into()
        );
    }
    assert_eq!(indices(&server), ["shared"]);

    // It has more than twice as many documents as a small one.
    let packed = open(&scarce, 0).await;
    tokio::time::advance(2 * RULES.interval).await;
    let misplaced = scarce
        .misplaced(std::slice::from_ref(&packed))
        .await
        .unwrap();
    assert_eq!(misplaced, [cluster(0)].into());
    let moved = open(&scarce, 0).await;
    assert_eq!(moved.index.as_str(), "fleetdex-member0.g3");
    write(&scarce, &moved, &["a", "f"]).await;
    assert_eq!(seen(&scarce, &[]).await, [(cluster(0), all)].into());
    scarce
        .activate(&moved, &CompleteResources::All)
        .await
        .unwrap();
    let two = vec!["a".to_owned(), "f".to_owned()];
    assert_eq!(seen(&scarce, &[]).await, [(cluster(0), two)].into());
    assert_eq!(indices(&server), ["fleetdex-member0.g3"]);
}

#[tokio::test(start_paused = true)]
async fn replicas_that_change_one_shared_index_lose_nothing_of_each_other() {
    let server = OpenSearch::new(1);
    server.set_latency(1..=50);
    let rules = PlacementRules {
        clusters_per_index: 100,
        ..RULES
    };
    let engines = [(); 3].map(|()| engine(&server, rules));
    engines[0].prepare().await.unwrap();
    let fills = (0..24).map(|number| fill(&engines[number % 3], number, &["a"]));
    let revisions = futures::future::join_all(fills).await;
    assert_eq!(seen(&engines[0], &[]).await.len(), 24);
    assert!(engines[0].lost(&revisions).await.unwrap().is_empty());
    let drops = (0..12).map(|number| {
        let engine = engines[number % 3].clone();
        async move { engine.drop_cluster(&cluster(number)).await.unwrap() }
    });
    futures::future::join_all(drops).await;
    let left: BTreeSet<ClusterName> = seen(&engines[1], &[]).await.into_keys().collect();
    assert_eq!(left, (12..24).map(cluster).collect());
}

#[tokio::test(start_paused = true)]
async fn clusters_that_begin_at_the_same_time_share_changes_of_aliases() {
    let server = OpenSearch::new(1);
    server.set_latency(1..=50);
    let rules = PlacementRules {
        clusters_per_index: 60,
        ..RULES
    };
    let engine = engine(&server, rules);
    engine.prepare().await.unwrap();
    let revisions = futures::future::join_all((0..100).map(|number| open(&engine, number))).await;
    let targets: BTreeSet<_> = revisions.iter().map(|revision| &revision.target).collect();
    assert_eq!(targets.len(), 100);
    assert_eq!(indices(&server), ["shared", "shared"]);
    for revision in &revisions {
        write(&engine, revision, &["a"]).await;
    }
    let missing = IndexRevision {
        id: "gone".into(),
        ..revisions[7].clone()
    };
    let activated = revisions.iter().chain([&missing]);
    let activated = futures::future::join_all(
        activated.map(|revision| engine.activate(revision, &CompleteResources::All)),
    )
    .await;
    let failed: Vec<usize> = (0..101).filter(|at| activated[*at].is_err()).collect();
    assert_eq!(failed, [100]);
    assert_eq!(seen(&engine, &[]).await.len(), 100);
    for number in [0, 7, 99] {
        assert_eq!(seen(&engine, &[number]).await.len(), 1);
    }
    let changes = server.counters().alias_changes;
    assert!((2..100).contains(&changes), "{changes} instead of 200");
}

#[tokio::test(start_paused = true)]
async fn a_shared_index_whose_aliases_are_damaged_is_mended() {
    let server = OpenSearch::new(1);
    let engine = engine(&server, RULES);
    engine.prepare().await.unwrap();
    let revisions = [
        fill(&engine, 0, &["a"]).await,
        fill(&engine, 1, &["b"]).await,
    ];
    let version = shared_index(&server)
        .aliases
        .iter()
        .find(|alias| alias.contains(".v"))
        .unwrap()
        .clone();
    for alias in [version.as_str(), "fleetdex", "fleetdex-member0"] {
        server.remove_alias(alias);
        for number in engine.lost(&revisions).await.unwrap() {
            let reopened = engine.open(&number, None, 0).await.unwrap();
            engine
                .activate(&reopened, &CompleteResources::All)
                .await
                .unwrap();
        }
        assert!(engine.lost(&revisions).await.unwrap().is_empty(), "{alias}");
        assert_eq!(seen(&engine, &[]).await.len(), 2, "{alias}");
        assert_eq!(seen(&engine, &[0]).await.len(), 1, "{alias}");
    }
    // A further cluster still finds a place.
    fill(&engine, 2, &["c"]).await;
    assert_eq!(seen(&engine, &[]).await.len(), 3);
    // A write alias is restored as long as the alias of the cluster leads to the documents.
    let target = revisions[0].target.as_str();
    server.remove_alias(target);
    assert_eq!(engine.lost(&revisions).await.unwrap(), [cluster(0)].into());
    assert_eq!(open(&engine, 0).await.id, revisions[0].id);
    assert!(engine.lost(&revisions).await.unwrap().is_empty());
    for alias in [target, "fleetdex-member0"] {
        server.remove_alias(alias);
    }
    assert_eq!(engine.lost(&revisions).await.unwrap(), [cluster(0)].into());
    let next = fill(&engine, 0, &["a"]).await;
    assert_ne!(next.id, revisions[0].id);
    assert_eq!(seen(&engine, &[]).await.len(), 3);
    engine.sweep().await.unwrap();
    let documents: usize = server.indices().values().map(|index| index.documents).sum();
    assert_eq!(documents, 3);
}
