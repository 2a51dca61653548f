//! What a function returned, as the contract of its operation wants it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    dependency,
    native::quantity,
    request::{Component, DependentObject, ReplicaRequirements},
    script::{
        convert, empty,
        error::{ScriptError, type_name},
    },
};

/// A value that a function returned.
pub struct Returned<'v> {
    /// The function.
    pub function: &'static str,
    /// The value.
    pub value: &'v mlua::Value,
}

impl Returned<'_> {
    /// A number of replicas: its whole part, as Karmada takes it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is within the bounds of the type"
    )]
    pub fn replicas(&self) -> Result<i64, ScriptError> {
        let number = match self.value {
            mlua::Value::Integer(integer) => return in_bounds(*integer),
            mlua::Value::Number(number) => *number,
            _ => return Err(self.type_error("number")),
        };
        if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
            return Err(ScriptError::result("replicas are out of range"));
        }
        Ok(number as i64)
    }

    /// What each replica requires; nil: nothing.
    pub fn requirements(&self) -> Result<Option<ReplicaRequirements>, ScriptError> {
        if self.value.is_nil() {
            return Ok(None);
        }
        let table = self.table("table or nil", &[])?;
        let mut requirements: ReplicaRequirements = typed(map_at_root(table))?;
        normalize(&mut requirements)?;
        Ok(Some(requirements))
    }

    /// Pod templates; nil: none.
    pub fn components(&self) -> Result<Vec<Component>, ScriptError> {
        if self.value.is_nil() {
            return Ok(Vec::new());
        }
        let mut components: Vec<Component> = typed(self.table("table or nil", &[])?)?;
        for component in &mut components {
            if let Some(requirements) = &mut component.replica_requirements {
                normalize(requirements)?;
            }
        }
        Ok(components)
    }

    /// An object. Empty tables are as in the references.
    pub fn object(&self, references: &[&Value]) -> Result<Value, ScriptError> {
        let object = map_at_root(self.table("table", references)?);
        let kind = object.get("kind").and_then(Value::as_str);
        match kind {
            Some(kind) if !kind.is_empty() => Ok(object),
            _ => Err(ScriptError::result("it is no object: it has no kind")),
        }
    }

    /// A status of any form.
    pub fn status(&self) -> Result<Value, ScriptError> {
        Ok(map_at_root(self.table("table", &[])?))
    }

    /// A boolean.
    pub fn healthy(&self) -> Result<bool, ScriptError> {
        self.value
            .as_boolean()
            .ok_or_else(|| self.type_error("boolean"))
    }

    /// References to objects, which can be found by them.
    pub fn dependencies(&self) -> Result<Vec<DependentObject>, ScriptError> {
        let dependencies: Vec<DependentObject> = typed(self.table("table", &[])?)?;
        for (position, dependency) in (1..).zip(&dependencies) {
            if let Some((member, problem)) = dependency::fault(dependency) {
                let place = match member {
                    "" => format!("dependency {position}"),
                    member => format!("{member} of dependency {position}"),
                };
                return Err(ScriptError::result(&format!("{place} {problem}")));
            }
        }
        Ok(dependencies)
    }

    fn table(&self, expected: &'static str, references: &[&Value]) -> Result<Value, ScriptError> {
        if !self.value.is_table() {
            return Err(self.type_error(expected));
        }
        let mut json = convert::from_lua(self.value)?;
        empty::settle(&mut json, references);
        Ok(json)
    }

    fn type_error(&self, expected: &'static str) -> ScriptError {
        ScriptError::ReturnType {
            function: self.function,
            expected,
            actual: type_name(self.value),
        }
    }
}

fn in_bounds(replicas: i64) -> Result<i64, ScriptError> {
    i32::try_from(replicas)
        .map(i64::from)
        .map_err(|_| ScriptError::result("replicas are out of range"))
}

/// An empty table where a map is wanted.
fn map_at_root(value: Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => Value::Object(Map::new()),
        other => other,
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ScriptError> {
    serde_json::from_value(value).map_err(|error| ScriptError::result(&error.to_string()))
}

/// Quantities may be numbers or texts, and come out as Kubernetes writes them.
fn normalize(requirements: &mut ReplicaRequirements) -> Result<(), ScriptError> {
    for (name, value) in &mut requirements.resource_request {
        let text = match &*value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(ScriptError::result(&format!("{name} is no quantity"))),
        };
        let sum = quantity::sum(&[text.trim()]).map_err(|error| ScriptError::result(&error))?;
        *value = Value::String(sum);
    }
    Ok(())
}
