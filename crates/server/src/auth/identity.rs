//! Reads the caller from the headers of a front proxy, and from a client certificate.
//!
//! Source of the rules: `headerrequest` and `x509` of
//! <https://pkg.go.dev/k8s.io/apiserver/pkg/authentication/request>

use std::collections::BTreeMap;

use fleetdex_core::model::hex;

use http::{HeaderMap, HeaderName, header::AUTHORIZATION};

use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::caller::Caller;

/// The default identity headers. They are removed whichever the control plane configures.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
/// The prefixes of further identity headers: extra attributes, and impersonation, which an API
/// server would take for the operator's own when a request is forwarded to it.
const STANDARD_PREFIXES: [&str; 2] = ["x-remote-extra-", "impersonate-"];
/// The extra attribute that identifies a certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The headers in which front proxies send the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityHeaders {
    /// The first of these with a value is the user.
    pub username: Vec<String>,
    /// The first of these with a value is the UID.
    pub uid: Vec<String>,
    /// All values of all of these are groups.
    pub group: Vec<String>,
    /// The prefixes of headers with extra attributes.
    pub extra_prefixes: Vec<String>,
}

/// Parses one of the lists of the control plane's `ConfigMap`; `None` if it is not a list of
/// strings.
pub fn list(json: &str) -> Option<Vec<String>> {
    serde_json::from_str(json).ok()
}

impl IdentityHeaders {
    /// The caller; `None` if no header has a user name.
    pub fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let name = first(headers, &self.username)?;
        let groups = self.group.iter().flat_map(|header| values(headers, header));
        let groups = groups.filter(|group| !group.is_empty());
        Some(Caller {
            name,
            uid: first(headers, &self.uid),
            groups: groups.collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for name in headers.keys() {
                if let Some(rest) = name.as_str().strip_prefix(&prefix) {
                    let of_key = extra.entry(unescape(rest)).or_default();
                    of_key.extend(values(headers, name.as_str()));
                }
            }
        }
        extra
    }

    /// Removes all credentials and identity headers.
    pub fn remove_from(&self, headers: &mut HeaderMap) {
        let configured = self.username.iter().chain(&self.uid).chain(&self.group);
        let configured = configured.map(|name| name.to_ascii_lowercase());
        let exact: Vec<String> = configured.chain(STANDARD.map(str::to_owned)).collect();
        let configured = self
            .extra_prefixes
            .iter()
            .filter(|prefix| !prefix.is_empty());
        let configured = configured.map(|prefix| prefix.to_ascii_lowercase());
        let standard = STANDARD_PREFIXES.map(str::to_owned);
        let prefixes: Vec<String> = configured.chain(standard).collect();
        let is_identity = |name: &HeaderName| {
            let text = name.as_str();
            *name == AUTHORIZATION
                || exact.iter().any(|header| header == text)
                || prefixes
                    .iter()
                    .any(|prefix| text.starts_with(prefix.as_str()))
        };
        let removed = headers.keys().filter(|name| is_identity(name));
        let removed: Vec<HeaderName> = removed.cloned().collect();
        for name in removed {
            headers.remove(name);
        }
    }
}

/// Whether a request asks for impersonation. A front proxy handles that itself and removes these
/// headers.
pub fn impersonates(headers: &HeaderMap) -> bool {
    let mut names = headers.keys();
    names.any(|name| name.as_str().starts_with("impersonate-"))
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names
        .iter()
        .filter_map(|name| values(headers, name).next())
        .find(|value| !value.is_empty())
}

/// Header values are bytes; Kubernetes uses them as strings without decoding.
fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = String> + 'h {
    let values = headers.get_all(name.to_ascii_lowercase()).into_iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Percent-decodes as in a path, where a plus sign is a plus sign. A key that cannot be decoded
/// stays unchanged.
fn unescape(key: &str) -> String {
    fleetdex_query_api::percent::decode_segment(key)
        .map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned)
}

/// The user of a client certificate: its common name is the name, its organizations are the groups.
/// `None` if it has no common name.
pub fn of_certificate(der: &[u8]) -> Option<Caller> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let groups = certificate.subject().iter_organization();
    let groups = groups
        .filter_map(|value| value.as_str().ok())
        .map(str::to_owned);
    let fingerprint = format!("X509SHA256={}", hex(&Sha256::digest(der)[..]));

    Some(Caller {
        name: common_name(der)?,
        uid: None,
        groups: groups.collect(),
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint])]),
    })
}

/// The common name of a certificate's subject, the last one if there are several.
pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let names = certificate.subject().iter_common_name();
    let name = names.filter_map(|value| value.as_str().ok()).last()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standard() -> IdentityHeaders {
        IdentityHeaders {
            username: vec!["X-Remote-User".to_owned(), "X-Other-User".to_owned()],
            uid: vec!["X-Remote-Uid".to_owned()],
            group: vec!["X-Remote-Group".to_owned(), "X-Other-Group".to_owned()],
            extra_prefixes: vec!["X-Remote-Extra-".to_owned()],
        }
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn all_group_headers_count_and_the_first_user_with_a_value() {
        let sent = headers(&[
            ("x-remote-user", ""),
            ("x-other-user", "alice"),
            ("x-remote-uid", "u1"),
            ("x-other-group", "c"),
            ("x-remote-group", "a"),
            ("x-remote-group", ""),
            ("x-remote-group", "b"),
        ]);
        let caller = standard().caller(&sent).unwrap();
        assert_eq!(
            (caller.name.as_str(), caller.uid.as_deref()),
            ("alice", Some("u1"))
        );
        assert_eq!(caller.groups, ["a", "b", "c"]);
        assert_eq!(
            standard().caller(&headers(&[("x-remote-group", "a")])),
            None
        );
    }

    #[test]
    fn keys_of_extra_attributes_are_decoded_as_paths_are() {
        let sent = headers(&[
            ("x-remote-user", "alice"),
            ("x-remote-extra-foo%2fbar", "a"),
            ("x-remote-extra-foo%2fbar", "b"),
            ("x-remote-extra-c+d", "plus"),
            ("x-remote-extra-100%", "raw"),
        ]);
        let extra = standard().caller(&sent).unwrap().extra;
        assert_eq!(extra["foo/bar"], ["a", "b"]);
        assert_eq!(extra["c+d"], ["plus"]);
        assert_eq!(extra["100%"], ["raw"]);
    }

    #[test]
    fn all_credentials_and_identity_headers_are_removed() {
        let names = IdentityHeaders {
            username: vec!["X-Configured".to_owned()],
            ..IdentityHeaders::default()
        };
        let mut sent = headers(&[
            ("authorization", "Bearer t"),
            ("x-configured", "a"),
            ("x-remote-user", "a"),
            ("x-remote-uid", "a"),
            ("x-remote-group", "a"),
            ("x-remote-extra-scopes", "a"),
            ("impersonate-user", "a"),
            ("impersonate-extra-scopes", "a"),
            ("accept", "application/json"),
        ]);
        names.remove_from(&mut sent);
        assert_eq!(
            sent.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["accept"]
        );
    }

    #[test]
    fn only_json_lists_of_strings_are_lists() {
        assert_eq!(
            list(r#"["a","b"]"#),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(list("[]"), Some(Vec::new()));
        for broken in ["", "a", r#"["a"] x"#, r#"{"a":1}"#, "[1]"] {
            assert_eq!(list(broken), None, "{broken}");
        }
    }
}
