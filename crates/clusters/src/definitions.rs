//! Reads a member's custom resource definitions in the background: the printer columns of their
//! objects, and the fields that selectors may name.
//!
//! They are read when a connection starts and whenever discovery changes, which is when kinds are
//! added and removed, and also every ten minutes, because a definition can change without a change
//! of discovery. No query waits for them. A member that does not allow reading them has none.
//!
//! They are polled, and not reflected with `kube::runtime`, because the responses of a member are
//! untrusted: every page, list and text is limited, and all members share a budget of concurrent
//! reads.

mod wire;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use fleetdex_core::{
    kinds,
    model::{FieldPath, PrinterColumn, Resource},
    query::ResourceName,
};
use http::HeaderMap;
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

use self::wire::{
    PAGE, RawDefinition, RawDefinitionList, RawDefinitionVersion, RawSelectableField,
};
use super::{
    discovery::{Discovery, is_group, is_name},
    request::{self, RequestError},
};
use crate::watch::MAX_TOKEN;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Pages that are read at a time, over all members. Full pages of the largest definitions take 60
/// MB.
const MAX_CONCURRENT_READS: usize = 4;
/// Pages of one member, at most: enough for one definition per kind of the largest discovery. It
/// also limits empty pages.
const MAX_PAGES: usize = 10_000 / PAGE;
/// Text of a column or field, in bytes, at most. Most have a tenth.
const MAX_TEXT: usize = 4_096;
/// Memory for one member's definitions, in bytes. 1,000 definitions with two versions of ten
/// columns each take 4 MiB.
const MAX_BYTES: usize = 8 << 20;
/// Bytes per version, column or field besides its text.
const OVERHEAD: usize = 128;
/// Time between two reads of a member whose discovery does not change.
const INTERVAL: Duration = Duration::from_mins(10);
/// Time until the next read after a failure.
const DEFINITIONS_RETRY: Duration = Duration::from_mins(1);
/// How long the lists of custom resources wait for their definitions. If they arrive later, all
/// objects are written twice.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(5);

static READ_PERMITS: Semaphore = Semaphore::const_new(MAX_CONCURRENT_READS);

/// The custom resource definitions of a member, by resource and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    by_version: BTreeMap<(ResourceName, Arc<str>), Definition>,
    /// Their memory, in bytes.
    bytes: usize,
    left_out: usize,
}

/// One version of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// The printer columns of its objects.
    pub columns: Arc<[PrinterColumn]>,
    /// `selectableFields`: the fields that field selectors may name besides name and namespace.
    pub fields: Vec<FieldPath>,
    /// Whether its schema has no `status`, so that API servers remove what controllers write there.
    pub lacks_status: bool,
}

impl Definitions {
    /// All definitions with their resource and version.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, &Arc<str>, &Definition)> {
        self.by_version
            .iter()
            .map(|((name, version), definition)| (name, version, definition))
    }

    /// Number of versions, columns, fields and pages that are left out because they exceed a limit.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The selectable fields of a resource.
    pub fn fields(&self, resource: &Resource) -> &[FieldPath] {
        self.find(resource)
            .map_or(&[], |definition| &definition.fields)
    }

    /// Whether the schema of a resource has no `status`. `false` if its definition is not known.
    pub fn lacks_status(&self, resource: &Resource) -> bool {
        self.find(resource)
            .is_some_and(|definition| definition.lacks_status)
    }

    fn find(&self, resource: &Resource) -> Option<&Definition> {
        let key = (
            ResourceName::from(resource),
            Arc::clone(&resource.gvk.version),
        );
        self.by_version.get(&key)
    }

    /// Parses `CustomResourceDefinition`s, for tests.
    #[cfg(any(test, feature = "testing"))]
    #[allow(
        clippy::missing_panics_doc,
        clippy::unwrap_used,
        reason = "for tests only"
    )]
    pub fn of<const N: usize>(definitions: [serde_json::Value; N]) -> Self {
        let mut all = Self::default();
        for definition in definitions {
            all.add(serde_json::from_value(definition).unwrap());
        }
        all
    }

    /// Adds a definition as far as it fits the limits.
    fn add(&mut self, RawDefinition { spec }: RawDefinition) {
        let plural = &spec.names.plural;
        self.left_out += spec.versions.more;
        for RawDefinitionVersion {
            name,
            additional_printer_columns: columns,
            selectable_fields: fields,
            schema,
        } in spec.versions.first
        {
            let is_named = is_group(&spec.group) && is_name(plural) && is_name(&name);
            if !is_named || !self.has_room_for(spec.group.len() + plural.len() + name.len()) {
                self.left_out += 1;
                continue;
            }
            self.left_out += columns.more + fields.more;
            let columns = columns
                .first
                .into_iter()
                .filter(|column| self.has_room_for(length(column)))
                .collect();
            let fields = fields
                .first
                .iter()
                .filter(|field| self.has_room_for(field.json_path.len()));
            let fields = fields.filter_map(RawSelectableField::path).collect();
            self.by_version.insert(
                (ResourceName::new(&spec.group, plural), name.into()),
                Definition {
                    columns,
                    fields,
                    lacks_status: schema.lacks_status(),
                },
            );
        }
    }

    /// Whether there is room for a text of this length; if so, counts it.
    fn has_room_for(&mut self, text: usize) -> bool {
        let bytes = self.bytes + text + OVERHEAD;
        let has_room = text <= MAX_TEXT && bytes <= MAX_BYTES;
        if has_room {
            self.bytes = bytes;
        } else {
            self.left_out += 1;
        }
        has_room
    }
}

fn length(column: &PrinterColumn) -> usize {
    let PrinterColumn {
        name,
        kind,
        format,
        description,
        priority: _,
        json_path,
    } = column;
    [name, kind, format, description, json_path]
        .map(|text| text.len())
        .iter()
        .sum()
}

/// Reads the definitions repeatedly until dropped, and passes them to `publish`; `None` while they
/// cannot be read.
pub(super) async fn poll(
    client: Client,
    timeout: Duration,
    discovery: watch::Receiver<Arc<Discovery>>,
    publish: impl Fn(Option<Definitions>),
) -> Infallible {
    let timeout_notice = async {
        sleep(INITIAL_TIMEOUT).await;
        publish(None);
    };
    let polling = poll_forever(&client, timeout, discovery, &publish);
    let (never, ()) = tokio::join!(polling, timeout_notice);
    never
}

async fn poll_forever(
    client: &Client,
    timeout: Duration,
    mut discovery: watch::Receiver<Arc<Discovery>>,
    publish: &impl Fn(Option<Definitions>),
) -> Infallible {
    loop {
        let has_custom_kinds = has_custom_kinds(&discovery.borrow_and_update());
        let pause = if has_custom_kinds {
            poll_once(client, timeout, publish).await
        } else {
            publish(Some(Definitions::default()));
            INTERVAL
        };
        tokio::select! {
            Ok(()) = discovery.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Reads the definitions once. Returns how long to wait before the next read.
async fn poll_once(
    client: &Client,
    timeout: Duration,
    publish: &impl Fn(Option<Definitions>),
) -> Duration {
    match read(client, timeout).await {
        Ok(found) => {
            publish(Some(found));
            INTERVAL
        }
        Err(error) => {
            tracing::debug!(%error, "cannot read the custom resource definitions of a member");
            let is_final = error.is_forbidden_or_absent();
            publish(is_final.then(Definitions::default));
            if is_final {
                INTERVAL
            } else {
                DEFINITIONS_RETRY
            }
        }
    }
}

/// Whether the member serves custom resource definitions and any kind that is not built in.
fn has_custom_kinds(discovery: &Discovery) -> bool {
    let is_definition =
        |resource: &Resource| &*resource.gvk.group == GROUP && &*resource.plural == PLURAL;
    let is_built_in = |resource: &Resource| kinds::is_built_in(&resource.gvk);
    let served = || {
        discovery
            .served
            .iter()
            .filter(|served| served.list_and_watch)
            .map(|served| &served.resource)
    };
    served().any(is_definition) && !served().all(is_built_in)
}

/// Reads all definitions, page by page. Each request takes at most `timeout`.
async fn read(client: &Client, timeout: Duration) -> Result<Definitions, RequestError> {
    let mut definitions = Definitions::default();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let path = format!(
            "{PATH}?limit={PAGE}&continue={}",
            utf8_percent_encode(&token, NON_ALPHANUMERIC)
        );
        // The semaphore is never closed.
        let permit = READ_PERMITS.acquire().await;
        let response = request::get(client, &path, HeaderMap::new(), timeout).await?;
        let unreadable = |error: serde_json::Error| RequestError::unreadable(&path, &error);
        let RawDefinitionList { metadata, items } =
            serde_json::from_slice(&response.body).map_err(unreadable)?;
        drop(response);
        drop(permit);
        definitions.left_out += items.more;
        for definition in items.first {
            definitions.add(definition);
        }
        token = metadata.next;
        if token.is_empty() {
            return Ok(definitions);
        }
        if token.len() > MAX_TOKEN {
            let fault = format!(
                "its continue token has {} bytes, more than {MAX_TOKEN}",
                token.len()
            );
            return Err(RequestError::Unreadable {
                request: format!("GET {PATH}"),
                fault,
            });
        }
    }
    definitions.left_out += 1;
    Ok(definitions)
}

#[cfg(test)]
mod tests;
