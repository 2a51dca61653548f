//! The `kube` library of Karmada's scripts.
//!
//! Source: <https://karmada.io/docs/userguide/globalview/customizing-resource-interpreter/>,
//! `luavm/kube.go`.

use mlua::{IntoLua, Lua, MultiValue, Table, Value};

use super::{convert, empty, error::type_name};
use crate::{
    native::{quantity, requirements},
    pod_dependencies,
    value::at,
};

/// What Karmada takes for a missing namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// A value, or the text of the error that the script gets.
type Outcome<T> = Result<T, String>;
type KubeFunction = fn(&Lua, MultiValue) -> Outcome<Value>;

const FUNCTIONS: [(&str, KubeFunction); 4] = [
    ("resourceAdd", resource_add),
    ("accuratePodRequirements", accurate_pod_requirements),
    ("getPodDependencies", get_pod_dependencies),
    ("getResourceQuantity", get_resource_quantity),
];

/// The library. Its functions return a value and the text of an error, which the prelude raises: an
/// error that Rust raises is no text to a script that catches it.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, function) in FUNCTIONS {
        let answer = move |lua: &Lua, arguments: MultiValue| {
            Ok(match function(lua, arguments) {
                Ok(value) => (value, None),
                Err(text) => (Value::Nil, Some(text)),
            })
        };
        library.set(name, lua.create_function(answer)?)?;
    }
    Ok(library)
}

/// `resourceAdd(quantity, …)`: the sum. nil counts as 0.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the form of the library's functions"
)]
fn resource_add(lua: &Lua, arguments: MultiValue) -> Outcome<Value> {
    let mut texts = Vec::with_capacity(arguments.len());
    for (position, argument) in (1..).zip(arguments.iter()) {
        texts.extend(quantity_text(argument, position, "resourceAdd")?);
    }
    let quantities: Vec<&str> = texts.iter().map(String::as_str).collect();
    quantity::sum(&quantities)?.into_lua(lua).map_err(text_of)
}

/// `getResourceQuantity(quantity)`: its value as a number. nil counts as 0.
fn get_resource_quantity(_lua: &Lua, arguments: MultiValue) -> Outcome<Value> {
    let [argument] = exactly("getResourceQuantity", arguments)?;
    let Some(text) = quantity_text(&argument, 1, "getResourceQuantity")? else {
        return Ok(Value::Number(0.0));
    };
    let number = quantity::to_number(&text)?;
    if number.is_finite() && number >= 0.0 {
        return Ok(Value::Number(number));
    }
    Err("getResourceQuantity: the quantity is negative or infinite".to_owned())
}

/// `accuratePodRequirements(podTemplate)`: what a pod requires, or nil.
fn accurate_pod_requirements(lua: &Lua, arguments: MultiValue) -> Outcome<Value> {
    let [template] = exactly("accuratePodRequirements", arguments)?;
    let template = pod_template(&template, "accuratePodRequirements")?;
    let required = requirements::of_pod_template(&(&template).into()).map_err(text_of)?;
    let json = serde_json::to_value(required).map_err(text_of)?;
    convert::to_lua(lua, &json).map_err(text_of)
}

/// `getPodDependencies(podTemplate, namespace)`: a list, which may be empty.
fn get_pod_dependencies(lua: &Lua, arguments: MultiValue) -> Outcome<Value> {
    let [template, namespace] = exactly("getPodDependencies", arguments)?;
    let template = pod_template(&template, "getPodDependencies")?;
    let namespace = namespace_text(&namespace)?;
    let found = pod_dependencies::of_pod_spec(at(&(&template).into(), &["spec"]), &namespace);
    let json = serde_json::to_value(found).map_err(text_of)?;
    convert::to_lua(lua, &json).map_err(text_of)
}

fn exactly<const COUNT: usize>(function: &str, arguments: MultiValue) -> Outcome<[Value; COUNT]> {
    let arguments: Vec<Value> = arguments.into_iter().collect();
    let count = arguments.len();
    arguments
        .try_into()
        .map_err(|_| format!("{function} takes {COUNT} arguments, but was called with {count}"))
}

fn pod_template(value: &Value, function: &str) -> Outcome<serde_json::Value> {
    if !value.is_table() {
        return Err(type_error(value, 1, function, "table"));
    }
    let mut template = convert::from_lua(value).map_err(text_of)?;
    empty::settle(&mut template, &[]);
    Ok(template)
}

fn namespace_text(value: &Value) -> Outcome<String> {
    match value {
        Value::Nil => Ok(DEFAULT_NAMESPACE.to_owned()),
        Value::String(text) => Ok(text.to_string_lossy()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(type_error(other, 2, "getPodDependencies", "string")),
    }
}

fn quantity_text(value: &Value, position: usize, function: &str) -> Outcome<Option<String>> {
    match value {
        Value::Nil => Ok(None),
        Value::String(text) => Ok(Some(text.to_string_lossy())),
        other => Err(type_error(other, position, function, "string")),
    }
}

fn type_error(value: &Value, position: usize, function: &str, expected: &str) -> String {
    let actual = type_name(value);
    format!("bad argument #{position} to {function} ({expected} expected, got {actual})")
}

#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
fn text_of(error: impl ToString) -> String {
    error.to_string()
}
