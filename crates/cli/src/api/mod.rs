//! The query API, as the commands use it.

mod error;
mod place;
mod transport;
mod watch;

use std::collections::BTreeMap;

use fleetdex_server::{
    percent,
    report::Line,
    request::{GROUPS, VERSION},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, Method, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    APIGroupList, APIResourceList, APIVersions, ListMeta,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use self::transport::{Call, Transport};
pub use self::{
    error::ApiError,
    place::Place,
    watch::{Event, Watch},
};
use super::get::resolve::Held;

/// Discovery documents asked for at a time.
const DISCOVERIES_AT_ONCE: usize = 8;
/// What answers are asked for as.
const JSON: &str = "application/json";
/// What kubectl asks for.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What a list is asked for as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Whole objects.
    Objects,
    /// A row of cells for each object, with its metadata.
    Table,
    /// A row of cells for each object, with the object.
    TableWithObjects,
}

impl Shape {
    fn parameters<'p>(self, parameters: &BTreeMap<&'p str, String>) -> Vec<(&'p str, String)> {
        let mut pairs: Vec<(&str, String)> = parameters
            .iter()
            .map(|(key, value)| (*key, value.clone()))
            .collect();
        pairs.extend(
            (self == Self::TableWithObjects).then(|| ("includeObject", "Object".to_owned())),
        );
        pairs
    }
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// Where to go on.
    pub next: Option<String>,
    /// Where a watch can go on.
    pub version: Option<String>,
    /// The columns, of a Table.
    pub columns: Vec<TableColumn>,
    /// The objects.
    pub items: Vec<Item>,
    /// What the server warned of.
    pub warnings: Vec<String>,
}

/// An object of a page.
#[derive(Debug)]
pub struct Item {
    /// It, or only its metadata.
    pub object: Box<RawValue>,
    /// Its row, in a Table.
    pub cells: Vec<Value>,
}

/// A column of a Table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TableColumn {
    /// Its title.
    pub name: String,
    /// Columns above 0 are for wide tables.
    #[serde(default)]
    pub priority: i32,
}

#[derive(Deserialize)]
struct RawList {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTable {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    column_definitions: Option<Vec<TableColumn>>,
    rows: Vec<RawRow>,
}

#[derive(Deserialize)]
struct RawRow {
    cells: Vec<Value>,
    object: Box<RawValue>,
}

impl From<RawList> for Page {
    fn from(list: RawList) -> Self {
        let items = list
            .items
            .into_iter()
            .map(|object| Item {
                object,
                cells: Vec::new(),
            })
            .collect();
        let ListMeta {
            continue_,
            resource_version,
            ..
        } = list.metadata;
        Self {
            next: non_empty(continue_),
            version: non_empty(resource_version),
            columns: Vec::new(),
            items,
            warnings: Vec::new(),
        }
    }
}

impl From<RawTable> for Page {
    fn from(table: RawTable) -> Self {
        let items = table
            .rows
            .into_iter()
            .map(|RawRow { cells, object }| Item { object, cells })
            .collect();
        let ListMeta {
            continue_,
            resource_version,
            ..
        } = table.metadata;
        Self {
            next: non_empty(continue_),
            version: non_empty(resource_version),
            columns: table.column_definitions.unwrap_or_default(),
            items,
            warnings: Vec::new(),
        }
    }
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// How many objects there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// What the groups are made by.
    pub by: Vec<String>,
    /// Objects in all groups.
    pub total: u64,
    /// Objects in groups that are not told.
    pub others: u64,
    /// The groups, the largest first.
    pub items: Vec<CountedGroup>,
    /// What the server warned of.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Objects that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedGroup {
    /// One value for each key; nothing where the objects have none.
    pub values: Vec<Option<String>>,
    /// How many there are.
    pub count: u64,
}

/// A server that can be asked.
pub struct Api {
    transport: Transport,
}

impl Api {
    /// Reads the token or the kubeconfig; asks nothing yet.
    pub async fn new(place: &Place) -> Result<Self, ApiError> {
        Ok(Self {
            transport: Transport::new(place).await?,
        })
    }

    /// The namespace to look in unless another is named.
    pub fn default_namespace(&self) -> &str {
        self.transport.default_namespace()
    }

    /// Every resource that the server holds, the preferred version of each group first.
    pub async fn held(&self) -> Result<Vec<Held>, ApiError> {
        let core: APIVersions = self.fleet("api").await?;
        let groups: APIGroupList = self.fleet("apis").await?;
        let mut group_versions: Vec<(String, String)> = core
            .versions
            .into_iter()
            .map(|version| (String::new(), version))
            .collect();
        for group in groups.groups {
            group_versions.extend(
                group
                    .versions
                    .into_iter()
                    .map(|entry| (group.name.clone(), entry.version)),
            );
        }
        let lists =
            stream::iter(group_versions).map(|(group, version)| self.held_in(group, version));
        let held: Vec<Vec<Held>> = lists.buffered(DISCOVERIES_AT_ONCE).try_collect().await?;
        Ok(held.into_iter().flatten().collect())
    }

    async fn held_in(&self, group: String, version: String) -> Result<Vec<Held>, ApiError> {
        let path = if group.is_empty() {
            format!("api/{version}")
        } else {
            format!("apis/{group}/{version}")
        };
        let list: APIResourceList = self.fleet(&path).await?;
        let resources = list
            .resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        Ok(resources
            .map(|resource| Held {
                group: group.clone(),
                version: version.clone(),
                resource,
            })
            .collect())
    }

    /// One page of a list; `path` is the collection's native path.
    pub async fn list(
        &self,
        path: &str,
        parameters: &BTreeMap<&'static str, String>,
        shape: Shape,
    ) -> Result<Page, ApiError> {
        let path = below("search", path, &shape.parameters(parameters));
        let (mut page, headers): (Page, HeaderMap) = match shape {
            Shape::Objects => self
                .get_as::<RawList>(&path, JSON)
                .await
                .map(|(list, headers)| (list.into(), headers))?,
            Shape::Table | Shape::TableWithObjects => {
                self.get_as::<RawTable>(&path, TABLE)
                    .await
                    .map(|(table, headers)| (table.into(), headers))?
            }
        };
        page.warnings = warnings(&headers);
        Ok(page)
    }

    /// What happens to the objects of a list from the version among the parameters on.
    pub async fn watch(
        &self,
        native: &str,
        parameters: &BTreeMap<&'static str, String>,
        shape: Shape,
    ) -> Result<Watch, ApiError> {
        let mut pairs = shape.parameters(parameters);
        pairs.extend(["watch", "allowWatchBookmarks"].map(|flag| (flag, "true".to_owned())));
        let path = path(&below("search", native, &pairs));
        let accept = if shape == Shape::Objects { JSON } else { TABLE };
        let answer = self
            .transport
            .send(&Call {
                method: Method::GET,
                path: &path,
                accept,
            })
            .await?;
        Ok(Watch::new(answer, path, shape))
    }

    /// How the server would answer a list.
    pub async fn explanation(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<(Value, Vec<String>), ApiError> {
        let (explanation, headers) = self
            .get_as(&below("search", path, parameters), JSON)
            .await?;
        Ok((explanation, warnings(&headers)))
    }

    /// How many objects a list would show.
    pub async fn count(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<Counts, ApiError> {
        let (mut counts, headers): (Counts, HeaderMap) = self
            .get_as(&below("aggregate", path, parameters), JSON)
            .await?;
        counts.warnings = warnings(&headers);
        Ok(counts)
    }

    async fn fleet<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        Ok(self
            .get_as(&format!("proxying/karmada/proxy/{path}"), JSON)
            .await?
            .0)
    }

    async fn get_as<T: DeserializeOwned>(
        &self,
        below_group: &str,
        accept: &'static str,
    ) -> Result<(T, HeaderMap), ApiError> {
        let path = path(below_group);
        let mut answer = self
            .transport
            .send(&Call {
                method: Method::GET,
                path: &path,
                accept,
            })
            .await?;
        let code = answer.code.as_u16();
        let headers = std::mem::take(&mut answer.headers);
        let body = answer.bytes().await?;
        Ok((
            serde_json::from_slice(&body).map_err(|error| garbled(&path, code, &error))?,
            headers,
        ))
    }

    /// Verifies these clusters, or all; `take` is given every line but the last. It may take hours, so only silence is bounded.
    pub async fn verify(
        &self,
        clusters: &[String],
        mut take: impl FnMut(Line),
    ) -> Result<(), ApiError> {
        let parameter = if clusters.is_empty() {
            String::new()
        } else {
            format!("?clusters={}", percent::encode(&clusters.join(",")))
        };
        let path = path(&format!("verify{parameter}"));
        let mut answer = self
            .transport
            .send(&Call {
                method: Method::POST,
                path: &path,
                accept: JSON,
            })
            .await?;
        let code = answer.code.as_u16();
        let mut unread: Vec<u8> = Vec::new();
        while let Some(piece) = answer.next().await? {
            unread.extend_from_slice(&piece);
            while let Some(end) = memchr::memchr(b'\n', &unread) {
                let line = serde_json::from_slice(&unread[..end])
                    .map_err(|error| garbled(&path, code, &error))?;
                if let Line::End { .. } = line {
                    return Ok(());
                }
                take(line);
                unread.drain(..=end);
            }
        }
        Err(ApiError::CutOff {
            place: self.transport.place().to_owned(),
        })
    }
}

fn path(below_group: &str) -> String {
    format!("/apis/{}/{VERSION}/{below_group}", GROUPS[0])
}

fn below(what: &str, native: &str, parameters: &[(&str, String)]) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(key, value)| format!("{key}={}", percent::encode(value)))
        .collect();
    format!("{what}/{native}?{}", pairs.join("&"))
}

fn garbled(path: &str, code: u16, error: &serde_json::Error) -> ApiError {
    ApiError::Garbled {
        path: path.to_owned(),
        code,
        reason: error.to_string(),
    }
}

/// The texts of `Warning: 299 - "text"` headers.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers
        .get_all(header::WARNING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.filter_map(warning_text).collect()
}

fn warning_text(value: &str) -> Option<String> {
    let (_, quoted) = value.split_once('"')?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => text.extend(letters.next()),
            plain => text.push(plain),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_without_their_quotes() {
        assert_eq!(
            warning_text(r#"299 - "cluster \"a\\b\" is old""#).as_deref(),
            Some(r#"cluster "a\b" is old"#)
        );
        assert_eq!(warning_text("299 - none"), None);
    }
}
