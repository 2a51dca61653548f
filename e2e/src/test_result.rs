//! What a test returns: with `?` it fails at once, as a panic does.

use std::{
    convert::Infallible,
    fmt::{Debug, Display},
};

/// The result of a test, or of a step of one.
pub type Tested<T = ()> = Result<T, TestFailure>;

/// A failure never arrives: the `?` that would return it panics. What tests share looks whether a
/// panic ends a test, and keeps nothing of one that has failed: its servers are in an unknown
/// state, and its logs are still needed.
#[derive(Debug)]
pub struct TestFailure(Infallible);

impl<E: Into<anyhow::Error>> From<E> for TestFailure {
    /// # Panics
    ///
    /// With the error and all of its causes, at the line of the `?`.
    #[expect(clippy::panic, reason = "it is what fails a test")]
    #[track_caller]
    fn from(error: E) -> Self {
        panic!("{:#}", error.into())
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
    fn a_failure_is_a_panic_with_all_of_its_causes() {
        let step = || -> Tested<u8> { Ok(anyhow::Context::context("x".parse::<u8>(), "a step")?) };
        let panic = std::panic::catch_unwind(step).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!(text, "a step: invalid digit found in string");
    }
}
