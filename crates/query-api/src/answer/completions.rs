//! Completions of a search that is being written.

use fleetdex_search::{Completion, Completions};
use serde::{Deserialize, Serialize};

use crate::group::API_VERSION;

/// What may stand at a position of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchCompletions {
    /// `SearchCompletions`
    pub kind: String,
    /// Our API group and version.
    pub api_version: String,
    /// The bytes of the text that an item replaces.
    pub replace: ReplacedBytes,
    /// The alternatives, best first.
    pub items: Vec<CompletionItem>,
    /// What is wrong with the text as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TextProblem>,
}

/// A range of bytes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedBytes {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// One alternative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletionItem {
    /// The text to insert, with quotes if it needs them.
    pub text: String,
    /// What it means.
    pub detail: String,
    /// Whether the term is complete with it; otherwise a value follows.
    pub finished: bool,
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextProblem {
    /// The column, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl SearchCompletions {
    /// The completions of a text.
    pub fn new(text: &str, completions: Completions) -> Self {
        let item = |item: Completion| CompletionItem {
            text: item.text,
            detail: item.detail,
            finished: item.is_finished,
        };
        let problem = fleetdex_search::parse(text).err();
        Self {
            kind: "SearchCompletions".to_owned(),
            api_version: API_VERSION.to_owned(),
            replace: ReplacedBytes {
                start: completions.replace.start,
                end: completions.replace.end,
            },
            items: completions.items.into_iter().map(item).collect(),
            error: problem.map(|error| TextProblem {
                column: error.column,
                message: error.message,
            }),
        }
    }
}

impl From<SearchCompletions> for Completions {
    fn from(served: SearchCompletions) -> Self {
        let item = |item: CompletionItem| Completion {
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
