use super::{
    Health::{Degraded, Healthy, Progressing},
    check,
};

const GROUP: &str = "gateway.networking.k8s.io/v1";

#[test]
fn gateway_classes_are_judged() {
    check(
        GROUP,
        "GatewayClass",
        &[
            (
                "accepted",
                "{metadata: {generation: 1}, status: {conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "refused",
                "{status: {conditions: [{type: Accepted, status: 'False', reason: InvalidParameters, message: bad parameters}]}}",
                Degraded,
                "InvalidParameters",
                "bad parameters",
            ),
            (
                "undecided",
                "{status: {conditions: [{type: Accepted, status: Unknown, reason: Waiting}]}}",
                Progressing,
                "Waiting",
                "",
            ),
            (
                "stale",
                "{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'False', observedGeneration: 1}]}}",
                Progressing,
                "WaitingForController",
                "",
            ),
            ("no status", "{}", Progressing, "WaitingForController", ""),
        ],
    );
}

#[test]
fn gateways_are_judged() {
    check(
        GROUP,
        "Gateway",
        &[
            (
                "programmed",
                "{status: {conditions: [{type: Accepted, status: 'True'}, {type: Programmed, status: 'True'}], \
            listeners: [{name: http, conditions: [{type: Programmed, status: 'True'}, {type: Conflicted, status: 'False'}]}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "references",
                "{status: {conditions: [{type: ResolvedRefs, status: 'False', reason: RefNotPermitted, message: no grant}, {type: Programmed, status: 'False'}]}}",
                Degraded,
                "RefNotPermitted",
                "no grant",
            ),
            (
                "refused",
                "{status: {conditions: [{type: Accepted, status: 'False'}]}}",
                Degraded,
                "NotAccepted",
                "Accepted is False",
            ),
            (
                "being programmed",
                "{status: {conditions: [{type: Accepted, status: 'True'}, {type: Programmed, status: 'False', reason: Pending, message: soon}]}}",
                Progressing,
                "Pending",
                "soon",
            ),
            (
                "unknown whether programmed",
                "{status: {conditions: [{type: Programmed, status: Unknown, reason: Invalid}]}}",
                Progressing,
                "Invalid",
                "",
            ),
            (
                "cannot be programmed",
                "{status: {conditions: [{type: Programmed, status: 'False', reason: AddressNotUsable}]}}",
                Degraded,
                "AddressNotUsable",
                "",
            ),
            (
                "no resources",
                "{status: {conditions: [{type: Programmed, status: 'False', reason: NoResources}]}}",
                Degraded,
                "NoResources",
                "",
            ),
            (
                "invalid",
                "{status: {conditions: [{type: Programmed, status: 'False', reason: Invalid}]}}",
                Degraded,
                "Invalid",
                "",
            ),
            (
                "listener waits",
                "{status: {conditions: [{type: Programmed, status: 'True'}], listeners: [{name: http, conditions: [{type: Programmed, status: 'False', reason: Pending}]}]}}",
                Progressing,
                "Pending",
                "listener \"http\": Programmed is False",
            ),
            (
                "worst listener",
                "{status: {conditions: [{type: Programmed, status: 'True'}], listeners: [{name: a, conditions: [{type: Programmed, status: 'False', reason: Pending}]}, \
            {name: b, conditions: [{type: Conflicted, status: 'True', reason: HostnameConflict, message: same host}]}, \
            {name: c, conditions: [{type: Accepted, status: 'False', reason: PortUnavailable}]}]}}",
                Degraded,
                "HostnameConflict",
                "listener \"b\": same host",
            ),
            (
                "stale trouble",
                "{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'False', observedGeneration: 1}]}}",
                Progressing,
                "WaitingForController",
                "",
            ),
            (
                "stale beside fresh",
                "{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'False', observedGeneration: 1}, {type: Programmed, status: 'True', observedGeneration: 2}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "stale, fresh listeners",
                "{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'True', observedGeneration: 1}], \
            listeners: [{conditions: [{type: Programmed, status: 'True', observedGeneration: 2}]}]}}",
                Progressing,
                "WaitingForController",
                "",
            ),
            (
                "only listeners",
                "{status: {listeners: [{conditions: [{type: Programmed, status: 'True'}]}]}}",
                Healthy,
                "",
                "",
            ),
            ("no status", "{}", Progressing, "WaitingForController", ""),
            (
                "odd listeners",
                "{status: {listeners: [1, {conditions: 2}]}}",
                Progressing,
                "WaitingForController",
                "",
            ),
        ],
    );
}

#[test]
fn routes_are_judged() {
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"] {
        check(
            "gateway.networking.k8s.io/v1alpha2",
            kind,
            &[
                (
                    "accepted",
                    "{metadata: {generation: 1}, status: {parents: [{parentRef: {name: gw}, conditions: [\
                {type: Accepted, status: 'True', observedGeneration: 1}, {type: ResolvedRefs, status: 'True', observedGeneration: 1}]}]}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "no backend",
                    "{status: {parents: [{parentRef: {name: gw}, conditions: [{type: Accepted, status: 'True'}, \
                {type: ResolvedRefs, status: 'False', reason: BackendNotFound, message: service web not found}]}]}}",
                    Degraded,
                    "BackendNotFound",
                    "parent \"gw\": service web not found",
                ),
                (
                    "refused",
                    "{status: {parents: [{parentRef: {name: gw}, conditions: [{type: Accepted, status: 'False', reason: NoMatchingParent}]}]}}",
                    Degraded,
                    "NoMatchingParent",
                    "\"gw\"",
                ),
                (
                    "being programmed",
                    "{status: {parents: [{conditions: [{type: Accepted, status: 'True'}, {type: Programmed, status: 'False', reason: Pending}]}]}}",
                    Progressing,
                    "Pending",
                    "",
                ),
                (
                    "old parent was refused",
                    "{metadata: {generation: 2}, status: {parents: [{conditions: [{type: Accepted, status: 'False', observedGeneration: 1}]}, \
                {conditions: [{type: Accepted, status: 'True', observedGeneration: 2}]}]}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "all parents are old",
                    "{metadata: {generation: 2}, status: {parents: [{conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}]}}",
                    Progressing,
                    "WaitingForController",
                    "",
                ),
                (
                    "worst parent",
                    "{status: {parents: [{parentRef: {name: a}, conditions: [{type: Programmed, status: Unknown}]}, \
                {parentRef: {name: b}, conditions: [{type: Accepted, status: 'False', reason: NotAllowedByListeners}]}]}}",
                    Degraded,
                    "NotAllowedByListeners",
                    "\"b\"",
                ),
                (
                    "no parents",
                    "{status: {parents: []}}",
                    Progressing,
                    "WaitingForController",
                    "",
                ),
                (
                    "no conditions",
                    "{status: {parents: [{parentRef: {name: gw}}]}}",
                    Progressing,
                    "WaitingForController",
                    "",
                ),
                ("no status", "{}", Progressing, "WaitingForController", ""),
            ],
        );
    }
}

#[test]
fn policies_are_judged() {
    for (api_version, kind) in [
        (GROUP, "BackendTLSPolicy"),
        ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
    ] {
        check(
            api_version,
            kind,
            &[
                (
                    "accepted",
                    "{metadata: {generation: 1}, status: {ancestors: [{ancestorRef: {name: gw}, conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}]}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "refused",
                    "{status: {ancestors: [{ancestorRef: {name: a}, conditions: [{type: Accepted, status: 'True'}]}, \
                {ancestorRef: {name: b}, conditions: [{type: Accepted, status: 'False', reason: Conflicted, message: older policy wins}]}]}}",
                    Degraded,
                    "Conflicted",
                    "ancestor \"b\": older policy wins",
                ),
                (
                    "undecided",
                    "{status: {ancestors: [{conditions: [{type: Accepted, status: Unknown}]}]}}",
                    Degraded,
                    "Accepted",
                    "",
                ),
                (
                    "references",
                    "{status: {ancestors: [{conditions: [{type: Accepted, status: 'True'}, {type: ResolvedRefs, status: 'False', reason: InvalidCACertificateRef}]}]}}",
                    Degraded,
                    "InvalidCACertificateRef",
                    "",
                ),
                (
                    "one ancestor is old",
                    "{metadata: {generation: 2}, status: {ancestors: [{conditions: [{type: Accepted, status: 'False', observedGeneration: 2}]}, \
                {ancestorRef: {name: b}, conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}]}}",
                    Progressing,
                    "GenerationNotObserved",
                    "\"b\"",
                ),
                (
                    "another controller does not know the target",
                    "{status: {ancestors: [{controllerName: a, conditions: [{type: Accepted, status: 'True'}]}, \
                {controllerName: b, conditions: [{type: Accepted, status: 'False', reason: TargetNotFound}]}]}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "the same controller does not know a target",
                    "{status: {ancestors: [{controllerName: a, conditions: [{type: Accepted, status: 'True'}]}, \
                {controllerName: a, conditions: [{type: Accepted, status: 'False', reason: TargetNotFound}]}]}}",
                    Degraded,
                    "TargetNotFound",
                    "",
                ),
                (
                    "no controller knows the target",
                    "{status: {ancestors: [{controllerName: b, conditions: [{type: Accepted, status: 'False', reason: TargetNotFound}]}]}}",
                    Degraded,
                    "TargetNotFound",
                    "",
                ),
                (
                    "no conditions",
                    "{status: {ancestors: [{}]}}",
                    Progressing,
                    "WaitingForController",
                    "",
                ),
                (
                    "no ancestors",
                    "{status: {ancestors: []}}",
                    Progressing,
                    "WaitingForController",
                    "",
                ),
            ],
        );
    }
}
