//! Escapes text of objects and servers for a terminal.
//!
//! A terminal acts on control characters: they move the cursor, hide lines, set titles and, in some
//! terminals, type commands. Kubernetes lets them into many fields, so `kubectl` escapes them since
//! CVE-2021-25743. This module escapes the same characters, and those that `kubectl` leaves: the
//! other control characters, and the characters that change the direction of the text that follows.
//!
//! Source of the first two rules: `terminalEscaper` of
//! <https://pkg.go.dev/k8s.io/cli-runtime/pkg/printers>

use std::{borrow::Cow, fmt::Write as _};

/// Whether a terminal may act on a character instead of showing it; false for line breaks and tabs.
fn is_acted_on(letter: char) -> bool {
    let is_direction = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_direction || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// The text with escapes for all characters that a terminal may act on, except line breaks and
/// tabs: `^[` for the escape character, `\r`, `^G` for another control character of ASCII, `\u009b`
/// for the rest.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_where(text, is_acted_on, |shown, letter| match letter {
        '\r' => shown.push_str("\\r"),
        ascii if ascii.is_ascii() => {
            // 0x1b is `[` with the sixth and seventh bit off, and DEL is `?` with the seventh on.
            shown.push('^');
            shown.push(char::from(ascii as u8 ^ 0x40));
        }
        other => write_escape(shown, other),
    })
}

/// The text escaped as by [`escaped`], line breaks and tabs included, so that it stays on one line
/// and in one column.
pub fn escaped_line(text: &str) -> Cow<'_, str> {
    match escaped(text) {
        plain if !plain.contains(['\n', '\t']) => plain,
        broken => Cow::Owned(broken.replace('\n', "\\n").replace('\t', "\\t")),
    }
}

/// JSON of the same value without characters that a terminal may act on. JSON itself escapes the
/// control characters of ASCII except DEL.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    // Outside of strings such characters are only line breaks, which stay.
    escaped_where(json, is_acted_on, write_escape)
}

fn write_escape(shown: &mut String, letter: char) {
    let written = write!(shown, "\\u{:04x}", u32::from(letter));
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
}

fn escaped_where(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else {
        return Cow::Borrowed(text);
    };
    let (plain, rest) = text.split_at(first);
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(plain);
    for letter in rest.chars() {
        if is_escaped(letter) {
            escape(&mut shown, letter);
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_shown_as_in_kubectl() {
        assert_eq!(escaped("\u{1b}[2Jgone\r"), "^[[2Jgone\\r");
        assert_eq!(
            escaped("bell\u{7} del\u{7f} csi\u{9b}2J \u{202e}txt.exe"),
            "bell^G del^? csi\\u009b2J \\u202etxt.exe"
        );
        assert_eq!(escaped("a\nb\tc"), "a\nb\tc");
        assert_eq!(escaped_line("a\nb\tc\u{1b}"), "a\\nb\\tc^[");
        assert!(matches!(escaped("plain ünïcode 日本"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(!escaped(&text).chars().any(is_acted_on));
            prop_assert!(!escaped_line(&text).chars().any(|letter| is_acted_on(letter) || letter == '\n'));
        }

        #[test]
        fn escaped_json_has_the_same_value(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let shown = escaped_json(&json);
            prop_assert!(!shown.chars().any(is_acted_on));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
