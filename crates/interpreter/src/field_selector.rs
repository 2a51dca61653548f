//! Field selectors on interpreted fields: their values, as the index stores them.

use std::collections::BTreeSet;

use crate::image;
use fleetdex_core::{
    model::DEPENDS_ON,
    selector::{FieldRequirement, FieldSelector, FieldTest},
};

/// The interpreted field of images.
pub const IMAGE: &str = "image";

/// The value of a requirement on `dependsOn` names no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{DEPENDS_ON} {0:?} names no object: expected apiVersion/kind/namespace/name, such as v1/Secret/web/db, or without a namespace \
     v1/PersistentVolume//data"
)]
pub struct MalformedReference(String);

/// The selector with the values that the index stores: every spelling of an image becomes its
/// normal form. `is_interpreted`: whether a path is that of an interpreted field for the selected
/// kind.
pub fn normalized(
    fields: &FieldSelector,
    is_interpreted: impl Fn(&str) -> bool,
) -> Result<FieldSelector, MalformedReference> {
    let normal = |requirement: &FieldRequirement| {
        let path = requirement.path.as_str();
        if path == DEPENDS_ON && is_interpreted(path) {
            check_references(requirement.test.values())?;
        }
        if path != IMAGE || !is_interpreted(path) {
            return Ok(requirement.clone());
        }
        Ok(FieldRequirement {
            path: requirement.path.clone(),
            test: of_images(&requirement.test),
        })
    };
    fields.requirements().map(normal).collect()
}

fn of_images(test: &FieldTest) -> FieldTest {
    let terms =
        |images: &BTreeSet<String>| images.iter().map(|text| image::query_term(text)).collect();
    match test {
        FieldTest::In(images) => FieldTest::In(terms(images)),
        FieldTest::NotIn(images) => FieldTest::NotIn(terms(images)),
        FieldTest::Compares(..) => test.clone(),
    }
}

/// The empty text tests whether there are references at all.
fn check_references(values: &BTreeSet<String>) -> Result<(), MalformedReference> {
    let malformed = values
        .iter()
        .find(|value| !value.is_empty() && !is_reference(value));
    malformed.map_or(Ok(()), |value| Err(MalformedReference(value.clone())))
}

/// Whether a text has the form `apiVersion/kind/namespace/name`. Only the namespace may be empty.
fn is_reference(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [version, kind, _, name] => ![version, kind, name].iter().any(|part| part.is_empty()),
        [group, version, kind, _, name] => ![group, version, kind, name]
            .iter()
            .any(|part| part.is_empty()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(selector: &str) -> Result<String, String> {
        let parsed: FieldSelector = selector.parse().unwrap();
        normalized(&parsed, |_| true)
            .map(|fields| fields.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_spelling_of_an_image_is_searched_as_the_same_term() {
        let cases = [
            ("image=nginx", "image=docker.io/library/nginx"),
            (
                "image=docker.io/library/nginx:1.27",
                "image=docker.io/library/nginx:1.27",
            ),
            ("image!=nginx:1.27", "image!=docker.io/library/nginx:1.27"),
            (
                "image in (nginx,team/app)",
                "image in (docker.io/library/nginx,docker.io/team/app)",
            ),
            ("image", "image!="),
            ("!image", "image="),
            ("health=Degraded", "health=Degraded"),
        ];
        for (given, expected) in cases {
            assert_eq!(of(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn a_field_of_the_same_name_that_is_not_interpreted_stays_as_it_is() {
        let fields: FieldSelector = "dependsOn=db,image=nginx".parse().unwrap();
        assert_eq!(normalized(&fields, |_| false), Ok(fields));
    }

    #[test]
    fn a_reference_has_all_of_its_parts() {
        for given in [
            "dependsOn=v1/Secret/web/db",
            "dependsOn=apps/v1/Deployment/web/api",
            "dependsOn=v1/PersistentVolume//data",
            "dependsOn",
            "!dependsOn",
        ] {
            assert!(of(given).is_ok(), "{given}");
        }
        for given in [
            "dependsOn=db",
            "dependsOn=Secret/web/db",
            "dependsOn=v1/Secret/web/",
            "dependsOn!=v1//web/db",
            "dependsOn=/v1/Secret/web/db",
            "dependsOn=a/b/v1/Secret/web/db",
        ] {
            assert!(of(given).is_err(), "{given}");
        }
        assert_eq!(
            of("dependsOn in (v1/Secret/web/db,db)").unwrap_err(),
            "dependsOn \"db\" names no object: expected apiVersion/kind/namespace/name, such as v1/Secret/web/db, or without a namespace v1/PersistentVolume//data"
        );
    }
}
