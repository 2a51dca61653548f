//! `fleetdex images`: lists the images of Pods, and how many Pods of each cluster have them.

use fleetdex_query_api::parameter::FIELD_SELECTOR;

use super::{
    api::{Api, ClientConfig},
    console::{CommandError, Console},
    output::{self, OutputArgs},
    scope_args::{ScopeArgs, field_in},
};

/// Lists the images of the fleet's Pods, of all namespaces by default.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("namespace", |arg| arg.help("Only Pods in this namespace")),
    mut_arg("all_namespaces", |arg| {
        arg.help("Pods of all namespaces, the default; overrides --namespace")
    }),
    mut_arg("clusters", |arg| {
        arg.help("Only Pods of these clusters (repeatable, or separated by commas)")
    }),
    mut_arg("selector", |arg| arg.help("Label selector of Pods")),
)]
pub struct ImagesArgs {
    /// Only these images: nginx is any tag, nginx:1.27 one, nginx@sha256:… one digest (repeatable,
    /// or separated by commas)
    #[arg(long = "image", value_name = "IMAGE", value_delimiter = ',')]
    pub images: Vec<String>,

    /// Where the Pods are.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// Lists and prints.
pub async fn images(args: &ImagesArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let mut parameters = vec![(FIELD_SELECTOR, of_images(&args.images))];
    parameters.extend(args.scope.parameters());
    output::print(&api, "images", parameters, &args.output, console).await
}

fn of_images(images: &[String]) -> String {
    if images.is_empty() {
        return String::new();
    }
    field_in("image", images.iter().cloned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fleetdex_core::query::Page;

    use super::*;
    use crate::test_server::{TestServer, of_image};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ImagesArgs,
    }

    impl TestServer {
        async fn images(&self, line: &[&str]) -> (bool, String, String) {
            let args = Command::parse_from(self.words("images", line)).args;
            self.run(async |console: &mut Console<'_>| images(&args, console).await)
                .await
        }
    }

    #[tokio::test]
    async fn images_are_counted_by_cluster() {
        let pods = || {
            Ok(Page {
                items: vec![
                    of_image("member1", "a", "nginx:1.27"),
                    of_image("member1", "b", "nginx:1.27"),
                    of_image("member2", "c", "nginx:1.26"),
                ],
                ..Page::default()
            })
        };
        let server = TestServer::interpreted(vec![pods(), pods()]).await;
        let (found, table, err) = server.images(&[]).await;
        assert!(found && err.is_empty(), "{err}");
        insta::assert_snapshot!(table, @r#"
        IMAGE        CLUSTER   PODS
        nginx:1.27   member1   2
        nginx:1.26   member2   1
        "#);
        let (_, only, _) = server
            .images(&["--image", "nginx:1.26", "-n", "web", "--no-headers"])
            .await;
        assert_eq!(only, "nginx:1.26   member2   1\n");
        let (query, _) = server.store.asked().pop().unwrap();
        assert_eq!(
            query.fields.to_string(),
            "image=docker.io/library/nginx:1.26"
        );
    }
}
