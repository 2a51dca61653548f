//! What was measured: values for programs, lines for people.

use std::fmt::{self, Display};

use serde_json::{Map, Value, json};

/// Values by name and lines to print, both in the order measured.
#[derive(Debug, Default)]
pub struct Figures {
    values: Map<String, Value>,
    lines: Vec<(String, String)>,
}

impl Figures {
    /// Keeps a value.
    pub fn set(&mut self, name: &str, value: f64) {
        // Three decimals are more than any of these figures is worth.
        self.values
            .insert(name.to_owned(), json!((value * 1000.0).round() / 1000.0));
    }

    /// A value that was set; not a number if it was not measured.
    pub fn get(&self, name: &str) -> f64 {
        self.values
            .get(name)
            .and_then(Value::as_f64)
            .unwrap_or(f64::NAN)
    }

    /// Keeps a line to print in the end.
    pub fn line(&mut self, name: &str, text: impl Into<String>) {
        self.lines.push((name.to_owned(), text.into()));
    }

    /// The values as JSON.
    pub fn json(&self) -> String {
        format!("{:#}\n", Value::Object(self.values.clone()))
    }
}

impl Display for Figures {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines
            .iter()
            .try_for_each(|(name, line)| writeln!(text, "{name:<46}{line}"))
    }
}

/// Whether a figure is what it should be, in words.
pub fn verdict(holds: bool) -> &'static str {
    if holds {
        "as expected"
    } else {
        "NOT as expected"
    }
}
