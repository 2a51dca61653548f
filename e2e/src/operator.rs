//! `fleetdex run` as a child process, started as users start it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Output},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    arguments::Arguments,
    fleet::{
        Fleet,
        ports::Port,
        process::{Guard, Process, Start},
        unique,
    },
    http,
    poll::eventually,
};

/// Linux counts processor time in hundredths of a second, on every architecture that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// `/proc/<pid>/stat` counts fields from 1 with the process id; these two are user and system time.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;

/// Placeholder for the port of the query API, which is chosen when the operator starts.
pub const API_PORT: &str = "{api-port}";

/// How to start the operator.
#[derive(Debug, Clone, Default)]
pub struct OperatorOptions {
    /// The control plane's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The folder of its log and token file, such as [`Fleet::dir`](crate::fleet::Fleet::dir).
    pub dir: PathBuf,
    /// Additional flags, in which [`API_PORT`] is replaced by the port of the query API.
    pub arguments: Vec<String>,
    /// Environment variables. `FLEETDEX_*` variables of this process are not inherited.
    pub environment: Vec<(String, String)>,
}

impl OperatorOptions {
    /// For the control plane of a fleet, with its log in the fleet's folder.
    pub fn of(fleet: &Fleet) -> Self {
        Self {
            kubeconfig: fleet.control_plane().kubeconfig(),
            dir: fleet.dir().to_owned(),
            ..Self::default()
        }
    }
}

/// A `fleetdex run`. It is killed when dropped, and when this process ends in any way.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    admin: Port,
    api: Port,
    token_file: PathBuf,
    _guard: Guard,
}

/// The result of a command.
#[derive(Debug, Clone)]
pub struct CommandResult {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl CommandResult {
    /// The result of a program that has ended.
    pub(crate) fn of(output: &Output) -> Result<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code();
        Ok(Self {
            code: code.context("fleetdex was ended by a signal")?,
            out: text(&output.stdout),
            err: text(&output.stderr),
        })
    }
}

/// Resource usage of a process so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// The most memory that was resident at any time.
    pub peak_memory_bytes: u64,
    /// The memory that is resident now.
    pub memory_bytes: u64,
    /// User and system time.
    pub cpu_seconds: f64,
}

impl Operator {
    /// Starts it without waiting; see [`wait_ready`](Self::wait_ready).
    pub fn start(options: OperatorOptions) -> Result<Self> {
        let guard = Guard::start(&[])?;
        let (admin, api) = (Port::reserve()?, Port::reserve()?);
        let name = unique("operator");
        let token_file = options.dir.join(format!("{name}.token"));
        let mut arguments = usual_arguments(&options.kubeconfig, &admin, &api, &token_file);
        let port = api.number().to_string();
        arguments.extend(
            options
                .arguments
                .iter()
                .map(|argument| argument.replace(API_PORT, &port)),
        );
        let start = Start {
            program: fleetdex_program()?,
            arguments,
            environment: options.environment,
            user: None,
            folder: options.dir.clone(),
        };
        let log = options.dir.join(format!("{name}.log"));
        let process = Process::new(&name, start, log, guard.group());
        process.spawn()?;
        Ok(Self {
            process,
            admin,
            api,
            token_file,
            _guard: guard,
        })
    }

    /// `http://127.0.0.1:<port>` of health checks and metrics; the same over restarts.
    pub fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin.number())
    }

    /// `127.0.0.1:<port>` of the query API; the same over restarts.
    pub fn api_address(&self) -> String {
        format!("127.0.0.1:{}", self.api.number())
    }

    /// The file with that token, for `fleetdex get`.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// The bearer token for the query API, once the operator has written it.
    pub fn token(&self) -> Result<String> {
        let token = fs::read_to_string(&self.token_file);
        let token = token.with_context(|| format!("reading {}", self.token_file.display()))?;
        Ok(token.trim().to_owned())
    }

    /// Runs a `fleetdex` command with these arguments against this operator.
    pub async fn run_command(
        &self,
        arguments: &(impl Arguments + ?Sized),
    ) -> Result<CommandResult> {
        let arguments = arguments.words();
        let mut command = tokio::process::Command::new(fleetdex_program()?);
        command
            .args(&arguments)
            .env("FLEETDEX_SERVER", format!("http://{}", self.api_address()));
        let output = command
            .env("FLEETDEX_TOKEN_FILE", &self.token_file)
            .kill_on_drop(true)
            .output()
            .await;
        let output = output.with_context(|| format!("running fleetdex {}", arguments.join(" ")))?;
        CommandResult::of(&output)
    }

    /// A link to the web page that signs in once, as `fleetdex ui` prints it.
    pub async fn page_link(&self) -> Result<String> {
        let result = self.run_command("ui --no-open").await?;
        ensure!(result.code == 0, "fleetdex ui: {}", result.err);
        Ok(result.out.trim().to_owned())
    }

    /// The process, to read its log, pause it, or wait until it exits.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until `/readyz` returns 200; fails with the last response and the end of the log.
    pub async fn wait_ready(&self, deadline: Duration) -> Result<()> {
        let ready = eventually("the operator is ready", deadline, || self.ready_once());
        ready.await.with_context(|| self.process.log_tail(40))
    }

    async fn ready_once(&self) -> Result<()> {
        self.process.check_running()?;
        self.admin_get("readyz").await.map(drop)
    }

    /// The body of `/readyz`; an error unless the status is 200.
    pub async fn readiness(&self) -> Result<String> {
        self.admin_get("readyz").await
    }

    /// The Prometheus text of `/metrics`.
    pub async fn metrics(&self) -> Result<String> {
        self.admin_get("metrics").await
    }

    /// The sum of all samples of a metric whose labels contain `labels` (such as
    /// `cluster="member1"`; empty: all).
    pub async fn metric(&self, name: &str, labels: &str) -> Result<f64> {
        sum_of_samples(&self.metrics().await?, name, labels)
    }

    /// As [`metric`](Self::metric); 0 if there is no such sample.
    pub async fn count_of(&self, name: &str, labels: &str) -> Result<f64> {
        Ok(sum_of_samples(&self.metrics().await?, name, labels).unwrap_or(0.0))
    }

    async fn admin_get(&self, path: &str) -> Result<String> {
        let url = format!("{}/{path}", self.admin_url());
        let request = http::client(None)?
            .get(&url)
            .timeout(Duration::from_secs(5));
        let response = request.send().await.with_context(|| format!("GET {url}"))?;
        let status = response.status();
        let text = response
            .text()
            .await
            .with_context(|| format!("GET {url}"))?;
        ensure!(status.is_success(), "GET {url}: {status}: {text}");
        Ok(text)
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// SIGTERM, and waits at most `deadline` for its end.
    pub async fn terminate(&self, deadline: Duration) -> Result<ExitStatus> {
        self.process.terminate(deadline).await
    }

    /// Restarts it with the same flags and ports; kills it first if it runs.
    pub fn restart(&self) -> Result<()> {
        self.process.kill();
        self.process.spawn()
    }

    /// [Restarts](Self::restart) it, and waits until it is ready.
    pub async fn restart_until_ready(&self, deadline: Duration) -> Result<()> {
        self.restart()?;
        self.wait_ready(deadline).await
    }

    /// The memory and the processor time of the running program since its last start.
    pub fn usage(&self) -> Result<Usage> {
        let pid = self.process.pid();
        usage_of(pid.with_context(|| format!("{} is not running", self.process.name()))?)
    }
}

/// The default flags of `fleetdex run`.
fn usual_arguments(kubeconfig: &Path, admin: &Port, api: &Port, token_file: &Path) -> Vec<String> {
    vec![
        "run".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--admin-address=127.0.0.1:{}", admin.number()),
        format!("--api-address=127.0.0.1:{}", api.number()),
        format!("--token-file={}", token_file.display()),
    ]
}

/// `FLEETDEX_BIN`, or the program that cargo has built beside this one.
pub fn fleetdex_program() -> Result<PathBuf> {
    if let Some(path) = env::var_os("FLEETDEX_BIN").map(PathBuf::from) {
        ensure!(
            path.is_file(),
            "FLEETDEX_BIN is {}, which is no file",
            path.display()
        );
        return fs::canonicalize(&path).with_context(|| format!("finding {}", path.display()));
    }
    built_program("fleetdex").context("and FLEETDEX_BIN is not set")
}

/// A program of this repository that cargo has built beside this one.
pub fn built_program(name: &str) -> Result<PathBuf> {
    let ourselves = env::current_exe().context("finding this program")?;
    // Test programs are one folder below the others.
    let folders = ourselves.ancestors().skip(1).take(2);
    let program = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    program.with_context(|| {
        format!(
            "there is no {name} beside {}: run `cargo build --workspace --bins` first",
            ourselves.display()
        )
    })
}

/// The memory and the processor time of any process of this machine.
pub fn usage_of(pid: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        fs::read_to_string(&path).with_context(|| format!("reading {path}"))
    };
    let (status, stat) = (read("status")?, read("stat")?);
    let (_, after_name) = stat
        .rsplit_once(')')
        .context("an unknown format of /proc/<pid>/stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or_default()
    };
    Ok(Usage {
        peak_memory_bytes: memory(&status, "VmHWM:")?,
        memory_bytes: memory(&status, "VmRSS:")?,
        cpu_seconds: (ticks(USER_TIME) + ticks(SYSTEM_TIME)) / TICKS_PER_SECOND,
    })
}

fn memory(status: &str, field: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes =
        line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kibibytes.with_context(|| format!("no {field} in /proc/<pid>/status"))? * 1024)
}

/// The sum of all samples of a metric, in the Prometheus text of `/metrics`, whose labels contain
/// `labels`; fails when there is none.
pub fn sum_of_samples(metrics: &str, name: &str, labels: &str) -> Result<f64> {
    let samples = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (series, value) = rest.rsplit_once(' ')?;
        let is_this_metric = series.is_empty() || series.starts_with('{');
        (is_this_metric && series.contains(labels)).then(|| value.parse::<f64>().ok())?
    });
    let values: Vec<f64> = samples.collect();
    ensure!(
        !values.is_empty(),
        "no sample of {name}{{{labels}}} in the metrics"
    );
    Ok(values.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operators are started without variables, too.
    #[test]
    fn the_image_sets_no_variable() {
        let image = include_str!("../../Dockerfile").lines();
        let set = image.filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
        // The first stage compiles the program.
        let set = set.filter(|(name, _)| !["PATH", "RUSTUP_TOOLCHAIN"].contains(name));
        assert_eq!(set.collect::<Vec<_>>(), []);
    }

    #[test]
    fn the_usage_of_this_process_can_be_read() {
        let usage = usage_of(std::process::id()).unwrap();
        assert!(
            usage.memory_bytes > 1_000_000 && usage.peak_memory_bytes >= usage.memory_bytes,
            "{usage:?}"
        );
        assert!(usage.cpu_seconds < 3_600.0, "{usage:?}");
    }

    #[test]
    fn samples_of_one_metric_are_summed_over_labels() {
        let metrics = "# HELP a x\na_total{c=\"1\"} 2\na_total{c=\"2\"} 3.5\na_total_more 9\nb 1\n";
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(close(sum_of_samples(metrics, "a_total", "").unwrap(), 5.5));
        assert!(close(
            sum_of_samples(metrics, "a_total", "c=\"2\"").unwrap(),
            3.5
        ));
        assert!(close(sum_of_samples(metrics, "b", "").unwrap(), 1.0));
        assert!(sum_of_samples(metrics, "c", "").is_err());
    }
}
