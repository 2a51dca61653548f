//! The condition `Accepted` of an interpreter configuration.

use fleetdex_crds::{
    condition::{Finding, find, merge},
    interpreter::status::ACCEPTED,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::RuleProblem;

/// The most problems that a message lists.
const MAX_LISTED: usize = 16;
/// The longest description of one problem, in bytes: text of an object is part of it.
const MAX_PROBLEM_BYTES: usize = 1024;

/// Whether every part of an object is in use.
pub fn accepted(problems: &[RuleProblem]) -> Finding {
    match problems.iter().map(|problem| problem.reason).min() {
        None => Finding::holds(ACCEPTED, "InUse", "every part is in use"),
        Some(reason) => Finding::fails(ACCEPTED, reason.as_str(), message(problems)),
    }
}

/// The condition to write; `None` if `current` has it.
pub fn due(
    current: &[Condition],
    problems: &[RuleProblem],
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Condition> {
    let findings = vec![accepted(problems)];
    let condition = merge(current, findings, generation, now).pop()?;
    (find(current, ACCEPTED) != Some(&condition)).then_some(condition)
}

/// Names each part that is not in use, and what to do.
fn message(problems: &[RuleProblem]) -> String {
    let listed = problems.iter().take(MAX_LISTED).map(|problem| {
        let text = problem.field.to_string();
        text[..text.floor_char_boundary(MAX_PROBLEM_BYTES)].to_owned()
    });
    let more = problems.len().saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| format!("and {more} more"));
    listed.chain(more).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use fleetdex_interpreter::field_problem::FieldProblem;

    use super::*;
    use crate::interpreter_rules::ProblemReason;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn problem(reason: ProblemReason, message: &str) -> RuleProblem {
        RuleProblem {
            reason,
            field: FieldProblem::new("spec.target.kind", message),
        }
    }

    #[test]
    fn an_object_without_problems_is_accepted() {
        let condition = due(&[], &[], Some(3), at(5)).unwrap();
        assert_eq!(
            (
                condition.type_.as_str(),
                condition.status.as_str(),
                condition.reason.as_str(),
                condition.observed_generation
            ),
            ("Accepted", "True", "InUse", Some(3))
        );
    }

    #[test]
    fn the_reason_is_the_first_of_those_of_all_problems() {
        let problems = [
            problem(ProblemReason::DefinedElsewhere, "is not used"),
            problem(ProblemReason::InvalidScript, "line 3: unexpected symbol"),
        ];
        let finding = accepted(&problems);
        assert_eq!(finding.reason, "InvalidScript");
        assert_eq!(
            finding.message,
            "spec.target.kind: is not used\nspec.target.kind: line 3: unexpected symbol"
        );
    }

    #[test]
    fn a_condition_is_due_when_it_differs() {
        let first = due(&[], &[], Some(1), at(5)).unwrap();
        let current = [first.clone()];
        assert_eq!(due(&current, &[], Some(1), at(9)), None);
        let next = due(&current, &[], Some(2), at(9)).unwrap();
        assert_eq!(next.observed_generation, Some(2));
        assert_eq!(next.last_transition_time, first.last_transition_time);
        let problems = [problem(ProblemReason::InvalidField, "wildcard")];
        let refused = due(&current, &problems, Some(1), at(9)).unwrap();
        assert_eq!(refused.status, "False");
        assert_ne!(refused.last_transition_time, first.last_transition_time);
    }

    #[test]
    fn a_message_is_bounded() {
        let long = "é".repeat(MAX_PROBLEM_BYTES);
        let problems = vec![problem(ProblemReason::InvalidField, &long); 100];
        let message = accepted(&problems).message;
        assert!(message.ends_with("\nand 84 more"), "{message}");
        assert!(message.len() < (MAX_LISTED + 1) * (MAX_PROBLEM_BYTES + 1));
    }
}
