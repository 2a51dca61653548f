//! Whether the process is ready to serve, and if not, why.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use parking_lot::RwLock;

/// Named checks, with a reason for each that fails. Clones share the checks.
///
/// A process without any check has not started yet, and is not ready.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<RwLock<BTreeMap<String, CheckState>>>);

#[derive(Clone, Debug)]
enum CheckState {
    Passes,
    /// Something is wrong, but the process can serve.
    Degraded(String),
    Fails(String),
}

impl Readiness {
    /// Readiness without any check: not ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// The check passes.
    pub fn ready(&self, check: &str) {
        self.set(check, CheckState::Passes);
    }

    /// The check fails because of `reason`. Everyone who reaches the port can read the reason, so
    /// it holds no secrets.
    pub fn not_ready(&self, check: &str, reason: impl Into<String>) {
        self.set(check, CheckState::Fails(reason.into()));
    }

    /// The check passes, but is degraded because of `reason`, which is shown like that of
    /// [`Self::not_ready`].
    pub fn degraded(&self, check: &str, reason: impl Into<String>) {
        self.set(check, CheckState::Degraded(reason.into()));
    }

    /// Removes the check, for example because what it checks was removed.
    pub fn forget(&self, check: &str) {
        self.0.write().remove(check);
    }

    /// Whether every check passes.
    pub fn is_ready(&self) -> bool {
        let checks = self.0.read();
        !checks.is_empty()
            && checks
                .values()
                .all(|check| !matches!(check, CheckState::Fails(_)))
    }

    /// One line for each check in the format of Kubernetes' components, then the overall result.
    pub fn report(&self) -> String {
        self.report_with(ToOwned::to_owned)
    }

    /// The same without reasons, as Kubernetes' components print it.
    pub fn report_without_reasons(&self) -> String {
        self.report_with(|_| "reason withheld".to_owned())
    }

    fn report_with(&self, shown: impl Fn(&str) -> String) -> String {
        let checks = self.0.read();
        if checks.is_empty() {
            return "[-]start: nothing has started yet\nreadyz check failed\n".to_owned();
        }
        let mut report = String::new();
        let mut passed = true;
        for (check, state) in checks.iter() {
            let line = match state {
                CheckState::Passes => writeln!(report, "[+]{check} ok"),
                CheckState::Degraded(reason) => {
                    writeln!(report, "[+]{check} degraded: {}", shown(reason))
                }
                CheckState::Fails(reason) => {
                    passed = false;
                    writeln!(report, "[-]{check} failed: {}", shown(reason))
                }
            };
            debug_assert!(line.is_ok(), "writing to a String cannot fail");
        }
        report.push_str(if passed {
            "readyz check passed\n"
        } else {
            "readyz check failed\n"
        });
        report
    }

    fn set(&self, check: &str, state: CheckState) {
        self.0.write().insert(check.to_owned(), state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_once_it_has_checks_and_all_of_them_pass() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        readiness.not_ready("store", "cannot reach OpenSearch");
        readiness.ready("api");
        assert!(!readiness.is_ready());
        assert_eq!(
            readiness.report(),
            "[+]api ok\n[-]store failed: cannot reach OpenSearch\nreadyz check failed\n"
        );
        assert_eq!(
            readiness.report_without_reasons(),
            "[+]api ok\n[-]store failed: reason withheld\nreadyz check failed\n"
        );
        readiness.clone().ready("store");
        assert!(readiness.is_ready());
        assert_eq!(
            readiness.report(),
            "[+]api ok\n[+]store ok\nreadyz check passed\n"
        );
        readiness.degraded("store", "one of two nodes is down");
        assert!(readiness.is_ready());
        assert_eq!(
            readiness.report(),
            "[+]api ok\n[+]store degraded: one of two nodes is down\nreadyz check passed\n"
        );
        readiness.forget("store");
        assert!(readiness.is_ready());
    }
}
