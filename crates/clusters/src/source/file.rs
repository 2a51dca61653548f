//! Members that the contexts of a kubeconfig file describe. The file is read again and again, so that contexts come and go with it.

use std::{collections::BTreeMap, convert::Infallible, path::PathBuf, time::Duration};

use tokio::time::sleep;

use super::{
    board::{Entry, Feed},
    contexts::{Contexts, contexts},
    load::read_kubeconfig,
};

/// From one look at the file to the next.
const INTERVAL: Duration = Duration::from_secs(5);

/// Follows a kubeconfig, or the `wanted` contexts of it.
pub(super) async fn run(path: Option<PathBuf>, wanted: Vec<String>, feed: Feed) -> Infallible {
    let mut seen: Option<Contexts> = None;
    loop {
        match read_kubeconfig(path.as_deref()).await {
            Err(problem) => {
                feed.trouble(problem.to_string());
                seen = None;
            }
            Ok(kubeconfig) => {
                let now = contexts(&kubeconfig, path.as_deref(), &wanted);
                if seen.as_ref() != Some(&now) {
                    tell(&feed, &now);
                    seen = Some(now);
                }
            }
        }
        sleep(INTERVAL).await;
    }
}

fn tell(feed: &Feed, now: &Contexts) {
    let entry = |member| Entry {
        member: Ok(member),
        cluster: None,
    };
    let entries: BTreeMap<String, Entry> = now
        .members
        .iter()
        .map(|member| (member.name.to_string(), entry(member.clone())))
        .collect();
    feed.replace(entries);
    let absent = now.absent.join(", ");
    feed.missing(
        (!absent.is_empty())
            .then(|| format!("there is no such context in the kubeconfig: {absent}")),
    );
}
