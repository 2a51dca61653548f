//! Checks JSON at the speed at which objects arrive, and remembers where its containers end.
//!
//! `serde_json` checks the text of an object at 1.5 GB/s, and once more what is read of `spec` and
//! `status`. This scanner checks it once; a container that was scanned is skipped in one step
//! ([`JsonContainer`]).
//!
//! Guarantee: it accepts exactly the texts that `serde_json` accepts. A text that ended a document
//! early, or began a line of a bulk request, would change what is written for other objects.

use std::borrow::Cow;

use serde::{
    Deserialize,
    de::{Error as _, IgnoredAny},
};
use wide::u8x16;

/// Levels of nesting below which containers are not kept. Deeper objects are not indexed, and a
/// text of brackets would fill the memory.
const MAX_KEPT_DEPTH: usize = 512;
/// Room for the containers of most objects.
const USUAL_CONTAINERS: usize = 128;

/// The first byte of a text that does not fit: it is no JSON, or has another shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanFault(usize);

impl ScanFault {
    /// The error for this text, as `serde_json` describes it.
    pub fn of(self, text: &str) -> serde_json::Error {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            return error;
        }
        let before = &text.as_bytes()[..self.0.min(text.len())];
        let lines = memchr::memchr_iter(b'\n', before).count();
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let (line, column) = (lines + 1, before.len() - line_start + 1);
        // `serde_json` reads the position from the end of a message.
        serde_json::Error::custom(format_args!(
            "another shape was expected at line {line} column {column}"
        ))
    }
}

/// An object or array in a scanned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonContainer {
    /// Bytes, with its brackets.
    pub length: u32,
    /// How many containers it has, itself included.
    pub containers: u32,
}

/// A scanned value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawJson<'a> {
    text: &'a str,
    /// The position of its first container among those that the scanner has kept.
    first_container: usize,
}

impl<'a> RawJson<'a> {
    pub const NULL: RawJson<'static> = RawJson {
        text: "null",
        first_container: 0,
    };

    /// Its text.
    pub fn get(&self) -> &'a str {
        self.text
    }

    /// Its containers, and those of later values.
    pub(super) fn containers<'c>(&self, kept: &'c [JsonContainer]) -> &'c [JsonContainer] {
        kept.get(self.first_container..).unwrap_or_default()
    }
}

/// Reads a text from its start to its end.
#[derive(Debug)]
pub struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The levels of nesting so far.
    pub(super) deepest: usize,
    /// The containers of the values that were [kept](Self::value), in the order of their starts.
    pub(super) containers: Vec<JsonContainer>,
}

impl<'a> JsonScanner<'a> {
    /// A scanner at the start of a text of less than 4 GiB.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            deepest: 0,
            containers: Vec::new(),
        }
    }

    /// A scanner with room for the containers of an object.
    pub(super) fn keeping(text: &'a str) -> Self {
        Self {
            containers: Vec::with_capacity(USUAL_CONTAINERS),
            ..Self::new(text)
        }
    }

    /// The next byte that is no whitespace.
    pub fn peek(&mut self) -> Option<u8> {
        self.at = skip_whitespace(self.text.as_bytes(), self.at);
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads the end of the text.
    pub fn end(&mut self) -> Result<(), ScanFault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault()),
        }
    }

    /// Reads an object. `visit` gets the name of each member, and has to read its value.
    pub fn object(
        &mut self,
        mut visit: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), ScanFault>,
    ) -> Result<(), ScanFault> {
        if !self.open(b'{', b'}')? {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            visit(self, name)?;
            if !self.another(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads an array. `visit` has to read each item.
    pub fn array(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), ScanFault>,
    ) -> Result<(), ScanFault> {
        if !self.open(b'[', b']')? {
            return Ok(());
        }
        loop {
            visit(self)?;
            if !self.another(b']')? {
                return Ok(());
            }
        }
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<Cow<'a, str>, ScanFault> {
        self.expect(b'"')?;
        let (text, end) = string_at(self.text, self.at)?;
        self.at = end;
        Ok(text)
    }

    /// Reads `null`; returns whether it is there.
    pub fn null(&mut self) -> Result<bool, ScanFault> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.at = literal_end(self.text.as_bytes(), self.at)?;
        Ok(true)
    }

    /// Reads any value.
    pub fn skip(&mut self) -> Result<&'a str, ScanFault> {
        self.text_of_value::<false>()
    }

    /// Reads any value as a `T`.
    pub fn deserialize<T: Deserialize<'a>>(&mut self) -> Result<T, ScanFault> {
        let text = self.skip()?;
        let start = ScanFault(self.at - text.len());
        serde_json::from_str(text).map_err(|_| start)
    }

    /// Reads any value, and keeps its containers.
    pub(super) fn value(&mut self) -> Result<RawJson<'a>, ScanFault> {
        let first_container = self.containers.len();
        let text = self.text_of_value::<true>()?;
        Ok(RawJson {
            text,
            first_container,
        })
    }

    /// Reads the start of an object or array; returns whether it has members or items.
    fn open(&mut self, bracket: u8, closing: u8) -> Result<bool, ScanFault> {
        self.expect(bracket)?;
        if self.peek() == Some(closing) {
            self.deepest = self.deepest.max(self.depth + 1);
            self.at += 1;
            return Ok(false);
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        Ok(true)
    }

    /// Reads what follows a member or item; returns whether that is another one.
    fn another(&mut self, closing: u8) -> Result<bool, ScanFault> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == closing => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ => Err(self.fault()),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), ScanFault> {
        if self.peek() != Some(byte) {
            return Err(self.fault());
        }
        self.at += 1;
        Ok(())
    }

    /// What is here does not fit.
    pub fn fault(&self) -> ScanFault {
        ScanFault(self.at)
    }

    fn text_of_value<const KEEP: bool>(&mut self) -> Result<&'a str, ScanFault> {
        self.peek();
        let start = self.at;
        self.any::<KEEP>()?;
        self.text.get(start..self.at).ok_or(ScanFault(start))
    }

    /// Reads any value. A loop, so that no depth exhausts the stack.
    fn any<const KEEP: bool>(&mut self) -> Result<(), ScanFault> {
        let bytes = self.text.as_bytes();
        let mut open = OpenContainers::default();
        let mut at = self.at;
        loop {
            match bytes.get(at) {
                Some(b'"') => at = string_end(bytes, at + 1)?.0,
                Some(&bracket @ (b'{' | b'[')) => {
                    open.enter(bracket == b'{');
                    if KEEP && open.depth <= MAX_KEPT_DEPTH {
                        self.open_container(&mut open, at);
                    }
                    self.deepest = self.deepest.max(self.depth + open.depth);
                    at = skip_whitespace(bytes, at + 1);
                    // The end of an empty container is read below.
                    if bytes.get(at) != Some(&open.closing()) {
                        if open.in_object() {
                            at = name_end(bytes, at)?;
                        }
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => at = number_end(bytes, at)?,
                _ => at = literal_end(bytes, at)?,
            }
            loop {
                if open.depth == 0 {
                    self.at = at;
                    return Ok(());
                }
                at = skip_whitespace(bytes, at);
                match bytes.get(at) {
                    Some(b',') => {
                        at = skip_whitespace(bytes, at + 1);
                        if open.in_object() {
                            at = name_end(bytes, at)?;
                        }
                        break;
                    }
                    Some(byte) if *byte == open.closing() => {
                        at += 1;
                        if KEEP && open.depth <= MAX_KEPT_DEPTH {
                            self.close_container(&mut open, at);
                        }
                        open.leave();
                    }
                    _ => return Err(ScanFault(at)),
                }
            }
        }
    }

    /// While a container is open, its entry has its start, and the position of the container around
    /// it.
    fn open_container(&mut self, open: &mut OpenContainers, start: usize) {
        let entry = JsonContainer {
            length: number(start),
            containers: open.innermost,
        };
        open.innermost = number(self.containers.len());
        self.containers.push(entry);
    }

    fn close_container(&mut self, open: &mut OpenContainers, end: usize) {
        let (position, kept) = (open.innermost, number(self.containers.len()));
        if let Some(entry) = self.containers.get_mut(position as usize) {
            open.innermost = entry.containers;
            *entry = JsonContainer {
                length: number(end) - entry.length,
                containers: kept - position,
            };
        }
    }
}

/// A position in a text of less than 4 GiB.
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// The containers around a position: a bit for each, which says whether it is an object.
#[derive(Default)]
struct OpenContainers {
    depth: usize,
    /// Those of the innermost 64 levels, the innermost in the lowest bit.
    are_objects: u64,
    /// Those of all 64 levels above.
    outer: Vec<u64>,
    /// The entry of the innermost container.
    innermost: u32,
}

impl OpenContainers {
    fn enter(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.are_objects);
        }
        self.depth += 1;
        self.are_objects = (self.are_objects << 1) | u64::from(is_object);
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.are_objects >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.are_objects = self.outer.pop().unwrap_or_default();
        }
    }

    fn in_object(&self) -> bool {
        self.are_objects & 1 == 1
    }

    fn closing(&self) -> u8 {
        if self.in_object() { b'}' } else { b']' }
    }
}

#[inline]
pub(super) fn skip_whitespace(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'\0'..=b' ') => whitespace_end(bytes, at),
        _ => at,
    }
}

#[cold]
fn whitespace_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Reads a name, a colon, and the whitespace behind it.
fn name_end(bytes: &[u8], at: usize) -> Result<usize, ScanFault> {
    if bytes.get(at) != Some(&b'"') {
        return Err(ScanFault(at));
    }
    let (end, _) = string_end(bytes, at + 1)?;
    let colon = skip_whitespace(bytes, end);
    if bytes.get(colon) != Some(&b':') {
        return Err(ScanFault(colon));
    }
    Ok(skip_whitespace(bytes, colon + 1))
}

/// The string whose first byte behind the quote is here, and the position behind it.
pub(super) fn string_at(text: &str, start: usize) -> Result<(Cow<'_, str>, usize), ScanFault> {
    let (end, is_escaped) = string_end(text.as_bytes(), start)?;
    let fault = ScanFault(start);
    if !is_escaped {
        let text = text.get(start..end - 1).ok_or(fault)?;
        return Ok((Cow::Borrowed(text), end));
    }
    let json = text.get(start - 1..end).ok_or(fault)?;
    let text: String = serde_json::from_str(json).map_err(|_| fault)?;
    Ok((Cow::Owned(text), end))
}

/// The position behind the string whose first byte behind the quote is here, and whether it has
/// escapes.
#[expect(
    clippy::inline_always,
    reason = "as a call it takes a third of the time of a scan"
)]
#[inline(always)]
pub(super) fn string_end(bytes: &[u8], start: usize) -> Result<(usize, bool), ScanFault> {
    let at = match bytes.get(start..).and_then(<[u8]>::first_chunk) {
        Some(block) => match special_bytes(*block) {
            0 => plain_end(bytes, start + block.len()),
            special => start + special.trailing_zeros() as usize,
        },
        None => plain_end(bytes, start),
    };
    if bytes.get(at) == Some(&b'"') {
        return Ok((at + 1, false));
    }
    Ok((escaped_string_end(bytes, at)?, true))
}

/// The position behind a string of which an escape is here.
#[cold]
fn escaped_string_end(bytes: &[u8], mut at: usize) -> Result<usize, ScanFault> {
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = plain_end(bytes, escape_end(bytes, at + 1)?),
            _ => return Err(ScanFault(at)),
        }
    }
}

/// The position of the first byte from here that ends a string, begins an escape, or is a control
/// character.
#[inline(never)]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let special = special_bytes(*block);
        if special != 0 {
            return at + special.trailing_zeros() as usize;
        }
        at += block.len();
    }
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b'"' | b'\\' | ..0x20) {
            break;
        }
        at += 1;
    }
    at
}

/// A bit for each byte that is special in a string.
#[inline]
fn special_bytes(block: [u8; 16]) -> u32 {
    let block = u8x16::new(block);
    let is = |byte: u8| block.simd_eq(u8x16::splat(byte));
    let is_control = block.simd_eq(block.min(u8x16::splat(0x1f)));
    (is(b'"') | is(b'\\') | is_control).to_bitmask()
}

/// The position behind the escape whose character behind the backslash is here.
fn escape_end(bytes: &[u8], at: usize) -> Result<usize, ScanFault> {
    match bytes.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => {
            let digits = bytes.get(at + 1..at + 5).ok_or(ScanFault(at))?;
            if digits.iter().all(u8::is_ascii_hexdigit) {
                Ok(at + 5)
            } else {
                Err(ScanFault(at))
            }
        }
        _ => Err(ScanFault(at)),
    }
}

fn number_end(bytes: &[u8], start: usize) -> Result<usize, ScanFault> {
    let mut at = start;
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match bytes.get(at) {
        Some(b'0') => at + 1,
        _ => digits_end(bytes, at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = digits_end(bytes, at)?;
    }
    Ok(at)
}

/// The position behind one or more digits.
fn digits_end(bytes: &[u8], start: usize) -> Result<usize, ScanFault> {
    let mut at = start;
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    if at == start {
        return Err(ScanFault(at));
    }
    Ok(at)
}

/// The position behind `null`, `true` or `false`.
fn literal_end(bytes: &[u8], at: usize) -> Result<usize, ScanFault> {
    let rest = bytes.get(at..).unwrap_or_default();
    let literals: [&[u8]; 3] = [b"true", b"false", b"null"];
    let found = literals
        .into_iter()
        .find(|literal| rest.starts_with(literal));
    found.map(|literal| at + literal.len()).ok_or(ScanFault(at))
}

#[cfg(test)]
mod tests;
