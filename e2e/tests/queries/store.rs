//! The store on a real OpenSearch: pages, frozen views, versions, extents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    engine::engine,
    fleet::{Fleet, OpenSearchKind, OpenSearchServer, Options, SharedFleet, unique_prefix},
    test_result::Tested,
};
use fleetdex_core::{
    kinds,
    model::{
        ClusterName, FieldPath, FieldType, Gvk, MAX_FIELD_VALUE_BYTES, Object, Projection,
        Projector, Resource, SelectableField,
    },
    query::{
        Cursor, GroupKey, Hit, Page, Permitted, Query, Relation, RelativesQuery, Requester,
        ResourceName, Selectable, Sort, SortKey,
    },
};
use fleetdex_store::{
    CompleteResources, DocumentVersions as _, DocumentWriter as _, Extent, IndexReader as _,
    IndexRevision, KindExtent, RevisionStore as _, StoreError,
    bulk::{Verdict, Write},
    opensearch::Engine,
};
use reqwest::Method;
use serde_json::{Value, json};

const WRITES_PER_REQUEST: usize = 2_500;

#[expect(clippy::unwrap_used, reason = "every test needs it")]
async fn fleet(opensearch: OpenSearchKind) -> Arc<SharedFleet> {
    Fleet::shared(Options::of(0, opensearch)).await.unwrap()
}

/// A separate store in an OpenSearch.
struct TestStore {
    engine: Engine,
    prefix: String,
    fleet: Arc<SharedFleet>,
}

impl TestStore {
    async fn new() -> Result<Self> {
        Self::with_shards(1).await
    }

    async fn with_shards(shards: u32) -> Result<Self> {
        Self::on(OpenSearchKind::Plain, shards).await
    }

    async fn on(kind: OpenSearchKind, shards: u32) -> Result<Self> {
        let fleet = fleet(kind).await;
        let prefix = unique_prefix("store");
        let engine = engine(fleet.opensearch()?, &prefix, shards)?;
        engine.prepare().await?;
        Ok(Self {
            engine,
            prefix,
            fleet,
        })
    }

    fn server(&self) -> Result<&OpenSearchServer> {
        self.fleet.opensearch()
    }

    /// Writes objects to a cluster, each with its document's id, and makes them visible.
    async fn write(&self, cluster: &str, objects: &[TestObject]) -> Result<()> {
        let revision = self.engine.open(&cluster.parse()?, None, 0).await?;
        self.engine
            .activate(&revision, &CompleteResources::All)
            .await?;
        self.fill(&revision, objects).await
    }

    /// Writes objects to a revision, visible or not.
    async fn fill(&self, revision: &IndexRevision, objects: &[TestObject]) -> Result<()> {
        let name = &revision.cluster;
        let mut projectors: BTreeMap<Resource, Projector> = BTreeMap::new();
        let mut writes = Vec::with_capacity(objects.len());
        for made in objects {
            let projector = projectors.entry(made.resource.clone()).or_insert_with(|| {
                Projector::new(name, &made.resource, &Projection::default(), &made.fields)
            });
            let json = made.object.to_string();
            let mut document =
                projector.document(&Object::parse(&json)?, "2026-01-01T00:00:00Z")?;
            document.body = document.body.filter(|_| !made.deleted);
            writes.push(Write {
                index: revision.target.clone(),
                document,
            });
        }
        for chunk in writes.chunks(WRITES_PER_REQUEST) {
            let verdicts = self.engine.write(chunk).await?;
            let done = |verdict: &Verdict| matches!(verdict, Verdict::Indexed | Verdict::Deleted);
            ensure!(
                verdicts.iter().all(done),
                "not every write was done: {verdicts:?}"
            );
        }
        self.server()?
            .client()?
            .refresh(revision.index.as_str())
            .await
    }

    /// All pages, as names in their order; `between` is called after every page but the last.
    async fn pages(
        &self,
        query: &Query,
        mut between: impl AsyncFnMut(usize) -> Result<()>,
    ) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut cursor: Option<Cursor> = None;
        for number in 0.. {
            let page = self.engine.search(query, cursor.as_ref()).await?;
            ensure!(
                page.items.len() <= query.limit,
                "a page of {} objects",
                page.items.len()
            );
            names.extend(names_of(&page)?);
            let Some(next) = page.next else { break };
            ensure!(
                page.items.len() == query.limit,
                "a page of {} objects before the last one",
                page.items.len()
            );
            cursor = Some(next);
            between(number).await?;
        }
        Ok(names)
    }

    /// All pages while nothing changes.
    async fn all(&self, query: &Query) -> Result<Vec<String>> {
        self.pages(query, async |_| Ok(())).await
    }

    async fn versions(&self, cluster: &str, extent: &Extent) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        let name: ClusterName = cluster.parse()?;
        let revision = self.engine.open(&name, None, 0).await?;
        self.engine
            .visit_versions(&revision, extent, &mut |stored| {
                seen.push(format!("{} {}", stored.id, stored.version));
            })
            .await?;
        seen.sort();
        Ok(seen)
    }
}

/// An object to write.
#[derive(Clone)]
struct TestObject {
    resource: Resource,
    fields: Vec<SelectableField>,
    object: Value,
    deleted: bool,
}

impl TestObject {
    fn new(resource: &Resource, namespace: Option<&str>, name: &str, version: u64) -> Self {
        let uid = format!("{}-{}", namespace.unwrap_or_default(), name);
        let mut metadata =
            json!({ "name": name, "uid": uid, "resourceVersion": version.to_string() });
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        Self {
            resource: resource.clone(),
            fields: Vec::new(),
            object: json!({ "metadata": metadata }),
            deleted: false,
        }
    }
}

#[expect(clippy::unwrap_used, reason = "every test names kinds that exist")]
fn built_in(name: &str) -> Resource {
    kinds::resolve(name).unwrap().resource()
}

fn kind(api_version: &str, name: &str) -> Resource {
    Resource {
        gvk: Gvk::from_api_version(api_version, name),
        plural: name.to_lowercase().into(),
        namespaced: true,
    }
}

fn query(resource: &Resource, limit: usize) -> Query {
    Query::all_of(
        ResourceName::from(resource),
        Selectable::of(&resource.gvk, &[]),
        limit,
    )
}

/// `cluster/namespace/name` of every object of a page.
fn names_of(page: &Page) -> Result<Vec<String>> {
    let name = |hit: &Hit| -> Result<String> {
        let object: Value = serde_json::from_str(hit.object.get())?;
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        Ok(format!(
            "{}/{}/{}",
            hit.cluster,
            text("namespace"),
            text("name")
        ))
    };
    page.items.iter().map(name).collect()
}

/// 60 pods in two clusters and three namespaces, and 24 nodes, which have no namespace. Names and
/// UIDs are the same in both clusters, as if both had been restored from one backup.
async fn two_clusters(store: &TestStore) -> Result<()> {
    let (pods, nodes) = (built_in("pods"), built_in("nodes"));
    for cluster in ["member1", "team/prod"] {
        let mut objects = Vec::new();
        for number in 0..30 {
            let namespace = ["a", "a-b", "b"][number % 3];
            let mut pod =
                TestObject::new(&pods, Some(namespace), &format!("pod-{}", number / 3), 100);
            // Some creation times are equal, and some objects, such as all nodes, have none.
            if number % 4 != 0 {
                pod.object["metadata"]["creationTimestamp"] =
                    format!("2026-01-01T00:00:{:02}Z", number % 7).into();
            }
            objects.push(pod);
        }
        objects.extend(
            (0..12).map(|number| TestObject::new(&nodes, None, &format!("node-{number}"), 100)),
        );
        store.write(cluster, &objects).await?;
    }
    Ok(())
}

fn orders() -> Vec<Vec<Sort>> {
    let by = |key, descending| Sort { key, descending };
    vec![
        Sort::standard(),
        vec![by(SortKey::Namespace, true), by(SortKey::Name, true)],
        vec![
            by(SortKey::Namespace, true),
            by(SortKey::Cluster, false),
            by(SortKey::Name, true),
        ],
        vec![by(SortKey::CreationTimestamp, true)],
        vec![by(SortKey::CreationTimestamp, false)],
        vec![
            by(SortKey::CreationTimestamp, true),
            by(SortKey::Namespace, false),
        ],
        vec![
            by(SortKey::CreationTimestamp, false),
            by(SortKey::Namespace, true),
        ],
        vec![
            by(SortKey::CreationTimestamp, false),
            by(SortKey::Namespace, false),
        ],
        Vec::new(),
    ]
}

#[tokio::test]
async fn concatenated_pages_equal_one_large_page_with_and_without_namespaces() -> Tested {
    let store = TestStore::new().await?;
    two_clusters(&store).await?;
    for (name, count) in [("pods", 60), ("nodes", 24)] {
        let resource = built_in(name);
        for sort in orders() {
            let whole = Query {
                sort: sort.clone(),
                ..query(&resource, 1_000)
            };
            let single = store.all(&whole).await?;
            assert_eq!(
                single.iter().collect::<BTreeSet<_>>().len(),
                count,
                "{sort:?}"
            );
            for limit in [7, 1, count / 2, count - 1, count, count + 1] {
                let paged = store
                    .all(&Query {
                        limit,
                        ..whole.clone()
                    })
                    .await?;
                let lost: Vec<&String> =
                    single.iter().filter(|name| !paged.contains(name)).collect();
                assert!(lost.is_empty(), "pages of {limit} lose {lost:?}, {sort:?}");
                assert_eq!(paged, single, "pages of {limit}, {sort:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_standard_order_is_namespace_then_name_then_cluster() -> Tested {
    let store = TestStore::new().await?;
    two_clusters(&store).await?;
    let pods = store.all(&query(&built_in("pods"), 7)).await?;
    assert_eq!(
        pods[..3],
        ["member1/a/pod-0", "team/prod/a/pod-0", "member1/a/pod-1"]
    );
    assert_eq!(pods[59], "team/prod/b/pod-9");
    let one = Query {
        clusters: vec!["team/prod".parse().unwrap()],
        ..query(&built_in("nodes"), 5)
    };
    let nodes = store.all(&one).await?;
    assert_eq!(
        nodes[..3],
        [
            "team/prod//node-0",
            "team/prod//node-1",
            "team/prod//node-10"
        ]
    );
    assert_eq!(nodes.len(), 12);
    Ok(())
}

#[tokio::test]
async fn changes_between_pages_do_not_affect_later_pages() -> Tested {
    let store = TestStore::new().await?;
    two_clusters(&store).await?;
    let (pods, nodes) = (built_in("pods"), built_in("nodes"));
    for resource in [&pods, &nodes] {
        let before = store.all(&query(resource, 1_000)).await?;
        let stir = async |number: usize| {
            let made = |name: String, version: usize| {
                TestObject::new(
                    resource,
                    resource.namespaced.then_some("a"),
                    &name,
                    version as u64,
                )
            };
            let singular = resource.gvk.kind.to_lowercase();
            let changed = made(format!("{singular}-{}", number % 3), 200 + number);
            let added = made(format!("{singular}-0-added-{number}"), 200);
            let deleted = TestObject {
                deleted: true,
                ..made(format!("{singular}-{}", 9 - number % 5), 300 + number)
            };
            store.write("member1", &[changed, added]).await?;
            // A second delete finds nothing.
            if number < 5 {
                store.write("member1", &[deleted]).await
            } else {
                Ok(())
            }
        };
        let paged = store.pages(&query(resource, 7), stir).await?;
        assert_eq!(before, paged);
        let after = store.all(&query(resource, 7)).await?;
        assert_ne!(before, after, "nothing changed between the pages");
    }
    Ok(())
}

#[tokio::test]
async fn the_last_page_closes_the_view_and_pages_report_the_remaining_count() -> Tested {
    let store = TestStore::new().await?;
    two_clusters(&store).await?;
    let query = query(&built_in("nodes"), 10);
    let first = store.engine.search(&query, None).await?;
    assert_eq!((first.items.len(), first.remaining), (10, Some(14)));
    let cursor = first.next.unwrap();
    let second = store.engine.search(&query, Some(&cursor)).await?;
    assert_eq!(second.items.len(), 10);
    // Pages can be read again until the last one is read.
    let again = store.engine.search(&query, Some(&cursor)).await?;
    assert_eq!(names_of(&second)?, names_of(&again)?);
    let third = store.engine.search(&query, second.next.as_ref()).await?;
    assert_eq!(third.items.len(), 4);
    assert!(third.next.is_none());
    let late = store
        .engine
        .search(&query, Some(&cursor))
        .await
        .unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");
    Ok(())
}

#[tokio::test]
async fn a_cursor_into_a_closed_view_has_expired() -> Tested {
    let store = TestStore::new().await?;
    two_clusters(&store).await?;
    let query = query(&built_in("pods"), 10);
    let cursor = store.engine.search(&query, None).await?.next.unwrap();
    let client = store.server().unwrap().client()?;
    let closed = client
        .send(
            Method::DELETE,
            "_search/point_in_time",
            Some(&json!({ "pit_id": [cursor.snapshot] })),
        )
        .await?;
    assert_eq!(closed.status, 200, "{}", closed.body);
    let late = store
        .engine
        .search(&query, Some(&cursor))
        .await
        .unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");

    // The index is deleted, and the view with it.
    let next = store.engine.search(&query, None).await?.next.unwrap();
    store
        .engine
        .drop_cluster(&"member1".parse().unwrap())
        .await?;
    store
        .engine
        .drop_cluster(&"team/prod".parse().unwrap())
        .await?;
    let late = store.engine.search(&query, Some(&next)).await.unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");
    // A query without visible indices has an empty result, not an error.
    assert!(store.engine.search(&query, None).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn every_version_is_visited_once_across_page_boundaries() -> Tested {
    for shards in [1, 3] {
        visit_across_page_boundaries(&TestStore::with_shards(shards).await?).await?;
    }
    Ok(())
}

async fn visit_across_page_boundaries(store: &TestStore) -> Tested {
    let resource = built_in("configmaps");
    let extent = Extent::Kind(KindExtent {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: None,
    });
    let mut written = 0;
    for count in [9_999, 10_000, 10_001, 20_000] {
        let objects: Vec<TestObject> = (written..count)
            .map(|number| {
                TestObject::new(
                    &resource,
                    Some("a"),
                    &format!("c{number}"),
                    1_000 + number as u64,
                )
            })
            .collect();
        store.write("member1", &objects).await?;
        written = count;
        let seen = store.versions("member1", &extent).await?;
        assert_eq!(seen.len(), count);
        let expected: BTreeSet<String> = (0..count)
            .map(|number| format!("v1/ConfigMap/a-c{number} {}", 1_000 + number))
            .collect();
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    Ok(())
}

#[tokio::test]
async fn documents_outside_600_kinds_are_found_within_the_limits_of_a_request() -> Tested {
    let store = TestStore::new().await?;
    // One version with many kinds, many versions with one kind, in all namespaces and in one.
    let name = |number: usize| {
        if number < 100 {
            format!("Many{number}")
        } else {
            "Widget".to_owned()
        }
    };
    let version = |number: usize| {
        if number < 100 {
            "many.example.com/v1".to_owned()
        } else {
            format!("g{number}.example.com/v1")
        }
    };
    let namespace = |number: usize| (number % 2 == 1).then_some("covered");
    let mut objects = Vec::new();
    let mut extents = Vec::new();
    let mut outside = Vec::new();
    for number in 0..600 {
        let resource = kind(&version(number), &name(number));
        for of in ["covered", "other"] {
            objects.push(TestObject::new(&resource, Some(of), "x", 5));
            if namespace(number).is_some_and(|covered| covered != of) {
                outside.push(format!("{}/{}/{of}-x 5", version(number), name(number)));
            }
        }
        let namespace = namespace(number).map(|namespace| namespace.parse().unwrap());
        extents.push(KindExtent {
            api_version: version(number),
            kind: name(number),
            namespace,
        });
    }
    for (version, name) in [
        ("many.example.com/v1", "Widget"),
        ("g101.example.com/v1", "Many1"),
        ("v1", "Widget"),
        ("g101.example.com/v2", "Widget"),
    ] {
        objects.push(TestObject::new(
            &kind(version, name),
            Some("covered"),
            "x",
            5,
        ));
        outside.push(format!("{version}/{name}/covered-x 5"));
    }
    store.write("member1", &objects).await?;
    outside.sort();
    let seen = store.versions("member1", &Extent::Outside(extents)).await?;
    assert_eq!(seen, outside);
    let everything = store
        .versions("member1", &Extent::Outside(Vec::new()))
        .await?;
    assert_eq!(everything.len(), objects.len());
    Ok(())
}

#[tokio::test]
async fn a_truncated_value_does_not_match_the_shorter_value() -> Tested {
    let store = TestStore::new().await?;
    let resource = kind("example.com/v1", "Widget");
    let color = FieldPath::new("spec.color");
    let fields = vec![SelectableField {
        path: color.clone(),
        sources: vec![color],
        kind: FieldType::Optional,
    }];
    let longest = "x".repeat(MAX_FIELD_VALUE_BYTES);
    let made = |name: &str, value: &str| {
        let mut made = TestObject {
            fields: fields.clone(),
            ..TestObject::new(&resource, Some("a"), name, 5)
        };
        made.object["spec"] = json!({ "color": value });
        made
    };
    store
        .write(
            "member1",
            &[made("whole", &longest), made("cut", &format!("{longest}x"))],
        )
        .await?;
    let find = async |fields_text: String| -> Result<Vec<String>> {
        let selectable = Selectable::of(&resource.gvk, &fields);
        let query = Query {
            selectable,
            fields: fields_text.parse().context("parsing")?,
            ..query(&resource, 10)
        };
        store.all(&query).await
    };
    assert_eq!(
        find(format!("spec.color={longest}")).await?,
        ["member1/a/whole"]
    );
    assert_eq!(
        find(format!("spec.color!={longest}")).await?,
        ["member1/a/cut"]
    );
    assert_eq!(find("spec.color".to_owned()).await?.len(), 2);
    Ok(())
}

/// What each type of query finds of a resource: a list in pages, an older view, counts, and owner
/// searches.
async fn found(
    store: &TestStore,
    resource: &Resource,
    clusters: &[ClusterName],
) -> Result<BTreeMap<&'static str, usize>> {
    let all = Query {
        clusters: clusters.to_vec(),
        ..query(resource, 7)
    };
    let of_view = match store.engine.open_view(&all).await {
        Ok(view) => {
            let cursor = Cursor {
                snapshot: view,
                after: Vec::new(),
                remaining: None,
            };
            store
                .engine
                .search(
                    &Query {
                        limit: 1_000,
                        ..all.clone()
                    },
                    Some(&cursor),
                )
                .await?
                .items
                .len()
        }
        // Without visible kinds there is no view to open.
        Err(StoreError::Expired) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut placed = 0;
    let mut from: Option<Cursor> = None;
    loop {
        let page = store.engine.sorted_page(&all, from.as_ref()).await?;
        placed += page.items.len();
        let Some((view, last)) = page
            .view
            .clone()
            .zip(page.items.last())
            .filter(|_| page.more)
        else {
            break;
        };
        from = Some(Cursor {
            snapshot: view,
            after: last.after.clone(),
            remaining: None,
        });
    }
    let count = async |by: &[GroupKey]| {
        Ok::<_, StoreError>(usize::try_from(
            store.engine.aggregate(&all, by, 100).await?.total,
        ))
    };
    let relation = Relation::Named {
        resource: Some(ResourceName::from(resource)),
        names: (0..10)
            .map(|number| format!("{}-{number}", resource.plural))
            .collect(),
    };
    let asked = RelativesQuery {
        clusters: clusters.to_vec(),
        namespaces: Vec::new(),
        permitted: Permitted::Everything,
        requester: Requester::Operator,
        relation,
    };
    Ok(BTreeMap::from([
        ("pages", store.all(&all).await?.len()),
        ("view", of_view),
        ("placed pages", placed),
        ("counts by cluster", count(&[GroupKey::Cluster]).await??),
        (
            "counts by label",
            count(&[GroupKey::Namespace, GroupKey::Label("tier".to_owned())]).await??,
        ),
        ("owners", store.engine.relatives(&asked).await?.len()),
    ]))
}

/// Every query finds all of `resources` and nothing of `others`, whether it names the cluster or
/// not.
async fn only(store: &TestStore, resources: &[&Resource], others: &[&Resource]) -> Result<()> {
    let member: ClusterName = "member1".parse()?;
    for clusters in [
        Vec::new(),
        vec![member.clone()],
        vec![member, "member2".parse()?],
    ] {
        for (shown, expected) in [(resources, 30), (others, 0)] {
            for resource in shown {
                for (question, count) in found(store, resource, &clusters).await? {
                    ensure!(
                        count == expected,
                        "{question} about {} of {clusters:?}: {count}",
                        resource.plural
                    );
                }
            }
        }
    }
    Ok(())
}

async fn a_first_revision_becomes_visible_kind_by_kind(kind: OpenSearchKind) -> Result<()> {
    let store = TestStore::on(kind, 2).await?;
    let server = store.server()?;
    let [pods, maps, secrets] = ["pods", "configmaps", "secrets"].map(built_in);
    let revision = store.engine.open(&"member1".parse()?, None, 0).await?;
    let mut objects = Vec::new();
    for resource in [&pods, &maps, &secrets] {
        for number in 0..30 {
            let name = format!("{}-{}", resource.plural, number / 3);
            let mut made = TestObject::new(resource, Some(["a", "b", "c"][number % 3]), &name, 100);
            let tier = if number % 2 == 0 { "web" } else { "db" };
            made.object["metadata"]["labels"] = json!({ "tier": tier });
            objects.push(made);
        }
    }
    store.fill(&revision, &objects).await?;
    let client = server.client()?;
    let alias = format!("{}-member1", store.prefix);
    only(&store, &[], &[&pods, &maps, &secrets])
        .await
        .context("nothing is shown")?;

    let name_of = ResourceName::from;
    store
        .engine
        .activate(&revision, &CompleteResources::Only([name_of(&pods)].into()))
        .await?;
    only(&store, &[&pods], &[&maps, &secrets])
        .await
        .context("pods are shown")?;
    // An open view stays as it was.
    let before = Query {
        limit: 1_000,
        ..query(&maps, 1)
    };
    let old_view = Cursor {
        snapshot: store.engine.open_view(&before).await?,
        after: Vec::new(),
        remaining: None,
    };

    store
        .engine
        .activate(&revision, &CompleteResources::Only([name_of(&maps)].into()))
        .await?;
    only(&store, &[&pods, &maps], &[&secrets])
        .await
        .context("pods and config maps are shown")?;
    ensure!(
        store
            .engine
            .search(&before, Some(&old_view))
            .await?
            .items
            .is_empty(),
        "an older view shows what was not shown"
    );

    // Lists, garbage collection and audits read everything that is stored, and replaced documents
    // are found, visible or not.
    let all = store
        .versions("member1", &Extent::Outside(Vec::new()))
        .await?;
    ensure!(all.len() == 90, "{} versions", all.len());
    let replaced =
        json!({ "docs": [{ "_index": revision.target, "_id": "v1/Secret/a-secrets-0" }] });
    let replaced = client.post("_mget", &replaced).await?;
    ensure!(replaced["docs"][0]["found"] == true, "{replaced}");

    // Another process finds the same: the visible kinds are read from the aliases.
    let seen = engine(server, &store.prefix, 2)?
        .open(&"member1".parse()?, None, 0)
        .await?;
    ensure!(
        !seen.live && seen.shown == BTreeSet::from([name_of(&pods), name_of(&maps)]),
        "{seen:?}"
    );

    store
        .engine
        .activate(&revision, &CompleteResources::All)
        .await?;
    only(&store, &[&pods, &maps, &secrets], &[])
        .await
        .context("everything is shown")?;
    let aliases = client.get(&format!("{}/_alias", revision.index)).await?;
    let of_index = &aliases[revision.index.as_str()]["aliases"];
    ensure!(
        of_index[alias.as_str()] == json!({}) && of_index[store.prefix.as_str()] == json!({}),
        "{aliases}"
    );
    // Visible kinds stay visible.
    store
        .engine
        .activate(&revision, &CompleteResources::Only([name_of(&pods)].into()))
        .await?;
    only(&store, &[&pods, &maps, &secrets], &[])
        .await
        .context("everything is still shown")
}

#[tokio::test]
async fn a_first_revision_serves_only_complete_kinds() -> Tested {
    a_first_revision_becomes_visible_kind_by_kind(OpenSearchKind::Plain).await?;
    Ok(())
}

#[tokio::test]
async fn a_first_revision_serves_only_complete_kinds_in_opensearch_2() -> Tested {
    a_first_revision_becomes_visible_kind_by_kind(OpenSearchKind::Secure).await?;
    Ok(())
}
