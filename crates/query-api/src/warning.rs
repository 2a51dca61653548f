//! The header `Warning`, as Kubernetes sends it: `299 - "text"`.
//!
//! Source: <https://www.rfc-editor.org/rfc/rfc7234#section-5.5>

/// What precedes each text.
const CODE_AND_AGENT: &str = "299 - ";

/// The value of the header for a text. Characters that a header cannot carry become `?`.
pub fn header_value(text: &str) -> String {
    let mut value = format!("{CODE_AND_AGENT}\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => value.extend(['\\', letter]),
            plain if plain.is_ascii_graphic() || plain == ' ' => value.push(plain),
            _ => value.push('?'),
        }
    }
    value.push('"');
    value
}

/// The text of a value of the header; `None` for warnings of other codes.
pub fn text(value: &str) -> Option<String> {
    let quoted = value.strip_prefix(CODE_AND_AGENT)?.strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            plain => text.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_whole_warnings_of_kubernetes_have_a_text() {
        assert_eq!(
            text(r#"299 - "cluster \"m\" is old""#).as_deref(),
            Some("cluster \"m\" is old")
        );
        for other in [
            "",
            "110 - stale",
            "299 - ",
            r#"299 - "open"#,
            r#"299 - "a\"#,
        ] {
            assert_eq!(text(other), None, "{other}");
        }
        assert_eq!(header_value("ä\n"), r#"299 - "??""#);
    }

    proptest! {
        #[test]
        fn a_text_of_printable_ascii_reads_the_same(plain in "[ -~]*") {
            prop_assert_eq!(text(&header_value(&plain)), Some(plain));
        }
    }
}
