//! A client that lists `ConfigMap`s at one replica and then watches them, as client-go's informers
//! do.

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
/// The annotation with the resource version of an object in its member.
const MEMBER_VERSION_ANNOTATION: &str = "fleetdex.io/resource-version";
/// The annotation with the cluster of an object.
const CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
/// Delay before a retry.
const RETRY: Duration = Duration::from_millis(800);
/// Timeout for the start of a response and for the next line of a watch, which has a bookmark every
/// minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);

/// UID and resource version of each object. The key is cluster, namespace and name, as in
/// informers: of two objects of one name only one is stored.
pub type Objects = BTreeMap<String, (String, u64)>;

/// The state of an informer.
#[derive(Clone, Debug, Default)]
pub struct InformerState {
    /// The objects.
    pub objects: Objects,
    /// Number of lists.
    pub lists: u32,
    /// Whether a watch is open, so that the informer receives the next change.
    pub is_watching: bool,
    /// An invalid event: an object that goes back to an earlier resource version.
    pub violation: Option<String>,
}

/// A running informer; dropping it ends it.
pub struct Informer {
    state: Arc<Mutex<InformerState>>,
    _task: AbortOnDropHandle<()>,
}

impl Informer {
    /// Starts an informer at a replica.
    pub fn start(network: &Network, address: SocketAddr) -> Self {
        let state = Arc::new(Mutex::new(InformerState::default()));
        let client = network.client(address);
        let task = AbortOnDropHandle::new(tokio::spawn(run(client, Arc::clone(&state))));
        Self { state, _task: task }
    }

    /// Returns its current state.
    pub fn state(&self) -> InformerState {
        self.state.lock().clone()
    }
}

/// How a watch ended.
enum WatchEnd {
    /// A new watch can resume at this resource version.
    Resumable(String),
    /// A new list is needed.
    Expired,
}

async fn run(client: kube::Client, state: Arc<Mutex<InformerState>>) {
    loop {
        let mut version = match list(&client).await {
            Ok((objects, version)) => {
                let mut state = state.lock();
                state.objects = objects;
                state.lists += 1;
                version
            }
            Err(error) => {
                tracing::debug!(%error, "list failed");
                sleep(RETRY).await;
                continue;
            }
        };
        loop {
            let ended = watch(&client, &version, &state).await;
            state.lock().is_watching = false;
            match ended {
                Ok(WatchEnd::Resumable(resume_at)) => version = resume_at,
                Ok(WatchEnd::Expired) => break,
                Err(error) => tracing::debug!(%error, "watch failed"),
            }
            sleep(RETRY).await;
        }
    }
}

async fn list(client: &kube::Client) -> anyhow::Result<(Objects, String)> {
    let request = http::Request::get(CONFIG_MAPS).body(Vec::new())?;
    let list: Value = timeout(IDLE_TIMEOUT, client.request(request)).await??;
    let items = list["items"].as_array().context("the list has no items")?;
    let objects = items
        .iter()
        .map(parse_object)
        .collect::<anyhow::Result<Objects>>()?;
    Ok((
        objects,
        list["metadata"]["resourceVersion"]
            .as_str()
            .context("the list has no resource version")?
            .to_owned(),
    ))
}

async fn watch(
    client: &kube::Client,
    from: &str,
    state: &Mutex<InformerState>,
) -> anyhow::Result<WatchEnd> {
    let uri = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
    let response = timeout(
        IDLE_TIMEOUT,
        client.request_stream(http::Request::get(uri).body(Vec::new())?),
    )
    .await?;
    let lines = match response {
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(WatchEnd::Expired),
        other => other?,
    };
    state.lock().is_watching = true;
    let mut lines = std::pin::pin!(lines);
    let mut version = from.to_owned();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = timeout(IDLE_TIMEOUT, lines.read_until(b'\n', &mut line)).await;
        // An incomplete line counts as not received.
        if !matches!(read, Ok(Ok(_))) || line.last() != Some(&b'\n') {
            return Ok(WatchEnd::Resumable(version));
        }
        let event: Value = serde_json::from_slice(&line)?;
        if event["type"] == "ERROR" {
            return Ok(if event["object"]["code"] == 410 {
                WatchEnd::Expired
            } else {
                WatchEnd::Resumable(version)
            });
        }
        event["object"]["metadata"]["resourceVersion"]
            .as_str()
            .context("the event has no resource version")?
            .clone_into(&mut version);
        if event["type"] != "BOOKMARK" {
            state
                .lock()
                .apply(event["type"] == "DELETED", parse_object(&event["object"])?);
        }
    }
}

fn parse_object(object: &Value) -> anyhow::Result<(String, (String, u64))> {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let member_version = metadata["annotations"][MEMBER_VERSION_ANNOTATION]
        .as_str()
        .context("the object has no resource version of its member")?
        .parse()?;
    let uid = metadata["uid"]
        .as_str()
        .context("the object has no UID")?
        .to_owned();
    Ok((
        key(
            &text(&metadata["annotations"][CLUSTER]),
            &text(&metadata["namespace"]),
            &text(&metadata["name"]),
        ),
        (uid, member_version),
    ))
}

/// Returns the key of an object.
pub fn key(cluster: &str, namespace: &str, name: &str) -> String {
    format!("{cluster}/{namespace}/{name}")
}

impl InformerState {
    fn apply(&mut self, is_deleted: bool, (key, (uid, version)): (String, (String, u64))) {
        if is_deleted {
            self.objects.remove(&key);
            return;
        }
        let before = self.objects.insert(key.clone(), (uid.clone(), version));
        if let Some((_, before)) =
            before.filter(|(before_uid, before)| *before_uid == uid && *before > version)
        {
            self.violation = Some(format!(
                "{key} ({uid}) goes back from {before} to {version}"
            ));
        }
    }
}
