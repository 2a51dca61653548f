//! Label selectors: the grammar and the meaning of `k8s.io/apimachinery/pkg/labels`.

use std::{collections::BTreeSet, fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::{
    error::{InvalidRequirement, SelectorError},
    lexer::{Lexeme, Token, tokens},
    write_joined,
};
use crate::model::is_dns_subdomain;

/// A label selector: requirements that an object's labels must all meet. The default has none and
/// matches everything.
///
/// Canonical: `a=b`, `a==b` and `a in (b)` are the same requirement; the requirements are sorted
/// and free of repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: BTreeSet<LabelRequirement>,
}

/// One requirement on one label; an object could have its key and values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelRequirement {
    key: String,
    test: LabelTest,
}

/// The test of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelTest {
    /// The label exists with one of these values.
    In(BTreeSet<String>),
    /// The label is absent, or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than this one.
    GreaterThan(i64),
    /// The label is an integer less than this one.
    LessThan(i64),
}

impl LabelSelector {
    /// A selector from the `metav1.LabelSelector` of an API object. The empty object matches
    /// everything; the caller decides what an absent one means.
    pub fn from_api(api: &meta::LabelSelector) -> Result<Self, InvalidRequirement> {
        let mut requirements = BTreeSet::new();
        for (key, value) in api.match_labels.iter().flatten() {
            requirements.insert(LabelRequirement::new(
                key,
                LabelTest::In([value.clone()].into()),
            )?);
        }
        for expression in api.match_expressions.iter().flatten() {
            requirements.insert(LabelRequirement::from_api(expression)?);
        }
        Ok(Self { requirements })
    }

    /// Whether it has no requirement, so that it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> impl ExactSizeIterator<Item = &LabelRequirement> {
        self.requirements.iter()
    }

    /// Whether labels meet every requirement; `label` returns the value of a key.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.test.accepts(label(&requirement.key)))
    }
}

impl FromIterator<LabelRequirement> for LabelSelector {
    fn from_iter<I: IntoIterator<Item = LabelRequirement>>(requirements: I) -> Self {
        Self {
            requirements: requirements.into_iter().collect(),
        }
    }
}

impl LabelRequirement {
    /// A requirement that the apiserver's rules for keys and values allow. Refuses an empty set of
    /// values and a negative number, which no selector text can express.
    pub fn new(key: &str, test: LabelTest) -> Result<Self, InvalidRequirement> {
        check_key(key)?;
        match &test {
            LabelTest::In(values) | LabelTest::NotIn(values) => {
                if values.is_empty() {
                    return Err(InvalidRequirement::ValuesMissing {
                        key: key.to_owned(),
                        operator: test.operator().to_owned(),
                    });
                }
                values
                    .iter()
                    .try_for_each(|value| check_value(key, value))?;
            }
            LabelTest::GreaterThan(bound) | LabelTest::LessThan(bound) => {
                check_value(key, &bound.to_string())?;
            }
            LabelTest::Exists | LabelTest::DoesNotExist => {}
        }
        Ok(Self {
            key: key.to_owned(),
            test,
        })
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The test of its value.
    pub fn test(&self) -> &LabelTest {
        &self.test
    }

    fn from_api(api: &meta::LabelSelectorRequirement) -> Result<Self, InvalidRequirement> {
        let values: BTreeSet<String> = api.values.iter().flatten().cloned().collect();
        let test = match (api.operator.as_str(), values.is_empty()) {
            ("In", _) => LabelTest::In(values),
            ("NotIn", _) => LabelTest::NotIn(values),
            ("Exists", true) => LabelTest::Exists,
            ("DoesNotExist", true) => LabelTest::DoesNotExist,
            ("Exists" | "DoesNotExist", false) => {
                return Err(InvalidRequirement::ValuesNotAllowed {
                    key: api.key.clone(),
                    operator: api.operator.clone(),
                });
            }
            _ => {
                return Err(InvalidRequirement::UnknownOperator {
                    key: api.key.clone(),
                    operator: api.operator.clone(),
                });
            }
        };
        Self::new(&api.key, test)
    }
}

impl LabelTest {
    fn accepts(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => label.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => label.is_none_or(|value| !values.contains(value)),
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|value| value > *bound),
            Self::LessThan(bound) => number().is_some_and(|value| value < *bound),
        }
    }

    fn operator(&self) -> &'static str {
        match self {
            Self::In(_) => "In",
            Self::NotIn(_) => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::GreaterThan(_) => "Gt",
            Self::LessThan(_) => "Lt",
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(out, &self.requirements)
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            LabelTest::In(values) => write_values(out, key, ["=", "in"], values),
            LabelTest::NotIn(values) => write_values(out, key, ["!=", "notin"], values),
            LabelTest::Exists => write!(out, "{key}"),
            LabelTest::DoesNotExist => write!(out, "!{key}"),
            LabelTest::GreaterThan(bound) => write!(out, "{key}>{bound}"),
            LabelTest::LessThan(bound) => write!(out, "{key}<{bound}"),
        }
    }
}

fn write_values(
    out: &mut fmt::Formatter<'_>,
    key: &str,
    [one, many]: [&str; 2],
    values: &BTreeSet<String>,
) -> fmt::Result {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    match values[..] {
        [value] => write!(out, "{key}{one}{value}"),
        _ => write!(out, "{key} {many} ({})", values.join(",")),
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        LabelSelectorParser {
            text,
            lexemes: tokens(text),
            next: 0,
        }
        .selector()
    }
}

/// Recursive descent over the tokens, one method per rule of the grammar.
struct LabelSelectorParser<'a> {
    text: &'a str,
    lexemes: Vec<Lexeme<'a>>,
    next: usize,
}

impl<'a> LabelSelectorParser<'a> {
    fn selector(mut self) -> Result<LabelSelector, SelectorError> {
        let mut requirements = BTreeSet::new();
        if self.peek() == Token::End {
            return Ok(LabelSelector { requirements });
        }
        loop {
            requirements.insert(self.requirement()?);
            let separator = self.take();
            match separator.token {
                Token::End => return Ok(LabelSelector { requirements }),
                Token::Comma => {}
                _ => return Err(self.unexpected(separator, "',' or end of text")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let first = self.take();
        let negated = first.token == Token::Not;
        let key_lexeme = if negated { self.take() } else { first };
        let Token::Word(key) = key_lexeme.token else {
            return Err(self.unexpected(
                key_lexeme,
                if negated {
                    "a label key"
                } else {
                    "a label key or '!'"
                },
            ));
        };
        check_key(key).map_err(|source| self.invalid(key_lexeme, source))?;
        let at_end = matches!(self.peek(), Token::End | Token::Comma);
        let test = match (negated, at_end) {
            (true, _) => LabelTest::DoesNotExist,
            (false, true) => LabelTest::Exists,
            (false, false) => self.operator_and_values(key)?,
        };
        LabelRequirement::new(key, test).map_err(|source| self.invalid(key_lexeme, source))
    }

    fn operator_and_values(&mut self, key: &str) -> Result<LabelTest, SelectorError> {
        let operator = self.take();
        match operator.token {
            Token::Word("in") => self.value_set().map(LabelTest::In),
            Token::Word("notin") => self.value_set().map(LabelTest::NotIn),
            Token::Equal | Token::DoubleEqual => {
                Ok(LabelTest::In([self.value()?.to_owned()].into()))
            }
            Token::NotEqual => Ok(LabelTest::NotIn([self.value()?.to_owned()].into())),
            Token::Greater => self.number(key).map(LabelTest::GreaterThan),
            Token::Less => self.number(key).map(LabelTest::LessThan),
            _ => Err(self.unexpected(operator, "one of in, notin, =, ==, !=, >, <")),
        }
    }

    /// Parses a word; its absence is the empty value.
    fn value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok("");
        }
        let lexeme = self.take();
        match lexeme.token {
            Token::Word(value) => Ok(value),
            _ => Err(self.unexpected(lexeme, "a value")),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let lexeme = self.lexemes.get(self.next).copied();
        let value = self.value()?;
        let invalid = |source| match lexeme {
            Some(lexeme) => self.invalid(lexeme, source),
            None => SelectorError::Invalid {
                position: 1,
                source,
            },
        };
        check_value(key, value).map_err(invalid)?;
        value.parse().map_err(|_| {
            invalid(InvalidRequirement::NotAnInteger {
                key: key.to_owned(),
                value: value.to_owned(),
            })
        })
    }

    /// Parses values between parentheses; an absent value before, between or after commas is the
    /// empty value, as is `()`.
    fn value_set(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let open = self.take();
        if open.token != Token::Open {
            return Err(self.unexpected(open, "'('"));
        }
        let mut values = BTreeSet::new();
        loop {
            if let Token::Word(value) = self.peek() {
                values.insert(value.to_owned());
                self.take();
            } else {
                values.insert(String::new());
            }
            let separator = self.take();
            match separator.token {
                Token::Comma => {}
                Token::Close => return Ok(values),
                _ => return Err(self.unexpected(separator, "a value, ',' or ')'")),
            }
        }
    }

    fn peek(&self) -> Token<'a> {
        self.lexemes
            .get(self.next)
            .map_or(Token::End, |lexeme| lexeme.token)
    }

    /// Takes the next token; the end of the text is returned any number of times.
    fn take(&mut self) -> Lexeme<'a> {
        let end = Lexeme {
            token: Token::End,
            start: self.text.len(),
        };
        let lexeme = self.lexemes.get(self.next).copied().unwrap_or(end);
        self.next += 1;
        lexeme
    }

    fn invalid(&self, lexeme: Lexeme<'_>, source: InvalidRequirement) -> SelectorError {
        SelectorError::Invalid {
            position: self.position(lexeme),
            source,
        }
    }

    /// Reads the text up to there, so that only errors may ask for it.
    fn position(&self, lexeme: Lexeme<'_>) -> usize {
        self.text[..lexeme.start].chars().count() + 1
    }

    fn unexpected(&self, lexeme: Lexeme<'_>, expected: &'static str) -> SelectorError {
        let found = match lexeme.token {
            Token::Word(word) => format!("'{word}'"),
            Token::End => "end of text".to_owned(),
            Token::NotEqual | Token::DoubleEqual => {
                format!("'{}'", &self.text[lexeme.start..lexeme.start + 2])
            }
            _ => format!("'{}'", &self.text[lexeme.start..=lexeme.start]),
        };
        SelectorError::Unexpected {
            position: self.position(lexeme),
            found,
            expected,
        }
    }
}

const NAME_RULE: &str =
    "must consist of letters, digits, '-', '_' or '.', and start and end with a letter or digit";

/// `[prefix/]name`: a DNS subdomain of at most 253 bytes, and a name of 1 to 63.
fn check_key(key: &str) -> Result<(), InvalidRequirement> {
    let invalid = |reason| {
        Err(InvalidRequirement::Key {
            key: key.to_owned(),
            reason,
        })
    };
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return invalid("must be a name with at most one prefix before a '/'");
    }
    if prefix.is_some_and(|prefix| !is_dns_subdomain(prefix)) {
        return invalid(
            "the prefix before '/' must be a lower-case DNS subdomain of at most 253 characters",
        );
    }
    if name.is_empty() {
        return invalid("the name must not be empty");
    }
    if name.len() > 63 {
        return invalid("the name must be no longer than 63 characters");
    }
    if !is_label_name(name) {
        return invalid(NAME_RULE);
    }
    Ok(())
}

/// Empty, or a name of at most 63 bytes.
fn check_value(key: &str, value: &str) -> Result<(), InvalidRequirement> {
    let invalid = |reason| {
        Err(InvalidRequirement::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            reason,
        })
    };
    if value.len() > 63 {
        return invalid("must be no longer than 63 characters");
    }
    if !value.is_empty() && !is_label_name(value) {
        return invalid(NAME_RULE);
    }
    Ok(())
}

fn is_label_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    outer(bytes.first()) && outer(bytes.last()) && name.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, String> {
        text.parse::<LabelSelector>()
            .map(|selector| selector.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn selectors_of_kubectl_are_accepted_and_printed_in_one_form() {
        let same = |text: &str, expected: &str| {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text:?}");
        };
        same("", "");
        same(" \t\n", "");
        same("a=b", "a=b");
        same("a==b", "a=b");
        same("a in (b)", "a=b");
        same("a!=b , a != b", "a!=b");
        same("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z!=");
        same("a=,b==,c!=", "a=,b=,c!=");
        same("a in (,)", "a=");
        same("! a", "!a");
        same("in in (in,notin)", "in in (in,notin)");
        same("notin notin(notin)", "notin!=notin");
        same("a=in", "a=in");
        same("n>1,n<007", "n>1,n<7");
        same("example.com/a.b_c-d", "example.com/a.b_c-d");
        same("a\0=\0b\0", "a=b");
        same("a=b\0", "a=b");
    }

    #[test]
    fn an_error_names_position_found_text_and_expected_text() {
        let refused = |text: &str| canonical(text).unwrap_err();
        assert_eq!(
            refused("a=b,"),
            "at character 5: found end of text, expected a label key or '!'"
        );
        assert_eq!(
            refused(",a"),
            "at character 1: found ',', expected a label key or '!'"
        );
        assert_eq!(
            refused("!!a"),
            "at character 2: found '!', expected a label key"
        );
        assert_eq!(
            refused("a b"),
            "at character 3: found 'b', expected one of in, notin, =, ==, !=, >, <"
        );
        assert_eq!(
            refused("a===b"),
            "at character 4: found '=', expected a value"
        );
        assert_eq!(refused("a in b"), "at character 6: found 'b', expected '('");
        assert_eq!(
            refused("a in (b c)"),
            "at character 9: found 'c', expected a value, ',' or ')'"
        );
        assert_eq!(
            refused("a in (b"),
            "at character 8: found end of text, expected a value, ',' or ')'"
        );
        assert_eq!(
            refused("!a in (b)"),
            "at character 4: found 'in', expected ',' or end of text"
        );
        assert_eq!(
            refused("a=b!=c"),
            "at character 4: found '!=', expected ',' or end of text"
        );
    }

    /// It took minutes when each requirement counted the characters before it.
    #[test]
    fn a_long_selector_is_read_in_one_pass() {
        let requirements: Vec<String> = (0..60_000).map(|key| format!("key-{key} > 1")).collect();
        let selector: LabelSelector = requirements.join(",").parse().unwrap();
        assert_eq!(selector.requirements().len(), 60_000);
    }

    #[test]
    fn keys_and_values_follow_the_rules_of_labels() {
        let refused = |text: &str| canonical(text).unwrap_err();
        let long = "x".repeat(64);
        assert_eq!(
            refused("a=b,-c"),
            "at character 5: label key \"-c\" is invalid: must consist of letters, digits, '-', '_' or '.', and start and end with a \
             letter or digit"
        );
        assert!(refused("/a").contains("the prefix before '/' must be a lower-case DNS subdomain"));
        assert!(refused("A.b/c").contains("the prefix before '/'"));
        assert!(refused("a/b/c").contains("at most one prefix"));
        assert!(refused("a/").contains("the name must not be empty"));
        assert!(refused(&long).contains("no longer than 63"));
        assert!(refused(&format!("a={long}")).contains("no longer than 63"));
        assert!(
            refused("a=ü").starts_with("at character 1: value \"ü\" of label \"a\" is invalid")
        );
        assert!(
            refused("a>-5").contains("is invalid"),
            "no label value starts with a sign"
        );
        assert_eq!(
            refused("a>b"),
            "at character 3: value \"b\" of label \"a\" must be a 64-bit integer, because '>' and '<' compare numbers"
        );
        assert!(refused("a<9223372036854775808").contains("64-bit integer"));
        assert!(refused("a>").contains("64-bit integer"));
        assert!(
            canonical(&format!(
                "{}/{}={}",
                "x".repeat(253),
                "y".repeat(63),
                "z".repeat(63)
            ))
            .is_ok()
        );
    }

    #[test]
    fn a_selector_object_equals_its_text() {
        let from = |json: serde_json::Value| {
            let api: meta::LabelSelector = serde_json::from_value(json).unwrap();
            LabelSelector::from_api(&api)
                .map(|selector| selector.to_string())
                .map_err(|error| error.to_string())
        };
        let all = serde_json::json!({ "matchLabels": { "app": "web" }, "matchExpressions": [
            { "key": "tier", "operator": "In", "values": ["b", "a"] },
            { "key": "env", "operator": "NotIn", "values": ["dev"] },
            { "key": "team", "operator": "Exists" },
            { "key": "canary", "operator": "DoesNotExist", "values": [] },
        ] });
        assert_eq!(
            from(all).as_deref(),
            Ok("app=web,!canary,env!=dev,team,tier in (a,b)")
        );
        assert_eq!(from(serde_json::json!({})).as_deref(), Ok(""));
        let refused = |expression: serde_json::Value| {
            from(serde_json::json!({ "matchExpressions": [expression] })).unwrap_err()
        };
        assert_eq!(
            refused(serde_json::json!({ "key": "a", "operator": "In" })),
            "label \"a\": operator In needs at least one value"
        );
        assert_eq!(
            refused(serde_json::json!({ "key": "a", "operator": "Exists", "values": ["b"] })),
            "label \"a\": operator Exists takes no values"
        );
        assert_eq!(
            refused(serde_json::json!({ "key": "a", "operator": "Gt", "values": ["1"] })),
            "label \"a\": unknown operator \"Gt\", expected In, NotIn, Exists or DoesNotExist"
        );
        assert!(
            refused(serde_json::json!({ "key": "-", "operator": "Exists" }))
                .contains("label key \"-\" is invalid")
        );
    }

    #[test]
    fn an_absent_label_differs_from_every_value_and_is_neither_greater_nor_less() {
        let matches = |text: &str| {
            text.parse::<LabelSelector>()
                .unwrap()
                .matches(|key| (key == "n").then_some("5"))
        };
        assert!(matches(
            "n>4,n<6,n in (5,6),absent!=x,absent notin (x),!absent"
        ));
        for refused in [
            "n>5", "n<5", "absent>0", "absent<9", "absent=", "absent", "!n", "n=05",
        ] {
            assert!(!matches(refused), "{refused}");
        }
    }
}
