//! The parameters of a view.

use percent_encoding::percent_decode_str;

use crate::address::encoded;

/// The version of an event, which scripts add when they load a view again.
const VERSION: &str = "version";

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

    /// The address of the same view with one more parameter, relative to it. The version of an
    /// event is no part of it: it is that of one load of the view.
    pub(crate) fn address_with(&self, key: &str, value: &str) -> String {
        let others = self.0.iter().map(|(name, value)| (&**name, &**value));
        let kept = others.filter(|(name, _)| *name != key && *name != VERSION);
        let pairs = kept.chain([(key, value)]);
        let pairs = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    }
}

/// What a question has in addition, so that its answer shows at least the version of an event;
/// empty without one.
pub(crate) fn not_older_than(parameters: &Parameters) -> String {
    match parameters.get(VERSION) {
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

    #[test]
    fn an_address_keeps_what_the_view_shows() {
        let of = |query| Parameters::parse(query).address_with("explain", "true");
        assert_eq!(of(""), "?explain=true");
        assert_eq!(
            of("q=a+b%26c&version=7&continue=t&explain=no"),
            "?q=a%20b%26c&continue=t&explain=true"
        );
    }
}
