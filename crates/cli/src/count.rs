//! `fleetdex count`: how many objects there are, in groups.

use std::process::ExitCode;

use clap::ValueEnum;
use fleetdex_core::terminal::escaped_json;
use serde_json::{Value, json};

use super::{
    QueryArgs, aligned,
    api::{Api, Counts, Place},
    console::{self, CommandError, Console},
    get::{OutputError, targets::targets},
    pages::{self, Warnings},
};

/// Stands for a value that objects do not have.
const NONE: &str = "<none>";

/// Counts objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", |limit| limit.hide(true)))]
pub struct Args {
    /// What to count; all namespaces unless one is given.
    #[command(flatten)]
    pub query: QueryArgs,

    /// Count by these: cluster, namespace, label:KEY, or a field that selectors know, such as status.phase (separated by commas)
    #[arg(long, value_name = "KEY", value_delimiter = ',', env = "FLEETDEX_BY")]
    pub by: Vec<String>,

    /// Show only the largest groups
    #[arg(long, value_name = "N", env = "FLEETDEX_TOP")]
    pub top: Option<usize>,

    /// How to show it
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        env = "FLEETDEX_COUNT_OUTPUT"
    )]
    pub output: Format,

    /// Leave the line of titles out
    #[arg(long, env = "FLEETDEX_NO_HEADERS")]
    pub no_headers: bool,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// How counts are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line per group.
    #[default]
    Table,
    /// All groups as JSON.
    Json,
    /// All groups as YAML.
    Yaml,
}

/// Asks, shows, and tells how it went.
pub async fn run(args: &Args) -> ExitCode {
    console::run(async |console: &mut Console<'_>| count(args, console).await).await
}

async fn count(args: &Args, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let held = api.held().await?;
    let namespace = args.query.namespace()?.map(String::from);
    let mut counted = Vec::new();
    let mut warnings = Warnings::default();
    for target in targets(&args.query.resource, &args.query.names, &held)? {
        let mut parameters = pages::parameters(&args.query, &target.names);
        parameters.push(("by", args.by.join(",")));
        parameters.extend(args.top.map(|top| ("top", top.to_string())));
        let mut counts = api
            .count(
                &pages::path(&target.held, namespace.as_deref()),
                &parameters,
            )
            .await?;
        warnings.tell(std::mem::take(&mut counts.warnings), console)?;
        counted.push((target.held.qualified_plural(), counts));
    }
    match args.output {
        Format::Table => table(args, &counted, console)?,
        Format::Json => writeln!(
            console.out,
            "{}",
            escaped_json(&format!("{:#}", document(counted)))
        )?,
        Format::Yaml => {
            let text = serde_saphyr::to_string(&document(counted));
            let text = text.map_err(|error| OutputError::Yaml(error.to_string()))?;
            write!(console.out, "{text}")?;
        }
    }
    Ok(true)
}

/// Several resources have a column that tells them apart.
fn table(
    args: &Args,
    counted: &[(String, Counts)],
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let with_resource = counted.len() > 1;
    let mut lines = Vec::new();
    if !args.no_headers {
        let mut titles: Vec<String> = with_resource
            .then(|| "RESOURCE".to_owned())
            .into_iter()
            .collect();
        titles.extend(
            counted
                .first()
                .into_iter()
                .flat_map(|(_, counts)| counts.by.iter().map(|key| title(key))),
        );
        titles.push("COUNT".to_owned());
        lines.push(titles);
    }
    for (resource, counts) in counted {
        let first = || with_resource.then(|| resource.clone());
        for group in &counts.items {
            let values = group
                .values
                .iter()
                .map(|value| value.clone().unwrap_or_else(|| NONE.to_owned()));
            lines.push(
                first()
                    .into_iter()
                    .chain(values)
                    .chain([group.count.to_string()])
                    .collect(),
            );
        }
        // Nothing grouped by nothing is no group, but a count all the same.
        if counts.items.is_empty() && counts.by.is_empty() {
            lines.push(first().into_iter().chain(["0".to_owned()]).collect());
        }
    }
    let is_empty = lines.len() <= usize::from(!args.no_headers);
    if is_empty {
        writeln!(console.err, "No resources found.")?;
        return Ok(());
    }
    aligned::write(console.out, &lines)?;
    for (resource, counts) in counted.iter().filter(|(_, counts)| counts.others > 0) {
        let Counts { others, total, .. } = counts;
        writeln!(
            console.err,
            "{others} of {total} {resource} are in further groups; --top shows more of them."
        )?;
    }
    Ok(())
}

/// `status.phase` has the title PHASE, `label:app` the title APP, as kubectl's columns of labels.
fn title(key: &str) -> String {
    let last = match key.strip_prefix("label:") {
        Some(label) => label.rsplit('/').next(),
        None => key.rsplit('.').next(),
    };
    last.unwrap_or(key).to_uppercase()
}

/// One resource stands for itself, several in a list.
fn document(counted: Vec<(String, Counts)>) -> Value {
    let one = |(resource, counts): (String, Counts)| json!({ "resource": resource, "by": counts.by, "total": counts.total, "others": counts.others, "groups": counts.items });
    let mut all: Vec<Value> = counted.into_iter().map(one).collect();
    if all.len() == 1 {
        all.remove(0)
    } else {
        Value::Array(all)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fleetdex_core::query::{Group, GroupKey, Groups};
    use fleetdex_server::fake::catalog;
    use fleetdex_store::fake::Prepared;

    use super::*;
    use crate::fake::Running;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    async fn counting(groups: Groups) -> Running {
        let store = Prepared::counting(groups);
        Running::over(catalog(store.clone()), store).await
    }

    impl Running {
        async fn count(&self, line: &[&str]) -> (bool, String, String) {
            let args = Command::parse_from(self.words("count", line)).args;
            self.run(async |console: &mut Console<'_>| count(&args, console).await)
                .await
        }
    }

    fn group(values: &[Option<&str>], count: u64) -> Group {
        Group {
            values: values
                .iter()
                .map(|value| value.map(str::to_owned))
                .collect(),
            count,
        }
    }

    #[tokio::test]
    async fn groups_are_lines_and_what_is_left_out_is_told() {
        let groups = vec![
            group(&[Some("member1"), Some("web")], 12),
            group(&[Some("member2"), None], 3),
        ];
        let running = counting(Groups {
            groups,
            total: 20,
            others: 5,
        })
        .await;
        let (_, table, err) = running
            .count(&[
                "po",
                "--by",
                "cluster,label:app.kubernetes.io/name",
                "--top",
                "2",
                "-l",
                "a=b",
            ])
            .await;
        insta::assert_snapshot!(table, @r"
        CLUSTER   NAME     COUNT
        member1   web      12
        member2   <none>   3
        ");
        assert_eq!(
            err,
            "5 of 20 pods are in further groups; --top shows more of them.\n"
        );
        let (query, _) = running.store.asked().pop().unwrap();
        assert!(query.namespaces.is_empty() && query.labels.to_string() == "a=b");
        let by = vec![
            GroupKey::Cluster,
            GroupKey::Label("app.kubernetes.io/name".to_owned()),
        ];
        assert_eq!(running.store.counted.lock().pop(), Some((by, 2)));
    }

    #[tokio::test]
    async fn without_a_key_there_is_one_number() {
        let running = counting(Groups {
            groups: vec![group(&[], 7)],
            total: 7,
            others: 0,
        })
        .await;
        assert_eq!(running.count(&["pods", "--no-headers"]).await.1, "7\n");
        let (_, several, _) = running.count(&["pods,deploy"]).await;
        insta::assert_snapshot!(several, @r"
        RESOURCE           COUNT
        pods               7
        deployments.apps   7
        ");
        let (_, text, _) = running.count(&["pods", "-o", "json"]).await;
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            document,
            json!({ "resource": "pods", "by": [], "total": 7, "others": 0, "groups": [{ "values": [], "count": 7 }] })
        );
        let none = counting(Groups::default()).await;
        assert_eq!(none.count(&["pods"]).await.1, "COUNT\n0\n");
        assert_eq!(
            none.count(&["pods", "--by", "cluster"]).await,
            (true, String::new(), "No resources found.\n".to_owned())
        );
    }

    #[tokio::test]
    async fn a_key_that_is_none_is_refused() {
        let running = counting(Groups::default()).await;
        let (is_complete, _, err) = running.count(&["pods", "--by", "spec.color"]).await;
        assert!(
            !is_complete && err.starts_with("Error from server (BadRequest): parameter by: "),
            "{err}"
        );
    }
}
