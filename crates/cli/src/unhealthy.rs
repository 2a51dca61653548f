//! `fleetdex unhealthy`: lists what does not work, of all kinds.

use fleetdex_query_api::parameter::FIELD_SELECTOR;

use super::{
    api::{Api, ClientConfig},
    completion,
    console::{CommandError, Console},
    output::{self, OutputArgs},
    scope_args::{ScopeArgs, field_in},
    targets::targets,
};

/// The words of health.
const WORDS: [&str; 6] = [
    "Healthy",
    "Progressing",
    "Degraded",
    "Suspended",
    "Missing",
    "Unknown",
];
/// Objects that do not work, or are not known to. Progressing objects are left out, because every
/// rollout has some, and so are suspended ones.
const UNHEALTHY: [&str; 3] = ["Degraded", "Missing", "Unknown"];
const PROGRESSING: &str = "Progressing";

/// Lists unhealthy objects of the fleet, of all namespaces by default.
#[derive(Clone, Debug, clap::Args)]
pub struct UnhealthyArgs {
    /// Only these resources, such as pods deploy; all by default
    #[arg(value_name = "RESOURCE", add = completion::resources())]
    pub resources: Vec<String>,

    /// Where the objects are.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// Only objects of this health, in place of Degraded,Missing,Unknown (separated by commas)
    #[arg(long, value_name = "HEALTH", value_delimiter = ',')]
    pub health: Vec<String>,

    /// Also objects that are still progressing
    #[arg(long)]
    pub progressing: bool,

    /// Maximum number of objects, at most 1000
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub limit: usize,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Lists and prints.
pub async fn unhealthy(
    args: &UnhealthyArgs,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let health = words(args)?;
    let api = Api::new(&args.server).await?;
    let kinds = kinds(&api, &args.resources).await?;
    let mut parameters = vec![
        (
            FIELD_SELECTOR,
            field_in("health", health.into_iter().map(str::to_owned)),
        ),
        ("kinds", kinds.join(",")),
        ("limit", args.limit.to_string()),
    ];
    parameters.extend(args.scope.parameters());
    output::print(&api, "objects", parameters, &args.output, console).await
}

/// The words of health that are searched.
fn words(args: &UnhealthyArgs) -> Result<Vec<&'static str>, CommandError> {
    if args.health.is_empty() {
        let progressing = args.progressing.then_some(PROGRESSING);
        return Ok(UNHEALTHY.into_iter().chain(progressing).collect());
    }
    let word = |given: &String| {
        let known = WORDS.iter().find(|word| word.eq_ignore_ascii_case(given));
        known.copied().ok_or_else(|| {
            CommandError::Usage(format!(
                "--health {given:?}: expected one of {}",
                WORDS.join(", ")
            ))
        })
    };
    args.health.iter().map(word).collect()
}

/// The resources as the server names them.
async fn kinds(api: &Api, words: &[String]) -> Result<Vec<String>, CommandError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let resources = api.resources().await?;
    let found = targets(&words.join(","), &[], &resources)?;
    Ok(found
        .iter()
        .map(|target| target.resource.qualified_plural())
        .collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fleetdex_core::query::Page;

    use super::*;
    use crate::test_server::{TestServer, of_health as hit_of_health};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: UnhealthyArgs,
    }

    impl TestServer {
        async fn unhealthy(&self, line: &[&str]) -> (bool, String, String) {
            let args = Command::parse_from(self.words("unhealthy", line)).args;
            self.run(async |console: &mut Console<'_>| unhealthy(&args, console).await)
                .await
        }

        /// The field selectors that reached the store, by resource.
        fn asked_fields(&self) -> Vec<String> {
            let asked = self.store.asked().into_iter();
            asked
                .map(|(query, _)| format!("{} {}", query.resource.plural, query.fields))
                .collect()
        }
    }

    #[tokio::test]
    async fn what_does_not_work_is_listed_with_the_cause() {
        let page = || {
            Ok(Page {
                items: vec![hit_of_health("member1", "web", "web-1", "Degraded")],
                ..Page::default()
            })
        };
        let server = TestServer::interpreted(vec![page(), page(), page()]).await;
        let (found, table, err) = server.unhealthy(&["po"]).await;
        assert!(found && err.is_empty(), "{err}");
        insta::assert_snapshot!(table, @r#"
        CLUSTER   NAMESPACE   KIND   NAME    HEALTH     REASON             AGE
        member1   web         Pod    web-1   Degraded   CrashLoopBackOff   <unknown>
        "#);
        let (_, wide, _) = server.unhealthy(&["pods", "-o", "wide"]).await;
        assert!(
            wide.contains("MESSAGE") && wide.contains("back-off 5m0s"),
            "{wide}"
        );
        let (_, names, _) = server.unhealthy(&["pods", "-o", "name"]).await;
        assert_eq!(names, "member1/pod/web-1\n");
        assert_eq!(
            server.asked_fields(),
            ["pods health in (Degraded,Missing,Unknown)"; 3]
        );
        let (found, _, err) = server.unhealthy(&["pods"]).await;
        assert_eq!((found, err.as_str()), (true, "No resources found.\n"));
    }

    #[tokio::test]
    async fn the_words_of_health_are_chosen_by_flags() {
        let server = TestServer::interpreted(vec![]).await;
        for line in [
            &["pods", "--progressing"][..],
            &["pods", "--health", "suspended,DEGRADED"],
        ] {
            server.unhealthy(line).await;
        }
        assert_eq!(
            server.asked_fields(),
            [
                "pods health in (Degraded,Missing,Progressing,Unknown)",
                "pods health in (Degraded,Suspended)",
            ]
        );
        let (_, _, err) = server.unhealthy(&["--health", "sick"]).await;
        assert_eq!(
            err,
            "error: --health \"sick\": expected one of Healthy, Progressing, Degraded, Suspended, Missing, Unknown\n"
        );
        let (_, _, unknown) = server.unhealthy(&["widgets"]).await;
        assert!(
            unknown.contains("doesn't have a resource type \"widgets\""),
            "{unknown}"
        );
    }

    #[tokio::test]
    async fn warnings_go_to_standard_error() {
        let server = TestServer::with(vec![]).await;
        let (_, out, err) = server.unhealthy(&[]).await;
        assert!(out.is_empty());
        assert!(
            err.starts_with("Error from server (BadRequest): parameter fieldSelector: no kind supports the fields of health in"),
            "{err}"
        );
    }
}
