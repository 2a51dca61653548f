//! Passwords of servers that live as long as a test.

/// 24 letters and digits, with every class of characters that password rules require.
pub(super) fn random() -> String {
    let random: String = (0..20)
        .map(|_| char::from(rand::random_range(b'a'..=b'z')))
        .collect();
    format!("{random}-A1x")
}
