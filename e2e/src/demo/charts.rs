//! A chart in two of three members, in two waves, rendered on the control plane: the plan, the
//! objects in the members, and how the set is.

use std::{fs, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    distribution::{report_ready, show_planned},
    printing::{heading, show_command},
    session::Session,
    setup::write,
};
use crate::{fleet::Fleet, operator::Operator, poll::eventually};

/// The files of the chart, and what distributes it.
const FILES: [(&str, &str); 4] = [
    (
        "shelf/Chart.yaml",
        include_str!("../../demo/shelf/Chart.yaml"),
    ),
    (
        "shelf/values.yaml",
        include_str!("../../demo/shelf/values.yaml"),
    ),
    (
        "shelf/templates/all.yaml",
        include_str!("../../demo/shelf/templates/all.yaml"),
    ),
    ("shelf.yaml", include_str!("../../demo/shelf.yaml")),
];
/// Ten times what a busy machine with two cores needs.
const DEADLINE: Duration = Duration::from_mins(1);

/// Shows what distribution of charts does.
pub async fn show(fleet: &Fleet, session: &Session, operator: &Operator) -> Result<()> {
    let templates = fleet.dir().join("shelf/templates");
    fs::create_dir_all(&templates).with_context(|| format!("creating {}", templates.display()))?;
    for (file, text) in FILES {
        write(&fleet.dir().join(file), text)?;
    }
    heading("A chart: what each member would get, before anything is applied");
    let plan = "fleetdex plan -f $DEMO/shelf.yaml --chart $DEMO/shelf";
    show_planned(session, plan, "shelf").await?;

    heading("The same, applied: the chart as an archive in a ConfigMap, to member1 first");
    show_command(session, "helm package $DEMO/shelf --destination $DEMO").await?;
    show_command(
        session,
        "kubectl -n default create configmap shelf-chart --from-file=$DEMO/shelf-0.1.0.tgz",
    )
    .await?;
    show_command(session, "kubectl apply -f $DEMO/shelf.yaml").await?;
    for (member, replicas) in [("member1", 2), ("member2", 1)] {
        until(session, operator, member, |found| {
            found["spec"]["replicas"] == replicas
        })
        .await?;
        until_condition(session, operator, "Rendered").await?;
        // The next wave waits until this one is healthy.
        show_command(session, "fleetdex rollout status shelf -n default").await?;
        report_ready(session, member, "shelf", replicas).await?;
    }
    until_condition(session, operator, "Ready").await?;
    show_command(session, "fleetdex rollout status shelf -n default").await?;
    for member in ["member1", "member2", "member3"] {
        let get = "-n default get configmaps,deployments --field-selector metadata.name=shelf";
        show_command(session, &format!("kubectl --context {member} {get}")).await?;
    }
    heading("How the set is: in all clusters, and object by object");
    show_command(session, "kubectl -n default get distributions").await?;
    show_command(session, "fleetdex distribute status").await?;
    Ok(())
}

/// Waits until something holds of the workload in a member.
async fn until(
    session: &Session,
    operator: &Operator,
    member: &str,
    holds: impl Fn(&Value) -> bool,
) -> Result<()> {
    let line = format!("kubectl --context {member} -n default get deployment shelf -o json");
    let what = format!("the chart is in {member}");
    let there = eventually(&what, DEADLINE, || async {
        let found: Value =
            serde_json::from_str(&session.shell(&line).await?).context("reading a Deployment")?;
        ensure!(holds(&found), "{found}");
        Ok(())
    });
    there.await.with_context(|| operator.process().log_tail(20))
}

/// Waits until a condition of the set is true.
async fn until_condition(session: &Session, operator: &Operator, kind: &str) -> Result<()> {
    let line = "kubectl -n default get distribution shelf -o json";
    let what = format!("{kind} is True");
    let is_true = eventually(&what, DEADLINE, || async {
        let found: Value =
            serde_json::from_str(&session.shell(line).await?).context("reading a Distribution")?;
        let conditions = found["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let condition = conditions.find(|one| one["type"] == kind);
        ensure!(
            condition.is_some_and(|one| one["status"] == "True"),
            "{}",
            found["status"]
        );
        Ok(())
    });
    is_true
        .await
        .with_context(|| operator.process().log_tail(20))
}
