//! Which paths of filters have had a value in any object. A path without one is probably
//! misspelled.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fleetdex_core::model::FieldPath;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The paths that the filters of one unit name beside its selectable fields, and whether any object
/// had a value there.
#[derive(Debug)]
pub struct PathPresence {
    paths: Vec<TrackedPath>,
    has_objects: AtomicBool,
    /// Whether a complete list was observed.
    is_complete: AtomicBool,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct TrackedPath {
    path: FieldPath,
    has_value: AtomicBool,
}

/// What a complete list, and every change after it, showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPaths {
    /// Whether there was any object.
    pub has_objects: bool,
    /// Paths at which no object had a value.
    pub missing: BTreeSet<FieldPath>,
}

impl PathPresence {
    /// Tracks paths; nothing was observed yet. `changed` is notified when a path gets its first
    /// value.
    pub fn new(paths: BTreeSet<FieldPath>, changed: Arc<Notify>) -> Self {
        let paths = paths
            .into_iter()
            .map(|path| TrackedPath {
                path,
                has_value: AtomicBool::new(false),
            })
            .collect();
        Self {
            paths,
            has_objects: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            changed,
        }
    }

    /// Observes an object. `has_value`: whether it has a value at a path.
    pub fn observe(&self, has_value: impl Fn(&FieldPath) -> bool) {
        self.has_objects.store(true, Ordering::Relaxed);
        for tracked in &self.paths {
            if !tracked.has_value.load(Ordering::Relaxed)
                && has_value(&tracked.path)
                && !tracked.has_value.swap(true, Ordering::Relaxed)
            {
                self.changed.notify_one();
            }
        }
    }

    /// Notes that every object of a list was observed.
    pub fn list_complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// The paths without a value; `None` before a list was complete, as after a start that resumes
    /// a watch.
    pub fn missing(&self) -> Option<MissingPaths> {
        self.is_complete
            .load(Ordering::Relaxed)
            .then(|| MissingPaths {
                has_objects: self.has_objects.load(Ordering::Relaxed),
                missing: self
                    .paths
                    .iter()
                    .filter(|tracked| !tracked.has_value.load(Ordering::Relaxed))
                    .map(|tracked| tracked.path.clone())
                    .collect(),
            })
    }
}
