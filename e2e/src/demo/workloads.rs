//! The workloads of the demo's members: the same applications with different replicas and states.

/// The templates, as files that a reader can open.
const NAMESPACE: &str = include_str!("../../demo/namespace.yaml");
const APPLICATION: &str = include_str!("../../demo/application.yaml");
const POD: &str = include_str!("../../demo/pod.yaml");
const DEPLOYMENT_STATUS: &str = include_str!("../../demo/deployment-status.yaml");
/// The status of a pod whose container was started, without its phase.
const CONTAINER: &str = "
  conditions:
  - type: Ready
    status: \"${condition}\"
  containerStatuses:
  - name: ${app}
    ready: ${ready}
    state: { ${state} }
    restartCount: ${restarts}
    image: registry.example.com/${namespace}/${app}:${version}
    imageID: \"\"";
const EVICTED: &str = "
  reason: Evicted
  message: \"The node was low on resource: memory.\"";
const TOO_LATE: &str = "
  reason: DeadlineExceeded
  message: Pod was active on the node longer than the specified deadline";
const RUNNING: &str = "running: { startedAt: 2026-01-01T00:00:00Z }";
/// A container that fails soon after each start.
const CRASHING: &str = "waiting: { reason: CrashLoopBackOff, message: \"back-off 5m0s restarting failed container=${app} pod=${app}-0_${namespace}\" }";
/// A container whose image does not exist.
const WITHOUT_IMAGE: &str = "waiting: { reason: ImagePullBackOff, message: \"Back-off pulling image registry.example.com/${namespace}/${app}:${version}: not found\" }";

const NAMESPACES: [&str; 4] = ["shop", "web", "data", "batch"];
const NODES: usize = 3;

/// The manifests of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workloads {
    /// Namespaces with their settings and credentials, applications with their services.
    pub applications: String,
    /// Pods with their statuses.
    pub pods: String,
    /// Deployments with nothing but their statuses.
    pub deployment_statuses: String,
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
    application([3, 2, 1], "web", "web", "frontend", "2.4.1"),
    canary("web", [1, 0, 1], "web", "web-canary", "frontend", "2.5.0"),
    application([2, 2, 1], "shop", "api", "backend", "1.9.0"),
    canary("api", [0, 1, 0], "shop", "api-canary", "backend", "2.0.0"),
    application([1, 1, 0], "shop", "checkout", "backend", "1.3.7"),
    application([1, 1, 1], "data", "postgres", "db", "17.2"),
    application([1, 0, 1], "data", "cache", "cache", "7.4"),
    application([1, 2, 1], "batch", "report", "batch", "0.8.0"),
];

const fn application(
    replicas: [usize; 3],
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
        replicas,
    }
}

/// A later version of another application.
const fn canary(
    app: &'static str,
    replicas: [usize; 3],
    namespace: &'static str,
    name: &'static str,
    tier: &'static str,
    version: &'static str,
) -> Application {
    Application {
        app,
        is_canary: true,
        ..application(replicas, namespace, name, tier, version)
    }
}

/// The state of a pod.
struct State {
    phase: &'static str,
    /// Why the pod is in that phase, as members of its status; empty without a reason.
    cause: &'static str,
    /// The state of its container; empty if it has none.
    container: &'static str,
    has_node: bool,
}

const fn state(phase: &'static str, cause: &'static str, container: &'static str) -> State {
    State {
        phase,
        cause,
        container,
        has_node: true,
    }
}

impl State {
    /// Whether the Deployment counts the pod as ready. Pods that have done their work count, too.
    fn is_ready(&self) -> bool {
        self.phase == "Succeeded" || self.container == RUNNING
    }
}

/// Most pods are running; each member has at least one that is not.
fn state_of(member: usize, name: &str, number: usize) -> State {
    match (member, name, number) {
        (_, "report", 0) => state("Succeeded", "", ""),
        (2, "report", 1) => state("Failed", TOO_LATE, ""),
        (3, "api", 0) => state("Failed", EVICTED, ""),
        (1, "web", 2) | (2, "api", 1) => State {
            has_node: false,
            ..state("Pending", "", "")
        },
        (1, "checkout", 0) => state("Running", "", CRASHING),
        (2, "checkout", 0) => state("Pending", "", WITHOUT_IMAGE),
        _ => state("Running", "", RUNNING),
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
        let mut statuses = Vec::new();
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
            statuses.push(deployment_status(member, application, replicas));
            let template = application.filled(POD);
            pods.extend((0..replicas).map(|number| pod(&template, member, application, number)));
        }
        Self {
            applications: documents.join("---\n"),
            pods: pods.join("---\n"),
            deployment_statuses: statuses.join("---\n"),
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
    let details = if state.container.is_empty() {
        state.cause.to_owned()
    } else {
        container(application, &state)
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

fn container(application: &Application, state: &State) -> String {
    let restarts = if state.container == CRASHING { 7 } else { 0 };
    let status = fill(
        CONTAINER,
        &[
            ("condition", word(state.is_ready(), "True", "False")),
            ("ready", word(state.is_ready(), "true", "false")),
            ("state", state.container),
            ("restarts", &restarts.to_string()),
        ],
    );
    application.filled(&status)
}

/// What a controller would report of an application's pods.
fn deployment_status(member: usize, application: &Application, replicas: usize) -> String {
    let states = (0..replicas).map(|number| state_of(member, application.name, number));
    let ready = states.filter(State::is_ready).count();
    // Kubernetes lets a quarter of the pods be unavailable, rounded down.
    let is_available = ready + replicas / 4 >= replicas;
    let values = [
        ("replicas", replicas.to_string()),
        ("ready", ready.to_string()),
    ];
    let values = values.each_ref().map(|(key, value)| (*key, value.as_str()));
    let words = [
        ("available", word(is_available, "True", "False")),
        (
            "reason",
            word(
                is_available,
                "MinimumReplicasAvailable",
                "MinimumReplicasUnavailable",
            ),
        ),
        ("has", word(is_available, "has", "does not have")),
    ];
    fill(
        &fill(&application.filled(DEPLOYMENT_STATUS), &values),
        &words,
    )
}

fn word(condition: bool, yes: &'static str, no: &'static str) -> &'static str {
    if condition { yes } else { no }
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
            let Workloads {
                applications,
                pods,
                deployment_statuses,
            } = &workloads;
            for text in [applications, pods, deployment_statuses] {
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
