//! Requests for completions of a search.

use fleetdex_search::{Search, other_terms};

use super::{
    parameters::WITHOUT_EFFECT,
    search::{SearchRequest, TEXT},
};
use crate::{error::QuestionError, uri::QueryParameter};

/// The parameter with the position in the text.
const CURSOR: &str = "cursor";

/// A search that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionsRequest {
    /// The text of the search.
    pub text: String,
    /// The position in it that is completed, in bytes.
    pub cursor: usize,
    /// What its other terms ask for; everything if they cannot be parsed.
    pub others: SearchRequest,
    /// Unknown parameters.
    pub ignored: Vec<String>,
}

impl CompletionsRequest {
    pub(super) fn with(parameters: &[QueryParameter<'_>]) -> Result<Self, QuestionError> {
        let mut text = String::new();
        let mut cursor = None;
        let mut ignored = Vec::new();
        for QueryParameter { key, value, .. } in parameters {
            match key.as_ref() {
                TEXT => value.as_ref().clone_into(&mut text),
                CURSOR if !value.is_empty() => cursor = Some(value.as_ref()),
                CURSOR => {}
                unknown if WITHOUT_EFFECT.contains(&unknown) => {}
                unknown => ignored.push(unknown.to_owned()),
            }
        }
        let cursor = cursor.map_or(Ok(text.len()), |given| position(given, &text));
        let cursor = cursor.map_err(|problem| QuestionError::parameter(CURSOR, problem))?;
        let others = other_terms(&text, cursor);
        let search: Search = others.parse().unwrap_or_default();
        Ok(Self {
            others: SearchRequest::of(others, search),
            text,
            cursor,
            ignored,
        })
    }
}

fn position(given: &str, text: &str) -> Result<usize, String> {
    match given.parse() {
        Ok(position) if position <= text.len() => Ok(position),
        _ => Err(format!(
            "{given:?} is no position in the text of parameter q, which has {} bytes",
            text.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uri::RequestUri;

    fn parsed(query: &str) -> Result<CompletionsRequest, String> {
        let uri = RequestUri::parse("/", Some(query)).unwrap();
        CompletionsRequest::with(uri.query().distinct().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_cursor_is_a_position_in_the_text_by_default_its_end() {
        let cursor = |query: &str| parsed(query).map(|request| request.cursor);
        assert_eq!(cursor("q=kind:P"), Ok(6));
        assert_eq!(cursor("q=kind:P&cursor="), Ok(6));
        assert_eq!(cursor("q=kind:P&cursor=2"), Ok(2));
        assert_eq!(cursor("q=%C3%A4&cursor=2"), Ok(2));
        assert_eq!(cursor(""), Ok(0));
        for refused in ["7", "-1", "end", "99999999999999999999", "1.5"] {
            let expected = format!(
                "parameter cursor: {refused:?} is no position in the text of parameter q, which has 6 bytes"
            );
            assert_eq!(cursor(&format!("q=kind:P&cursor={refused}")), Err(expected));
        }
    }

    #[test]
    fn the_other_terms_are_a_search_unless_they_are_none() {
        let request =
            parsed("q=kind:Pod%20label:app%3D%20web&cursor=19&color=red&pretty=").unwrap();
        assert_eq!(request.others.search.to_string(), "kind:Pod web");
        assert_eq!(request.ignored, ["color"]);
        let request = parsed("q=kind:%20label:app%3D").unwrap();
        assert!(request.others.search.terms.is_empty());
    }
}
