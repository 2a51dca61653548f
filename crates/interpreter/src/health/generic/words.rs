//! The words by which texts are judged. The lists were measured on the health tests of Argo CD; a
//! word here changes what many kinds of objects are said to be.

use std::collections::HashMap;
use std::ops::BitOr;
use std::sync::LazyLock;

/// The classes that a word is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes(u16);

impl Classes {
    /// Something is wrong.
    pub(super) const BAD: Self = Self(1);
    /// It rests on purpose.
    pub(super) const PAUSED: Self = Self(1 << 1);
    /// Something is under way.
    pub(super) const BUSY: Self = Self(1 << 2);
    /// Something is as it should be.
    pub(super) const GOOD: Self = Self(1 << 3);
    /// Reverses the words after it.
    pub(super) const NEGATION: Self = Self(1 << 4);
    /// In the type of a condition or the name of a boolean: true is trouble.
    pub(super) const PROBLEM: Self = Self(1 << 5);
    /// As the whole type of a condition: it sums up the object.
    pub(super) const SUMMARY: Self = Self(1 << 6);
    /// As the whole type of a condition: false is final.
    pub(super) const VERDICT: Self = Self(1 << 7);
    /// In the reason of an activity: it is over.
    pub(super) const DONE: Self = Self(1 << 8);
    /// A word in -ing that names an activity.
    pub(super) const ACTIVITY: Self = Self(1 << 9);
    /// Ends a phrase of [`PHRASES`].
    pub(super) const ENDS_PHRASE: Self = Self(1 << 10);
    /// The object, or one it needs, is not there.
    pub(super) const ABSENT: Self = Self(1 << 11);
    /// A good word after a negation.
    pub(super) const NOT_GOOD: Self = Self(1 << 12);
    /// Something is under way, or not as it should be yet; "not ready" alone is the latter.
    pub(super) const UNFINISHED: Self = Self(Self::BUSY.0 | Self::NOT_GOOD.0);
    /// A word in -ing that names no activity.
    const NO_ACTIVITY: Self = Self(1 << 13);

    /// Whether the two have a class in common.
    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Classes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

const LISTS: [(Classes, &str); 10] = [
    (
        Classes::BAD,
        "err errs error errors errored erroring fail fails failed failing failure failures invalid denied forbidden unauthorized \
         unreachable unhealthy degraded reject rejected rejecting rejection refused conflict conflicts conflicting conflicted \
         crash crashed crashing crashloop crashlooping backoff exceeded unable cannot mismatch unsupported incompatible incorrect \
         wrong bad illegal malformed inconsistent expired aborted canceled cancelled killed evicted broken fatal panic oom dead \
         offline disconnected exception unexpected unexpectedly blocked warning warn critical red stalled stuck lost noncompliant \
         violation violations violated violates misconfigured misconfiguration insufficient exhausted unschedulable unsatisfiable \
         unresolved corrupt corrupted orphaned timeout inaccessible unsuccessful partial partially",
    ),
    (
        Classes::PAUSED,
        "paused suspended stopped halted hibernated hibernating standby",
    ),
    (
        Classes::BUSY,
        "progress inprogress pending wait queued scheduled submitted started starting init retry requeued new yellow incomplete \
         unavailable unready being stale outdated deferred delayed",
    ),
    (
        Classes::NO_ACTIVITY,
        "running missing warning failing crashing conflicting erroring rejecting crashlooping string nothing anything something \
         everything existing during using serving working passing operating listening according following matching corresponding \
         concerning regarding including succeeding remaining setting binding mapping listing networking monitoring logging \
         routing tracing billing hibernating",
    ),
    (
        Classes::GOOD,
        "ready running healthy available active succeeded success successful successfully complete completed ok okay bound \
         provisioned deployed synced synchronized accepted valid established green online operational exists installed finished \
         done enabled connected created stable initialized compliant programmed reconciled attached registered applied normal \
         optimal protected admitted resolved promoted passed passing updated configured issued published approved provided idle \
         live alive operating serving processed found joined restored migrated merged loaded activated latest current verified \
         validated authorized granted fulfilled satisfied launched bootstrapped generated",
    ),
    (
        Classes::PROBLEM,
        "fail failed failure failures failing error errors degraded stalled invalid unhealthy orphan orphaned unavailable \
         conflict conflicted unreachable expired pressure exceeded unschedulable missing blocked problem crash crashing lost \
         broken stuck rejected exhausted insufficient misconfigured drifted disconnected offline incompatible timeout terminal \
         recoverable partial partially not non",
    ),
    (
        Classes::SUMMARY,
        "ready available healthy succeeded success successful complete completed synced reconciled accepted admitted \
         resolvedrefs programmed established valid compliant namesaccepted provisioned operational uptodate stable online \
         finished done",
    ),
    (
        Classes::VERDICT,
        "accepted admitted resolvedrefs valid compliant namesaccepted",
    ),
    (
        Classes::DONE,
        "available complete completed succeeded success successful done finished ready healthy running",
    ),
    (Classes::NEGATION, "no not non un without never isn cannot"),
];

/// Phrases, as words from the last to the first, and what they say.
pub(super) const PHRASES: [(Classes, &[&str]); 14] = [
    (Classes::ABSENT, &["found", "not"]),
    (Classes::ABSENT, &["exist", "not", "does"]),
    (Classes::ABSENT, &["such", "no"]),
    (Classes::BAD, &["out", "timed"]),
    (Classes::BAD, &["not", "could"]),
    (Classes::BAD, &["match", "not", "does"]),
    (Classes::BAD, &["wrong", "went"]),
    (Classes::BAD, &["off", "back"]),
    (Classes::BAD, &["compliant", "non"]),
    (Classes::BAD, &["reached", "limit"]),
    (Classes::BAD, &["working", "not"]),
    (Classes::BAD, &["supported", "not"]),
    (Classes::BAD, &["allowed", "not"]),
    (Classes::BAD, &["permitted", "not"]),
];

/// Kinds whose objects never have a status, where discovery does not say so.
const KINDS_WITHOUT_STATUS: &str = "ConfigMap Secret ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding Endpoints \
     EndpointSlice Event Lease LimitRange NetworkPolicy IngressClass StorageClass PriorityClass RuntimeClass CSIDriver CSINode \
     PodTemplate ControllerRevision MutatingWebhookConfiguration ValidatingWebhookConfiguration MutatingAdmissionPolicy \
     MutatingAdmissionPolicyBinding ValidatingAdmissionPolicyBinding VolumeAttributesClass CSIStorageCapacity IPAddress \
     ResourceSlice ResourceClaimTemplate DeviceClass PropagationPolicy ClusterPropagationPolicy OverridePolicy \
     ClusterOverridePolicy ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration ClusterTrustBundle \
     LeaseCandidate";

/// Kinds of Kubernetes that serve a status which no controller writes.
const KINDS_WITH_UNWRITTEN_STATUS: [&str; 1] = ["PriorityLevelConfiguration"];

/// The ends of the names of kinds that run once and end.
const RUN_TO_COMPLETION: &str = "Job Run Task Workflow Backup Restore Snapshot Migration Experiment Test Build Import Export \
     Evaluation Request Operation Execution Scan";

/// No listed word is longer.
const MAX_WORD_BYTES: usize = 24;

static WORDS: LazyLock<HashMap<&'static str, Classes>> = LazyLock::new(|| {
    let mut words: HashMap<&'static str, Classes> = HashMap::new();
    let mut add = |word, class| {
        let classes = words.entry(word).or_default();
        *classes = *classes | class;
    };
    for (class, list) in LISTS {
        list.split_ascii_whitespace()
            .for_each(|word| add(word, class));
    }
    for (_, phrase) in PHRASES {
        add(phrase[0], Classes::ENDS_PHRASE);
    }
    words
});

/// The classes of a word, in any case.
pub(super) fn classes(word: &str) -> Classes {
    let listed = listed(word.bytes());
    if word.len() > 5 && ends_with(word, "ing") && !listed.has(Classes::NO_ACTIVITY) {
        return listed | Classes::BUSY | Classes::ACTIVITY;
    }
    listed
}

/// The classes of a name's letters as one word: those of `uptodate` for `UpToDate`.
pub(super) fn whole(name: &str) -> Classes {
    listed(name.bytes().filter(u8::is_ascii_alphabetic))
}

/// Whether a text ends in a suffix of lower-case letters, in any case.
pub(super) fn ends_with(text: &str, suffix: &str) -> bool {
    let (text, suffix) = (text.as_bytes(), suffix.as_bytes());
    text.len() >= suffix.len() && text[text.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

/// Whether the objects of a kind serve a status, but never have one.
pub(super) fn is_status_never_written(kind: &str) -> bool {
    KINDS_WITH_UNWRITTEN_STATUS.contains(&kind)
}

/// Whether the objects of a kind never have a status, as far as its name says.
pub(super) fn has_no_status(kind: &str) -> bool {
    KINDS_WITHOUT_STATUS
        .split_ascii_whitespace()
        .any(|name| name == kind)
}

/// Whether the objects of a kind run once and end, as far as its name says.
pub(super) fn runs_to_completion(kind: &str) -> bool {
    RUN_TO_COMPLETION
        .split_ascii_whitespace()
        .any(|end| kind.ends_with(end))
}

/// Looks a word up without an allocation.
fn listed(letters: impl Iterator<Item = u8>) -> Classes {
    let mut buffer = [0; MAX_WORD_BYTES];
    let mut length = 0;
    for letter in letters {
        let Some(place) = buffer.get_mut(length) else {
            return Classes::default();
        };
        *place = letter.to_ascii_lowercase();
        length += 1;
    }
    let word = str::from_utf8(&buffer[..length]).unwrap_or_default();
    WORDS.get(word).copied().unwrap_or_default()
}
