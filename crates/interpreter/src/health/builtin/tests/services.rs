use super::{
    Health::{Degraded, Healthy, Progressing},
    check,
};

#[test]
fn services_are_judged() {
    check(
        "v1",
        "Service",
        &[
            (
                "cluster address",
                "{spec: {type: ClusterIP}}",
                Healthy,
                "",
                "",
            ),
            ("type unset", "{}", Healthy, "", ""),
            (
                "address",
                "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}}",
                Healthy,
                "",
                "",
            ),
            (
                "host name",
                "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}, {hostname: a.example.org}]}}}",
                Healthy,
                "",
                "",
            ),
            (
                "no status",
                "{spec: {type: LoadBalancer}}",
                Progressing,
                "LoadBalancerPending",
                "",
            ),
            (
                "no entry",
                "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: []}}}",
                Progressing,
                "LoadBalancerPending",
                "",
            ),
            (
                "entry without an address",
                "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ipMode: VIP, ip: ''}]}}}",
                Progressing,
                "LoadBalancerPending",
                "",
            ),
            (
                "port error",
                "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 10.0.0.1, ports: [{port: 80}, {port: 443, error: MixedProtocolNotSupported}]}]}}}",
                Degraded,
                "MixedProtocolNotSupported",
                "port 443",
            ),
        ],
    );
}

#[test]
fn ingresses_are_judged() {
    for api_version in ["networking.k8s.io/v1", "extensions/v1beta1"] {
        check(
            api_version,
            "Ingress",
            &[
                (
                    "address",
                    "{status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "host name",
                    "{status: {loadBalancer: {ingress: [{hostname: a.example.org}]}}}",
                    Healthy,
                    "",
                    "",
                ),
                (
                    "empty entry",
                    "{status: {loadBalancer: {ingress: [{}]}}}",
                    Progressing,
                    "NoAddress",
                    "no address published",
                ),
                ("no status", "{}", Progressing, "NoAddress", ""),
                (
                    "odd address",
                    "{status: {loadBalancer: {ingress: [{ip: 7}, 8]}}}",
                    Progressing,
                    "NoAddress",
                    "",
                ),
            ],
        );
    }
}
