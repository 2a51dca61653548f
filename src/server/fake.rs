//! A store in memory and a catalog over it, for tests.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::{json, value::to_raw_value};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, Entry};
use crate::{
    bulk::{Verdict, Write},
    cluster::{
        Clusters, Timing,
        connect::Network,
        discovery::{Offers, Served},
        source::Loader,
    },
    model::{ClusterName, Gvk, IndexPrefix, Resource, StoreName, Version},
    query::{
        Cursor, GroupKey, Groups, Hit, Page, Query, Relative, Relatives, ResourceName,
        merge::{Placed, PlacedPage},
    },
    store::{Checkpoints, Extent, Generation, Store, StoreError, Stored, Visit, changes::Log},
};

/// Answers with what was prepared, page by page, and remembers what it was asked.
pub(crate) struct Prepared {
    /// Never answers.
    hangs: bool,
    pages: Mutex<VecDeque<Result<Page, StoreError>>>,
    asked: Mutex<Vec<(Query, Option<Cursor>)>>,
    /// The cursors that were released.
    pub(crate) released: Mutex<Vec<Cursor>>,
    /// Nothing changes.
    pub(crate) log: Arc<Log>,
    /// The answer to every aggregation, and what was asked.
    pub(crate) groups: Groups,
    /// The answers to owner searches, and what was asked.
    pub(crate) relatives: Mutex<VecDeque<BTreeSet<Relative>>>,
    pub(crate) searched: Mutex<Vec<Relatives>>,
    pub(crate) counted: Mutex<Vec<(Vec<GroupKey>, usize)>>,
    /// What is stored of any unit, by id.
    pub(crate) documents: Mutex<BTreeMap<String, Version>>,
}

impl Default for Prepared {
    fn default() -> Self {
        Self {
            hangs: false,
            pages: Mutex::default(),
            asked: Mutex::default(),
            released: Mutex::default(),
            log: Log::of_a_test(),
            groups: Groups::default(),
            relatives: Mutex::default(),
            searched: Mutex::default(),
            counted: Mutex::default(),
            documents: Mutex::default(),
        }
    }
}

#[async_trait]
impl Store for Prepared {
    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn lost(&self, _: &[Generation]) -> Result<BTreeSet<ClusterName>, StoreError> {
        Ok(BTreeSet::new())
    }

    async fn open(
        &self,
        cluster: &ClusterName,
        _: Option<&str>,
        _: u64,
    ) -> Result<Generation, StoreError> {
        Ok(Generation::first(&IndexPrefix::default(), cluster))
    }

    async fn activate(&self, _: &Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn show(&self, _: &Generation, _: &BTreeSet<ResourceName>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn generations(&self) -> Result<Vec<Generation>, StoreError> {
        Ok(Vec::new())
    }

    async fn write(&self, _: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        Ok(Vec::new())
    }

    async fn visit_versions(
        &self,
        _: &Generation,
        _: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let documents = self.documents.lock().unwrap();
        documents.iter().for_each(|(id, version)| {
            visit(Stored {
                id,
                version: *version,
                namespace: "",
                name: id,
            });
        });
        Ok(())
    }

    async fn rejected(&self, _: &Generation, _: &Extent) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(Vec::new())
    }

    async fn checkpoints(&self, _: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        Ok(None)
    }

    async fn save_checkpoints(&self, _: &[Checkpoints]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_generation(&self, _: &Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn retire(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_cluster(&self, _: &ClusterName) -> Result<(), StoreError> {
        Ok(())
    }

    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        self.asked
            .lock()
            .unwrap()
            .push((query.clone(), from.cloned()));
        self.pages
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or_else(|| Ok(Page::default()))
    }

    fn release(&self, cursor: &Cursor) {
        self.released.lock().unwrap().push(cursor.clone());
    }

    async fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        self.searched.lock().unwrap().push(asked.clone());
        Ok(self
            .relatives
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or_default())
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        Ok((self.search(query, None).await?, self.log.newest()))
    }

    async fn placed_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PlacedPage, StoreError> {
        let Page {
            items,
            next,
            remaining,
        } = self.search(query, from).await?;
        let placed = |hit| Placed {
            hit,
            order: Vec::new(),
            after: Vec::new(),
        };
        let (items, more) = (items.into_iter().map(placed).collect(), next.is_some());
        Ok(PlacedPage {
            items,
            view: next.map(|next| next.snapshot),
            more,
            remaining,
        })
    }

    async fn open_view(&self, _: &Query) -> Result<String, StoreError> {
        Ok("view".to_owned())
    }

    async fn moment(&self, _: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.log.newest())
    }

    async fn changes(&self) -> Result<Arc<Log>, StoreError> {
        Ok(Arc::clone(&self.log))
    }

    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        self.asked.lock().unwrap().push((query.clone(), None));
        self.counted.lock().unwrap().push((by.to_vec(), top));
        Ok(self.groups.clone())
    }
}

impl Prepared {
    pub(crate) fn with(pages: Vec<Result<Page, StoreError>>) -> Arc<Self> {
        Arc::new(Self {
            pages: Mutex::new(pages.into()),
            ..Self::default()
        })
    }

    /// One answer more.
    pub(crate) fn add(&self, page: Result<Page, StoreError>) {
        self.pages.lock().unwrap().push_back(page);
    }

    pub(crate) fn counting(groups: Groups) -> Arc<Self> {
        Arc::new(Self {
            groups,
            ..Self::default()
        })
    }

    pub(crate) fn hanging() -> Arc<Self> {
        Arc::new(Self {
            hangs: true,
            ..Self::default()
        })
    }

    pub(crate) fn asked(&self) -> Vec<(Query, Option<Cursor>)> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) fn cursor(position: u32) -> Cursor {
    Cursor {
        snapshot: "view".to_owned(),
        after: vec![json!(position)],
        remaining: None,
    }
}

pub(crate) fn page(names: &[&str], next: Option<Cursor>, remaining: Option<u64>) -> Page {
    let hit = |name: &&str| Hit {
        cluster: cluster("member1"),
        object: to_raw_value(&json!({ "metadata": { "name": name } }))
            .unwrap()
            .into(),
    };
    Page {
        items: names.iter().map(hit).collect(),
        next,
        remaining,
    }
}

pub(crate) fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

/// A relative of member1, in the namespace `shop`.
pub(crate) fn relative(group: &str, plural: &str, uid: &str) -> Relative {
    let resource = ResourceName::new(group, plural);
    Relative {
        cluster: cluster("member1"),
        namespace: "shop".to_owned(),
        resource,
        uid: uid.to_owned(),
    }
}

pub(crate) fn store(name: &str) -> StoreName {
    name.parse().unwrap()
}

pub(crate) fn served(gvk: Gvk, plural: &str, namespaced: bool, short_names: &[&str]) -> Served {
    Served {
        singular: gvk.kind.to_ascii_lowercase().into(),
        resource: Resource {
            gvk,
            plural: plural.into(),
            namespaced,
        },
        short_names: short_names.iter().map(|name| (*name).into()).collect(),
        list_and_watch: true,
        preferred: true,
        offers: Arc::new(Offers {
            verbs: [
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ]
            .map(Arc::from)
            .to_vec(),
            categories: Vec::new(),
            subresources: Vec::new(),
        }),
    }
}

pub(crate) fn pods() -> Served {
    served(Gvk::new("", "v1", "Pod"), "pods", true, &["po"])
}

/// Pods in member1 and member2, nodes in member1, deployments of an old and a new version: all in the store `main`.
pub(crate) fn catalog(main: Arc<dyn Store>) -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add_store(store("main"), main);
    catalog.add_registry("workloads");
    add(&mut catalog, "main", "member1", &pods());
    add(&mut catalog, "main", "member2", &pods());
    add(
        &mut catalog,
        "main",
        "member1",
        &served(Gvk::new("", "v1", "Node"), "nodes", false, &["no"]),
    );
    add(
        &mut catalog,
        "main",
        "member1",
        &served(
            Gvk::new("apps", "v1beta1", "Deployment"),
            "deployments",
            true,
            &["deploy"],
        ),
    );
    add(
        &mut catalog,
        "main",
        "member2",
        &served(
            Gvk::new("apps", "v1", "Deployment"),
            "deployments",
            true,
            &["deploy"],
        ),
    );
    catalog
}

pub(crate) fn add(catalog: &mut Catalog, store_name: &str, cluster_name: &str, served: &Served) {
    let (in_store, of_cluster) = (store(store_name), cluster(cluster_name));
    catalog.add(Entry {
        served,
        cluster: &of_cluster,
        store: &in_store,
        fields: &[],
        any_path: false,
    });
}

/// Members there are none.
pub(crate) fn no_clusters() -> Arc<Clusters> {
    let (loader, network) = (
        Loader::without_control_plane(),
        Arc::new(Network::default()),
    );
    Arc::new(Clusters::new(
        loader,
        network,
        Timing::default(),
        CancellationToken::new(),
    ))
}
