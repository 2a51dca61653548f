//! Brings one member to what the plan says of it.

mod deletions;
mod leftovers;
mod outcomes;
mod queueing;
mod repairs;
mod retries;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{Clusters, Connection, discovery::Discovery};
use fleetdex_core::model::{ClusterName, Resource};
use fleetdex_distribution::{
    marks::CopyOrigin,
    template_name::{KindName, TemplateName},
};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_telemetry::metrics::DistributionMetrics;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use self::{deletions::PendingDeletions, repairs::Repairs, retries::Retries};
use crate::{
    applying::{AcceptedForm, ApplyOutcome, Applying, ObjectTask},
    control_plane::ControlPlaneObjects,
    copies::Copies,
    copy_memory::CopyMemory,
    held_deletions::HeldDeletions,
    interpreting::Interpreting,
    object_client::{ObjectClient, ObjectRequestError},
    published::{DesiredCluster, DesiredObject, PublishedPlan},
    reflector::LASTING,
    status_board::{CopyReport, StatusBoard},
};

/// Requests to one member under way.
const CONCURRENT_REQUESTS: usize = 16;
/// So long after it has connected a member has what was sent to it before.
const SETTLED: Duration = Duration::from_secs(5);
/// What the copies of one member may take, in bytes of JSON text.
const COPIES_OF_MEMBER: usize = 64 << 20;

/// What all appliers share.
#[derive(Clone)]
pub struct ApplierContext {
    /// The member clusters.
    pub clusters: Arc<Clusters>,
    /// The objects of the control plane.
    pub objects: ControlPlaneObjects,
    /// The plans.
    pub published: watch::Receiver<Arc<PublishedPlan>>,
    /// Where is reported.
    pub board: Arc<StatusBoard>,
    /// Rules and webhooks.
    pub interpreting: Interpreting,
    /// Closed while another replica writes.
    pub fence: WriteFence,
    /// What copies may take.
    pub held: CopyMemory,
    /// The UID of the control plane.
    pub control_plane: Arc<str>,
    /// Says which deletions are held.
    pub held_deletions: HeldDeletions,
    /// Counts objects and writes.
    pub metrics: DistributionMetrics,
}

/// Brings one member to what the plan says of it, until aborted.
pub async fn run(context: ApplierContext, cluster: ClusterName) {
    let mut members = context.clusters.changed();
    loop {
        let connection = context.clusters.connection(&cluster);
        match connection {
            Some(connection) => {
                let member = ConnectedMember::new(&context, &cluster, connection);
                member.run().await;
            }
            None => report_unconnected(&context, &cluster),
        }
        context.board.forget_cluster(cluster.as_str());
        context.metrics.set_held_deletions(&cluster, 0);
        let mut published = context.published.clone();
        published.mark_unchanged();
        tokio::select! {
            _ = members.changed() => {}
            _ = published.changed() => {}
        }
    }
}

fn report_unconnected(context: &ApplierContext, cluster: &ClusterName) {
    let plan = Arc::clone(&context.published.borrow());
    let Some(desired) = plan.clusters.get(cluster.as_str()) else {
        return;
    };
    let reason = context.clusters.state(cluster).map(|state| state.reason);
    let message = format!(
        "the cluster is not connected ({})",
        reason.unwrap_or_default()
    );
    let count = desired.count();
    context.metrics.set_objects(cluster, count, count);
    for (name, _) in desired
        .objects
        .iter()
        .filter(|(_, one)| !one.is_only_needed)
    {
        let report = CopyReport::not_applied(message.clone());
        context.board.report(name, cluster.as_str(), report);
    }
}

/// What a request came to.
enum Done {
    Applied(TemplateName, DesiredObject, ApplyOutcome),
    Removed(TemplateName, Result<(), ObjectRequestError>),
}

struct ConnectedMember<'c> {
    context: &'c ApplierContext,
    cluster: &'c ClusterName,
    connection: Connection,
    origin: CopyOrigin,
    since: Instant,
    /// Until when a write that was not answered may still arrive.
    unanswered: BTreeMap<TemplateName, Instant>,
    /// Until when the watch may still send what was written.
    written_until: BTreeMap<TemplateName, Instant>,
    discovery: Arc<Discovery>,
    desired: Arc<DesiredCluster>,
    plan: Arc<PublishedPlan>,
    copies: Copies,
    queue: BTreeSet<(u8, TemplateName)>,
    busy: BTreeSet<(u8, TemplateName)>,
    running: FuturesUnordered<BoxFuture<'c, Done>>,
    retries: Retries,
    deletions: PendingDeletions,
    /// What may be deleted now.
    deleting: BTreeMap<TemplateName, Arc<str>>,
    /// When absent copies are looked for again.
    absences_at: Option<Instant>,
    /// How often objects were written although nothing asked for it here.
    repairs: Repairs,
    /// The versions that were written and that the watch has not sent yet.
    written: BTreeMap<TemplateName, u64>,
    accepted: BTreeMap<TemplateName, AcceptedForm>,
    /// What the member has as it shall be.
    applied: BTreeMap<TemplateName, AppliedObject>,
    /// How many objects policies place here.
    wanted: usize,
}

/// An object that a member has as it shall be.
struct AppliedObject {
    /// The version that was looked at; 0: to be looked at again.
    version: u64,
    desired: DesiredObject,
}

impl<'c> ConnectedMember<'c> {
    fn new(context: &'c ApplierContext, cluster: &'c ClusterName, connection: Connection) -> Self {
        let origin = CopyOrigin {
            control_plane: Arc::clone(&context.control_plane),
            cluster: cluster.as_str().into(),
        };
        let copies = Copies::new(
            connection.client.clone(),
            origin.clone(),
            context.held.share(COPIES_OF_MEMBER),
        );
        Self {
            context,
            cluster,
            connection,
            origin,
            since: Instant::now(),
            unanswered: BTreeMap::new(),
            written_until: BTreeMap::new(),
            discovery: Arc::default(),
            desired: Arc::default(),
            plan: Arc::default(),
            copies,
            queue: BTreeSet::new(),
            busy: BTreeSet::new(),
            running: FuturesUnordered::new(),
            retries: Retries::default(),
            deletions: PendingDeletions::default(),
            deleting: BTreeMap::new(),
            absences_at: None,
            repairs: Repairs::default(),
            written: BTreeMap::new(),
            accepted: BTreeMap::new(),
            applied: BTreeMap::new(),
            wanted: 0,
        }
    }

    /// Runs until the member has another connection, or none.
    async fn run(mut self) {
        let mut published = self.context.published.clone();
        let mut members = self.context.clusters.changed();
        let look_again = Arc::clone(&self.copies.look_again);
        loop {
            let is_same = self
                .context
                .clusters
                .connection(self.cluster)
                .is_some_and(|now| now == self.connection);
            if !is_same {
                return;
            }
            let plan = Arc::clone(&published.borrow_and_update());
            self.set_plan(plan);
            self.set_discovery();
            self.take_names();
            self.start_requests();
            self.delete_leftovers();
            self.start_deletions();
            self.count_objects();
            let wake = self.wake_at();
            tokio::select! {
                Some(done) = self.running.next() => self.done(done),
                () = look_again.notify.notified() => {}
                changed = published.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = members.changed() => {}
                () = sleep_until(wake) => {}
            }
            // Those that are ready come together.
            while let Some(Some(done)) = self.running.next().now_or_never() {
                self.done(done);
            }
        }
    }

    fn wake_at(&self) -> Instant {
        let may_delete = self.plan.is_complete && self.copies.knows_all();
        let due = self.deletions.due().filter(|_| may_delete);
        let awaited = self.absences_at;
        let times = [self.retries.next(), due, awaited];
        let idle = Instant::now() + Duration::from_mins(1);
        times.into_iter().flatten().min().unwrap_or(idle)
    }

    /// Looks at objects, in their order, while requests may be sent.
    fn start_requests(&mut self) {
        while self.busy.len() < CONCURRENT_REQUESTS {
            let next = self.queue.iter().find(|one| !self.busy.contains(*one));
            let Some(next) = next.cloned() else {
                return;
            };
            // What others need is there before they are sent. What has failed before keeps nothing
            // waiting.
            let is_first = |name: &TemplateName| !self.retries.has_failed(name);
            let mut before = self.busy.iter().take_while(|busy| busy.0 < next.0);
            if before.any(|(_, name)| is_first(name)) {
                return;
            }
            self.queue.remove(&next);
            if let Some(running) = self.look_at(&next.1) {
                self.busy.insert(next);
                self.running.push(running);
            }
        }
    }

    /// Looks at one object; returns what has to be sent.
    fn look_at(&mut self, name: &TemplateName) -> Option<BoxFuture<'c, Done>> {
        let kind = name.kind_name();
        let copy = self.copies.get(name);
        if let (Some(copy), Some(written)) = (&copy, self.written.get(name)) {
            if copy.version < *written {
                // The watch will send what was written.
                return None;
            }
            self.written.remove(name);
            self.written_until.remove(name);
        }
        let Some(desired) = self.desired.objects.get(name).cloned() else {
            return self.look_at_leftover(name, &kind);
        };
        self.deletions.remove(name);
        if self.connection.uid.as_deref() == Some(&*self.origin.control_plane) {
            let message = "the cluster is the control plane itself, which has the template";
            self.not_applied(name, message.to_owned());
            return None;
        }
        let Some(resource) = self.copies.resource(&kind).cloned() else {
            self.is_not_served(name, &kind);
            return None;
        };
        if !self.copies.knows(&kind) {
            // It is looked at again when the list is complete, too.
            match self.copies.fault(&kind) {
                Some(fault) => {
                    let message = format!("what the cluster has cannot be read: {fault}");
                    self.not_applied(name, message);
                }
                None => self.retries.at(name, Instant::now() + LASTING),
            }
            return None;
        }
        let applied = self.applied.get(name);
        if let (Some(copy), Some(applied)) = (&copy, applied)
            && copy.version > 0
            && (copy.version, &desired) == (applied.version, &applied.desired)
        {
            // The watch has sent what was looked at when it was written.
            return None;
        }
        if let Some(until) = self.repairs.paused_until(name) {
            self.retries.at(name, until);
            let message = "something in the cluster changes the object back again and again; the \
                           managers in its metadata.managedFields say what";
            self.not_applied(name, message.to_owned());
            return None;
        }
        let task = ObjectTask {
            name: name.clone(),
            desired: desired.clone(),
            copy,
            accepted: self.accepted.get(name).cloned(),
        };
        let applying = self.applying(resource);
        let name = name.clone();
        let applied = async move {
            let outcome = applying.apply(task).await;
            Done::Applied(name, desired, outcome)
        };
        Some(applied.boxed())
    }

    /// The kind may be served when its definition, which is distributed too, is established.
    fn is_not_served(&mut self, name: &TemplateName, kind: &KindName) {
        let (api_version, kind) = kind;
        let message = format!("the cluster does not serve {kind} of {api_version}");
        self.not_applied(name, message);
        let has_definitions = self
            .desired
            .objects
            .keys()
            .any(|name| name.kind == "CustomResourceDefinition");
        if has_definitions {
            self.context.clusters.refresh(self.cluster);
            self.retries.failed(name);
        }
    }

    fn applying(&self, resource: Resource) -> Applying {
        Applying {
            client: ObjectClient::new(
                self.connection.client.clone(),
                resource,
                self.context.fence.clone(),
            ),
            interpreting: self.context.interpreting.clone(),
            origin: self.origin.clone(),
        }
    }
}
