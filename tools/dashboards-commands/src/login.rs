//! Where Dashboards is, and with which credentials it is used.

use std::{env, fs, net::IpAddr, path::PathBuf};

use reqwest::{Certificate, Client, Url, redirect};

use super::error::DashboardsError;

/// The variable with the password. A flag would show it to everybody on the machine.
pub(super) const PASSWORD_VARIABLE: &str = "FLEETDEX_DASHBOARDS_PASSWORD";

/// Where Dashboards is, and who uses it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Dashboards")]
#[expect(clippy::doc_markdown, reason = "these are the texts of --help")]
pub struct LoginArgs {
    /// URL of OpenSearch Dashboards, with its base path if it has one
    #[arg(long, value_name = "URL", env = "FLEETDEX_DASHBOARDS_URL")]
    pub url: String,

    /// User of Dashboards; the password is in --password-file or FLEETDEX_DASHBOARDS_PASSWORD
    #[arg(long, value_name = "NAME", env = "FLEETDEX_DASHBOARDS_USER")]
    pub user: Option<String>,

    /// File with the password of --user; a line break at its end is not part of it
    #[arg(long, value_name = "FILE", env = "FLEETDEX_DASHBOARDS_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,

    /// Trust the certificates of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", env = "FLEETDEX_DASHBOARDS_CA_FILE")]
    pub ca_file: Option<PathBuf>,
}

/// The user and the password.
#[derive(Clone)]
pub(super) struct DashboardsLogin {
    pub(super) user: String,
    pub(super) password: String,
}

impl LoginArgs {
    /// The URL below which the API is, without a slash at the end.
    pub(super) fn base_url(&self) -> Result<String, DashboardsError> {
        let problem = |url: &str, problem: &str| DashboardsError::Url {
            url: url.to_owned(),
            problem: problem.to_owned(),
        };
        // The text may hold a password, wherever it fails to parse.
        let url = Url::parse(&self.url).map_err(|error| problem("--url", &error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(problem(
                "--url",
                "use --user and --password-file instead of credentials in it",
            ));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(problem(
                url.as_str(),
                "it must begin with http:// or https://",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(problem(url.as_str(), "it must end with the path"));
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    /// Whether the password of a user would go over the network without encryption.
    pub(super) fn is_exposed(&self) -> bool {
        let Ok(url) = Url::parse(&self.url) else {
            return false;
        };
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = host == "localhost"
            || address
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        self.user.is_some() && url.scheme() == "http" && !is_here
    }

    /// Reads the password; `None` without a user.
    pub(super) fn login(&self) -> Result<Option<DashboardsLogin>, DashboardsError> {
        let Some(user) = self.user.clone() else {
            return Ok(None);
        };
        let password = match &self.password_file {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|source| DashboardsError::File {
                    what: "the password file",
                    path: path.clone(),
                    source,
                })?;
                text.trim_end_matches(['\n', '\r']).to_owned()
            }
            None => env::var(PASSWORD_VARIABLE).unwrap_or_default(),
        };
        if password.is_empty() {
            return Err(DashboardsError::NoPassword(user));
        }
        Ok(Some(DashboardsLogin { user, password }))
    }

    /// An HTTP client. It follows no redirects, so that the password stays with the host of the
    /// URL.
    pub(super) fn client(&self) -> Result<Client, DashboardsError> {
        let mut builder = Client::builder().redirect(redirect::Policy::none());
        let mut what = "the system".to_owned();
        if let Some(path) = &self.ca_file {
            what = path.display().to_string();
            let pem = fs::read(path).map_err(|source| DashboardsError::File {
                what: "the CA file",
                path: path.clone(),
                source,
            })?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|source| {
                DashboardsError::Certificates {
                    what: what.clone(),
                    source,
                }
            })?;
            builder = builder.tls_certs_only(certificates);
        }
        builder
            .build()
            .map_err(|source| DashboardsError::Certificates { what, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_exposed_by_plain_http_to_another_machine() {
        let is_exposed = |url: &str, user: Option<&str>| {
            let (url, user) = (url.to_owned(), user.map(str::to_owned));
            let (password_file, ca_file) = (None, None);
            LoginArgs {
                url,
                user,
                password_file,
                ca_file,
            }
            .is_exposed()
        };
        assert!(is_exposed("http://dashboards:5601", Some("admin")));
        assert!(!is_exposed("http://dashboards:5601", None));
        for url in [
            "https://dashboards",
            "http://localhost:5601",
            "http://127.0.0.1",
            "http://[::1]:5601",
        ] {
            assert!(!is_exposed(url, Some("admin")), "{url}");
        }
    }
}
