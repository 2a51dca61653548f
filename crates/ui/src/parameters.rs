//! The parameters of a view.

use percent_encoding::percent_decode_str;

/// The decoded parameters of an address, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads a query string, or the body of a form.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decoded(key), decoded(value))
                })
                .collect(),
        )
    }

    /// The first value of a parameter; empty without one.
    pub(crate) fn get(&self, key: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value)
    }
}

/// In forms, a `+` is a blank.
fn decoded(text: &str) -> String {
    let blanks = text.replace('+', " ");
    percent_decode_str(&blanks).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let parameters = Parameters::parse("q=a+b%2Bc&empty=&q=second&flag");
        assert_eq!(parameters.get("q"), "a b+c");
        assert_eq!(parameters.get("empty"), "");
        assert_eq!(parameters.get("flag"), "");
        assert_eq!(parameters.get("none"), "");
    }
}
