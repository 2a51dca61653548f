//! Dashboards' query language (DQL), as far as the saved objects use it.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

/// A query in OpenSearch's language.
pub(super) struct ParsedQuery {
    pub(super) clause: Value,
    /// The fields that it names.
    pub(super) fields: Vec<String>,
}

/// Parses `field: value`, `field: (a or b)`, `field: *`, `field: text*`, `and`, `or`, `not` and
/// parentheses.
pub(super) fn parse(query: &str) -> Result<ParsedQuery> {
    let mut parser = Parser {
        rest: query.trim(),
        fields: Vec::new(),
    };
    let clause = if parser.rest.is_empty() {
        json!({ "match_all": {} })
    } else {
        parser.any_of(None)?
    };
    ensure!(parser.rest.is_empty(), "not understood: {:?}", parser.rest);
    Ok(ParsedQuery {
        clause,
        fields: parser.fields,
    })
}

struct Parser<'q> {
    rest: &'q str,
    fields: Vec<String>,
}

impl<'q> Parser<'q> {
    /// `field`: that of the values in parentheses.
    fn any_of(&mut self, field: Option<&str>) -> Result<Value> {
        let first = self.all_of(field)?;
        if !self.takes_word("or") {
            return Ok(first);
        }
        // Nested to the right, as before 3.9.
        let others = self.any_of(field)?;
        Ok(json!({ "bool": { "should": [first, others], "minimum_should_match": 1 } }))
    }

    fn all_of(&mut self, field: Option<&str>) -> Result<Value> {
        let first = self.negated(field)?;
        if !self.takes_word("and") {
            return Ok(first);
        }
        let others = self.all_of(field)?;
        Ok(json!({ "bool": { "filter": [first, others] } }))
    }

    fn negated(&mut self, field: Option<&str>) -> Result<Value> {
        if self.takes_word("not") {
            let clause = self.clause(field)?;
            return Ok(json!({ "bool": { "must_not": clause } }));
        }
        self.clause(field)
    }

    fn clause(&mut self, field: Option<&str>) -> Result<Value> {
        if self.takes("(") {
            let inner = self.any_of(field)?;
            ensure!(self.takes(")"), "no ) before {:?}", self.rest);
            return Ok(inner);
        }
        let word = self.word()?;
        if let Some(field) = field {
            return Ok(value_clause(field, word));
        }
        ensure!(self.takes(":"), "no field before {:?}", self.rest);
        let field = word.to_owned();
        self.fields.push(field.clone());
        if self.rest.starts_with('(') {
            return self.clause(Some(&field));
        }
        let value = self.word()?;
        Ok(value_clause(&field, value))
    }

    fn word(&mut self) -> Result<&'q str> {
        let end = self.rest.find([' ', ':', '(', ')']);
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        ensure!(!word.is_empty(), "no word at {:?}", self.rest);
        if word.contains(['"', '\\', '<', '>', '{', '}']) {
            bail!("{word:?} is not supported here");
        }
        self.rest = rest.trim_start();
        Ok(word)
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let after = self.rest.strip_prefix(symbol);
        if let Some(after) = after {
            self.rest = after.trim_start();
        }
        after.is_some()
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let after = self.rest.strip_prefix(word);
        let after = after.filter(|after| after.starts_with([' ', '(']));
        if let Some(after) = after {
            self.rest = after.trim_start();
        }
        after.is_some()
    }
}

fn value_clause(field: &str, value: &str) -> Value {
    let clause = if value == "*" {
        json!({ "exists": { "field": field } })
    } else if value.contains('*') {
        json!({ "query_string": { "fields": [field], "query": escaped(value) } })
    } else {
        json!({ "match": { field: value } })
    };
    json!({ "bool": { "should": [clause], "minimum_should_match": 1 } })
}

/// Escapes what has a meaning in a `query_string`, except for wildcards; and digits, as the regular
/// expression of Dashboards has a range where it means three characters.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for character in value.chars() {
        if ('+'..='=').contains(&character) || "&|><!(){}[]^\"~?\\".contains(character) {
            text.push('\\');
        }
        text.push(character);
    }
    text
}
