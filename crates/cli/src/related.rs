//! `fleetdex related`: lists what an object uses, and what uses it.

use fleetdex_query_api::percent;

use super::{
    api::{Api, ClientConfig},
    completion,
    console::{CommandError, Console},
    output::{self, OutputArgs},
    resources::DiscoveredResource,
    targets::{ResourceTarget, targets},
};

/// Lists the objects that an object uses, and those that use it.
#[derive(Clone, Debug, clap::Args)]
pub struct RelatedArgs {
    /// Resource: pods, po, deployments.apps, or TYPE/NAME
    #[arg(value_name = "RESOURCE", add = completion::resources())]
    pub resource: String,

    /// Name of the object
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// The namespace of the object; that of the context by default
    #[arg(short, long, value_name = "NS", add = completion::namespaces())]
    pub namespace: Option<String>,

    /// How many steps from the object to follow, at most 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: usize,

    /// Only in these clusters (repeatable, or separated by commas)
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',', add = completion::clusters())]
    pub clusters: Vec<String>,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Lists and prints.
pub async fn related(args: &RelatedArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let resources = api.resources().await?;
    let (resource, name) = object(args, &resources)?;
    let namespace = args.namespace.as_deref();
    let namespace = namespace.unwrap_or_else(|| api.default_namespace());
    let collection = resource.path(Some(namespace).filter(|_| resource.api.namespaced));
    let path = format!("related/{collection}/{}", percent::encode(&name));
    let parameters = vec![
        ("depth", args.depth.to_string()),
        ("clusters", args.clusters.join(",")),
    ];
    output::print(&api, &path, parameters, &args.output, console).await
}

/// The resource and the name of the one object that the arguments name.
fn object(
    args: &RelatedArgs,
    resources: &[DiscoveredResource],
) -> Result<(DiscoveredResource, String), CommandError> {
    let names: Vec<String> = args.name.iter().cloned().collect();
    let mut found = targets(&args.resource, &names, resources)?;
    let target = found.pop().filter(|_| found.is_empty());
    if let Some(ResourceTarget {
        resource,
        mut names,
    }) = target
        && let Some(name) = names.pop().filter(|_| names.is_empty())
    {
        return Ok((resource, name));
    }
    Err(CommandError::Usage(
        "name one object, such as secret db or secret/db".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fleetdex_core::query::Page;

    use super::*;
    use crate::test_server::{TestServer, hit};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: RelatedArgs,
    }

    impl TestServer {
        async fn related(&self, line: &[&str]) -> (bool, String, String) {
            let args = Command::parse_from(self.words("related", line)).args;
            self.run(async |console: &mut Console<'_>| related(&args, console).await)
                .await
        }
    }

    #[tokio::test]
    async fn the_relations_of_an_object_are_listed() {
        let node = || Page {
            items: vec![hit("member1", "", "n1")],
            ..Page::default()
        };
        let pod = || Page {
            items: vec![hit("member1", "web", "web-1")],
            ..Page::default()
        };
        let server = TestServer::with(vec![Ok(pod()), Ok(node()), Ok(pod()), Ok(node())]).await;
        let (found, table, err) = server.related(&["pod/web-1", "-n", "web"]).await;
        assert!(found, "{err}");
        insta::assert_snapshot!(table, @r#"
        CLUSTER   DIRECTION   RELATION   NAMESPACE   KIND   NAME   HEALTH
        member1   uses        runsOn                 Node   n1
        "#);
        let (_, names, _) = server
            .related(&["po", "web-1", "-n", "web", "--depth", "2", "-o", "name"])
            .await;
        assert_eq!(names, "member1/node/n1\n");
        let (query, _) = server.store.asked().swap_remove(0);
        assert_eq!(
            (query.names, query.namespaces.len()),
            (vec!["web-1".to_owned()], 1)
        );
    }

    #[tokio::test]
    async fn one_object_is_named() {
        let server = TestServer::with(vec![]).await;
        let usage = "error: name one object, such as secret db or secret/db\n";
        assert_eq!(server.related(&["pods"]).await.2, usage);
        assert_eq!(server.related(&["pods,nodes", "a"]).await.2, usage);
        let (found, _, err) = server.related(&["pods", "gone"]).await;
        assert_eq!(
            (found, err.as_str()),
            (
                false,
                "Error from server (NotFound): pods \"gone\" not found\n"
            )
        );
        let (_, _, deep) = server.related(&["pods", "a", "--depth", "9"]).await;
        assert!(
            deep.contains("parameter depth: \"9\" is not a whole number from 1 to 5"),
            "{deep}"
        );
    }
}
