//! Parts of images.

use fleetdex_crds::policy::ImageOverrider;
use serde_json::Value;

use super::{containers::containers_mut, failed_change::FailedChange};

/// Changes registry, repository or tag of images.
pub fn apply(object: &mut Value, changes: &[ImageOverrider]) -> Result<(), FailedChange> {
    for (index, change) in changes.iter().enumerate() {
        let failed = |problem: String| FailedChange::new("imageOverrider", index, problem);
        if let Some(predicate) = &change.predicate {
            let path = &predicate.path;
            let image = object
                .pointer_mut(path)
                .ok_or_else(|| failed(format!("there is no {path}")))?;
            replace(image, change).map_err(failed)?;
            continue;
        }
        for container in containers_mut(object).into_iter().flatten() {
            if let Some(image) = container.get_mut("image") {
                replace(image, change).map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn replace(image: &mut Value, change: &ImageOverrider) -> Result<(), String> {
    let Some(text) = image.as_str() else {
        return Err("the image is no text".to_owned());
    };
    let mut parts = ImageParts::of(text);
    parts.change(change)?;
    if parts.repository.is_empty() {
        return Err(format!("the image {text:?} would have no repository"));
    }
    *image = Value::String(parts.to_text());
    Ok(())
}

/// `[registry/]repository[:tag][@digest]`. Where Karmada loses the digest of an image that has a
/// tag too, both stay here: the digest says what runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ImageParts {
    registry: String,
    repository: String,
    tag: String,
    digest: String,
}

impl ImageParts {
    fn of(text: &str) -> Self {
        let (named, digest) = text.split_once('@').unwrap_or((text, ""));
        let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost";
        let (registry, path) = match named.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first, rest),
            _ => ("", named),
        };
        let (repository, tag) = path.split_once(':').unwrap_or((path, ""));
        Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            digest: digest.to_owned(),
        }
    }

    fn change(&mut self, change: &ImageOverrider) -> Result<(), String> {
        if !matches!(change.operator.as_str(), "add" | "replace" | "remove") {
            let operator = &change.operator;
            return Err(format!(
                "operator {operator:?} is not add, replace or remove"
            ));
        }
        match change.component.as_str() {
            "Registry" => edit(&mut self.registry, change),
            "Repository" => edit(&mut self.repository, change),
            "Tag" => self.change_tag(change),
            other => {
                return Err(format!(
                    "component {other:?} is not Registry, Repository or Tag"
                ));
            }
        }
        Ok(())
    }

    /// A new tag takes the place of a digest, and a new digest that of a tag.
    fn change_tag(&mut self, change: &ImageOverrider) {
        let is_digest = |text: &str| text.contains(':');
        let own = if self.tag.is_empty() {
            &self.digest
        } else {
            &self.tag
        };
        let mut changed = own.clone();
        edit(&mut changed, change);
        if change.operator == "add" && !(is_valid_tag(&changed) || is_valid_digest(&changed)) {
            return;
        }
        (self.tag, self.digest) = if is_digest(&changed) {
            (String::new(), changed)
        } else {
            (changed, String::new())
        };
    }

    fn to_text(&self) -> String {
        let mut text = self.registry.clone();
        if !text.is_empty() {
            text.push('/');
        }
        text.push_str(&self.repository);
        for (separator, part) in [(':', &self.tag), ('@', &self.digest)] {
            if !part.is_empty() {
                text.push(separator);
                text.push_str(part);
            }
        }
        text
    }
}

fn edit(part: &mut String, change: &ImageOverrider) {
    match change.operator.as_str() {
        "add" => part.push_str(&change.value),
        "replace" => part.clone_from(&change.value),
        _ => part.clear(),
    }
}

/// The grammar of `distribution/reference`.
fn is_valid_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = tag.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(|first| is_word(*first))
        && bytes
            .iter()
            .all(|byte| is_word(*byte) || matches!(byte, b'.' | b'-'))
}

fn is_valid_digest(digest: &str) -> bool {
    let Some((algorithm, hash)) = digest.split_once(':') else {
        return false;
    };
    algorithm.starts_with(|first: char| first.is_ascii_alphabetic())
        && hash.len() >= 32
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}
