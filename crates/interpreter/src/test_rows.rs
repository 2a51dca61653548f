//! Tables of cases in the text of a test.

use serde_json::Value;

use crate::health::Health;

/// The rows of a table, each with its cells, which `|` separates.
///
/// A row begins at the indentation of the first one, and goes on in lines that are indented more.
#[track_caller]
pub(crate) fn rows<const CELLS: usize>(table: &str) -> Vec<[&'static str; CELLS]> {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = table
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let mut rows: Vec<String> = Vec::new();
    for line in &lines {
        match rows.last_mut() {
            Some(row) if indentation(line) > indentation(lines[0]) => {
                row.push(' ');
                row.push_str(line.trim());
            }
            _ => rows.push(line.trim().to_owned()),
        }
    }
    assert!(!rows.is_empty(), "a table without a case");
    let cells = |row: String| -> [&'static str; CELLS] {
        let cells: Vec<&str> = row.leak().split('|').map(str::trim).collect();
        cells
            .try_into()
            .unwrap_or_else(|cells| panic!("not {CELLS} cells: {cells:?}"))
    };
    rows.into_iter().map(cells).collect()
}

/// The rows of a table with cells of other types than text.
#[track_caller]
pub(crate) fn typed<R: TestRow>(table: &str) -> Vec<R> {
    R::all(table)
}

pub(crate) trait TestCell {
    fn of(text: &'static str) -> Self;
}

impl TestCell for &'static str {
    fn of(text: &'static str) -> Self {
        text
    }
}

/// `-` is none.
impl TestCell for Option<&'static str> {
    fn of(text: &'static str) -> Self {
        Some(text).filter(|text| *text != "-")
    }
}

/// Texts between commas.
impl TestCell for Vec<&'static str> {
    fn of(text: &'static str) -> Self {
        text.split(", ").filter(|text| !text.is_empty()).collect()
    }
}

impl TestCell for Health {
    fn of(text: &'static str) -> Self {
        let named = |health: &Self| format!("{health:?}") == text;
        Self::ALL.into_iter().find(named).expect(text)
    }
}

macro_rules! cells_of_json {
    ($($cell:ty),+) => {
        $(impl TestCell for $cell {
            fn of(text: &'static str) -> Self {
                serde_json::from_str(text).expect(text)
            }
        })+
    };
}

cells_of_json!(Value, Vec<Value>, bool, i64, f64, Option<i64>);

pub(crate) trait TestRow: Sized {
    fn all(table: &str) -> Vec<Self>;
}

macro_rules! rows_of_cells {
    ($count:literal: $($cell:ident $name:ident),+) => {
        impl<$($cell: TestCell),+> TestRow for ($($cell),+) {
            fn all(table: &str) -> Vec<Self> {
                let row = |[$($name),+]: [&'static str; $count]| ($($cell::of($name)),+);
                rows(table).into_iter().map(row).collect()
            }
        }
    };
}

rows_of_cells!(2: A a, B b);
rows_of_cells!(3: A a, B b, C c);
rows_of_cells!(4: A a, B b, C c, D d);
rows_of_cells!(5: A a, B b, C c, D d, E e);
