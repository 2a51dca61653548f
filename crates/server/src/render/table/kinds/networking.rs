//! API groups `networking.k8s.io` and `discovery.k8s.io`.

use super::core_group::load_balancer;
use crate::render::table::{
    column::{Cell, NONE, RowContext, age, computed, name, text, text_or},
    json_node::JsonNode,
    kind_columns::KindColumns,
    text::{first_three, joined, selector_or_none},
};

/// Hosts of an Ingress that are shown.
const MAX_SHOWN_HOSTS: usize = 3;

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(
        "networking.k8s.io",
        "Ingress",
        &[
            name(),
            text_or("Class", "spec.ingressClassName", NONE),
            computed("Hosts", &["spec.rules.host"], hosts),
            computed("Address", &["status.loadBalancer.ingress"], |view| {
                load_balancer(view.at("status.loadBalancer.ingress")).into()
            }),
            computed("Ports", &["spec.tls"], |view| {
                if view.at("spec.tls").items().is_empty() {
                    "80"
                } else {
                    "80, 443"
                }
                .into()
            }),
            age(),
        ],
    ),
    KindColumns::new(
        "networking.k8s.io",
        "IngressClass",
        &[
            computed("Name", &["metadata.name", "metadata.annotations"], |view| {
                let is_default =
                    view.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
                format!(
                    "{}{}",
                    view.at("metadata.name").text(),
                    if is_default { " (default)" } else { "" }
                )
                .into()
            })
            .with_name_format(),
            text("Controller", "spec.controller"),
            computed("Parameters", &["spec.parameters"], parameters),
            age(),
        ],
    ),
    KindColumns::new(
        "networking.k8s.io",
        "NetworkPolicy",
        &[
            name(),
            computed("Pod-Selector", &["spec.podSelector"], |view| {
                selector_or_none(view.at("spec.podSelector"))
            }),
            age(),
        ],
    ),
    KindColumns::new(
        "networking.k8s.io",
        "ServiceCIDR",
        &[
            name(),
            computed("CIDRs", &["spec.cidrs"], |view| {
                joined(view.at("spec.cidrs").items(), ",").into()
            }),
            age(),
        ],
    ),
    KindColumns::new(
        "networking.k8s.io",
        "IPAddress",
        &[name(), computed("ParentRef", &["spec.parentRef"], parent)],
    ),
    KindColumns::new(
        "discovery.k8s.io",
        "EndpointSlice",
        &[
            name(),
            text("AddressType", "addressType"),
            computed("Ports", &["ports.port", "ports.name"], |view| {
                first_three(
                    &view
                        .at("ports")
                        .items()
                        .iter()
                        .map(port)
                        .collect::<Vec<_>>(),
                )
                .into()
            }),
            computed("Endpoints", &["endpoints.addresses"], |view| {
                let addresses = view
                    .at("endpoints")
                    .items()
                    .iter()
                    .flat_map(|endpoint| endpoint.member("addresses").items());
                first_three(
                    &addresses
                        .map(|address| address.text().to_owned())
                        .collect::<Vec<_>>(),
                )
                .into()
            }),
            age(),
        ],
    ),
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

fn parameters(view: &RowContext<'_>) -> Cell {
    let parameters = view.at("spec.parameters");
    if !parameters.is_given() {
        return NONE.into();
    }
    let group = parameters.member("apiGroup");
    let group = if group.is_given() {
        format!(".{}", group.text())
    } else {
        String::new()
    };
    format!(
        "{}{group}/{}",
        parameters.member("kind").text(),
        parameters.member("name").text()
    )
    .into()
}

fn parent(view: &RowContext<'_>) -> Cell {
    let parent = view.at("spec.parentRef");
    if !parent.is_given() {
        return NONE.into();
    }
    let part = |name: &str| parent.member(name).text();
    let group = if part("group").is_empty() {
        String::new()
    } else {
        format!(".{}", part("group"))
    };
    let namespace = if part("namespace").is_empty() {
        String::new()
    } else {
        format!("/{}", part("namespace"))
    };
    format!(
        "{}{namespace}/{}",
        format!("{}{group}", part("resource")).to_lowercase(),
        part("name")
    )
    .into()
}

fn port(port: &JsonNode<'_>) -> String {
    match (port.member("port"), port.member("name")) {
        (JsonNode::Integer(number), _) => number.to_string(),
        (_, JsonNode::Text(name)) => name.clone().into_owned(),
        _ => "*".to_owned(),
    }
}
