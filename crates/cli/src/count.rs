//! `fleetdex count`: counts objects in groups.

use clap::ValueEnum;
use fleetdex_query_api::answer::Counts;
use serde_json::{Value, json};

use super::{
    QueryArgs,
    api::{Api, ClientConfig},
    console::{CommandError, Console, Warnings},
    output::{OutputFormat, columns::write_aligned, print_document},
    pages,
    targets::targets,
};

/// Shown for a field that the objects do not have.
const NONE: &str = "<none>";

/// Counts objects of the fleet.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("limit", |limit| limit.hide(true)))]
pub struct CountArgs {
    /// What to count; all namespaces by default.
    #[command(flatten)]
    pub query: QueryArgs,

    /// Count by these: cluster, namespace, label:KEY, or a field that selectors know, such as
    /// status.phase (separated by commas)
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub by: Vec<String>,

    /// Show only the largest groups
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: CountFormat,

    /// Print tables without the header line
    #[arg(long)]
    pub no_headers: bool,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// How counts are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CountFormat {
    /// One line per group.
    #[default]
    Table,
    /// All groups as JSON.
    Json,
    /// All groups as YAML.
    Yaml,
}

/// Counts and prints.
pub async fn count(args: &CountArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let resources = api.resources().await?;
    let namespace = args.query.namespace()?.map(String::from);
    let mut counted = Vec::new();
    let mut warnings = Warnings::default();
    for target in targets(&args.query.resource, &args.query.names, &resources)? {
        let mut parameters = pages::parameters(&args.query, &target.names);
        parameters.push(("by", args.by.join(",")));
        parameters.extend(args.top.map(|top| ("top", top.to_string())));
        let path = pages::path(&target.resource, namespace.as_deref());
        let (counts, missing) = api.count(&path, &parameters).await?;
        warnings.print(missing, console)?;
        counted.push((target.resource.qualified_plural(), counts));
    }
    match args.output {
        CountFormat::Table => table(args, &counted, console)?,
        CountFormat::Json => print_document(&document(counted), OutputFormat::Json, console)?,
        CountFormat::Yaml => print_document(&document(counted), OutputFormat::Yaml, console)?,
    }
    Ok(true)
}

/// The table of several resources has a column for the resource.
fn table(
    args: &CountArgs,
    counted: &[(String, Counts)],
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let with_resource = counted.len() > 1;
    let line = |resource: &str, values: Vec<String>, count: String| -> Vec<String> {
        let resource = with_resource.then(|| resource.to_owned());
        resource.into_iter().chain(values).chain([count]).collect()
    };
    let mut lines = Vec::new();
    if !args.no_headers {
        let by = counted.first().map(|(_, counts)| &counts.by);
        let keys = by.into_iter().flatten().map(|key| header(key));
        lines.push(line("RESOURCE", keys.collect(), "COUNT".to_owned()));
    }
    for (resource, counts) in counted {
        for group in &counts.items {
            let value = |value: &Option<String>| value.as_deref().unwrap_or(NONE).to_owned();
            let values = group.values.iter().map(value).collect();
            lines.push(line(resource, values, group.count.to_string()));
        }
        // Without a key and without objects there is no group, but still a count.
        if counts.items.is_empty() && counts.by.is_empty() {
            lines.push(line(resource, Vec::new(), "0".to_owned()));
        }
    }
    let is_empty = lines.len() <= usize::from(!args.no_headers);
    if is_empty {
        writeln!(console.err, "No resources found.")?;
        return Ok(());
    }
    write_aligned(console.out, &lines)?;
    // Notes follow the table.
    console.out.flush()?;
    for (resource, counts) in counted.iter().filter(|(_, counts)| counts.others > 0) {
        let Counts { others, total, .. } = counts;
        writeln!(
            console.err,
            "{others} of {total} {resource} are in other groups; raise --top to see them."
        )?;
    }
    Ok(())
}

/// `status.phase` has the header PHASE; `label:app` has APP, as in kubectl's label columns.
fn header(key: &str) -> String {
    let last = match key.strip_prefix("label:") {
        Some(label) => label.rsplit('/').next(),
        None => key.rsplit('.').next(),
    };
    last.unwrap_or(key).to_uppercase()
}

/// One resource is an object, several are a list.
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
    use fleetdex_store::fake::PreparedReader;

    use super::*;
    use crate::test_server::TestServer;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: CountArgs,
    }

    async fn counting(groups: Groups) -> TestServer {
        let store = PreparedReader::counting(groups);
        TestServer::over(catalog(store.clone()), store).await
    }

    impl TestServer {
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
    async fn a_table_has_one_line_per_group_and_counts_the_omitted_ones() {
        let groups = vec![
            group(&[Some("member1"), Some("web")], 12),
            group(&[Some("member2"), None], 3),
        ];
        let server = counting(Groups {
            groups,
            total: 20,
            others: 5,
        })
        .await;
        let (_, table, err) = server
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
            "5 of 20 pods are in other groups; raise --top to see them.\n"
        );
        let (query, _) = server.store.asked().pop().unwrap();
        assert!(query.namespaces.is_empty() && query.labels.to_string() == "a=b");
        let by = vec![
            GroupKey::Cluster,
            GroupKey::Label("app.kubernetes.io/name".to_owned()),
        ];
        assert_eq!(server.store.counted.lock().pop(), Some((by, 2)));
    }

    #[tokio::test]
    async fn without_a_key_there_is_one_number() {
        let server = counting(Groups {
            groups: vec![group(&[], 7)],
            total: 7,
            others: 0,
        })
        .await;
        assert_eq!(server.count(&["pods", "--no-headers"]).await.1, "7\n");
        let (_, several, _) = server.count(&["pods,deploy"]).await;
        insta::assert_snapshot!(several, @r"
        RESOURCE           COUNT
        pods               7
        deployments.apps   7
        ");
        let (_, text, _) = server.count(&["pods", "-o", "json"]).await;
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
    async fn an_unknown_key_is_refused() {
        let server = counting(Groups::default()).await;
        let (is_complete, _, err) = server.count(&["pods", "--by", "spec.color"]).await;
        assert!(
            !is_complete && err.starts_with("Error from server (BadRequest): parameter by: "),
            "{err}"
        );
    }
}
