//! A client that lists config maps at one replica and then follows them, as client-go's informers do.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use futures::AsyncBufReadExt;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::network::Network;

const CONFIG_MAPS: &str =
    "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy/api/v1/configmaps";
/// The version that the member gave an object.
const OWN_VERSION: &str = "fleetdex.io/resource-version";
/// The cluster that an object is of.
const CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
/// How long it waits after an error.
const RETRY: Duration = Duration::from_millis(800);
/// How long an answer may take to begin, and a watch be silent, which tells how far it is once a minute.
const SILENCE: Duration = Duration::from_secs(150);

/// UID and version of each object, by cluster, namespace and name as informers hold them: of two objects of one name there is one.
pub type Objects = BTreeMap<String, (String, u64)>;

/// What an informer knows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The objects.
    pub objects: Objects,
    /// How often it has listed.
    pub lists: u32,
    /// Whether a watch is open, so that it would hear of the next change.
    pub is_watching: bool,
    /// An event that no watch may have: an object that goes back to an earlier version.
    pub wrong: Option<String>,
}

/// A running informer; it ends when it is dropped.
pub struct Informer {
    known: Arc<Mutex<Known>>,
    _task: AbortOnDropHandle<()>,
}

impl Informer {
    /// Starts one at a replica.
    pub fn start(network: &Network, address: SocketAddr) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let client = network.client(address);
        let task = AbortOnDropHandle::new(tokio::spawn(run(client, Arc::clone(&known))));
        Self { known, _task: task }
    }

    /// What it knows now.
    pub fn known(&self) -> Known {
        self.known.lock().clone()
    }
}

/// How a watch ended.
enum End {
    /// It can go on from there.
    At(String),
    /// A new list is needed.
    Expired,
}

async fn run(client: kube::Client, known: Arc<Mutex<Known>>) {
    loop {
        let mut version = match list(&client).await {
            Ok((objects, version)) => {
                let mut known = known.lock();
                known.objects = objects;
                known.lists += 1;
                version
            }
            Err(error) => {
                tracing::debug!(%error, "a list failed");
                sleep(RETRY).await;
                continue;
            }
        };
        loop {
            let ended = watch(&client, &version, &known).await;
            known.lock().is_watching = false;
            match ended {
                Ok(End::At(later)) => version = later,
                Ok(End::Expired) => break,
                Err(error) => tracing::debug!(%error, "a watch failed"),
            }
            sleep(RETRY).await;
        }
    }
}

async fn list(client: &kube::Client) -> anyhow::Result<(Objects, String)> {
    let request = http::Request::get(CONFIG_MAPS).body(Vec::new())?;
    let list: Value = timeout(SILENCE, client.request(request)).await??;
    let items = list["items"].as_array().context("a list without items")?;
    let objects = items
        .iter()
        .map(identity)
        .collect::<anyhow::Result<Objects>>()?;
    Ok((
        objects,
        list["metadata"]["resourceVersion"]
            .as_str()
            .context("a list without a version")?
            .to_owned(),
    ))
}

async fn watch(client: &kube::Client, from: &str, known: &Mutex<Known>) -> anyhow::Result<End> {
    let uri = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
    let asked = timeout(
        SILENCE,
        client.request_stream(http::Request::get(uri).body(Vec::new())?),
    )
    .await?;
    let lines = match asked {
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(End::Expired),
        other => other?,
    };
    known.lock().is_watching = true;
    let mut lines = std::pin::pin!(lines);
    let mut version = from.to_owned();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = timeout(SILENCE, lines.read_until(b'\n', &mut line)).await;
        // What is not a whole line was not received.
        if !matches!(read, Ok(Ok(_))) || line.last() != Some(&b'\n') {
            return Ok(End::At(version));
        }
        let event: Value = serde_json::from_slice(&line)?;
        if event["type"] == "ERROR" {
            return Ok(if event["object"]["code"] == 410 {
                End::Expired
            } else {
                End::At(version)
            });
        }
        event["object"]["metadata"]["resourceVersion"]
            .as_str()
            .context("an event without a version")?
            .clone_into(&mut version);
        if event["type"] != "BOOKMARK" {
            known
                .lock()
                .take(event["type"] == "DELETED", identity(&event["object"])?);
        }
    }
}

fn identity(object: &Value) -> anyhow::Result<(String, (String, u64))> {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = metadata["annotations"][OWN_VERSION]
        .as_str()
        .context("an object without its own version")?
        .parse()?;
    let uid = metadata["uid"]
        .as_str()
        .context("an object without a UID")?
        .to_owned();
    Ok((
        key(
            &text(&metadata["annotations"][CLUSTER]),
            &text(&metadata["namespace"]),
            &text(&metadata["name"]),
        ),
        (uid, own),
    ))
}

/// What an object is held under.
pub fn key(cluster: &str, namespace: &str, name: &str) -> String {
    format!("{cluster}/{namespace}/{name}")
}

impl Known {
    fn take(&mut self, is_deleted: bool, (key, (uid, version)): (String, (String, u64))) {
        if is_deleted {
            self.objects.remove(&key);
            return;
        }
        let before = self.objects.insert(key.clone(), (uid.clone(), version));
        if let Some((known, before)) =
            before.filter(|(known, before)| *known == uid && *before > version)
        {
            self.wrong = Some(format!(
                "{key} ({known}) goes back from {before} to {version}"
            ));
        }
    }
}
