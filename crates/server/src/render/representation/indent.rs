//! Indentation of a stream of compact JSON.

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
