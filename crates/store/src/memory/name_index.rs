//! The names of a table's documents in one text, so that all of them are searched at the speed of
//! memory.

use memchr::memmem::Finder;

/// No document has this position.
const GONE: u32 = u32::MAX;
/// Ends a name. No name has it.
const END: u8 = 0;
/// Removed names are kept while they are fewer than this, or fewer than the others.
const FEW: usize = 1_024;

/// Names in lower case, one after another.
#[derive(Default)]
pub(super) struct NameIndex {
    text: Vec<u8>,
    entries: Vec<NameEntry>,
    /// The entry of each position.
    by_position: Vec<u32>,
    removed: usize,
}

/// A name in the text.
#[derive(Clone, Copy)]
struct NameEntry {
    start: u32,
    /// The position of its document.
    position: u32,
}

impl NameIndex {
    /// Adds the name of the document at a position.
    pub(super) fn insert(&mut self, position: u32, name: &str) {
        // Four gigabytes of names of one kind in one cluster do not fit into any memory.
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let entry = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.text
            .extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
        self.text.push(END);
        self.entries.push(NameEntry { start, position });
        let slot = position as usize;
        if slot >= self.by_position.len() {
            self.by_position.resize(slot + 1, GONE);
        }
        self.by_position[slot] = entry;
    }

    /// Removes the name of the document at a position.
    pub(super) fn remove(&mut self, position: u32) {
        let entry = self.by_position.get_mut(position as usize);
        let Some(entry) = entry.map(|entry| std::mem::replace(entry, GONE)) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(entry as usize) {
            entry.position = GONE;
            self.removed += 1;
        }
        if self.removed > FEW && self.removed > self.entries.len() / 2 {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old = std::mem::take(self);
        for (number, entry) in old.entries.iter().enumerate() {
            if entry.position != GONE {
                let name = old.name(number);
                self.insert(entry.position, str::from_utf8(name).unwrap_or_default());
            }
        }
    }

    /// The name of an entry.
    fn name(&self, entry: usize) -> &[u8] {
        let start = self.entries[entry].start as usize;
        &self.text[start..self.end(entry) - 1]
    }

    /// Where the next entry starts.
    fn end(&self, entry: usize) -> usize {
        let next = self.entries.get(entry + 1);
        next.map_or(self.text.len(), |next| next.start as usize)
    }

    /// Hands over the positions of the names that contain a text in lower case, each with the name.
    pub(super) fn for_each_with(&self, part: &str, mut each: impl FnMut(u32, &str)) {
        let finder = Finder::new(part.as_bytes());
        let mut from = 0;
        while let Some(found) = self.text.get(from..).and_then(|text| finder.find(text)) {
            let at = from + found;
            let after = self
                .entries
                .partition_point(|entry| entry.start as usize <= at);
            let Some(entry) = after.checked_sub(1) else {
                return;
            };
            let position = self.entries[entry].position;
            if position != GONE {
                each(
                    position,
                    str::from_utf8(self.name(entry)).unwrap_or_default(),
                );
            }
            from = self.end(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: &NameIndex, part: &str) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        index.for_each_with(part, |position, name| {
            found.push((position, name.to_owned()));
        });
        found
    }

    #[test]
    fn every_name_with_a_part_is_found_once() {
        let mut index = NameIndex::default();
        for (position, name) in [(3, "web-web"), (0, "Web"), (1, "db"), (2, "my-web")] {
            index.insert(position, name);
        }
        let expected = [(3, "web-web"), (0, "web"), (2, "my-web")];
        let expected = expected.map(|(position, name)| (position, name.to_owned()));
        assert_eq!(found(&index, "web"), expected);
        index.remove(0);
        index.insert(0, "other");
        assert_eq!(found(&index, "other"), [(0, "other".to_owned())]);
        assert_eq!(found(&index, "web").len(), 2);
        assert_eq!(found(&index, "bdb"), [], "a part does not span two names");
    }

    #[test]
    fn removed_names_do_not_pile_up() {
        let mut index = NameIndex::default();
        for round in 0..5_000 {
            index.insert(round % 10, &format!("name-{round}"));
            if round >= 10 {
                assert!(index.text.len() < 100_000);
            }
            if round % 10 == 9 && round < 4_990 {
                (0..10).for_each(|position| index.remove(position));
            }
        }
        let positions: Vec<u32> = found(&index, "name-")
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        assert_eq!(positions, (0..10).collect::<Vec<u32>>());
    }
}
