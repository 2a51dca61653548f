//! The web page: sessions, and that views show what the caller's own queries show.

use axum::http::{HeaderMap, header};

use super::*;

const TOKEN_FORM: &str = "token=secret&next=%2Fui%2F%3Fq%3Dweb";

/// A request of a browser at `http://fleet.test`, with these headers.
fn browser(method: &str, path: &str, headers: &[(&str, &str)], form: &str) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "fleet.test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(form.to_owned())).unwrap()
}

async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What the browser sends back of the cookies of a response.
fn cookies(headers: &HeaderMap) -> String {
    let kept = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .filter_map(|cookie| {
            let cookie = cookie.to_str().unwrap();
            let pair = cookie.split(';').next().unwrap();
            (!cookie.contains("Max-Age=0")).then(|| pair.to_owned())
        });
    kept.collect::<Vec<_>>().join("; ")
}

fn empty_fleet() -> Router {
    app(catalog(PreparedReader::with(Vec::new())))
}

#[tokio::test]
async fn a_token_begins_a_session_and_signing_out_ends_it() {
    let app = empty_fleet();
    let same_site = [("sec-fetch-site", "same-origin")];
    let response = send(&app, browser("POST", "/ui/login", &same_site, TOKEN_FORM)).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[header::LOCATION], "/ui/?q=web");
    let session = cookies(response.headers());

    let view = send(
        &app,
        browser("GET", "/ui/fleet", &[("cookie", &session)], ""),
    )
    .await;
    assert_eq!(view.status(), StatusCode::OK);
    assert_eq!(view.headers()[header::CACHE_CONTROL], "no-store");
    assert!(view.headers().contains_key(header::CONTENT_SECURITY_POLICY));
    let html = text(view).await;
    assert!(
        html.contains("member1") && html.contains("Sign out"),
        "{html}"
    );

    let signed_out = [("cookie", session.as_str()), same_site[0]];
    let response = send(&app, browser("POST", "/ui/logout", &signed_out, "")).await;
    assert_eq!(cookies(response.headers()), "");
    assert_eq!(response.headers()[header::LOCATION], "/ui/login");
}

#[tokio::test]
async fn a_cookie_is_no_credential_for_the_query_api() {
    let response = send(
        &empty_fleet(),
        browser(
            "GET",
            "/apis/search.fleetdex.io/v1alpha1/objects?q=",
            &[("cookie", "fleetdex_session_0=secret")],
            "",
        ),
    )
    .await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_a_valid_token_a_view_asks_for_one_and_keeps_its_address() {
    let app = empty_fleet();
    let response = send(&app, browser("GET", "/ui/?q=a&b=%22", &[], "")).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let html = text(response).await;
    assert!(html.contains(r#"value="/ui/?q=a&amp;b=%22""#), "{html}");
    assert!(!html.contains("session has ended"), "{html}");

    let expired = [("cookie", "fleetdex_session_0=expired")];
    let response = send(&app, browser("GET", "/ui/fleet", &expired, "")).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(text(response).await.contains("Your session has ended"));

    let part = send(&app, browser("GET", "/ui/events?q=a", &expired, "")).await;
    assert_eq!(part.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(part.headers()[header::CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn forms_of_other_sites_and_wrong_tokens_begin_no_session() {
    let app = empty_fleet();
    for (headers, form, code) in [
        (&[("sec-fetch-site", "cross-site")][..], TOKEN_FORM, 403),
        (&[("origin", "http://evil.test")], TOKEN_FORM, 403),
        (&[], "token=wrong", 401),
        (&[], "", 401),
        (&[], "token=a%0Ab", 401),
    ] {
        let response = send(&app, browser("POST", "/ui/login", headers, form)).await;
        assert_eq!(response.status(), code, "{form}");
        assert!(!response.headers().contains_key(header::SET_COOKIE));
    }
    let foreign = [("sec-fetch-site", "cross-site")];
    let response = send(&app, browser("POST", "/ui/logout", &foreign, "")).await;
    assert_eq!(response.status(), 403);
}

#[tokio::test]
async fn a_page_of_another_site_can_only_link_to_views() {
    let app = empty_fleet();
    let session = ("cookie", "fleetdex_session_0=secret");
    for path in [
        "/ui/",
        "/ui/fleet",
        "/ui/complete?q=a&cursor=1",
        "/ui/events?q=a",
        "/ui/clusters/member1/api/v1/namespaces/web/pods/p",
        "/ui/login",
    ] {
        for site in ["cross-site", "same-site"] {
            for (mode, destination) in [("no-cors", "script"), ("navigate", "iframe")] {
                let sent = [
                    session,
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", mode),
                    ("sec-fetch-dest", destination),
                ];
                let response = send(&app, browser("GET", path, &sent, "")).await;
                assert_eq!(response.status(), 403, "{path} {site} {destination}");
            }
        }
        let unmarked = [session, ("sec-fetch-site", "cross-site")];
        let response = send(&app, browser("GET", path, &unmarked, "")).await;
        assert_eq!(response.status(), 403, "{path}");
    }
    let followed = [
        session,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let response = send(&app, browser("GET", "/ui/fleet", &followed, "")).await;
    assert_eq!(response.status(), 200);
    let own = [session, ("sec-fetch-site", "same-origin")];
    let response = send(&app, browser("GET", "/ui/complete?q=a&cursor=1", &own, "")).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_link_hands_a_token_over_once() {
    let app = empty_fleet();
    let bearer = [("authorization", "Bearer secret")];
    let response = send(&app, browser("POST", "/ui/links", &bearer, "")).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let link = body(response).await;
    let path = link["path"].as_str().unwrap();
    let first = send(&app, browser("GET", path, &[], "")).await;
    assert_eq!(first.status(), StatusCode::SEE_OTHER);
    assert_eq!(cookies(first.headers()), "fleetdex_session_0=secret");
    let second = send(&app, browser("GET", path, &[], "")).await;
    assert_eq!(second.status(), StatusCode::UNAUTHORIZED);

    let session = [("cookie", "fleetdex_session_0=secret")];
    let by_cookie = send(&app, browser("POST", "/ui/links", &session, "")).await;
    assert_eq!(by_cookie.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_search_that_is_none_says_where_and_other_paths_are_not_found() {
    let app = empty_fleet();
    let session = [("cookie", "fleetdex_session_0=secret")];
    let response = send(&app, browser("GET", "/ui/?q=foo+kin%3Ax", &session, "")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(text(response).await.contains("column 5: unknown qualifier"));
    for (method, path, code) in [
        ("GET", "/ui", 303),
        ("GET", "/ui/nothing", 404),
        ("GET", "/ui/clusters/member1/api/v1", 404),
        ("GET", "/ui/compare/api/v1/nodes/n", 400),
        ("PUT", "/ui/", 405),
    ] {
        let response = send(&app, browser(method, path, &session, "")).await;
        assert_eq!(response.status(), code, "{path}");
    }
}
