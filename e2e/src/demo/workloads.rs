//! The workloads of the demo's members: the same applications with different replicas and states.

/// The templates, as files that a reader can open.
const NAMESPACE: &str = include_str!("../../demo/namespace.yaml");
const APPLICATION: &str = include_str!("../../demo/application.yaml");
const POD: &str = include_str!("../../demo/pod.yaml");
/// The status of a running pod, without its phase.
const READY: &str = "
  containerStatuses:
  - name: ${app}
    ready: true
    state: { running: { startedAt: 2026-01-01T00:00:00Z } }
    restartCount: 0
    image: registry.example.com/${namespace}/${app}:${version}
    imageID: \"\"";

const NAMESPACES: [&str; 4] = ["shop", "web", "data", "batch"];
const NODES: usize = 3;

/// The manifests of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workloads {
    /// Namespaces with their settings and credentials, applications with their services.
    pub applications: String,
    /// Pods with their statuses.
    pub pods: String,
}

/// An application, and how many pods of it each member has.
struct Application {
    namespace: &'static str,
    name: &'static str,
    app: &'static str,
    tier: &'static str,
    version: &'static str,
    is_canary: bool,
    replicas: [usize; 3],
}

const APPLICATIONS: [Application; 8] = [
    Application {
        replicas: [3, 2, 1],
        ..application("web", "web", "frontend", "2.4.1")
    },
    Application {
        replicas: [1, 0, 1],
        app: "web",
        is_canary: true,
        ..application("web", "web-canary", "frontend", "2.5.0")
    },
    Application {
        replicas: [2, 2, 1],
        ..application("shop", "api", "backend", "1.9.0")
    },
    Application {
        replicas: [0, 1, 0],
        app: "api",
        is_canary: true,
        ..application("shop", "api-canary", "backend", "2.0.0")
    },
    Application {
        replicas: [1, 1, 0],
        ..application("shop", "checkout", "backend", "1.3.7")
    },
    Application {
        replicas: [1, 1, 1],
        ..application("data", "postgres", "db", "17.2")
    },
    Application {
        replicas: [1, 0, 1],
        ..application("data", "cache", "cache", "7.4")
    },
    Application {
        replicas: [1, 2, 1],
        ..application("batch", "report", "batch", "0.8.0")
    },
];

const fn application(
    namespace: &'static str,
    name: &'static str,
    tier: &'static str,
    version: &'static str,
) -> Application {
    Application {
        namespace,
        name,
        app: name,
        tier,
        version,
        is_canary: false,
        replicas: [0; 3],
    }
}

/// The state of a pod.
struct State {
    phase: &'static str,
    reason: &'static str,
    has_node: bool,
}

/// Most pods are running; each member has at least one that is not.
fn state_of(member: usize, name: &str, number: usize) -> State {
    match (member, name, number) {
        (_, "report", 0) => State {
            phase: "Succeeded",
            reason: "",
            has_node: true,
        },
        (2, "report", 1) => State {
            phase: "Failed",
            reason: "DeadlineExceeded",
            has_node: true,
        },
        (1, "web", 2) | (2, "api", 1) => State {
            phase: "Pending",
            reason: "",
            has_node: false,
        },
        (3, "api", 0) => State {
            phase: "Failed",
            reason: "Evicted",
            has_node: true,
        },
        _ => State {
            phase: "Running",
            reason: "",
            has_node: true,
        },
    }
}

impl Workloads {
    /// The workloads of `member<member>` in `region`.
    pub fn of(member: usize, region: &str) -> Self {
        let member_name = format!("member{member}");
        let mut documents: Vec<String> = NAMESPACES
            .iter()
            .map(|namespace| {
                fill(
                    NAMESPACE,
                    &[
                        ("namespace", namespace),
                        ("region", region),
                        ("member", &member_name),
                    ],
                )
            })
            .collect();
        let mut pods = Vec::new();
        for application in &APPLICATIONS {
            let replicas = application
                .replicas
                .get(member.saturating_sub(1))
                .copied()
                .unwrap_or_default();
            if replicas == 0 {
                continue;
            }
            documents.push(fill(
                &application.filled(APPLICATION),
                &[("replicas", &replicas.to_string())],
            ));
            let template = application.filled(POD);
            pods.extend((0..replicas).map(|number| pod(&template, member, application, number)));
        }
        Self {
            applications: documents.join("---\n"),
            pods: pods.join("---\n"),
        }
    }
}

impl Application {
    fn filled(&self, template: &str) -> String {
        // A line of its own in both templates; other applications lack the label.
        let canary = if self.is_canary {
            "\n    canary: \"true\""
        } else {
            ""
        };
        let values = [
            ("namespace", self.namespace),
            ("name", self.name),
            ("app", self.app),
            ("tier", self.tier),
            ("version", self.version),
            ("canary", canary),
        ];
        fill(template, &values)
    }
}

fn pod(template: &str, member: usize, application: &Application, number: usize) -> String {
    let state = state_of(member, application.name, number);
    let node = if state.has_node {
        format!("\n  nodeName: member{member}-node{}", number % NODES + 1)
    } else {
        String::new()
    };
    let details = match state.phase {
        "Running" => application.filled(READY),
        _ if state.reason.is_empty() => String::new(),
        _ => format!("\n  reason: {}", state.reason),
    };
    fill(
        template,
        &[
            ("number", &number.to_string()),
            ("node", &node),
            ("phase", state.phase),
            ("details", &details),
        ],
    )
}

/// Replaces each `${key}`.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (key, value) in values {
        text = text.replace(&format!("${{{key}}}"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_no_unfilled_placeholders() {
        for member in 1..=3 {
            let workloads = Workloads::of(member, "eu-west-1");
            for text in [&workloads.applications, &workloads.pods] {
                assert!(!text.contains("${"), "{text}");
            }
        }
    }

    #[test]
    fn members_run_different_workloads() {
        let pods = |member| {
            Workloads::of(member, "")
                .pods
                .matches("kind: Pod\n")
                .count()
        };
        assert_eq!([1, 2, 3].map(pods), [10, 9, 6]);
    }
}
