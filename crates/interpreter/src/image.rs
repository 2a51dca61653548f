//! References of container images: their parts, and the terms under which an index finds them.
//!
//! Guarantee: no text fails. One that is no image reference counts as a repository with that text
//! as its name.
//!
//! Normalization is that of Docker, by which container runtimes resolve an image too: `nginx` is
//! `docker.io/library/nginx`. Sources:
//! <https://pkg.go.dev/github.com/distribution/reference#ParseNormalizedNamed>,
//! <https://github.com/opencontainers/image-spec/blob/main/descriptor.md#digests>.

use std::fmt;

/// The longest image reference, in bytes; a longer one is cut. Docker allows a repository of 255
/// bytes, a tag of 128, and a digest.
pub const MAX_IMAGE_BYTES: usize = 1024;
const MAX_TAG_BYTES: usize = 128;
const DEFAULT_REGISTRY: &str = "docker.io";
/// The name under which old clients know the default registry.
const OLD_DEFAULT_REGISTRY: &str = "index.docker.io";
/// The folder of images on the default registry whose name has none.
const DEFAULT_FOLDER: &str = "library";
const DEFAULT_TAG: &str = "latest";

/// A reference of a container image in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Registry and path, such as `docker.io/library/nginx`; of a text that is no reference, the
    /// text.
    pub repository: String,
    /// The tag, if the text has one.
    pub tag: Option<String>,
    /// The digest with its algorithm, if the text has one.
    pub digest: Option<String>,
}

impl ImageReference {
    /// The parts of a reference. A tag is never added.
    pub fn parse(text: &str) -> Self {
        let image = &text[..text.floor_char_boundary(MAX_IMAGE_BYTES)];
        parts(image).unwrap_or_else(|| Self {
            repository: image.to_owned(),
            tag: None,
            digest: None,
        })
    }

    /// The tag that a registry is asked for: `latest` if there is neither tag nor digest.
    pub fn requested_tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => Some(tag),
            (None, Some(_)) => None,
            (None, None) => Some(DEFAULT_TAG),
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(out, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(out, "@{digest}")?;
        }
        Ok(())
    }
}

/// The terms that an index stores for an image, so that a query finds it whose [`query_term`]
/// equals one of them.
///
/// | A query for        | finds images                                                                  |
/// |--------------------|-------------------------------------------------------------------------------|
/// | `nginx`            | of the repository `docker.io/library/nginx`, with any tag and digest          |
/// | `team/app`         | of the repository `docker.io/team/app`; of other registries, none             |
/// | `nginx:1.27`       | with that tag, also if they have a digest beside it                           |
/// | `nginx:latest`     | with that tag, and with neither tag nor digest, as runtimes then pull it      |
/// | `nginx@sha256:…`   | with that digest, whatever their tag                                          |
/// | `nginx:1@sha256:…` | the same: beside a digest, runtimes ignore the tag                            |
///
/// Names are normalized on both sides: the short and the long name of a repository find each other.
/// An empty text has no terms.
pub fn terms(image: &str) -> Vec<String> {
    let reference = ImageReference::parse(image);
    if reference.repository.is_empty() {
        return Vec::new();
    }
    let repository = reference.repository.as_str();
    let mut terms = vec![repository.to_owned()];
    terms.extend(
        reference
            .requested_tag()
            .map(|tag| [repository, ":", tag].concat()),
    );
    terms.extend(
        reference
            .digest
            .as_ref()
            .map(|digest| [repository, "@", digest].concat()),
    );
    terms
}

/// The term that a query for an image looks for, as [`terms`] explains.
pub fn query_term(text: &str) -> String {
    let mut reference = ImageReference::parse(text);
    if reference.digest.is_some() {
        reference.tag = None;
    }
    reference.to_string()
}

/// The parts of a text; `None` if it is no reference.
fn parts(text: &str) -> Option<ImageReference> {
    let (named, digest) = match text.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (text, None),
    };
    let last_segment = named.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match named[last_segment..].rfind(':') {
        Some(colon) => (
            &named[..last_segment + colon],
            Some(&named[last_segment + colon + 1..]),
        ),
        None => (named, None),
    };
    if !digest.is_none_or(is_digest) || !tag.is_none_or(is_tag) {
        return None;
    }
    Some(ImageReference {
        repository: normalized(name)?,
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// A repository with its registry; `None` if the text names none.
fn normalized(name: &str) -> Option<String> {
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    if !path.split('/').all(is_path_segment) || !registry.bytes().all(is_registry_byte) {
        return None;
    }
    if registry != DEFAULT_REGISTRY && registry != OLD_DEFAULT_REGISTRY {
        return Some([registry, "/", path].concat());
    }
    Some(if path.contains('/') {
        [DEFAULT_REGISTRY, "/", path].concat()
    } else {
        [DEFAULT_REGISTRY, "/", DEFAULT_FOLDER, "/", path].concat()
    })
}

/// Whether the first segment of a name is a registry. A path has no capitals, thus a segment with
/// one is a registry.
fn is_registry(segment: &str) -> bool {
    segment == "localhost"
        || segment
            .bytes()
            .any(|byte| matches!(byte, b'.' | b':') || byte.is_ascii_uppercase())
}

fn is_registry_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
}

fn is_path_segment(segment: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'.' | b'_' | b'-');
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    segment.bytes().all(|byte| outer(byte) || inner(byte))
        && segment.bytes().next().is_some_and(outer)
        && segment.bytes().next_back().is_some_and(outer)
}

fn is_tag(tag: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'.' | b'-');
    let outer = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG_BYTES
        && tag.bytes().all(|byte| outer(byte) || inner(byte))
        && tag.bytes().next().is_some_and(outer)
}

/// Whether a text is a digest: `algorithm:encoded`. The number of digits is not checked, so that
/// new algorithms pass.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, encoded)) = digest.split_once(':') else {
        return false;
    };
    let in_algorithm = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'+' | b'.' | b'_' | b'-')
    };
    let in_encoded = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'=' | b'_' | b'-');
    !algorithm.is_empty()
        && algorithm.bytes().all(in_algorithm)
        && !encoded.is_empty()
        && encoded.bytes().all(in_encoded)
}

#[cfg(test)]
mod tests;
