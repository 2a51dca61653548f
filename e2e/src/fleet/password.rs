//! Passwords of servers that live as long as a test.

/// 24 letters and digits of every sort that password rules ask for.
pub(super) fn random() -> String {
    let random: String = (0..20)
        .map(|_| char::from(rand::random_range(b'a'..=b'z')))
        .collect();
    format!("{random}-A1x")
}
