//! The settings of traces: the standard environment variables of OpenTelemetry.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/> and
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>. A variable that is set to nothing
//! is not set. Unlike these pages ask for, an invalid value is an error instead of a warning: an
//! operator that asked for traces would otherwise look for them in vain.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Duration,
};

use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

const PREFIX: &str = "OTEL_";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const ENDPOINT: VariableNames = VariableNames {
    of_traces: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    of_all: "OTEL_EXPORTER_OTLP_ENDPOINT",
};
const PROTOCOL: VariableNames = VariableNames {
    of_traces: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    of_all: "OTEL_EXPORTER_OTLP_PROTOCOL",
};
const HEADERS: VariableNames = VariableNames {
    of_traces: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    of_all: "OTEL_EXPORTER_OTLP_HEADERS",
};
const TIMEOUT: VariableNames = VariableNames {
    of_traces: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    of_all: "OTEL_EXPORTER_OTLP_TIMEOUT",
};
const COMPRESSION: VariableNames = VariableNames {
    of_traces: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    of_all: "OTEL_EXPORTER_OTLP_COMPRESSION",
};
const CERTIFICATE: VariableNames = VariableNames {
    of_traces: "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    of_all: "OTEL_EXPORTER_OTLP_CERTIFICATE",
};
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
/// The variables that concern traces, by their beginnings. Of these, one that is not read is
/// reported.
const CONCERN_TRACES: [&str; 5] = [
    "OTEL_EXPORTER_OTLP_TRACES_",
    "OTEL_TRACES_",
    "OTEL_BSP_",
    "OTEL_PROPAGATORS",
    "OTEL_EXPORTER_OTLP_CLIENT_",
];
/// The path of traces below an endpoint for all signals.
const TRACES_PATH: &str = "/v1/traces";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_TIMEOUT_MILLIS: u64 = 60_000;
const DEFAULT_SERVICE_NAME: &str = "fleetdex";

/// A setting for traces, and the one for all signals, which is used without the first.
#[derive(Clone, Copy)]
struct VariableNames {
    of_traces: &'static str,
    of_all: &'static str,
}

/// A variable has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {variable}: {problem}")]
pub struct TraceSettingsError {
    /// The variable.
    pub variable: String,
    /// What is wrong, and what is expected.
    pub problem: String,
}

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The part of the traces that begin here, from 0 to 1.
    pub ratio: f64,
    /// Whether a caller that records its trace makes this process record its part.
    pub follows_callers: bool,
}

/// Where traces go, and which.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// The URL that receives spans.
    pub endpoint: Uri,
    /// Headers of each request to it, such as a token.
    pub headers: HashMap<String, String>,
    /// How long one export may take.
    pub timeout: Duration,
    /// Whether requests are compressed.
    pub gzip: bool,
    /// A file with the PEM certificates to trust, instead of those of the system.
    pub certificate: Option<PathBuf>,
    /// Which traces are recorded.
    pub sampling: Sampling,
    /// `service.name`.
    pub service_name: String,
    /// More attributes of this process.
    pub resource: BTreeMap<String, String>,
    /// Variables about traces that are set and have no effect.
    pub without_effect: Vec<String>,
}

impl TraceSettings {
    /// Reads the environment of this process; `None`: no traces.
    pub fn from_environment() -> Result<Option<Self>, TraceSettingsError> {
        let mut variables = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            let value = value
                .into_string()
                .map_err(|_| invalid(name, "the value is not UTF-8"))?;
            variables.insert(name.to_owned(), value);
        }
        Self::of(&variables)
    }

    /// Reads these variables; `None`: no traces.
    fn of(variables: &BTreeMap<String, String>) -> Result<Option<Self>, TraceSettingsError> {
        let variables = Variables(variables);
        if variables.disabled()? {
            return Ok(None);
        }
        let Some(endpoint) = variables.endpoint()? else {
            return Ok(None);
        };
        variables.check_protocol()?;
        Ok(Some(Self {
            endpoint,
            headers: variables.headers()?,
            timeout: variables.timeout()?,
            gzip: variables.gzip()?,
            certificate: variables.either(CERTIFICATE).map(|(_, path)| path.into()),
            sampling: variables.sampling()?,
            service_name: variables
                .get(SERVICE_NAME)
                .unwrap_or(DEFAULT_SERVICE_NAME)
                .to_owned(),
            resource: variables.resource()?,
            without_effect: variables.without_effect(),
        }))
    }
}

/// The error of a certificate file, which is read after the settings.
pub(super) fn invalid_certificate(problem: impl Into<String>) -> TraceSettingsError {
    invalid(CERTIFICATE.of_all, problem)
}

/// The error of an endpoint that the exporter refuses.
pub(super) fn invalid_endpoint(problem: impl Into<String>) -> TraceSettingsError {
    invalid(ENDPOINT.of_all, problem)
}

fn invalid(variable: &str, problem: impl Into<String>) -> TraceSettingsError {
    TraceSettingsError {
        variable: variable.to_owned(),
        problem: problem.into(),
    }
}

fn unsupported(variable: &str, value: &str, supported: &str) -> TraceSettingsError {
    let problem = format!("{value:?} is not supported; use {supported}");
    invalid(variable, problem)
}

struct Variables<'v>(&'v BTreeMap<String, String>);

impl<'v> Variables<'v> {
    fn get(&self, name: &str) -> Option<&'v str> {
        let value = self.0.get(name)?.trim();
        Some(value).filter(|value| !value.is_empty())
    }

    /// The variable that decides, and its value.
    fn either(&self, names: VariableNames) -> Option<(&'static str, &'v str)> {
        [names.of_traces, names.of_all]
            .into_iter()
            .find_map(|name| Some((name, self.get(name)?)))
    }

    fn disabled(&self) -> Result<bool, TraceSettingsError> {
        let disabled = match self.get(DISABLED).map(str::to_ascii_lowercase).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let problem = format!("{other:?} is neither true nor false");
                return Err(invalid(DISABLED, problem));
            }
        };
        let exports = match self.get(EXPORTER) {
            None | Some("otlp") => true,
            Some("none") => false,
            Some(other) => return Err(unsupported(EXPORTER, other, "otlp or none")),
        };
        Ok(disabled || !exports)
    }

    fn endpoint(&self) -> Result<Option<Uri>, TraceSettingsError> {
        let Some((name, value)) = self.either(ENDPOINT) else {
            return Ok(None);
        };
        if value.contains('@') {
            // Not repeated: it holds a password.
            let advice = format!("send credentials by {}", HEADERS.of_all);
            let problem = format!("the URL holds a user or a password; {advice}");
            return Err(invalid(name, problem));
        }
        let example = "use a URL such as http://collector:4318";
        let url = if name == ENDPOINT.of_all {
            format!("{}{TRACES_PATH}", value.trim_end_matches('/'))
        } else {
            value.to_owned()
        };
        let endpoint: Uri = url
            .parse()
            .map_err(|error| invalid(name, format!("{value:?} is no URL: {error}; {example}")))?;
        if !matches!(endpoint.scheme_str(), Some("http" | "https")) || endpoint.host().is_none() {
            let problem = format!("{value:?} is no http or https URL; {example}");
            return Err(invalid(name, problem));
        }
        Ok(Some(endpoint))
    }

    fn check_protocol(&self) -> Result<(), TraceSettingsError> {
        match self.either(PROTOCOL) {
            None | Some((_, "http/protobuf")) => Ok(()),
            Some((name, other)) => {
                let supported = "http/protobuf, which collectors receive at port 4318";
                Err(unsupported(name, other, supported))
            }
        }
    }

    fn headers(&self) -> Result<HashMap<String, String>, TraceSettingsError> {
        let Some((name, value)) = self.either(HEADERS) else {
            return Ok(HashMap::new());
        };
        let mut headers = HashMap::new();
        for (position, pair) in pairs(value).enumerate() {
            // Values are not repeated: they are credentials.
            let wrong = |what: &str| {
                let entry = position + 1;
                let problem = format!("entry {entry} {what}; write name=value,name=value");
                invalid(name, problem)
            };
            let (key, value) =
                pair.ok_or_else(|| wrong("is no name=value in percent-encoded UTF-8"))?;
            let key: HeaderName = key.parse().map_err(|_| wrong("has no valid header name"))?;
            HeaderValue::from_str(&value).map_err(|_| wrong("has no valid header value"))?;
            headers.insert(key.as_str().to_owned(), value);
        }
        Ok(headers)
    }

    fn timeout(&self) -> Result<Duration, TraceSettingsError> {
        let Some((name, value)) = self.either(TIMEOUT) else {
            return Ok(DEFAULT_TIMEOUT);
        };
        let millis = value
            .parse()
            .ok()
            .filter(|millis| (1..=MAX_TIMEOUT_MILLIS).contains(millis));
        millis.map(Duration::from_millis).ok_or_else(|| {
            let expected = format!("a number of milliseconds from 1 to {MAX_TIMEOUT_MILLIS}");
            invalid(name, format!("{value:?} is not {expected}"))
        })
    }

    fn gzip(&self) -> Result<bool, TraceSettingsError> {
        match self.either(COMPRESSION) {
            None | Some((_, "none")) => Ok(false),
            Some((_, "gzip")) => Ok(true),
            Some((name, other)) => Err(unsupported(name, other, "gzip or none")),
        }
    }

    fn sampling(&self) -> Result<Sampling, TraceSettingsError> {
        let name = self.get(SAMPLER).unwrap_or("parentbased_always_on");
        let (follows_callers, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, name),
        };
        let ratio = match root {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.ratio()?,
            _ => {
                let supported =
                    "always_on, always_off or traceidratio, or one of them after parentbased_";
                return Err(unsupported(SAMPLER, name, supported));
            }
        };
        Ok(Sampling {
            ratio,
            follows_callers,
        })
    }

    fn ratio(&self) -> Result<f64, TraceSettingsError> {
        let Some(value) = self.get(SAMPLER_ARGUMENT) else {
            return Ok(1.0);
        };
        let ratio = value
            .parse()
            .ok()
            .filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.ok_or_else(|| {
            let problem = format!("{value:?} is no number from 0 to 1, such as 0.01");
            invalid(SAMPLER_ARGUMENT, problem)
        })
    }

    fn resource(&self) -> Result<BTreeMap<String, String>, TraceSettingsError> {
        let value = self.get(RESOURCE).unwrap_or_default();
        let attributes: Option<_> = pairs(value).collect();
        attributes.ok_or_else(|| {
            invalid(
                RESOURCE,
                format!("{value:?} is no list of name=value in percent-encoded UTF-8, separated by commas"),
            )
        })
    }

    fn without_effect(&self) -> Vec<String> {
        let read = [
            ENDPOINT.of_traces,
            PROTOCOL.of_traces,
            HEADERS.of_traces,
            TIMEOUT.of_traces,
            COMPRESSION.of_traces,
            CERTIFICATE.of_traces,
            EXPORTER,
            SAMPLER,
            SAMPLER_ARGUMENT,
        ];
        let names = self.0.keys().filter(|name| {
            let mut beginnings = CONCERN_TRACES.iter();
            beginnings.any(|beginning| name.starts_with(beginning))
                && self.get(name).is_some()
                && !read.contains(&name.as_str())
        });
        names.cloned().collect()
    }
}

/// The entries of `name=value,name=value` with percent-encoded values; `None` for one of another
/// form.
fn pairs(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    let entries = text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    entries.map(|entry| {
        let (name, value) = entry.split_once('=')?;
        let decoded = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), decoded.into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, TraceSettingsError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        TraceSettings::of(&variables.iter().map(owned).collect())
    }

    /// Settings with an endpoint and these variables.
    fn with(variables: &[(&str, &str)]) -> Result<TraceSettings, TraceSettingsError> {
        let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")];
        read(&[&endpoint, variables].concat()).map(Option::unwrap)
    }

    #[test]
    fn without_an_endpoint_or_when_disabled_there_are_no_traces() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("OTEL_TRACES_SAMPLER", "always_on")]).unwrap(), None);
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap(), None);
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert_eq!(read(&[endpoint, off]).unwrap(), None, "{off:?}");
        }
        assert!(
            read(&[endpoint, ("OTEL_SDK_DISABLED", "false")])
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn an_endpoint_of_all_signals_gets_the_path_of_traces() {
        for (name, value, expected) in [
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "http://c:4318",
                "http://c:4318/v1/traces",
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "https://c/otlp/",
                "https://c/otlp/v1/traces",
            ),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "https://c/spans",
                "https://c/spans",
            ),
        ] {
            let settings = read(&[(name, value)]).unwrap().unwrap();
            assert_eq!(settings.endpoint.to_string(), expected);
        }
    }

    #[test]
    fn a_setting_of_traces_wins_over_that_of_all_signals() {
        let settings = with(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            (
                "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                "Authorization=Bearer%20x, b = 2",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
            ("OTEL_SERVICE_NAME", "search"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "k8s.pod.name=a,deployment.environment.name=x%2Cy",
            ),
        ])
        .unwrap();
        let mut headers: Vec<_> = settings.headers.iter().collect();
        headers.sort();
        assert_eq!(
            format!("{headers:?}"),
            r#"[("authorization", "Bearer x"), ("b", "2")]"#
        );
        assert_eq!(settings.timeout, Duration::from_millis(2500));
        assert!(settings.gzip);
        assert_eq!(settings.service_name, "search");
        assert_eq!(settings.resource["deployment.environment.name"], "x,y");
    }

    #[test]
    fn samplers_have_a_ratio_and_may_follow_callers() {
        let sampling = |sampler: &str, argument: &str| {
            let variables = [
                ("OTEL_TRACES_SAMPLER", sampler),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ];
            let Sampling {
                ratio,
                follows_callers,
            } = with(&variables).unwrap().sampling;
            format!("{ratio} {follows_callers}")
        };
        assert_eq!(sampling("", ""), "1 true");
        assert_eq!(sampling("always_on", ""), "1 false");
        assert_eq!(sampling("parentbased_always_off", ""), "0 true");
        assert_eq!(sampling("traceidratio", "0.25"), "0.25 false");
        assert_eq!(sampling("parentbased_traceidratio", ""), "1 true");
    }

    #[test]
    fn an_invalid_value_is_named_with_its_variable_and_shows_no_secret() {
        for (name, value) in [
            ("OTEL_SDK_DISABLED", "yes"),
            ("OTEL_TRACES_EXPORTER", "jaeger"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector"),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "http://user:hunter2@collector",
            ),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Bearer hunter2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0A"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a"),
        ] {
            let error = with(&[(name, value)]).unwrap_err();
            assert_eq!(error.variable, name);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        for ratio in ["2", "-0.1", "NaN", "much"] {
            let variables = [
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", ratio),
            ];
            assert_eq!(
                with(&variables).unwrap_err().to_string(),
                format!(
                    "environment variable OTEL_TRACES_SAMPLER_ARG: {ratio:?} is no number from 0 to 1, such as 0.01"
                )
            );
        }
    }

    #[test]
    fn variables_about_traces_without_effect_are_named() {
        let settings = with(&[
            ("OTEL_BSP_MAX_QUEUE_SIZE", "9"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_PROPAGATORS", ""),
            ("OTEL_TRACES_SAMPLER", "always_on"),
        ])
        .unwrap();
        assert_eq!(settings.without_effect, ["OTEL_BSP_MAX_QUEUE_SIZE"]);
    }
}
