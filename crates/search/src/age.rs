//! The ages of `age:`, such as `2h30m`.

use std::{fmt, time::Duration};

use super::search::AgeTest;

const SECONDS: [(char, u64); 5] = [
    ('w', 7 * 24 * 3600),
    ('d', 24 * 3600),
    ('h', 3600),
    ('m', 60),
    ('s', 1),
];
/// A hundred years, so that no computation with it overflows.
const MAX_SECONDS: u64 = 36_500 * 24 * 3600;

/// Parses `<1d` or `>=2h30m`; an error says what is wrong.
pub(super) fn parse_age(text: &str) -> Result<AgeTest, String> {
    let (younger, amount) = if let Some(amount) = text.strip_prefix('<') {
        (true, amount)
    } else if let Some(amount) = text.strip_prefix('>') {
        (false, amount)
    } else {
        return Err(format!(
            "an age needs a comparison: write age:<{text} for younger objects, age:>{text} for older ones"
        ));
    };
    let amount = amount.strip_prefix('=').unwrap_or(amount);
    let seconds = seconds(amount).ok_or_else(|| {
        format!(
            "invalid age {amount:?}: write whole numbers with the units s, m, h, d and w, up to a hundred years, as in age:<2h30m"
        )
    })?;
    Ok(AgeTest {
        younger,
        age: Duration::from_secs(seconds),
    })
}

fn seconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let unit = rest[digits..].chars().next()?;
        let (_, length) = SECONDS.into_iter().find(|(known, _)| *known == unit)?;
        let number: u64 = rest[..digits].parse().ok()?;
        total = total.checked_add(number.checked_mul(length)?)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    let is_given = !text.is_empty() && total <= MAX_SECONDS;
    is_given.then_some(total)
}

impl fmt::Display for AgeTest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.younger { "<" } else { ">" })?;
        let mut rest = self.age.as_secs();
        if rest == 0 {
            return out.write_str("0s");
        }
        for (unit, length) in SECONDS {
            if rest >= length {
                write!(out, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units_and_one_spelling() {
        let printed = |text: &str| parse_age(text).map(|age| age.to_string());
        for (text, canonical) in [
            ("<1d", "<1d"),
            ("<=90m", "<1h30m"),
            (">=2h30m", ">2h30m"),
            (">30m2h", ">2h30m"),
            (">8d", ">1w1d"),
            ("<0m", "<0s"),
            ("<007s", "<7s"),
        ] {
            assert_eq!(printed(text).as_deref(), Ok(canonical), "{text}");
        }
        for text in [
            "",
            "1d",
            "<",
            "<=",
            "<1",
            "<d",
            "<1.5h",
            "<1D",
            "<-1d",
            "<1d ",
            "<1ä",
            "=1d",
            "<<1d",
            "<36501d",
            "<99999999999999999999w",
            "<3050568823w3050568823w",
            "<9999999999999999w",
        ] {
            assert!(printed(text).is_err(), "{text}");
        }
    }
}
