//! Why the objects of a set are not those of its source.

use std::fmt;

use fleetdex_core::model::causes;
use fleetdex_rendering::{fetch::FetchError, renderer::RenderError, resolve::ResolveError};

/// Why a kept revision is not read: it is not there.
pub const REVISION_LOST: &str = "RevisionNotKnown";

/// Bytes of a message, at most.
const LONGEST_MESSAGE: usize = 4_096;

/// Why the objects of a set are not those of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFailure {
    /// One word for programs: the reason of the condition.
    pub reason: &'static str,
    /// What failed, and what to do.
    pub message: String,
    /// Whether nothing of the set is written, either, that was rendered before.
    pub stops_writing: bool,
}

impl SetFailure {
    /// What was rendered before stays in force.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: bounded(message.into()),
            stops_writing: false,
        }
    }

    /// The spec makes no sense.
    pub fn invalid(message: String) -> Self {
        Self::stopping("InvalidSpec", message)
    }

    /// The account of the set may not do this.
    pub fn forbidden(message: String) -> Self {
        Self::stopping("Forbidden", message)
    }

    /// Waves need renderings that outlive the process, and this one is too large for that.
    pub fn too_large_to_keep() -> Self {
        Self::stopping(
            "RenderingTooLarge",
            "its objects have more than 900 kB when they are compressed, and are not kept: make \
             the set smaller, or remove spec.rollout",
        )
    }

    /// There is no room for its objects.
    pub fn too_large() -> Self {
        Self::new(
            "TooLarge",
            "its objects take more than 32 MiB of memory, or those of all sets more than 256 MiB: \
             make sets smaller, or use fewer",
        )
    }

    /// A task of ours ended early.
    pub fn aborted(error: &dyn fmt::Display) -> Self {
        Self::new("RenderingFailed", error.to_string())
    }

    fn stopping(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            stops_writing: true,
            ..Self::new(reason, message)
        }
    }
}

impl From<ResolveError> for SetFailure {
    fn from(error: ResolveError) -> Self {
        let reason = match &error {
            ResolveError::Fetch(FetchError::Host(_)) => "HostNotAllowed",
            ResolveError::Fetch(_) => "FetchFailed",
            ResolveError::Source(_) | ResolveError::Location(_) => "InvalidSpec",
            _ => "SourceNotReadable",
        };
        Self::new(reason, causes(&error))
    }
}

impl From<RenderError> for SetFailure {
    fn from(error: RenderError) -> Self {
        let reason = match &error {
            RenderError::Program(_) => "ProgramMissing",
            RenderError::Hook(_) => "HooksNotSupported",
            _ => "RenderingFailed",
        };
        Self::new(reason, causes(&error))
    }
}

/// The beginning of a text, which may be of a renderer.
pub fn bounded(mut text: String) -> String {
    cut(&mut text, LONGEST_MESSAGE);
    text
}

/// Cuts a text between characters.
pub fn cut(text: &mut String, bytes: usize) {
    if text.len() <= bytes {
        return;
    }
    text.truncate(text.floor_char_boundary(bytes));
    text.push('…');
}

/// The first ones of a list, at most so many.
pub fn named<T: fmt::Display>(all: impl ExactSizeIterator<Item = T>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    let shown: Vec<String> = all.take(most).map(|one| one.to_string()).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        let failure = SetFailure::new("A", "é".repeat(LONGEST_MESSAGE));
        assert_eq!(failure.message.len(), LONGEST_MESSAGE + '…'.len_utf8());
        assert_eq!(SetFailure::new("A", "short").message, "short");
    }
}
