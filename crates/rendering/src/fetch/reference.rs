//! Addresses in OCI registries.

use std::str::FromStr;

use super::error::FetchError;

/// `oci://HOST/REPOSITORY`, with `:TAG` or `@sha256:DIGEST` or neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OciReference {
    /// The host, and the port if there is one.
    pub(super) authority: String,
    /// The path of the artifact.
    pub(super) repository: String,
    /// The tag or the digest; empty: none.
    pub(super) version: String,
}

impl FromStr for OciReference {
    type Err = FetchError;

    fn from_str(text: &str) -> Result<Self, FetchError> {
        let invalid = |reason: &str| FetchError::Address {
            address: text.to_owned(),
            what: "an OCI artifact, such as oci://registry.example.com/charts/web",
            reason: reason.to_owned(),
        };
        let rest = text
            .strip_prefix("oci://")
            .ok_or_else(|| invalid("it has to begin with oci://"))?;
        let (authority, path) = rest
            .split_once('/')
            .ok_or_else(|| invalid("it has no path"))?;
        let (repository, version) = match path.split_once('@') {
            Some((repository, digest)) => (repository, digest),
            None => path.split_once(':').unwrap_or((path, "")),
        };
        // A tag beside a digest says nothing that counts.
        let repository = repository.split(':').next().unwrap_or_default();
        if !repository.split('/').all(is_path_part) {
            return Err(invalid(
                "its path has lower-case letters, digits, '.', '_' and '-'",
            ));
        }
        let is_version = if path.contains('@') {
            is_digest(version)
        } else {
            version.is_empty() || is_tag(version)
        };
        if !is_version {
            return Err(invalid(
                "it ends with a tag, or with @sha256: and 64 digits",
            ));
        }
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(is_host) {
            return Err(invalid("its host is invalid"));
        }
        Ok(Self {
            authority: authority.to_owned(),
            repository: repository.to_owned(),
            version: version.to_owned(),
        })
    }
}

fn is_path_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    part.bytes()
        .all(|byte| is_plain(byte) || b"._-".contains(&byte))
        && part.bytes().next().is_some_and(is_plain)
}

/// Whether it is a digest that can be verified.
pub(super) fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.len() == 64 && digits.bytes().all(is_digit)
}

/// Whether it is a tag.
pub(super) fn is_tag(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(is_inner) && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_parts() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        for (text, authority, repository, version) in [
            ("oci://r.example.com/web", "r.example.com", "web", ""),
            ("oci://r/web:", "r", "web", ""),
            (
                "oci://r:5000/charts/web:1.2.3",
                "r:5000",
                "charts/web",
                "1.2.3",
            ),
            (&format!("oci://r/web@{digest}"), "r", "web", &digest),
            (&format!("oci://r/web:1.0@{digest}"), "r", "web", &digest),
        ] {
            let reference: OciReference = text.parse().unwrap();
            let parts = (
                &*reference.authority,
                &*reference.repository,
                &*reference.version,
            );
            assert_eq!(parts, (authority, repository, version));
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for text in [
            "https://r/web",
            "oci://r",
            "oci:///web",
            "oci://r/",
            "oci://r/../web",
            "oci://r/a//b",
            "oci://user:password@r/web",
            "oci://r/web:a b",
            "oci://r/web@sha256:12",
            "oci://r/web@md5:12",
            "oci://r/web?x=1",
            "oci://r/Web",
        ] {
            let parsed = text.parse::<OciReference>();
            assert!(parsed.is_err(), "{text}: {parsed:?}");
        }
    }
}
