//! What of another server's answer an error may repeat.
//!
//! Addresses of members and stores come from objects that people write, and errors end up in statuses that they read. If an error repeated any answer,
//! an address of something else within the network would show them what it says. So errors repeat only what an error of the expected kind has at the
//! expected place, and never JSON that could not be read.

use serde::Deserialize;

use crate::terminal::escaped_line;

/// Characters of a server's own words in an error at most.
const MAX_QUOTED: usize = 300;

/// Another server's words as an error repeats them: on one line, escaped, and at most 300 characters.
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
    struct Status {
        kind: String,
        message: String,
    }
    let Status { kind, message } = serde_json::from_slice(body).ok()?;
    (kind == "Status").then(|| quoted(&message))
}

/// Where JSON is not what was expected, without the values that stand there.
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
    fn only_a_status_is_repeated_shortly_and_on_one_line() {
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
    fn json_that_cannot_be_read_is_not_repeated() {
        let error = serde_json::from_str::<u8>(r#""hunter2""#).unwrap_err();
        assert!(error.to_string().contains("hunter2"));
        assert_eq!(
            json_fault(&error),
            "it has another shape at line 1 column 9"
        );
    }
}
