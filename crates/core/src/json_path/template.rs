//! kubectl's `JSONPath` templates: `{range .items[*]}{.metadata.name}{"\n"}{end}`.

use super::{
    ast::{Expression, JsonPathError, PathStep},
    evaluate::Evaluation,
    json::JsonValue,
    parse::{expression, path, position_outside_quotes},
    print::{scalar_text, text},
};
use crate::fuel::Fuel;

/// Nested ranges at most; a person writes two or three.
const MAX_DEPTH: usize = 32;

/// A text with paths in braces. Rendering has no bound: it runs on the machine of the person who
/// wrote the template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq)]
enum TemplatePart {
    Text(String),
    Expression(Expression),
    Range(Vec<PathStep>, Vec<TemplatePart>),
}

/// The content of a pair of braces.
enum Action {
    Expression(Expression),
    Range(Vec<PathStep>),
    End,
}

impl std::str::FromStr for Template {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
            .map(Self)
            .map_err(|problem| JsonPathError::Parse {
                template: text.to_owned(),
                problem,
            })
    }
}

impl Template {
    /// The text of a value.
    pub fn render<T: JsonValue>(&self, value: &T) -> Result<String, JsonPathError> {
        let mut out = String::new();
        render(&self.0, value, &mut out)?;
        Ok(out)
    }
}

fn parse(text: &str) -> Result<Vec<TemplatePart>, String> {
    let mut open: Vec<(Vec<PathStep>, Vec<TemplatePart>)> = Vec::new();
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        if start > 0 {
            parts.push(TemplatePart::Text(rest[..start].to_owned()));
        }
        let inside = &rest[start + 1..];
        let length = position_outside_quotes(inside, |rest| rest.starts_with('}'))
            .ok_or("a brace { is not closed")?;
        rest = &inside[length + 1..];
        match action(&inside[..length])? {
            Action::Expression(expression) => parts.push(TemplatePart::Expression(expression)),
            Action::Range(steps) if open.len() < MAX_DEPTH => {
                open.push((steps, std::mem::take(&mut parts)));
            }
            Action::Range(_) => return Err(format!("more than {MAX_DEPTH} nested ranges")),
            Action::End => {
                let (steps, outer) = open.pop().ok_or("{end} without {range}")?;
                let body = std::mem::replace(&mut parts, outer);
                parts.push(TemplatePart::Range(steps, body));
            }
        }
    }
    if !open.is_empty() {
        return Err("{range} without {end}".to_owned());
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Text(rest.to_owned()));
    }
    Ok(parts)
}

fn action(text: &str) -> Result<Action, String> {
    let trimmed = text.trim();
    if trimmed == "end" {
        return Ok(Action::End);
    }
    match trimmed.strip_prefix("range") {
        Some(rest) if rest.starts_with(|letter: char| !letter.is_alphanumeric()) => {
            Ok(Action::Range(path(rest)?))
        }
        _ => Ok(Action::Expression(expression(trimmed)?)),
    }
}

fn render<T: JsonValue>(
    parts: &[TemplatePart],
    value: &T,
    out: &mut String,
) -> Result<(), JsonPathError> {
    for part in parts {
        match part {
            TemplatePart::Text(text) => out.push_str(text),
            TemplatePart::Expression(Expression::Literal(literal)) => {
                out.push_str(&scalar_text(literal.scalar()));
            }
            TemplatePart::Expression(Expression::Path(steps)) => {
                let texts: Vec<String> = Evaluation(&Fuel::unbounded())
                    .steps(steps, vec![value])?
                    .into_iter()
                    .map(text)
                    .collect();
                out.push_str(&texts.join(" "));
            }
            TemplatePart::Range(steps, body) => {
                for item in Evaluation(&Fuel::unbounded()).steps(steps, vec![value])? {
                    render(body, item, out)?;
                }
            }
        }
    }
    Ok(())
}
