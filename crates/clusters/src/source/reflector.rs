//! Reflects the objects of one kind into a [`SourceWriter`], on `kube::runtime::watcher`.

use std::{collections::BTreeMap, fmt::Debug};

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

use super::aggregator::{SourceEntry, SourceWriter};

/// Reflects objects until their kind is no longer served, or not in this version. All other
/// failures are retried here. Objects for which `read` returns `None` are skipped.
///
/// The first complete list replaces the source's objects; until then the old ones stay.
pub(super) async fn reflect<K>(
    api: Api<K>,
    config: Config,
    writer: &SourceWriter,
    help: &str,
    read: impl Fn(K) -> Option<SourceEntry>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut stream = Box::pin(watcher::watcher(api, config).default_backoff());
    let mut listing: BTreeMap<String, SourceEntry> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => {
                let key = key(&object);
                listing.extend(read(object).map(|entry| (key, entry)));
            }
            Ok(Event::InitDone) => writer.replace(std::mem::take(&mut listing)),
            Ok(Event::Apply(object)) => {
                let key = key(&object);
                match read(object) {
                    Some(entry) => writer.set(key, entry),
                    None => writer.remove(&key),
                }
            }
            Ok(Event::Delete(object)) => writer.remove(&key(&object)),
            Err(error) => {
                let code = status_code(&error);
                writer.report_error(explain(code, &causes(&error), help));
                if code == Some(404) {
                    return;
                }
            }
        }
    }
}

/// An error message that names the cause and what to do.
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

/// The HTTP status with which the control plane refused a list or a watch; `None` if it did not
/// answer.
pub fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}
