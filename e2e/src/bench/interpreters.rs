//! Resource interpreters: scripts on one core, calls of a webhook, and the first sync while a
//! webhook hangs. (The cost of built-in rules is measured with [encoding](super::limits).)

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fleetdex_clusters::watch::ListPage;
use fleetdex_interpreter::{
    Operation, Request, Response,
    script::{HealthScript, Script},
    webhook::configuration::{Webhook, WebhookConfiguration},
};
use fleetdex_telemetry::metrics::WebhookMetrics;
use fleetdex_webhooks::{
    client::{CallWebhook as _, WebhookClient},
    limits::CALLS_OF_WEBHOOK,
    service::ClusterDns,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::task::AbortOnDropHandle;

use super::{
    figures::{Figures, verdict},
    raw,
    run::Run,
    sizes::{CLUSTER, Sizes},
    times::Times,
};
use crate::{
    fleet::{Fleet, certificates::Authority},
    interpreter::{self, WorkloadInterpreter},
};

/// Expected rate of a typical script on one core, in objects per second.
const SCRIPTED_PER_SECOND: f64 = 10_000.0;
/// Expected rate of calls of a webhook on this machine, in calls per second …
const CALLS_PER_SECOND: f64 = 1_000.0;
/// … and the time within which 99 of 100 of them are answered, in milliseconds.
const CALL_P99_MILLISECONDS: f64 = 100.0;
/// How much longer a first sync may take while a webhook hangs: no more than two of them differ.
const HANGING_FACTOR: f64 = 1.1;

/// A health script for Argo CD, as users write them: it walks through the conditions.
const ARGO_CD: &str = "
local hs = {status = 'Progressing', message = 'no condition yet'}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for i, condition in ipairs(obj.status.conditions) do
    if condition.type == 'Ready' then
      hs.message = condition.message
      if condition.status == 'True' then
        hs.status = 'Healthy'
      else
        hs.status = 'Degraded'
      end
    end
  end
end
return hs
";

/// The same for Karmada.
const KARMADA: &str = "
function InterpretHealth(observedObj)
  if observedObj.status == nil or observedObj.status.conditions == nil then
    return false
  end
  for i = 1, #observedObj.status.conditions do
    local condition = observedObj.status.conditions[i]
    if condition.type == 'Ready' then
      return condition.status == 'True'
    end
  end
  return false
end
";

/// Measures scripts and webhooks. The member has the pods.
pub async fn measure(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    let mut pods: Vec<Value> = Vec::new();
    for body in raw::pages(fleet.member(1).client().await?).await? {
        for item in ListPage::parse(&body)?.items {
            pods.push(serde_json::from_str(item)?);
        }
    }
    scripts(&pods, figures)?;
    drop(pods);
    calls(fleet, sizes, figures).await?;
    hanging(fleet, sizes, figures).await
}

fn scripts(pods: &[Value], figures: &mut Figures) -> Result<()> {
    println!("health scripts on pods, on one core …");
    let argo_cd = HealthScript::compile(ARGO_CD)?;
    let karmada = Script::compile(Operation::InterpretHealth, KARMADA)?;
    rate_of_script("Argo CD", "argo_cd", pods, figures, |pod| {
        argo_cd
            .run(pod)
            .context("the script has no answer")
            .map(drop)
    })?;
    rate_of_script("Karmada", "karmada", pods, figures, |pod| {
        Ok(karmada.run(&Request::Health { object: pod }).map(drop)?)
    })
}

fn rate_of_script(
    name: &str,
    figure: &str,
    pods: &[Value],
    figures: &mut Figures,
    run: impl Fn(&Value) -> Result<()>,
) -> Result<()> {
    let started = Instant::now();
    pods.iter().try_for_each(run)?;
    let rate = pods.len() as f64 / started.elapsed().as_secs_f64();
    println!("  {name}: {rate:.0} objects/s");
    figures.set(&format!("{figure}_script_objects_per_s_core"), rate);
    let text = format!(
        "{rate:.0} objects/s; at least {SCRIPTED_PER_SECOND:.0}: {}",
        verdict(rate >= SCRIPTED_PER_SECOND)
    );
    figures.line(&format!("health script for {name}, per core"), text);
    Ok(())
}

/// Asks the example webhook for the health of its object, over TLS.
async fn calls(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("calls of the example webhook …");
    let server = WorkloadInterpreter::start(fleet.dir()).await?;
    let configuration =
        WebhookConfiguration::parse(&server.configuration_with_url("webhook-released.yaml")?);
    let webhook = configuration
        .and_then(|parsed| parsed.webhooks.into_iter().next())
        .context("the configuration has no webhook")?;
    let caller = Caller {
        client: WebhookClient::new(Arc::new(ClusterDns), WebhookMetrics::default()),
        webhook,
        object: interpreter::manifest("workload.yaml")?,
    };
    let caller = Arc::new(caller);
    // The first calls connect.
    caller.call_repeatedly(10).await?;
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLS_OF_WEBHOOK {
        let caller = Arc::clone(&caller);
        let calls = sizes.calls / CALLS_OF_WEBHOOK;
        callers.spawn(async move { caller.call_repeatedly(calls).await });
    }
    let took: Vec<Vec<f64>> = callers
        .join_all()
        .await
        .into_iter()
        .collect::<Result<_>>()?;
    let elapsed = started.elapsed().as_secs_f64();
    let times: Times = took.into_iter().flatten().collect();
    let rate = times.len() as f64 / elapsed;
    println!("  {rate:.0} calls/s, {}", times.text());
    figures.set("webhook_calls_per_s", rate);
    times.set("webhook_call", figures);
    let holds = rate >= CALLS_PER_SECOND && times.quantile(0.99) <= CALL_P99_MILLISECONDS;
    let text = format!(
        "{rate:.0} calls/s, {}; at least {CALLS_PER_SECOND:.0} and at most {CALL_P99_MILLISECONDS:.0} ms: {}",
        times.text(),
        verdict(holds)
    );
    figures.line("webhook over TLS", text);
    Ok(())
}

struct Caller {
    client: WebhookClient,
    webhook: Webhook,
    object: Value,
}

impl Caller {
    /// Calls one after the other; how long each took, in milliseconds.
    async fn call_repeatedly(&self, calls: usize) -> Result<Vec<f64>> {
        let mut took = Vec::with_capacity(calls);
        let request = Request::Health {
            object: &self.object,
        };
        for _ in 0..calls {
            let started = Instant::now();
            let answer = self.client.call(&self.webhook, &request).await?;
            took.push(started.elapsed().as_secs_f64() * 1000.0);
            ensure!(matches!(answer, Response::Health { .. }), "{answer:?}");
        }
        Ok(took)
    }
}

/// First syncs of the pods, in turns without a webhook and with one for pods that accepts
/// connections and says nothing.
async fn hanging(fleet: &Fleet, sizes: &Sizes, figures: &mut Figures) -> Result<()> {
    println!("first sync while a webhook hangs …");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}/", listener.local_addr()?);
    let _silence = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            open.push(connection);
        }
    }));
    let hub = fleet.control_plane().kubectl()?;
    let configuration = silent_configuration(&url)?;
    let (mut without, mut with) = (Times::default(), Times::default());
    for round in 0..sizes.syncs {
        without.push(first_sync(fleet, sizes, &format!("answered{round}")).await?);
        hub.apply(&configuration).await?;
        with.push(first_sync(fleet, sizes, &format!("hanging{round}")).await?);
        hub.run(&["delete", CONFIGURATION_KIND, SILENT]).await?;
    }
    // The fastest of each: what else the machine does only adds to the time, up to a third of it.
    let (without, with) = (without.quantile(0.0) / 1000.0, with.quantile(0.0) / 1000.0);
    println!("  {without:.2} s without it, {with:.2} s with it");
    figures.set("first_sync_without_webhook_seconds", without);
    figures.set("first_sync_with_hanging_webhook_seconds", with);
    let text = format!(
        "{with:.2} s, without it {without:.2} s; at most {HANGING_FACTOR} ×: {}",
        verdict(with <= HANGING_FACTOR * without)
    );
    figures.line("first sync while a webhook hangs", text);
    Ok(())
}

const CONFIGURATION_KIND: &str = "resourceinterpreterwebhookconfigurations";
const SILENT: &str = "silent";

fn silent_configuration(url: &str) -> Result<String> {
    let authority = Authority::new("silent-ca")?;
    let bundle = STANDARD.encode(authority.pem());
    Ok(json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": { "name": SILENT },
        "webhooks": [{
            "name": "pods.example.com",
            "rules": [{ "operations": ["InterpretHealth"], "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["Pod"] }],
            "clientConfig": { "url": url, "caBundle": bundle },
            "interpreterContextVersions": ["v1alpha1"],
        }],
    })
    .to_string())
}

/// Milliseconds from process start to the last document acknowledged.
async fn first_sync(fleet: &Fleet, sizes: &Sizes, prefix: &str) -> Result<f64> {
    let run = Run::start(fleet, CLUSTER, prefix).await?;
    run.until_indexed(sizes.pods).await?;
    let took = run.started.elapsed().as_secs_f64() * 1000.0;
    run.finish().await?;
    Ok(took)
}
