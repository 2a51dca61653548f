//! `fleetdex ready`: whether a server is ready. The image has no other program that could ask, so
//! the chart's test runs this.

mod error;

use std::time::Duration;

use fleetdex_core::{model::causes, terminal::escaped};
use fleetdex_query_api::group::BASE;
use reqwest::{Client, redirect};
use tokio::time::{Instant, sleep, timeout};

pub use self::error::ReadyError;
use super::{
    ControlPlaneArgs,
    api::ApiserverClient,
    console::{CommandError, Console},
};

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between requests.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a report that are read: it has a line for each check.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// Asks whether a server is ready, and prints its checks.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadyArgs {
    /// URL of the admin port
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8080",
        env = "FLEETDEX_ADMIN_URL"
    )]
    pub admin_url: String,

    /// Also ask the control plane for the query API, which it forwards to the server
    #[arg(long)]
    pub query_api: bool,

    /// Seconds to wait until it is ready
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub timeout: u64,

    /// The control plane of --query-api.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Asks until the server is ready, or the time is over; the exit code is 1 then.
pub async fn ready(args: &ReadyArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let apiserver = if args.query_api {
        Some(args.control_plane.connect().await?)
    } else {
        None
    };
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    loop {
        match check(args, apiserver.as_ref()).await {
            Ok(report) => {
                write!(console.out, "{}", escaped(&report))?;
                return Ok(true);
            }
            Err(error) if Instant::now() >= deadline => return Err(error.into()),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Asks once; returns the checks that were passed.
async fn check(
    args: &ReadyArgs,
    apiserver: Option<&ApiserverClient>,
) -> Result<String, ReadyError> {
    let report = admin_report(&args.admin_url).await?;
    let Some(apiserver) = apiserver else {
        return Ok(report);
    };
    discover(apiserver, BASE).await?;
    Ok(format!("{report}{} serves {BASE}\n", apiserver.server))
}

/// The checks of the admin port.
async fn admin_report(admin_url: &str) -> Result<String, ReadyError> {
    let url = format!("{}/readyz", admin_url.trim_end_matches('/'));
    let unreachable = |source| ReadyError::Unreachable {
        url: url.clone(),
        source,
    };
    let client = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .timeout(TIMEOUT)
        .build()
        .map_err(ReadyError::Client)?;
    let mut response = client.get(&url).send().await.map_err(unreachable)?;
    let status = response.status();
    let mut report = Vec::new();
    while report.len() < MAX_REPORT_BYTES
        && let Some(piece) = response.chunk().await.map_err(unreachable)?
    {
        report.extend_from_slice(&piece);
    }
    report.truncate(MAX_REPORT_BYTES);
    let report = String::from_utf8_lossy(&report).into_owned();
    if status.is_success() {
        return Ok(report);
    }
    Err(ReadyError::NotReady {
        url,
        status: status.as_u16(),
        report,
    })
}

/// Reads the discovery of the group, which every authenticated account may.
async fn discover(apiserver: &ApiserverClient, path: &str) -> Result<(), ReadyError> {
    let failed = |problem: String| ReadyError::QueryApi {
        server: apiserver.server.clone(),
        path: path.to_owned(),
        problem,
    };
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| failed(error.to_string()))?;
    let response = timeout(TIMEOUT, apiserver.client.request_text(request)).await;
    let text = response
        .map_err(|_| failed(format!("no answer within {} s", TIMEOUT.as_secs())))?
        .map_err(|error| failed(causes(&error)))?;
    if text.contains("APIResourceList") {
        Ok(())
    } else {
        Err(failed("the answer is no list of resources".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, http::StatusCode, routing::get};
    use clap::Parser;

    use super::*;
    use crate::test_server::captured;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ReadyArgs,
    }

    async fn ask(status: StatusCode, report: &'static str) -> (bool, String, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().route("/readyz", get(async move || (status, report)));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let args = Command::parse_from(["ready", "--admin-url", &url]).args;
        captured(async |console: &mut Console<'_>| ready(&args, console).await).await
    }

    #[tokio::test]
    async fn the_checks_are_printed_and_decide_the_exit_code() {
        let (done, out, err) = ask(StatusCode::OK, "[+]trust ok\nreadyz check passed\n").await;
        assert!(done && err.is_empty(), "{err}");
        assert_eq!(out, "[+]trust ok\nreadyz check passed\n");
        let report = "[-]trust failed: no right\n";
        let (done, out, err) = ask(StatusCode::SERVICE_UNAVAILABLE, report).await;
        assert!(!done && out.is_empty(), "{out}");
        assert!(
            err.contains("answers 503") && err.contains("[-]trust failed: no right"),
            "{err}"
        );
    }
}
