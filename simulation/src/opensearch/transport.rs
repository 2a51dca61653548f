//! Between client and server: time passes, connections break.

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

/// Sends a request and waits for its answer, no longer than its [`Timeout`] says. A request that was sent is worked on even if
/// nobody waits for the answer any more, as it is by a real server. The answer is read as one over a socket is.
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
        // Without a limit nobody would give up.
        Plan::HandleLate { by, .. } if limit.is_none() => Plan::HandleLate {
            by,
            breaks_at_once: true,
        },
        plan => plan,
    };
    let (reply, answer) = oneshot::channel();
    tokio::spawn(work(server, call, plan, reply));
    let answered = async {
        let answer = answer
            .await
            .unwrap_or_else(|_| failure("connection closed before message completed"))?;
        read(answer, &allowance).await
    };
    match limit {
        None => answered.await,
        Some(limit) => timeout(limit, answered)
            .await
            .unwrap_or_else(|_| failure("operation timed out")),
    }
}

async fn read(answer: Response<Bytes>, allowance: &Allowance) -> Reply {
    let (parts, body) = answer.into_parts();
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
    let answer = match plan {
        Plan::Refuse => failure("tcp connect error: Connection refused (os error 111)"),
        Plan::Hang => return reply.closed().await,
        Plan::Cut => {
            sleep(before).await;
            reset()
        }
        Plan::Answer(response) => {
            sleep(before).await;
            Ok(response)
        }
        Plan::Handle { is_answered } => {
            let answer = handle(&server, &call, before, after).await;
            if is_answered { answer } else { reset() }
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
    send(reply, answer);
}

async fn handle(server: &OpenSearch, call: &Call, before: Duration, after: Duration) -> Reply {
    let life = server.state().life();
    sleep(before).await;
    let response = {
        let mut state = server.state();
        if state.life() != life {
            return reset();
        }
        state.handle(call)
    };
    sleep(after).await;
    if server.state().life() == life {
        Ok(response)
    } else {
        reset()
    }
}

fn reset() -> Reply {
    failure("Connection reset by peer (os error 104)")
}

/// The client may have gone.
fn send(reply: oneshot::Sender<Reply>, answer: Reply) {
    drop(reply.send(answer));
}
