//! API groups `autoscaling` and `policy`.

use crate::render::table::{
    column::{
        Cell, KindColumns, NONE, RowContext, UNKNOWN, UNSET, age, computed, integer, name, shown,
    },
    json_node::JsonNode,
    text::{first_of, pair},
};

/// Metrics that are shown.
const METRICS: usize = 2;

/// The kinds.
pub const KINDS: &[KindColumns] = &[
    KindColumns::new("autoscaling", "HorizontalPodAutoscaler").with(&[
        name(),
        shown("Reference", "spec.scaleTargetRef", |node| {
            pair(node, "kind", "name")
        }),
        computed(
            "Targets",
            &[
                "spec.metrics",
                "status.currentMetrics",
                "spec.targetCPUUtilizationPercentage",
                "status.currentCPUUtilizationPercentage",
            ],
            targets,
        ),
        shown("MinPods", "spec.minReplicas", |node| or_unset(node, UNSET)),
        integer("MaxPods", "spec.maxReplicas").with_type("string"),
        integer("Replicas", "status.currentReplicas").with_type("string"),
        age(),
    ]),
    KindColumns::new("policy", "PodDisruptionBudget").with(&[
        name(),
        shown("Min Available", "spec.minAvailable", |node| {
            or_unset(node, "N/A")
        }),
        shown("Max Unavailable", "spec.maxUnavailable", |node| {
            or_unset(node, "N/A")
        }),
        integer("Allowed Disruptions", "status.disruptionsAllowed"),
        age(),
    ]),
];

fn or_unset(value: &JsonNode<'_>, default: &str) -> Cell {
    if value.is_given() {
        value.shown().into()
    } else {
        default.into()
    }
}

fn targets(view: &RowContext<'_>) -> Cell {
    let current = view.at("status.currentMetrics").items();
    let specified = view.at("spec.metrics").items().iter().enumerate();
    let mut shown: Vec<String> = specified
        .map(|(position, metric)| target(metric, current.get(position)))
        .collect();
    // In autoscaling/v1 there is a field for the one metric that there was then.
    let percentage = view.at("spec.targetCPUUtilizationPercentage");
    if percentage.is_given() {
        let now = percent(view.at("status.currentCPUUtilizationPercentage"), UNKNOWN);
        shown.push(format!("cpu: {now}/{}", percent(percentage, "")));
    }
    if shown.is_empty() {
        NONE.into()
    } else {
        first_of(&shown, METRICS, ", ").into()
    }
}

/// What a metric is, of what it should be.
fn target(metric: &JsonNode<'_>, current: Option<&JsonNode<'_>>) -> String {
    let (source, has_resource) = match metric.member("type").text() {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let specified = metric.member(source);
    let goal = specified.member("target");
    let now = current
        .map_or(&JsonNode::Null, |current| current.member(source))
        .member("current");
    let average = goal.member("averageValue");
    let quantity = |name: &str| {
        Some(now.member(name))
            .filter(|value| value.is_given())
            .map_or(UNKNOWN.to_owned(), JsonNode::shown)
    };
    if has_resource {
        let name = specified.member("name").text();
        if average.is_given() {
            return format!("{name}: {}/{}", quantity("averageValue"), average.shown());
        }
        let utilization = percent(goal.member("averageUtilization"), "<auto>");
        return format!(
            "{name}: {}/{utilization}",
            percent(now.member("averageUtilization"), UNKNOWN)
        );
    }
    match (source, average.is_given()) {
        ("pods", _) => format!("{}/{}", quantity("averageValue"), average.shown()),
        (_, true) => format!("{}/{} (avg)", quantity("averageValue"), average.shown()),
        (_, false) => format!("{}/{}", quantity("value"), goal.member("value").shown()),
    }
}

fn percent(value: &JsonNode<'_>, default: &str) -> String {
    if value.is_given() {
        format!("{}%", value.integer())
    } else {
        default.to_owned()
    }
}
