//! One workload of the control plane in two members: the plan, the division 2:1, a drift that is
//! repaired, and the summed status.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    printing::{heading, show_command},
    session::Session,
    setup::write,
};
use crate::{fleet::Fleet, operator::Operator, poll::eventually};

const MANIFEST: &str = include_str!("../../demo/distribution.yaml");
/// Ten times what a busy machine with two cores needs.
const DEADLINE: Duration = Duration::from_mins(1);
const GREETER: &str = "-n default get deployment greeter";

/// Shows what distribution does.
pub async fn show(fleet: &Fleet, session: &Session, operator: &Operator) -> Result<()> {
    write(&fleet.dir().join("distribution.yaml"), MANIFEST)?;
    heading("Distribute: where a workload would go, before anything is applied");
    // Its exit code says that something would be written.
    let plan = "fleetdex plan -f $DEMO/distribution.yaml";
    show_planned(session, plan, "greeter").await?;

    heading("The same, applied: two of three replicas in member1, one in member2");
    show_command(session, "kubectl apply -f $DEMO/distribution.yaml").await?;
    for (member, replicas) in [("member1", 2), ("member2", 1)] {
        until(session, operator, member, |found| {
            found["spec"]["replicas"] == replicas
        })
        .await?;
        show_command(session, &format!("kubectl --context {member} {GREETER}")).await?;
    }

    heading("A change by hand in a member is set back");
    let scale = "kubectl --context member1 -n default scale deployment greeter --replicas=7";
    show_command(session, scale).await?;
    until(session, operator, "member1", |found| {
        found["spec"]["replicas"] == 2
    })
    .await?;
    show_command(session, &format!("kubectl --context member1 {GREETER}")).await?;

    heading("What the members report, summed up on the control plane");
    for (member, replicas) in [("member1", 2), ("member2", 1)] {
        report_ready(session, member, "greeter", replicas).await?;
    }
    until(session, operator, "control-plane", |found| {
        found["status"]["readyReplicas"] == 3
    })
    .await?;
    show_command(session, &format!("kubectl {GREETER}")).await?;
    show_command(session, "kubectl -n default get rb").await?;
    Ok(())
}

/// Writes the status of a Deployment in a member: nothing runs the pods of the demo.
pub(super) async fn report_ready(
    session: &Session,
    member: &str,
    name: &str,
    replicas: u32,
) -> Result<()> {
    let line = format!("kubectl --context {member} -n default get deployment {name} -o json");
    let found: Value =
        serde_json::from_str(&session.shell(&line).await?).context("reading a Deployment")?;
    let status = json!({"status": {
        "observedGeneration": found["metadata"]["generation"], "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
    }});
    let patch = format!(
        "kubectl --context {member} -n default patch deployment {name} --subresource=status \
         --type=merge -p '{status}'"
    );
    session.shell(&patch).await.map(drop)
}

/// Prints a plan, which has changes of an object of this name.
pub(super) async fn show_planned(session: &Session, line: &str, name: &str) -> Result<()> {
    println!("$ {line}");
    let output = session.shell(&format!("{line} || [ $? -eq 1 ]")).await?;
    print!("{output}");
    ensure!(output.contains(name), "the plan has no {name}");
    Ok(())
}

/// Waits until something holds of the workload in a cluster.
async fn until(
    session: &Session,
    operator: &Operator,
    context: &str,
    holds: impl Fn(&Value) -> bool,
) -> Result<()> {
    let line = format!("kubectl --context {context} {GREETER} -o json");
    let what = format!("the workload is right in {context}");
    let right = eventually(&what, DEADLINE, || async {
        let text = session.shell(&line).await?;
        let found: Value = serde_json::from_str(&text).context("reading a Deployment")?;
        ensure!(holds(&found), "{found}");
        Ok(())
    });
    right.await.with_context(|| operator.process().log_tail(20))
}
