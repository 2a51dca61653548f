use super::check;

const GROUP: &str = "gateway.networking.k8s.io/v1";

#[test]
fn gateway_classes_are_judged() {
    let cases = r"
        accepted | Healthy | | | {metadata: {generation: 1}, status: {conditions: [{type: Accepted,
            status: 'True', observedGeneration: 1}]}}
        refused | Degraded | InvalidParameters | bad parameters | {status: {conditions: [{type:
            Accepted, status: 'False', reason: InvalidParameters, message: bad parameters}]}}
        undecided | Progressing | Waiting |
            | {status: {conditions: [{type: Accepted, status: Unknown, reason: Waiting}]}}
        stale | Progressing | WaitingForController | | {metadata: {generation: 2},
            status: {conditions: [{type: Accepted, status: 'False', observedGeneration: 1}]}}
        no status | Progressing | WaitingForController | | {}
    ";
    check(GROUP, "GatewayClass", cases);
}

#[test]
fn gateways_are_judged() {
    let cases = r#"
        programmed | Healthy | | | {status: {conditions: [{type: Accepted, status: 'True'},
            {type: Programmed, status: 'True'}], listeners: [{name: http, conditions: [{type:
            Programmed, status: 'True'}, {type: Conflicted, status: 'False'}]}]}}
        references | Degraded | RefNotPermitted | no grant | {status: {conditions: [{type:
            ResolvedRefs, status: 'False', reason: RefNotPermitted, message: no grant},
            {type: Programmed, status: 'False'}]}}
        refused | Degraded | NotAccepted | Accepted is False
            | {status: {conditions: [{type: Accepted, status: 'False'}]}}
        being programmed | Progressing | Pending | soon | {status: {conditions: [{type: Accepted,
            status: 'True'}, {type: Programmed, status: 'False', reason: Pending, message: soon}]}}
        unknown whether programmed | Progressing | Invalid |
            | {status: {conditions: [{type: Programmed, status: Unknown, reason: Invalid}]}}
        cannot be programmed | Degraded | AddressNotUsable | | {status: {conditions: [{type:
            Programmed, status: 'False', reason: AddressNotUsable}]}}
        no resources | Degraded | NoResources |
            | {status: {conditions: [{type: Programmed, status: 'False', reason: NoResources}]}}
        invalid | Degraded | Invalid |
            | {status: {conditions: [{type: Programmed, status: 'False', reason: Invalid}]}}
        listener waits | Progressing | Pending | listener "http": Programmed is False
            | {status: {conditions: [{type: Programmed, status: 'True'}], listeners: [{name: http,
            conditions: [{type: Programmed, status: 'False', reason: Pending}]}]}}
        worst listener | Degraded | HostnameConflict | listener "b": same host
            | {status: {conditions: [{type: Programmed, status: 'True'}], listeners: [{name: a,
            conditions: [{type: Programmed, status: 'False', reason: Pending}]},
            {name: b, conditions: [{type: Conflicted, status: 'True', reason: HostnameConflict,
            message: same host}]}, {name: c, conditions: [{type: Accepted, status: 'False',
            reason: PortUnavailable}]}]}}
        stale trouble | Progressing | WaitingForController | | {metadata: {generation: 2},
            status: {conditions: [{type: Accepted, status: 'False', observedGeneration: 1}]}}
        stale beside fresh | Healthy | | | {metadata: {generation: 2}, status: {conditions: [{type:
            Accepted, status: 'False', observedGeneration: 1}, {type: Programmed,
            status: 'True', observedGeneration: 2}]}}
        stale, fresh listeners | Progressing | WaitingForController | | {metadata: {generation: 2},
            status: {conditions: [{type: Accepted, status: 'True', observedGeneration: 1}],
            listeners: [{conditions: [{type: Programmed, status: 'True', observedGeneration: 2}]}]}}
        only listeners | Healthy | |
            | {status: {listeners: [{conditions: [{type: Programmed, status: 'True'}]}]}}
        no status | Progressing | WaitingForController | | {}
        odd listeners | Progressing | WaitingForController |
            | {status: {listeners: [1, {conditions: 2}]}}
    "#;
    check(GROUP, "Gateway", cases);
}

#[test]
fn routes_are_judged() {
    for kind in ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"] {
        let cases = r#"
            accepted | Healthy | | | {metadata: {generation: 1}, status: {parents: [{parentRef:
                {name: gw}, conditions: [{type: Accepted, status: 'True', observedGeneration: 1},
                {type: ResolvedRefs, status: 'True', observedGeneration: 1}]}]}}
            no backend | Degraded | BackendNotFound | parent "gw": service web not found
                | {status: {parents: [{parentRef: {name: gw}, conditions: [{type: Accepted,
                status: 'True'}, {type: ResolvedRefs, status: 'False', reason: BackendNotFound,
                message: service web not found}]}]}}
            refused | Degraded | NoMatchingParent | "gw" | {status: {parents: [{parentRef: {name:
                gw}, conditions: [{type: Accepted, status: 'False', reason: NoMatchingParent}]}]}}
            being programmed | Progressing | Pending | | {status: {parents: [{conditions: [{type:
                Accepted, status: 'True'}, {type: Programmed, status: 'False', reason: Pending}]}]}}
            old parent was refused | Healthy | | | {metadata: {generation: 2},
                status: {parents: [{conditions: [{type: Accepted, status: 'False',
                observedGeneration: 1}]}, {conditions: [{type: Accepted, status: 'True',
                observedGeneration: 2}]}]}}
            all parents are old | Progressing | WaitingForController | | {metadata: {generation: 2},
                status: {parents: [{conditions: [{type: Accepted, status: 'True',
                observedGeneration: 1}]}]}}
            worst parent | Degraded | NotAllowedByListeners | "b" | {status: {parents: [{parentRef:
                {name: a}, conditions: [{type: Programmed, status: Unknown}]},
                {parentRef: {name: b}, conditions: [{type: Accepted, status: 'False',
                reason: NotAllowedByListeners}]}]}}
            no parents | Progressing | WaitingForController | | {status: {parents: []}}
            no conditions | Progressing | WaitingForController |
                | {status: {parents: [{parentRef: {name: gw}}]}}
            no status | Progressing | WaitingForController | | {}
        "#;
        check("gateway.networking.k8s.io/v1alpha2", kind, cases);
    }
}

#[test]
fn policies_are_judged() {
    for (api_version, kind) in [
        (GROUP, "BackendTLSPolicy"),
        ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
    ] {
        let cases = r#"
            accepted | Healthy | | | {metadata: {generation: 1}, status: {ancestors: [{ancestorRef:
                {name: gw}, conditions: [{type: Accepted, status: 'True', observedGeneration:
                1}]}]}}
            refused | Degraded | Conflicted | ancestor "b": older policy wins
                | {status: {ancestors: [{ancestorRef: {name: a}, conditions: [{type: Accepted,
                status: 'True'}]}, {ancestorRef: {name: b}, conditions: [{type: Accepted,
                status: 'False', reason: Conflicted, message: older policy wins}]}]}}
            undecided | Degraded | Accepted |
                | {status: {ancestors: [{conditions: [{type: Accepted, status: Unknown}]}]}}
            references | Degraded | InvalidCACertificateRef | | {status: {ancestors: [{conditions:
                [{type: Accepted, status: 'True'}, {type: ResolvedRefs, status: 'False',
                reason: InvalidCACertificateRef}]}]}}
            one ancestor is old | Progressing | GenerationNotObserved | "b"
                | {metadata: {generation: 2}, status: {ancestors: [{conditions: [{type: Accepted,
                status: 'False', observedGeneration: 2}]}, {ancestorRef: {name: b},
                conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}]}}
            another controller does not know the target | Healthy | | | {status: {ancestors:
                [{controllerName: a, conditions: [{type: Accepted, status: 'True'}]},
                {controllerName: b, conditions: [{type: Accepted, status: 'False',
                reason: TargetNotFound}]}]}}
            the same controller does not know a target | Degraded | TargetNotFound |
                | {status: {ancestors: [{controllerName: a, conditions: [{type: Accepted,
                status: 'True'}]}, {controllerName: a, conditions: [{type: Accepted,
                status: 'False', reason: TargetNotFound}]}]}}
            no controller knows the target | Degraded | TargetNotFound | | {status: {ancestors:
                [{controllerName: b, conditions: [{type: Accepted, status: 'False',
                reason: TargetNotFound}]}]}}
            no conditions | Progressing | WaitingForController | | {status: {ancestors: [{}]}}
            no ancestors | Progressing | WaitingForController | | {status: {ancestors: []}}
        "#;
        check(api_version, kind, cases);
    }
}
