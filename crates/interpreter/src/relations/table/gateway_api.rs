//! The edges of Gateway API. Source: <https://gateway-api.sigs.k8s.io/reference/spec/>.

use super::edge::{Edge, KindEdges};

const GATEWAY: &str = "gateway.networking.k8s.io";

/// The edges, in the order of the references.
pub(super) const RULES: &[KindEdges] = &[
    KindEdges {
        group: GATEWAY,
        kinds: &["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"],
        edges: &[
            Edge::path("spec.parentRefs[]", "attachesTo", GATEWAY, "Gateway"),
            Edge::path("spec.rules[].backendRefs[]", "routesTo", "", "Service"),
            Edge::path(
                "spec.rules[].filters[].requestMirror.backendRef",
                "mirrorsTo",
                "",
                "Service",
            ),
            Edge::path(
                "spec.rules[].backendRefs[].filters[].requestMirror.backendRef",
                "mirrorsTo",
                "",
                "Service",
            ),
            Edge::path(
                "spec.rules[].filters[].externalAuth.backendRef",
                "calls",
                "",
                "Service",
            ),
            Edge::path("spec.rules[].filters[].extensionRef", "uses", "", ""),
            Edge::path(
                "spec.rules[].backendRefs[].filters[].extensionRef",
                "uses",
                "",
                "",
            ),
        ],
    },
    KindEdges {
        group: GATEWAY,
        kinds: &["Gateway"],
        edges: &[
            Edge::path("spec.gatewayClassName", "hasClass", GATEWAY, "GatewayClass"),
            Edge::path(
                "spec.listeners[].tls.certificateRefs[]",
                "uses",
                "",
                "Secret",
            ),
            Edge::path(
                "spec.listeners[].tls.frontendValidation.caCertificateRefs[]",
                "uses",
                "",
                "ConfigMap",
            ),
            Edge::path(
                "spec.tls.frontend.default.validation.caCertificateRefs[]",
                "uses",
                "",
                "ConfigMap",
            ),
            Edge::path(
                "spec.tls.backend.clientCertificateRef",
                "uses",
                "",
                "Secret",
            ),
            Edge::path("spec.backendTLS.clientCertificateRef", "uses", "", "Secret"),
            Edge::path("spec.infrastructure.parametersRef", "uses", "", ""),
        ],
    },
    KindEdges {
        group: "*",
        kinds: &["ListenerSet", "XListenerSet"],
        edges: &[
            Edge::path("spec.parentRef", "attachesTo", GATEWAY, "Gateway"),
            Edge::path(
                "spec.listeners[].tls.certificateRefs[]",
                "uses",
                "",
                "Secret",
            ),
        ],
    },
    KindEdges {
        group: GATEWAY,
        kinds: &["GatewayClass"],
        edges: &[Edge::path("spec.parametersRef", "uses", "", "")],
    },
    KindEdges {
        group: GATEWAY,
        kinds: &["BackendTLSPolicy"],
        edges: &[Edge::path(
            "spec.validation.caCertificateRefs[]",
            "uses",
            "",
            "ConfigMap",
        )],
    },
];
