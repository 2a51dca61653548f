//! `fleetdex search`: searches objects of all kinds.
//!
//! The query is checked before it is sent, so that an error is shown with its place, also without a
//! server.

mod args;
mod completion;
mod facets;
mod pages;
mod query;
#[cfg(test)]
mod tests;
mod watch;

pub use args::SearchArgs;
pub use query::SearchQueryError;

use self::pages::{FoundPages, print_pages};
use super::{
    api::Api,
    console::{CommandError, Console, Warnings},
    output::{OutputFormat, Printer},
};

/// Searches and prints.
pub async fn search(args: &SearchArgs, console: &mut Console<'_>) -> Result<bool, CommandError> {
    check(args)?;
    let query = query::checked(query::join(&args.query), &args.terms()?)?;
    let api = Api::new(&args.server).await?;
    let mut printer = Printer::new(args.layout());
    if args.watch {
        return watch::watch(&api, args, &query, &mut printer, console).await;
    }
    let mut warnings = Warnings::default();
    let search = FoundPages::new(&api, args, &query);
    let progress = print_pages(search, &mut printer, &mut warnings, console).await?;
    let is_empty = printer.count() == 0;
    facets::finish(printer, &progress.facets, console)?;
    console.out.flush()?;
    if is_empty && args.output.format.is_line_based() {
        writeln!(console.err, "No resources found.")?;
    }
    if let Some(note) = progress.cut_note() {
        writeln!(console.err, "{note}")?;
    }
    Ok(true)
}

/// Refuses flags that contradict each other.
fn check(args: &SearchArgs) -> Result<(), CommandError> {
    if args.limit == 0 && !args.all {
        let problem = "--limit 0: write a number from 1, or use --all";
        return Err(CommandError::Usage(problem.to_owned()));
    }
    if args.facets && args.output.format == OutputFormat::Name {
        let problem = "--facets cannot be combined with -o name";
        return Err(CommandError::Usage(problem.to_owned()));
    }
    if args.facets && args.watch {
        let problem = "--facets cannot be combined with --watch";
        return Err(CommandError::Usage(problem.to_owned()));
    }
    Ok(())
}
