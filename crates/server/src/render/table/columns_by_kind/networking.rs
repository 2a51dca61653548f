//! API groups `networking.k8s.io` and `discovery.k8s.io`.

use super::core_group::load_balancer;
use crate::render::table::{
    column::{Cell, KindColumns, NONE, RowContext, age, computed, name, shown, text, text_or},
    json_node::JsonNode,
    text::{first_three, joined, name_of_class, selector_or_none},
};

/// Hosts of an Ingress that are shown.
const MAX_SHOWN_HOSTS: usize = 3;

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new("networking.k8s.io", "Ingress").with(&[
        name(),
        text_or("Class", "spec.ingressClassName", NONE),
        computed("Hosts", &["spec.rules.host"], hosts),
        shown("Address", "status.loadBalancer.ingress", |node| {
            load_balancer(node).into()
        }),
        shown("Ports", "spec.tls", |node| {
            let has_tls = !node.items().is_empty();
            if has_tls { "80, 443" } else { "80" }.into()
        }),
        age(),
    ]),
    KindColumns::new("networking.k8s.io", "IngressClass").with(&[
        computed("Name", &["metadata.name", "metadata.annotations"], |view| {
            name_of_class(view, &["ingressclass.kubernetes.io/is-default-class"])
        })
        .with_name_format(),
        text("Controller", "spec.controller"),
        shown("Parameters", "spec.parameters", parameters),
        age(),
    ]),
    KindColumns::new("networking.k8s.io", "NetworkPolicy").with(&[
        name(),
        shown("Pod-Selector", "spec.podSelector", selector_or_none),
        age(),
    ]),
    KindColumns::new("networking.k8s.io", "ServiceCIDR").with(&[
        name(),
        shown("CIDRs", "spec.cidrs", |node| {
            joined(node.items(), ",").into()
        }),
        age(),
    ]),
    KindColumns::new("networking.k8s.io", "IPAddress")
        .with(&[name(), shown("ParentRef", "spec.parentRef", parent)]),
    KindColumns::new("discovery.k8s.io", "EndpointSlice").with(&[
        name(),
        text("AddressType", "addressType"),
        computed("Ports", &["ports.port", "ports.name"], |view| {
            first_three(view.at("ports").items().iter().map(port))
        }),
        computed("Endpoints", &["endpoints.addresses"], |view| {
            let endpoints = view.at("endpoints").items().iter();
            let addresses = endpoints.flat_map(|endpoint| endpoint.member("addresses").items());
            first_three(addresses.map(|address| address.text().to_owned()))
        }),
        age(),
    ]),
];

/// The first hosts. `+ N more` counts rules, also those without a host.
fn hosts(view: &RowContext<'_>) -> Cell {
    let rules = view.at("spec.rules").items();
    let hosts = rules
        .iter()
        .take(MAX_SHOWN_HOSTS)
        .map(|rule| rule.member("host").text())
        .filter(|host| !host.is_empty());
    let shown = hosts.collect::<Vec<_>>().join(",");
    match rules.len().saturating_sub(MAX_SHOWN_HOSTS) {
        _ if shown.is_empty() && rules.len() <= MAX_SHOWN_HOSTS => "*".into(),
        0 => shown.into(),
        more => format!("{shown} + {more} more...").into(),
    }
}

fn parameters(parameters: &JsonNode<'_>) -> Cell {
    if !parameters.is_given() {
        return NONE.into();
    }
    let part = |name: &str| parameters.member(name).text();
    let has_group = parameters.member("apiGroup").is_given();
    let dot = if has_group { "." } else { "" };
    format!("{}{dot}{}/{}", part("kind"), part("apiGroup"), part("name")).into()
}

fn parent(parent: &JsonNode<'_>) -> Cell {
    if !parent.is_given() {
        return NONE.into();
    }
    let part = |mark: &str, name: &str| match parent.member(name).text() {
        "" => String::new(),
        text => format!("{mark}{text}"),
    };
    let resource = format!("{}{}", part("", "resource"), part(".", "group")).to_lowercase();
    let name = parent.member("name").text();
    format!("{resource}{}/{name}", part("/", "namespace")).into()
}

fn port(port: &JsonNode<'_>) -> String {
    match (port.member("port"), port.member("name")) {
        (JsonNode::Integer(number), _) => number.to_string(),
        (_, JsonNode::Text(name)) => name.clone().into_owned(),
        _ => "*".to_owned(),
    }
}
