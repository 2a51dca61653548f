//! UUIDs in 16 bytes: almost every UID is one.

/// The bytes of a UUID in the spelling that [`text`] writes; `None` for any other text.
pub fn parse(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (position, letter) in text.iter().enumerate() {
        if matches!(position, 8 | 13 | 18 | 23) {
            if *letter != b'-' {
                return None;
            }
            continue;
        }
        let digit = match letter {
            b'0'..=b'9' => letter - b'0',
            b'a'..=b'f' => letter - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] |= digit << if digits % 2 == 0 { 4 } else { 0 };
        digits += 1;
    }
    Some(bytes)
}

/// A UUID as API servers write it.
pub fn text(bytes: [u8; 16]) -> String {
    let hex = super::hex(&bytes);
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_is_parsed() {
        let uuid = "6f1c2e4a-0b3d-4c5e-8f70-123456789abc";
        assert_eq!(parse(uuid).map(text).as_deref(), Some(uuid));
        for other in [
            "6F1c2e4a-0b3d-4c5e-8f70-123456789abc",
            "6f1c2e4a00b3d-4c5e-8f70-123456789abc",
            "u1",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
