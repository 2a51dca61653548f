//! An unmodified kube-rs reflector on each of the two stores: through all changes of objects and
//! members it matches the members, and never lists again.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use e2e::{
    churn::{Churn, Running},
    fleet::{Fleet, OpenSearchKind, Options, Registration, unique, unique_prefix},
    objects::{Objects, config_map_path},
    operator::Operator,
    query_api::kube_client,
    scenario::{Registry, SECRETS, cluster_path, prepare, register, start_operator, until},
    test_result::Tested,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    runtime::{
        reflector::{self, Store},
        watcher::{self, Event},
    },
};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinHandle};

/// Names in each member, and writes per second.
const NAMES: usize = 60;
const RATE: u32 = 25;
const STORES: [&str; 2] = ["cache", "opensearch"];
const EMBEDDED: &str = "apis/search.karmada.io/v1alpha1/resourceregistries/watched-embedded";

/// The data of each object, by `namespace/name`.
type ConfigMapData = BTreeMap<String, BTreeMap<String, String>>;

/// A reflector of the `ConfigMap`s of one store.
struct ConfigMapReflector {
    store: Store<ConfigMap>,
    /// Number of its lists.
    lists: Arc<AtomicUsize>,
    /// Names of deleted objects, including those that no longer match the selector.
    deleted: mpsc::UnboundedReceiver<String>,
    task: JoinHandle<()>,
}

impl Drop for ConfigMapReflector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn start_reflector(operator: &Operator, store: &str, labels: &str) -> Result<ConfigMapReflector> {
    let api: Api<ConfigMap> = Api::all(kube_client(operator, &format!("/{store}"))?);
    let (reader, writer) = reflector::store();
    let lists = Arc::new(AtomicUsize::new(0));
    let (sender, deleted) = mpsc::unbounded_channel();
    let config = watcher::Config::default().labels(labels);
    let mut events = Box::pin(reflector::reflector(writer, watcher::watcher(api, config)));
    let counted = Arc::clone(&lists);
    let (of, name) = (labels.to_owned(), store.to_owned());
    let task = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => drop(counted.fetch_add(1, Ordering::Relaxed)),
                Ok(Event::Delete(object)) => drop(sender.send(object.name_any())),
                Ok(_) => {}
                Err(error) => eprintln!("watching {name} {of}: {error}"),
            }
        }
    });
    Ok(ConfigMapReflector {
        store: reader,
        lists,
        deleted,
        task,
    })
}

impl ConfigMapReflector {
    fn held(&self, namespaces: &[String]) -> ConfigMapData {
        let objects = self.store.state();
        let ours = objects.iter().filter(|object| {
            object
                .namespace()
                .is_some_and(|own| namespaces.contains(&own))
        });
        let held = ours.map(|object| {
            let path = format!(
                "{}/{}",
                object.namespace().unwrap_or_default(),
                object.name_any()
            );
            (path, object.data.clone().unwrap_or_default())
        });
        held.collect()
    }
}

/// The data of the objects in the members.
async fn stored_in_members(members: &[&Objects], namespaces: &[String]) -> Result<ConfigMapData> {
    let mut held = ConfigMapData::new();
    for member in members {
        let list = member.get("api/v1/configmaps").await?;
        for item in list["items"].as_array().context("no items")? {
            let object: ConfigMap = serde_json::from_value(item.clone())?;
            let namespace = object.namespace().unwrap_or_default();
            if namespaces.contains(&namespace) {
                held.insert(
                    format!("{namespace}/{}", object.name_any()),
                    object.data.clone().unwrap_or_default(),
                );
            }
        }
    }
    Ok(held)
}

async fn until_same(
    reflectors: &[ConfigMapReflector],
    members: &[&Objects],
    namespaces: &[String],
    why: &str,
) -> Tested {
    for (reflector, store) in reflectors.iter().zip(STORES) {
        until(&format!("{store}: {why}"), || async {
            let (held, expected) = (
                reflector.held(namespaces),
                stored_in_members(members, namespaces).await?,
            );
            let differing: Vec<&String> = held
                .keys()
                .chain(expected.keys())
                .filter(|path| held.get(*path) != expected.get(*path))
                .collect();
            ensure!(
                differing.is_empty(),
                "{} held, {} there, {differing:?}",
                held.len(),
                expected.len()
            );
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn until_written(churns: &[Running], writes: u64) {
    for churn in churns {
        churn.goes_on_for(writes).await;
    }
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one scenario")]
async fn reflectors_match_the_members() -> Tested {
    let fleet = Fleet::start(Options::of(2, OpenSearchKind::Plain)).await?;
    prepare(&fleet).await?;
    let hub = Objects::of(fleet.control_plane())?;
    let members = [Objects::of(fleet.member(1))?, Objects::of(fleet.member(2))?];
    let namespaces = [unique("watched"), unique("watched")];
    let mut churns = Vec::new();
    for (number, namespace) in (1..=2).zip(&namespaces) {
        let churn = Churn::new(fleet.member(number), namespace, NAMES, RATE)
            .await?
            .seeded(number as u64);
        churn.begin().await?;
        churns.push(churn);
    }
    let operator = start_operator(&fleet, &[]).await?;
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let mut registry = Registry::in_fleet(&fleet, "watched", &["member1", "member2"], &kinds)?;
    registry.apply().await?;
    let embedded = json!({
        "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": "watched-embedded" },
        "spec": { "resourceSelectors": kinds },
    });
    hub.apply(EMBEDDED, &embedded).await?;
    registry.until_ready().await?;
    until("the embedded store answers", || async {
        let api: Api<ConfigMap> = Api::all(kube_client(&operator, "/cache")?);
        let found = api.list(&kube::api::ListParams::default()).await?;
        ensure!(
            found
                .metadata
                .resource_version
                .is_some_and(|version| version.parse::<u64>().is_ok()),
            "no version"
        );
        Ok(())
    })
    .await?;

    let mut reflectors: Vec<ConfigMapReflector> = STORES
        .iter()
        .map(|store| start_reflector(&operator, store, "").unwrap())
        .collect();
    let mut red: Vec<ConfigMapReflector> = STORES
        .iter()
        .map(|store| start_reflector(&operator, store, "colour=red").unwrap())
        .collect();
    let running: Vec<Running> = churns.iter().map(Churn::start).collect();
    until_written(&running, 500).await;
    for churn in running {
        churn.stop().await?;
    }
    let all = [&members[0], &members[1]];
    until_same(&reflectors, &all, &namespaces, "what changed is followed").await?;

    // An object starts and stops matching a selector.
    let path = config_map_path(&namespaces[0], "painted");
    for colour in ["red", "blue"] {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "painted", "labels": { "colour": colour } } });
        members[0].apply(&path, &object).await?;
        for reflector in &red {
            until(
                &format!("the reflector holds the {colour} object"),
                || async {
                    let is_held = !reflector.held(&namespaces).is_empty();
                    ensure!(is_held == (colour == "red"), "held: {is_held}");
                    Ok(())
                },
            )
            .await?;
        }
    }
    for reflector in &mut red {
        assert_eq!(reflector.deleted.recv().await.as_deref(), Some("painted"));
    }

    // A member is deregistered, changes meanwhile, and is registered again.
    hub.delete(&cluster_path("member2")).await?;
    let why = "the objects of a member that has left are gone";
    until_same(&reflectors, &all[..1], &namespaces, why).await?;
    let running: Vec<Running> = churns.iter().map(Churn::start).collect();
    until_written(&running, 60).await;
    register(
        &hub,
        &Registration::new(fleet.member(2), "member2", SECRETS),
    )
    .await?;
    until_written(&running, 120).await;
    for churn in running {
        churn.stop().await?;
    }
    let why = "a member that joins is followed";
    until_same(&reflectors, &all, &namespaces, why).await?;
    for (reflector, store) in reflectors
        .iter_mut()
        .chain(&mut red)
        .zip(STORES.iter().cycle())
    {
        assert_eq!(
            reflector.lists.load(Ordering::Relaxed),
            1,
            "{store}: it had to list again\n{}",
            operator.process().log_tail(40)
        );
    }

    // The registry moves to another store location while objects change: watchers either get 410
    // and list again, or notice nothing; in both cases they miss nothing.
    let running: Vec<Running> = churns.iter().map(Churn::start).collect();
    until_written(&running, 60).await;
    registry.prefix = unique_prefix("elsewhere");
    let prefix = json!(registry.prefix);
    registry.store()["indexPrefix"] = prefix;
    registry.apply_until_ready().await?;
    until_written(&running, 240).await;
    for churn in running {
        churn.stop().await?;
    }
    let why = "a registry that moves is followed";
    until_same(&reflectors, &all, &namespaces, why).await
}
