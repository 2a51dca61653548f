//! Label and field selectors: text to requirements to text, and what they match.
//!
//! Both accept what Kubernetes accepts, with the same meaning. Both have one canonical form, so
//! that selectors with the same meaning are mostly equal, and
//! `text.parse()?.to_string().parse()? == text.parse()?` always holds.

use std::{collections::BTreeSet, fmt};

mod error;
mod field;
mod field_parser;
mod label;
mod lexer;

pub use error::{InvalidRequirement, SelectorError};
pub use field::{Comparison, FieldRequirement, FieldSelector, FieldTest};
pub use label::{LabelRequirement, LabelSelector, LabelTest};

/// Writes the requirements of a selector, separated by commas.
fn write_joined(
    out: &mut fmt::Formatter<'_>,
    requirements: &BTreeSet<impl fmt::Display>,
) -> fmt::Result {
    let texts: Vec<String> = requirements.iter().map(ToString::to_string).collect();
    out.write_str(&texts.join(","))
}
