//! Conditions of a status, as [`metav1.Condition`] defines them.
//!
//! [`metav1.Condition`]: https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Condition

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

/// The longest message that `metav1.Condition` allows, in bytes.
pub const MESSAGE_LIMIT: usize = 32_768;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known yet.
    Unknown,
}

impl Truth {
    /// The value of `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The current value of a condition, without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its type, such as `Ready`.
    pub kind: &'static str,
    /// Whether it holds.
    pub truth: Truth,
    /// One word in CamelCase, for programs.
    pub reason: &'static str,
    /// A message for people, cut at [`MESSAGE_LIMIT`].
    pub message: String,
}

impl Finding {
    /// A condition that holds.
    pub fn holds(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            truth: Truth::True,
            reason,
            message: message.into(),
        }
    }

    /// A condition that does not hold.
    pub fn fails(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            truth: Truth::False,
            reason,
            message: message.into(),
        }
    }

    /// A condition that is not known yet.
    pub fn unknown(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            truth: Truth::Unknown,
            reason,
            message: message.into(),
        }
    }
}

/// The conditions of `findings` at `now`, in their order.
///
/// `lastTransitionTime` stays that of `before` if the status is unchanged. Types without a finding
/// are removed.
pub fn merge(
    before: &[Condition],
    findings: Vec<Finding>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    findings
        .into_iter()
        .map(|finding| condition(before, finding, generation, now))
        .collect()
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn condition(
    before: &[Condition],
    finding: Finding,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let status = finding.truth.as_str();
    let unchanged = find(before, finding.kind).filter(|condition| condition.status == status);
    let since = unchanged.map_or(Time(now), |condition| {
        condition.last_transition_time.clone()
    });
    Condition {
        type_: finding.kind.to_owned(),
        status: status.to_owned(),
        reason: finding.reason.to_owned(),
        message: cut(finding.message),
        observed_generation: generation,
        last_transition_time: since,
    }
}

fn cut(mut message: String) -> String {
    let end = message.floor_char_boundary(MESSAGE_LIMIT);
    message.truncate(end);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let first = merge(
            &[],
            vec![Finding::fails("Ready", "Connecting", "a")],
            Some(1),
            at(10),
        );
        let same = merge(
            &first,
            vec![Finding::fails("Ready", "Refused", "b")],
            Some(2),
            at(20),
        );
        assert_eq!(same[0].last_transition_time, Time(at(10)));
        assert_eq!(
            (
                same[0].reason.as_str(),
                same[0].message.as_str(),
                same[0].observed_generation
            ),
            ("Refused", "b", Some(2))
        );
        let other = merge(
            &same,
            vec![Finding::holds("Ready", "Synced", "")],
            Some(2),
            at(30),
        );
        assert_eq!(other[0].last_transition_time, Time(at(30)));
    }

    #[test]
    fn a_condition_without_a_finding_is_removed() {
        let first = merge(
            &[],
            vec![Finding::holds("Conflict", "OlderRegistry", "")],
            None,
            at(1),
        );
        assert!(
            merge(
                &first,
                vec![Finding::holds("Ready", "Synced", "")],
                None,
                at(2)
            )
            .iter()
            .all(|one| one.type_ == "Ready")
        );
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "é".repeat(MESSAGE_LIMIT);
        let merged = merge(
            &[],
            vec![Finding::unknown("Ready", "Long", format!("x{long}"))],
            None,
            at(1),
        );
        assert_eq!(merged[0].message.len(), MESSAGE_LIMIT - 1);
    }
}
