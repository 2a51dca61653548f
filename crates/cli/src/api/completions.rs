//! The completions of a search, as the server sends them.

use fleetdex_search::{Completion, Completions};
use serde::Deserialize;

/// A `SearchCompletions`.
#[derive(Deserialize)]
pub(super) struct ServedCompletions {
    replace: ReplacedBytes,
    items: Vec<ServedItem>,
}

#[derive(Deserialize)]
struct ReplacedBytes {
    start: usize,
    end: usize,
}

#[derive(Deserialize)]
struct ServedItem {
    text: String,
    detail: String,
    finished: bool,
}

impl From<ServedCompletions> for Completions {
    fn from(served: ServedCompletions) -> Self {
        let item = |item: ServedItem| Completion {
            text: item.text,
            detail: item.detail,
            is_finished: item.finished,
        };
        Self {
            replace: served.replace.start..served.replace.end,
            items: served.items.into_iter().map(item).collect(),
        }
    }
}
