//! Versions of Kubernetes, as API servers say them.

/// Major, minor and patch of a version such as `v1.36.3+k3s1`; an absent patch is 0.
pub fn version_numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version
        .trim_start_matches('v')
        .split(['.', '-', '+'])
        .map(str::parse);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next().and_then(Result::ok).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (text, expected) in [
            ("v1.36.3", Some((1, 36, 3))),
            ("1.9.0+k3s1", Some((1, 9, 0))),
            ("v1.34.2-gke.100", Some((1, 34, 2))),
            ("v1.34", Some((1, 34, 0))),
            ("", None),
            ("v1", None),
            ("v1.31-eks", Some((1, 31, 0))),
            ("main", None),
        ] {
            assert_eq!(version_numbers(text), expected, "{text}");
        }
        assert!(version_numbers("v1.9.11").unwrap() < version_numbers("v1.36.3+k3s1").unwrap());
    }
}
