//! `fleetdex explain`: prints the OpenSearch request of a query, offline or as the server builds
//! it.

use fleetdex_core::query::QueryError;
use fleetdex_store::explain::counted_page;
use serde_json::Value;

use super::{
    ArgsError, QueryArgs,
    api::{Api, ClientConfig},
    console::{CommandError, Console, Warnings},
    pages::{parameters, path},
    targets::targets,
};

/// Prints the OpenSearch request body that answers a query.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// The query.
    #[command(flatten)]
    pub query: QueryArgs,

    /// Ask the server, which knows every registered kind and your permissions; prints its request
    /// bodies one after the other
    #[arg(long)]
    pub server_side: bool,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// The query cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The arguments do not form a query.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The query cannot be translated.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Prints the request body, and nothing else, on standard output.
pub async fn explain(args: &ExplainArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    if args.server_side {
        return explain_on_server(args, console).await;
    }
    let body = body(args).map_err(|error| match error {
        ExplainError::Args(error) => CommandError::Args(error),
        ExplainError::Query(error) => CommandError::Usage(error.to_string()),
    })?;
    writeln!(console.out, "{body:#}")?;
    Ok(true)
}

/// Prints the request bodies of the server. Everything else goes to standard error, so that the
/// output can be sent as it is.
async fn explain_on_server(
    args: &ExplainArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let resources = api.resources().await?;
    let namespace = args.query.namespace()?.map(String::from);
    let mut warnings = Warnings::default();
    for target in targets(&args.query.resource, &args.query.names, &resources)? {
        let mut parameters = parameters(&args.query, &target.names);
        parameters.extend([
            ("limit", args.query.limit.to_string()),
            ("explain", "true".to_owned()),
        ]);
        let (explanation, new_warnings) = api
            .explanation(&path(&target.resource, namespace.as_deref()), &parameters)
            .await?;
        warnings.print(new_warnings, console)?;
        let of = |key: &str| &explanation[key];
        let estimate = |key: &str| &of("estimate")[key];
        writeln!(
            console.err,
            "store {}; {} objects, {} requests with {} clauses and {} values; permitted: {}",
            of("store").as_str().unwrap_or_default(),
            estimate("objects"),
            estimate("requests"),
            estimate("clauses"),
            estimate("values"),
            of("permitted"),
        )?;
        for body in of("requests").as_array().into_iter().flatten() {
            writeln!(console.out, "{body:#}")?;
        }
    }
    Ok(true)
}

/// Returns the body of the `_search` request. Without `--cluster` and `-n` it covers all clusters
/// and namespaces.
pub fn body(args: &ExplainArgs) -> Result<Value, ExplainError> {
    Ok(counted_page(&args.query.offline_query()?)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ExplainArgs,
    }

    fn explain(line: &[&str]) -> Result<String, String> {
        let words = ["explain"].iter().chain(line);
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        body(&command.args)
            .map(|body| body.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "most of them are the golden answer")]
    fn the_body_of_a_typical_query_can_be_sent_as_it_is() {
        let command = Command::parse_from([
            "explain",
            "pods",
            "-l",
            "app in (web,api),tier!=db,!canary",
            "--field-selector",
            "status.phase=Running",
            "--cluster=member1,member2",
            "--cluster",
            "team/prod",
            "-n",
            "web",
            "--limit",
            "20",
        ]);
        insta::assert_json_snapshot!(body(&command.args).unwrap(), @r#"
        {
          "size": 20,
          "track_total_hits": true,
          "query": {
            "bool": {
              "filter": [
                {
                  "term": {
                    "search.group": ""
                  }
                },
                {
                  "term": {
                    "search.resource": "pods"
                  }
                },
                {
                  "terms": {
                    "cluster": [
                      "member1",
                      "member2",
                      "team/prod"
                    ]
                  }
                },
                {
                  "term": {
                    "metadata.namespace": "web"
                  }
                },
                {
                  "terms": {
                    "search.labels": [
                      "app=api",
                      "app=web"
                    ]
                  }
                },
                {
                  "term": {
                    "search.fields": "status.phase=Running"
                  }
                }
              ],
              "must_not": [
                {
                  "term": {
                    "search.labelKeys": "canary"
                  }
                },
                {
                  "term": {
                    "search.labels": "tier=db"
                  }
                }
              ]
            }
          },
          "sort": [
            {
              "metadata.namespace": {
                "order": "asc",
                "missing": "_first"
              }
            },
            {
              "metadata.name": {
                "order": "asc"
              }
            },
            {
              "cluster": {
                "order": "asc"
              }
            },
            {
              "metadata.uid": {
                "order": "asc"
              }
            },
            {
              "apiVersion": {
                "order": "asc"
              }
            }
          ]
        }
        "#);
    }

    #[test]
    fn all_namespaces_win_over_one() {
        assert_eq!(explain(&["po", "-n", "web", "-A"]), explain(&["pods"]));
        assert!(
            !explain(&["pods"])
                .unwrap()
                .contains("metadata.namespace\":\"")
        );
    }

    #[test]
    fn a_resource_that_is_not_built_in_is_named_fully_and_has_any_field() {
        let body = explain(&[
            "widgets.v1.example.com",
            "--field-selector",
            "spec.color in (red,blue)",
        ])
        .unwrap();
        assert!(
            body.contains(
                r#"{"term":{"search.group":"example.com"}},{"term":{"search.resource":"widgets"}}"#
            ),
            "{body}"
        );
        assert!(
            body.contains(r#"["spec.color=blue","spec.color=red"]"#),
            "{body}"
        );
        assert_eq!(
            explain(&["widgets"]).unwrap_err(),
            "there is no built-in resource \"widgets\"; write a custom resource as plural.version.group, such as widgets.v1.example.com"
        );
        assert!(
            explain(&["podz"])
                .unwrap_err()
                .contains("did you mean pods?")
        );
    }

    #[test]
    fn a_version_that_is_off_by_default_has_the_fields_of_its_kind() {
        let error = explain(&[
            "resourceslices.v1beta1.resource.k8s.io",
            "--field-selector",
            "spec.color=red",
        ])
        .unwrap_err();
        assert_eq!(
            error,
            "field label not supported: spec.color; these are: metadata.name, spec.driver, spec.nodeName, dependsOn, health, healthReason, image, \
             interpretedBy, replicas.desired, replicas.ready, resources.cpu, resources.memory"
        );
    }

    #[test]
    fn interpreted_fields_are_translated_as_by_the_server() {
        let body = explain(&["deploy", "--field-selector", "image=nginx:1.27"]).unwrap();
        assert!(
            body.contains(r#"{"term":{"search.fields":"image=docker.io/library/nginx:1.27"}}"#),
            "{body}"
        );
        let error = explain(&["pods", "--field-selector", "dependsOn=db"]).unwrap_err();
        assert!(
            error.starts_with("field selector: dependsOn \"db\" names no object"),
            "{error}"
        );
    }

    #[test]
    fn bad_arguments_are_named() {
        let error = explain(&["pods", "-l", "a in b"]).unwrap_err();
        assert_eq!(
            error,
            r#"label selector "a in b": at character 6: found 'b', expected '('"#
        );
        let error = explain(&["pods", "--field-selector", "a=b=c"]).unwrap_err();
        assert_eq!(
            error,
            r#"field selector "a=b=c": at character 4: found '=', expected a backslash before it, or ','"#
        );
        assert!(
            explain(&["pods", "--limit", "0"])
                .unwrap_err()
                .contains("from 1 to 9999")
        );
        assert!(
            explain(&["pods", "--cluster", ""])
                .unwrap_err()
                .contains("cluster name must not be empty")
        );
    }
}
