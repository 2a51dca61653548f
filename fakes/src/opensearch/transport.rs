//! The transport between client and server, with latency and connection faults.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_limits::intake::IntakeError;
use fleetdex_store::opensearch::{Allowance, Timeout, TransportError};
use http::{Request, Response};
use http_body_util::Full;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{call::Call, plan::Plan, server::OpenSearch};

const ADDRESS: &str = "http://opensearch.simulation:9200";

type Reply = Result<Response<Bytes>, TransportError>;

/// Sends a request and waits for its response, at most for its [`Timeout`]. As on a real server, a
/// request that was sent is handled even if the client no longer waits. The response is read with
/// the limits of a response from a socket.
pub(super) async fn exchange(server: OpenSearch, request: Request<Bytes>) -> Reply {
    let limit = request
        .extensions()
        .get::<Timeout>()
        .map(|timeout| timeout.0);
    let allowance = request
        .extensions()
        .get::<Allowance>()
        .cloned()
        .unwrap_or_default();
    let call = Call::new(&request);
    let plan = match server.state().receive(&call) {
        // A client without a timeout would wait for ever.
        Plan::HandleLate { by, .. } if limit.is_none() => Plan::HandleLate {
            by,
            breaks_at_once: true,
        },
        plan => plan,
    };
    let (reply, response) = oneshot::channel();
    tokio::spawn(work(server, call, plan, reply));
    let read_response = async {
        let response = response
            .await
            .unwrap_or_else(|_| failure("connection closed before message completed"))?;
        read(response, &allowance).await
    };
    match limit {
        None => read_response.await,
        Some(limit) => timeout(limit, read_response)
            .await
            .unwrap_or_else(|_| failure("operation timed out")),
    }
}

async fn read(response: Response<Bytes>, allowance: &Allowance) -> Reply {
    let (parts, body) = response.into_parts();
    match allowance.read(parts.status, Full::new(body)).await {
        Ok(body) => Ok(Response::from_parts(parts, body)),
        Err(IntakeError::TooLarge(limit)) => Err(TransportError::TooLong {
            address: ADDRESS.to_owned(),
            limit,
        }),
        Err(error) => failure(&error.to_string()),
    }
}

fn failure(reason: &str) -> Reply {
    Err(TransportError::NoAnswer {
        address: ADDRESS.to_owned(),
        reason: format!("error sending request: {reason}"),
    })
}

async fn work(server: OpenSearch, call: Call, plan: Plan, mut reply: oneshot::Sender<Reply>) {
    let (before, after) = {
        let mut state = server.state();
        (state.pause(), state.pause())
    };
    let response = match plan {
        Plan::Refuse => failure("tcp connect error: Connection refused (os error 111)"),
        Plan::Hang => return reply.closed().await,
        Plan::Cut => {
            sleep(before).await;
            reset()
        }
        Plan::Respond(response) => {
            sleep(before).await;
            Ok(response)
        }
        Plan::Handle { responds } => {
            let response = handle(&server, &call, before, after).await;
            if responds { response } else { reset() }
        }
        Plan::HandleLate { by, breaks_at_once } => {
            if breaks_at_once {
                sleep(before).await;
                send(reply, reset());
            } else {
                reply.closed().await;
            }
            sleep(by).await;
            server.state().handle(&call);
            return;
        }
    };
    send(reply, response);
}

async fn handle(server: &OpenSearch, call: &Call, before: Duration, after: Duration) -> Reply {
    let restarts = server.state().restarts();
    sleep(before).await;
    let response = {
        let mut state = server.state();
        if state.restarts() != restarts {
            return reset();
        }
        state.handle(call)
    };
    sleep(after).await;
    if server.state().restarts() == restarts {
        Ok(response)
    } else {
        reset()
    }
}

fn reset() -> Reply {
    failure("Connection reset by peer (os error 104)")
}

/// Sends the reply; the client may no longer wait.
fn send(reply: oneshot::Sender<Reply>, response: Reply) {
    drop(reply.send(response));
}
