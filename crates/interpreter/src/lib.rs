//! What objects mean: their health, replicas, status and relations, for any kind.
//!
//! ```text
//!  levels ──> script (customizations, Argo CD) ──> native ──> request
//!     │  └──> webhook (messages, configuration)      │
//!     └─────> health ──> value        summary ──> relations, image
//! ```
//!
//! Guarantee: nothing here does I/O or reads a clock other than to bound a script. The same objects
//! and rules give the same results. Objects are hostile: a member of an odd type is as good as
//! absent, and no object makes a rule panic.
//!
//! An [`Operation`] asks one question about an object ([`Request`]) and has one type of result
//! ([`Response`]). The levels answer in order: customization, webhook, built-in rule ([`native`]).
//! Operations, messages and levels are those of Karmada's resource interpreter:
//! <https://karmada.io/docs/userguide/globalview/customizing-resource-interpreter/>.

pub mod bounded_patch;
pub mod customization;
mod dependency;
pub mod field_problem;
pub mod field_selector;
pub mod health;
pub mod image;
#[cfg(feature = "scripts")]
pub mod levels;
pub mod native;
pub mod operation;
pub mod pod_dependencies;
pub mod pod_template;
pub mod reads;
pub mod relations;
pub mod request;
pub mod results;
#[cfg(feature = "scripts")]
pub mod rules;
#[cfg(feature = "scripts")]
pub mod script;
pub mod summary;
#[cfg(test)]
mod test_rows;
pub mod value;
mod walk;
pub mod webhook;

pub use operation::Operation;
pub use request::{InterpretError, Request, Response};
