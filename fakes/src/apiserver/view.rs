//! The view of a watch: the changes of its collection, as its client observes them.

use super::{
    name::Name,
    object::{Form, Object, Selectors},
    store::Event,
};

/// The collection of a watch and the format of its objects.
#[derive(Debug)]
pub(super) struct View {
    pub(super) resource: Name,
    pub(super) prefix: String,
    pub(super) selectors: Selectors,
    pub(super) form: Form,
}

/// A watch event.
#[derive(Debug)]
pub(super) struct Line {
    kind: &'static str,
    object: Object,
    pub(super) revision: u64,
}

impl View {
    /// Converts a change. An object that begins to match is `ADDED`, one that stops matching is
    /// `DELETED`. A deletion has the object before the change, with the revision of the change.
    pub(super) fn line(&self, event: &Event) -> Option<Line> {
        if !event.key.starts_with(&self.prefix) {
            return None;
        }
        let before = event
            .before
            .as_ref()
            .filter(|object| self.selectors.matches(&event.key, object));
        let after = event
            .after
            .as_ref()
            .filter(|object| self.selectors.matches(&event.key, object));
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(after)) => ("ADDED", after),
            (Some(_), Some(after)) => ("MODIFIED", after),
            (Some(before), None) => ("DELETED", before),
        };
        Some(Line {
            kind,
            object: object.clone(),
            revision: event.revision,
        })
    }

    /// Renders lines with this expected length each.
    pub(super) fn render(&self, lines: &[Line], line_length: usize) -> String {
        let mut out = String::with_capacity(lines.len() * line_length);
        for line in lines {
            self.form
                .event(line.kind, &line.object, line.revision, &mut out);
        }
        out
    }

    pub(super) fn bookmark(&self, revision: u64) -> String {
        let mut out = String::with_capacity(128);
        self.form.bookmark(revision, &mut out);
        out
    }
}
