//! Reads and changes the `Distribution` at the control plane.

use std::time::Duration;

use fleetdex_cli::{
    ControlPlaneArgs,
    console::{CommandError, Console},
};
use fleetdex_core::model::is_dns_label;
use fleetdex_crds::distribution::Distribution;
use http::StatusCode;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    args::{NamedRollout, RolloutHistoryArgs},
    changes::{self, RolloutChange, RolloutError},
    print,
};

/// How long one answer of the control plane may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a rollout is not read or changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveRolloutError {
    #[error("cannot connect to the control plane: {0:#}")]
    Connection(anyhow::Error),
    #[error("{0:?} is no name of a namespace")]
    Namespace(String),
    #[error(
        "there is no Distribution {name} in namespace {namespace}, or the control plane does not \
         serve the kind: `fleetdex crd apply --distribute` installs it"
    )]
    NotFound { namespace: String, name: String },
    #[error("Distribution {0} has changed meanwhile: try again")]
    Changed(String),
    #[error("cannot {verb} Distribution {name}")]
    Request {
        verb: &'static str,
        name: String,
        source: kube::Error,
    },
    #[error("the control plane does not answer within {TIMEOUT:?}")]
    NoAnswer,
    #[error("Distribution {name}: {source}")]
    Refused { name: String, source: RolloutError },
}

/// A `Distribution` of the control plane.
pub(super) struct LiveRollout {
    api: Api<Distribution>,
    namespace: String,
    name: String,
}

impl LiveRollout {
    /// Connects.
    pub(super) async fn connect(named: &NamedRollout) -> Result<Self, LiveRolloutError> {
        let config = named.control_plane.config().await;
        let config = config.map_err(LiveRolloutError::Connection)?;
        let client = ControlPlaneArgs::client(&config).map_err(LiveRolloutError::Connection)?;
        let namespace = named.namespace.clone().unwrap_or(config.default_namespace);
        if !is_dns_label(&namespace) {
            return Err(LiveRolloutError::Namespace(namespace));
        }
        Ok(Self {
            api: Api::namespaced(client, &namespace),
            namespace,
            name: named.name.clone(),
        })
    }

    /// Reads it.
    pub(super) async fn get(&self) -> Result<Distribution, LiveRolloutError> {
        let answer = timeout(TIMEOUT, self.api.get_opt(&self.name)).await;
        let answer = answer.map_err(|_| LiveRolloutError::NoAnswer)?;
        let found = answer.map_err(|source| self.failed("read", source))?;
        found.ok_or_else(|| LiveRolloutError::NotFound {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        })
    }

    /// Changes it, as it was read.
    async fn change(
        &self,
        object: &Distribution,
        mut patch: Value,
    ) -> Result<(), LiveRolloutError> {
        patch["metadata"]["resourceVersion"] = object.metadata.resource_version.clone().into();
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let change = self.api.patch(&self.name, &parameters, &patch);
        let answer = timeout(TIMEOUT, change).await;
        let answer = answer.map_err(|_| LiveRolloutError::NoAnswer)?;
        answer
            .map(drop)
            .map_err(|source| self.failed("change", source))
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> LiveRolloutError {
        let name = self.name.clone();
        match &source {
            kube::Error::Api(status) if status.code == StatusCode::CONFLICT.as_u16() => {
                LiveRolloutError::Changed(name)
            }
            _ => LiveRolloutError::Request { verb, name, source },
        }
    }
}

/// Lets no further wave begin.
pub(super) async fn pause(
    named: &NamedRollout,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    changed(named, changes::pause, console).await
}

/// Lets the next wave begin.
pub(super) async fn resume(
    named: &NamedRollout,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    changed(named, changes::resume, console).await
}

/// Goes back to the last revision that was healthy in all clusters.
pub(super) async fn undo(
    named: &NamedRollout,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    changed(named, changes::undo, console).await
}

/// Runs the hooks again that have failed.
pub(super) async fn retry(
    named: &NamedRollout,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    changed(named, changes::retry, console).await
}

async fn changed(
    named: &NamedRollout,
    change: fn(&Distribution) -> Result<RolloutChange, RolloutError>,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let done = try_change(named, change).await;
    let done = done.map_err(CommandError::failed)?;
    writeln!(console.out, "distribution/{} {done}", named.name)?;
    Ok(true)
}

async fn try_change(
    named: &NamedRollout,
    change: fn(&Distribution) -> Result<RolloutChange, RolloutError>,
) -> Result<String, LiveRolloutError> {
    let live = LiveRollout::connect(named).await?;
    let object = live.get().await?;
    let RolloutChange { patch, done } =
        change(&object).map_err(|source| LiveRolloutError::Refused {
            name: named.name.clone(),
            source,
        })?;
    live.change(&object, patch).await?;
    Ok(done)
}

/// Lists the revisions that are kept.
pub(super) async fn history(
    args: &RolloutHistoryArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let read = async { LiveRollout::connect(&args.named).await?.get().await };
    let object = read.await.map_err(CommandError::failed)?;
    print::history(&object, &args.output, console)?;
    Ok(true)
}
