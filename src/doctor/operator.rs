//! Checks of a running operator, by its admin port: readiness, version, lag and certificates.

use std::time::Duration;

use fleetdex_core::model::causes;
use reqwest::{Client, StatusCode};

use super::measures::check_expiry;
use fleetdex_checks::result::Checks;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Below this, changes are as good as at once.
const LAG_WARNING: f64 = 60.0;

/// Checks the operator at this address, if there is one.
pub async fn check_operator(admin_url: &str) -> Checks {
    let mut checks = Checks::of("operator");
    let text = match get(admin_url, "metrics").await {
        Ok((_, text)) => text,
        Err(error) => {
            checks.skipped(
                "connection",
                format!("{admin_url} does not answer: {}", causes(&error.without_url())),
                "run this in its Pod (kubectl --namespace NAMESPACE exec deployment/fleetdex -- fleetdex doctor), or forward the port: kubectl --namespace NAMESPACE port-forward deployment/fleetdex 8080",
            );
            return checks;
        }
    };
    check_version(&mut checks, &text);
    match get(admin_url, "readyz").await {
        Ok((StatusCode::OK, report)) if report.contains(" degraded: ") => {
            let degraded: Vec<&str> = report
                .lines()
                .filter(|line| line.contains(" degraded: "))
                .collect();
            checks.warning(
                "readiness",
                degraded.join("; "),
                "the reasons say what is missing",
            );
        }
        Ok((StatusCode::OK, _)) => checks.ok("readiness", "every check passes"),
        Ok((_, report)) => {
            let failed: Vec<&str> = report
                .lines()
                .filter(|line| line.starts_with("[-]"))
                .collect();
            checks.error(
                "readiness",
                failed.join("; "),
                "the reasons say what is missing",
            );
        }
        Err(error) => checks.error("readiness", error.to_string(), "run this again"),
    }
    check_lag(&mut checks, &text);
    for (labels, not_after) in samples(&text, "fleetdex_certificate_expiry_timestamp_seconds") {
        if labels.contains("certificate=\"serving\"") {
            #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
            let not_after = not_after as i64;
            let action = "replace the files of --tls-cert-file; a certificate of its own authority is renewed by itself, unless /readyz says why not";
            check_expiry(&mut checks, "serving certificate", not_after, action);
        }
    }
    checks
}

fn check_version(checks: &mut Checks, text: &str) {
    let own = env!("CARGO_PKG_VERSION");
    let build = samples(text, "fleetdex_build_info");
    match build.first() {
        Some((labels, _)) if labels.contains(&format!("\"{own}\"")) => {
            checks.ok("version", format!("fleetdex {own}, as this program"));
        }
        Some((labels, _)) => checks.warning(
            "version",
            format!("the operator has {labels}, this program is {own}"),
            "use the program of the operator's version: its checks fit the operator",
        ),
        None => checks.error(
            "version",
            "the address does not serve the metrics of Fleetdex",
            "name the admin port of fleetdex run with --admin-url",
        ),
    }
}

fn check_lag(checks: &mut Checks, text: &str) {
    let lags = samples(text, "fleetdex_lag_seconds");
    let late: Vec<String> = lags
        .iter()
        .filter(|(_, lag)| *lag > LAG_WARNING)
        .map(|(labels, lag)| format!("{labels}: {lag:.0} s"))
        .collect();
    if late.is_empty() {
        checks.ok(
            "lag",
            format!(
                "less than {LAG_WARNING} s for each of {} clusters",
                lags.len()
            ),
        );
    } else {
        let action = "the book, page Operating, \"FleetdexLag\", says where to look";
        checks.warning("lag", late.join(", "), action);
    }
}

async fn get(admin_url: &str, path: &str) -> Result<(StatusCode, String), reqwest::Error> {
    let client = Client::builder().no_proxy().timeout(TIMEOUT).build()?;
    let url = format!("{}/{path}", admin_url.trim_end_matches('/'));
    let answer = client.get(url).send().await?;
    Ok((answer.status(), answer.text().await?))
}

/// The labels and values of a metric.
fn samples<'t>(text: &'t str, name: &str) -> Vec<(&'t str, f64)> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    lines
        .filter_map(|rest| rest.rsplit_once("} "))
        .filter_map(|(labels, value)| Some((labels, value.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_metric_are_read() {
        let text = "# TYPE a gauge\na{cluster=\"x\"} 1.5\nab{cluster=\"y\"} 2\na 3\n";
        assert_eq!(samples(text, "a"), [("cluster=\"x\"", 1.5)]);
    }
}
