//! Arithmetic on quantities that keeps the notation of Kubernetes.
//!
//! Source: `k8s.io/apimachinery/pkg/api/resource`, whose results these are, but for numbers beyond
//! 10^29, which are refused. The crate `kube_quantity` writes other texts (`1.5Gi`, `23.4Mi`), and
//! the quantities of `fleetdex_core` are numbers without a notation.

use std::fmt;

/// A longer text is no quantity.
const MAX_BYTES: usize = 128;
/// The units of the smallest fraction. Finer fractions are rounded up, away from zero.
const NANOS: i128 = 1_000_000_000;
/// The largest amount in powers of 1024; Kubernetes takes larger ones for this one.
const MAX_BINARY: i128 = i64::MAX as i128 * NANOS;
/// How many digits of a fraction in powers of 1024 are exact.
const MAX_BINARY_FRACTION: usize = 18;

const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// `12M`.
    Decimal,
    /// `12e6`.
    Exponent,
    /// `12Mi`.
    Binary,
}

/// A quantity with its notation. It displays in the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    nanos: i128,
    notation: Notation,
}

impl Amount {
    /// Nothing. A sum takes over the notation of what is added to it.
    pub const ZERO: Self = Self {
        nanos: 0,
        notation: Notation::Decimal,
    };

    /// An amount of thousandths.
    pub fn of_thousandths(number: i64) -> Self {
        Self {
            nanos: i128::from(number) * (NANOS / 1000),
            notation: Notation::Decimal,
        }
    }

    /// A whole amount.
    pub fn of_units(number: i64, notation: Notation) -> Self {
        Self {
            nanos: i128::from(number) * NANOS,
            notation,
        }
    }

    /// Parses a quantity; an error names the text that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown = &text[..text.floor_char_boundary(MAX_BYTES)];
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(format!("{shown:?} is no quantity"));
        }
        let parts = Parts::of(text);
        let (notation, power) = suffix(parts.suffix)
            .ok_or_else(|| format!("{shown:?} is no quantity: its suffix is unknown"))?;
        let nanos = match notation {
            Notation::Binary => parts.binary_nanos(power),
            Notation::Decimal | Notation::Exponent => parts.decimal_nanos(power),
        }
        .ok_or_else(|| format!("quantity {shown:?} is out of range"))?;
        // As in Kubernetes, a fraction of one has no power of 1024.
        let is_fraction = nanos > 0 && nanos < NANOS;
        let notation = match notation {
            Notation::Binary if is_fraction => Notation::Decimal,
            notation => notation,
        };
        let nanos = if parts.is_negative { -nanos } else { nanos };
        Ok(Self { nanos, notation })
    }

    /// The sum, in the notation of this amount unless this is zero; `None` if it is out of range.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let notation = if self.nanos == 0 {
            other.notation
        } else {
            self.notation
        };
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Self { nanos, notation })
    }

    /// The number of units, rounded up.
    pub fn units(self) -> i64 {
        rounded_up(self.nanos, NANOS)
    }

    /// The number of thousandths, rounded up.
    pub fn thousandths(self) -> i64 {
        rounded_up(self.nanos, NANOS / 1000)
    }

    /// The nearest floating-point number.
    #[expect(clippy::cast_precision_loss, reason = "the nearest one is asked for")]
    pub fn as_f64(self) -> f64 {
        if self.nanos % NANOS == 0 {
            (self.nanos / NANOS) as f64
        } else {
            self.nanos as f64 / NANOS as f64
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = self.nanos % NANOS == 0;
        let units = self.nanos / NANOS;
        if self.nanos == 0 {
            out.write_str("0")
        } else if self.notation == Notation::Binary && is_whole && units.abs() >= 1024 {
            let (mantissa, power) = without_factors(units, 1024, BINARY_SUFFIXES.len() - 1);
            write!(out, "{mantissa}{}", BINARY_SUFFIXES[power])
        } else {
            let (mantissa, power) = without_factors(self.nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
            let (suffix, exponent) = DECIMAL_SUFFIXES[power];
            match self.notation {
                Notation::Exponent if exponent != 0 => write!(out, "{mantissa}e{exponent}"),
                _ => write!(out, "{mantissa}{suffix}"),
            }
        }
    }
}

/// A number that is not zero without the factors of a base, and how many factors these are, at most
/// `most`.
fn without_factors(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut factors = 0;
    while factors < most && number % base == 0 {
        number /= base;
        factors += 1;
    }
    (number, factors)
}

/// A quotient, rounded away from zero and to the next 64-bit number.
fn rounded_up(number: i128, divisor: i128) -> i64 {
    let quotient = number / divisor + (number % divisor).signum();
    let limit = if quotient < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(quotient).unwrap_or(limit)
}

/// What a suffix says: how a quantity is written, and the power of 10, or of 2, that its number is
/// multiplied with.
fn suffix(text: &str) -> Option<(Notation, i32)> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(suffix, _)| *suffix == text) {
        return Some((Notation::Decimal, *power));
    }
    if let Some(position) = BINARY_SUFFIXES.iter().position(|suffix| *suffix == text) {
        return Some((Notation::Binary, 10 * i32::try_from(position).ok()?));
    }
    let power = text.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Notation::Exponent, power))
}

/// The parts of a quantity's text.
struct Parts<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    /// As in Kubernetes, digits that are missing are zeros.
    fn of(text: &'t str) -> Self {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = digits_and_rest(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits_and_rest);
        Self {
            is_negative: text.starts_with('-'),
            whole,
            fraction,
            suffix,
        }
    }

    /// The number times a power of ten, in nanos.
    fn decimal_nanos(&self, power: i32) -> Option<i128> {
        let digits = format!("{}{}", self.whole, self.fraction);
        if digits.bytes().all(|digit| digit == b'0') {
            return Some(0);
        }
        let shift = power
            .checked_add(9)?
            .checked_sub(i32::try_from(self.fraction.len()).ok()?)?;
        let places = usize::try_from(shift.unsigned_abs()).ok()?;
        if shift >= 0 {
            let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
            return number(&digits)?.checked_mul(factor);
        }
        let (kept, dropped) = digits.split_at(digits.len().saturating_sub(places));
        let is_exact = dropped.bytes().all(|digit| digit == b'0');
        number(kept)?.checked_add(i128::from(!is_exact))
    }

    /// The number times a power of two, in nanos.
    fn binary_nanos(&self, power: i32) -> Option<i128> {
        let fraction = self.fraction.trim_end_matches('0');
        if fraction.len() > MAX_BINARY_FRACTION {
            return None;
        }
        let places = i32::try_from(fraction.len()).ok()?;
        let scaled = number(&format!("{}{fraction}", self.whole))
            .and_then(|digits| digits.checked_mul(2_i128.checked_pow(power.unsigned_abs())?));
        let factor = 10_i128.checked_pow((9 - places).unsigned_abs())?;
        let nanos = match scaled {
            Some(scaled) if places > 9 => Some(scaled / factor + (scaled % factor).signum()),
            Some(scaled) => scaled.checked_mul(factor),
            None => None,
        };
        Some(nanos.unwrap_or(MAX_BINARY).min(MAX_BINARY))
    }
}

fn digits_and_rest(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The number of some digits; `None` if it is out of range.
fn number(digits: &str) -> Option<i128> {
    digits.bytes().try_fold(0_i128, |number, digit| {
        number
            .checked_mul(10)?
            .checked_add(i128::from(digit - b'0'))
    })
}

/// The sum of quantities, written as `resource.Quantity` of Kubernetes writes it; an error names
/// the text that is none.
///
/// The notation is that of the first quantity that is not zero.
pub fn sum(quantities: &[&str]) -> Result<String, String> {
    let mut sum = Amount::ZERO;
    for text in quantities {
        sum = sum
            .checked_add(Amount::parse(text)?)
            .ok_or_else(|| "the sum of the quantities is out of range".to_owned())?;
    }
    Ok(sum.to_string())
}

/// The value of a quantity as a number. A negative quantity is an error, as in Karmada's
/// `kube.getResourceQuantity`.
pub fn to_number(quantity: &str) -> Result<f64, String> {
    let number = Amount::parse(quantity)?.as_f64();
    if number < 0.0 {
        return Err(format!("quantity {quantity:?} is negative"));
    }
    Ok(number)
}
