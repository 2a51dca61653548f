//! Label and field selectors: text to requirements to text, and what they match.
//!
//! Both accept what Kubernetes accepts and mean the same by it. Both are kept in one canonical form, so that selectors which
//! ask the same in other words are mostly equal, and `text.parse()?.to_string().parse()? == text.parse()?` always holds.

mod error;
mod field;
mod field_parser;
mod label;
mod lexer;

pub use error::{InvalidRequirement, SelectorError};
pub use field::{Comparison, FieldRequirement, FieldSelector, FieldTest};
pub use label::{LabelRequirement, LabelSelector, LabelTest};
