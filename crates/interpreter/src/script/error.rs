//! What is wrong with a script, or with one run of it.

use crate::{InterpretError, Operation};

/// The longest text of a script that an error repeats, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// Why a script cannot be used, or why a run of it has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The text is no Lua, or uses `goto` for something else than the end of a loop's body.
    #[error("line {line}: {reason}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The text is too long.
    #[error("script has more than {0} bytes")]
    TooLong(usize),
    /// The script does not define the function of its operation.
    #[error("script does not define the function {0}")]
    MissingFunction(&'static str),
    /// The operation cannot be scripted, or is not the one of the script.
    #[error("script does not answer {0}")]
    Operation(Operation),
    /// The script raised an error.
    #[error("script failed: {0}")]
    Raised(String),
    /// The script did too much.
    #[error("script took more than 500,000 loop iterations and calls")]
    OutOfSteps,
    /// The script ran too long, with few but long steps.
    #[error("script took more than one second")]
    OutOfTime,
    /// The script needed too much memory.
    #[error("script took more memory than allowed")]
    OutOfMemory,
    /// The object is larger than what a script is given.
    #[error("object is too large for a script")]
    ObjectTooLarge,
    /// The script returned a value of another type.
    #[error("{function} must return {expected}, but returned {actual}")]
    ReturnType {
        /// The function.
        function: &'static str,
        /// The type of the contract.
        expected: &'static str,
        /// The type of the value.
        actual: &'static str,
    },
    /// The script returned a value that is no JSON of the expected form.
    #[error("result of the script is invalid: {0}")]
    Result(String),
}

impl ScriptError {
    /// A raised error. The text is cut.
    pub(super) fn raised(text: &str) -> Self {
        Self::Raised(cut(text).to_owned())
    }

    /// An unusable result. The text is cut.
    pub(super) fn result(text: &str) -> Self {
        Self::Result(cut(text).to_owned())
    }
}

/// An error of the engine that no limit caused.
impl From<&mlua::Error> for ScriptError {
    fn from(error: &mlua::Error) -> Self {
        match error {
            mlua::Error::MemoryError(_) => Self::OutOfMemory,
            mlua::Error::CallbackError { cause, .. } => Self::from(&**cause),
            mlua::Error::RuntimeError(text) => Self::raised(without_traceback(text)),
            other => Self::raised(without_traceback(&other.to_string())),
        }
    }
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        Self::from(&error)
    }
}

impl From<ScriptError> for InterpretError {
    fn from(error: ScriptError) -> Self {
        Self(error.to_string())
    }
}

/// The type of a value, as messages of Lua 5.1 name it.
pub(super) fn type_name(value: &mlua::Value) -> &'static str {
    match value {
        mlua::Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

fn without_traceback(text: &str) -> &str {
    text.split("\nstack traceback:").next().unwrap_or(text)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
