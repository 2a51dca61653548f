//! Renders charts, folders and manifests into objects, by the programs `helm` and `kustomize`.
//!
//! ```text
//!  source, named_objects ──> resolve
//!  references ──> fetch ──> Archive ──┐
//!  values, valuesFrom ──> values ─────┼──> renderer ──> child: sandbox ──> helm, kustomize
//!  Capabilities ──────────────────────┘       │
//!   │                        RenderedSet <── manifests, hooks, kind_order
//!   └── variants ──> kept <──────┘
//! ```
//!
//! What is fetched and what the programs print is hostile until it is parsed: every step has
//! bounds, and each bound is an error that names it. The programs run without a network, and open
//! no file but those of their rendering ([`sandbox`]).

pub mod archive;
pub mod blocking;
pub mod cache;
mod child;
pub mod digest;
pub mod fetch;
pub mod hooks;
mod inputs;
pub mod kept;
pub mod kind_order;
mod manifests;
pub mod named_objects;
pub mod programs;
pub mod rendered;
pub mod renderer;
pub mod resolve;
pub mod sandbox;
pub mod scopes;
pub mod source;
pub mod values;
pub mod variants;
pub mod version;
