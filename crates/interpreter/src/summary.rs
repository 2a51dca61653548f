//! What an index stores of an object beside its fields: health, replicas, resources, images and
//! dependencies, by the built-in rules.

use ahash::AHashSet;
use fleetdex_core::model::Interpretation;

use crate::{
    health::{self, KnownStatus},
    image::MAX_IMAGE_BYTES,
    native::requirements::requests_of_pod_spec,
    pod_template, relations,
    value::Tree,
};

mod replicas;

/// How many images of one object are kept.
pub const MAX_IMAGES: usize = 256;
/// How many bytes the images of one object have together at most.
pub const MAX_IMAGE_LIST_BYTES: usize = 32 * 1024;

/// What an index stores of an object. Replicas are `None` if its kind has none, or if the object
/// does not say; resources are, if it has no pod template or no replicas. The images are those of
/// its pod templates as they stand there, each once, in the order of the object; the dependencies
/// are [terms](relations::ObjectReference::term).
pub fn summarize(object: Tree<'_>, status: KnownStatus) -> Interpretation {
    let assessment = health::assess(object, status);
    let pods = pod_template::pod_specs(object);
    let (desired_replicas, ready_replicas) = replicas::of(object);
    let resources = resources(&pods, desired_replicas);
    Interpretation {
        health: assessment.health.as_str(),
        health_reason: assessment.reason,
        health_message: assessment.message,
        desired_replicas,
        ready_replicas,
        cpu: resources.map(|(cores, _)| cores),
        memory: resources.map(|(_, bytes)| bytes),
        images: images(&pods),
        dependencies: relations::terms(object, &pods),
        interpreted_by: Vec::new(),
    }
}

/// The cores and bytes of all replicas. Of an object that makes several kinds of pods it is not
/// known which of them the replicas are.
#[expect(clippy::cast_precision_loss, reason = "no object has so many replicas")]
fn resources(pods: &[Tree<'_>], replicas: Option<i64>) -> Option<(f64, i64)> {
    let ([pod], Some(replicas)) = (pods, replicas) else {
        return None;
    };
    let (cores, bytes) = requests_of_pod_spec(pod);
    let all_cores = (cores * replicas as f64).min(f64::MAX);
    Some((all_cores, bytes.saturating_mul(replicas)))
}

/// The images of pods, each once. What is beyond the bounds is left out, longer texts than an image
/// reference are cut.
fn images(pods: &[Tree<'_>]) -> Vec<String> {
    let mut images = Vec::new();
    let mut seen = AHashSet::new();
    let mut bytes_left = MAX_IMAGE_LIST_BYTES;
    for text in pods.iter().flat_map(|spec| pod_template::images(spec)) {
        let image = &text[..text.floor_char_boundary(MAX_IMAGE_BYTES)];
        if !seen.insert(image) {
            continue;
        }
        if images.len() == MAX_IMAGES || image.len() > bytes_left {
            break;
        }
        bytes_left -= image.len();
        images.push(image.to_owned());
    }
    images
}

#[cfg(test)]
mod tests;
