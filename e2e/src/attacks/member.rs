//! Hostile members: fake API servers on a thread of their own, whose objects may have parts that
//! are written as text, such as millions of small maps, of which this process makes no values.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, RwLock},
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use fakes::apiserver::{self, Body, Server};
use fleetdex_core::model::Resource;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    objects::Objects,
    scenario::{SECRETS, cluster_path, secret_path},
};

/// Begins and ends the name of a text in a value. No object of a test contains it otherwise.
const MARK: &str = "@text@";

/// Texts by their marks, with the quotes of the JSON string around them.
type Texts = Arc<RwLock<BTreeMap<String, Bytes>>>;

/// Hostile members. They stop when this is dropped.
#[derive(Debug)]
pub struct HostileMembers {
    members: Vec<HostileMember>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// One hostile member.
#[derive(Clone, Debug)]
pub struct HostileMember {
    /// The name of its cluster.
    pub name: String,
    /// Its objects.
    pub server: Server,
    texts: Texts,
    address: SocketAddr,
}

impl HostileMembers {
    /// Starts a member for each name, with these kinds.
    pub fn start(names: &[String], resources: &[Resource]) -> Result<Self> {
        let stop = CancellationToken::new();
        let (mut members, mut listeners) = (Vec::new(), Vec::new());
        for (name, seed) in names.iter().zip(1..) {
            let listener =
                std::net::TcpListener::bind("127.0.0.1:0").context("listening for a member")?;
            listener
                .set_nonblocking(true)
                .context("making a listener asynchronous")?;
            members.push(HostileMember {
                name: name.clone(),
                server: Server::new(apiserver::Options {
                    resources: resources.to_vec(),
                    ..apiserver::Options::new(seed)
                }),
                texts: Texts::default(),
                address: listener.local_addr().context("the address of a member")?,
            });
            listeners.push(listener);
        }
        let (serving, until) = (members.clone(), stop.clone());
        let thread = thread::Builder::new().name("members".to_owned());
        let thread = thread
            .spawn(move || run_thread(listeners, &serving, &until))
            .context("starting the thread of the members")?;
        Ok(Self {
            members,
            stop,
            thread: Some(thread),
        })
    }

    /// The members in the order of their names.
    pub fn all(&self) -> &[HostileMember] {
        &self.members
    }
}

impl Drop for HostileMembers {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl HostileMember {
    /// A string to put into an object of this member, which its clients read as this JSON.
    pub fn text(&self, name: &str, json: impl Into<Bytes>) -> String {
        let mark = format!("{MARK}{name}{MARK}");
        if let Ok(mut texts) = self.texts.write() {
            texts.insert(format!("\"{mark}\""), json.into());
        }
        mark
    }

    /// Registers it with a control plane; it accepts every token.
    pub async fn register(&self, hub: &Objects) -> Result<()> {
        let name = &self.name;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": SECRETS, "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
            "data": { "token": "dG9rZW4=" },
        });
        let reference = json!({ "namespace": SECRETS, "name": name });
        let cluster: Value = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
            "spec": {
                "syncMode": "Push", "apiEndpoint": format!("http://{}", self.address),
                "insecureSkipTLSVerification": true,
                "secretRef": reference, "impersonatorSecretRef": reference,
            },
        });
        hub.apply(&secret_path(name), &secret).await?;
        hub.apply(&cluster_path(name), &cluster).await.map(drop)
    }

    async fn respond(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=");
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let response = self.server.respond(Request::from_parts(head, body)).await;
        let (head, body) = response.map_err(io::Error::other)?.into_parts();
        let body = if is_watch {
            let texts = Arc::clone(&self.texts);
            // Each frame has whole lines.
            body.map_frame(move |frame| frame.map_data(|lines| written(&texts, lines)))
                .boxed_unsync()
        } else {
            let whole = body.collect().await.map_err(io::Error::other)?.to_bytes();
            Full::new(written(&self.texts, whole))
                .map_err(|never| match never {})
                .boxed_unsync()
        };
        Ok(Response::from_parts(head, body))
    }
}

/// The body with the texts in the places of their marks.
fn written(texts: &Texts, body: Bytes) -> Bytes {
    let quoted = format!("\"{MARK}");
    if memmem::find(&body, quoted.as_bytes()).is_none() {
        return body;
    }
    let Ok(texts) = texts.read() else {
        return body;
    };
    let mut out = Vec::with_capacity(body.len());
    let mut rest = &body[..];
    while let Some(start) = memmem::find(rest, quoted.as_bytes()) {
        let after = start + quoted.len();
        let end = format!("{MARK}\"");
        let Some(length) = memmem::find(&rest[after..], end.as_bytes()) else {
            break;
        };
        let end = after + length + end.len();
        let mark = String::from_utf8_lossy(&rest[start..end]);
        out.extend_from_slice(&rest[..start]);
        out.extend_from_slice(texts.get(&*mark).map_or(&b"null"[..], |text| text));
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    out.into()
}

fn run_thread(
    listeners: Vec<std::net::TcpListener>,
    members: &[HostileMember],
    stop: &CancellationToken,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            let mut serving = JoinSet::new();
            for (listener, member) in listeners.into_iter().zip(members) {
                serving.spawn(serve(TcpListener::from_std(listener)?, member.clone()));
            }
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                ended = serving.join_next() => ended.map_or(Ok(()), |ended| ended.map_err(io::Error::other)?),
            }
        })
    });
    if let Err(error) = served {
        tracing::error!(%error, "the hostile members ended");
    }
}

async fn serve(listener: TcpListener, member: HostileMember) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        let member = member.clone();
        let service = service_fn(move |request| {
            let member = member.clone();
            async move { member.respond(request).await }
        });
        connections.spawn(async move {
            if let Err(error) = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await
            {
                tracing::debug!(%error, "connection failed");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_the_places_of_their_marks() {
        let texts = Texts::default();
        let mark = format!("{MARK}a{MARK}");
        texts
            .write()
            .unwrap()
            .insert(format!("\"{mark}\""), Bytes::from_static(b"[1,2]"));
        let body = format!(r#"{{"data":"{mark}","b":["{mark}","{MARK}b{MARK}"],"c":"x"}}"#);
        assert_eq!(
            written(&texts, body.into()),
            r#"{"data":[1,2],"b":[[1,2],null],"c":"x"}"#
        );
        assert_eq!(written(&texts, Bytes::from_static(b"{}")), "{}");
    }
}
