//! The proxy in front of a member: validates its address, credentials and headers.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header::PROXY_AUTHORIZATION};
use percent_encoding::percent_decode_str;

use super::connect::ConnectError;

/// The protocol of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// CONNECT over plain TCP.
    Http,
    /// CONNECT over TLS.
    Https,
    /// SOCKS version 5; the proxy resolves names.
    Socks5,
}

/// A proxy as `spec.proxyURL` and `spec.proxyHeader`, or `proxy-url` of a kubeconfig, describe it.
pub(super) struct Proxy {
    pub(super) scheme: Scheme,
    pub(super) uri: Uri,
    pub(super) login: Option<Login>,
    /// Headers sent with CONNECT; SOCKS has none.
    pub(super) headers: HeaderMap,
}

/// User and password of a proxy.
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

impl Proxy {
    /// Parses a proxy. No error repeats the URL, as it may contain a password.
    pub(super) fn of(
        url: Option<&str>,
        header: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, ConnectError> {
        let Some(url) = url else {
            return Ok(None);
        };
        let uri: Uri = url.parse().map_err(|_| ConnectError::ProxyInvalid)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some("socks5" | "socks5h") => Scheme::Socks5,
            _ => return Err(ConnectError::ProxyInvalid),
        };
        let login = Login::of(&uri);
        let mut headers = headers(header)?;
        if let Some(login) = &login {
            headers.entry(PROXY_AUTHORIZATION).or_insert(login.basic()?);
        }
        Ok(Some(Self {
            scheme,
            uri,
            login,
            headers,
        }))
    }
}

impl Login {
    fn of(uri: &Uri) -> Option<Self> {
        let (userinfo, _) = uri.authority()?.as_str().rsplit_once('@')?;
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        Some(Self {
            user: decode(user),
            password: decode(password),
        })
    }

    fn basic(&self) -> Result<HeaderValue, ConnectError> {
        let encoded = STANDARD.encode(format!("{}:{}", self.user, self.password));
        HeaderValue::from_str(&format!("Basic {encoded}")).map_err(|_| ConnectError::ProxyInvalid)
    }
}

/// Parses headers. Values are split at commas into one header line each, as in Karmada.
fn headers(header: &BTreeMap<String, String>) -> Result<HeaderMap, ConnectError> {
    let mut headers = HeaderMap::new();
    for (name, values) in header {
        let invalid = || ConnectError::ProxyHeaderInvalid { name: name.clone() };
        let name_of_header: HeaderName = name.parse().map_err(|_| invalid())?;
        for text in values.split(',') {
            let mut value = HeaderValue::from_str(text.trim()).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.append(name_of_header.clone(), value);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, header: &[(&str, &str)]) -> Result<Option<Proxy>, ConnectError> {
        let header = header
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Proxy::of(Some(url), &header)
    }

    #[test]
    fn a_login_is_decoded_from_the_url() {
        let read = proxy("http://us%40er:p%3Aw@proxy:3128", &[])
            .unwrap()
            .unwrap();
        let login = read.login.unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.as_str()),
            ("us@er", "p:w")
        );
        assert_eq!(
            read.headers[PROXY_AUTHORIZATION],
            format!("Basic {}", STANDARD.encode("us@er:p:w"))
        );
    }

    #[test]
    fn an_explicit_header_takes_precedence_over_the_login_in_the_url() {
        let read = proxy(
            "http://user:word@proxy",
            &[("Proxy-Authorization", "Bearer abc")],
        )
        .unwrap()
        .unwrap();
        assert_eq!(read.headers[PROXY_AUTHORIZATION], "Bearer abc");
    }

    #[test]
    fn values_are_split_on_commas() {
        let read = proxy("socks5://proxy", &[("X-Tenant", "a, b")])
            .unwrap()
            .unwrap();
        let values: Vec<&[u8]> = read
            .headers
            .get_all("x-tenant")
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        assert_eq!(
            (read.scheme, values),
            (Scheme::Socks5, vec![&b"a"[..], b"b"])
        );
    }

    #[test]
    fn a_bad_proxy_is_refused_without_showing_its_password() {
        for url in [
            "ftp://u:hunter2@p",
            "proxy:3128",
            "http://",
            "http://u:hunter2@p q",
        ] {
            let error = proxy(url, &[]).err().unwrap();
            assert!(matches!(error, ConnectError::ProxyInvalid), "{url}");
            assert!(!format!("{error:?} {error}").contains("hunter2"));
        }
        let error = proxy("http://p", &[("bad name", "hunter2")]).err().unwrap();
        assert!(
            error.to_string().contains("bad name") && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
}
