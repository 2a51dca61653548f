//! Label and field selectors: text to requirements to text, and what they match.
//!
//! Both accept what Kubernetes accepts and mean the same by it. Both are kept in one canonical form, so that selectors which
//! ask the same in other words are mostly equal, and `text.parse()?.to_string().parse()? == text.parse()?` always holds.

use std::{collections::BTreeSet, fmt};

mod error;
mod field;
mod field_parser;
mod label;
mod lexer;

pub use error::{InvalidRequirement, SelectorError};
pub use field::{Comparison, FieldRequirement, FieldSelector, FieldTest};
pub use label::{LabelRequirement, LabelSelector, LabelTest};

/// The requirements of a selector, with a comma between each two.
fn write_joined(
    out: &mut fmt::Formatter<'_>,
    requirements: &BTreeSet<impl fmt::Display>,
) -> fmt::Result {
    for (index, requirement) in requirements.iter().enumerate() {
        if index > 0 {
            out.write_str(",")?;
        }
        requirement.fmt(out)?;
    }
    Ok(())
}
