//! The commands of the documentation run on the fleet of the demo, and print what it shows.
//!
//! `make docs` writes the outputs that differ.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{env, fmt::Write as _, fs, os::unix::fs::symlink, path::Path, time::Duration};

use e2e::{
    demo::session::{Ended, Session},
    documented::{
        DocumentedCommand, commands_of, comparable, is_as_documented, without_comment,
        write_outputs,
    },
    operator::fleetdex_program,
    test_result::Tested,
};

use super::site::Visit;

/// How long a command may take.
const DEADLINE: Duration = Duration::from_mins(1);
/// Pods of the demo.
const PODS: usize = 25;

/// Commands that cannot run here: the page, how they begin (empty: all of the page), and why.
const EXCEPTIONS: [(&str, &str, &str); 50] = [
    (
        "README.md",
        "cargo install",
        "builds the program, which takes minutes",
    ),
    (
        "README.md",
        "fleetdex local",
        "runs until it is stopped; e2e/tests/queries/local.rs checks its lines",
    ),
    (
        "docs/access.md",
        "kubectl create clusterrolebinding",
        "the chart's role; e2e/tests/security/helm.rs binds it",
    ),
    (
        "docs/access.md",
        "fleetdex dashboards roles",
        "needs the security plugin; e2e/tests/security/dashboards_roles.rs has it",
    ),
    ("docs/access.md", "for kind", "as the line before"),
    (
        "docs/bring-your-scripts.md",
        "fleetdex local",
        "runs until it is stopped",
    ),
    (
        "docs/bring-your-scripts.md",
        "fleetdex count workloads",
        "of that server",
    ),
    (
        "docs/bring-your-scripts.md",
        "fleetdex run",
        "a part of a command line",
    ),
    (
        "docs/bring-your-scripts.md",
        "helm",
        "e2e/tests/security/helm.rs installs the chart",
    ),
    (
        "docs/bring-your-scripts.md",
        "fleetdex interpret --argocd-health",
        "files of the reader",
    ),
    (
        "docs/bring-your-scripts.md",
        "fleetdex interpret -f endless.yaml",
        "files of the reader",
    ),
    (
        "docs/bring-your-scripts.md",
        "fleetdex interpret -f wrong.yaml",
        "files of the reader",
    ),
    (
        "docs/bring-your-scripts.md",
        "fleetdex interpret -f goto.yaml",
        "files of the reader",
    ),
    (
        "docs/bring-your-scripts.md",
        "cargo run",
        "needs a checkout of Argo CD",
    ),
    (
        "docs/cli.md",
        "ln -s",
        "writes to /usr/local/bin; this test has such a link in a folder of its own",
    ),
    (
        "docs/cli.md",
        "fleetdex kubeconfig --merge --use --context prod",
        "a control plane of the reader",
    ),
    (
        "docs/cli.md",
        "fleetdex dashboards install",
        "needs OpenSearch Dashboards; tools/dashboards-commands has its tests",
    ),
    (
        "docs/cli.md",
        "fleetdex interpret -f customization.yaml --edit",
        "opens an editor; tools/interpreter-workbench has its tests",
    ),
    (
        "docs/cli.md",
        "fleetdex interpret -f customization.yaml --operation Retain",
        "files of the reader",
    ),
    (
        "docs/cli.md",
        "fleetdex interpret --argocd-health",
        "files of the reader",
    ),
    (
        "docs/cli.md",
        "fleetdex interpret --webhooks",
        "needs a webhook; e2e/tests/queries/interpreters.rs has one",
    ),
    (
        "docs/migrating.md",
        "fleetdex migrate",
        "a Karmada control plane; e2e/tests/security/migration.rs has one",
    ),
    (
        "docs/chart.md",
        "",
        "the programs of e2e/tests/security/helm run helm, and `fleetdex crd apply`",
    ),
    (
        "docs/cli.md",
        "kubectl -n fleetdex-system exec",
        "needs Pods that run",
    ),
    (
        "docs/cli.md",
        "fleetdex doctor",
        "the operator of the chart; e2e/tests/indexing/doctor.rs runs it",
    ),
    (
        "docs/clustercache.md",
        "",
        "a ClusterCache; e2e/tests/indexing/clustercache.rs has some",
    ),
    (
        "docs/clusters.md",
        "fleetdex run",
        "runs until it is stopped; e2e/tests/indexing/sources.rs runs it",
    ),
    (
        "docs/clusters.md",
        "kubectl -n clusters",
        "a kubeconfig of the reader; e2e/tests/indexing/sources.rs makes such Secrets",
    ),
    (
        "docs/dashboards.md",
        "fleetdex dashboards install",
        "needs OpenSearch Dashboards",
    ),
    (
        "docs/developing.md",
        "FLEETDEX_BIN=$PWD/target/release/fleetdex make bench",
        "measures for minutes",
    ),
    (
        "docs/developing.md",
        "cargo run",
        "fleets of their own, which the other programs of e2e/tests start",
    ),
    (
        "docs/guarantees.md",
        "cargo run",
        "compiles the simulation, which `make test` runs",
    ),
    (
        "docs/health-and-relations.md",
        "cargo run",
        "needs a checkout of Argo CD",
    ),
    (
        "docs/health-and-relations.md",
        "fleetdex get pvc",
        "a kind that the demo's registry does not select",
    ),
    (
        "docs/install.md",
        "",
        "e2e/tests/security/helm/install_page.rs types all of them",
    ),
    ("docs/library.md", "", "needs members of the reader"),
    (
        "docs/local.md",
        "fleetdex local",
        "runs until it is stopped; e2e/tests/queries/local.rs checks its lines",
    ),
    (
        "docs/local.md",
        "fleetdex get deploy -A --field-selector metadata.name=api --cluster prod-eu",
        "contexts of the reader",
    ),
    (
        "docs/operating.md",
        "fleetdex verify",
        "shows drift, which e2e/tests/indexing/verify.rs makes",
    ),
    (
        "docs/operating.md",
        "curl -X",
        "deletes and restores indices, as e2e/tests/faults/nothing_lost/snapshots.rs does",
    ),
    (
        "docs/operating.md",
        "kubectl -n fleetdex-system scale",
        "the fleet of the demo has no Deployment of Fleetdex; e2e/tests/faults/nothing_lost/snapshots.rs stops and starts the operator",
    ),
    (
        "docs/operating.md",
        "helm",
        "e2e/tests/security/helm.rs installs the chart",
    ),
    (
        "docs/quick-start.md",
        ". target/demo/env",
        "this test has its variables",
    ),
    (
        "docs/quick-start.md",
        "cargo install",
        "builds the program, which takes minutes",
    ),
    (
        "docs/quick-start.md",
        "fleetdex local",
        "runs until it is stopped",
    ),
    (
        "docs/replicas.md",
        "",
        "a release of the chart; e2e/tests/faults/replicas.rs has replicas",
    ),
    (
        "docs/web-page.md",
        "fleetdex local",
        "runs until it is stopped",
    ),
    (
        "docs/web-page.md",
        "kubectl -n fleetdex-system port-forward",
        "a Service of the chart",
    ),
    (
        "docs/write-an-interpreter.md",
        "",
        "examples/workload-interpreter and e2e/tests/queries/interpreters.rs run it",
    ),
    (
        "docs/traces.md",
        "OTEL_EXPORTER_OTLP_ENDPOINT=",
        "runs until it is stopped; e2e/tests/indexing/traces.rs sets these variables",
    ),
];

/// Commands whose results have an order that depends on the times of creation.
const IN_ANY_ORDER: [&str; 3] = ["fleetdex search", "fleetdex unhealthy", "curl -sN"];

/// A file that pages name.
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.27
        resources: {requests: {cpu: 100m}}
";

/// Targets of this repository take minutes or run this test; that `make` knows them, and what they
/// run, is looked at.
const TARGETS: &str = "make ";

/// Runs until it is stopped, so it is stopped.
const ENDLESS: &str = "--watch";

#[tokio::test]
async fn documented_commands_print_what_the_documentation_shows() -> Tested {
    let visit = Visit::begin_alone().await;
    visit.until_found("kind:pod", PODS).await;
    let session = &visit.site().session;
    let writes = env::var_os("FLEETDEX_WRITE_DOCS").is_some();
    let (mut failures, mut used, mut run) = (String::new(), vec![false; EXCEPTIONS.len()], 0);
    for page in pages() {
        let commands = commands_of(&page).unwrap();
        let folder = visit
            .site()
            .fleet
            .dir()
            .join("docs")
            .join(page.replace('/', "-"));
        prepare(session, &folder).await?;
        let mut outputs = Vec::new();
        for command in &commands {
            if let Some(index) = exception(command) {
                used[index] = true;
                outputs.push(None);
                continue;
            }
            run += 1;
            let ended = run_in(session, command, &folder).await;
            let problem = problem(command, &ended);
            outputs.push(problem.as_ref().map(|_| ended.output));
            if let Some(problem) = problem {
                writeln!(
                    failures,
                    "{page}:{}: {}\n{problem}",
                    command.line, command.text
                )
                .unwrap();
            }
        }
        if writes {
            write_outputs(&page, &outputs).unwrap();
        }
    }
    assert!(
        writes || failures.is_empty(),
        "`make docs` writes what differs\n{failures}"
    );
    assert!(run > 80, "only {run} commands ran");
    let stale = used.iter().position(|used| !used);
    assert_eq!(
        stale.map(|index| EXCEPTIONS[index]),
        None,
        "an exception without a command"
    );
    Ok(())
}

/// Every page with commands.
fn pages() -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut pages: Vec<String> = fs::read_dir(docs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    pages.push("README.md".to_owned());
    pages.sort_unstable();
    pages
}

fn exception(command: &DocumentedCommand) -> Option<usize> {
    EXCEPTIONS
        .iter()
        .position(|(page, start, _)| command.page == *page && command.text.starts_with(start))
}

/// A folder with the files that pages name, and a kubeconfig that they may change.
async fn prepare(session: &Session, folder: &Path) -> Tested {
    fs::create_dir_all(folder.join("bin"))?;
    let plugin = folder.join("bin/kubectl-fleetdex");
    if !plugin.exists() {
        symlink(fleetdex_program().unwrap(), plugin).unwrap();
    }
    for name in ["kubeconfig", "merged"] {
        fs::copy(session.kubeconfig().unwrap(), folder.join(name)).unwrap();
    }
    for (name, page, kind) in [
        (
            "customization.yaml",
            "bring-your-scripts.md",
            "kind: ResourceInterpreterCustomization",
        ),
        ("workload.yaml", "bring-your-scripts.md", "kind: Workload\n"),
        ("policy.yaml", "plan.md", "kind: PropagationPolicy"),
    ] {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = fs::read_to_string(docs.join(page))?;
        let mut blocks = page.split("```yaml\n").skip(1);
        let block = blocks.find(|block| block.contains(kind)).unwrap();
        fs::write(folder.join(name), block.split("```").next().unwrap())?;
    }
    let clusters = ["member1", "member2", "member3"].map(|name| {
        let kind = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster";
        format!("{kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    });
    fs::write(folder.join("clusters.yaml"), clusters.join("---\n"))?;
    fs::write(folder.join("deployment.yaml"), DEPLOYMENT)?;
    let line = "kubectl --context member1 get pod checkout-0 -n shop -o yaml > pod.yaml";
    let made = session.run(line, folder, &[], DEADLINE).await?;
    assert!(made.success, "{made:?}");
    Ok(())
}

async fn run_in(session: &Session, command: &DocumentedCommand, folder: &Path) -> Ended {
    // A merge changes the context of other commands.
    let is_merge = command.text.contains("--merge");
    let kubeconfig = folder.join(if is_merge { "merged" } else { "kubeconfig" });
    let variables = [
        ("HOME", folder.display().to_string()),
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("FLEETDEX_NO_OPEN", "true".to_owned()),
        // Leaves the object as it is.
        ("KUBE_EDITOR", "true".to_owned()),
    ];
    let line = if command.text.contains(ENDLESS) {
        let endless = without_comment(&command.text);
        format!("timeout --signal=INT 3 {endless} || [ $? = 124 ]")
    } else if let Some(target) = command.text.strip_prefix(TARGETS) {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        format!(
            "make --dry-run --directory {} {target}",
            repository.display()
        )
    } else {
        command.text.clone()
    };
    let ended = session.run(&line, folder, &variables, DEADLINE).await;
    ended.unwrap_or_else(|error| Ended {
        success: false,
        output: format!("{error:#}"),
    })
}

fn problem(command: &DocumentedCommand, ended: &Ended) -> Option<String> {
    let Some(documented) = &command.output else {
        return (!ended.success).then(|| format!("failed: {}", ended.output));
    };
    let is_unordered = IN_ANY_ORDER
        .iter()
        .any(|start| command.text.starts_with(start));
    let is_same = if is_unordered {
        sorted(documented) == sorted(&ended.output)
    } else {
        is_as_documented(documented, &ended.output)
    };
    (!is_same).then(|| format!("documented:\n{documented}\nprinted:\n{}", ended.output))
}

fn sorted(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = comparable(output).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}
