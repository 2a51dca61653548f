//! `fleetdex dashboards install`: imports the saved objects.

use std::time::Duration;

use fleetdex_cli::console::{CommandError, Console};
use fleetdex_dashboards::ndjson;
use fleetdex_query_api::percent;
use reqwest::{Client, Response, header};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    error::DashboardsError,
    import::ImportResponse,
    login::{DashboardsLogin, LoginArgs},
    objects::ObjectArgs,
};

/// Dashboards writes some forty objects in about a second; the first time it may create an index.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The pause between attempts of --wait.
const RETRY: Duration = Duration::from_secs(2);
/// A response names each object once.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// Bytes of a message of Dashboards that are shown.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Separates the parts of the upload; no object contains it.
const BOUNDARY: &str = "fleetdex-saved-objects-9d3f5b7a";

/// Creates or replaces the saved objects.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For example: fleetdex dashboards install --url https://dashboards.example.com --user admin --password-file password.txt"
)]
pub struct InstallArgs {
    /// Where Dashboards is.
    #[command(flatten)]
    pub login: LoginArgs,

    /// Tenant of the security plugin: global, private, or a name; ignored without the plugin
    #[arg(long, value_name = "NAME", default_value = "global")]
    pub tenant: String,

    /// Id of the workspace, where workspaces are enabled
    #[arg(long, value_name = "ID")]
    pub workspace: Option<String>,

    /// Fail if any of the objects exists, and change nothing, instead of replacing them
    #[arg(long)]
    pub no_overwrite: bool,

    /// Try again for as long as Dashboards cannot be reached or is not ready, at most this many
    /// seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u64,

    /// The objects.
    #[command(flatten)]
    pub objects: ObjectArgs,
}

/// Imports the objects and reports how many there are.
pub(super) async fn install(
    args: &InstallArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    if header::HeaderValue::from_str(&args.tenant).is_err() {
        let problem = format!(
            "--tenant {:?} has characters that no tenant has",
            args.tenant
        );
        return Err(CommandError::Usage(problem));
    }
    let url = args.login.base_url()?;
    let objects = args.objects.objects();
    if args.login.is_exposed() {
        console.warn("the password is sent without encryption; use https")?;
    }
    let upload = Upload {
        client: args.login.client()?,
        url: args.import_url()?,
        login: args.login.login()?,
        tenant: args.tenant.clone(),
        body: multipart(&ndjson(&objects)),
    };
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    let response = loop {
        match upload.send().await {
            Err(error) if error.is_temporary() && Instant::now() < deadline => sleep(RETRY).await,
            ended => break ended?,
        }
    };
    let total = objects.len();
    if !response.errors.is_empty() || !response.success {
        let refused = response.errors;
        return Err(DashboardsError::Refused {
            url,
            refused,
            total,
        }
        .into());
    }
    let imported = response.success_results.len();
    if imported != total {
        return Err(DashboardsError::Incomplete {
            url,
            imported,
            total,
        }
        .into());
    }
    let replaced = response
        .success_results
        .iter()
        .filter(|object| object.overwrite);
    writeln!(
        console.out,
        "Imported {total} objects into {url} (tenant {}): {} are new, {} replaced earlier ones.",
        args.tenant,
        total - replaced.clone().count(),
        replaced.count()
    )?;
    Ok(true)
}

impl InstallArgs {
    fn import_url(&self) -> Result<String, DashboardsError> {
        let base = self.login.base_url()?;
        let workspace = self
            .workspace
            .as_ref()
            .map_or_else(String::new, |id| format!("/w/{}", percent::encode(id)));
        let overwrite = if self.no_overwrite {
            ""
        } else {
            "?overwrite=true"
        };
        Ok(format!(
            "{base}{workspace}/api/saved_objects/_import{overwrite}"
        ))
    }
}

/// An import that can be sent again.
struct Upload {
    client: Client,
    url: String,
    login: Option<DashboardsLogin>,
    tenant: String,
    body: String,
}

impl Upload {
    async fn send(&self) -> Result<ImportResponse, DashboardsError> {
        let mut request = self
            .client
            .post(&self.url)
            .timeout(TIMEOUT)
            // Dashboards refuses changes without it. Its value does not matter.
            .header("osd-xsrf", "true")
            // Without it, the plugin prefers the private tenant of the user.
            .header("securitytenant", &self.tenant)
            .header(
                header::CONTENT_TYPE,
                format!("multipart/form-data; boundary={BOUNDARY}"),
            )
            .body(self.body.clone());
        if let Some(login) = &self.login {
            request = request.basic_auth(&login.user, Some(&login.password));
        }
        let response = request
            .send()
            .await
            .map_err(|source| self.unreachable(source))?;
        let status = response.status().as_u16();
        let bytes = self.bytes(response).await?;
        if status != 200 {
            return Err(self.refusal(status, &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|error| self.odd_response(&error.to_string()))
    }

    async fn bytes(&self, mut response: Response) -> Result<Vec<u8>, DashboardsError> {
        let mut bytes = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|source| self.unreachable(source))?
        {
            bytes.extend_from_slice(&piece);
            if bytes.len() > MAX_RESPONSE_BYTES {
                let problem = format!("the response has more than {MAX_RESPONSE_BYTES} bytes");
                return Err(self.odd_response(&problem));
            }
        }
        Ok(bytes)
    }

    fn unreachable(&self, source: reqwest::Error) -> DashboardsError {
        DashboardsError::Unreachable {
            url: self.url.clone(),
            // The message above names it.
            source: source.without_url(),
        }
    }

    fn odd_response(&self, problem: &str) -> DashboardsError {
        DashboardsError::Response {
            url: self.url.clone(),
            problem: problem.to_owned(),
        }
    }

    /// The error of a response with another status than 200.
    fn refusal(&self, status: u16, body: &[u8]) -> DashboardsError {
        let parsed: Option<Value> = serde_json::from_slice(body).ok();
        let message = parsed
            .as_ref()
            .and_then(|body| body["message"].as_str())
            .map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
        let end = message.floor_char_boundary(MAX_MESSAGE_BYTES);
        DashboardsError::Status {
            url: self.url.clone(),
            status,
            message: message[..end].trim().to_owned(),
            advice: advice(status, self.login.is_some()),
        }
    }
}

impl DashboardsError {
    /// Whether it may be gone in a moment, as while Dashboards starts.
    fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Status {
                    status: 502..=504,
                    ..
                }
        )
    }
}

fn advice(status: u16, has_user: bool) -> &'static str {
    match (status, has_user) {
        (401 | 302 | 303, false) => "; name a user with --user",
        (401 | 302 | 303, true) => "; check --user and the password",
        (403, _) => "; the user needs the permission kibana_all_write on the tenant",
        (404, _) => "; does --url have the base path of Dashboards, and is --workspace right?",
        (502..=504, _) => "; is Dashboards still starting? --wait 120 tries for two minutes",
        _ => "",
    }
}

/// The file as the one part of a form. Dashboards looks at the end of the file's name.
fn multipart(file: &str) -> String {
    format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"fleetdex.ndjson\"\r\n\
         Content-Type: application/x-ndjson\r\n\r\n{file}\r\n--{BOUNDARY}--\r\n"
    )
}

#[cfg(test)]
mod tests;
