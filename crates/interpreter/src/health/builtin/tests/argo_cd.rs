use super::check;

#[test]
fn applications_have_assessed_themselves() {
    let cases = r"
        healthy | Healthy | | | {status: {health: {status: Healthy}, sync: {status: OutOfSync}}}
        missing, after an operation that succeeded | Missing | Missing | | {status: {health:
            {status: Missing}, sync: {status: OutOfSync}, operationState: {phase: Succeeded}}}
        unknown, because it cannot be compared | Unknown | ComparisonError | repository
            | {status: {health: {status: Unknown}, conditions: [{type: ComparisonError,
            message: no such repository}]}}
        degraded, with a message | Degraded | SyncError | a pod fails | {status: {health: {status:
            Degraded, message: a pod fails}, conditions: [{type: SyncError, message: other}]}}
        no word yet | Progressing | Syncing | | {status: {sync: {status: Syncing}}}
    ";
    check("argoproj.io/v1alpha1", "Application", cases);
}
