use std::{collections::BTreeSet, time::Duration};

use fleetdex_core::{
    model::{ClusterName, Gvk, Object, Projection, Projector, Resource},
    query::{Cursor, Grant, Permitted, ResourceName, Selectable},
};
use futures::FutureExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Checkpoint, CheckpointStore as _, Checkpoints, CompleteResources, DocumentVersions as _,
    DocumentWriter as _, Extent, IndexReader as _, IndexRevision, KindExtent, RevisionStore as _,
    StoredVersion,
    bulk::{Verdict, Write},
};

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn pods() -> Resource {
    Resource {
        gvk: Gvk::new("", "v1", "Pod"),
        plural: "pods".into(),
        namespaced: true,
    }
}

fn query(labels: &str) -> Query {
    let selectable = Selectable::of(&pods().gvk, &[]);
    Query {
        labels: labels.parse().unwrap(),
        ..Query::all_of(ResourceName::new("", "pods"), selectable, 2)
    }
}

/// A pod `number` with a label, at a version; deleted without one.
fn write(revision: &IndexRevision, number: usize, version: u64, app: Option<&str>) -> Write {
    let metadata = json!({
        "name": format!("pod-{number:04}"), "namespace": "web", "uid": format!("uid-{number}"), "resourceVersion": version.to_string(),
        "labels": { "app": app.unwrap_or_default() }, "annotations": { "note": "the same in every pod, so that packing has something to do" },
    });
    let object = json!({ "metadata": metadata, "spec": { "nodeName": "n1" } }).to_string();
    let projector = Projector::new(&revision.cluster, &pods(), &Projection::default(), &[]);
    let mut document = projector
        .document(&Object::parse(&object).unwrap(), "2026-01-01T00:00:00Z")
        .unwrap();
    document.body = document.body.filter(|_| app.is_some());
    Write {
        index: revision.target.clone(),
        document,
    }
}

fn web(revision: &IndexRevision, number: usize, version: u64) -> Write {
    write(revision, number, version, Some("web"))
}

fn web_pods(revision: &IndexRevision, numbers: std::ops::Range<usize>, version: u64) -> Vec<Write> {
    numbers
        .map(|number| web(revision, number, version))
        .collect()
}

impl Memory {
    async fn open_a(&self) -> IndexRevision {
        self.open(&cluster("a"), Some("uid"), 0).await.unwrap()
    }

    async fn show_all(&self, revision: &IndexRevision) {
        self.activate(revision, &CompleteResources::All)
            .await
            .unwrap();
    }

    async fn put(&self, writes: &[Write]) -> Vec<Verdict> {
        self.write(writes).await.unwrap()
    }

    /// The cursor after the first page.
    async fn cursor(&self, query: &Query) -> Cursor {
        self.search(query, None).await.unwrap().next.unwrap()
    }

    async fn is_expired(&self, query: &Query, cursor: Option<&Cursor>) -> bool {
        let page = self.search(query, cursor).await;
        matches!(page, Err(StoreError::Expired))
    }

    /// The number of items of the page after a cursor.
    async fn page_len(&self, query: &Query, cursor: &Cursor) -> usize {
        self.search(query, Some(cursor)).await.unwrap().items.len()
    }
}

async fn live(memory: &Memory, name: &str) -> IndexRevision {
    let revision = memory.open(&cluster(name), None, 0).await.unwrap();
    memory.show_all(&revision).await;
    revision
}

async fn live_store() -> (Memory, IndexRevision) {
    let memory = Memory::new();
    let revision = live(&memory, "a").await;
    (memory, revision)
}

/// A store of this many pods.
async fn filled(pods: usize) -> Memory {
    let memory = Memory::new();
    let revision = memory.open_a().await;
    memory.put(&web_pods(&revision, 0..pods, 1)).await;
    memory.show_all(&revision).await;
    memory
}

async fn count(memory: &Memory, labels: &str) -> usize {
    let everything = Query {
        limit: 9_000,
        ..query(labels)
    };
    memory.search(&everything, None).await.unwrap().items.len()
}

#[tokio::test]
async fn what_is_complete_of_a_first_revision_is_seen_before_the_rest_and_told_to_those_who_watch()
{
    let memory = Memory::new();
    let first = memory.open_a().await;
    memory.put(&[web(&first, 1, 5)]).await;
    let (_, moment) = memory.list(&query(""), None).await.unwrap();
    let mut watch = memory.watch(&query(""), moment).unwrap();
    let (nodes, pods) = (
        ResourceName::new("", "nodes"),
        ResourceName::new("", "pods"),
    );
    memory
        .activate(&first, &CompleteResources::Only([nodes.clone()].into()))
        .await
        .unwrap();
    memory.put(&[web(&first, 2, 6)]).await;
    assert_eq!(count(&memory, "").await, 0);
    let other = memory
        .shaped("other")
        .open(&cluster("a"), Some("uid"), 0)
        .await
        .unwrap();
    assert!(
        other.answers(&nodes) && !other.answers(&pods),
        "as long as it is filled, no more is answered than before"
    );
    memory.drop_revision(&other).await.unwrap();
    memory
        .activate(&first, &CompleteResources::Only([pods.clone()].into()))
        .await
        .unwrap();
    assert_eq!(count(&memory, "").await, 2);
    memory.put(&[web(&first, 3, 7)]).await;
    memory.show_all(&first).await;
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        kinds.extend(watch.next().await.unwrap().iter().map(|event| event.kind));
    }
    assert_eq!(kinds, [EventKind::Added; 3]);
    let (_, moment) = memory.list(&query(""), None).await.unwrap();
    let again = memory.open_a().await;
    assert_eq!(
        (
            again.live,
            again.replaces.is_some(),
            count(&memory, "").await
        ),
        (true, false, 3)
    );
    assert!(moment > 0);
}

#[tokio::test]
async fn a_revision_is_seen_when_it_is_live_and_takes_the_place_of_the_one_before() {
    let memory = Memory::new();
    let first = memory.open_a().await;
    assert_eq!(
        (first.number, first.live, first.replaces.is_some()),
        (1, false, false)
    );
    memory.put(&[web(&first, 1, 5), web(&first, 2, 6)]).await;
    assert_eq!(count(&memory, "").await, 0, "it is not live yet");
    memory.show_all(&first).await;
    assert_eq!(count(&memory, "").await, 2);
    let same = memory.open_a().await;
    assert_eq!((&same.id, same.live), (&first.id, true));
    for (shape, uid) in [("other", "uid"), ("", "another cluster")] {
        let next = memory
            .shaped(shape)
            .open(&cluster("a"), Some(uid), 0)
            .await
            .unwrap();
        assert_eq!(
            (next.number, next.live, next.replaces.is_some()),
            (2, false, true),
            "{shape} {uid}"
        );
        memory.drop_revision(&next).await.unwrap();
    }
    let next = memory
        .open(&cluster("a"), Some("uid"), first.number)
        .await
        .unwrap();
    memory.put(&[write(&next, 2, 7, Some("api"))]).await;
    assert_eq!(
        count(&memory, "").await,
        2,
        "the old one answers as long as the new one is filled"
    );
    memory.show_all(&next).await;
    assert_eq!(
        (count(&memory, "").await, count(&memory, "app=api").await),
        (1, 1)
    );
    let verdicts = memory.put(&[web(&first, 3, 8)]).await;
    assert_eq!(verdicts[0].label(), "index_missing");
    let lost = memory
        .lost(&[first, IndexRevision { live: true, ..next }])
        .await
        .unwrap();
    assert_eq!(lost, BTreeSet::from([cluster("a")]));
}

#[tokio::test]
async fn what_was_deleted_does_not_come_back_by_an_older_write() {
    let (memory, revision) = live_store().await;
    let labels = async |write| memory.put(&[write]).await[0].label();
    assert_eq!(labels(web(&revision, 1, 5)).await, "indexed");
    assert_eq!(labels(write(&revision, 1, 4, None)).await, "superseded");
    assert_eq!(labels(write(&revision, 1, 7, None)).await, "deleted");
    assert_eq!(labels(web(&revision, 1, 6)).await, "superseded");
    assert_eq!(labels(write(&revision, 1, 6, None)).await, "superseded");
    assert_eq!(labels(write(&revision, 1, 7, None)).await, "absent");
    assert_eq!(labels(web(&revision, 1, 7)).await, "indexed");
    assert_eq!(labels(write(&revision, 2, 9, None)).await, "absent");
    assert_eq!(labels(web(&revision, 2, 8)).await, "superseded");
}

#[tokio::test(start_paused = true)]
async fn deletions_are_remembered_for_a_while() {
    let (memory, revision) = live_store().await;
    memory.put(&[write(&revision, 1, 7, None)]).await;
    tokio::time::advance(Duration::from_mins(15)).await;
    assert_eq!(
        memory.put(&[web(&revision, 1, 6)]).await[0],
        Verdict::Indexed
    );
}

#[tokio::test(start_paused = true)]
async fn a_view_ends_when_nobody_asks_for_it_any_more() {
    let (memory, revision) = live_store().await;
    memory.put(&web_pods(&revision, 0..5, 5)).await;
    let first = memory.search(&query(""), None).await.unwrap();
    let cursor = first.next.unwrap();
    assert_eq!(first.remaining, Some(3));
    for _ in 0..3 {
        tokio::time::advance(Duration::from_mins(4)).await;
        assert_eq!(
            memory.page_len(&query(""), &cursor).await,
            2,
            "each page is time won"
        );
    }
    tokio::time::advance(Duration::from_mins(5)).await;
    assert!(memory.is_expired(&query(""), Some(&cursor)).await);
    let of_another_process = Cursor {
        snapshot: format!("{:032x}", 7),
        ..cursor
    };
    assert!(
        memory
            .is_expired(&query(""), Some(&of_another_process))
            .await
    );
}

#[tokio::test]
async fn a_kind_with_many_objects_gets_a_dictionary_and_they_read_as_before() {
    let (memory, revision) = live_store().await;
    memory.put(&web_pods(&revision, 0..1_500, 5)).await;
    let everything = Query {
        limit: 2_000,
        ..query("")
    };
    let page = memory.search(&everything, None).await.unwrap();
    for (number, hit) in page.items.iter().enumerate() {
        let object: serde_json::Value = serde_json::from_str(hit.object.get()).unwrap();
        assert_eq!(object["metadata"]["name"], format!("pod-{number:04}"));
        assert_eq!(
            object["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"],
            "a"
        );
    }
    let revisions = memory.shared.read();
    let chunks = revisions.freeze(&revision).unwrap();
    let dictionary = memory
        .shared
        .codec
        .dictionary(&ResourceName::new("", "pods"))
        .unwrap();
    for entry in chunks.iter().flat_map(|chunk| chunk.iter()) {
        let packed = entry.document.packed.lock();
        assert!(
            packed.is_packed_with(&dictionary),
            "{} is not packed again",
            entry.document.name()
        );
        assert!(
            packed.len() < 200,
            "{} takes {} bytes",
            entry.document.name(),
            packed.len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_knows_the_labels_of_what_is_gone_when_others_are_in_use() {
    let (memory, revision) = live_store().await;
    memory.put(&[web(&revision, 1, 5)]).await;
    memory.put(&[write(&revision, 1, 6, None)]).await;
    memory.put(&[write(&revision, 2, 7, Some("api"))]).await;
    let kinds = async |labels: &str| {
        let mut watch = memory.watch(&query(labels), 1).unwrap();
        let mut kinds: Vec<EventKind> = Vec::new();
        while watch.sequence() < 4 {
            let Ok(events) = tokio::time::timeout(Duration::from_millis(200), watch.next()).await
            else {
                break;
            };
            kinds.extend(events.unwrap().iter().map(|event| event.kind));
        }
        kinds
    };
    assert_eq!(
        kinds("app=web").await,
        [EventKind::Added, EventKind::Deleted]
    );
    assert_eq!(kinds("app=api").await, [EventKind::Added]);
}

#[tokio::test]
async fn watches_find_what_concerns_them_by_whatever_they_ask_for_and_share_it() {
    let (memory, revision) = live_store().await;
    let begin = memory.sequence().newest();
    let app = |number: usize| {
        Some(if number.is_multiple_of(3) {
            "web"
        } else {
            "api"
        })
    };
    let writes: Vec<Write> = (0..60)
        .map(|number| write(&revision, number, 5, app(number)))
        .collect();
    memory.put(&writes).await;
    memory
        .put(&[
            write(&revision, 3, 6, Some("api")),
            write(&revision, 4, 6, None),
        ])
        .await;
    let named = |names: &[&str], labels: &str| Query {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..query(labels)
    };
    let cancellation = [
        (query("app=web"), 20 + 1),
        (query("app in (web,api)"), 60 + 2),
        (query("app notin (web,x)"), 40 + 2),
        (query("app,app!=api"), 20 + 1),
        (query("app=web,app=api"), 0),
        (named(&["pod-0003", "pod-0005", "pod-0099"], ""), 2 + 1),
        (named(&["pod-0004"], "app=api"), 1 + 1),
        (
            Query {
                namespaces: vec!["db".parse().unwrap()],
                ..query("")
            },
            0,
        ),
        (
            Query {
                resource: ResourceName::new("", "nodes"),
                ..query("")
            },
            0,
        ),
    ];
    for (query, expected) in cancellation {
        let watches = [
            memory.watch(&query, begin).unwrap(),
            memory.watch(&query, begin).unwrap(),
        ];
        let mut events_of_each = [Vec::new(), Vec::new()];
        for (mut watch, events) in watches.into_iter().zip(&mut events_of_each) {
            while let Ok(some) = tokio::time::timeout(Duration::from_millis(20), watch.next()).await
            {
                events.extend(some.unwrap());
            }
            assert_eq!(watch.sequence(), memory.sequence().newest(), "{query:?}");
        }
        assert_eq!(
            events_of_each.each_ref().map(Vec::len),
            [expected; 2],
            "{query:?}"
        );
        assert!(
            events_of_each[0]
                .iter()
                .zip(&events_of_each[1])
                .all(|(left, right)| Arc::ptr_eq(&left.object, &right.object)),
            "{query:?}"
        );
        for event in events_of_each.iter().flatten() {
            let version = memory.sequence().version(event.sequence).to_string();
            let versioned = event.object.versioned().unwrap().object.get();
            assert!(versioned.contains(&version), "{query:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clusters_that_come_and_go_are_events_like_any_others() {
    let memory = Memory::new();
    let mut watch = memory.watch(&query("app=web"), 1).unwrap();
    let revision = memory.open(&cluster("a"), None, 0).await.unwrap();
    let writes = [
        web(&revision, 1, 5),
        write(&revision, 2, 5, Some("api")),
        web(&revision, 3, 5),
    ];
    memory.put(&writes).await;
    memory.show_all(&revision).await;
    let next_events = async |watch: &mut Watch| {
        let events = watch.next().await.unwrap();
        events
            .iter()
            .map(|event| {
                format!(
                    "{} {:?} {}",
                    event.sequence,
                    event.kind,
                    event.object.cluster()
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(next_events(&mut watch).await, ["2 Added a", "4 Added a"]);
    memory
        .put(&[write(&revision, 1, 6, Some("api")), web(&revision, 2, 6)])
        .await;
    assert_eq!(next_events(&mut watch).await, ["5 Deleted a", "6 Added a"]);
    memory
        .put(&[web(&revision, 2, 6), web(&revision, 3, 6)])
        .await;
    assert_eq!(
        next_events(&mut watch).await,
        ["7 Modified a"],
        "a replay is no event"
    );
    memory.drop_cluster(&cluster("a")).await.unwrap();
    assert_eq!(
        next_events(&mut watch).await,
        ["9 Deleted a", "10 Deleted a"]
    );
    let resumed = memory.watch(&query("app=web"), 8).unwrap();
    assert_eq!(
        next_events(&mut { resumed }).await,
        ["9 Deleted a", "10 Deleted a"]
    );
    assert_eq!(
        memory.watch(&query(""), 11).err(),
        Some(WatchError::TooOld(TooOld { after: 11 }))
    );
    assert_eq!(
        memory.watch(&query(""), 0).err(),
        Some(WatchError::TooOld(TooOld { after: 0 }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_the_log_has_to_list_again() {
    let (memory, revision) = live_store().await;
    let mut watch = memory.watch(&query(""), 1).unwrap();
    for round in 0..340 {
        memory.put(&web_pods(&revision, 0..200, 5 + round)).await;
    }
    assert!(matches!(watch.next().await, Err(StoreError::Expired)));
    let (_, now) = memory.list(&query(""), None).await.unwrap();
    assert!(memory.watch(&query(""), now - 1_000).is_ok());
}

#[tokio::test]
async fn extents_and_checkpoints_are_as_they_were_written() {
    let (memory, revision) = live_store().await;
    memory.put(&[web(&revision, 1, 5)]).await;
    let visit = async |extent: Extent| {
        let mut visited = Vec::new();
        let mut note =
            |stored: StoredVersion<'_>| visited.push(format!("{}@{}", stored.id, stored.version));
        memory
            .visit_versions(&revision, &extent, &mut note)
            .await
            .unwrap();
        visited
    };
    let kind = |namespace: Option<&str>| KindExtent {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: namespace.map(|name| name.parse().unwrap()),
    };
    assert_eq!(visit(Extent::Kind(kind(None))).await, ["v1/Pod/uid-1@5"]);
    assert_eq!(
        visit(Extent::Kind(kind(Some("other")))).await,
        Vec::<String>::new()
    );
    assert_eq!(
        visit(Extent::Outside(vec![kind(Some("other"))])).await,
        ["v1/Pod/uid-1@5"]
    );
    assert_eq!(
        visit(Extent::Outside(vec![kind(Some("web"))])).await,
        Vec::<String>::new()
    );

    let checkpoint = Checkpoint {
        plan: "all".to_owned(),
        version: "5".parse().unwrap(),
        objects: 1,
        selected: Arc::default(),
        kind: None,
    };
    let units = [("v1/pods".to_owned(), checkpoint)].into();
    let saved = Checkpoints {
        cluster: cluster("a"),
        revision: 1,
        index: revision.id.clone(),
        units,
        at: None,
    };
    memory
        .save_checkpoints(std::slice::from_ref(&saved))
        .await
        .unwrap();
    assert_eq!(
        memory.checkpoints(&cluster("a")).await.unwrap(),
        Some(saved)
    );
    memory.drop_cluster(&cluster("a")).await.unwrap();
    assert_eq!(memory.checkpoints(&cluster("a")).await.unwrap(), None);
    assert!(memory.is_empty() && memory.revisions().await.unwrap().is_empty());
}

#[tokio::test]
async fn every_page_holds_only_what_the_question_may_show() {
    let memory = Memory::new();
    for (name, first) in [("a", 0), ("b", 10)] {
        let revision = memory.open(&cluster(name), Some("uid"), 0).await.unwrap();
        memory.put(&web_pods(&revision, first..first + 6, 1)).await;
        memory.show_all(&revision).await;
    }
    let only = |clusters: Option<&str>, namespaces: Option<&str>| {
        let grant = Grant {
            clusters: clusters.map(|name| vec![cluster(name)]),
            namespaces: namespaces.map(|name| vec![name.parse().unwrap()]),
        };
        Permitted::Only(vec![grant])
    };
    let others = [
        Query {
            permitted: Permitted::Only(Vec::new()),
            ..query("")
        },
        Query {
            permitted: only(None, Some("db")),
            ..query("")
        },
        Query {
            resource: ResourceName::new("", "secrets"),
            ..query("")
        },
        Query {
            clusters: vec![cluster("c")],
            ..query("")
        },
        Query {
            names: vec!["other".to_owned()],
            ..query("")
        },
        query("app=api"),
    ];
    for other in others {
        let cursor = memory.search(&query(""), None).await.unwrap().next;
        let page = memory.search(&other, cursor.as_ref()).await.unwrap();
        assert!(page.items.is_empty() && page.next.is_none(), "{other:?}");
    }
    let mut of_b = Vec::new();
    let narrowed = Query {
        permitted: only(Some("b"), None),
        ..query("")
    };
    let mut from = Some(memory.cursor(&query("")).await);
    while let Some(cursor) = from.take() {
        let page = memory.search(&narrowed, Some(&cursor)).await.unwrap();
        of_b.extend(page.items.iter().map(|hit| hit.cluster.to_string()));
        from = page.next;
    }
    assert_eq!(of_b, ["b"; 6]);
}

#[tokio::test]
async fn the_names_of_views_cannot_be_guessed() {
    let memory = filled(5).await;
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(memory.cursor(&query("")).await.snapshot);
    }
    let numbers: Vec<u128> = names
        .iter()
        .map(|name| u128::from_str_radix(name, 16).unwrap())
        .collect();
    assert!(names.iter().all(|name| name.len() == 32));
    assert!(
        numbers
            .windows(2)
            .all(|pair| pair[0].abs_diff(pair[1]) > 1 << 64),
        "{names:?}"
    );
}

fn of_user(name: &str) -> Query {
    Query {
        requester: Requester::User(name.into()),
        ..query("")
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_one_user_end_no_list_of_another() {
    let memory = filled(6).await;
    let alices = memory.cursor(&of_user("alice")).await;
    let mut first = None;
    for _ in 0..1_030 {
        tokio::time::advance(Duration::from_millis(1)).await;
        let next = memory.cursor(&of_user("mallory")).await;
        first.get_or_insert(next);
    }
    assert_eq!(memory.page_len(&of_user("alice"), &alices).await, 2);
    let error = memory
        .search(&of_user("mallory"), first.as_ref())
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Superseded));
    assert_eq!(memory.shared.views.len(), 65);
    for user in 0..30 {
        let lists = (0..70).map(|_| of_user(&user.to_string()));
        for list in lists {
            match memory.search(&list, None).await {
                Ok(_) => {}
                Err(error) => assert!(
                    matches!(error, StoreError::Crowded(_)) && user >= 14,
                    "{user}: {error}"
                ),
            }
        }
    }
    assert!(memory.shared.views.len() <= 1_024);
    assert_eq!(memory.page_len(&of_user("alice"), &alices).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_being_read_ends_for_no_other_and_one_that_is_released_is_gone() {
    let memory = filled(6).await;
    let pinned = memory.cursor(&of_user("alice")).await;
    memory.pin(&pinned);
    let mut last = pinned.clone();
    for _ in 0..100 {
        tokio::time::advance(Duration::from_millis(1)).await;
        last = memory.cursor(&of_user("alice")).await;
    }
    assert!(
        memory
            .search(&of_user("alice"), Some(&pinned))
            .await
            .is_ok()
    );
    memory.release(&last);
    assert!(memory.is_expired(&of_user("alice"), Some(&last)).await);
}

#[tokio::test]
async fn a_question_that_is_withdrawn_leaves_its_thread_to_others() {
    let memory = Memory::new();
    // Questions that go on for ever, of clients that go away at once.
    let noisy = Requester::User("noisy".into());
    for _ in 0..1_000 {
        let endless = memory.read(&noisy, |running| -> Result<(), StoreError> {
            loop {
                running.cancellation.check()?;
                std::thread::yield_now();
            }
        });
        assert!(endless.now_or_never().is_none());
    }
    let reader_threads = reader_threads::thread_count();
    let mut taken = Vec::new();
    while taken.len() < reader_threads / 2 {
        // One user gets half only when what was withdrawn has left.
        taken.extend(memory.shared.readers.try_acquire(noisy.clone()));
        tokio::task::yield_now().await;
    }
    assert!(
        memory
            .search(&of_user("quiet"), None)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn one_user_has_half_of_the_threads_and_others_are_answered() {
    let memory = filled(6).await;
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let release = CancellationToken::new();
    let noisy: Vec<_> = (0..600)
        .map(|_| {
            let (memory, begun, release) = (memory.clone(), begun.clone(), release.clone());
            tokio::spawn(async move {
                let noisy = Requester::User("noisy".into());
                let held = memory.read(&noisy, move |_| {
                    begun.send(()).unwrap();
                    while !release.is_cancelled() {
                        std::thread::yield_now();
                    }
                    Ok(())
                });
                held.await
            })
        })
        .collect();
    let half = reader_threads::thread_count() / 2;
    for _ in 0..half {
        has_begun.recv().await.unwrap();
    }
    assert!(
        memory
            .search(&of_user("quiet"), None)
            .await
            .unwrap()
            .next
            .is_some()
    );
    let revision = live(&memory, "b").await;
    assert_eq!(
        memory.put(&[web(&revision, 1, 5)]).await,
        [Verdict::Indexed]
    );
    assert!(
        has_begun.try_recv().is_err(),
        "one user has more than half of the threads"
    );
    release.cancel();
    for held in noisy {
        assert!(held.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_view_whose_answer_is_not_taken_is_closed() {
    let memory = filled(6).await;
    let read = memory.clone();
    let (send, opened) = std::sync::mpsc::channel();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let question = tokio::spawn(async move {
        read.read(&Requester::Operator, move |running| {
            let view = running.open_view(&query(""));
            send.send(()).unwrap();
            waits.recv().unwrap_err();
            view
        })
        .await
    });
    tokio::task::spawn_blocking(move || opened.recv().unwrap())
        .await
        .unwrap();
    assert_eq!(memory.shared.views.len(), 1);
    question.abort();
    assert!(question.await.unwrap_err().is_cancelled());
    drop(go_on);
    while memory.shared.views.len() > 0 {
        tokio::task::yield_now().await;
    }
}
