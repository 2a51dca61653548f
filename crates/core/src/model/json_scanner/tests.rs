use proptest::prelude::*;
use serde_json::{
    Value,
    error::Category::{Data, Eof, Syntax},
};

use super::*;

fn scan(text: &str) -> Result<(), ScanFault> {
    let mut scanner = JsonScanner::keeping(text);
    scanner.value()?;
    scanner.end()
}

/// The containers of a value, found by another way: each has the length that its value has as text.
fn expected(value: &Value, found: &mut Vec<(usize, usize)>) {
    let position = found.len();
    let children: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => return,
    };
    found.push((value.to_string().len(), 0));
    for child in children {
        expected(child, found);
    }
    found[position].1 = found.len() - position;
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC*[\n\"\\\\ ]?".prop_map(Value::from),
        "[a-z]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z \n\"]{0,12}", inner, 0..5)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// A text of tokens, most of them no JSON.
fn tokens() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"a\":",
        "\\",
        "\\u00e9",
        "\\ud800",
        "\\n",
        "\\x",
        "\\u12",
        "-",
        "0",
        "12",
        ".5",
        "e",
        "E+3",
        "e-",
        "01",
        "1e999",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\t",
        "\r",
        "\u{b}",
        "\u{1f}",
        "\u{7f}",
        "é",
        "long plain text",
    ]);
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

fn assert_agrees(text: &str) {
    let accepted = serde_json::from_str::<IgnoredAny>(text);
    let scanned = scan(text);
    assert_eq!(scanned.is_ok(), accepted.is_ok(), "{text:?}: {accepted:?}");
    let skipped = (|| {
        let mut scanner = JsonScanner::new(text);
        scanner.skip()?;
        scanner.end()
    })();
    assert_eq!(skipped, scanned, "{text:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn texts_of_tokens_are_accepted_if_serde_json_accepts_them(text in tokens()) {
        assert_agrees(&text);
    }

    #[test]
    fn one_token_within_json_is_accepted_if_serde_json_accepts_it(text in tokens()) {
        for around in [["[", "]"], ["{\"a\":", "}"], ["{", ":1}"], ["[\"", "\"]"], ["[{\"a\":[", "]},1]"]] {
            assert_agrees(&format!("{}{text}{}", around[0], around[1]));
        }
    }

    #[test]
    fn a_changed_byte_is_accepted_if_serde_json_accepts_it(value in json_value(), at in any::<prop::sample::Index>(), byte in prop::sample::select(b"{}[]\",:\\ \n0-e.tx".to_vec())) {
        let mut text = value.to_string().into_bytes();
        assert_agrees(&value.to_string());
        assert_agrees(&serde_json::to_string_pretty(&value).unwrap());
        let position = at.index(text.len());
        let mut cut = text.clone();
        cut.truncate(position);
        text[position] = byte;
        for changed in [text, cut] {
            if let Ok(changed) = String::from_utf8(changed) {
                assert_agrees(&changed);
            }
        }
    }

    #[test]
    fn each_container_has_its_length_and_its_number_of_containers(value in json_value()) {
        let text = value.to_string();
        let mut scanner = JsonScanner::new(&text);
        scanner.value().unwrap();
        let found: Vec<(usize, usize)> = scanner
            .containers
            .iter()
            .map(|container| (container.length as usize, container.containers as usize))
            .collect();
        let mut containers = Vec::new();
        expected(&value, &mut containers);
        prop_assert_eq!(found, containers);
    }

    #[test]
    fn every_special_byte_of_a_string_is_found(text in "\\PC{0,40}", byte in 0..=0x7f_u8, at in any::<prop::sample::Index>()) {
        let mut bytes = text.into_bytes();
        bytes.insert(at.index(bytes.len() + 1), byte);
        let special = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
        prop_assert_eq!(plain_end(&bytes, 0), special.unwrap_or(bytes.len()));
    }
}

#[test]
fn no_depth_exhausts_the_stack_or_the_memory() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for levels in [1, 63, 64, 65, 128, 129, 511, 512, 513, 100_000] {
            let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let mut scanner = JsonScanner::new(&text);
            scanner.value().unwrap();
            assert_eq!(scanner.end(), Ok(()));
            assert_eq!(scanner.deepest, levels);
            let containers = scanner.containers;
            assert_eq!(containers.len(), levels.min(MAX_KEPT_DEPTH));
            assert_eq!(containers[0].length as usize, text.len());
            assert_eq!(containers[0].containers as usize, containers.len());
            assert!(scan(&text[..text.len() - 1]).is_err());
        }
    }
}

#[test]
fn mixed_brackets_are_matched_at_every_depth() {
    let levels = 200;
    let open: String = (0..levels)
        .map(|level| if level % 3 == 0 { "[" } else { "{\"a\":" })
        .collect();
    let closing = |swapped: usize| -> String {
        (0..levels)
            .rev()
            .map(|level| {
                if (level % 3 == 0) == (level != swapped) {
                    ']'
                } else {
                    '}'
                }
            })
            .collect()
    };
    assert_eq!(scan(&format!("{open}1{}", closing(levels))), Ok(()));
    for swapped in 0..levels {
        assert!(scan(&format!("{open}1{}", closing(swapped))).is_err());
    }
}

#[test]
fn a_fault_names_its_position() {
    let fault = |text: &str| {
        let mut scanner = JsonScanner::new(text);
        let fault = scanner.object(|scanner, _| scanner.string().map(drop));
        let error = fault.unwrap_err().of(text);
        (error.classify(), error.line(), error.column())
    };
    assert_eq!(fault("{\"a\":\"b\",\n\"c\":7}"), (Data, 2, 5));
    assert_eq!(fault("[]"), (Data, 1, 1));
    assert_eq!(fault("{\"a\":\"b\",}"), (Syntax, 1, 10));
    assert_eq!(fault("{\"a\":\"b\""), (Eof, 1, 8));
}
