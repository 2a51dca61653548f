//! Rules that users write in Lua: Karmada's customizations and Argo CD's health scripts.
//!
//! ```text
//!  argocd, karmada ──> sandbox ──> kube ──> convert ──> member_order ──> error
//!        │                └──> program ──> rewrite ────────────────────────┘
//!        └──> empty
//! ```
//!
//! Both run in Luau with the functions of Lua 5.1 that gopher-lua offers them upstream, and without
//! anything that reaches outside: no files, processes, environment variables or network. A run is
//! bounded in steps, time, memory and the size of its result ([`sandbox`]), and no run sees what
//! another one left behind. The same script and object give the same result, unless the script asks
//! for the time: neither the order of hashes ([`member_order`]) nor the load matters.

pub mod argocd;
mod convert;
mod empty;
mod error;
pub mod karmada;
mod kube;
mod member_order;
mod program;
mod rewrite;
pub mod sandbox;

pub use argocd::{ArgoHealth, HealthScript};
pub use error::ScriptError;
pub use karmada::{Script, ScriptCompiler};
