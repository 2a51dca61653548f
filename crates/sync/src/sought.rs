//! Which of the paths that filters name any object has had a value at.

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

/// The paths that the filters of one unit name beside its selectable fields, and what was found at them.
#[derive(Debug)]
pub struct Sought {
    paths: Vec<Path>,
    /// Whether any object was looked at.
    has_objects: AtomicBool,
    /// Whether a complete list was looked at.
    is_complete: AtomicBool,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Path {
    path: FieldPath,
    is_found: AtomicBool,
}

/// What a complete list, and every change after it, have shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Whether there was any object.
    pub has_objects: bool,
    /// Paths at which none of them had a value.
    pub missing: BTreeSet<FieldPath>,
}

impl Sought {
    /// Nothing was looked at yet. `changed` is notified of every path that is found.
    pub fn new(paths: BTreeSet<FieldPath>, changed: Arc<Notify>) -> Self {
        let paths = paths
            .into_iter()
            .map(|path| Path {
                path,
                is_found: AtomicBool::new(false),
            })
            .collect();
        Self {
            paths,
            has_objects: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            changed,
        }
    }

    /// An object was looked at. `has_value`: whether it has a value at a path.
    pub fn look(&self, has_value: impl Fn(&FieldPath) -> bool) {
        self.has_objects.store(true, Ordering::Relaxed);
        for sought in &self.paths {
            if !sought.is_found.load(Ordering::Relaxed)
                && has_value(&sought.path)
                && !sought.is_found.swap(true, Ordering::Relaxed)
            {
                self.changed.notify_one();
            }
        }
    }

    /// Every object of a list was looked at.
    pub fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// What was found; nothing before a list was complete, as after a start that goes on without a list.
    pub fn findings(&self) -> Option<Findings> {
        self.is_complete.load(Ordering::Relaxed).then(|| Findings {
            has_objects: self.has_objects.load(Ordering::Relaxed),
            missing: self
                .paths
                .iter()
                .filter(|sought| !sought.is_found.load(Ordering::Relaxed))
                .map(|sought| sought.path.clone())
                .collect(),
        })
    }
}
