//! The admin port: `/metrics`, `/healthz` and `/readyz`, without authentication. No response names
//! an object.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use clap::Args;

use super::{
    liveness::Liveness,
    metrics::{self, Metrics},
    readiness::Readiness,
};

/// The flag that sets the address, for error messages.
pub const ADDRESS_FLAG: &str = "--admin-address";

/// The flags of the admin port.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs {
    /// Where /metrics, /healthz and /readyz are served (port 0: a free port).
    #[arg(long, env = "FLEETDEX_ADMIN_ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_address: SocketAddr,
}

/// The admin endpoints, for `fleetdex_server::http::listen::Listener`: on a thread of their own, so
/// that they answer when the threads that serve requests do not.
pub fn router(metrics: Arc<Metrics>, readiness: Readiness, liveness: &Liveness) -> Router {
    let alive = || {
        let liveness = liveness.clone();
        get(async move || alive(&liveness))
    };
    Router::new()
        .route("/metrics", get(async move || encode(&metrics)))
        .route("/healthz", alive())
        .route("/livez", alive())
        .route("/readyz", ready(readiness, Readiness::report))
}

/// `/healthz`, `/livez` and `/readyz` of a port that users reach. It names failing checks without
/// reasons, because reasons name addresses. That it answers shows that it is served.
pub fn health_without_reasons(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .route(
            "/readyz",
            ready(readiness, Readiness::report_without_reasons),
        )
}

fn ready(readiness: Readiness, text: fn(&Readiness) -> String) -> MethodRouter {
    get(async move || (report_code(&readiness), text(&readiness)).into_response())
}

fn alive(liveness: &Liveness) -> Response {
    match liveness.stalled() {
        None => "ok".into_response(),
        Some(pause) => {
            let reason = format!(
                "the threads that serve requests have not run for {} s",
                pause.as_secs()
            );
            (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }
    }
}

fn encode(metrics: &Metrics) -> Response {
    match metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot encode the metrics: {error}"),
        )
            .into_response(),
    }
}

fn report_code(readiness: &Readiness) -> StatusCode {
    if readiness.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn get(router: Router, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_admin_port_serves_metrics_health_and_the_reasons_for_not_being_ready() {
        let readiness = Readiness::new();
        let metrics = Arc::new(Metrics::new());
        let app = router(metrics, readiness.clone(), &Liveness::default());
        assert_eq!(
            get(app.clone(), "/healthz").await,
            (StatusCode::OK, "ok".to_owned())
        );
        readiness.not_ready("store main", "connection refused");
        let (code, reasons) = get(app.clone(), "/readyz").await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert!(reasons.contains("[-]store main failed: connection refused"));
        readiness.ready("store main");
        assert_eq!(get(app.clone(), "/readyz").await.0, StatusCode::OK);
        let (found, text) = get(app.clone(), "/metrics").await;
        assert_eq!(found, StatusCode::OK);
        assert!(text.contains("fleetdex_build_info{version="), "{text}");
        assert_eq!(get(app, "/other").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn threads_that_do_not_serve_are_not_alive() {
        let stalled = Liveness::since(Duration::from_secs(65));
        let app = router(Arc::new(Metrics::new()), Readiness::new(), &stalled);
        let (code, reason) = get(app, "/livez").await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            reason,
            "the threads that serve requests have not run for 65 s"
        );
    }
}
