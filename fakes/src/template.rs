//! JSON text with gaps, cut once and filled often.

use serde_json::Value;

/// The text of a JSON value with holes, written `<hole>` in its strings, or `"<<hole>>"` where the
/// value is no string.
pub(crate) struct Template<H> {
    /// Texts, each with the hole that follows it.
    parts: Vec<(String, H)>,
    end: String,
}

impl<H: Copy> Template<H> {
    /// Cuts a value at the holes that are known by their names.
    pub(crate) fn new(value: &Value, hole: impl Fn(&str) -> Option<H>) -> Self {
        let text = value.to_string().replace("\"<<", "<").replace(">>\"", ">");
        let mut parts = Vec::new();
        let mut part = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('<') {
            let (name, after) = after.split_once('>').unwrap_or((after, ""));
            part.push_str(before);
            if let Some(hole) = hole(name) {
                parts.push((std::mem::take(&mut part), hole));
            }
            rest = after;
        }
        part.push_str(rest);
        Self { parts, end: part }
    }

    /// Writes the text, each hole as it is `filled`.
    pub(crate) fn write(&self, out: &mut String, mut fill: impl FnMut(H, &mut String)) {
        for (text, hole) in &self.parts {
            out.push_str(text);
            fill(*hole, out);
        }
        out.push_str(&self.end);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn holes_are_filled_in_strings_and_in_place_of_values() {
        let value = json!({ "name": "a-<number>-b", "number": "<<number>>", "odd": "<unknown>" });
        let template = Template::new(&value, |name| (name == "number").then_some(7));
        let mut text = String::new();
        template.write(&mut text, |hole: u32, out| out.push_str(&hole.to_string()));
        assert_eq!(text, r#"{"name":"a-7-b","number":7,"odd":""}"#);
    }
}
