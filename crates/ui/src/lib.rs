//! The web page of Fleetdex at `/ui`: HTML that shows what the query API answers, and small scripts
//! on top.
//!
//! ```text
//!  respond ──> views ──> layout, address, tables, yaml, differences, graph ──> response
//!     └──────> query ──> [QueryApi]
//! ```
//!
//! Guarantees: every value of a member or a user is escaped; no response names another host, and
//! scripts and styles come from this server alone ([`CONTENT_SECURITY_POLICY`]); a view asks the
//! query API, and for bindings of the control plane, as its caller only, so that it shows what the
//! caller may list and nothing else.
//! Search, lists and objects work without scripts. The address of a view has its whole state.

mod address;
mod assets;
mod bindings;
mod differences;
mod graph;
mod layout;
mod live;
mod other_words;
mod parameters;
mod query;
mod respond;
mod response;
mod stored_object;
mod tables;
#[cfg(test)]
mod tests;
mod views;
mod yaml;

pub use assets::asset;
pub use bindings::{BindingsPage, BindingsQuestion};
pub use query::{Accept, QueryApi, QueryRefusal, QueryReply};
pub use respond::{SignIn, SignInProblem, failed, is_page_path, login, respond, wants_page};
pub use response::{CONTENT_SECURITY_POLICY, LOGIN_PATH, LOGOUT_PATH, ROOT, secured};
