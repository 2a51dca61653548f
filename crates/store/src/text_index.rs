//! Texts in one text, so that all of them are searched at the speed of memory.

use fleetdex_core::query::WordMatch;
use memchr::memmem::Finder;

/// Nothing has this number.
const GONE: u32 = u32::MAX;
/// Ends a text.
const END: u8 = 0;
/// Removed texts are kept while they are fewer than this, or fewer than the others.
const FEW: usize = 1_024;
/// Entries after the last one that are tried before the others are searched.
const NEAR: usize = 8;

/// Texts in lower case, one after another, each with a number.
#[derive(Default)]
pub(super) struct TextIndex {
    text: Vec<u8>,
    entries: Vec<TextEntry>,
    /// The entry of each number.
    by_number: Vec<u32>,
    removed: usize,
}

/// Where a text begins.
#[derive(Clone, Copy)]
struct TextEntry {
    start: u32,
    number: u32,
}

impl TextIndex {
    /// Adds a text, in parts that are read as one.
    pub(super) fn insert(&mut self, number: u32, parts: &[&str]) {
        self.insert_bytes(number, parts.iter().flat_map(|part| part.bytes()));
    }

    fn insert_bytes(&mut self, number: u32, bytes: impl Iterator<Item = u8>) {
        // Four gigabytes of texts do not fit into any memory.
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let entry = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.text
            .extend(bytes.map(|byte| byte.to_ascii_lowercase()));
        self.text.push(END);
        self.entries.push(TextEntry { start, number });
        let slot = number as usize;
        if slot >= self.by_number.len() {
            self.by_number.resize(slot + 1, GONE);
        }
        self.by_number[slot] = entry;
    }

    /// Removes the text with a number; whether there was one.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let entry = self.by_number.get_mut(number as usize);
        let entry = entry.map_or(GONE, |entry| std::mem::replace(entry, GONE));
        let Some(entry) = self.entries.get_mut(entry as usize) else {
            return false;
        };
        entry.number = GONE;
        self.removed += 1;
        if self.removed > FEW && self.removed > self.entries.len() / 2 {
            self.compact();
        }
        true
    }

    fn compact(&mut self) {
        let old = std::mem::take(self);
        for (place, entry) in old.entries.iter().enumerate() {
            if entry.number != GONE {
                let text = &old.text[entry.start as usize..old.end(place)];
                self.insert_bytes(entry.number, text.iter().copied());
            }
        }
    }

    /// Where the text of an entry ends.
    fn end(&self, entry: usize) -> usize {
        let next = self.entries.get(entry + 1);
        next.map_or(self.text.len(), |next| next.start as usize) - 1
    }

    /// The entry of a byte, which is not before the entry `from`.
    fn entry_at(&self, byte: usize, from: usize) -> Option<usize> {
        let after = |entry: &TextEntry| entry.start as usize > byte;
        let next = self.entries.get(from + 1..)?;
        let near = next.iter().take(NEAR).position(after);
        let steps = near.unwrap_or_else(|| next.partition_point(|entry| !after(entry)));
        Some(from + steps)
    }

    /// Hands over the numbers of the texts that contain a part in lower case, and how well they
    /// match.
    pub(super) fn for_each_with(&self, part: &str, mut each: impl FnMut(u32, WordMatch)) {
        let finder = Finder::new(part.as_bytes());
        let (mut from, mut entry) = (0, 0);
        while let Some(found) = self.text.get(from..).and_then(|text| finder.find(text)) {
            let at = from + found;
            let Some(place) = self.entry_at(at, entry) else {
                return;
            };
            entry = place;
            let TextEntry { start, number } = self.entries[entry];
            let (start, end) = (start as usize, self.end(entry));
            from = end + 1;
            // A part with the end of a text in it is in none.
            if number == GONE || at + part.len() > end {
                continue;
            }
            let found = match (at == start, end - start == part.len()) {
                (true, true) => WordMatch::Exact,
                (true, false) => WordMatch::Prefix,
                (false, _) => WordMatch::Part,
            };
            each(number, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: &TextIndex, part: &str) -> Vec<(u32, WordMatch)> {
        let mut found = Vec::new();
        index.for_each_with(part, |number, matched| found.push((number, matched)));
        found
    }

    #[test]
    fn every_text_with_a_part_is_found_once() {
        let mut index = TextIndex::default();
        for (number, text) in [(3, "web-web"), (0, "Web"), (1, "db"), (2, "my-web")] {
            index.insert(number, &[text]);
        }
        let expected = [
            (3, WordMatch::Prefix),
            (0, WordMatch::Exact),
            (2, WordMatch::Part),
        ];
        assert_eq!(found(&index, "web"), expected);
        index.remove(0);
        index.insert(0, &["oth", "er"]);
        assert_eq!(found(&index, "other"), [(0, WordMatch::Exact)]);
        assert_eq!(found(&index, "web").len(), 2);
        assert_eq!(found(&index, "bdb"), [], "a part does not span two texts");
        assert_eq!(found(&index, "b\0d"), [], "nor with what is between them");
    }

    #[test]
    fn texts_far_from_each_other_are_found() {
        let mut index = TextIndex::default();
        for number in 0..1_000 {
            index.insert(number, &[if number % 100 == 7 { "web" } else { "db" }]);
        }
        let numbers = found(&index, "web").into_iter().map(|(number, _)| number);
        assert!(numbers.eq((7..1_000).step_by(100)));
    }

    #[test]
    fn removed_texts_do_not_pile_up() {
        let mut index = TextIndex::default();
        for round in 0..5_000 {
            index.insert(round % 10, &[&format!("name-{round}")]);
            if round >= 10 {
                assert!(index.text.len() < 100_000);
            }
            if round % 10 == 9 && round < 4_990 {
                (0..10).for_each(|number| assert!(index.remove(number)));
            }
        }
        let numbers: Vec<u32> = found(&index, "name-")
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        assert_eq!(numbers, (0..10).collect::<Vec<u32>>());
    }
}
