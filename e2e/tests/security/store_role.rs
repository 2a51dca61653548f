//! The role of `fleetdex store role` on the real secured OpenSearch: everything works with it, and
//! something fails without each of its permissions, with a message that names it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::{
    engine::{options, service_of},
    fleet::{Fleet, OpenSearchServer, unique_prefix},
    poll::eventually,
    test_result::Tested,
};
use fleetdex_core::{
    kinds,
    model::{ClusterName, Document, Object, Projection, Projector, Resource},
    query::{Query, ResourceName, Selectable},
};
use fleetdex_store::{
    CheckpointStore as _, Checkpoints, CompleteResources, DocumentVersions as _,
    DocumentWriter as _, Extent, IndexReader as _, IndexRevision, IndexSharing as _,
    RevisionStore as _,
    bulk::{Verdict, Write},
    opensearch::{
        Engine, EngineOptions, PlacementRules,
        role::{INDEX_ACTIONS, MONITORING_ACTIONS, role},
    },
};
use reqwest::Method;
use serde_json::{Value, json};

use super::dashboards_roles::secured;

const USER: &str = "role-of-fleetdex";
const PASSWORD: &str = "4th-Nocturne-in-E-flat";
/// Without it existing indices keep their settings, and the log says so.
const SETTINGS: &str = "indices:admin/settings/update";
/// Used by `fleetdex doctor`, and before settings are updated.
const READ_SETTINGS: &str = "indices:monitor/settings/get";
/// Closes what a search that ended early left open; without it OpenSearch closes it a minute later.
const CLOSE: &str = "indices:data/read/point_in_time/delete";
/// Where a role has its permissions.
const LISTS: [&str; 2] = [
    "/cluster_permissions",
    "/index_permissions/0/allowed_actions",
];

/// What an operator and its query API do with a store, from the first document to the last.
struct Exercise<'s> {
    server: &'s OpenSearchServer,
    options: EngineOptions,
}

impl Exercise<'_> {
    fn engine(&self, rules: PlacementRules) -> Result<Engine> {
        let service = service_of(self.server, Some((USER, PASSWORD)))?;
        let options = EngineOptions {
            placement: rules,
            ..self.options.clone()
        };
        Ok(Engine::new(service, options))
    }

    async fn run(&self) -> Result<()> {
        let own = self.engine(PlacementRules {
            shares_indices: false,
            ..PlacementRules::default()
        })?;
        self.fill_and_read(&own).await?;
        let shared = self.engine(PlacementRules {
            shards_percent: 0,
            ..PlacementRules::default()
        })?;
        self.fill_and_read(&shared).await
    }

    async fn fill_and_read(&self, engine: &Engine) -> Result<()> {
        let (first, second): (ClusterName, ClusterName) = ("first".parse()?, "second".parse()?);
        engine.prepare().await?;
        engine.change_log().await?;
        for cluster in [&first, &second] {
            let revision = engine.open(cluster, None, 0).await?;
            write(engine, &revision, &["a", "b", "c"]).await?;
            let pods = ResourceName::from(&pods());
            engine
                .activate(&revision, &CompleteResources::Only([pods].into()))
                .await?;
            engine.activate(&revision, &CompleteResources::All).await?;
            // Its UID becomes known later.
            let revision = engine.open(cluster, Some("uid"), 0).await?;
            let checkpoints = Checkpoints {
                cluster: cluster.clone(),
                revision: revision.number,
                index: revision.id.clone(),
                units: [].into(),
                at: None,
            };
            engine.save_checkpoints(&[checkpoints]).await?;
            let stored = engine.checkpoints(cluster).await?;
            stored.context("no checkpoints")?;
            engine
                .visit_versions(&revision, &Extent::Outside(Vec::new()), &mut |_| ())
                .await?;
            delete(engine, &revision, "c").await?;
        }
        read(engine).await?;
        // Another cluster at the same address, and one that is removed.
        let next = engine.open(&first, Some("another"), 1).await?;
        engine.activate(&next, &CompleteResources::All).await?;
        engine.lost(&[next]).await?;
        for cluster in [first, second] {
            engine.drop_cluster(&cluster).await?;
        }
        engine.sweep().await?;
        engine.retire().await?;
        Ok(())
    }
}

fn pods() -> Resource {
    kinds::resolve("pods").unwrap().resource()
}

async fn write(engine: &Engine, revision: &IndexRevision, names: &[&str]) -> Result<()> {
    let projector = Projector::new(&revision.cluster, &pods(), &Projection::default(), &[]);
    let mut writes = Vec::new();
    for name in names {
        let metadata =
            json!({ "name": name, "namespace": "default", "uid": name, "resourceVersion": "7" });
        let pod = json!({ "metadata": metadata }).to_string();
        writes.push(Write {
            index: revision.target.clone(),
            document: projector.document(&Object::parse(&pod)?, "2026-01-01T00:00:00Z")?,
        });
    }
    send(engine, &writes).await
}

async fn delete(engine: &Engine, revision: &IndexRevision, name: &str) -> Result<()> {
    let id = format!("v1/Pod/{name}");
    let document = Document::deletion(id.as_str().into(), "8".parse()?);
    send(
        engine,
        &[Write {
            index: revision.target.clone(),
            document,
        }],
    )
    .await
}

async fn send(engine: &Engine, writes: &[Write]) -> Result<()> {
    for verdict in engine.write(writes).await? {
        match verdict {
            Verdict::Indexed | Verdict::Deleted => {}
            other => bail!("{other:?}"),
        }
    }
    Ok(())
}

/// Lists of several pages, counts and the log of changes.
async fn read(engine: &Engine) -> Result<()> {
    let pods = pods();
    let query = Query::all_of(ResourceName::from(&pods), Selectable::of(&pods.gvk, &[]), 2);
    let page = engine.search(&query, None).await?;
    let next = page.next.context("one page")?;
    engine.search(&query, Some(&next)).await?;
    engine.release(&next);
    let groups = engine.aggregate(&query, &[], 10).await?;
    ensure!(groups.total > 0, "{groups:?}");
    Ok(())
}

async fn give(server: &OpenSearchServer, role: &Value) -> Result<()> {
    server.put_role(USER, role).await?;
    server.map_users(USER, &[USER]).await
}

/// The status of a request of the user.
async fn asked(server: &OpenSearchServer, method: Method, path: &str, body: &Value) -> Result<u16> {
    let client = server.client_of(USER, PASSWORD)?;
    let body = Some(body).filter(|body| !body.is_null());
    Ok(client.send(method, path, body).await?.status)
}

/// A role without one action of a list.
fn without(role: &Value, list: &str, action: &str) -> Value {
    let mut less = role.clone();
    let actions = less.pointer_mut(list).unwrap().as_array_mut().unwrap();
    actions.retain(|other| other != action);
    less
}

async fn remove_all(server: &OpenSearchServer, prefix: &str) -> Result<()> {
    let administrator = server.client()?;
    let pattern = format!("{prefix}-*,{prefix}.*?expand_wildcards=all&ignore_unavailable=true");
    administrator.send(Method::DELETE, &pattern, None).await?;
    let templates = format!("_index_template/{prefix}*");
    administrator.send(Method::DELETE, &templates, None).await?;
    Ok(())
}

#[tokio::test]
async fn the_role_permits_what_is_needed_and_nothing_else() -> Tested {
    let fleet = Fleet::shared(secured()).await?;
    let server = fleet.opensearch()?;
    let prefix = unique_prefix("role");
    let exercise = Exercise {
        server,
        options: options(server, &prefix, 1).unwrap(),
    };
    let whole = role(&prefix.parse().unwrap());
    server.create_user(USER, PASSWORD, &[]).await?;
    give(server, &whole).await?;
    let works = || async {
        remove_all(server, &prefix).await?;
        exercise.run().await
    };
    eventually("the role is loaded", Duration::from_secs(30), works).await?;
    nothing_is_left(server, &prefix).await?;

    let mut superfluous = Vec::new();
    let actions = LISTS.iter().flat_map(|list| {
        let actions = whole.pointer(list).unwrap().as_array().unwrap();
        actions
            .iter()
            .map(move |action| (*list, action.as_str().unwrap()))
    });
    let optional = |action: &str| {
        MONITORING_ACTIONS.contains(&action) || [SETTINGS, READ_SETTINGS, CLOSE].contains(&action)
    };
    for (list, action) in actions {
        give(server, &without(&whole, list, action)).await?;
        remove_all(server, &prefix).await?;
        if optional(action) {
            let refused = || async { refuses_optional(server, &prefix, action).await };
            eventually(action, Duration::from_secs(10), refused).await?;
            continue;
        }
        match exercise.run().await {
            Ok(()) => superfluous.push((list, action)),
            Err(error) => {
                let text = format!("{error:#}");
                eprintln!("without {action}: {text}");
                let named = action.trim_end_matches('*');
                let is_clear = text.contains(named) && text.contains("`fleetdex store role`");
                assert!(is_clear, "without {action}: {text}");
            }
        }
    }
    assert_eq!(superfluous, [("", ""); 0]);

    // Nothing else: other indices, and what would give other rights.
    give(server, &whole).await?;
    let other = format!("{prefix}other-1");
    server.client()?.put(&other, &json!({})).await?;
    let snapshots = json!({ "type": "fs", "settings": { "location": "x" } });
    for (method, path, body) in [
        (Method::GET, format!("{other}/_search"), Value::Null),
        (Method::GET, "_search".to_owned(), Value::Null),
        (
            Method::GET,
            "_plugins/_security/api/roles".to_owned(),
            Value::Null,
        ),
        (Method::GET, "_cat/indices".to_owned(), Value::Null),
        (Method::GET, "_snapshot".to_owned(), Value::Null),
        (Method::PUT, "_snapshot/x".to_owned(), snapshots),
        (Method::DELETE, other.clone(), Value::Null),
    ] {
        let status = asked(server, method, &path, &body).await?;
        assert_eq!(status, 403, "{path}");
    }
    server.client()?.delete(&other).await?;
    assert!(INDEX_ACTIONS.iter().all(|action| !action.starts_with('*')));
    Ok(())
}

/// What is refused without an action that Fleetdex can do without.
async fn refuses_optional(server: &OpenSearchServer, prefix: &str, action: &str) -> Result<()> {
    let state = format!("{prefix}.state");
    let administrator = server.client()?;
    administrator.send(Method::PUT, &state, None).await?;
    let (method, path, body) = match action {
        "cluster:monitor/health" => (Method::GET, "_cluster/health".to_owned(), Value::Null),
        "cluster:monitor/main" => (Method::GET, String::new(), Value::Null),
        "cluster:monitor/nodes/stats" => (Method::GET, "_nodes/stats/fs".to_owned(), Value::Null),
        "cluster:monitor/state" => (Method::GET, "_cluster/settings".to_owned(), Value::Null),
        SETTINGS => (
            Method::PUT,
            format!("{state}/_settings"),
            json!({ "index": { "number_of_replicas": 0 } }),
        ),
        READ_SETTINGS => (Method::GET, format!("{state}/_settings"), Value::Null),
        CLOSE => {
            let path = format!("{state}/_search/point_in_time?keep_alive=1m");
            let client = server.client_of(USER, PASSWORD)?;
            let opened = client.send(Method::POST, &path, None).await?;
            let id = opened.body["pit_id"].as_str().context("no identifier")?;
            let path = "_search/point_in_time".to_owned();
            (Method::DELETE, path, json!({ "pit_id": [id] }))
        }
        other => bail!("no request needs {other}"),
    };
    let status = asked(server, method, &path, &body).await?;
    ensure!(status == 403, "{path}: {status}");
    Ok(())
}

async fn nothing_is_left(server: &OpenSearchServer, prefix: &str) -> Result<()> {
    let administrator = server.client()?;
    let indices = administrator
        .get(&format!("{prefix}*/_alias?expand_wildcards=all"))
        .await?;
    ensure!(indices == json!({}), "{indices}");
    let templates = format!("_index_template/{prefix}*");
    let templates = administrator
        .send(Method::GET, &templates, None)
        .await?
        .body;
    ensure!(templates["index_templates"] == json!([]), "{templates}");
    Ok(())
}
