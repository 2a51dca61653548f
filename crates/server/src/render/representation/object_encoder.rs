//! Encoders of objects of one kind.

use fleetdex_core::{model::Gvk, query::Hit};
use fleetdex_query_api::answer::ListMetadata;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    format::{Encoding, IncludeObject, MetaVersion, OutputKind, Representation},
    indent::Indenter,
    yaml,
};
use crate::{api_error::ApiError, render::table::TablePrinter};

/// Encodes objects of one kind for one response.
#[derive(Clone, Debug)]
pub struct ObjectEncoder {
    representation: Representation,
    kind: Gvk,
    table: Option<TablePrinter>,
    now: Timestamp,
}

impl ObjectEncoder {
    /// `kind` is that of the objects, in the requested version. `table` is called if the output is
    /// a Table. Ages are computed at `now`.
    pub fn new(
        representation: Representation,
        kind: Gvk,
        table: impl FnOnce() -> TablePrinter,
        now: Timestamp,
    ) -> Self {
        let table = matches!(representation.output, OutputKind::Table(..)).then(table);
        Self {
            representation,
            kind,
            table,
            now,
        }
    }

    /// Sets the time for ages, for a watch.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Encodes one object: itself, a Table of one row, or its metadata.
    ///
    /// `with_columns` is false for all but the first event of a watch, which alone has column
    /// definitions.
    pub fn object(&self, hit: &Hit, with_columns: bool) -> Result<Vec<u8>, ApiError> {
        let mut json = Vec::with_capacity(hit.object.get().len() + 1);
        match (&self.table, self.representation.output) {
            (Some(table), OutputKind::Table(version, _)) => {
                let metadata = json!({ "resourceVersion": resource_version(hit.object.get()) });
                json.extend_from_slice(head("Table", version.api_version(), &metadata).as_bytes());
                if with_columns {
                    json.extend_from_slice(b",\"columnDefinitions\":");
                    table.write_definitions(&mut json);
                } else {
                    json.extend_from_slice(b",\"columnDefinitions\":null");
                }
                json.extend_from_slice(b",\"rows\":[");
                self.write_item(&mut json, hit);
                json.extend_from_slice(b"]}");
            }
            _ => self.write_item(&mut json, hit),
        }
        json.push(b'\n');
        encoded(self.representation, json)
    }

    /// The object of a bookmark event, as JSON.
    pub fn bookmark(&self, metadata: &Value) -> Vec<u8> {
        let rest = match self.representation.output {
            OutputKind::Table(..) => ",\"columnDefinitions\":null,\"rows\":[]}",
            OutputKind::Object | OutputKind::PartialMetadata(_) => "}",
        };
        (self.head("", metadata) + rest).into_bytes()
    }

    /// An encoder of a list with this metadata.
    pub fn list(self, metadata: &ListMetadata) -> ListEncoder {
        let mut head = self.head("List", &json!(metadata)).into_bytes();

        if let Some(table) = &self.table {
            head.extend_from_slice(b",\"columnDefinitions\":");
            table.write_definitions(&mut head);
        }
        let indenter = self.representation.pretty.then(Indenter::default);
        ListEncoder {
            layout: self,
            head,
            is_first: true,
            indenter,
            scratch: Vec::new(),
        }
    }

    /// `{"kind":…,"apiVersion":…,"metadata":…`, left open. The kind of objects ends with `suffix`.
    fn head(&self, suffix: &str, metadata: &Value) -> String {
        match self.representation.output {
            OutputKind::Object => {
                let kind = format!("{}{suffix}", self.kind.kind);
                head(&kind, &self.kind.api_version(), metadata)
            }
            OutputKind::Table(version, _) => head("Table", version.api_version(), metadata),
            OutputKind::PartialMetadata(version) => {
                let kind = format!("PartialObjectMetadata{suffix}");
                head(&kind, version.api_version(), metadata)
            }
        }
    }

    /// Appends one item of a list, or row of a Table, as compact JSON.
    fn write_item(&self, out: &mut Vec<u8>, hit: &Hit) {
        match (&self.table, self.representation.output) {
            (Some(table), OutputKind::Table(version, include)) => {
                out.push(b'{');
                table.write_cells(out, hit, self.now);
                out.extend_from_slice(b",\"object\":");
                match include {
                    IncludeObject::None => out.extend_from_slice(b"null"),
                    IncludeObject::Metadata => write_metadata(out, version, hit.object.get()),
                    IncludeObject::Object => out.extend_from_slice(hit.object.get().as_bytes()),
                }
                out.push(b'}');
            }
            (_, OutputKind::PartialMetadata(version)) => {
                write_metadata(out, version, hit.object.get());
            }
            _ => out.extend_from_slice(hit.object.get().as_bytes()),
        }
    }
}

/// Encodes a list, item by item.
#[derive(Debug)]
pub struct ListEncoder {
    layout: ObjectEncoder,
    /// The list up to its items, without the closing bracket; empty once it is written.
    head: Vec<u8>,
    is_first: bool,
    indenter: Option<Indenter>,
    scratch: Vec<u8>,
}

impl ListEncoder {
    /// About how many bytes it takes to append an item.
    pub fn needed(&self, hit: &Hit) -> usize {
        self.layout.representation.needed(hit.object.get())
    }

    /// Appends an item, and the head of the list before the first one.
    pub fn write(&mut self, out: &mut Vec<u8>, hit: &Hit) -> Result<(), ApiError> {
        self.write_head(out)?;
        if self.layout.representation.encoding == Encoding::Yaml {
            if std::mem::take(&mut self.is_first) {
                out.push(b'\n');
            }
            self.scratch.clear();
            self.layout.write_item(&mut self.scratch, hit);
            return yaml::write_item(out, &self.scratch);
        }
        let comma: &[u8] = if self.is_first { b"" } else { b"," };
        self.is_first = false;
        match &mut self.indenter {
            Some(indenter) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(comma);
                self.layout.write_item(&mut self.scratch, hit);
                indenter.write(out, &self.scratch);
            }
            None => {
                out.extend_from_slice(comma);
                self.layout.write_item(out, hit);
            }
        }
        Ok(())
    }

    /// Appends the end, and the head of the list if there was no item.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ApiError> {
        self.write_head(out)?;
        match (self.layout.representation.encoding, &mut self.indenter) {
            (Encoding::Yaml, _) if self.is_first => out.extend_from_slice(b" []\n"),
            (Encoding::Yaml, _) => {}
            (Encoding::Json, Some(indenter)) => {
                indenter.write(out, b"]}");
                out.push(b'\n');
            }
            (Encoding::Json, None) => out.extend_from_slice(b"]}\n"),
        }
        Ok(())
    }

    fn write_head(&mut self, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let mut head = std::mem::take(&mut self.head);
        if head.is_empty() {
            return Ok(());
        }
        let is_table = self.layout.table.is_some();
        let items = if is_table { "rows" } else { "items" };
        if self.layout.representation.encoding == Encoding::Yaml {
            head.push(b'}');
            yaml::write(out, &head)?;
            out.extend_from_slice(items.as_bytes());
            out.push(b':');
            return Ok(());
        }
        head.extend_from_slice(format!(",\"{items}\":[").as_bytes());
        match &mut self.indenter {
            Some(indenter) => indenter.write(out, &head),
            None => out.extend_from_slice(&head),
        }
        Ok(())
    }
}

/// Encodes compact JSON that ends with a line break.
pub(super) fn encoded(representation: Representation, json: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::with_capacity(json.len());
    if representation.encoding == Encoding::Yaml {
        yaml::write(&mut out, &json)?;
    } else if representation.pretty {
        Indenter::default().write(&mut out, &json);
        out.push(b'\n');
    } else {
        return Ok(json);
    }
    Ok(out)
}

/// `{"kind":…,"apiVersion":…,"metadata":…`, left open.
fn head(kind: &str, api_version: &str, metadata: &Value) -> String {
    format!(
        r#"{{"kind":{},"apiVersion":{},"metadata":{metadata}"#,
        json!(kind),
        json!(api_version)
    )
}

#[derive(Deserialize)]
struct MetadataOnly<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

fn metadata(object: &str) -> &str {
    let parsed: Option<MetadataOnly<'_>> = serde_json::from_str(object).ok();
    let metadata = parsed.and_then(|object| object.metadata);
    metadata.map_or("{}", RawValue::get)
}

fn write_metadata(out: &mut Vec<u8>, version: MetaVersion, object: &str) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(metadata(object).as_bytes());
    out.push(b'}');
}

fn resource_version(object: &str) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListedVersion {
        #[serde(default)]
        resource_version: String,
    }
    let listed: Option<ListedVersion> = serde_json::from_str(metadata(object)).ok();
    listed.map_or_else(String::new, |listed| listed.resource_version)
}
