//! Keeps policies of OpenSearch away from indices.
//!
//! Index State Management (ISM) takes every new index that the pattern of a policy matches, and may
//! roll it over, make it read-only or delete it. Fleetdex decides itself when its indices are
//! replaced and deleted, so it excludes them. A server without the plugin refuses the settings for
//! that, and all that is in the same request.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of a setting's name by which a refusal of it is recognised.
pub(crate) const ISM: &str = "index_state_management";
/// What is sent, most first. ISM before 3.4 ignores the first setting unless the second one, its
/// earlier name, is false, too; later releases may not know the second one.
pub(crate) const EXCLUSIONS: [&[&str]; 3] = [
    &[
        "plugins.index_state_management.auto_manage",
        "opendistro.index_state_management.auto_manage",
    ],
    &["plugins.index_state_management.auto_manage"],
    &[],
];

/// How many of the [`EXCLUSIONS`] the server has refused.
#[derive(Debug, Default)]
pub(crate) struct PolicyExclusion(AtomicUsize);

impl PolicyExclusion {
    /// The settings that the server accepts, as far as is known.
    pub(crate) fn settings(&self) -> &'static [&'static str] {
        let refused = self.0.load(Ordering::Relaxed);
        EXCLUSIONS.get(refused).copied().unwrap_or_default()
    }

    /// Notes that `settings` were refused. Returns whether others are left.
    pub(crate) fn refuse(&self, settings: &[&str]) -> bool {
        let next = EXCLUSIONS.len().saturating_sub(settings.len());
        self.0.fetch_max(next, Ordering::Relaxed);
        !settings.is_empty()
    }
}
