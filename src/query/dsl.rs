//! AST to OpenSearch JSON.
use super::Query;
pub struct Paging<'p> { pub pit: Option<(&'p str, &'p str)>, pub after: Option<&'p [serde_json::Value]>, pub count: bool }
pub fn request_body(query: &Query, paging: &Paging<'_>) -> Result<serde_json::Value, std::fmt::Error> { let _=(query, paging); Ok(serde_json::Value::Null) }
