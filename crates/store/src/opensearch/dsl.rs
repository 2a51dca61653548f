//! Translates checked queries to the JSON of OpenSearch's `_search`.

mod clauses;
pub mod composite;
mod page;
mod ranked;
mod relatives;
mod selections;
mod values;
mod words;

pub(crate) use clauses::of_resource;
pub use clauses::query_clause;
pub use page::{Paging, PointInTime, request_body};
pub use ranked::ranked_body;
pub use relatives::{RELATIVE_KEYS, relatives_body};
pub use selections::resources_clause;
pub use values::values_body;
pub(crate) use words::either;

#[cfg(test)]
mod tests;
