//! Patterns with `*`.

/// Whether a text matches a pattern.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    overlap_bytes(pattern.as_bytes(), text.as_bytes(), false)
}

/// Whether any text matches both patterns.
pub(super) fn overlap(left: &str, right: &str) -> bool {
    overlap_bytes(left.as_bytes(), right.as_bytes(), true)
}

fn overlap_bytes(left: &[u8], right: &[u8], right_is_pattern: bool) -> bool {
    match (left.split_first(), right.split_first()) {
        (None, None) | (Some((b'*', [])), _) => true,
        (Some((b'*', after)), _) => {
            overlap_bytes(after, right, right_is_pattern)
                || right
                    .split_first()
                    .is_some_and(|(_, rest)| overlap_bytes(left, rest, right_is_pattern))
        }
        (_, Some((b'*', after))) if right_is_pattern => {
            overlap_bytes(left, after, true)
                || left
                    .split_first()
                    .is_some_and(|(_, rest)| overlap_bytes(rest, right, true))
        }
        (Some((first, left_rest)), Some((second, right_rest))) => {
            first == second && overlap_bytes(left_rest, right_rest, right_is_pattern)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*", "a", true),
            ("fleetdex-*.g*", "fleetdex-a.g1", true),
            ("fleetdex-*.g*", "fleetdex-a.w1", false),
            ("*.g*", "x.g", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("a", "*", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_overlap_if_a_text_matches_both() {
        for (left, right, expected) in [
            ("x-*.g*", "x-*", true),
            ("a*", "b*", false),
            ("*a", "b*", true),
            ("a-*.g1", "*.g2", false),
            ("*", "*", true),
        ] {
            assert_eq!(overlap(left, right), expected, "{left} {right}");
            assert_eq!(overlap(right, left), expected, "{right} {left}");
        }
    }
}
