//! Properties for generated texts.

use proptest::{collection::vec, prelude::*, sample::select};

use super::completions::SmallFleet;
use crate::{Completion, complete, parse};

/// Pieces of which most texts are nearly valid.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    "-",
    "NOT ",
    "OR",
    "\"",
    "\"",
    "\\",
    ",",
    ",",
    ":",
    "=",
    "!",
    "!=",
    "<",
    ">",
    "/",
    "kind:",
    "health:",
    "label:",
    "ns:",
    "namespace:",
    "cluster:",
    "name:",
    "reason:",
    "image:",
    "age:",
    "uses:",
    "heath:",
    "Pod",
    "degraded",
    "Missing",
    "web",
    "app",
    "app=web",
    "<1d",
    ">=2h30m",
    "90m",
    "secret/web/db",
    "node/n1",
    "nginx:1.27",
    "ä",
    "\u{3000}",
    "x y",
    "\n",
    "\0",
    "\u{7}",
];

fn nearly_valid() -> impl Strategy<Value = String> {
    vec(select(PIECES), 0..16).prop_map(|pieces| pieces.concat())
}

/// A text in which only the content of quotes is arbitrary.
fn valid() -> impl Strategy<Value = String> {
    let quoted = "[ -~ä\n]{1,8}".prop_map(|content| super::super::scan::quote(&content));
    let bare = "[a-zA-Z0-9][a-zA-Z0-9.-]{0,6}";
    let value = prop_oneof![bare.prop_map(String::from), quoted];
    let values = vec(value, 1..4).prop_map(|values| values.join(","));
    let free = (
        select(&["kind", "name", "reason", "image", "Name"][..]),
        values,
    )
        .prop_map(|(name, values)| format!("{name}:{values}"));
    let fixed = select(
        &[
            "web",
            "back-off",
            "nginx:1.27",
            "\"two words\"",
            "\"NOT\"",
            "\"OR\"",
            "\"-x\"",
            "\"kind:Pod\"",
            "health:degraded,Missing",
            "ns:web,shop",
            "namespace:x",
            "cluster:member1,a/b",
            "label:app",
            "label:!app",
            "label:app=web,\"\"",
            "label:app!=a",
            "label:n>3",
            "age:<90m",
            "age:>=1w8d",
            "uses:secret/web/db,node/n1",
        ][..],
    );
    let term = prop_oneof![free, fixed.prop_map(str::to_owned)];
    let negation = select(&["", "", "-", "NOT "][..]);
    let terms = vec((negation, term), 0..6);
    terms.prop_map(|terms| {
        let terms = terms
            .iter()
            .map(|(negation, term)| format!("{negation}{term}"));
        terms.collect::<Vec<_>>().join(" ")
    })
}

fn check_print_and_parse(text: &str) {
    match parse(text) {
        Ok(search) => {
            let printed = search.to_string();
            assert_eq!(
                parse(&printed).as_ref(),
                Ok(&search),
                "{text:?}: {printed:?}"
            );
            assert_eq!(parse(&printed).unwrap().to_string(), printed);
            for term in search.terms {
                assert_eq!(
                    parse(&text[term.span.clone()]).unwrap().terms,
                    [term],
                    "{text:?}"
                );
            }
        }
        Err(error) => {
            assert!(
                text.get(error.span.clone()).is_some(),
                "{text:?}: {error:?}"
            );
            assert_eq!(error.column, text[..error.span.start].chars().count() + 1);
            assert!(
                !error.message.ends_with('.')
                    && error
                        .message
                        .starts_with(|first: char| !first.is_uppercase())
            );
        }
    }
}

/// A finished item makes a valid text of one whose other terms are valid.
fn check_completions(text: &str) {
    for cursor in 0..=text.len() {
        let offered = complete(text, cursor, &SmallFleet);
        assert!(
            text.get(offered.replace.clone()).is_some(),
            "{text:?} {cursor}"
        );
        for Completion {
            text: item,
            is_finished,
            ..
        } in offered.items
        {
            let mut accepted = text.to_owned();
            accepted.replace_range(offered.replace.clone(), &item);
            if is_finished && parse(text).is_ok() {
                assert!(parse(&accepted).is_ok(), "{text:?} {cursor}: {accepted:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_refused_with_a_position_or_printed_so_that_it_reads_the_same(text in any::<String>()) {
        check_print_and_parse(&text);
        check_completions(&text);
    }

    #[test]
    fn nearly_valid_texts_are_too(text in nearly_valid()) {
        check_print_and_parse(&text);
        check_completions(&text);
    }

    #[test]
    fn valid_texts_are_parsed_and_printed_so_that_they_read_the_same(text in valid()) {
        prop_assert!(parse(&text).is_ok(), "{text:?}: {:?}", parse(&text));
        check_print_and_parse(&text);
    }

    #[test]
    fn a_finished_completion_of_a_valid_text_is_valid(text in valid()) {
        check_completions(&text);
    }

    #[test]
    fn a_quoted_text_is_the_word_that_it_quotes(word in "\\PC{1,60}") {
        let text = super::super::scan::quote(&word);
        let search = parse(&text).unwrap();
        prop_assert_eq!(&search.terms[0].condition, &crate::Condition::Word(word));
    }

    #[test]
    fn a_removed_end_never_panics(text in valid(), length in 0_usize..200) {
        let cut = &text[..text.floor_char_boundary(length)];
        check_print_and_parse(cut);
        check_completions(cut);
    }
}
