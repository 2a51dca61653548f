//! Bounds and CEL rules of [`PropagationSpec`](super::PropagationSpec).

/// Most selectors of resources. Karmada has no bound; this one bounds the cost of the rules.
pub(super) const SELECTORS: usize = 1_000;
/// Most rules that keep a part of the status.
pub(super) const STATE_RULES: usize = 100;
/// What is wrong with a path that schemas refuse.
pub(super) const STATE_PATH_NEEDED: &str =
    "it must be a path of members and items of lists, such as {.a.b[0]}";

pub(super) const NAMES_NEEDED: &str = "preemption Always needs a name in every resource selector";
pub(super) const DEPENDENCIES_NEEDED: &str = "failover.application needs propagateDeps: true";
pub(super) const ONLY_GRACEFUL: &str = "gracePeriodSeconds is only for purgeMode: Gracefully";
pub(super) const ONE_SUSPENSION: &str =
    "dispatching suspends all clusters: remove dispatchingOnClusters";

pub(super) const PROPAGATION_RULES: &[(&str, &str)] = &[
    (
        "!has(self.preemption) || self.preemption != 'Always' || self.resourceSelectors.all(one, has(one.name) && one.name != '')",
        NAMES_NEEDED,
    ),
    (
        "!has(self.failover) || !has(self.failover.application) || (has(self.propagateDeps) && self.propagateDeps)",
        DEPENDENCIES_NEEDED,
    ),
];

/// Of `schedulerName`.
pub(super) const SCHEDULER_RULES: &[(&str, &str)] = &[(
    "self == oldSelf",
    "schedulerName is immutable: replace the policy",
)];

/// Of `failover.application`.
pub(super) const APPLICATION_RULES: &[(&str, &str)] = &[(
    "!has(self.gracePeriodSeconds) || !has(self.purgeMode) || self.purgeMode == 'Gracefully'",
    ONLY_GRACEFUL,
)];

/// Of `suspension`.
pub(super) const SUSPENSION_RULES: &[(&str, &str)] = &[(
    "!has(self.dispatching) || !self.dispatching || !has(self.dispatchingOnClusters)",
    ONE_SUSPENSION,
)];
