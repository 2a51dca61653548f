//! Sources of Flux. All other objects of Flux are assessed well by their conditions.

use crate::{
    health::{Assessment, Health},
    value::{Tree, list, text},
};

/// A registry is only an address: since Flux 2.3 no controller writes a status. `None` for a
/// repository with an index, and for conditions of an older Flux. Source: `spec.type` in
/// <https://fluxcd.io/flux/components/source/helmrepositories/>.
pub fn helm_repository(object: Tree<'_>) -> Option<Assessment> {
    let is_static = text(object, &["spec", "type"]) == "oci"
        && list(object, &["status", "conditions"]).is_empty();
    is_static.then(|| Assessment::plain(Health::Healthy))
}
