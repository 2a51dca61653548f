use super::{
    Health::{Degraded, Healthy, Progressing, Unknown},
    check,
};

#[test]
fn namespaces_are_judged() {
    check(
        "v1",
        "Namespace",
        &[
            ("active", "{status: {phase: Active}}", Healthy, "", ""),
            (
                "terminating",
                "{status: {phase: Terminating}}",
                Progressing,
                "Deleting",
                "pending deletion",
            ),
            (
                "content remains",
                "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Terminating, conditions: [\
            {type: NamespaceDeletionContentFailure, status: 'False'}, \
            {type: NamespaceContentRemaining, status: 'True', message: pods. has 1 resource instances}, \
            {type: NamespaceFinalizersRemaining, status: 'True', message: x.io/y in 1 resource instances}]}}",
                Progressing,
                "Deleting",
                "pods. has 1 resource instances x.io/y in 1",
            ),
            (
                "stuck",
                "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Terminating, conditions: [\
            {type: NamespaceDeletionDiscoveryFailure, status: 'True', reason: DiscoveryFailed, message: metrics.k8s.io/v1beta1 is stale}]}}",
                Degraded,
                "DiscoveryFailed",
                "stale",
            ),
            (
                "deleted just now",
                "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Active}}",
                Progressing,
                "Deleting",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
            (
                "unheard-of phase",
                "{status: {phase: Dreaming}}",
                Unknown,
                "UnknownPhase",
                "",
            ),
        ],
    );
}

#[test]
fn custom_resource_definitions_are_judged() {
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[
            (
                "established",
                "{status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "installing",
                "{status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'False', reason: Installing}]}}",
                Progressing,
                "Installing",
                "",
            ),
            (
                "not established",
                "{status: {conditions: [{type: Established, status: 'False', reason: NotAccepted, message: not all names are accepted}]}}",
                Degraded,
                "NotAccepted",
                "names",
            ),
            (
                "nothing about it",
                "{status: {conditions: [{type: NamesAccepted, status: 'True'}]}}",
                Degraded,
                "NotEstablished",
                "",
            ),
            (
                "name conflict",
                "{status: {conditions: [{type: NamesAccepted, status: 'False', reason: PluralConflict, message: already in use}, {type: Established, status: 'False', reason: Installing}]}}",
                Degraded,
                "PluralConflict",
                "already in use",
            ),
            (
                "schema",
                "{status: {conditions: [{type: Established, status: 'True'}, {type: NonStructuralSchema, status: 'True', reason: Violations, message: must not be empty}]}}",
                Degraded,
                "Violations",
                "must not be empty",
            ),
            (
                "terminating",
                "{status: {conditions: [{type: Established, status: 'True'}, {type: Terminating, status: 'True', reason: InstanceDeletionInProgress}]}}",
                Progressing,
                "InstanceDeletionInProgress",
                "",
            ),
            (
                "no conditions",
                "{status: {conditions: []}}",
                Progressing,
                "NoStatus",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}

#[test]
fn api_services_are_judged() {
    check(
        "apiregistration.k8s.io/v1",
        "APIService",
        &[
            (
                "available",
                "{status: {conditions: [{type: Available, status: 'True', reason: Passed, message: all checks passed}]}}",
                Healthy,
                "",
                "all checks passed",
            ),
            (
                "not available",
                "{status: {conditions: [{type: Available, status: 'False', reason: FailedDiscoveryCheck, message: no response}]}}",
                Degraded,
                "FailedDiscoveryCheck",
                "no response",
            ),
            (
                "not known",
                "{status: {conditions: [{type: Available, status: Unknown, reason: Waiting}]}}",
                Progressing,
                "Waiting",
                "",
            ),
            ("no status", "{}", Progressing, "NoStatus", ""),
        ],
    );
}

#[test]
fn certificate_signing_requests_are_judged() {
    check(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        &[
            (
                "issued",
                "{status: {certificate: LS0t, conditions: [{type: Approved, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "denied",
                "{status: {conditions: [{type: Denied, status: 'True', reason: NotAllowed, message: unknown user}]}}",
                Degraded,
                "NotAllowed",
                "unknown user",
            ),
            (
                "failed",
                "{status: {certificate: LS0t, conditions: [{type: Approved, status: 'True'}, {type: Failed, status: 'True', reason: SignerValidationFailure}]}}",
                Degraded,
                "SignerValidationFailure",
                "",
            ),
            (
                "approved",
                "{status: {conditions: [{type: Approved, status: 'True'}]}}",
                Progressing,
                "WaitingForSigner",
                "",
            ),
            ("new", "{status: {}}", Progressing, "WaitingForApproval", ""),
            (
                "certificate of an odd type",
                "{status: {certificate: 1}}",
                Progressing,
                "WaitingForApproval",
                "",
            ),
        ],
    );
}
