//! Properties of label and field selectors, for generated text and objects.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing helper of a test fails the test"
)]

use std::{borrow::Cow, collections::BTreeMap};

use fleetdex_core::selector::{FieldSelector, LabelSelector};
use proptest::{collection, prelude::*, sample::select, strategy::ValueTree as _};

type Labels = BTreeMap<String, String>;

const KEYS: [&str; 4] = ["app", "example.com/tier", "in", "weight"];
const VALUES: [&str; 8] = [
    "",
    "web",
    "notin",
    "3",
    "007",
    "7",
    "x.y",
    "9223372036854775807",
];

/// A plain requirement, which is printed and evaluated without the code under test.
#[derive(Clone, Debug)]
struct Plain {
    key: &'static str,
    operator: &'static str,
    values: Vec<&'static str>,
}

impl Plain {
    fn is_met_by(&self, label: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>();
        let bound = self.values.first().copied().unwrap_or_default();
        match (self.operator, label) {
            ("exists", label) => label.is_some(),
            ("absent", label) => label.is_none(),
            ("=" | "==" | "in", label) => label.is_some_and(|value| self.values.contains(&value)),
            ("!=" | "notin", label) => label.is_none_or(|value| !self.values.contains(&value)),
            (">", Some(value)) => number(value).is_ok_and(|left| left > number(bound).unwrap()),
            ("<", Some(value)) => number(value).is_ok_and(|left| left < number(bound).unwrap()),
            _ => false,
        }
    }

    fn text(&self, blank: &str) -> String {
        let Self {
            key,
            operator,
            values,
        } = self;
        match *operator {
            "exists" => format!("{blank}{key}{blank}"),
            "absent" => format!("{blank}!{blank}{key}"),
            "in" | "notin" => format!(
                "{key} {operator}{blank}({blank}{}{blank})",
                values.join(&format!("{blank},"))
            ),
            _ => format!("{key}{blank}{operator}{blank}{}", values[0]),
        }
    }
}

fn requirement() -> impl Strategy<Value = Plain> {
    let sets = (
        select(vec!["in", "notin"]),
        collection::vec(select(&VALUES[..]), 1..4),
    );
    let one = (
        select(vec!["=", "==", "!="]),
        select(&VALUES[..]).prop_map(|value| vec![value]),
    );
    let comparisons = (
        select(vec![">", "<"]),
        select(vec!["3", "007", "7", "9223372036854775807"]).prop_map(|value| vec![value]),
    );
    let existence = (select(vec!["exists", "absent"]), Just(Vec::new()));
    (
        select(&KEYS[..]),
        prop_oneof![sets, one, comparisons, existence],
    )
        .prop_map(|(key, (operator, values))| Plain {
            key,
            operator,
            values,
        })
}

fn labels() -> impl Strategy<Value = Labels> {
    collection::btree_map(
        select(&KEYS[..]).prop_map(String::from),
        select(&VALUES[..]).prop_map(String::from),
        0..4,
    )
}

/// Text from the alphabet of selectors: mostly refused, sometimes accepted.
fn selector_like_text() -> impl Strategy<Value = String> {
    let pieces = vec![
        "a", "b.c", "in", "notin", " ", ",", "=", "!", "(", ")", "<", ">", "\\", "1", "é", "\t",
        "\0", "spec.x", " in (", "a=", "!=", "\\,", "\\=",
    ];
    collection::vec(select(pieces), 0..10).prop_map(|pieces| pieces.concat())
}

fn write_selector(requirements: &[Plain], blank: &str) -> String {
    requirements
        .iter()
        .map(|requirement| requirement.text(blank))
        .collect::<Vec<_>>()
        .join(",")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_label_selector_means_what_its_requirements_say(
        requirements in collection::vec(requirement(), 0..4),
        object in labels(),
        blank in select(vec!["", " ", "\t \n"]),
    ) {
        let text = write_selector(&requirements, blank);
        let selector: LabelSelector = text.parse().map_err(|error| TestCaseError::fail(format!("{text:?}: {error}")))?;
        let expected = requirements.iter().all(|requirement| requirement.is_met_by(object.get(requirement.key).map(String::as_str)));
        prop_assert_eq!(selector.matches(|key| object.get(key).map(String::as_str)), expected, "{}", text);
        let printed: LabelSelector = selector.to_string().parse().unwrap();
        prop_assert_eq!(printed, selector);
    }

    #[test]
    fn the_order_of_requirements_does_not_matter(requirements in collection::vec(requirement(), 0..4)) {
        let reversed: Vec<Plain> = requirements.iter().rev().cloned().collect();
        let selector: LabelSelector = write_selector(&requirements, "").parse().unwrap();
        prop_assert_eq!(write_selector(&reversed, "").parse::<LabelSelector>().unwrap(), selector);
    }

    #[test]
    fn printing_an_accepted_label_selector_and_parsing_it_gives_it_back(text in selector_like_text()) {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            let printed = selector.to_string();
            prop_assert_eq!(printed.parse::<LabelSelector>(), Ok(selector), "{:?}", printed);
        }
    }

    #[test]
    fn printing_an_accepted_field_selector_and_parsing_it_gives_it_back(text in selector_like_text()) {
        if let Ok(selector) = text.parse::<FieldSelector>() {
            let printed = selector.to_string();
            prop_assert_eq!(printed.parse::<FieldSelector>(), Ok(selector), "{:?}", printed);
        }
    }

    #[test]
    fn any_value_can_stand_in_a_field_selector(values in collection::btree_set("[a\\\\,=() !\\téx]{0,6}", 1..4), excluded: bool) {
        use fleetdex_core::model::FieldPath;
        use fleetdex_core::selector::FieldRequirement;
        use fleetdex_core::selector::FieldTest;
        let test = if excluded { FieldTest::NotIn(values.clone()) } else { FieldTest::In(values.clone()) };
        let selector: FieldSelector = [FieldRequirement { path: FieldPath::new("spec.x"), test }].into_iter().collect();
        let printed: FieldSelector = selector.to_string().parse().map_err(|error| TestCaseError::fail(format!("{selector}: {error}")))?;
        prop_assert_eq!(&printed, &selector);
        for value in &values {
            let reads = |path: &str| (path == "spec.x").then_some(Cow::Borrowed(value.as_str()));
            prop_assert_eq!(printed.matches(reads), !excluded);
        }
        prop_assert_eq!(printed.matches(|_| Some("none of these".into())), excluded);
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC{0,20}") {
        drop(text.parse::<LabelSelector>());
        drop(text.parse::<FieldSelector>());
    }
}

/// Checks that the generators exercise the property often enough.
#[test]
fn much_of_the_generated_text_is_accepted() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut accepted = [0, 0];
    for _ in 0..2000 {
        let text = selector_like_text()
            .new_tree(&mut runner)
            .unwrap()
            .current();
        accepted[0] += usize::from(text.parse::<LabelSelector>().is_ok());
        accepted[1] += usize::from(text.parse::<FieldSelector>().is_ok());
    }
    assert!(
        accepted[0] > 100 && accepted[1] > 200,
        "{accepted:?} of 2000"
    );
}
