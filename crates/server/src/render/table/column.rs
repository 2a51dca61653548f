//! The column definitions and cells of built-in kinds.

use fleetdex_core::fuel::{Fuel, OutOfFuel};
use jiff::Timestamp;

use super::{age::human_duration, json_node::JsonNode};

/// The cell of an empty value.
pub const NONE: &str = "<none>";
/// The cell of an unset value.
pub const UNSET: &str = "<unset>";
/// The cell of an unknown value.
pub const UNKNOWN: &str = "<unknown>";
/// The cell of a value that takes too many steps.
pub const TOO_COMPLEX: &str = "<too complex>";

/// One column of a built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The title.
    pub name: &'static str,
    /// The `OpenAPI` type of its cells.
    pub kind: &'static str,
    /// `name` for the column that holds the object's name.
    pub format: &'static str,
    /// Columns above 0 are shown only in wide tables.
    pub priority: i32,
    show: CellSource,
}

/// Where a cell comes from. Paths are field names with dots in between.
#[derive(Clone, Copy, Debug)]
enum CellSource {
    /// The text at a path, or else another one.
    Text(&'static str, &'static str),
    /// The whole number at a path.
    Integer(&'static str),
    /// The boolean at a path, or else another one.
    Flag(&'static str, bool),
    /// How many items or members there are at a path.
    Length(&'static str),
    /// How long ago the time at a path was, or else a text.
    Since(&'static str, &'static str),
    /// The texts at a path that ends with a member of a list's items, with commas in between.
    Joined(&'static str),
    /// What a function makes of the value at a path.
    Shown(&'static str, fn(&JsonNode<'_>) -> Cell),
    /// The result of a function that reads these paths.
    Computed(&'static [&'static str], fn(&RowContext<'_>) -> Cell),
}

/// A cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// `null`.
    Null,
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Result<Cell, OutOfFuel>> for Cell {
    fn from(cell: Result<Cell, OutOfFuel>) -> Self {
        cell.unwrap_or_else(|OutOfFuel| TOO_COMPLEX.into())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, show: CellSource) -> Self {
        Self {
            name,
            kind,
            format: "",
            priority: 0,
            show,
        }
    }

    /// The same, shown only in wide tables.
    pub const fn wide(self) -> Self {
        Self {
            priority: 1,
            ..self
        }
    }

    /// The same with format `name`.
    pub const fn with_name_format(self) -> Self {
        Self {
            format: "name",
            ..self
        }
    }

    /// The same with another type. Kubernetes declares some numbers and booleans as strings.
    pub const fn with_type(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// The paths that its cells read.
    pub fn reads(&self) -> &[&'static str] {
        match &self.show {
            CellSource::Text(path, _)
            | CellSource::Integer(path)
            | CellSource::Flag(path, _)
            | CellSource::Length(path)
            | CellSource::Since(path, _)
            | CellSource::Joined(path)
            | CellSource::Shown(path, _) => std::slice::from_ref(path),
            CellSource::Computed(paths, _) => paths,
        }
    }

    /// Its cell for an object.
    pub fn cell(&self, view: &RowContext<'_>) -> Cell {
        match self.show {
            CellSource::Text(path, default) => match view.at(path) {
                JsonNode::Text(text) => Cell::Text(text.clone().into_owned()),
                _ => default.into(),
            },
            CellSource::Integer(path) => Cell::Integer(view.at(path).integer()),
            CellSource::Flag(path, default) => match view.at(path) {
                JsonNode::Flag(flag) => Cell::Flag(*flag),
                _ => Cell::Flag(default),
            },
            CellSource::Length(path) => Cell::Integer(count(view.at(path))),
            CellSource::Since(path, default) => view.since_or(view.at(path), default),
            CellSource::Joined(path) => {
                let (list, member) = path.rsplit_once('.').unwrap_or(("", path));
                members(view.at(list), member)
            }
            CellSource::Shown(path, make) => make(view.at(path)),
            CellSource::Computed(_, make) => make(view),
        }
    }
}

/// The object's name.
pub const fn name() -> Column {
    text("Name", "metadata.name").with_name_format()
}

/// How long the object has existed.
pub const fn age() -> Column {
    since("Age", "metadata.creationTimestamp", UNKNOWN)
}

/// The text at a path.
pub const fn text(name: &'static str, path: &'static str) -> Column {
    text_or(name, path, "")
}

/// The text at a path, or else another one.
pub const fn text_or(name: &'static str, path: &'static str, default: &'static str) -> Column {
    Column::new(name, "string", CellSource::Text(path, default))
}

/// The whole number at a path, or 0.
pub const fn integer(name: &'static str, path: &'static str) -> Column {
    Column::new(name, "integer", CellSource::Integer(path))
}

/// The boolean at a path, or else another one.
pub const fn flag(name: &'static str, path: &'static str, default: bool) -> Column {
    Column::new(name, "boolean", CellSource::Flag(path, default))
}

/// How many items or members there are at a path.
pub const fn length(name: &'static str, path: &'static str) -> Column {
    Column::new(name, "integer", CellSource::Length(path))
}

/// How long ago the time at a path was, or else a text.
pub const fn since(name: &'static str, path: &'static str, default: &'static str) -> Column {
    Column::new(name, "string", CellSource::Since(path, default))
}

/// The texts at a path that ends with a member of a list's items, with commas in between.
pub const fn joined_texts(name: &'static str, path: &'static str) -> Column {
    Column::new(name, "string", CellSource::Joined(path))
}

/// What a function makes of the value at a path.
pub const fn shown(
    name: &'static str,
    path: &'static str,
    make: fn(&JsonNode<'_>) -> Cell,
) -> Column {
    Column::new(name, "string", CellSource::Shown(path, make))
}

/// The result of a function that reads these paths.
pub const fn computed(
    name: &'static str,
    reads: &'static [&'static str],
    make: fn(&RowContext<'_>) -> Cell,
) -> Column {
    Column::new(name, "string", CellSource::Computed(reads, make))
}

/// An object, and the time at which it is printed.
#[derive(Clone, Debug)]
pub struct RowContext<'a> {
    /// The parts of the object that any column reads.
    pub object: JsonNode<'a>,
    /// The time for ages.
    pub now: Timestamp,
    /// What the cells may take, together with those of other rows.
    pub fuel: &'a Fuel,
}

impl<'a> RowContext<'a> {
    /// The value at a path.
    pub fn at(&self, path: &str) -> &JsonNode<'a> {
        self.object.at(path)
    }

    /// How long ago a time was; `None` if it is no time.
    pub fn since(&self, time: &JsonNode<'_>) -> Option<String> {
        Some(human_duration(
            self.now.duration_since(timestamp(time)?).as_secs(),
        ))
    }

    /// How long ago a time was, or else a text.
    pub fn since_or(&self, time: &JsonNode<'_>, default: &str) -> Cell {
        self.since(time).map_or_else(|| default.into(), Cell::Text)
    }

    /// Whether the object is being deleted.
    pub fn is_deleted(&self) -> bool {
        self.at("metadata.deletionTimestamp").is_given()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        match self.at("metadata.annotations").member(key) {
            JsonNode::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// How many items or members a value has.
pub fn count(node: &JsonNode<'_>) -> i64 {
    i64::try_from(node.count()).unwrap_or(i64::MAX)
}

/// One member of every item of a list, one after another.
pub fn members(list: &JsonNode<'_>, member: &str) -> Cell {
    let texts = list.items().iter().map(|item| item.member(member).text());
    texts.collect::<Vec<_>>().join(",").into()
}

/// A time, as Kubernetes writes it.
pub fn timestamp(time: &JsonNode<'_>) -> Option<Timestamp> {
    time.text().parse().ok()
}

/// The columns of one kind, in any version.
pub(super) struct KindColumns {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) completed: Option<CompletedOf>,
}

impl KindColumns {
    pub(super) const fn new(group: &'static str, name: &'static str) -> Self {
        Self {
            group,
            name,
            columns: &[],
            completed: None,
        }
    }

    pub(super) const fn with(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }
}

/// The condition of a row, if it has one.
pub(super) type CompletedOf = fn(&RowContext<'_>) -> Option<CompletedCondition>;

/// Reason and message of the row condition `Completed`; clients may show such rows in grey.
pub(super) struct CompletedCondition {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}
