//! Lines of text in columns.

use std::io::{self, Write};

/// Blanks between two columns.
const GAP: usize = 3;

/// Aligns columns; the last one is as wide as it needs.
pub(super) fn write(out: &mut dyn Write, lines: &[Vec<String>]) -> io::Result<()> {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in lines {
        let mut text = String::new();
        for (width, cell) in widths.iter().zip(line) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width + GAP - cell.chars().count()));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
