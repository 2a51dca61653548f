//! The store on a real OpenSearch: pages, frozen views, versions, extents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    engine::engine,
    fleet::{Fleet, OpenSearchKind, OpenSearchServer, Options, SharedFleet, unique_prefix},
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
    Extent, IndexReader as _, IndexRevision, IndexWriter as _, KindExtent, StoreError,
    bulk::{Verdict, Write},
    opensearch::Engine,
};
use reqwest::Method;
use serde_json::{Value, json};

const WRITES_PER_REQUEST: usize = 2_500;

#[expect(clippy::unwrap_used, reason = "every test needs it")]
async fn fleet(opensearch: OpenSearchKind) -> Arc<SharedFleet> {
    Fleet::shared(Options {
        opensearch,
        ..Options::default()
    })
    .await
    .unwrap()
}

/// A store of its own in an OpenSearch.
struct Bench {
    engine: Engine,
    prefix: String,
    fleet: Arc<SharedFleet>,
}

impl Bench {
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
    async fn write(&self, cluster: &str, objects: &[Made]) -> Result<()> {
        let revision = self.engine.open(&cluster.parse()?, None, 0).await?;
        self.engine.activate(&revision).await?;
        self.fill(&revision, objects).await
    }

    /// Writes objects to a revision, seen or not.
    async fn fill(&self, revision: &IndexRevision, objects: &[Made]) -> Result<()> {
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
struct Made {
    resource: Resource,
    fields: Vec<SelectableField>,
    object: Value,
    deleted: bool,
}

impl Made {
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

/// 60 pods in two clusters and three namespaces, and 24 nodes, which have no namespace. Names and UIDs are the same in both clusters, as
/// if both had been restored from one backup.
async fn two_clusters(bench: &Bench) -> Result<()> {
    let (pods, nodes) = (built_in("pods"), built_in("nodes"));
    for cluster in ["member1", "team/prod"] {
        let mut objects = Vec::new();
        for number in 0..30 {
            let namespace = ["a", "a-b", "b"][number % 3];
            let mut pod = Made::new(&pods, Some(namespace), &format!("pod-{}", number / 3), 100);
            // Some are of one second, and some have no time at all, as all nodes here.
            if number % 4 != 0 {
                pod.object["metadata"]["creationTimestamp"] =
                    format!("2026-01-01T00:00:{:02}Z", number % 7).into();
            }
            objects.push(pod);
        }
        objects
            .extend((0..12).map(|number| Made::new(&nodes, None, &format!("node-{number}"), 100)));
        bench.write(cluster, &objects).await?;
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
async fn pages_together_are_the_single_answer_with_namespaces_and_without() {
    let bench = Bench::new().await.unwrap();
    two_clusters(&bench).await.unwrap();
    for (name, count) in [("pods", 60), ("nodes", 24)] {
        let resource = built_in(name);
        for sort in orders() {
            let whole = Query {
                sort: sort.clone(),
                ..query(&resource, 1_000)
            };
            let single = bench.pages(&whole, async |_| Ok(())).await.unwrap();
            assert_eq!(
                single.iter().collect::<BTreeSet<_>>().len(),
                count,
                "{sort:?}"
            );
            for limit in [7, 1, count / 2, count - 1, count, count + 1] {
                let paged = bench
                    .pages(
                        &Query {
                            limit,
                            ..whole.clone()
                        },
                        async |_| Ok(()),
                    )
                    .await
                    .unwrap();
                let lost: Vec<&String> =
                    single.iter().filter(|name| !paged.contains(name)).collect();
                assert!(lost.is_empty(), "pages of {limit} lose {lost:?}, {sort:?}");
                assert_eq!(paged, single, "pages of {limit}, {sort:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_standard_order_is_namespace_then_name_then_cluster() {
    let bench = Bench::new().await.unwrap();
    two_clusters(&bench).await.unwrap();
    let pods = bench
        .pages(&query(&built_in("pods"), 7), async |_| Ok(()))
        .await
        .unwrap();
    assert_eq!(
        pods[..3],
        ["member1/a/pod-0", "team/prod/a/pod-0", "member1/a/pod-1"]
    );
    assert_eq!(pods[59], "team/prod/b/pod-9");
    let one = Query {
        clusters: vec!["team/prod".parse().unwrap()],
        ..query(&built_in("nodes"), 5)
    };
    let nodes = bench.pages(&one, async |_| Ok(())).await.unwrap();
    assert_eq!(
        nodes[..3],
        [
            "team/prod//node-0",
            "team/prod//node-1",
            "team/prod//node-10"
        ]
    );
    assert_eq!(nodes.len(), 12);
}

#[tokio::test]
async fn objects_that_change_between_pages_change_no_page() {
    let bench = Bench::new().await.unwrap();
    two_clusters(&bench).await.unwrap();
    let (pods, nodes) = (built_in("pods"), built_in("nodes"));
    for resource in [&pods, &nodes] {
        let before = bench
            .pages(&query(resource, 1_000), async |_| Ok(()))
            .await
            .unwrap();
        let stir = async |number: usize| {
            let made = |name: String, version: usize| {
                Made::new(
                    resource,
                    resource.namespaced.then_some("a"),
                    &name,
                    version as u64,
                )
            };
            let singular = resource.gvk.kind.to_lowercase();
            let changed = made(format!("{singular}-{}", number % 3), 200 + number);
            let added = made(format!("{singular}-0-added-{number}"), 200);
            let deleted = Made {
                deleted: true,
                ..made(format!("{singular}-{}", 9 - number % 5), 300 + number)
            };
            bench.write("member1", &[changed, added]).await?;
            // A second delete finds nothing to delete.
            if number < 5 {
                bench.write("member1", &[deleted]).await
            } else {
                Ok(())
            }
        };
        let paged = bench.pages(&query(resource, 7), stir).await.unwrap();
        assert_eq!(before, paged);
        let after = bench
            .pages(&query(resource, 7), async |_| Ok(()))
            .await
            .unwrap();
        assert_ne!(before, after, "nothing changed between the pages");
    }
}

#[tokio::test]
async fn the_last_page_closes_the_view_and_a_page_tells_what_is_left() {
    let bench = Bench::new().await.unwrap();
    two_clusters(&bench).await.unwrap();
    let query = query(&built_in("nodes"), 10);
    let first = bench.engine.search(&query, None).await.unwrap();
    assert_eq!((first.items.len(), first.remaining), (10, Some(14)));
    let cursor = first.next.unwrap();
    let second = bench.engine.search(&query, Some(&cursor)).await.unwrap();
    assert_eq!(second.items.len(), 10);
    // Until the last page was read, a page can be read again.
    let again = bench.engine.search(&query, Some(&cursor)).await.unwrap();
    assert_eq!(names_of(&second).unwrap(), names_of(&again).unwrap());
    let third = bench
        .engine
        .search(&query, second.next.as_ref())
        .await
        .unwrap();
    assert_eq!(third.items.len(), 4);
    assert!(third.next.is_none());
    let late = bench
        .engine
        .search(&query, Some(&cursor))
        .await
        .unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");
}

#[tokio::test]
async fn a_cursor_into_a_closed_view_has_expired() {
    let bench = Bench::new().await.unwrap();
    two_clusters(&bench).await.unwrap();
    let query = query(&built_in("pods"), 10);
    let cursor = bench
        .engine
        .search(&query, None)
        .await
        .unwrap()
        .next
        .unwrap();
    let client = bench.server().unwrap().client().unwrap();
    let closed = client
        .send(
            Method::DELETE,
            "_search/point_in_time",
            Some(&json!({ "pit_id": [cursor.snapshot] })),
        )
        .await
        .unwrap();
    assert_eq!(closed.status, 200, "{}", closed.body);
    let late = bench
        .engine
        .search(&query, Some(&cursor))
        .await
        .unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");

    // The index is gone, and the view with it.
    let next = bench
        .engine
        .search(&query, None)
        .await
        .unwrap()
        .next
        .unwrap();
    bench
        .engine
        .drop_cluster(&"member1".parse().unwrap())
        .await
        .unwrap();
    bench
        .engine
        .drop_cluster(&"team/prod".parse().unwrap())
        .await
        .unwrap();
    let late = bench.engine.search(&query, Some(&next)).await.unwrap_err();
    assert!(matches!(late, StoreError::Expired), "{late}");
    // Nothing left is no error.
    assert!(
        bench
            .engine
            .search(&query, None)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn every_version_is_visited_once_across_the_borders_of_pages() {
    for shards in [1, 3] {
        visit_across_borders(&Bench::with_shards(shards).await.unwrap()).await;
    }
}

#[expect(clippy::unwrap_used, reason = "part of a test")]
async fn visit_across_borders(bench: &Bench) {
    let resource = built_in("configmaps");
    let extent = Extent::Kind(KindExtent {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: None,
    });
    let mut written = 0;
    for count in [9_999, 10_000, 10_001, 20_000] {
        let objects: Vec<Made> = (written..count)
            .map(|number| {
                Made::new(
                    &resource,
                    Some("a"),
                    &format!("c{number}"),
                    1_000 + number as u64,
                )
            })
            .collect();
        bench.write("member1", &objects).await.unwrap();
        written = count;
        let seen = bench.versions("member1", &extent).await.unwrap();
        assert_eq!(seen.len(), count);
        let expected: BTreeSet<String> = (0..count)
            .map(|number| format!("v1/ConfigMap/a-c{number} {}", 1_000 + number))
            .collect();
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

#[tokio::test]
async fn what_lies_outside_of_600_kinds_is_found_without_asking_too_much() {
    let bench = Bench::new().await.unwrap();
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
            objects.push(Made::new(&resource, Some(of), "x", 5));
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
        objects.push(Made::new(&kind(version, name), Some("covered"), "x", 5));
        outside.push(format!("{version}/{name}/covered-x 5"));
    }
    bench.write("member1", &objects).await.unwrap();
    outside.sort();
    let seen = bench
        .versions("member1", &Extent::Outside(extents))
        .await
        .unwrap();
    assert_eq!(seen, outside);
    let everything = bench
        .versions("member1", &Extent::Outside(Vec::new()))
        .await
        .unwrap();
    assert_eq!(everything.len(), objects.len());
}

#[tokio::test]
async fn a_value_too_long_to_be_kept_whole_is_not_taken_for_a_shorter_one() {
    let bench = Bench::new().await.unwrap();
    let resource = kind("example.com/v1", "Widget");
    let color = FieldPath::new("spec.color");
    let fields = vec![SelectableField {
        path: color.clone(),
        sources: vec![color],
        kind: FieldType::Optional,
    }];
    let longest = "x".repeat(MAX_FIELD_VALUE_BYTES);
    let made = |name: &str, value: &str| {
        let mut made = Made {
            fields: fields.clone(),
            ..Made::new(&resource, Some("a"), name, 5)
        };
        made.object["spec"] = json!({ "color": value });
        made
    };
    bench
        .write(
            "member1",
            &[made("whole", &longest), made("cut", &format!("{longest}x"))],
        )
        .await
        .unwrap();
    let ask = async |fields_text: String| -> Result<Vec<String>> {
        let selectable = Selectable::of(&resource.gvk, &fields);
        let query = Query {
            selectable,
            fields: fields_text.parse().context("parsing")?,
            ..query(&resource, 10)
        };
        bench.pages(&query, async |_| Ok(())).await
    };
    assert_eq!(
        ask(format!("spec.color={longest}")).await.unwrap(),
        ["member1/a/whole"]
    );
    assert_eq!(
        ask(format!("spec.color!={longest}")).await.unwrap(),
        ["member1/a/cut"]
    );
    assert_eq!(ask("spec.color".to_owned()).await.unwrap().len(), 2);
}

/// What every kind of question finds of a resource: a list in pages, an older view, counts, and owner searches.
async fn found(
    bench: &Bench,
    resource: &Resource,
    clusters: &[ClusterName],
) -> Result<BTreeMap<&'static str, usize>> {
    let all = Query {
        clusters: clusters.to_vec(),
        ..query(resource, 7)
    };
    let of_view = match bench.engine.open_view(&all).await {
        Ok(view) => {
            let cursor = Cursor {
                snapshot: view,
                after: Vec::new(),
                remaining: None,
            };
            bench
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
        // Where nothing is seen there is nothing to view.
        Err(StoreError::Expired) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut placed = 0;
    let mut from: Option<Cursor> = None;
    loop {
        let page = bench.engine.sorted_page(&all, from.as_ref()).await?;
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
            bench.engine.aggregate(&all, by, 100).await?.total,
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
        ("pages", bench.pages(&all, async |_| Ok(())).await?.len()),
        ("view", of_view),
        ("placed pages", placed),
        ("counts by cluster", count(&[GroupKey::Cluster]).await??),
        (
            "counts by label",
            count(&[GroupKey::Namespace, GroupKey::Label("tier".to_owned())]).await??,
        ),
        ("owners", bench.engine.relatives(&asked).await?.len()),
    ]))
}

/// All of `resources` are found by every question, whether it names the cluster or not, and nothing of `others`.
async fn only(bench: &Bench, resources: &[&Resource], others: &[&Resource]) -> Result<()> {
    let member: ClusterName = "member1".parse()?;
    for clusters in [
        Vec::new(),
        vec![member.clone()],
        vec![member, "member2".parse()?],
    ] {
        for (shown, expected) in [(resources, 30), (others, 0)] {
            for resource in shown {
                for (question, count) in found(bench, resource, &clusters).await? {
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

async fn a_first_index_is_shown_kind_by_kind(kind: OpenSearchKind) -> Result<()> {
    let bench = Bench::on(kind, 2).await?;
    let server = bench.server()?;
    let [pods, maps, secrets] = ["pods", "configmaps", "secrets"].map(built_in);
    let revision = bench.engine.open(&"member1".parse()?, None, 0).await?;
    let mut objects = Vec::new();
    for resource in [&pods, &maps, &secrets] {
        for number in 0..30 {
            let name = format!("{}-{}", resource.plural, number / 3);
            let mut made = Made::new(resource, Some(["a", "b", "c"][number % 3]), &name, 100);
            let tier = if number % 2 == 0 { "web" } else { "db" };
            made.object["metadata"]["labels"] = json!({ "tier": tier });
            objects.push(made);
        }
    }
    bench.fill(&revision, &objects).await?;
    let client = server.client()?;
    let alias = format!("{}-member1", bench.prefix);
    only(&bench, &[], &[&pods, &maps, &secrets])
        .await
        .context("nothing is shown")?;

    let name_of = ResourceName::from;
    bench
        .engine
        .show(&revision, &BTreeSet::from([name_of(&pods)]))
        .await?;
    only(&bench, &[&pods], &[&maps, &secrets])
        .await
        .context("pods are shown")?;
    // A view goes on showing what it has shown.
    let before = Query {
        limit: 1_000,
        ..query(&maps, 1)
    };
    let old_view = Cursor {
        snapshot: bench.engine.open_view(&before).await?,
        after: Vec::new(),
        remaining: None,
    };

    bench
        .engine
        .show(&revision, &BTreeSet::from([name_of(&maps)]))
        .await?;
    only(&bench, &[&pods, &maps], &[&secrets])
        .await
        .context("pods and config maps are shown")?;
    ensure!(
        bench
            .engine
            .search(&before, Some(&old_view))
            .await?
            .items
            .is_empty(),
        "an older view shows what was not shown"
    );

    // What is compared, pruned and audited is everything that is stored, and what a write replaces is found, shown or not.
    let all = bench
        .versions("member1", &Extent::Outside(Vec::new()))
        .await?;
    ensure!(all.len() == 90, "{} versions", all.len());
    let replaced =
        json!({ "docs": [{ "_index": revision.target, "_id": "v1/Secret/a-secrets-0" }] });
    let replaced = client.post("_mget", &replaced).await?;
    ensure!(replaced["docs"][0]["found"] == true, "{replaced}");

    // Another process sees the same: which part is shown is read from the aliases.
    let seen = engine(server, &bench.prefix, 2)?
        .open(&"member1".parse()?, None, 0)
        .await?;
    ensure!(
        !seen.live && seen.shown == BTreeSet::from([name_of(&pods), name_of(&maps)]),
        "{seen:?}"
    );

    bench.engine.activate(&revision).await?;
    only(&bench, &[&pods, &maps, &secrets], &[])
        .await
        .context("everything is shown")?;
    let aliases = client.get(&format!("{}/_alias", revision.index)).await?;
    let of_index = &aliases[revision.index.as_str()]["aliases"];
    ensure!(
        of_index[alias.as_str()] == json!({}) && of_index[bench.prefix.as_str()] == json!({}),
        "{aliases}"
    );
    // What is shown stays shown.
    bench
        .engine
        .show(&revision, &BTreeSet::from([name_of(&pods)]))
        .await?;
    only(&bench, &[&pods, &maps, &secrets], &[])
        .await
        .context("everything is still shown")
}

#[tokio::test]
async fn a_first_index_answers_every_question_about_what_is_complete_and_no_other() {
    a_first_index_is_shown_kind_by_kind(OpenSearchKind::Plain)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_first_index_answers_the_same_in_the_older_opensearch() {
    a_first_index_is_shown_kind_by_kind(OpenSearchKind::Secure)
        .await
        .unwrap();
}
