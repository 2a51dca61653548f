//! The core group, workloads and volumes aside.

use crate::render::table::{
    column::{
        Cell, Column, KindColumns, NONE, RowContext, UNKNOWN, age, computed, count, length, name,
        shown, text,
    },
    json_node::JsonNode,
    text::{first_of, joined, labels, or, sorted},
};

/// What the labels begin with that name the roles of a node.
const NODE_ROLE_LABEL: &str = "node-role.kubernetes.io/";

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new("", "Namespace").with(&[name(), text("Status", "status.phase"), age()]),
    KindColumns::new("", "ConfigMap").with(&[
        name(),
        computed("Data", &["data", "binaryData"], |view| {
            Cell::Integer(count(view.at("data")) + count(view.at("binaryData")))
        }),
        age(),
    ]),
    KindColumns::new("", "Secret").with(&[
        name(),
        text("Type", "type"),
        length("Data", "data").with_type("string"),
        age(),
    ]),
    KindColumns::new("", "ServiceAccount").with(&[name(), age()]),
    KindColumns::new("", "Service").with(&[
        name(),
        text("Type", "spec.type"),
        shown("Cluster-IP", "spec.clusterIPs", |node| {
            node.items().first().map_or(NONE, JsonNode::text).into()
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
        shown("Port(s)", "spec.ports", ports),
        age(),
        shown("Selector", "spec.selector", labels).wide(),
    ]),
    KindColumns::new("", "Endpoints").with(&[
        name(),
        shown("Endpoints", "subsets", endpoints),
        age(),
    ]),
    KindColumns::new("", "Node").with(NODE),
    KindColumns::new("", "ResourceQuota").with(&[
        name(),
        computed("Request", &["status.hard", "status.used"], |view| {
            quota(view, false)
        }),
        computed("Limit", &["status.hard", "status.used"], |view| {
            quota(view, true)
        }),
        age(),
    ]),
    KindColumns::new("", "ComponentStatus").with(&[
        name(),
        shown("Status", "conditions", |node| match node.holds("Healthy") {
            Some(true) => "Healthy".into(),
            Some(false) => "Unhealthy".into(),
            None => "Unknown".into(),
        }),
        shown("Message", "conditions", |node| healthy(node, "message")),
        shown("Error", "conditions", |node| healthy(node, "error")),
    ]),
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
            let status = match view.at("status.conditions").holds("Ready") {
                Some(true) => "Ready",
                Some(false) => "NotReady",
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
    shown("Roles", "metadata.labels", roles),
    age(),
    text("Version", "status.nodeInfo.kubeletVersion"),
    shown("Internal-IP", "status.addresses", |node| {
        address(node, "InternalIP")
    })
    .wide(),
    shown("External-IP", "status.addresses", |node| {
        address(node, "ExternalIP")
    })
    .wide(),
    shown("OS-Image", "status.nodeInfo.osImage", |node| {
        or(node.text(), UNKNOWN).into()
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
    shown(
        "Container-Runtime",
        "status.nodeInfo.containerRuntimeVersion",
        |node| or(node.text(), UNKNOWN).into(),
    )
    .wide(),
];

fn roles(labels: &JsonNode<'_>) -> Cell {
    let of_label = |(key, value): (&str, &JsonNode<'_>)| match key.strip_prefix(NODE_ROLE_LABEL) {
        Some(role) => role.to_owned(),
        None if key == "kubernetes.io/role" => value.text().to_owned(),
        None => String::new(),
    };
    or(&sorted(labels.entries().map(of_label).collect()), NONE).into()
}

fn address(addresses: &JsonNode<'_>, kind: &str) -> Cell {
    let found = addresses.of_type(kind);
    found
        .map_or(NONE, |found| found.member("address").text())
        .into()
}

/// The addresses of a load balancer, sorted.
pub fn load_balancer(ingress: &JsonNode<'_>) -> String {
    let address = |entry: &JsonNode<'_>| {
        or(entry.member("ip").text(), entry.member("hostname").text()).to_owned()
    };
    sorted(ingress.items().iter().map(address).collect())
}

fn external_addresses(view: &RowContext<'_>) -> Cell {
    let given = joined(view.at("spec.externalIPs").items(), ",");
    match view.at("spec.type").text() {
        "ClusterIP" | "NodePort" => or(&given, NONE).into(),
        "LoadBalancer" => {
            let mut both = vec![load_balancer(view.at("status.loadBalancer.ingress")), given];
            both.retain(|part| !part.is_empty());
            or(&both.join(","), "<pending>").into()
        }
        "ExternalName" => view.at("spec.externalName").text().into(),
        _ => UNKNOWN.into(),
    }
}

fn ports(ports: &JsonNode<'_>) -> Cell {
    let shown = |port: &JsonNode<'_>| {
        let number = port.member("port").integer();
        let protocol = port.member("protocol").text();
        match port.member("nodePort").integer() {
            node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = ports.items().iter().map(shown).collect();
    or(&ports.join(","), NONE).into()
}

fn endpoints(subsets: &JsonNode<'_>) -> Cell {
    let subsets = subsets.items();

    if subsets.is_empty() {
        return NONE.into();
    }
    let mut shown = Vec::new();
    for subset in subsets {
        let addresses = || {
            let addresses = subset.member("addresses").items().iter();
            addresses.map(|address| address.member("ip").text())
        };
        let ports = subset.member("ports").items();
        if ports.is_empty() {
            shown.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let number = port.member("port").integer();
            shown.extend(addresses().map(|address| host_and_port(address, number)));
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
        let used = used.member(name).shown();
        format!("{name}: {}/{}", or(&used, "0"), amount.shown())
    });
    shown.collect::<Vec<_>>().join(", ").into()
}

fn healthy(conditions: &JsonNode<'_>, member: &str) -> Cell {
    let found = conditions.of_type("Healthy").unwrap_or(&JsonNode::Null);
    found.member(member).text().into()
}
