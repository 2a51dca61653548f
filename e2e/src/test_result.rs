//! What a test returns: with `?`, its failure says where it happened, as a panic does.

use std::{
    fmt::{self, Debug, Display},
    panic::Location,
};

/// The result of a test, or of a step of one.
pub type Tested<T = ()> = Result<T, TestFailure>;

/// An error, and the line of the `?` that returned it from the innermost function of the test.
pub struct TestFailure {
    error: anyhow::Error,
    at: &'static Location<'static>,
}

impl<E: Into<anyhow::Error>> From<E> for TestFailure {
    #[track_caller]
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            at: Location::caller(),
        }
    }
}

impl Display for TestFailure {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}: {:#}", self.at, self.error)
    }
}

/// What a test prints that fails.
impl Debug for TestFailure {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, text)
    }
}

/// Fails with the text unless it contains `part`.
///
/// # Panics
///
/// If it does not.
#[track_caller]
pub fn assert_contains(text: &impl Display, part: &str) {
    let text = text.to_string();
    assert!(text.contains(part), "{part:?} is not in: {text}");
}

/// Fails unless `result` is an error with `part` in its message.
///
/// # Panics
///
/// If it is another error, or none.
#[track_caller]
pub fn assert_fails<T: Debug>(result: Result<T, impl Display>, part: &str) {
    let (is_error, text) = match result {
        Ok(value) => (false, format!("it succeeds: {value:?}")),
        Err(error) => (true, error.to_string()),
    };
    assert!(
        is_error && text.contains(part),
        "{part:?} is not in: {text}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_its_line_and_all_of_its_causes() {
        let step = || -> Tested<u8> { Ok(anyhow::Context::context("x".parse::<u8>(), "a step")?) };
        let outer = || -> Tested<u8> { Ok(step()? + 1) };
        let line = line!() - 2;
        let text = outer().unwrap_err().to_string();
        assert!(text.starts_with(&format!("{}:{line}:", file!())), "{text}");
        assert!(
            text.ends_with("a step: invalid digit found in string"),
            "{text}"
        );
    }
}
