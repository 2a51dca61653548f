//! Kinds with columns of their own.

use super::column::{Column, View};

/// The columns of one kind, whatever version of it.
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) completed: Option<fn(&View<'_>) -> Option<Completed>>,
}

impl Kind {
    pub(super) const fn new(
        group: &'static str,
        name: &'static str,
        columns: &'static [Column],
    ) -> Self {
        Self {
            group,
            name,
            columns,
            completed: None,
        }
    }

    pub(super) const fn completed_by(self, completed: fn(&View<'_>) -> Option<Completed>) -> Self {
        Self {
            completed: Some(completed),
            ..self
        }
    }
}

/// Why a row is about something that has ended; clients may show it in grey.
pub(super) struct Completed {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}
