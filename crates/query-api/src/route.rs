//! The part of a path that a request does not choose freely, for traces.

use std::borrow::Cow;

use crate::group::{GROUP_RESOURCES, GROUPS, VERSION};

/// A path below `/apis/<group>/v1alpha1/` that discovery does not list, because it is for programs.
const CHANGES: &str = "changes";

/// The route of a path, still encoded; `None` for paths of no endpoint below the groups.
pub fn route(path: &str) -> Option<Cow<'static, str>> {
    let mut segments = path.strip_prefix("/apis/")?.splitn(4, '/');
    let group = GROUPS
        .into_iter()
        .find(|group| segments.clone().next() == Some(*group))?;
    segments.next();
    if segments.next() != Some(VERSION) {
        return None;
    }
    let named = segments.next()?;
    let listed = GROUP_RESOURCES.iter().map(|(name, ..)| *name);
    let endpoint = listed.chain([CHANGES]).find(|name| *name == named)?;
    let rest = if segments.next().is_some() {
        "/{path}"
    } else {
        ""
    };
    Some(format!("/apis/{group}/{VERSION}/{endpoint}{rest}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_nothing_that_the_request_chooses() {
        let group = "/apis/search.fleetdex.io/v1alpha1";
        for (path, expected) in [
            (
                "/search/api/v1/namespaces/secret/pods",
                Some("/search/{path}"),
            ),
            ("/clusters", Some("/clusters")),
            ("/clusters/secret/api/v1/pods", Some("/clusters/{path}")),
            ("/secret", None),
            ("", None),
        ] {
            let expected = expected.map(|route| format!("{group}{route}"));
            assert_eq!(
                route(&format!("{group}{path}")).as_deref(),
                expected.as_deref()
            );
        }
        assert_eq!(route("/apis/other.io/v1alpha1/search").as_deref(), None);
    }
}
