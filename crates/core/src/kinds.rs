//! Kubernetes' built-in kinds: their names in kubectl, and their selectable fields.

mod fields;
mod resolve;
mod table;

pub use fields::{field_labels, selectable_fields};
pub use resolve::{UnknownKind, resolve};
pub use table::{BuiltIn, all, find, find_plural, is_built_in};
