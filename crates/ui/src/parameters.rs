//! The parameters of a view.

use percent_encoding::percent_decode_str;

use crate::address::encoded;

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

/// What a question has in addition, so that its answer shows at least the version of an event; empty without one.
pub(crate) fn not_older_than(parameters: &Parameters) -> String {
    match parameters.get("version") {
        "" => String::new(),
        version => format!("&resourceVersion={}", encoded(version)),
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

    #[test]
    fn the_version_of_an_event_is_passed_on() {
        let asked = |query| not_older_than(&Parameters::parse(query));
        assert_eq!(asked("q=a&version=7-ab"), "&resourceVersion=7-ab");
        assert_eq!(asked("version=7%26x"), "&resourceVersion=7%26x");
        assert_eq!(asked("q=a"), "");
    }
}
