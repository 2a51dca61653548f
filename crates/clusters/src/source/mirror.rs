//! Follows the objects of one kind into a [`Feed`].

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use fleetdex_core::model::causes;
use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event},
    },
};
use serde::de::DeserializeOwned;

use super::board::{Entry, Feed};

/// From one attempt to read a kind that is not served to the next.
pub(super) const RETRY: Duration = Duration::from_secs(5);

/// Follows objects until their kind is not served any more, or not in this version. Everything else is retried in here. Objects that
/// `read` gives nothing for are passed over.
///
/// The objects come in as a list first, which replaces all that the source said before; until then that stands.
pub(super) async fn follow<K>(
    api: Api<K>,
    config: Config,
    feed: &Feed,
    help: &str,
    read: impl Fn(K) -> Option<Entry>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut stream = Box::pin(watcher::watcher(api, config).default_backoff());
    let mut listing: BTreeMap<String, Entry> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => {
                let key = key(&object);
                listing.extend(read(object).map(|entry| (key, entry)));
            }
            Ok(Event::InitDone) => feed.replace(std::mem::take(&mut listing)),
            Ok(Event::Apply(object)) => {
                let key = key(&object);
                match read(object) {
                    Some(entry) => feed.set(key, entry),
                    None => feed.remove(&key),
                }
            }
            Ok(Event::Delete(object)) => feed.remove(&key(&object)),
            Err(error) => {
                let code = code(&error);
                feed.trouble(explain(code, &causes(&error), help));
                if code == Some(404) {
                    return;
                }
            }
        }
    }
}

/// What is wrong, and what to do.
pub(super) fn explain(code: Option<u16>, cause: &str, help: &str) -> String {
    match code {
        Some(404) => format!("the control plane does not serve it: {help}"),
        Some(403) => {
            format!("it may not be listed and watched: allow it to this service account ({cause})")
        }
        _ => cause.to_owned(),
    }
}

fn key(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
