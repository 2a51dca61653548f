//! The core group, workloads and volumes aside.

use crate::render::table::{
    column::{Cell, Column, NONE, RowContext, UNKNOWN, age, computed, length, name, text},
    json_node::JsonNode,
    kind_columns::KindColumns,
    text::{first_of, joined, labels, or},
};

/// What the labels begin with that name the roles of a node.
const NODE_ROLE_LABEL: &str = "node-role.kubernetes.io/";

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new(
        "",
        "Namespace",
        &[name(), text("Status", "status.phase"), age()],
    ),
    KindColumns::new(
        "",
        "ConfigMap",
        &[
            name(),
            computed("Data", &["data", "binaryData"], |view| {
                Cell::Integer(
                    crate::render::table::column::count(view.at("data"))
                        + crate::render::table::column::count(view.at("binaryData")),
                )
            }),
            age(),
        ],
    ),
    KindColumns::new(
        "",
        "Secret",
        &[
            name(),
            text("Type", "type"),
            length("Data", "data").with_type("string"),
            age(),
        ],
    ),
    KindColumns::new("", "ServiceAccount", &[name(), age()]),
    KindColumns::new(
        "",
        "Service",
        &[
            name(),
            text("Type", "spec.type"),
            computed("Cluster-IP", &["spec.clusterIPs"], |view| {
                view.at("spec.clusterIPs")
                    .items()
                    .first()
                    .map_or(NONE, JsonNode::text)
                    .into()
            }),
            computed(
                "External-IP",
                &[
                    "spec.type",
                    "spec.externalIPs",
                    "spec.externalName",
                    "status.loadBalancer.ingress",
                ],
                external_addresses,
            ),
            computed("Port(s)", &["spec.ports"], ports),
            age(),
            computed("Selector", &["spec.selector"], |view| {
                labels(view.at("spec.selector")).into()
            })
            .wide(),
        ],
    ),
    KindColumns::new(
        "",
        "Endpoints",
        &[
            name(),
            computed("Endpoints", &["subsets"], endpoints),
            age(),
        ],
    ),
    KindColumns::new("", "Node", NODE),
    KindColumns::new(
        "",
        "ResourceQuota",
        &[
            name(),
            computed("Request", &["status.hard", "status.used"], |view| {
                quota(view, false)
            }),
            computed("Limit", &["status.hard", "status.used"], |view| {
                quota(view, true)
            }),
            age(),
        ],
    ),
    KindColumns::new(
        "",
        "ComponentStatus",
        &[
            name(),
            computed("Status", &["conditions"], |view| {
                match view.at("conditions").of_type("Healthy") {
                    Some(condition) if condition.member("status").text() == "True" => {
                        "Healthy".into()
                    }
                    Some(_) => "Unhealthy".into(),
                    None => "Unknown".into(),
                }
            }),
            computed("Message", &["conditions"], |view| healthy(view, "message")),
            computed("Error", &["conditions"], |view| healthy(view, "error")),
        ],
    ),
];

const NODE: &[Column] = &[
    name(),
    computed(
        "Status",
        &[
            "spec.unschedulable",
            "status.conditions.type",
            "status.conditions.status",
        ],
        |view| {
            let status = match view.at("status.conditions").of_type("Ready") {
                Some(condition) if condition.member("status").text() == "True" => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            };
            let cordoned = if view.at("spec.unschedulable").flag() {
                ",SchedulingDisabled"
            } else {
                ""
            };
            format!("{status}{cordoned}").into()
        },
    ),
    computed("Roles", &["metadata.labels"], roles),
    age(),
    text("Version", "status.nodeInfo.kubeletVersion"),
    computed("Internal-IP", &["status.addresses"], |view| {
        address(view, "InternalIP")
    })
    .wide(),
    computed("External-IP", &["status.addresses"], |view| {
        address(view, "ExternalIP")
    })
    .wide(),
    computed("OS-Image", &["status.nodeInfo.osImage"], |view| {
        or(view.at("status.nodeInfo.osImage").text(), UNKNOWN).into()
    })
    .wide(),
    computed(
        "Kernel-Version",
        &[
            "status.nodeInfo.kernelVersion",
            "status.nodeInfo.architecture",
        ],
        |view| {
            let version = or(view.at("status.nodeInfo.kernelVersion").text(), UNKNOWN);
            match view.at("status.nodeInfo.architecture").text() {
                "" => version.into(),
                architecture => format!("{version} ({architecture})").into(),
            }
        },
    )
    .wide(),
    computed(
        "Container-Runtime",
        &["status.nodeInfo.containerRuntimeVersion"],
        |view| {
            or(
                view.at("status.nodeInfo.containerRuntimeVersion").text(),
                UNKNOWN,
            )
            .into()
        },
    )
    .wide(),
];

fn roles(view: &RowContext<'_>) -> Cell {
    let of_label = |(key, value): (&str, &JsonNode<'_>)| match key.strip_prefix(NODE_ROLE_LABEL) {
        Some(role) => role.to_owned(),
        None if key == "kubernetes.io/role" => value.text().to_owned(),
        None => String::new(),
    };
    let mut roles: Vec<String> = view.at("metadata.labels").entries().map(of_label).collect();
    roles.retain(|role| !role.is_empty());
    roles.sort_unstable();
    roles.dedup();
    or(&roles.join(","), NONE).into()
}

fn address(view: &RowContext<'_>, kind: &str) -> Cell {
    view.at("status.addresses")
        .of_type(kind)
        .map_or(NONE, |found| found.member("address").text())
        .into()
}

/// The addresses of a load balancer, sorted.
pub fn load_balancer(ingress: &JsonNode<'_>) -> String {
    let address = |entry: &JsonNode<'_>| {
        or(entry.member("ip").text(), entry.member("hostname").text()).to_owned()
    };
    let mut addresses: Vec<String> = ingress
        .items()
        .iter()
        .map(address)
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

fn external_addresses(view: &RowContext<'_>) -> Cell {
    let given = joined(view.at("spec.externalIPs").items(), ",");
    match view.at("spec.type").text() {
        "ClusterIP" | "NodePort" => or(&given, NONE).into(),
        "LoadBalancer" => {
            let balanced = load_balancer(view.at("status.loadBalancer.ingress"));
            let both = [balanced, given]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(",");
            or(&both, "<pending>").into()
        }
        "ExternalName" => view.at("spec.externalName").text().into(),
        _ => UNKNOWN.into(),
    }
}

fn ports(view: &RowContext<'_>) -> Cell {
    let shown = |port: &JsonNode<'_>| {
        let (number, protocol) = (
            port.member("port").integer(),
            port.member("protocol").text(),
        );
        match port.member("nodePort").integer() {
            node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = view.at("spec.ports").items().iter().map(shown).collect();
    or(&ports.join(","), NONE).into()
}

fn endpoints(view: &RowContext<'_>) -> Cell {
    let subsets = view.at("subsets").items();
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut shown = Vec::new();
    for subset in subsets {
        let addresses = || {
            subset
                .member("addresses")
                .items()
                .iter()
                .map(|address| address.member("ip").text())
        };
        let ports = subset.member("ports").items();
        if ports.is_empty() {
            shown.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            shown.extend(
                addresses().map(|address| host_and_port(address, port.member("port").integer())),
            );
        }
    }
    first_of(&shown, 3, ",").into()
}

fn host_and_port(address: &str, port: i64) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

fn quota(view: &RowContext<'_>, limits: bool) -> Cell {
    let used = view.at("status.used");
    let mut hard: Vec<(&str, &JsonNode<'_>)> = view.at("status.hard").entries().collect();
    hard.retain(|(name, _)| name.starts_with("limits.") == limits);
    hard.sort_unstable_by_key(|(name, _)| *name);
    let shown = hard.into_iter().map(|(name, amount)| {
        format!(
            "{name}: {}/{}",
            or(&used.member(name).shown(), "0"),
            amount.shown()
        )
    });
    shown.collect::<Vec<_>>().join(", ").into()
}

fn healthy(view: &RowContext<'_>, member: &str) -> Cell {
    view.at("conditions")
        .of_type("Healthy")
        .map_or("", |condition| condition.member(member).text())
        .into()
}
