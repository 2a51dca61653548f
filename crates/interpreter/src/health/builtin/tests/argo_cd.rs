use super::{
    Health::{Degraded, Healthy, Missing, Progressing, Unknown},
    check,
};

#[test]
fn applications_have_assessed_themselves() {
    check(
        "argoproj.io/v1alpha1",
        "Application",
        &[
            (
                "healthy",
                "{status: {health: {status: Healthy}, sync: {status: OutOfSync}}}",
                Healthy,
                "",
                "",
            ),
            (
                "missing, after an operation that succeeded",
                "{status: {health: {status: Missing}, sync: {status: OutOfSync}, operationState: {phase: Succeeded}}}",
                Missing,
                "Missing",
                "",
            ),
            (
                "unknown, because it cannot be compared",
                "{status: {health: {status: Unknown}, conditions: [{type: ComparisonError, message: no such repository}]}}",
                Unknown,
                "ComparisonError",
                "repository",
            ),
            (
                "degraded, with a message",
                "{status: {health: {status: Degraded, message: a pod fails}, conditions: [{type: SyncError, message: other}]}}",
                Degraded,
                "SyncError",
                "a pod fails",
            ),
            (
                "no word yet",
                "{status: {sync: {status: Syncing}}}",
                Progressing,
                "Syncing",
                "",
            ),
        ],
    );
}
