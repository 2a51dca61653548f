//! Field selectors: the grammar and the meaning of `k8s.io/apimachinery/pkg/fields`, and further
//! forms.
//!
//! Kubernetes has `path=value`, `path==value` and `path!=value`, with `\,`, `\=` and `\\` in
//! values. The further forms are short for these, or for several requests to Kubernetes:
//!
//! | form | means |
//! |---|---|
//! | `path in (a,b)` | `path=a` or `path=b` |
//! | `path notin (a,b)` | `path!=a,path!=b` |
//! | `path` | `path!=`: it does not read empty |
//! | `!path` | `path=`: it reads empty |
//! | `path>5`, `path>=500m`, `path<2Gi`, `path<=-1` | it reads a number or a quantity above, from, below, up to this one |
//!
//! In a set, blanks around a value are ignored, and `\(`, `\)` and a backslash before a blank are
//! escapes, too. None of these forms means something else to an apiserver: it has no field label
//! with a blank or a parenthesis, and refuses a term without `=`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::write_joined;
use crate::model::{FieldPath, Quantity};

pub(super) const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// A field selector: requirements that an object's fields must all meet. The default has none and
/// matches everything.
///
/// Canonical: sorted, without repetitions, with one [`FieldTest::NotIn`] per path. It does not
/// check which paths a kind supports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: BTreeSet<FieldRequirement>,
}

/// One requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// The field, as the selector names it.
    pub path: FieldPath,
    /// The test of its value.
    pub test: FieldTest,
}

/// The test of a field's value, which is always text; an absent field reads `""`, `0` or `false` by
/// its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldTest {
    /// It reads one of these.
    In(BTreeSet<String>),
    /// It reads none of these.
    NotIn(BTreeSet<String>),
    /// It reads a number or a quantity that compares like this.
    Compares(Comparison, Quantity),
}

/// How a number compares with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// `>`
    Above,
    /// `>=`
    From,
    /// `<`
    Below,
    /// `<=`
    UpTo,
}

impl Comparison {
    /// Whether a number compares in this way with the bound.
    pub fn holds(self, number: Quantity, bound: Quantity) -> bool {
        match self {
            Self::Above => number > bound,
            Self::From => number >= bound,
            Self::Below => number < bound,
            Self::UpTo => number <= bound,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::From => ">=",
            Self::Below => "<",
            Self::UpTo => "<=",
        }
    }
}

impl FieldSelector {
    /// Whether it has no requirement, so that it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> impl ExactSizeIterator<Item = &FieldRequirement> {
        self.requirements.iter()
    }

    /// Whether fields meet every requirement; `value` returns the value of a field, and `None`
    /// reads `""`.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let read = value(requirement.path.as_str()).unwrap_or_default();
            requirement.test.accepts(&read)
        })
    }

    /// The same selector for an apiserver; `None` if that takes several requests, because a field
    /// may read one of several values, or is impossible, because it compares numbers.
    pub fn to_kubernetes(&self) -> Option<String> {
        let asks_one = |requirement: &FieldRequirement| match &requirement.test {
            FieldTest::In(values) => values.len() == 1,
            FieldTest::NotIn(_) => true,
            FieldTest::Compares(..) => false,
        };
        self.requirements
            .iter()
            .all(asks_one)
            .then(|| self.to_string())
    }
}

impl FromIterator<FieldRequirement> for FieldSelector {
    fn from_iter<I: IntoIterator<Item = FieldRequirement>>(requirements: I) -> Self {
        let mut canonical = BTreeSet::new();
        let mut excluded: BTreeMap<FieldPath, BTreeSet<String>> = BTreeMap::new();
        for requirement in requirements {
            match requirement.test {
                FieldTest::In(_) | FieldTest::Compares(..) => {
                    canonical.insert(requirement);
                }
                FieldTest::NotIn(values) => {
                    excluded.entry(requirement.path).or_default().extend(values);
                }
            }
        }
        canonical.extend(excluded.into_iter().map(|(path, values)| FieldRequirement {
            path,
            test: FieldTest::NotIn(values),
        }));
        Self {
            requirements: canonical,
        }
    }
}

impl FieldTest {
    /// Whether a field with this value meets the requirement.
    pub fn accepts(&self, read: &str) -> bool {
        match self {
            Self::In(values) => values.contains(read),
            Self::NotIn(values) => !values.contains(read),
            Self::Compares(comparison, bound) => {
                Quantity::parse(read).is_some_and(|number| comparison.holds(number, *bound))
            }
        }
    }

    /// Whether a field with these values meets the requirement. A path through an array has several
    /// values; an absent field has none, which reads `""`. `In` needs one matching value, `NotIn`
    /// no excluded one.
    pub fn accepts_among<'v>(&self, mut read: impl Iterator<Item = &'v str>) -> bool {
        let Some(first) = read.next() else {
            return self.accepts("");
        };
        let mut all = std::iter::once(first).chain(read);
        match self {
            Self::In(_) | Self::Compares(..) => all.any(|value| self.accepts(value)),
            Self::NotIn(_) => all.all(|value| self.accepts(value)),
        }
    }

    /// The required or excluded values; none for a comparison.
    pub fn values(&self) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        match self {
            Self::In(values) | Self::NotIn(values) => values,
            Self::Compares(..) => &NONE,
        }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(out, &self.requirements)
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.test {
            FieldTest::In(values) if values.len() == 1 => write_terms(out, path, "=", values),
            FieldTest::In(values) => {
                let escaped: Vec<String> = values
                    .iter()
                    .map(|value| escape(value, needs_escape_in_set))
                    .collect();
                write!(out, "{path} in ({})", escaped.join(","))
            }
            FieldTest::NotIn(values) => write_terms(out, path, "!=", values),
            FieldTest::Compares(comparison, bound) => {
                write!(out, "{path}{}{bound}", comparison.symbol())
            }
        }
    }
}

fn write_terms(
    out: &mut fmt::Formatter<'_>,
    path: &FieldPath,
    operator: &str,
    values: &BTreeSet<String>,
) -> fmt::Result {
    let term = |value: &String| format!("{path}{operator}{}", escape(value, needs_escape));
    let terms: Vec<String> = values.iter().map(term).collect();
    out.write_str(&terms.join(","))
}

fn escape(value: &str, needs_escape: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        if needs_escape(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

pub(super) fn needs_escape(character: char) -> bool {
    matches!(character, '\\' | ',' | '=')
}

pub(super) fn needs_escape_in_set(character: char) -> bool {
    needs_escape(character) || matches!(character, '(' | ')') || BLANKS.contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, String> {
        text.parse::<FieldSelector>()
            .map(|selector| selector.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn selectors_of_kubernetes_keep_their_meaning() {
        let same = |text: &str, expected: &str| {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text:?}");
        };
        same("", "");
        same(",,", "");
        same("=", "");
        same("!=,==", "");
        same("status.phase=Running", "status.phase=Running");
        same("status.phase==Running,", "status.phase=Running");
        same("b=2,a!=1", "a!=1,b=2");
        same("a!=1,a!=2", "a!=1,a!=2");
        same("a=", "a=");
        same(r"a=x\,y\=z\\", r"a=x\,y\=z\\");
        same("a= x ", "a= x ");
        same(" a=x", " a=x");
        same("=x", "=x");
        same("!a=x", "!a=x");
        same(r"a\,b=x", r"a\,b=x");
        same("a=b in (c)", "a=b in (c)");
        same("a=(x)", "a=(x)");
        same("a!b=c", "a!b=c");
    }

    #[test]
    fn further_forms_are_short_for_those_of_kubernetes() {
        let same = |text: &str, expected: &str| {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text:?}");
        };
        same(
            "status.phase in (Running,Pending)",
            "status.phase in (Pending,Running)",
        );
        same(
            " status.phase  in( Running ) ,a=b",
            "a=b,status.phase=Running",
        );
        same("a notin (x,y,x)", "a!=x,a!=y");
        same("a notin (x),a!=y", "a!=x,a!=y");
        same("a in ()", "a=");
        same("a in (,b)", "a in (,b)");
        same(r"a in (x\,y,\(z\),\ p q )", r"a in (\ p\ q,\(z\),x\,y)");
        same("spec.nodeName", "spec.nodeName!=");
        same("!spec.nodeName", "spec.nodeName=");
        same(" a , !b ", "a!=,b=");
        same("in in (in)", "in=in");
    }

    #[test]
    fn numbers_and_quantities_are_compared() {
        let same = |text: &str, expected: &str| {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text:?}");
        };
        same(
            "spec.replicas>3,spec.replicas<=010",
            "spec.replicas>3,spec.replicas<=10",
        );
        same(" a >= 2Gi , b<-1.50", "a>=2147483648,b<-1.5");
        same("a<500m", "a<0.5");
        same(
            "metadata.annotations['a.b/c']>1",
            "metadata.annotations['a.b/c']>1",
        );
        same("a=b>c", "a=b>c");
        let refused = |text: &str| canonical(text).unwrap_err();
        assert_eq!(
            refused("a>"),
            "at character 3: found nothing, expected a number or a quantity such as 3, 0.5, 500m or 2Gi"
        );
        assert_eq!(
            refused("x=y,a>=b"),
            "at character 8: found 'b', expected a number or a quantity such as 3, 0.5, 500m or 2Gi"
        );
        assert_eq!(
            refused(">5"),
            "at character 1: found '>5', expected a field before the comparison"
        );
        let matches = |text: &str| {
            text.parse::<FieldSelector>()
                .unwrap()
                .matches(|path| (path == "a").then_some("1500m".into()))
        };
        assert!(matches("a>1,a>=1.5,a<2,a<=1500m"));
        for refused in ["a>1.5", "a<1", "b>0", "b<=0"] {
            assert!(!matches(refused), "{refused}");
        }
    }

    #[test]
    fn an_error_names_position_found_text_and_expected_text() {
        let refused = |text: &str| canonical(text).unwrap_err();
        assert_eq!(
            refused("a=b,c=d=e"),
            "at character 8: found '=', expected a backslash before it, or ','"
        );
        assert_eq!(
            refused(r"a=b\x"),
            r"at character 4: unknown escape '\x', expected one of '\,', '\=' and '\\'"
        );
        assert_eq!(
            refused(r"a=b\"),
            r"at character 4: unknown escape '\' at the end, expected one of '\,', '\=' and '\\'"
        );
        assert_eq!(
            refused("a in (b"),
            "at character 8: found end of text, expected ',' or ')'"
        );
        assert_eq!(
            refused("a in (b) c"),
            "at character 10: found 'c', expected ',' or end of text"
        );
        assert_eq!(
            refused("ä in (b=c)"),
            "at character 8: found '=', expected a backslash before it, ',' or ')'"
        );
        assert_eq!(
            refused("a=b,c d"),
            "at character 5: found 'c d', expected path=value, path!=value, path in (…), path notin (…), path or !path"
        );
        assert!(canonical(" ").is_err());
        assert!(canonical("!").is_err());
        assert!(canonical("a(b").is_err());
    }

    #[test]
    fn only_a_choice_of_values_needs_several_requests_to_an_apiserver() {
        let text = |text: &str| text.parse::<FieldSelector>().unwrap().to_kubernetes();
        assert_eq!(
            text("a notin (x,y),b,!c,d in (z)").as_deref(),
            Some("a!=x,a!=y,b!=,c=,d=z")
        );
        assert_eq!(text("a in (x,y)"), None);
    }

    #[test]
    fn an_absent_field_reads_empty() {
        let matches = |text: &str| {
            text.parse::<FieldSelector>()
                .unwrap()
                .matches(|path| (path == "a").then_some("1".into()))
        };
        assert!(matches("a=1,b=,b!=2,a,!b"));
        assert!(!matches("a=2"));
        assert!(!matches("b=1"));
        assert!(!matches("b"));
        assert!(!matches("!a"));
        assert!(matches("a in (1,2),b notin (1,2)"));
    }
}
