//! Reports why `ResourceRegistry` objects cannot be listed or watched: in the log, on `/readyz` and
//! to users of the query API. Without the reason an answer would say that there is no registry.

use std::time::Duration;

use fleetdex_clusters::source::status_code;
use fleetdex_core::model::causes;
use fleetdex_crds::registry::ResourceRegistry;
use futures::FutureExt as _;
use kube::{Resource as _, runtime::watcher};

use super::{CHECK, reconciler::Reconciler};

/// How long one poll waits for the first list of the registries.
const POLL_TIMEOUT: Duration = Duration::from_millis(50);

impl Reconciler {
    /// Waits until the registries have been listed.
    ///
    /// Polls repeatedly: of several tasks that wait for one store of kube 5.0, only the one that
    /// polled last is woken.
    pub(super) async fn registries_read(&self) {
        while tokio::time::timeout(POLL_TIMEOUT, self.registries.wait_until_ready())
            .await
            .is_err()
        {}
    }

    /// Handles a failed list or watch of the registries, which kube repeats.
    pub(super) fn registries_unreadable(&self, error: &watcher::Error) {
        let problem = problem(error);
        let cause = causes(error);
        if self.failures.is_due(&cause) {
            tracing::warn!(
                problem,
                error = cause,
                "cannot read ResourceRegistry objects; it is retried"
            );
        }
        let was_read = self.registries.wait_until_ready().now_or_never().is_some();
        if !was_read {
            self.context
                .readiness
                .not_ready(CHECK, format!("{problem} ({cause})"));
            self.context.publish.registries_unread(&problem);
        }
    }
}

/// What is wrong, and what to do.
fn problem(error: &watcher::Error) -> String {
    let (plural, group) = (ResourceRegistry::plural(&()), ResourceRegistry::group(&()));
    match status_code(error) {
        Some(403) => format!(
            "fleetdex may not list and watch {plural} in API group {group}, so it does not know what to index: its service account needs the verbs list and watch on them"
        ),
        Some(404) => format!(
            "the control plane does not serve {plural} in API group {group}: install the CRDs with fleetdex crd apply"
        ),
        _ => format!("fleetdex cannot read {plural} in API group {group} yet; /readyz says why"),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16) -> watcher::Error {
        let status = Status {
            code,
            message: "refused".to_owned(),
            ..Status::default()
        };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_missing_right_is_named() {
        let text = problem(&refused(403));
        assert!(text.contains("the verbs list and watch"), "{text}");
        assert!(
            text.contains("resourceregistries in API group search."),
            "{text}"
        );
        assert!(problem(&refused(404)).contains("fleetdex crd apply"));
        assert!(!problem(&refused(500)).contains("verbs"));
        assert!(!causes(&refused(500)).contains("Status {"));
    }
}
