//! Columns, and what stands in their cells.

use jiff::Timestamp;

use super::{age::human_duration, node::Node};

/// What stands for nothing.
pub const NONE: &str = "<none>";
/// What stands for something that nobody has set.
pub const UNSET: &str = "<unset>";
/// What stands for something that is not known.
pub const UNKNOWN: &str = "<unknown>";

/// One column of a built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its title.
    pub name: &'static str,
    /// Type of its cells, as `OpenAPI` calls it.
    pub kind: &'static str,
    /// `name` for the column that holds the object's name.
    pub format: &'static str,
    /// Columns above 0 are shown only in wide tables.
    pub priority: i32,
    show: Show,
}

/// Where a cell comes from. Paths are member names with dots in between.
#[derive(Clone, Copy, Debug)]
enum Show {
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
    /// Whatever a function makes of these paths.
    Made(&'static [&'static str], fn(&View<'_>) -> Cell),
}

/// What stands in one column of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
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

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, show: Show) -> Self {
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
    pub const fn holding_a_name(self) -> Self {
        Self {
            format: "name",
            ..self
        }
    }

    /// The same with another type. Kubernetes calls some numbers and booleans strings.
    pub const fn called(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// The paths that its cells are made of.
    pub fn reads(&self) -> &[&'static str] {
        match &self.show {
            Show::Text(path, _)
            | Show::Integer(path)
            | Show::Flag(path, _)
            | Show::Length(path)
            | Show::Since(path, _) => std::slice::from_ref(path),
            Show::Made(paths, _) => paths,
        }
    }

    /// Its cell for an object.
    pub fn cell(&self, view: &View<'_>) -> Cell {
        match self.show {
            Show::Text(path, default) => match view.at(path) {
                Node::Text(text) => Cell::Text(text.clone().into_owned()),
                _ => default.into(),
            },
            Show::Integer(path) => Cell::Integer(view.at(path).integer()),
            Show::Flag(path, default) => match view.at(path) {
                Node::Flag(flag) => Cell::Flag(*flag),
                _ => Cell::Flag(default),
            },
            Show::Length(path) => Cell::Integer(count(view.at(path))),
            Show::Since(path, default) => view
                .since(view.at(path))
                .unwrap_or_else(|| default.to_owned())
                .into(),
            Show::Made(_, make) => make(view),
        }
    }
}

/// The object's name.
pub const fn name() -> Column {
    text("Name", "metadata.name").holding_a_name()
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
    Column::new(name, "string", Show::Text(path, default))
}

/// The whole number at a path, or 0.
pub const fn integer(name: &'static str, path: &'static str) -> Column {
    Column::new(name, "integer", Show::Integer(path))
}

/// The boolean at a path, or else another one.
pub const fn flag(name: &'static str, path: &'static str, default: bool) -> Column {
    Column::new(name, "boolean", Show::Flag(path, default))
}

/// How many items or members there are at a path.
pub const fn length(name: &'static str, path: &'static str) -> Column {
    Column::new(name, "integer", Show::Length(path))
}

/// How long ago the time at a path was, or else a text.
pub const fn since(name: &'static str, path: &'static str, default: &'static str) -> Column {
    Column::new(name, "string", Show::Since(path, default))
}

/// A text, or whatever else, that a function makes of these paths.
pub const fn made(
    name: &'static str,
    reads: &'static [&'static str],
    make: fn(&View<'_>) -> Cell,
) -> Column {
    Column::new(name, "string", Show::Made(reads, make))
}

/// An object at the moment that it is shown.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The parts of the object that any column reads.
    pub object: Node<'a>,
    /// The moment.
    pub now: Timestamp,
}

impl<'a> View<'a> {
    /// The value at a path.
    pub fn at(&self, path: &str) -> &Node<'a> {
        self.object.at(path)
    }

    /// How long ago a time was; nothing if there is none.
    pub fn since(&self, time: &Node<'_>) -> Option<String> {
        Some(human_duration(
            self.now.duration_since(timestamp(time)?).as_secs(),
        ))
    }

    /// Whether the object is being deleted.
    pub fn is_deleted(&self) -> bool {
        self.at("metadata.deletionTimestamp").is_given()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        match self.at("metadata.annotations").member(key) {
            Node::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// How many items or members a value has.
pub fn count(node: &Node<'_>) -> i64 {
    i64::try_from(node.items().len() + node.entries().len()).unwrap_or(i64::MAX)
}

/// A time, as Kubernetes writes it.
pub fn timestamp(time: &Node<'_>) -> Option<Timestamp> {
    time.text().parse().ok()
}
