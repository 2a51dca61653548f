//! Label and field selectors: text to AST to text, and what they match.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::LabelSelector;
