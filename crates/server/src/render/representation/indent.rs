//! Indentation of a stream of compact JSON.

/// An object of members that takes more than this when it is laid out, and four times its text,
/// stays on one line: 1.5 MB of zeros in 500 nested lists would take 750 MB.
const MAX_LAID_OUT: usize = 16 << 20;
/// An object that is nested more deeply stays on one line, too: `serde_json`, which YAML is written
/// with, reads 128 levels.
const MAX_DEPTH: usize = 100;

/// About how many bytes JSON takes with an indented line for each of its values, or for each line
/// of its texts; `None` if it stays on one line.
pub fn laid_out_size(json: &[u8]) -> Option<usize> {
    let (mut size, mut depth, mut in_text) = (json.len(), 1_usize, false);
    let mut deepest = depth;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_text => {
                let breaks_line = bytes.next() == Some(&b'n');
                size += 2 * depth * usize::from(breaks_line);
            }
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
                size += 2 * depth + 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1).max(1);
                size += 2 * depth + 1;
            }
            b',' => size += 2 * depth + 1,
            b':' => size += 1,
            _ => {}
        }
    }
    (deepest - 1 <= MAX_DEPTH && size <= MAX_LAID_OUT.max(4 * json.len())).then_some(size)
}

/// Indents a stream of JSON that comes in pieces of any size.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_text: bool,
    after_backslash: bool,
    /// The last character opened a bracket.
    just_opened: bool,
}

impl Indenter {
    /// Appends the next piece.
    pub fn write(&mut self, out: &mut Vec<u8>, json: &[u8]) {
        let Some(size) = laid_out_size(json) else {
            self.just_opened = false;
            out.extend_from_slice(json);
            return;
        };
        out.reserve(size);
        for &byte in json {
            if self.in_text {
                out.push(byte);
                self.follow_text(byte);
            } else if !byte.is_ascii_whitespace() {
                self.write_mark(out, byte);
            }
        }
    }

    fn follow_text(&mut self, byte: u8) {
        match byte {
            _ if self.after_backslash => self.after_backslash = false,
            b'\\' => self.after_backslash = true,
            b'"' => self.in_text = false,
            _ => {}
        }
    }

    fn write_mark(&mut self, out: &mut Vec<u8>, byte: u8) {
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.just_opened != closes {
            self.new_line(out);
        }
        self.just_opened = false;
        out.push(byte);
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.just_opened = true;
            }
            b',' => self.new_line(out),
            b':' => out.push(b' '),
            b'"' => self.in_text = true,
            _ => {}
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}
