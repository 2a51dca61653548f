//! Prints the results of an operation.

use clap::ValueEnum;
use fleetdex_core::{
    terminal::{escaped_json, escaped_line},
    yaml,
};
use fleetdex_interpreter::{Response, results};
use serde_json::Value;

use super::key_order::sorted;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// One YAML document for each result, below a comment with its name.
    #[default]
    Yaml,
    /// One JSON object with the results by their names; health with its word, reason and message.
    Json,
}

/// The text of a response. `with_health` adds the word, the reason and the message of health as a
/// comment to YAML.
///
/// Source of the layout: `pkg/karmadactl/interpret/execute.go` of
/// <https://github.com/karmada-io/karmada>
pub fn text(
    response: &Response,
    format: ResultFormat,
    with_health: bool,
) -> Result<String, yaml::Error> {
    match format {
        ResultFormat::Json => {
            let object = Value::Object(results::object(response));
            Ok(format!("{}\n", escaped_json(&format!("{object:#}"))))
        }
        ResultFormat::Yaml => {
            let named = results::named(response);
            let count = named.len();
            let mut documents = Vec::new();
            for (position, (name, value)) in named.iter().enumerate() {
                let number = position + 1;
                let yaml = yaml::to_string(sorted(value))?;
                documents.push(format!("---\n# [{number}/{count}] {name}:\n{yaml}"));
            }
            if with_health {
                documents.extend(health_comment(response));
            }
            Ok(documents.concat())
        }
    }
}

/// Such as `# Degraded, CrashLoopBackOff: back-off 5m0s restarting failed container`.
fn health_comment(response: &Response) -> Option<String> {
    let Response::Health { assessment, .. } = response else {
        return None;
    };
    let part = |separator: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{separator}{text}"),
    };
    let comment = format!(
        "# {}{}{}",
        assessment.health,
        part(", ", &assessment.reason),
        part(": ", &assessment.message),
    );
    Some(format!("{}\n", escaped_line(&comment)))
}

#[cfg(test)]
mod tests {
    use fleetdex_interpreter::{
        health::{Assessment, Health},
        request::ReplicaRequirements,
    };
    use serde_json::json;

    use super::*;

    fn degraded() -> Response {
        let message = "back-off 5m0s\nrestarting \u{1b}[31mfailed container";
        Response::Health {
            assessment: Assessment::new(Health::Degraded, "CrashLoopBackOff", message),
            healthy: false,
        }
    }

    #[test]
    fn results_are_numbered_yaml_documents() {
        let requirements = ReplicaRequirements {
            resource_request: json!({"memory": "1Gi", "cpu": "100m"})
                .as_object()
                .cloned()
                .unwrap(),
            ..ReplicaRequirements::default()
        };
        let response = Response::Replica {
            replicas: 3,
            requirements: Some(requirements),
        };
        assert_eq!(
            text(&response, ResultFormat::Yaml, true).unwrap(),
            "---\n# [1/2] replica:\n3\n---\n# [2/2] requires:\nresourceRequest:\n  cpu: 100m\n  memory: 1Gi\n"
        );
    }

    #[test]
    fn health_is_a_boolean_that_a_comment_explains() {
        assert_eq!(
            text(&degraded(), ResultFormat::Yaml, false).unwrap(),
            "---\n# [1/1] healthy:\nfalse\n"
        );
        assert_eq!(
            text(&degraded(), ResultFormat::Yaml, true).unwrap(),
            "---\n# [1/1] healthy:\nfalse\n# Degraded, CrashLoopBackOff: back-off 5m0s\\nrestarting ^[[31mfailed container\n"
        );
    }

    #[test]
    fn json_is_one_object_that_does_not_control_the_terminal() {
        let printed = text(&degraded(), ResultFormat::Json, true).unwrap();
        assert!(!printed.contains('\u{1b}'));
        let object: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(object["health"], "Degraded");
        assert_eq!(object["healthy"], false);
        assert_eq!(object["reason"], "CrashLoopBackOff");
    }
}
