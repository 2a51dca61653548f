//! Sorts keys as `sigs.k8s.io/yaml` does.

use std::{cmp::Ordering, iter::Peekable, str::Chars};

use serde_json::{Map, Value};

/// The value with sorted keys. Values are nested at most as deep as their parser allows.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut pairs: Vec<(&String, &Value)> = members.iter().collect();
            pairs.sort_by(|(left, _), (right, _)| natural_order(left, right));
            let sorted_pairs = pairs
                .into_iter()
                .map(|(key, member)| (key.clone(), sorted(member)));
            Value::Object(sorted_pairs.collect::<Map<_, _>>())
        }
        plain => plain.clone(),
    }
}

/// The order of keys in Go's YAML: digits by their number, other signs before letters.
///
/// Source: `keyList.Less` of <https://pkg.go.dev/sigs.k8s.io/yaml/goyaml.v2>
fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left.chars().peekable(), right.chars().peekable());
    let mut is_after_digit = false;
    loop {
        let (first, second) = match (left_rest.peek(), right_rest.peek()) {
            (Some(first), Some(second)) => (*first, *second),
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
        };
        if first.is_ascii_digit() && second.is_ascii_digit() {
            match number(&mut left_rest).cmp(&number(&mut right_rest)) {
                Ordering::Equal => is_after_digit = true,
                unequal => return unequal,
            }
            continue;
        }
        if first != second {
            return by_sign(first, second, is_after_digit);
        }
        is_after_digit = false;
        left_rest.next();
        right_rest.next();
    }
}

/// The order of two different signs, of which at most one is a digit.
fn by_sign(first: char, second: char, is_after_digit: bool) -> Ordering {
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, false) if is_after_digit => Ordering::Less,
        (false, true) if is_after_digit => Ordering::Greater,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        // Of other signs, digits come last.
        _ => (first.is_ascii_digit(), first).cmp(&(second.is_ascii_digit(), second)),
    }
}

/// Takes a run of digits; returns what compares as its number does, however long it is, and where
/// numbers are equal by the leading zeros: the count of significant digits, these digits, and the
/// count of all digits.
fn number(rest: &mut Peekable<Chars<'_>>) -> (usize, String, usize) {
    let mut digits = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    let length = digits.len();
    let significant = digits.trim_start_matches('0').to_owned();
    (significant.len(), significant, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_go_yaml() {
        let mut keys = [
            "b", "a10", "a9", "a-b", "aB", "a", "A", "a1b", "a01", "Z", "_x", "1",
        ];
        keys.sort_by(|left, right| natural_order(left, right));
        assert_eq!(
            keys,
            [
                "_x", "1", "A", "Z", "a", "a-b", "a1b", "a01", "a9", "a10", "aB", "b"
            ]
        );
    }
}
