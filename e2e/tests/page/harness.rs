//! What the browser of these tests sees and does, on pages of the tests' own.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::RawQuery,
    http::{HeaderMap, header},
    response::Html,
    routing::get,
    serve::Listener,
};
use e2e::{
    browser::{Browser, BrowserOptions, ColorScheme, keys},
    fleet::certificates::Authority,
    test_result::{Tested, assert_contains},
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// As strict as a policy of a page with scripts can be.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
const SCRIPT: &str = "document.querySelector('#out').textContent = 'scripted';";

/// Serves a page with that body, and `/script.js`.
fn site(body: &str) -> Router {
    let page = format!(
        "<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1>{body}</main></html>"
    );
    let page = move || async move { ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(page)) };
    let script = || async { ([(header::CONTENT_TYPE, "text/javascript")], SCRIPT) };
    Router::new()
        .route("/", get(page))
        .route("/script.js", get(script))
        .route("/favicon.ico", get(|| async {}))
}

/// Serves on loopback until the test ends; returns the origin.
async fn serve(site: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, site).await });
    origin
}

async fn browser_at(url: &str) -> Tested<Browser> {
    let browser = Browser::open(BrowserOptions::default()).await?;
    browser.goto(url).await?;
    Ok(browser)
}

#[tokio::test]
async fn an_image_without_a_text_is_an_accessibility_violation() -> Tested {
    let browser = browser_at(&serve(site("<img src=/x.png>")).await).await?;
    let violations = browser.accessibility_violations().await?;
    let rules: Vec<&str> = violations.iter().map(|found| found.rule.as_str()).collect();
    assert_eq!(rules, ["image-alt"]);
    let shown = violations[0].to_string();
    assert_contains(&shown, "alternative text");
    assert_contains(&shown, "<img src=\"/x.png\">");
    Ok(())
}

#[tokio::test]
async fn a_small_target_is_an_accessibility_violation_also_without_scripts() -> Tested {
    let body = "<p><input type=checkbox aria-label=one><input type=checkbox aria-label=two></p><p id=out></p>\
                <script type=module src=/script.js></script>";
    let options = BrowserOptions {
        javascript: false,
        ..BrowserOptions::default()
    };
    let browser = Browser::open(options).await?;
    browser.goto(&serve(site(body)).await).await?;
    let violations = browser.accessibility_violations().await?;
    let rules: Vec<&str> = violations.iter().map(|found| found.rule.as_str()).collect();
    assert_eq!(rules, ["target-size"]);
    browser.reload().await?;
    assert_eq!(browser.texts("#out").await?, [""]);
    Ok(())
}

#[tokio::test]
async fn a_page_without_faults_has_no_violations_and_an_empty_console() -> Tested {
    let body = "<p id=out>plain</p><script type=module src=/script.js></script>";
    let browser = browser_at(&serve(site(body)).await).await?;
    browser.wait_for_text("#out", "scripted").await?;
    browser.wait_until_gone("p", "plain").await?;
    assert_eq!(browser.accessibility_violations().await?, []);
    assert_eq!(browser.console().await?, []);
    assert_eq!(browser.title().await?, "A page");
    Ok(())
}

#[tokio::test]
async fn a_violated_content_security_policy_is_on_the_console() -> Tested {
    let browser = browser_at(&serve(site("<script>window.x = 1;</script>")).await).await?;
    let console = browser.console().await?;
    assert_eq!(console.len(), 1, "{console:?}");
    assert_eq!(
        (console[0].level.as_str(), console[0].source.as_str()),
        ("SEVERE", "security")
    );
    assert!(console[0].text.contains("script-src 'self'"), "{console:?}");
    browser.forget().await?;
    assert_eq!(browser.console().await?, []);
    Ok(())
}

#[tokio::test]
async fn every_request_is_listed_with_its_origin_and_bytes() -> Tested {
    let body = "<p id=out></p><script src=/script.js></script><img alt='' src=http://elsewhere.example/x.png>";
    let origin = serve(site(body)).await;
    let browser = browser_at(&origin).await?;
    let mut requests = browser.requests().await?;
    requests.retain(|request| !request.url.ends_with("/favicon.ico"));
    let urls: Vec<&str> = requests
        .iter()
        .map(|request| request.url.as_str())
        .collect();
    let page = format!("{origin}/");
    let script = format!("{origin}/script.js");
    assert_eq!(urls, [&page, &script, "http://elsewhere.example/x.png"]);

    assert_eq!(requests[0].origin().unwrap(), origin);
    assert_eq!(requests[2].origin().unwrap(), "http://elsewhere.example");
    assert_eq!(requests[2].failure.as_deref(), Some("csp"));
    assert_eq!(
        (requests[1].kind.as_str(), requests[1].status),
        ("Script", Some(200))
    );
    let sent = SCRIPT.len() as u64;
    assert!(
        (sent + 50..sent + 500).contains(&requests[1].bytes),
        "{} bytes of a script of {sent}",
        requests[1].bytes
    );
    Ok(())
}

#[tokio::test]
async fn no_request_leaves_the_machine() -> Tested {
    let site = Router::new().route(
        "/",
        get(|| async { Html("<!doctype html><img src=http://elsewhere.example/x.png>") }),
    );
    let browser = browser_at(&serve(site).await).await?;
    let requests = browser.requests().await?;
    let elsewhere = requests
        .iter()
        .find(|request| request.url.starts_with("http://elsewhere"))
        .unwrap();
    assert_eq!(elsewhere.status, None);
    assert_eq!(
        elsewhere.failure.as_deref(),
        Some("net::ERR_NAME_NOT_RESOLVED")
    );
    Ok(())
}

#[tokio::test]
async fn a_page_is_shown_360_pixels_wide_and_dark() -> Tested {
    let body = "<table><tr><td>a<td>name<td>that<td>averylongnamewithoutanyspaceinitandwithoutahyphen</table>";
    let options = BrowserOptions {
        width: 360,
        height: 740,
        color_scheme: ColorScheme::Dark,
        ..BrowserOptions::default()
    };
    let browser = Browser::open(options).await?;
    browser.goto(&serve(site(body)).await).await?;
    let script =
        "return [innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches];";
    let seen: (u32, u32, bool) = browser.evaluate(script, &json!([])).await?;
    assert_eq!(seen, (360, 740, true));
    assert!(browser.overflow().await? > 0);
    browser.resize(1280, 800).await?;
    assert_eq!(browser.overflow().await?, 0);

    let file = std::env::temp_dir().join(format!("fleetdex-page-{}.png", std::process::id()));
    browser.screenshot(&file).await?;
    let picture = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file)?;
    assert!(picture.starts_with(b"\x89PNG"));
    Ok(())
}

#[tokio::test]
async fn a_form_is_filled_in_and_sent_with_the_keyboard_alone() -> Tested {
    let form =
        "<form action=/found><label>Search <input id=q name=q></label> <button>Go</button></form>";
    let found = |RawQuery(query): RawQuery| async move {
        Html(format!(
            "<!doctype html><p>{}</p>",
            query.unwrap_or_default()
        ))
    };
    let site = site(form).route("/found", get(found));
    let browser = browser_at(&serve(site).await).await?;
    assert_eq!(browser.focused().await?, "<body>");
    browser.press(keys::TAB).await?;
    assert_eq!(browser.focused().await?, "<input id=\"q\" name=\"q\">");
    browser.type_text("webb").await?;
    browser.press(keys::BACKSPACE).await?;
    browser.press(keys::TAB).await?;
    assert_eq!(browser.focused().await?, "<button>");
    browser.press_with(keys::SHIFT, keys::TAB).await?;
    browser.press(keys::ENTER).await?;
    browser.wait_for_url("/found?q=web").await?;
    assert_eq!(browser.text("p").await?, "q=web");
    browser.back().await?;
    browser.click_text("button", "Go").await?;
    browser.wait_for_text("p", "q=").await?;
    Ok(())
}

#[tokio::test]
async fn a_cookie_has_its_attributes_and_can_be_replaced_and_removed() -> Tested {
    let echo = |headers: HeaderMap| async move {
        let sent = headers
            .get(header::COOKIE)
            .map(|value| value.to_str().unwrap().to_owned());
        Html(format!(
            "<!doctype html><p>{}</p>",
            sent.unwrap_or_else(|| "none".to_owned())
        ))
    };
    let set = [(
        header::SET_COOKIE,
        "session=1; Path=/; HttpOnly; SameSite=Strict",
    )];
    let site = Router::new()
        .route("/", get(move || async move { (set, "") }))
        .route("/echo", get(echo));
    let origin = serve(site).await;
    let browser = browser_at(&origin).await?;
    let cookies = browser.cookies().await?;
    assert_eq!(cookies.len(), 1);
    let cookie = &cookies[0];
    assert_eq!(
        (cookie.name.as_str(), cookie.value.as_str()),
        ("session", "1")
    );
    assert_eq!(
        (cookie.path.as_str(), cookie.domain.as_str()),
        ("/", "127.0.0.1")
    );
    assert_eq!((cookie.http_only, cookie.secure), (true, false));
    assert_eq!(cookie.same_site.as_deref(), Some("Strict"));
    assert_eq!(cookie.expiry, None);

    browser.set_cookie(cookie, "expired").await?;
    browser.goto(&format!("{origin}/echo")).await?;
    assert_eq!(browser.text("p").await?, "session=expired");
    browser.delete_cookie("session").await?;
    browser.reload().await?;
    assert_eq!(browser.text("p").await?, "none");
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_accepted_on_request_only() -> Tested {
    let listener = TlsListener::bind().await;
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, site("<p>over TLS</p>")).await });
    let strict = Browser::open(BrowserOptions::default()).await?;
    // It shows a page of its own about the certificate.
    let _ = strict.goto(&url).await;
    assert_eq!(strict.title().await?, "Privacy error");
    let options = BrowserOptions {
        accept_any_certificate: true,
        ..BrowserOptions::default()
    };
    let lenient = Browser::open(options).await?;
    lenient.goto(&url).await?;
    assert_eq!(lenient.text("p").await?, "over TLS");
    Ok(())
}

/// Accepts TLS connections with a certificate of an authority that no browser knows.
struct TlsListener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl TlsListener {
    async fn bind() -> Self {
        e2e::http::install_tls_provider();
        let identity = Authority::new("unknown").unwrap().server("page").unwrap();
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            tls: TlsAcceptor::from(Arc::new(config)),
        }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (connection, from) = self.tcp.accept().await.unwrap();
            // A browser that refuses the certificate ends the handshake.
            if let Ok(connection) = self.tls.accept(connection).await {
                return (connection, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
