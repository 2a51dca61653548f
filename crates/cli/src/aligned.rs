//! Lines of text in columns. Cells may come from objects: what a terminal would act on is escaped.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use fleetdex_core::terminal::escaped_line;

/// Blanks between two columns.
const GAP: usize = 3;
/// A column with its gap is at least so wide, as kubectl's.
const MIN_WIDTH: usize = 6;

/// Aligns columns; the last one is as wide as it needs.
pub(super) fn write(out: &mut dyn Write, lines: &[Vec<String>]) -> io::Result<()> {
    Columns::default().write(out, lines)
}

/// Columns whose lines come piece by piece: they are as wide as the widest cell so far.
#[derive(Debug, Default)]
pub(super) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Writes further lines.
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
