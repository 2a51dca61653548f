//! Columns by kind.

use super::column::{Column, RowContext};

/// The columns of one kind, in any version.
pub(super) struct KindColumns {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) completed: Option<fn(&RowContext<'_>) -> Option<CompletedCondition>>,
}

impl KindColumns {
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

    pub(super) const fn with_completed(
        self,
        completed: fn(&RowContext<'_>) -> Option<CompletedCondition>,
    ) -> Self {
        Self {
            completed: Some(completed),
            ..self
        }
    }
}

/// Reason and message of the row condition `Completed`; clients may show such rows in grey.
pub(super) struct CompletedCondition {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}
