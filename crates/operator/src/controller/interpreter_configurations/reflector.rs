//! Reflects the objects of one source into [`RuleInputs`].

use std::{collections::BTreeMap, time::Duration};

use fleetdex_core::model::causes;
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    core::{ApiResource, DynamicObject},
    runtime::watcher::{self, Event, watcher},
};
use tokio::{sync::watch, time::sleep};

use super::{
    inputs::{RuleInputs, RuleObject, SourceContents},
    source::RuleSource,
};

/// The pause after a watch that ended with an error. The objects are listed again.
const RESTART: Duration = Duration::from_secs(1);
/// The pause after an attempt to read that failed.
const RETRY: Duration = Duration::from_secs(5);
/// How often to look whether a kind is served by now. Installing a CRD takes people longer than
/// this.
const NOT_SERVED_RETRY: Duration = Duration::from_mins(1);

/// Reflects the objects of one source.
pub(super) struct RuleReflector {
    pub(super) source: RuleSource,
    pub(super) resource: ApiResource,
    pub(super) api: Api<DynamicObject>,
    pub(super) config: watcher::Config,
    pub(super) inputs: watch::Sender<RuleInputs>,
}

/// Why a list or a watch ended.
#[derive(Debug, PartialEq)]
enum ReadFailure {
    /// The control plane does not serve the kind.
    NotServed,
    /// The objects cannot be read.
    Unreadable(String),
    /// A watch has ended, as it does from time to time.
    Interrupted(String),
}

impl RuleReflector {
    /// Reflects until aborted.
    pub(super) async fn run(self) {
        loop {
            let Some(error) = self.list_and_watch().await else {
                sleep(RESTART).await;
                continue;
            };
            let pause = self.report(ReadFailure::from(&error));
            sleep(pause).await;
        }
    }

    /// Applies events until one is an error.
    async fn list_and_watch(&self) -> Option<watcher::Error> {
        let mut events = std::pin::pin!(watcher(self.api.clone(), self.config.clone()));
        let mut listing = BTreeMap::new();
        loop {
            match events.next().await? {
                Ok(event) => self.apply(event, &mut listing),
                Err(error) => return Some(error),
            }
        }
    }

    /// The first complete list replaces the objects; until then the old ones stay.
    fn apply(&self, event: Event<DynamicObject>, listing: &mut BTreeMap<String, RuleObject>) {
        match event {
            Event::Init => listing.clear(),
            Event::InitApply(object) => {
                listing.insert(object.name_any(), RuleObject::new(object, &self.resource));
            }
            Event::InitDone => self.replace(std::mem::take(listing)),
            Event::Apply(object) => {
                let (name, object) = (object.name_any(), RuleObject::new(object, &self.resource));
                self.update(|contents| {
                    contents
                        .objects
                        .get_or_insert_default()
                        .insert(name, object);
                });
            }
            Event::Delete(object) => self.update(|contents| {
                let objects = contents.objects.as_mut();
                objects.and_then(|objects| objects.remove(&object.name_any()));
            }),
        }
    }

    fn replace(&self, objects: BTreeMap<String, RuleObject>) {
        self.update(|contents| {
            *contents = SourceContents {
                objects: Some(objects),
                error: None,
            }
        });
    }

    /// Records a failure. Returns when to try again.
    fn report(&self, failure: ReadFailure) -> Duration {
        let kind = &self.resource.kind;
        match failure {
            ReadFailure::NotServed => {
                tracing::debug!(%kind, "the control plane does not serve this kind");
                self.replace(BTreeMap::new());
                NOT_SERVED_RETRY
            }
            ReadFailure::Interrupted(error) => {
                tracing::debug!(%kind, %error, "a watch of interpreter configurations has ended; they are listed again");
                RESTART
            }
            ReadFailure::Unreadable(error) => {
                self.update(|contents| {
                    if contents.error.as_ref() != Some(&error) {
                        tracing::warn!(%kind, %error, "cannot read interpreter configurations; it is tried again");
                    }
                    contents.error = Some(error);
                });
                RETRY
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut SourceContents)) {
        self.inputs
            .send_modify(|inputs| change(inputs.0.entry(self.source).or_default()));
    }
}

impl From<&watcher::Error> for ReadFailure {
    fn from(error: &watcher::Error) -> Self {
        use watcher::Error;
        match error {
            Error::InitialListFailed(kube::Error::Api(status))
            | Error::WatchStartFailed(kube::Error::Api(status)) => match status.code {
                404 => Self::NotServed,
                410 => Self::Interrupted(causes(error)),
                403 => Self::Unreadable(format!(
                    "it may not be listed and watched: allow it to this service account ({})",
                    status.message
                )),
                _ => Self::Unreadable(causes(error)),
            },
            Error::InitialListFailed(_) | Error::WatchStartFailed(_) | Error::NoResourceVersion => {
                Self::Unreadable(causes(error))
            }
            Error::WatchError(_) | Error::WatchFailed(_) => Self::Interrupted(causes(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            message: "planted".to_owned(),
            ..Status::default()
        }))
    }

    #[test]
    fn a_kind_that_is_not_served_differs_from_one_that_cannot_be_read() {
        use watcher::Error;
        for (error, expected) in [
            (Error::InitialListFailed(refused(404)), "NotServed"),
            (Error::WatchStartFailed(refused(404)), "NotServed"),
            (Error::InitialListFailed(refused(403)), "Unreadable"),
            (Error::InitialListFailed(refused(500)), "Unreadable"),
            (Error::WatchStartFailed(refused(410)), "Interrupted"),
            (Error::WatchFailed(refused(404)), "Interrupted"),
        ] {
            let failure = format!("{:?}", ReadFailure::from(&error));
            assert!(failure.starts_with(expected), "{error:?}: {failure}");
        }
    }
}
