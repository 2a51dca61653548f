//! `get --watch`: what there is, and then every change until somebody stops it.
//!
//! The server ends a watch within a minute, because Kubernetes' aggregation layer would; the next one goes on where it ended.

use std::collections::BTreeMap;

use super::{
    Args,
    printer::Printer,
    show::{shape, show},
    targets::Target,
};
use crate::{
    api::{Api, ApiError, Event, TableColumn},
    console::{CommandError, Console},
    pages::{Pages, Warnings, parameters, path},
};

/// HTTP status of a version that is gone.
const GONE: i32 = 410;

/// How a watch ended.
enum Ended {
    /// The server closed it; another can go on.
    Closed,
    /// The server does not know any more what happened since.
    Gone,
}

/// Shows one resource and its changes; ends with an error only.
pub(super) async fn follow(
    api: &Api,
    args: &Args,
    target: &Target,
    namespace: Option<&str>,
    printer: &mut Printer,
    console: &mut Console<'_>,
) -> Result<bool, CommandError> {
    let mut warnings = Warnings::default();
    let mut is_silent = args.shown.watch_only;
    loop {
        let pages = Pages::new(api, &args.query, target, namespace, shape(args));
        let (version, columns) = begin(
            pages,
            args,
            target,
            is_silent,
            printer,
            &mut warnings,
            console,
        )
        .await?;
        let mut following = Following {
            path: path(&target.held, namespace),
            version,
            columns,
        };
        while let Ended::Closed = following.watch(api, args, target, printer, console).await? {}
        // What happened meanwhile is not known, so what there is now is shown.
        console.warn("the server does not know every change any more; here is everything again")?;
        is_silent = false;
    }
}

/// Where to begin, and the columns. Shows what there is, unless only changes are wanted.
async fn begin(
    pages: Pages<'_>,
    args: &Args,
    target: &Target,
    is_silent: bool,
    printer: &mut Printer,
    warnings: &mut Warnings,
    console: &mut Console<'_>,
) -> Result<(String, Vec<TableColumn>), CommandError> {
    if !is_silent {
        let shown = show(
            pages.in_chunks(args.shown.chunk_size),
            args,
            target,
            printer,
            warnings,
            console,
        )
        .await?;
        return Ok((shown.version, shown.columns));
    }
    let first = pages.in_chunks(1).next(warnings, console).await?;
    Ok(first
        .map(|page| (page.version.unwrap_or_default(), page.columns))
        .unwrap_or_default())
}

struct Following {
    path: String,
    version: String,
    columns: Vec<TableColumn>,
}

impl Following {
    /// Shows changes until the watch ends.
    async fn watch(
        &mut self,
        api: &Api,
        args: &Args,
        target: &Target,
        printer: &mut Printer,
        console: &mut Console<'_>,
    ) -> Result<Ended, CommandError> {
        let mut asked: BTreeMap<&'static str, String> =
            parameters(&args.query, &target.names).into_iter().collect();
        asked.insert("resourceVersion", self.version.clone());
        let mut watch = match api.watch(&self.path, &asked, shape(args)).await {
            Err(ApiError::Refused { status, .. }) if status.code == Some(GONE) => {
                return Ok(Ended::Gone);
            }
            begun => begun?,
        };
        while let Some(event) = watch.next().await? {
            match event {
                Event::Gone => return Ok(Ended::Gone),
                Event::Bookmark(version) => self.go_on(version),
                Event::Object {
                    kind,
                    item,
                    columns,
                    version,
                } => {
                    self.go_on(version);
                    if !columns.is_empty() {
                        self.columns = columns;
                    }
                    printer.add_event(&kind, &item, &self.columns, console.out)?;
                    printer.flush(console.out)?;
                }
            }
        }
        Ok(Ended::Closed)
    }

    fn go_on(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.version = version;
        }
    }
}
