//! Aligns lines of cells. Cells may come from objects, so control characters are escaped.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use fleetdex_core::{json_path::text, terminal::escaped_line};
use serde_json::Value;

/// Spaces between two columns.
const GAP: usize = 3;
/// Minimum width of a column with its gap, as in kubectl.
const MIN_WIDTH: usize = 6;

/// Writes aligned columns without trailing spaces.
pub fn write_aligned(out: &mut dyn Write, lines: &[Vec<String>]) -> io::Result<()> {
    AlignedColumns::default().write(out, lines)
}

/// A cell of a Table as kubectl prints it: up to the first line break.
pub(crate) fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(line) => first_line(line),
        other => text(other),
    }
}

/// A text up to its first line break.
pub(crate) fn first_line(text: &str) -> String {
    match text.split_once(['\n', '\r', '\u{c}']) {
        Some((first, _)) => format!("{first}..."),
        None => text.to_owned(),
    }
}

/// Columns that are written in parts: each is as wide as its widest cell so far.
#[derive(Debug, Default)]
pub(super) struct AlignedColumns {
    widths: Vec<usize>,
}

impl AlignedColumns {
    /// Writes more lines.
    pub(super) fn write<L: AsRef<[String]>>(
        &mut self,
        out: &mut dyn Write,
        lines: &[L],
    ) -> io::Result<()> {
        let lines: Vec<Vec<Cow<'_, str>>> = lines
            .iter()
            .map(|line| {
                line.as_ref()
                    .iter()
                    .map(|cell| escaped_line(cell))
                    .collect()
            })
            .collect();
        for line in &lines {
            self.widths.resize(self.widths.len().max(line.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for line in &lines {
            let mut text = String::new();
            for (width, cell) in self.widths.iter().zip(line) {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(
                    ' ',
                    (width + GAP).max(MIN_WIDTH) - cell.chars().count(),
                ));
            }
            writeln!(out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}
