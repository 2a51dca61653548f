//! Prints values as Go does, as kubectl and API servers print the results of paths.

use super::json::{JsonValue, Scalar};
use crate::fuel::{Fuel, OutOfFuel};

/// The text of a value: strings without quotes, lists and maps as JSON with sorted keys.
pub fn text<T: JsonValue>(value: &T) -> String {
    if let Some(scalar) = value.scalar() {
        return scalar_text(scalar);
    }
    // Go's encoder escapes these letters, so that its JSON may stand in a web page.
    value
        .sorted_json()
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

/// The same, within the fuel.
pub fn text_within<T: JsonValue>(value: &T, fuel: &Fuel) -> Result<String, OutOfFuel> {
    take_value(value, fuel)?;
    Ok(text(value))
}

/// Takes a step for each value, and those of the texts and keys.
pub(super) fn take_value<T: JsonValue>(value: &T, fuel: &Fuel) -> Result<(), OutOfFuel> {
    match value.scalar() {
        Some(Scalar::Text(text)) => return fuel.take_text(text.len()),
        Some(_) => return fuel.take(1),
        None => fuel.take(1)?,
    }
    for item in value.items().unwrap_or_default() {
        take_value(item, fuel)?;
    }
    for (key, member) in value.members() {
        fuel.take_text(key.len())?;
        take_value(member, fuel)?;
    }
    Ok(())
}

pub(super) fn scalar_text(scalar: Scalar<'_>) -> String {
    match scalar {
        Scalar::Null => "null".to_owned(),
        Scalar::Flag(flag) => flag.to_string(),
        Scalar::Integer(number) => number.to_string(),
        Scalar::Float(number) => float_text(number),
        Scalar::Text(text) => text.to_owned(),
    }
}

/// The shortest form, with an exponent from 10⁶ up and below 10⁻⁴.
fn float_text(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-4..1e6).contains(&magnitude) {
        return number.to_string();
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(negative) => format!("{digits}e-{negative:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => scientific,
    }
}
