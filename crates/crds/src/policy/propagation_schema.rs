//! Bounds and CEL rules of [`PropagationSpec`](super::PropagationSpec).

/// Most selectors of resources. Karmada has no bound; this one bounds the cost of the rules.
pub(super) const SELECTORS: usize = 1_000;
/// Most rules that keep a part of the status.
pub(super) const STATE_RULES: usize = 100;
/// Paths within a status: members and items of lists, as in `{.jobStatus.checkpoints[0].id}`.
/// Other expressions of `JSONPath` could cost any time.
pub(super) const STATE_PATH: &str = r"^\s*\{?\s*\$?(\.[A-Za-z0-9_-]+|\[[0-9]+\])+\s*\}?\s*$";

/// What is wrong with a path that [`STATE_PATH`] does not match.
pub(super) const STATE_PATH_NEEDED: &str =
    "it must be a path of members and items of lists, such as {.a.b[0]}";

/// Whether [`STATE_PATH`] matches a path.
pub(super) fn is_state_path(path: &str) -> bool {
    let mut rest = without_start(without_start(path, '{'), '$');
    let is_name = |found: char| found.is_ascii_alphanumeric() || found == '_' || found == '-';
    let mut steps = 0;
    loop {
        if let Some(named) = rest.strip_prefix('.') {
            let end = named.find(|found| !is_name(found)).unwrap_or(named.len());
            if end == 0 {
                return false;
            }
            rest = &named[end..];
        } else if let Some(numbered) = rest.strip_prefix('[') {
            let Some((number, after)) = numbered.split_once(']') else {
                return false;
            };
            if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
                return false;
            }
            rest = after;
        } else {
            break;
        }
        steps += 1;
    }
    steps > 0 && without_start(rest, '}').trim().is_empty()
}

fn without_start(text: &str, start: char) -> &str {
    let text = text.trim_start();
    text.strip_prefix(start).unwrap_or(text)
}

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
