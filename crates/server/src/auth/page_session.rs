//! Sessions of the web page: cookies that carry the token of the caller, and one-time links that hand a token over.
//!
//! The token is reviewed with each request, as one in the header `Authorization` is, so that it ends a session when it expires or is revoked, and every
//! replica serves every session. Scripts cannot read the cookies, and other sites cannot use them to change anything: the page changes nothing but the
//! session itself, and forms that do are refused from elsewhere ([`is_from_this_site`]).

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderValue,
    header::{COOKIE, HOST, ORIGIN},
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// The start of the cookies' names.
const NAME: &str = "fleetdex_session";
/// Where browsers send them.
const PATH: &str = "/ui";
/// Bytes of a token in one cookie. Browsers refuse cookies of more than 4,096 bytes, name and attributes included.
const PART_BYTES: usize = 3_500;
/// Cookies of one token: 28 kB, less than half of what the headers of a request may have.
const MAX_PARTS: usize = 8;
/// How long a link can be used: so long that one that a terminal shows is still good when it is noticed.
pub const LINK_LIFETIME: Duration = Duration::from_mins(5);
/// Links that can be used at a time: with the longest tokens that is 28 MB.
const MAX_LINKS: usize = 1_024;
/// Links of one token that can be used at a time, so that one user leaves room for others.
const MAX_LINKS_OF_TOKEN: usize = 16;
/// Random bytes of a code.
const CODE_BYTES: usize = 32;

/// The token of the session, from the cookies of a request.
pub fn session_token(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let cookies: HashMap<&str, &str> = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .collect();
    let parts = (0..MAX_PARTS).map_while(|part| cookies.get(&*format!("{name}_{part}")).copied());
    let token: String = parts.collect();
    (!token.is_empty()).then_some(token)
}

/// The cookies that begin a session, or end it without a token. `None` if the token does not fit into cookies.
///
/// `is_encrypted`: browsers send them over TLS only.
pub fn session_cookies(
    headers: &HeaderMap,
    token: Option<&str>,
    is_encrypted: bool,
) -> Option<Vec<HeaderValue>> {
    let token = token.unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    if token.len() > PART_BYTES * MAX_PARTS || !token.bytes().all(fits) {
        return None;
    }
    let (name, secure) = (
        cookie_name(headers),
        if is_encrypted { "; Secure" } else { "" },
    );
    let mut parts = token.as_bytes().chunks(PART_BYTES);
    let cookies = (0..MAX_PARTS).map(|part| {
        let value = parts
            .next()
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        // A part of a longer token that was there before is removed.
        let age = if value.is_none() { "; Max-Age=0" } else { "" };
        let value = value.unwrap_or_default();
        HeaderValue::from_str(&format!(
            "{name}_{part}={value}; Path={PATH}; HttpOnly; SameSite=Lax{secure}{age}"
        ))
    });
    cookies.collect::<Result<_, _>>().ok()
}

/// Cookies belong to a host, whatever its port: with the port in their names, two servers of this machine have sessions of their own.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port)
        .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or_else(|| NAME.to_owned(), |port| format!("{NAME}_{port}"))
}

/// Whether a form was sent from a page of this server. Programs that are no browsers send neither header.
pub fn is_from_this_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    match (text(ORIGIN.as_str()), text(HOST.as_str())) {
        (None, _) => true,
        (Some(origin), Some(host)) => origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority == host),
        (Some(_), None) => false,
    }
}

/// Tokens that wait for the first use of their links, in this process. Another replica does not know the links.
#[derive(Debug, Default)]
pub struct PageLinks(Mutex<HashMap<[u8; 32], WaitingToken>>);

/// A token, until its link is used.
#[derive(Debug)]
struct WaitingToken {
    token: String,
    until: Instant,
}

impl PageLinks {
    /// A code that can be exchanged for the token once, within [`LINK_LIFETIME`]. `None` while too many are in use.
    pub fn create(&self, token: &str) -> Option<String> {
        let (mut waiting, now) = (self.0.lock(), Instant::now());
        waiting.retain(|_, link| link.until > now);
        let of_token = waiting.values().filter(|link| link.token == token).count();
        if waiting.len() >= MAX_LINKS || of_token >= MAX_LINKS_OF_TOKEN {
            return None;
        }
        let code = URL_SAFE_NO_PAD.encode(rand::random::<[u8; CODE_BYTES]>());
        let link = WaitingToken {
            token: token.to_owned(),
            until: now + LINK_LIFETIME,
        };
        waiting.insert(digest(&code), link);
        Some(code)
    }

    /// The token of a code, once.
    pub fn take(&self, code: &str) -> Option<String> {
        let link = self.0.lock().remove(&digest(code))?;
        (link.until > Instant::now()).then_some(link.token)
    }
}

/// Codes are looked up by their digests, so that the time of a lookup reveals nothing about them.
fn digest(code: &str) -> [u8; 32] {
    Sha256::digest(code).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    /// What a browser sends back.
    fn sent_back(cookies: &[HeaderValue]) -> String {
        let kept = cookies
            .iter()
            .map(|cookie| cookie.to_str().unwrap())
            .filter(|cookie| !cookie.contains("Max-Age=0"))
            .map(|cookie| cookie.split(';').next().unwrap());
        kept.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_token_of_any_length_comes_back() {
        for length in [1, PART_BYTES, PART_BYTES + 1, PART_BYTES * MAX_PARTS] {
            let token = "t".repeat(length);
            let host = headers(&[("host", "fleet.example:8443")]);
            let cookies = session_cookies(&host, Some(&token), true).unwrap();
            for cookie in &cookies {
                let text = cookie.to_str().unwrap();
                assert!(text.ends_with("Secure") || text.contains("Max-Age=0"));
                assert!(text.contains("HttpOnly; SameSite=Lax; Secure") && text.len() < 4_096);
            }
            let sent = sent_back(&cookies);
            let request = headers(&[("host", "fleet.example:8443"), ("cookie", &sent)]);
            assert_eq!(session_token(&request), Some(token));
            let other_port = headers(&[("host", "fleet.example:9000"), ("cookie", &sent)]);
            assert_eq!(session_token(&other_port), None);
        }
        let none = HeaderMap::new();
        assert!(
            session_cookies(&none, Some(&"t".repeat(PART_BYTES * MAX_PARTS + 1)), true).is_none()
        );
        assert!(session_cookies(&none, Some("a; b"), true).is_none());
    }

    #[test]
    fn the_end_of_a_session_removes_every_cookie() {
        let cookies = session_cookies(&HeaderMap::new(), None, false).unwrap();
        assert_eq!(sent_back(&cookies), "");
        assert_eq!(cookies.len(), MAX_PARTS);
    }

    #[test]
    fn forms_of_other_sites_are_recognized() {
        for (pairs, expected) in [
            (&[][..], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "http://a:1"), ("host", "a:1")], true),
            (&[("origin", "http://b:1"), ("host", "a:1")], false),
            (&[("origin", "null"), ("host", "a:1")], false),
            (&[("origin", "http://a")], false),
        ] {
            assert_eq!(is_from_this_site(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_link_works_once() {
        let links = PageLinks::default();
        let code = links.create("secret").unwrap();
        assert_eq!(links.take("another"), None);
        assert_eq!(links.take(&code).as_deref(), Some("secret"));
        assert_eq!(links.take(&code), None);
    }

    #[test]
    fn one_token_leaves_room_for_others() {
        let links = PageLinks::default();
        let created = (0..MAX_LINKS_OF_TOKEN * 2).filter_map(|_| links.create("secret"));
        assert_eq!(created.count(), MAX_LINKS_OF_TOKEN);
        assert!(links.create("other").is_some());
    }
}
