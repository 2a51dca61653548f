//! Quotes of other servers' responses in errors.
//!
//! Users write the addresses of members and stores into objects, and read errors in the status of
//! these objects. An error that quoted any response would show them the content of other servers in
//! the network. So errors quote only the message of an error of the expected kind, and never JSON
//! that could not be parsed.

use serde::Deserialize;

use crate::terminal::escaped_line;

/// Characters that an error quotes at most.
const MAX_QUOTED: usize = 300;

/// Another server's text for an error: on one line, escaped, at most 300 characters.
pub fn quoted(text: &str) -> String {
    let mut letters = text.trim().chars();
    let mut short: String = letters.by_ref().take(MAX_QUOTED).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    escaped_line(&short).into_owned()
}

/// The message of a `Status` of Kubernetes; nothing of any other body.
pub fn status_message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct StatusBody {
        kind: String,
        message: String,
    }
    let StatusBody { kind, message } = serde_json::from_slice(body).ok()?;
    (kind == "Status").then(|| quoted(&message))
}

/// The position and the kind of an error in JSON, without any values.
pub fn json_fault(error: &serde_json::Error) -> String {
    let problem = match error.classify() {
        serde_json::error::Category::Io | serde_json::error::Category::Eof => "it is cut off",
        serde_json::error::Category::Syntax => "it is no JSON",
        serde_json::error::Category::Data => "it has another shape",
    };
    format!(
        "{problem} at line {} column {}",
        error.line(),
        error.column()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_message_of_a_status_is_quoted_short_and_on_one_line() {
        let status = format!(
            r#"{{"kind":"Status","message":"a\n\u001b{}"}}"#,
            "x".repeat(400)
        );
        let message = status_message(status.as_bytes()).unwrap();
        assert!(
            message.starts_with("a\\n^[xxx")
                && message.ends_with("x…")
                && message.chars().count() < 310,
            "{message}"
        );
        for other in [
            &b"secret"[..],
            br#"{"message":"secret"}"#,
            br#"{"kind":"Secret","message":"secret"}"#,
            b"",
        ] {
            assert_eq!(status_message(other), None);
        }
    }

    #[test]
    fn json_that_cannot_be_parsed_is_not_quoted() {
        let error = serde_json::from_str::<u8>(r#""hunter2""#).unwrap_err();
        assert!(error.to_string().contains("hunter2"));
        assert_eq!(
            json_fault(&error),
            "it has another shape at line 1 column 9"
        );
    }
}
