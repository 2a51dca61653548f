//! Handles the lines of a watch, and writes the documents of objects.

use std::time::SystemTime;

use fleetdex_clusters::watch::{FaultKind, StreamFault, WatchEvent};
use fleetdex_core::{
    model::{Document, NameHash, Object, ObjectError, Version},
    planted::{Bug, planted},
};
use fleetdex_telemetry::metrics::EventType;

use super::{
    end::{Interruption, UnitEnd},
    runner::UnitRunner,
    task::UnitTask,
};
use crate::{
    object_room::ObjectRoom,
    sink::{Wait, indexed_at},
    write_trace::WriteTrace,
};

impl UnitRunner {
    /// Handles one line. Returns whether the watch can go on.
    pub(super) async fn handle_line(
        &mut self,
        line: &[u8],
    ) -> Result<bool, Interruption<StreamFault>> {
        let arrived = self.task.traces.is_on().then(SystemTime::now);
        let metrics = &self.task.metrics;
        let (json, kind) = match WatchEvent::parse(line).map_err(|error| garbled(&error))? {
            WatchEvent::Added(json) => (json, EventType::Added),
            WatchEvent::Modified(json) => (json, EventType::Modified),
            WatchEvent::Deleted(json) => (json, EventType::Deleted),
            WatchEvent::Bookmark(version) => {
                metrics.events(EventType::Bookmark).inc();
                return Ok(self.reached(version));
            }
            WatchEvent::Error(fault) => return Err(fault.into()),
        };
        metrics.events(kind).inc();
        let (object, unfit) = match Object::parse_any(json) {
            Ok(parsed) => parsed,
            // A truncated line may hide any change; an object of an unexpected shape is only that
            // object.
            Err(error) if error.is_cut_off() => return Err(garbled(&error).into()),
            Err(error) => {
                self.skip(&error);
                return Ok(true);
            }
        };
        let sink = &self.task.sink;
        if planted(Bug::ForgetDelete) && kind == EventType::Deleted {
            return Ok(self.reached(object.version()));
        }
        let is_selected = sink.filters.selects(&object);
        self.trace = arrived.and_then(|arrived| {
            let UnitTask { traces, unit, .. } = &self.task;
            WriteTrace::of_change(traces, arrived, unit, kind, &object)
        });
        if is_selected && kind != EventType::Modified {
            let selections = sink.filters.selections_of(&object);
            let is_added = kind == EventType::Added;
            self.task.progress.object_added(is_added, &selections);
        }
        if is_selected && kind != EventType::Deleted {
            let name = sink.name(&object);
            self.index(&object, unfit, name, &indexed_at(), Wait::Never)
                .await?;
        } else {
            // Also for an object that is no longer selected: deleting an absent document costs
            // little.
            let id = sink.projector.id(object.uid());
            if let Some(enrichment) = &self.task.enrichment {
                enrichment.cancel(&id);
            }
            let deletion = Document::deletion(id, object.version());
            self.write(deletion, Some(sink.name(&object)), Wait::Never)
                .await;
        }
        self.trace = None;
        Ok(self.reached(object.version()))
    }

    fn reached(&mut self, version: Version) -> bool {
        let in_order = self.machine.reached(version);
        if in_order {
            self.task.progress.reached(version);
        }
        in_order
    }

    pub(super) fn skip(&mut self, error: &dyn std::error::Error) {
        self.task.progress.skip();
        if let Some(objects) = self.skips.count() {
            tracing::warn!(unit = %self.task.unit, %error, objects, "skipped objects that cannot be identified; the last error is shown");
        }
    }

    /// Writes the document of an object. Of an object that cannot be stored, it writes the identity
    /// and the reason.
    pub(super) async fn index(
        &self,
        object: &Object<'_>,
        unfit: Option<ObjectError>,
        name: NameHash,
        now: &str,
        wait: Wait,
    ) -> Result<(), UnitEnd> {
        let sink = &self.task.sink;
        let is_fit = unfit.is_none();
        let projected = unfit.map_or_else(
            || {
                let _room = ObjectRoom::wait(object.json().len());
                sink.projector.document(object, now)
            },
            Err,
        );
        let document = projected.unwrap_or_else(|unfit| {
            let reason = unfit.to_string();
            tracing::debug!(unit = %self.task.unit, uid = ?object.uid(), reason, "storing only the identity of an object");
            sink.projector.identity(object, &reason, now)
        });
        // Before the write: the next list writes what other rules say of the object.
        self.task.check_rules()?;
        self.write(document, Some(name), wait).await;
        if let Some(enrichment) = self.task.enrichment.as_ref().filter(|_| is_fit) {
            enrichment.submit(object);
        }
        Ok(())
    }

    pub(super) async fn write(&self, document: Document, name: Option<NameHash>, wait: Wait) {
        let UnitTask { sink, progress, .. } = &self.task;
        let (target, trace) = (&self.revision.target, self.trace.clone());
        sink.write(progress, target, document, name, trace, wait)
            .await;
        if let Some(trace) = &self.trace {
            trace.queued();
        }
    }
}

pub(super) fn garbled(error: &dyn std::error::Error) -> StreamFault {
    StreamFault {
        kind: FaultKind::Garbled,
        message: error.to_string(),
    }
}
