use super::check;

#[test]
fn namespaces_are_judged() {
    let cases = r"
        active | Healthy | | | {status: {phase: Active}}
        terminating | Progressing | Deleting | pending deletion | {status: {phase: Terminating}}
        content remains | Progressing | Deleting | pods. has 1 resource instances x.io/y in 1
            | {metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Terminating,
            conditions: [{type: NamespaceDeletionContentFailure, status: 'False'},
            {type: NamespaceContentRemaining, status: 'True', message: pods. has 1 resource
            instances}, {type: NamespaceFinalizersRemaining, status: 'True',
            message: x.io/y in 1 resource instances}]}}
        stuck | Degraded | DiscoveryFailed | stale | {metadata: {deletionTimestamp:
            '2026-01-01T00:00:00Z'}, status: {phase: Terminating, conditions: [{type:
            NamespaceDeletionDiscoveryFailure, status: 'True', reason: DiscoveryFailed,
            message: metrics.k8s.io/v1beta1 is stale}]}}
        deleted just now | Progressing | Deleting |
            | {metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Active}}
        no status | Progressing | NoStatus | | {}
        unheard-of phase | Unknown | UnknownPhase | | {status: {phase: Dreaming}}
    ";
    check("v1", "Namespace", cases);
}

#[test]
fn custom_resource_definitions_are_judged() {
    let cases = r"
        established | Healthy | | | {status: {conditions: [{type: NamesAccepted,
            status: 'True'}, {type: Established, status: 'True'}]}}
        installing | Progressing | Installing | | {status: {conditions: [{type: NamesAccepted,
            status: 'True'}, {type: Established, status: 'False', reason: Installing}]}}
        not established | Degraded | NotAccepted | names | {status: {conditions: [{type:
            Established, status: 'False', reason: NotAccepted, message: not all names are
            accepted}]}}
        nothing about it | Degraded | NotEstablished |
            | {status: {conditions: [{type: NamesAccepted, status: 'True'}]}}
        name conflict | Degraded | PluralConflict | already in use | {status: {conditions: [{type:
            NamesAccepted, status: 'False', reason: PluralConflict, message: already in use},
            {type: Established, status: 'False', reason: Installing}]}}
        schema | Degraded | Violations | must not be empty | {status: {conditions: [{type:
            Established, status: 'True'}, {type: NonStructuralSchema, status: 'True',
            reason: Violations, message: must not be empty}]}}
        terminating | Progressing | InstanceDeletionInProgress | | {status: {conditions: [{type:
            Established, status: 'True'}, {type: Terminating, status: 'True',
            reason: InstanceDeletionInProgress}]}}
        no conditions | Progressing | NoStatus | | {status: {conditions: []}}
        no status | Progressing | NoStatus | | {}
    ";
    check("apiextensions.k8s.io/v1", "CustomResourceDefinition", cases);
}

#[test]
fn api_services_are_judged() {
    let cases = r"
        available | Healthy | | all checks passed | {status: {conditions: [{type: Available,
            status: 'True', reason: Passed, message: all checks passed}]}}
        not available | Degraded | FailedDiscoveryCheck | no response | {status: {conditions:
            [{type: Available, status: 'False', reason: FailedDiscoveryCheck,
            message: no response}]}}
        not known | Progressing | Waiting |
            | {status: {conditions: [{type: Available, status: Unknown, reason: Waiting}]}}
        no status | Progressing | NoStatus | | {}
    ";
    check("apiregistration.k8s.io/v1", "APIService", cases);
}

#[test]
fn certificate_signing_requests_are_judged() {
    let cases = r"
        issued | Healthy | | | {status: {certificate: LS0t, conditions: [{type: Approved,
            status: 'True'}]}}
        denied | Degraded | NotAllowed | unknown user | {status: {conditions: [{type: Denied,
            status: 'True', reason: NotAllowed, message: unknown user}]}}
        failed | Degraded | SignerValidationFailure | | {status: {certificate: LS0t,
            conditions: [{type: Approved, status: 'True'}, {type: Failed, status: 'True',
            reason: SignerValidationFailure}]}}
        approved | Progressing | WaitingForSigner |
            | {status: {conditions: [{type: Approved, status: 'True'}]}}
        new | Progressing | WaitingForApproval | | {status: {}}
        certificate of an odd type | Progressing | WaitingForApproval | | {status: {certificate: 1}}
    ";
    check("certificates.k8s.io/v1", "CertificateSigningRequest", cases);
}
