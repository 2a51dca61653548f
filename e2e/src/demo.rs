//! The demo: three members with workloads, an OpenSearch, a registry applied with kubectl,
//! questions over all of it, and a workload and a chart that are distributed.
//!
//! All output is that of the printed commands. The demo fails if the index and the members return
//! different results.

mod charts;
mod distribution;
mod printing;
pub mod session;
pub mod setup;
pub mod workloads;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use serde_json::Value;

use self::{
    printing::{heading, show_command},
    session::{Session, search_path},
    setup::{NAMESPACE, create_workloads, register, registry, write},
};
use crate::{
    fleet::{self, Fleet, OpenSearchKind, Options},
    operator::{API_PORT, Operator, OperatorOptions},
    parts::Chromium,
    pictures::{FLEET_PICTURE, OBJECT_PICTURE, SEARCH_PICTURE},
    poll::eventually,
    signals,
};

const MEMBERS: usize = 3;
const QUERY: &str =
    "pods -A -l 'app in (web,api),tier!=db,!canary' --field-selector status.phase=Running";
/// Ten times what a busy machine with two cores needs.
const READY_DEADLINE: Duration = Duration::from_mins(1);
const SYNC_DEADLINE: Duration = Duration::from_mins(2);
const SIGNAL_GRACE: Duration = Duration::from_millis(200);
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// `e2e demo`
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Stop at the end instead of waiting for Ctrl-C. The default without a terminal, and when CI
    /// is set.
    #[arg(long, conflicts_with = "stay")]
    exit: bool,
    /// Wait for Ctrl-C (or SIGTERM) even without a terminal.
    #[arg(long)]
    stay: bool,
    /// Folder for logs, kubeconfig and manifests (default: target/demo).
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Args {
    fn stays(&self) -> bool {
        let is_interactive = io::stdin().is_terminal()
            && io::stdout().is_terminal()
            && std::env::var_os("CI").is_none();
        self.stay || (is_interactive && !self.exit)
    }
}

/// Runs the demo until it ends or is stopped. Stops everything that it started in either case.
pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("starting a runtime")?;
    runtime.block_on(until_stopped(args))
}

async fn until_stopped(args: &Args) -> Result<()> {
    let stop = signals::stop()?;
    tokio::pin!(stop);
    let progress = Progress(Instant::now());
    let shown = tokio::select! {
        () = &mut stop => None,
        ended = show(args, &progress) => match ended {
            Ok(running) => Some(running),
            // Ctrl-C also ends a running kubectl, whose failure may be observed first.
            Err(_) if tokio::time::timeout(SIGNAL_GRACE, &mut stop).await.is_ok() => None,
            Err(error) => return Err(error),
        },
    };
    let Some((fleet, operator)) = shown else {
        println!("\nstopping …");
        return Ok(());
    };
    if args.stays() {
        println!("Everything keeps running until Ctrl-C.");
        tokio::select! {
            () = &mut stop => println!("\nstopping …"),
            ended = watch(&fleet, &operator) => return ended,
        }
    }
    operator.terminate(STOP_DEADLINE).await?;
    drop(fleet);
    progress.log("nothing is left running");
    Ok(())
}

/// Returns only if a server or the operator exits unexpectedly.
async fn watch(fleet: &Fleet, operator: &Operator) -> Result<()> {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        fleet.check_running()?;
        operator.process().check_running()?;
    }
}

/// Runs the whole demo; returns the servers and the operator, still running.
async fn show(args: &Args, progress: &Progress) -> Result<(Fleet, Operator)> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => fleet::target_folder()?.join("demo"),
    };
    progress.log("starting a control plane, three members and OpenSearch");
    let options = Options {
        members: MEMBERS,
        opensearch: OpenSearchKind::Plain,
        dir: Some(dir),
        own_opensearch: true,
        ..Options::default()
    };
    let fleet = Fleet::start(options).await?;
    progress.log("installing the custom resources, registering the members");
    register(&fleet).await?;
    progress.log(
        "creating namespaces, Deployments, Services, ConfigMaps, Secrets and pods in the members",
    );
    create_workloads(&fleet).await?;

    progress.log("starting fleetdex run");
    let operator = Operator::start(OperatorOptions {
        arguments: vec![
            format!("--api-service={NAMESPACE}/fleetdex"),
            format!("--api-service-port={API_PORT}"),
            "--distribute".to_owned(),
        ],
        // With helm, which renders the chart.
        environment: vec![("PATH".to_owned(), search_path()?)],
        ..OperatorOptions::of(&fleet)
    })?;
    operator.wait_ready(READY_DEADLINE).await?;
    let session = Session::write(&fleet, &operator)?;

    let file = fleet.dir().join("registry.yaml");
    write(&file, &registry(fleet.opensearch()?.url()))?;
    let applied = session
        .shell(&format!("kubectl apply -f {}", file.display()))
        .await?;
    progress.log(&format!(
        "kubectl apply -f {}: {}",
        file.display(),
        applied.trim()
    ));
    wait_until_synced(&session, &operator).await?;
    progress.log("the registry is ready");
    until_available(&session).await?;

    show_query(&fleet, &session).await?;
    show_meaning(&session).await?;
    distribution::show(&fleet, &session, &operator).await?;
    charts::show(&fleet, &session, &operator).await?;
    show_page(&fleet, &operator, progress).await;
    let link = operator.page_link().await?;
    println!("\n{}", hints(&fleet, &session, &operator, &link)?);
    progress.log("that was the demo");
    Ok((fleet, operator))
}

/// Prints lines with the time since the start.
struct Progress(Instant);

impl Progress {
    fn log(&self, what: &str) {
        println!("[{:5.1} s] {what}", self.0.elapsed().as_secs_f64());
        // Standard output is block-buffered when it is a pipe.
        let _ = io::stdout().flush();
    }
}

/// Waits until the control plane's API server forwards requests to Fleetdex.
async fn until_available(session: &Session) -> Result<()> {
    eventually(
        "the query API is available through the control plane",
        READY_DEADLINE,
        || async {
            session
                .shell("kubectl --context fleet get pods -A -o name")
                .await
                .map(drop)
        },
    )
    .await
}

async fn wait_until_synced(session: &Session, operator: &Operator) -> Result<()> {
    let synced = eventually("the registry is ready", SYNC_DEADLINE, || async {
        operator.process().check_running()?;
        let text = session.shell("kubectl get rr demo -o json").await?;
        let registry: Value = serde_json::from_str(&text).context("reading the registry")?;
        let is_true = |condition_type: &str| {
            let conditions = registry["status"]["conditions"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            conditions.iter().any(|condition| {
                condition["type"] == condition_type && condition["status"] == "True"
            })
        };
        ensure!(
            is_true("Ready") && is_true("Synced"),
            "its status is {:#}",
            registry["status"]
        );
        Ok(())
    });
    synced
        .await
        .with_context(|| operator.process().log_tail(20))
}

/// Runs one query over the fleet, shows the result, and compares it with the members.
async fn show_query(fleet: &Fleet, session: &Session) -> Result<()> {
    fleet.opensearch()?.client()?.refresh("fleetdex").await?;
    heading("How the registry is");
    show_command(session, "kubectl get resourceregistries").await?;
    let command = format!("kubectl get rr demo -o jsonpath='{CONDITIONS}'");
    show_command(session, &command).await?;
    let command = format!("kubectl get rr demo -o jsonpath='{CLUSTERS}'");
    show_command(session, &command).await?;

    heading("A question over all clusters");
    let found = show_command(session, &format!("fleetdex get {QUERY}")).await?;

    heading("The OpenSearch request behind it");
    let body = show_command(session, &format!("fleetdex explain {QUERY}")).await?;

    heading("The same request, sent to OpenSearch as it is");
    println!("$ fleetdex explain {QUERY} |");
    println!(
        "    curl -s \"$OPENSEARCH_URL/fleetdex/_search?filter_path=hits.total\" -H 'Content-Type: application/json' -d @-"
    );
    let body: Value = serde_json::from_str(&body).context("reading the request")?;
    // Uses our own client, as curl may not be installed.
    let path = "fleetdex/_search?filter_path=hits.total";
    let sent = fleet
        .opensearch()?
        .client()?
        .send(Method::POST, path, Some(&body))
        .await?;
    println!("{}", sent.body);

    let hits = sent.body["hits"]["total"]["value"]
        .as_u64()
        .with_context(|| format!("no number of hits in {}", sent.body))?;
    heading("The members' own answers");
    let mut total = 0;
    for member in fleet.members() {
        let line = format!(
            "kubectl --context {} get {QUERY} --no-headers",
            member.name()
        );
        let count = session.shell(&line).await?.lines().count() as u64;
        println!("$ {line} | wc -l\n{count}");
        total += count;
    }
    let rows = found.lines().count().saturating_sub(1) as u64;
    if hits != total || rows != total {
        bail!(
            "the members have {total} such pods, OpenSearch {hits}, and fleetdex get showed {rows}"
        );
    }
    println!(
        "\n{total} pods in the members, {hits} hits in OpenSearch, {rows} rows from fleetdex get."
    );
    Ok(())
}

/// What objects mean: which do not work, and which use a Secret.
async fn show_meaning(session: &Session) -> Result<()> {
    heading("What is unhealthy, in all clusters");
    show_command(session, "fleetdex unhealthy").await?;

    heading("Why: what the pods of the shop report");
    show_command(session, "fleetdex unhealthy pods -n shop -o wide").await?;

    heading("One word, in all kinds and clusters: the best matches first");
    show_command(
        session,
        "fleetdex search checkout NOT health:Healthy --facets",
    )
    .await?;

    heading("Everything that uses one Secret");
    show_command(session, "fleetdex related secret/credentials -n shop")
        .await
        .map(drop)
}

const CONDITIONS: &str =
    "{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{\"\\n\"}{end}";
const CLUSTERS: &str =
    "{range .status.clusters[*]}{.name}: {.phase}, {.objects} objects{\"\\n\"}{end}";

/// Leaves pictures of the page in the demo's folder, if a browser is on this machine.
async fn show_page(fleet: &Fleet, operator: &Operator, progress: &Progress) {
    if !matches!(Chromium::find(), Ok(Some(_))) {
        return;
    }
    for picture in [SEARCH_PICTURE, OBJECT_PICTURE, FLEET_PICTURE] {
        let file = fleet.dir().join(format!("{}.png", picture.name));
        match picture.write(operator, fleet.dir()).await {
            Ok(()) => progress.log(&format!("the web page: {}", file.display())),
            Err(error) => progress.log(&format!("no picture of the web page: {error:#}")),
        }
    }
}

fn hints(fleet: &Fleet, session: &Session, operator: &Operator, link: &str) -> Result<String> {
    let opensearch = fleet.opensearch()?.url();
    Ok(format!(
        "── Try it yourself
In another terminal, in any folder. kubectl has the contexts control-plane, member1, member2 and member3; and fleet, the fleet as one Kubernetes
API behind the control plane's API server, for the administrator, and alice, the same for a user who may see only pods of the namespace web:

  . {env}
  fleetdex ui                                                                 # the web page, in a browser
  fleetdex get pods -A -l app=web                                             # of all clusters
  fleetdex search image:registry.example.com/shop/api health:Degraded        # by words and conditions, over all kinds
  fleetdex related deployment/checkout -n shop                                # what it uses, what uses it, what is missing
  fleetdex images --image registry.example.com/shop/api                       # every tag of it, and the clusters that run it
  kubectl get objects.search.fleetdex.io --field-selector health=Degraded     # what is unhealthy, with kubectl alone
  kubectl --context fleet get pods -A -l app=web --watch                      # the same with kubectl alone, and as it changes
  kubectl --context alice get pods -A                                         # hers only
  kubectl --context member1 -n web delete pod web-0 --force                   # gone from the answer within seconds
  kubectl --context member1 apply --server-side -f $DEMO/member1-pods.yaml    # and back, Pending as a new pod is
  kubectl --context member2 -n web label pod web-0 canary=true                # no longer in the answer to '!canary'
  kubectl -n default edit distribution shelf                                  # its values, say: both members follow
  kubectl --context member1 -n default delete deployment shelf                # and it is back
  kubectl edit rr demo                                                        # remove Secret, say: its documents go
  kubectl delete rr demo                                                      # all documents go
  kubectl apply -f $DEMO/registry.yaml                                        # and come back
  curl -s \"$OPENSEARCH_URL/_cat/indices?v\"

Web page           {link}  (signs in once, within five minutes; later: fleetdex ui)
OpenSearch         {opensearch}    (alias fleetdex: all clusters; fleetdex-member1: one)
Query API          http://{api}    (bearer token in $FLEETDEX_TOKEN_FILE)
Metrics, health    {admin}/metrics, /readyz
Logs, manifests    {dir}
",
        env = session.file.display(),
        api = operator.api_address(),
        admin = operator.admin_url(),
        dir = fleet.dir().display(),
    ))
}
