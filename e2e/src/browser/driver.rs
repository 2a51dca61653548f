//! A ChromeDriver process, and its WebDriver session with one Chromium.
//!
//! Both processes are in a process group that is killed when the driver is dropped, also after a
//! failed test.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use reqwest::{Method, Url};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    fleet::{
        dir::{FleetDir, scratch_folder},
        ports::Port,
        process::{Guard, Process, Start},
        ready,
    },
    http,
    parts::{Chromium, Part},
};

/// How long a page may take to load, and a script to end.
const PAGE_DEADLINE: Duration = Duration::from_secs(30);
/// How long an answer of ChromeDriver may take: longer than what it waits for in the page.
const ANSWER_DEADLINE: Duration = Duration::from_mins(1);
/// Far beyond what Chromium takes to start on a machine that compiles at the same time.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// Chromium as root, and without requests of its own. Pages under test come from this machine, so
/// the sandbox, which root cannot have, protects nothing. No name but localhost is resolved: a
/// request to another host fails without leaving the machine.
const CHROMIUM_ARGUMENTS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
];

/// A browser's session. The order of the fields is that of the end: the driver, its browser, and
/// then what both have used.
#[derive(Debug)]
pub(super) struct Driver {
    _process: Process,
    _guard: Guard,
    _port: Port,
    _dir: FleetDir,
    client: reqwest::Client,
    session: Url,
}

/// An entry of one of the browser's logs.
#[derive(Debug, Deserialize)]
pub(super) struct LogEntry {
    pub(super) level: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) source: String,
}

#[derive(Deserialize)]
struct Answer<T> {
    value: T,
}

#[derive(Deserialize)]
struct Failure {
    error: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewSession {
    session_id: String,
}

impl Driver {
    /// Starts ChromeDriver and, through it, Chromium with an empty profile. Installs both if they
    /// are missing.
    pub(super) async fn start(accept_any_certificate: bool) -> Result<Self> {
        let chromium = tokio::task::spawn_blocking(chromium)
            .await
            .context("finding Chromium")??;
        let dir = FleetDir::claim_of("browser")?;
        let scratch = scratch_folder()?;
        let guard = Guard::start(std::slice::from_ref(&scratch))?;
        let port = Port::reserve()?;
        let start = Start {
            program: chromium.driver,
            arguments: vec![format!("--port={}", port.number())],
            folder: scratch.clone(),
            ..Start::default()
        };
        let log = dir.path.join("chromedriver.log");
        let process = Process::new("chromedriver", start, log, guard.group());
        process.spawn()?;
        let client = http::client(None)?;
        let server = format!("http://127.0.0.1:{}", port.number());
        let status = format!("{server}/status");
        ready::wait(&process, || client.get(&status).timeout(ANSWER_DEADLINE)).await?;
        let capabilities = capabilities(&chromium.browser, &scratch, accept_any_certificate);
        let session = new_session(&client, &server, &capabilities)
            .await
            .with_context(|| format!("starting Chromium\n{}", process.log_tail(30)))?;
        Ok(Self {
            _process: process,
            _guard: guard,
            _port: port,
            _dir: dir,
            client,
            session,
        })
    }

    /// Reads what is at `path` of the session.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::GET, path, None).await
    }

    /// Runs the command at `path` of the session.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Deletes what is at `path` of the session.
    pub(super) async fn delete(&self, path: &str) -> Result<()> {
        self.call(Method::DELETE, path, None).await
    }

    /// Runs the body of a JavaScript function in the page. The page's content security policy does
    /// not apply to it.
    pub(super) async fn execute<T: DeserializeOwned>(
        &self,
        script: &str,
        arguments: &Value,
    ) -> Result<T> {
        let body = json!({ "script": script, "args": arguments });
        self.post("execute/sync", &body).await
    }

    /// As [`execute`](Self::execute), and waits for the function that the script gets as its last
    /// argument to be called with the result.
    pub(super) async fn execute_async<T: DeserializeOwned>(&self, script: &str) -> Result<T> {
        self.post("execute/async", &json!({ "script": script, "args": [] }))
            .await
    }

    /// Runs a command of the Chrome DevTools protocol.
    pub(super) async fn devtools(&self, command: &str, parameters: Value) -> Result<Value> {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("goog/cdp/execute", &body).await
    }

    /// The entries of a log, `browser` or `performance`, since the last call.
    pub(super) async fn log(&self, kind: &str) -> Result<Vec<LogEntry>> {
        self.post("se/log", &json!({ "type": kind })).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let url = self.session.join(path).context("a command's path")?;
        let request = self.client.request(method, url).timeout(ANSWER_DEADLINE);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        answer(request)
            .await
            .with_context(|| format!("WebDriver command {path}"))
    }
}

/// Blocks while it installs the programs.
fn chromium() -> Result<Chromium> {
    Part::Chromium.ensure()?;
    Chromium::find()?.context("Chromium was removed")
}

fn capabilities(browser: &Path, scratch: &Path, accept_any_certificate: bool) -> Value {
    let profile = format!("--user-data-dir={}", scratch.join("profile").display());
    let mut arguments = CHROMIUM_ARGUMENTS.to_vec();
    arguments.push(&profile);
    let page = PAGE_DEADLINE.as_millis();
    json!({
        "browserName": "chrome",
        "acceptInsecureCerts": accept_any_certificate,
        "timeouts": { "implicit": 0, "pageLoad": page, "script": page },
        "goog:chromeOptions": { "binary": browser, "args": arguments },
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
    })
}

/// Returns the URL below which the session's commands are.
async fn new_session(client: &reqwest::Client, server: &str, wanted: &Value) -> Result<Url> {
    let request = client
        .post(format!("{server}/session"))
        .json(&json!({ "capabilities": { "alwaysMatch": wanted } }))
        .timeout(START_DEADLINE);
    let session: NewSession = answer(request).await?;
    let url = format!("{server}/session/{}/", session.session_id);
    Url::parse(&url).context("the session's URL")
}

async fn answer<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T> {
    let response = request.send().await.context("asking ChromeDriver")?;
    let is_success = response.status().is_success();
    let body = response.bytes().await.context("reading an answer")?;
    if is_success {
        let answer: Answer<T> = serde_json::from_slice(&body).context("parsing an answer")?;
        return Ok(answer.value);
    }
    let failure: Answer<Failure> = serde_json::from_slice(&body).context("parsing an error")?;
    let Failure { error, message } = failure.value;
    bail!("{error}: {}", message.lines().next().unwrap_or_default())
}
