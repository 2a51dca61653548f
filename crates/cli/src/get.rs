//! `fleetdex get`: lists or watches objects of the whole fleet and prints the server's Tables.
//!
//! It does what kubectl cannot do over several clusters: it selects clusters, searches by owner and
//! lets the index sort. For kubectl's own output formats, `fleetdex kubeconfig` writes a context
//! for kubectl.

mod args;
mod lists;
#[cfg(test)]
mod tests;
mod watch;

pub use args::{FleetArgs, GetArgs, PrintArgs};

use self::lists::print_list;
use super::{
    api::Api,
    console::{CommandError, Console, Warnings},
    output::{Layout, Printer},
    pages::{Pages, namespace, print_missing},
    targets::{ResourceTarget, targets},
};

/// Lists or watches; returns whether every named object exists.
pub async fn get(args: &GetArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    let api = Api::new(&args.server).await?;
    let resources = api.resources().await?;
    let fleet_parameters = args.fleet.parameters(&resources)?;
    let targets = targets(&args.query.resource, &args.query.names, &resources)?;
    let namespace = namespace(&args.query, &api)?;
    let mut printer = Printer::new(layout(args, &targets, namespace.as_deref()));
    if args.print.watch {
        if !fleet_parameters.is_empty() {
            return Err(CommandError::Usage(
                "--owner and --order-by cannot be combined with --watch".to_owned(),
            ));
        }
        let [target] = targets.as_slice() else {
            return Err(CommandError::Usage(
                "--watch accepts one resource type".to_owned(),
            ));
        };
        printer.begin(&target.resource);
        return watch::watch(
            &api,
            args,
            target,
            namespace.as_deref(),
            &mut printer,
            console,
        )
        .await;
    }
    let mut is_complete = true;
    let mut warnings = Warnings::default();
    for target in &targets {
        printer.begin(&target.resource);
        let shape = args.print.output.format.shape();
        let pages = Pages::new(&api, &args.query, target, namespace.as_deref(), shape)
            .in_chunks(args.print.chunk_size)
            .with(&fleet_parameters);
        let list = print_list(pages, target, &mut printer, &mut warnings, console).await?;
        is_complete &= print_missing(target, &list.found, console)?;
    }
    let is_empty = printer.count() == 0;
    printer.finish(console.out)?;
    console.out.flush()?;
    if is_empty && is_complete && args.print.output.format.is_line_based() {
        let is_namespaced = targets.iter().any(|target| target.resource.api.namespaced);
        let scope = namespace
            .filter(|_| is_namespaced)
            .map(|name| format!(" in {name} namespace"))
            .unwrap_or_default();
        writeln!(console.err, "No resources found{scope}.")?;
    }
    Ok(is_complete)
}

fn layout(args: &GetArgs, targets: &[ResourceTarget], namespace: Option<&str>) -> Layout {
    Layout {
        with_namespace: namespace.is_none(),
        with_kind: targets.len() > 1,
        is_bare: args.print.watch || selects_one_object(args, targets, namespace),
        ..args.print.output.layout()
    }
}

/// One name in one cluster, and in one namespace if the resource is namespaced, selects at most one
/// object.
fn selects_one_object(args: &GetArgs, targets: &[ResourceTarget], namespace: Option<&str>) -> bool {
    let [ResourceTarget { resource, names }] = targets else {
        return false;
    };
    names.len() == 1
        && args.query.clusters.len() == 1
        && (namespace.is_some() || !resource.api.namespaced)
}
