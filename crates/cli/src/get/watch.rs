//! `get --watch`: prints the list, and then every change until stopped.
//!
//! The server ends a watch within a minute, because Kubernetes' aggregation layer would. The next
//! watch continues at the last resource version.

use std::collections::BTreeMap;

use super::{args::GetArgs, lists::print_list};
use crate::{
    api::Api,
    console::{CommandError, Console, Warnings},
    output::Printer,
    pages::{Pages, parameters, path},
    targets::ResourceTarget,
};

/// Prints one resource and its changes; returns with an error only.
pub(super) async fn watch(
    api: &Api,
    args: &GetArgs,
    target: &ResourceTarget,
    namespace: Option<&str>,
    printer: &mut Printer,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let mut warnings = Warnings::default();
    let shape = args.print.output.format.shape();
    loop {
        let pages =
            Pages::new(api, &args.query, target, namespace, shape).in_chunks(args.print.chunk_size);
        let list = print_list(pages, target, printer, &mut warnings, console).await?;
        let path = path(&target.resource, namespace);
        let (mut version, mut columns) = (Some(list.version), list.columns);
        let mut is_expired = false;
        while !is_expired {
            let mut parameters: BTreeMap<&'static str, String> =
                parameters(&args.query, &target.names).into_iter().collect();
            parameters.insert("resourceVersion", version.clone().unwrap_or_default());
            is_expired = match api.watch(&path, &parameters, shape).await {
                Err(error) if error.is_expired() => true,
                started => {
                    let watch = &mut started?;
                    printer
                        .follow(watch, &mut version, &mut columns, console.out)
                        .await?
                }
            };
        }
        console.warn("the resource version has expired, changes may be missing; listing again")?;
    }
}
