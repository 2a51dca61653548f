//! What a reason, a message or a status word says, by the words in it.

use std::ops::BitOr;

use super::words::{self, Classes, PHRASES};

/// Bytes of a text after these are not read. The cause stands in front; traces and lists follow.
const MAX_BYTES: usize = 400;

/// The number of words after a negation that do not count.
const NEGATION_REACH: usize = 3;

/// The number of words of the longest phrase.
const MAX_PHRASE: usize = 3;

/// The classes that make the tone of a text.
const COUNTED: [Classes; 5] = [
    Classes::BAD,
    Classes::PAUSED,
    Classes::BUSY,
    Classes::GOOD,
    Classes::DONE,
];

/// What a text says. It may say several things at once.
pub(super) fn tone(text: &str) -> Classes {
    let mut found = Classes::default();
    let mut since_negation = usize::MAX;
    let mut latest = [""; MAX_PHRASE];
    for token in tokens(&text[..text.floor_char_boundary(MAX_BYTES)]) {
        let classes = words::classes(token);
        found = found | counted(classes, since_negation < NEGATION_REACH);
        latest = [token, latest[0], latest[1]];
        if classes.has(Classes::ENDS_PHRASE) {
            found = found | phrase(&latest);
        }
        since_negation = if classes.has(Classes::NEGATION) {
            0
        } else {
            since_negation.saturating_add(1)
        };
    }
    found
}

/// What a word adds to the tone of its text.
fn counted(classes: Classes, negated: bool) -> Classes {
    if !negated {
        return COUNTED
            .into_iter()
            .filter(|class| classes.has(*class))
            .fold(Classes::default(), Classes::bitor);
    }
    if classes.has(Classes::GOOD) {
        return Classes::NOT_GOOD;
    }
    Classes::default()
}

/// What the phrases say that end with the latest words. The words stand from the last to the first.
fn phrase(latest: &[&str; MAX_PHRASE]) -> Classes {
    PHRASES
        .into_iter()
        .filter(|(_, phrase)| {
            phrase
                .iter()
                .zip(latest)
                .all(|(word, token)| word.eq_ignore_ascii_case(token))
        })
        .fold(Classes::default(), |found, (class, _)| found | class)
}

/// The words of a text: it is split at everything that is no letter and before each capital that
/// begins a word. `ErrImagePull` is err, image and pull; `OOMKilled` is OOM and killed.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().position(u8::is_ascii_alphabetic)?;
        let start = at;
        at += token_length(&bytes[start..]);
        text.get(start..at)
    })
}

/// The length of the word that a text begins with.
fn token_length(bytes: &[u8]) -> usize {
    let capitals = run(bytes, u8::is_ascii_uppercase);
    let small = run(&bytes[capitals..], u8::is_ascii_lowercase);
    match (capitals, small) {
        (0 | 1, small) => capitals + small,
        (capitals, 0) => capitals,
        (capitals, _) => capitals - 1,
    }
}

/// How many bytes from the first on are of a class.
fn run(bytes: &[u8], class: fn(&u8) -> bool) -> usize {
    bytes
        .iter()
        .position(|byte| !class(byte))
        .unwrap_or(bytes.len())
}
