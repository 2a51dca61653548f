//! Runs the hooks of sets in their clusters.
//!
//! An object is made once for each run: its mark says which run it is of, so that another process
//! finds it. What Fleetdex did not make for this hook is not touched.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_clusters::{Clusters, Connection, discovery::Discovery};
use fleetdex_core::model::{ClusterName, causes};
use fleetdex_distribution::{
    hooks::{HookAction, HookMark, HookOutcome, HookTask, MadeHook},
    marks::CopyOrigin,
    sets::SetName,
    template_name::TemplateName,
};
use fleetdex_interpreter::value::text;
use fleetdex_replicas::write_fence::WriteFence;
use http::StatusCode;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;

use super::hook_board::HookBoard;
use crate::{
    control_plane::resource_of,
    object_client::{ObjectClient, ObjectPart, ObjectRequestError},
};

/// How often is looked at a hook that has not ended.
const POLL: Duration = Duration::from_secs(1);
/// After so many looks is read again what a cluster serves.
const LOOKS_A_DISCOVERY: u64 = 10;

/// Runs the hooks of sets in their clusters.
pub struct HookRunner {
    /// What is to be done.
    pub tasks: watch::Receiver<Arc<Vec<HookTask>>>,
    /// How hooks are run.
    pub running: Arc<RunningHooks>,
}

/// How hooks are run.
pub struct RunningHooks {
    /// Where is reported.
    pub board: Arc<HookBoard>,
    /// The member clusters.
    pub clusters: Arc<Clusters>,
    /// The UID of the control plane.
    pub control_plane: Arc<str>,
    /// Closed while another replica writes.
    pub fence: WriteFence,
    /// Notified when a cluster says another thing than before.
    pub changed: Arc<Notify>,
}

/// A member in which a hook runs.
struct HookMember<'r> {
    running: &'r RunningHooks,
    connection: Connection,
    discovery: Arc<Discovery>,
    origin: CopyOrigin,
}

impl HookRunner {
    /// Runs until aborted. Each cluster of each set has a task of its own.
    pub async fn run(mut self) {
        type Place = (String, String);
        let mut started: BTreeMap<Place, (String, AbortOnDropHandle<()>)> = BTreeMap::new();
        loop {
            let tasks = Arc::clone(&self.tasks.borrow_and_update());
            self.running.board.keep(&tasks);
            let place = |task: &HookTask| (task.set.uid.clone(), task.cluster.clone());
            let wanted: BTreeMap<Place, &HookTask> =
                tasks.iter().map(|task| (place(task), task)).collect();
            started.retain(|place, (key, _)| {
                wanted.get(place).is_some_and(|wanted| wanted.key == *key)
            });
            for (place, task) in wanted {
                started.entry(place).or_insert_with(|| {
                    let follow = Arc::clone(&self.running).follow(task.clone());
                    let handle = tokio::spawn(follow);
                    (task.key.clone(), AbortOnDropHandle::new(handle))
                });
            }
            if self.tasks.changed().await.is_err() {
                return;
            }
        }
    }
}

impl RunningHooks {
    /// Does a task until it has ended.
    async fn follow(self: Arc<Self>, task: HookTask) {
        let Ok(cluster) = task.cluster.parse::<ClusterName>() else {
            return;
        };
        for look in 0_u64.. {
            let outcome = self.look(&task, &cluster, look).await;
            let is_over = !matches!(outcome, HookOutcome::Waits(_));
            if self.board.report(&task, outcome) {
                self.changed.notify_one();
            }
            if is_over {
                return;
            }
            sleep(POLL).await;
        }
    }

    async fn look(&self, task: &HookTask, cluster: &ClusterName, look: u64) -> HookOutcome {
        let Some(connection) = self.clusters.connection(cluster) else {
            return HookOutcome::waits("the cluster is not connected");
        };
        if connection.uid.as_deref() == Some(&*self.control_plane) {
            return HookOutcome::failed("the cluster is the control plane itself");
        }
        if look % LOOKS_A_DISCOVERY == LOOKS_A_DISCOVERY - 1 {
            self.clusters.refresh(cluster);
        }
        let state = self.clusters.state(cluster);
        let member = HookMember {
            running: self,
            connection,
            discovery: state.and_then(|state| state.discovery).unwrap_or_default(),
            origin: CopyOrigin {
                control_plane: Arc::clone(&self.control_plane),
                cluster: cluster.as_str().into(),
            },
        };
        match &task.action {
            HookAction::Run(hook) => member.run(&task.set, hook).await,
            HookAction::Delete(hooks) => member.delete(&task.set, hooks).await,
        }
    }
}

impl HookMember<'_> {
    /// The objects of a kind; `None`: the member does not serve it.
    fn client(&self, name: &TemplateName) -> Option<ObjectClient> {
        let resource = resource_of(&self.discovery, &name.kind_name())?;
        let client = self.connection.client.clone();
        let fence = self.running.fence.clone();
        Some(ObjectClient::new(client, resource, fence))
    }

    /// Makes the object of a hook, unless it is there, and says what has become of it.
    async fn run(&self, set: &SetName, hook: &MadeHook) -> HookOutcome {
        let object = match &hook.object {
            Ok(object) => object,
            Err(reason) => return HookOutcome::failed(reason),
        };
        let Some(client) = self.client(&hook.name) else {
            let (api_version, kind) = hook.name.kind_name();
            return HookOutcome::waits(&format!(
                "the cluster does not serve {kind} of {api_version}"
            ));
        };
        let wanted = HookMark::marked(object.clone(), set, &self.origin, &hook.run);
        let looked = match client.get(&hook.name).await {
            Ok(None) => create(&client, &hook.name, &wanted).await,
            Ok(Some(found)) => self.look_at(&client, set, hook, &wanted, &found).await,
            Err(error) => Err(error),
        };
        looked.unwrap_or_else(|error| failed(&error))
    }

    /// What has become of an object of the hook's name.
    async fn look_at(
        &self,
        client: &ObjectClient,
        set: &SetName,
        hook: &MadeHook,
        wanted: &Value,
        found: &Value,
    ) -> Result<HookOutcome, ObjectRequestError> {
        let HookMark::Run(run) = HookMark::of(found, set, &self.origin) else {
            return Ok(HookOutcome::failed(
                "the cluster has this object already, and Fleetdex did not make it for this hook: \
                 delete it",
            ));
        };
        if run == hook.run {
            return Ok(HookOutcome::of(found));
        }
        if hook.is_never_deleted {
            let stored = client.apply(&hook.name, wanted, ObjectPart::Main).await?;
            return Ok(HookOutcome::of(&stored));
        }
        if !hook.replaces {
            return Ok(HookOutcome::failed(
                "it is there from an earlier run, and helm.sh/hook-delete-policy does not have \
                 before-hook-creation: delete it",
            ));
        }
        let uid = text(found, &["metadata", "uid"]);
        client.delete(&hook.name, uid, None).await?;
        Ok(HookOutcome::waits(
            "that of an earlier run is being deleted",
        ))
    }

    /// Deletes the objects of runs that are over.
    async fn delete(&self, set: &SetName, hooks: &[(TemplateName, String)]) -> HookOutcome {
        for (name, run) in hooks {
            if let Err(error) = self.delete_one(set, name, run).await {
                return HookOutcome::waits(&format!("cannot delete {name}: {}", causes(&error)));
            }
        }
        HookOutcome::Succeeded
    }

    async fn delete_one(
        &self,
        set: &SetName,
        name: &TemplateName,
        run: &str,
    ) -> Result<(), ObjectRequestError> {
        // Of a kind that is not served any more there is nothing.
        let Some(client) = self.client(name) else {
            return Ok(());
        };
        let Some(found) = client.get(name).await? else {
            return Ok(());
        };
        if HookMark::of(&found, set, &self.origin) != HookMark::Run(run.to_owned()) {
            return Ok(());
        }
        let uid = text(&found, &["metadata", "uid"]);
        client.delete(name, uid, None).await
    }
}

async fn create(
    client: &ObjectClient,
    name: &TemplateName,
    wanted: &Value,
) -> Result<HookOutcome, ObjectRequestError> {
    match client.create(name, wanted).await {
        Ok(stored) => Ok(HookOutcome::of(&stored)),
        Err(error) if error.status() == Some(StatusCode::CONFLICT) => {
            Ok(HookOutcome::waits("an object of its name comes and goes"))
        }
        Err(error) => Err(error),
    }
}

/// What follows from an error: what the cluster will never take has failed.
fn failed(error: &ObjectRequestError) -> HookOutcome {
    let is_final = matches!(
        error.status(),
        Some(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
    );
    let reason = causes(error);
    if is_final || matches!(error, ObjectRequestError::Name(_)) {
        HookOutcome::failed(&reason)
    } else {
        HookOutcome::waits(&reason)
    }
}
