//! One health script of Argo CD: `obj` in, a table with `status` and `message` out.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    health::{Assessment, Health},
    script::{
        convert,
        error::{ScriptError, type_name},
        program::Program,
        sandbox::{self, ScriptDialect},
    },
};

/// What Argo CD says of a word that it does not know.
const INVALID_STATUS: &str = "Lua returned an invalid health status";

/// A script that assesses objects. A clone shares the bytecode.
#[derive(Clone, Debug)]
pub struct HealthScript {
    text: Arc<str>,
    program: Result<Program, ScriptError>,
}

impl HealthScript {
    /// Compiles a script.
    pub fn compile(text: &str) -> Result<Self, ScriptError> {
        Ok(Self {
            text: text.into(),
            program: Ok(Program::compile(text)?),
        })
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A script that does not compile: all its objects are Unknown, with the reason.
    pub(super) fn broken(text: &str, error: ScriptError) -> Self {
        Self {
            text: text.into(),
            program: Err(error),
        }
    }

    /// Runs the script in a state of this thread. That may take a second; a typical script takes
    /// less than 100 µs.
    ///
    /// `None`: the script has no opinion (it returned nil, an empty table, or a field of the wrong
    /// type), and the next rule answers. An error is Unknown with its text, and so is a word that
    /// Argo CD does not know.
    pub fn run(&self, object: &Value) -> Option<Assessment> {
        match self.result(object) {
            Ok(None) => None,
            Ok(Some(fields)) => assessment(&fields),
            Err(error) => Some(Assessment::new(Health::Unknown, "", &error.to_string())),
        }
    }

    /// The table that the script returned; `None` if it returned nil.
    fn result(&self, object: &Value) -> Result<Option<Value>, ScriptError> {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        sandbox::run(ScriptDialect::ArgoCd, program, |run| {
            run.set_global("obj", object)?;
            run.set_global("actionParams", &json!({}))?;
            let returned = run.main()?;
            match returned.back() {
                None | Some(mlua::Value::Nil) => Ok(None),
                Some(table @ mlua::Value::Table(_)) => convert::from_lua(table).map(Some),
                Some(other) => Err(ScriptError::ReturnType {
                    function: "the script",
                    expected: "table",
                    actual: type_name(other),
                }),
            }
        })
    }
}

/// The assessment in the fields of a table; `None` for an empty one and for fields of the wrong
/// type.
fn assessment(fields: &Value) -> Option<Assessment> {
    let fields = fields.as_object()?;
    let status = text_field(fields, "status")?;
    let message = text_field(fields, "message")?;
    Some(match Health::from_word(status) {
        Some(health) => Assessment::new(health, "", message),
        None => Assessment::new(Health::Unknown, "", INVALID_STATUS),
    })
}

/// A text; empty if the field is missing, `None` if it has another type. Go's decoder takes names
/// in any case.
fn text_field<'f>(fields: &'f Map<String, Value>, name: &str) -> Option<&'f str> {
    let field = fields.get(name).or_else(|| {
        let mut members = fields.iter();
        members
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    });
    match field {
        None => Some(""),
        Some(field) => field.as_str(),
    }
}
