//! Measured values, and lines to print.

use std::fmt::{self, Display};

use serde_json::{Map, Value, json};

/// Values by name and lines to print, both in the order measured.
#[derive(Debug, Default)]
pub struct Figures {
    values: Map<String, Value>,
    lines: Vec<(String, String)>,
}

impl Figures {
    /// Sets a value.
    pub fn set(&mut self, name: &str, value: f64) {
        // No figure is more precise than three decimals.
        self.values
            .insert(name.to_owned(), json!((value * 1000.0).round() / 1000.0));
    }

    /// A value that was set; NaN if it was not measured.
    pub fn get(&self, name: &str) -> f64 {
        self.values
            .get(name)
            .and_then(Value::as_f64)
            .unwrap_or(f64::NAN)
    }

    /// All values, by name.
    pub fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Adds a line to print at the end.
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

/// The text for whether a figure is within its limit.
pub fn verdict(holds: bool) -> &'static str {
    if holds {
        "as expected"
    } else {
        "NOT as expected"
    }
}
