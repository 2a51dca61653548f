//! Errors in one line, for messages.

use std::error::Error;

/// An error and its sources in one line. A source is left out if the line contains it already.
///
/// No source appears in the form of Rust's `Debug`: `kube::Error` shows a `Status` of the control
/// plane in both forms, of which this keeps the one for people.
pub fn causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let shown = cause.to_string();
        // Of a `Status` without a reason.
        let text = shown.trim_end_matches(": ");
        let debug = format!("{cause:?}");
        // Only a structure is worse than its text; the name of a variant may be a word of it.
        if debug.contains(" { ") && line.contains(&debug) {
            line = without_debug(&line, &shown, &debug, text);
        } else if !line.contains(text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line
}

/// The line with only the text of a source.
fn without_debug(line: &str, shown: &str, debug: &str, text: &str) -> String {
    let both = format!("ApiError: {shown} ({debug})");
    line.replace(&both, text).replace(debug, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{message}: {reason}")]
    struct Refusal {
        message: &'static str,
        reason: &'static str,
    }

    /// As `kube::Error::Api`.
    #[derive(Debug, thiserror::Error)]
    #[error("ApiError: {0} ({0:?})")]
    struct Wrapper(#[source] Box<Refusal>);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write ResourceRegistry a")]
    struct Write(#[source] Wrapper);

    fn refusal(reason: &'static str) -> Wrapper {
        let message = "registries \"a\" is forbidden";
        Wrapper(Box::new(Refusal { message, reason }))
    }

    #[test]
    fn a_refusal_of_the_control_plane_is_a_sentence() {
        let text = "registries \"a\" is forbidden: Forbidden";
        assert_eq!(causes(&refusal("Forbidden")), text);
        let write = Write(refusal("Forbidden"));
        assert_eq!(
            causes(&write),
            format!("cannot write ResourceRegistry a: {text}")
        );
        assert_eq!(causes(&refusal("")), "registries \"a\" is forbidden");
    }
}
