//! Quantities, the numbers of Kubernetes: `3`, `500m`, `2Gi`, `1e3`.
//!
//! Source of the grammar:
//! <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>

use std::fmt;

use super::number::ordered;

/// Longer texts are no quantities: API servers write far fewer digits.
const MAX_BYTES: usize = 40;
const NANOS: i128 = 1_000_000_000;

/// A quantity, in nanos. Finer ones are rounded up, as Kubernetes does; its whole part fits 64
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

impl Quantity {
    /// Parses a quantity; `None` if the text is none, or one beyond ±2^63.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .bytes()
            .position(|byte| !byte.is_ascii_digit() && byte != b'.')
            .unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa
                .checked_mul(10)?
                .checked_add(i128::from(digit - b'0'))?;
        }
        let (factor, power) = scale(suffix)?;
        let power = power + 9 - i32::try_from(fraction.len()).ok()?;
        let nanos = shift(mantissa.checked_mul(factor)?, power)?;
        let signed = if negative { -nanos } else { nanos };
        i64::try_from(signed.div_euclid(NANOS))
            .ok()
            .map(|_| Self(signed))
    }

    /// A text that sorts like the quantity; that of an integer is
    /// [`number::ordered`](super::number::ordered).
    pub fn ordered(self) -> String {
        let whole = i64::try_from(self.0.div_euclid(NANOS)).unwrap_or(i64::MAX);
        match self.0.rem_euclid(NANOS) {
            0 => ordered(whole),
            fraction => format!("{}.{fraction:09}", ordered(whole)),
        }
    }
}

impl fmt::Display for Quantity {
    /// Writes a decimal number, which parses as the same quantity.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = (self.0.abs() / NANOS, self.0.abs() % NANOS);
        if fraction == 0 {
            return write!(out, "{sign}{whole}");
        }
        let digits = format!("{fraction:09}");
        write!(out, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self(i128::from(number) * NANOS)
    }
}

/// A factor and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let binary = |exponent: u32| Some((1024_i128.pow(exponent), 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-40..=40).contains(&exponent).then_some((1, exponent))
        }
    }
}

/// A non-negative number times a power of ten, rounded up.
fn shift(number: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    match factor {
        _ if number == 0 => Some(0),
        Some(factor) if power >= 0 => number.checked_mul(factor),
        Some(factor) => Some(number / factor + i128::from(number % factor != 0)),
        None if power < 0 => Some(1),
        None => None,
    }
}

/// The term in `search.numbers` for a field's number.
pub fn field_term(path: &str, number: Quantity) -> String {
    format!("{path}={}", number.ordered())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> Option<i128> {
        Quantity::parse(text).map(|quantity| quantity.0)
    }

    #[test]
    fn quantities_have_the_values_of_kubernetes() {
        for (left, right) in [
            ("2Gi", "2147483648"),
            ("500m", "0.5"),
            ("1e3", "1k"),
            ("1E3", "1000"),
            ("1E", "1000000000000000000"),
            (".5", "0.50"),
            ("5.", "5"),
            ("+1", "1"),
            ("-1.5", "-1500m"),
            ("0Ei", "-0"),
            ("0.1n", "1n"),
            ("7Ei", "8070450532247928832"),
        ] {
            assert!(
                nanos(left).is_some() && nanos(left) == nanos(right),
                "{left} {right}"
            );
        }
    }

    #[test]
    fn other_texts_and_too_large_numbers_are_no_quantities() {
        for text in [
            "", "-", ".", "1..2", "1.2.3", "1 Gi", "Gi", "1gi", "1e", "1e1.5", "1e99", "8Ei",
            "10.0.0.1", "1_000", "0x1",
        ] {
            assert_eq!(nanos(text), None, "{text:?}");
        }
        assert_eq!(nanos(&"9".repeat(41)), None);
    }

    proptest! {
        #[test]
        fn texts_are_ordered_as_the_quantities_are(a: i64, b: i64, x in 0_u32..1_000, y in 0_u32..1_000) {
            let (left, right) = (i128::from(a) * NANOS + i128::from(x), i128::from(b) * NANOS + i128::from(y));
            let (left, right) = (Quantity(left), Quantity(right));
            prop_assert_eq!(left.cmp(&right), left.ordered().cmp(&right.ordered()));
        }

        #[test]
        fn parsing_any_text_never_panics(text in "[-+.0-9eEkKMGi]{0,45}") {
            if let Some(quantity) = Quantity::parse(&text) {
                prop_assert_eq!(Quantity::parse(&quantity.to_string()), Some(quantity));
                prop_assert!(quantity.ordered().len() <= 30);
            }
        }
    }
}
