//! Where a request goes: its URL, the name that it calls the server by, and the address that it
//! connects to.

use std::net::IpAddr;

use fleetdex_core::model::quoted;
use fleetdex_interpreter::webhook::configuration::WebhookAddress;
use reqwest::Url;

use super::error::CallFailure;
use crate::service::{ResolveService, SocketTarget, service_host};

const HTTPS_PORT: u16 = 443;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookDestination {
    /// The URL. Its host is the name on the server's certificate, its port the one to connect to.
    pub(super) url: Url,
    /// The `Host` header, if it is not that of the URL.
    pub(super) host_header: Option<String>,
    /// Where to connect to, if not to the host of the URL.
    pub(super) connect: Option<SocketTarget>,
}

pub(super) async fn destination(
    address: &WebhookAddress,
    resolver: &dyn ResolveService,
) -> Result<WebhookDestination, CallFailure> {
    match address {
        WebhookAddress::Url(url) => of_url(url, resolver.every_host()),
        WebhookAddress::Service {
            namespace,
            name,
            path,
            port,
        } => {
            let target = resolver.resolve(namespace, name, *port).await?;
            of_service(&service_host(namespace, name), *port, path, target)
        }
    }
}

fn of_url(text: &str, connect: Option<SocketTarget>) -> Result<WebhookDestination, CallFailure> {
    let mut url = parsed(text)?;
    let path = joined(url.path());
    url.set_path(&path);
    let host_header = connect.as_ref().map(|_| url.authority().to_owned());
    if let Some(target) = &connect {
        check_reachable(&url, target)?;
        // An https URL with a host can have a port.
        let _is_set = url.set_port(Some(target.port));
    }
    Ok(WebhookDestination {
        url,
        host_header,
        connect,
    })
}

/// The resolver of a client leads names to the target. It is not asked about IP addresses, so a URL
/// with another one would be called there, on the port of the target.
fn check_reachable(url: &Url, target: &SocketTarget) -> Result<(), CallFailure> {
    let Some(address) = ip_address(url.host_str().unwrap_or_default()) else {
        return Ok(());
    };
    if ip_address(&target.host) == Some(address) {
        return Ok(());
    }
    Err(CallFailure::Endpoint(format!(
        "the URL of the webhook has the IP address {address}, so it cannot be called at {} instead; \
         name the server by a DNS name of its certificate",
        target.host
    )))
}

/// The IP address that a host is, which has brackets in a URL if it is one of IPv6.
fn ip_address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

fn of_service(
    host: &str,
    port: u16,
    path: &str,
    target: SocketTarget,
) -> Result<WebhookDestination, CallFailure> {
    let mut url = parsed(&format!("https://{host}:{}", target.port))?;
    url.set_path(&joined(path));
    let host_header = match port {
        HTTPS_PORT => host.to_owned(),
        port => format!("{host}:{port}"),
    };
    Ok(WebhookDestination {
        url,
        host_header: Some(host_header),
        connect: Some(target),
    })
}

fn parsed(text: &str) -> Result<Url, CallFailure> {
    let refused = |reason: &str| CallFailure::Endpoint(format!("\"{}\" {reason}", quoted(text)));
    let url = Url::parse(text).map_err(|error| refused(&format!("is no URL: {error}")))?;
    if url.scheme() != "https" || url.host_str().is_none() {
        return Err(refused("is no https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(CallFailure::Endpoint(
            "the URL of the webhook holds a user or a password".to_owned(),
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("has a query or a fragment"));
    }
    Ok(url)
}

/// A path joined onto `/` as Go's `path.Join` does it, through which client-go passes all paths:
/// without empty segments and without a slash at the end. (Segments of dots are resolved by the
/// URL's parser.)
fn joined(path: &str) -> String {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_called_as_it_is_with_its_path_joined() {
        for (url, called) in [
            ("https://a.example.com", "https://a.example.com/"),
            ("https://a.example.com/", "https://a.example.com/"),
            ("https://a.example.com:443/x/", "https://a.example.com/x"),
            (
                "https://127.0.0.1:8443//x//y/",
                "https://127.0.0.1:8443/x/y",
            ),
            ("https://[::1]:8443/x/../y", "https://[::1]:8443/y"),
            ("https://a.example.com/%2Fx", "https://a.example.com/%2Fx"),
        ] {
            let destination = of_url(url, None).unwrap();
            assert_eq!(destination.url.as_str(), called);
            assert_eq!((destination.host_header, destination.connect), (None, None));
        }
    }

    #[test]
    fn a_url_keeps_its_host_wherever_it_is_reached() {
        let forwarded = SocketTarget {
            host: "127.0.0.1".to_owned(),
            port: 9443,
        };
        let destination = of_url("https://a.example.com:444/x", Some(forwarded.clone())).unwrap();
        assert_eq!(destination.url.as_str(), "https://a.example.com:9443/x");
        assert_eq!(
            destination.host_header.as_deref(),
            Some("a.example.com:444")
        );
        assert_eq!(destination.connect, Some(forwarded));
    }

    #[test]
    fn a_url_with_an_ip_address_is_reached_at_that_address_only() {
        let at = |url: &str, host: &str| {
            let target = SocketTarget {
                host: host.to_owned(),
                port: 8443,
            };
            let destination = of_url(url, Some(target));
            destination.map(|destination| destination.url.to_string())
        };
        for (url, host, called) in [
            (
                "https://127.0.0.1/x",
                "127.0.0.1",
                "https://127.0.0.1:8443/x",
            ),
            ("https://[::1]:9443/", "::1", "https://[::1]:8443/"),
        ] {
            assert_eq!(at(url, host), Ok(called.to_owned()));
        }
        for (url, host) in [
            ("https://10.0.0.5:9443", "127.0.0.1"),
            ("https://167772165/", "127.0.0.1"),
            ("https://[::1]/", "127.0.0.1"),
            ("https://127.0.0.1/", "::1"),
            ("https://127.0.0.1/", "localhost"),
        ] {
            let failure = at(url, host).unwrap_err();
            assert!(matches!(failure, CallFailure::Endpoint(_)), "{failure}");
            let text = failure.to_string();
            assert!(text.contains("name the server by a DNS name"), "{text}");
        }
    }

    #[test]
    fn urls_that_are_refused_show_no_password() {
        for url in [
            "http://a.example.com",
            "https://user:hunter2@a.example.com/",
            "https://user@a.example.com/",
            "https://a.example.com/?a",
            "https://a.example.com/#a",
            "file:///etc/passwd",
            "a.example.com",
            "https://",
            "",
        ] {
            let failure = of_url(url, None).unwrap_err().to_string();
            assert!(!failure.contains("hunter2"), "{failure}");
        }
    }

    #[test]
    fn a_service_keeps_its_name_wherever_it_is_reached() {
        let target = |host: &str, port| SocketTarget {
            host: host.to_owned(),
            port,
        };
        let called = |port, path, target: SocketTarget| {
            let destination = of_service("hook.web.svc", port, path, target).unwrap();
            (
                destination.url.to_string(),
                destination.host_header.unwrap(),
            )
        };
        for (port, path, target, url, host) in [
            (
                443,
                "/",
                target("10.0.0.7", 443),
                "https://hook.web.svc/",
                "hook.web.svc",
            ),
            (
                443,
                "/x/",
                target("127.0.0.1", 9443),
                "https://hook.web.svc:9443/x",
                "hook.web.svc",
            ),
            (
                8443,
                "",
                target("fd00::7", 8443),
                "https://hook.web.svc:8443/",
                "hook.web.svc:8443",
            ),
        ] {
            assert_eq!(
                called(port, path, target),
                (url.to_owned(), host.to_owned())
            );
        }
    }
}
