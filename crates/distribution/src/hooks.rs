//! Hooks of a set: objects that exist for one step of an installation, an upgrade, a rollback or a
//! deletion, as [helm](https://helm.sh/docs/topics/charts_hooks/) has them.
//!
//! ```text
//!  begin ──> advance, ending ──> state ──> tasks      what a cluster shall do next
//!               ▲                  │
//!               │                  └────> stored      what the status of a set has of it
//!            outcome <── an object of a cluster
//! ```
//!
//! A state is written to the control plane before anything acts on it. The object of a hook has a
//! mark of its run in its cluster, so that another process neither repeats nor skips it.
//!
//! Guarantees: a cluster gets no object of a revision before the hooks that come first have
//! succeeded there; the hooks of a step run one after the other; those of one revision run once in
//! a cluster, unless a user asks for another run. What fails in a cluster holds that cluster only.

mod advance;
mod begin;
mod ending;
mod outcome;
mod state;
mod steps;
mod stored;
mod tasks;

pub use self::{
    advance::{HookInputs, LONGEST_HOOK},
    begin::{HookRollout, reaches_all, target},
    ending::EndingInputs,
    outcome::{HookOutcome, HookReport},
    state::{ClusterHook, EndingPhase, HookPhase, HookState, MOST_UNDER_WAY, RETRY_HOOKS, named},
    steps::{HookDeletion, HookMoment, HookStep, ReleaseChange, SetHook, hooks_of},
    tasks::{HOOK_MARK, HookAction, HookMark, HookTask, MadeHook},
};

#[cfg(test)]
mod tests;
