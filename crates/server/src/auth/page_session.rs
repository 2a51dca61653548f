//! Sessions of the web page: cookies that carry the token of the caller, and one-time links that
//! hand a token over.
//!
//! The token is reviewed with each request, as one in the header `Authorization` is, so that it
//! ends a session when it expires or is revoked, and every replica serves every session. Scripts
//! cannot read the cookies, and other sites cannot use them to change anything: the page changes
//! nothing but the session itself, and forms that do are refused from elsewhere
//! ([`is_from_this_site`]).

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderValue, Uri,
    header::{COOKIE, HOST, ORIGIN},
    uri::Authority,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// The start of the cookies' names.
const NAME: &str = "fleetdex_session";
/// Where browsers send them.
const PATH: &str = "/ui";
/// Bytes of a token in one cookie. Browsers refuse cookies of more than 4,096 bytes, name and
/// attributes included.
const PART_BYTES: usize = 3_500;
/// Cookies of one token: 28 kB, less than half of what the headers of a request may have.
const MAX_PARTS: usize = 8;
/// How long a link can be used: so long that one that a terminal shows is still good when it is
/// noticed.
pub const LINK_LIFETIME: Duration = Duration::from_mins(5);
/// Links that can be used at a time: with the longest tokens that is 28 MB.
const MAX_LINKS: usize = 1_024;
/// Links of one user that can be used at a time, so that others have some, too.
const MAX_LINKS_OF_USER: usize = 16;
/// Random bytes of a code.
const CODE_BYTES: usize = 32;

/// The host and port that a request is for: of HTTP/2 a part of its URI, of HTTP/1.1 a header.
pub fn authority<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r str> {
    let of_uri = uri.authority().map(Authority::as_str);
    of_uri.or_else(|| headers.get(HOST)?.to_str().ok())
}

/// The token of the session, from the cookies of a request.
pub fn session_token(authority: Option<&str>, headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(authority);
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

/// The cookies that begin a session, or end it without a token. `None` if the token does not fit
/// into cookies.
///
/// `is_encrypted`: browsers send them over TLS only.
pub fn session_cookies(
    authority: Option<&str>,
    token: Option<&str>,
    is_encrypted: bool,
) -> Option<Vec<HeaderValue>> {
    let token = token.unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    if token.len() > PART_BYTES * MAX_PARTS || !token.bytes().all(fits) {
        return None;
    }
    let name = cookie_name(authority);
    let secure = if is_encrypted { "; Secure" } else { "" };
    let mut parts = token.as_bytes().chunks(PART_BYTES);
    let cookies = (0..MAX_PARTS).map(|part| {
        let bytes = parts.next();
        let value = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        // A part of a longer token that was there before is removed.
        let age = if value.is_none() { "; Max-Age=0" } else { "" };
        let value = value.unwrap_or_default();
        HeaderValue::from_str(&format!(
            "{name}_{part}={value}; Path={PATH}; HttpOnly; SameSite=Lax{secure}{age}"
        ))
    });
    cookies.collect::<Result<_, _>>().ok()
}

/// Cookies belong to a host, whatever its port: with the port in their names, two servers of this
/// machine have sessions of their own.
fn cookie_name(authority: Option<&str>) -> String {
    let port = authority.and_then(|authority| Some(authority.rsplit_once(':')?.1));
    let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or_else(|| NAME.to_owned(), |port| format!("{NAME}_{port}"))
}

/// Whether a form was sent from a page of this server. Programs that are no browsers send neither
/// header.
pub fn is_from_this_site(authority: Option<&str>, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text(ORIGIN.as_str()) else {
        return true;
    };
    let of_origin = origin.split_once("://").map(|(_, authority)| authority);
    of_origin.is_some() && of_origin == authority
}

/// Whether a browser opens an address in a window of its own: not in a frame, and not for a script,
/// an image or a form of a page.
pub fn is_top_level_navigation(headers: &HeaderMap) -> bool {
    let has = |name: &str, value: &str| headers.get(name).is_some_and(|sent| sent == value);
    has("sec-fetch-mode", "navigate") && has("sec-fetch-dest", "document")
}

/// Tokens that wait for the first use of their links, in this process. Another replica does not
/// know the links.
#[derive(Debug, Default)]
pub struct PageLinks(Mutex<HashMap<[u8; 32], WaitingToken>>);

/// A token, until its link is used.
struct WaitingToken {
    user: String,
    token: String,
    until: Instant,
}

impl fmt::Debug for WaitingToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WaitingToken").finish_non_exhaustive()
    }
}

impl PageLinks {
    /// A code that can be exchanged for a user's token once, within [`LINK_LIFETIME`]. `None` while
    /// too many of this user are in use; too many of all users cost the user with the most links
    /// the oldest one.
    pub fn create(&self, user: &str, token: &str) -> Option<String> {
        let (mut waiting, now) = (self.0.lock(), Instant::now());
        waiting.retain(|_, link| link.until > now);
        let of_user = waiting.values().filter(|link| link.user == user).count();
        if of_user >= MAX_LINKS_OF_USER {
            return None;
        }
        if waiting.len() >= MAX_LINKS {
            remove_oldest_of_most(&mut waiting);
        }
        let code = URL_SAFE_NO_PAD.encode(rand::random::<[u8; CODE_BYTES]>());
        let link = WaitingToken {
            user: user.to_owned(),
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

/// Removes the oldest link of the user with the most: who makes few links loses none to those who
/// make many.
fn remove_oldest_of_most(waiting: &mut HashMap<[u8; 32], WaitingToken>) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for link in waiting.values() {
        *counts.entry(&link.user).or_default() += 1;
    }
    let count = |link: &WaitingToken| counts.get(link.user.as_str()).copied();
    let links = waiting.iter();
    let oldest = links.max_by_key(|(_, link)| (count(link), Reverse(link.until)));
    if let Some(digest) = oldest.map(|(digest, _)| *digest) {
        waiting.remove(&digest);
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
            let here = Some("fleet.example:8443");
            let cookies = session_cookies(here, Some(&token), true).unwrap();
            for cookie in &cookies {
                let text = cookie.to_str().unwrap();
                assert!(text.ends_with("Secure") || text.contains("Max-Age=0"));
                assert!(text.contains("HttpOnly; SameSite=Lax; Secure") && text.len() < 4_096);
            }
            let sent = sent_back(&cookies);
            let request = headers(&[("cookie", &sent)]);
            assert_eq!(session_token(here, &request), Some(token));
            let other_port = Some("fleet.example:9000");
            assert_eq!(session_token(other_port, &request), None);
        }
        let long = "t".repeat(PART_BYTES * MAX_PARTS + 1);
        assert!(session_cookies(None, Some(&long), true).is_none());
        assert!(session_cookies(None, Some("a; b"), true).is_none());
    }

    #[test]
    fn the_end_of_a_session_removes_every_cookie() {
        let cookies = session_cookies(None, None, false).unwrap();
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
            (&[("origin", "http://a:1")], true),
            (&[("origin", "http://b:1")], false),
            (&[("origin", "null")], false),
        ] {
            let is_own = is_from_this_site(Some("a:1"), &headers(pairs));
            assert_eq!(is_own, expected, "{pairs:?}");
        }
    }

    #[test]
    fn only_a_window_of_its_own_is_a_top_level_navigation() {
        for (mode, destination, expected) in [
            ("navigate", "document", true),
            ("navigate", "iframe", false),
            ("no-cors", "script", false),
            ("cors", "empty", false),
        ] {
            let sent = headers(&[("sec-fetch-mode", mode), ("sec-fetch-dest", destination)]);
            assert_eq!(is_top_level_navigation(&sent), expected, "{destination}");
        }
        assert!(!is_top_level_navigation(&HeaderMap::new()));
    }

    #[test]
    fn a_link_works_once() {
        let links = PageLinks::default();
        let code = links.create("alice", "secret").unwrap();
        assert_eq!(links.take("another"), None);
        assert_eq!(links.take(&code).as_deref(), Some("secret"));
        assert_eq!(links.take(&code), None);
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let links = PageLinks::default();
        let tokens = (0..MAX_LINKS_OF_USER * 2).map(|number| number.to_string());
        let created = tokens.filter_map(|token| links.create("alice", &token));
        assert_eq!(created.count(), MAX_LINKS_OF_USER);
        assert!(links.create("bob", "other").is_some());
        assert!(!format!("{links:?}").contains("other"));
    }

    #[test]
    fn many_users_with_many_links_leave_room_for_others() {
        let links = PageLinks::default();
        let of_bob = links.create("bob", "of bob").unwrap();
        let greedy = (0..MAX_LINKS / MAX_LINKS_OF_USER).map(|number| format!("greedy-{number}"));
        let greedy: Vec<String> = greedy.collect();
        for user in &greedy {
            for _ in 0..MAX_LINKS_OF_USER {
                links.create(user, "greedy").unwrap();
            }
        }
        let of_carol = links.create("carol", "of carol").unwrap();
        assert_eq!(links.0.lock().len(), MAX_LINKS);
        assert_eq!(links.take(&of_bob).as_deref(), Some("of bob"));
        assert_eq!(links.take(&of_carol).as_deref(), Some("of carol"));
    }
}
