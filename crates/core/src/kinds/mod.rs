//! Kubernetes' built-in kinds: how kubectl names them, and which of their fields the apiserver selects by.

mod fields;
mod resolve;
mod table;

pub use fields::{field_labels, selectable_fields};
pub use resolve::{UnknownKind, resolve};
pub use table::{BuiltIn, all, find, find_plural, is_built_in};
