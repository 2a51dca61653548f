//! The views.

mod compare;
mod distributed_set;
mod distribution;
mod fleet;
mod object;
mod placements;
mod result_table;
mod search;

use http::StatusCode;
use maud::{Markup, html};

pub(crate) use self::{
    compare::compare,
    distributed_set::distributed_set,
    distribution::distribution,
    fleet::fleet,
    object::{download, object},
    search::search,
};
use crate::{
    layout::{Live, problem},
    query::QueryRefusal,
    response::ROOT,
};

/// A view, without what all views have around them.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: StatusCode,
    pub(crate) title: String,
    /// The text in the search box.
    pub(crate) search: String,
    /// When it loads itself again.
    pub(crate) live: Option<Live>,
    pub(crate) main: Markup,
}

impl Shown {
    fn new(title: impl Into<String>, main: Markup) -> Self {
        Self {
            status: StatusCode::OK,
            title: title.into(),
            search: String::new(),
            live: None,
            main,
        }
    }

    /// A view that the query API does not answer.
    fn unanswered(title: &str, unanswered: &QueryRefusal) -> Self {
        let main = html! { h1 { (title) } (problem(&unanswered.message)) p { a href={ (ROOT) "/" } { "Search all objects" } } };
        Self {
            status: unanswered.status,
            ..Self::new(title, main)
        }
    }
}

/// The view of a path that has none.
pub(crate) fn not_found(path: &str) -> Shown {
    let message = format!("There is no page {path}.");
    Shown::unanswered(
        "Not found",
        &QueryRefusal {
            status: StatusCode::NOT_FOUND,
            message,
        },
    )
}
