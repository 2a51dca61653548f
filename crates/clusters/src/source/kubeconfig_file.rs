//! Members described by the contexts of a kubeconfig file. The file is polled, so that added and
//! removed contexts take effect.

use std::{collections::BTreeMap, convert::Infallible, path::PathBuf, time::Duration};

use tokio::time::sleep;

use super::{
    aggregator::{SourceEntry, SourceWriter},
    contexts::{KubeconfigContexts, contexts},
    load::read_kubeconfig,
};

/// Time between two reads of the file.
const INTERVAL: Duration = Duration::from_secs(5);

/// Polls a kubeconfig for all contexts, or for those in `selected`.
pub(super) async fn run(
    path: Option<PathBuf>,
    selected: Vec<String>,
    writer: SourceWriter,
) -> Infallible {
    let mut last: Option<KubeconfigContexts> = None;
    loop {
        match read_kubeconfig(path.as_deref()).await {
            Err(problem) => {
                writer.report_error(problem.to_string());
                last = None;
            }
            Ok(kubeconfig) => {
                let now = contexts(&kubeconfig, path.as_deref(), &selected);
                if last.as_ref() != Some(&now) {
                    write(&writer, &now);
                    last = Some(now);
                }
            }
        }
        sleep(INTERVAL).await;
    }
}

fn write(writer: &SourceWriter, now: &KubeconfigContexts) {
    let entry = |member| SourceEntry {
        member: Ok(member),
        cluster_object: None,
    };
    let entries: BTreeMap<String, SourceEntry> = now
        .members
        .iter()
        .map(|member| (member.name.to_string(), entry(member.clone())))
        .collect();
    writer.replace(entries);
    let absent = now.absent.join(", ");
    writer.report_missing(
        (!absent.is_empty())
            .then(|| format!("there is no such context in the kubeconfig: {absent}")),
    );
}
