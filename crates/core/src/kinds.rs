//! Kubernetes' built-in kinds: their names in kubectl, and their selectable fields.

mod built_in;
mod fields;
mod resolve;

pub use built_in::{BuiltIn, all, find, find_plural, is_built_in};
pub use fields::{field_labels, selectable_fields};
pub use resolve::{UnknownKind, resolve};
