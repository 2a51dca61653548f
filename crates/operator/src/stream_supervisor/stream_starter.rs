//! Starts streams, one task each.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_clusters::{
    Connection,
    watch::{Collection, ListerWatcher},
};
use fleetdex_core::model::{ClusterName, Projector, StoreName, Unit};
use fleetdex_interpreter::rules::KindRules;
use fleetdex_limits::poll_time::LongestPoll;
use fleetdex_sync::{
    audit::{Audit, Permits},
    enrichment::{UnitEnrichment, WebhookAccess},
    progress::Progress,
    sink::{Filters, Sink},
    unit::{LISTS_PER_CLUSTER, UnitTask},
};
use fleetdex_telemetry::{
    Traces,
    metrics::{Metrics, TaskKind},
};
use tokio::sync::{Notify, Semaphore};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    identity::{plan_hash, rules_hash},
    stores::RunningStore,
};
use crate::plan::{StreamKey, StreamPlan};

/// What every stream is started with.
pub(super) struct StreamContext {
    pub(super) metrics: Arc<Metrics>,
    pub(super) changed: Arc<Notify>,
    pub(super) traces: Traces,
    /// Asks interpreter webhooks; `None`: none is asked.
    pub(super) webhooks: Option<WebhookAccess>,
    pub(super) audit_interval: Option<Duration>,
}

pub(super) struct StreamStarter {
    context: StreamContext,
    /// One semaphore for each store, so that lists that wait for one store do not delay those for
    /// another.
    lists: BTreeMap<(ClusterName, StoreName), Arc<Semaphore>>,
    audits: Permits,
    /// How many streams have been started.
    started: u64,
}

/// A stream to start.
pub(super) struct NewStream<'a> {
    pub(super) key: &'a StreamKey,
    pub(super) plan: &'a StreamPlan,
    pub(super) connection: &'a Connection,
    pub(super) store: &'a RunningStore,
    /// The progress of the same stream before its member was disconnected.
    pub(super) resumed: Option<Arc<Progress>>,
    /// Ended streams whose writes may be unacknowledged.
    pub(super) predecessors: Vec<Arc<Progress>>,
}

/// What is kept of a stream while its member is not connected.
pub(super) struct StreamState {
    pub(super) plan: StreamPlan,
    /// The epoch of the store that it writes to.
    pub(super) epoch: u64,
    pub(super) progress: Arc<Progress>,
}

pub(super) struct RunningStream {
    pub(super) state: StreamState,
    pub(super) connection: u64,
    pub(super) audit: Arc<Audit>,
    pub(super) stop: CancellationToken,
    pub(super) task: AbortOnDropHandle<()>,
}

impl RunningStream {
    /// Whether it cannot continue.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished() || self.state.progress.is_broken()
    }
}

impl StreamStarter {
    pub(super) fn new(context: StreamContext) -> Self {
        Self {
            context,
            lists: BTreeMap::new(),
            audits: Permits::default(),
            started: 0,
        }
    }

    pub(super) fn start(&mut self, mut new: NewStream<'_>) -> RunningStream {
        let NewStream {
            key: StreamKey { unit, store },
            plan,
            connection,
            ..
        } = new;
        let progress = new.resumed.take().unwrap_or_else(|| {
            let progress = Progress::new(unit.cluster.clone(), Arc::clone(&self.context.changed));
            self.context.metrics.measure_lag(&progress);
            progress
        });
        let audit = Arc::new(Audit {
            unit: unit.clone(),
            source: ListerWatcher::new(connection.client.clone(), collection(unit, plan)),
            sink: Arc::new(sink(unit, plan, new.store, &progress)),
            progress: Arc::clone(&progress),
            metrics: self.context.metrics.unit(&unit.cluster, &unit.resource.gvk),
            permits: self.audits.for_unit(&unit.cluster),
            stop: CancellationToken::new(),
        });
        let state = StreamState {
            plan: plan.clone(),
            epoch: new.store.epoch,
            progress,
        };
        let task = self.task(new, &audit);
        tracing::debug!(%unit, %store, "starting a stream");
        let longest = LongestPoll::new(self.context.metrics.longest_poll(TaskKind::Stream));
        RunningStream {
            state,
            connection: connection.id,
            stop: audit.stop.clone(),
            audit,
            task: AbortOnDropHandle::new(tokio::spawn(longest.of(task.run()))),
        }
    }

    fn task(&mut self, new: NewStream<'_>, audit: &Arc<Audit>) -> UnitTask {
        let NewStream {
            key: StreamKey { unit, store },
            plan,
            connection,
            predecessors,
            ..
        } = new;
        let lists = self.lists.entry((unit.cluster.clone(), store.clone()));
        let lists = lists.or_insert_with(|| Arc::new(Semaphore::new(LISTS_PER_CLUSTER)));
        self.started += 1;
        let enrichment = plan.rules.as_ref().zip(self.context.webhooks.as_ref());
        let enrichment = enrichment.and_then(|(rules, access)| {
            let prefix = format!("{} {store} {unit} ", self.started);
            UnitEnrichment::new(rules, access, &audit.sink, &audit.progress, prefix)
        });
        let written_status = plan.rules.as_ref().and_then(KindRules::of_written_status);
        UnitTask {
            unit: unit.clone(),
            uid: connection.uid.clone(),
            predecessors,
            plan: plan_hash(unit, plan, connection.address()),
            rules_hash: rules_hash(plan, plan.rules.as_ref()),
            written_status_hash: written_status.and_then(|rules| rules_hash(plan, Some(&rules))),
            is_selective: plan.label_selector.is_some() || plan.field_selector.is_some(),
            source: audit.source.clone(),
            sink: Arc::clone(&audit.sink),
            progress: Arc::clone(&audit.progress),
            rules: plan.rules.clone(),
            enrichment,
            lists: Arc::clone(lists),
            metrics: audit.metrics.clone(),
            traces: self.context.traces.clone(),
            audit: Arc::clone(audit),
            audit_interval: self.context.audit_interval,
            stop: audit.stop.clone(),
        }
    }
}

/// Where the objects of a unit go, however many registries of the store route them.
fn sink(unit: &Unit, plan: &StreamPlan, store: &RunningStore, progress: &Progress) -> Sink {
    let fields = plan.selectable_fields(&unit.resource.gvk);
    let filters = plan
        .routes
        .iter()
        .map(|route| route.filter.clone())
        .collect();
    let projector = Projector::new(
        &unit.cluster,
        &unit.resource,
        &store.plan.projection,
        &fields,
    );
    let projector = match &plan.rules {
        Some(rules) => projector.interpreted_by(Arc::new(rules.clone())),
        None => projector,
    };
    let projector = match rules_hash(plan, plan.rules.as_ref()) {
        Some(hash) => projector.made_by(&hash),
        None => projector,
    };
    Sink {
        pipeline: store.pipeline.clone(),
        projector,
        filters: Filters::new(&unit.cluster, &unit.resource, filters, &fields, progress)
            .counting(plan.routes_of_selections()),
    }
}

/// What the member lists and watches for a stream.
fn collection(unit: &Unit, plan: &StreamPlan) -> Collection {
    Collection {
        resource: unit.resource.clone(),
        scope: unit.scope.clone(),
        label_selector: plan.label_selector.clone(),
        field_selector: plan.field_selector.clone(),
    }
}
