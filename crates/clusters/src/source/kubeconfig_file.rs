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
                    write(&writer, &now, &selected);
                    last = Some(now);
                }
            }
        }
        sleep(INTERVAL).await;
    }
}

fn write(writer: &SourceWriter, now: &KubeconfigContexts, selected: &[String]) {
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
    writer.report_missing(unusable(now, selected));
}

/// Which of the selected contexts are no members, and why.
fn unusable(now: &KubeconfigContexts, selected: &[String]) -> Option<String> {
    let (absent, fleets) = (now.absent.join(", "), now.fleets.join(", "));
    let mut problems = Vec::new();
    if !absent.is_empty() {
        problems.push(format!(
            "there is no such context in the kubeconfig: {absent}"
        ));
    }
    if !fleets.is_empty() && selected.is_empty() {
        tracing::debug!(contexts = %fleets, "skipped contexts whose server is a fleet");
    } else if !fleets.is_empty() {
        problems.push(format!(
            "the server of these contexts is a fleet instead of a cluster, name other contexts: {fleets}"
        ));
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selected_context_that_is_no_member_is_reported_with_the_reason() {
        let fleet = KubeconfigContexts {
            fleets: vec!["fleet".to_owned()],
            ..KubeconfigContexts::default()
        };
        assert_eq!(unusable(&fleet, &[]), None);
        let both = KubeconfigContexts {
            absent: vec!["gone".to_owned()],
            ..fleet
        };
        insta::assert_snapshot!(
            unusable(&both, &["fleet".to_owned(), "gone".to_owned()]).unwrap(),
            @"there is no such context in the kubeconfig: gone; the server of these contexts is a fleet instead of a cluster, name other contexts: fleet"
        );
    }
}
