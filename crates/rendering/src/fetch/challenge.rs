//! How a registry wants to be authenticated to: the header `WWW-Authenticate`.

use std::collections::BTreeMap;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AuthChallenge {
    Basic,
    /// A token of a service.
    Bearer {
        realm: String,
        service: String,
    },
}

impl AuthChallenge {
    /// Reads the header.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut parameters = parameters_of(parameters);
        Some(Self::Bearer {
            realm: parameters.remove("realm")?,
            service: parameters.remove("service").unwrap_or_default(),
        })
    }
}

fn parameters_of(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
        // A value in quotes may have commas.
        let (value, others) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.insert(name, value.to_owned());
        rest = others;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: &str| {
            Some(AuthChallenge::Bearer {
                realm: realm.to_owned(),
                service: service.to_owned(),
            })
        };
        for (header, expected) in [
            ("Basic realm=\"x\"", Some(AuthChallenge::Basic)),
            ("basic", Some(AuthChallenge::Basic)),
            (
                "Bearer realm=\"https://a/token\",service=\"r, x\",scope=\"repository:a:pull,push\"",
                bearer("https://a/token", "r, x"),
            ),
            ("bearer scope=x, Realm=https://a", bearer("https://a", "")),
            ("Bearer service=\"x\"", None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(AuthChallenge::parse(header), expected, "{header}");
        }
    }
}
