//! Upgraded connections: `exec`, `attach` and `port-forward` by WebSocket or SPDY, forwarded byte
//! by byte.

use std::{fmt, time::Duration};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::Notify,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::limits::UserPermit;

/// Bytes that are read at once in one direction.
const BUFFER_BYTES: usize = 16 * 1024;
/// An idle tunnel is closed after this: the limit of a kubelet.
pub const IDLE: Duration = Duration::from_hours(4);
/// How long the upgrades of both connections may take once both peers have agreed.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// The open tunnels.
pub struct Tunnels {
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl Tunnels {
    /// No tunnels yet; all are closed when `cancel` is cancelled.
    pub fn new(cancel: CancellationToken) -> Self {
        Self {
            tasks: TaskTracker::new(),
            cancel,
        }
    }

    /// Joins the two connections once both are upgraded, until either side ends, nothing is sent
    /// for [`IDLE`], or the server stops.
    pub fn join(&self, client: OnUpgrade, member: OnUpgrade, share: UserPermit) {
        let cancel = self.cancel.clone();
        self.tasks.spawn(async move {
            let both = async { tokio::try_join!(client, member) };
            match timeout(UPGRADE_TIMEOUT, both).await {
                Ok(Ok((client, member))) => {
                    tunnel(TokioIo::new(client), TokioIo::new(member), cancel).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "a session was not upgraded"),
                Err(_) => tracing::debug!("a session was not upgraded in time"),
            }
            drop(share);
        });
    }

    /// Waits until all tunnels have ended. Call it after cancelling the token.
    pub async fn stopped(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl fmt::Debug for Tunnels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tunnels")
            .field("open", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

async fn tunnel<C, M>(client: C, member: M, cancel: CancellationToken)
where
    C: AsyncRead + AsyncWrite,
    M: AsyncRead + AsyncWrite,
{
    let (client_reads, client_writes) = split(client);
    let (member_reads, member_writes) = split(member);
    let moved = Notify::new();
    let both = async {
        tokio::join!(
            pass(client_reads, member_writes, &moved),
            pass(member_reads, client_writes, &moved)
        );
    };
    let idle = async { while timeout(IDLE, moved.notified()).await.is_ok() {} };
    tokio::select! {
        () = both => {}
        () = idle => tracing::debug!("an idle session was closed"),
        () = cancel.cancelled() => {}
    }
}

/// Forwards bytes until one side ends, then shuts the other one down.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &Notify) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        moved.notify_one();
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    if let Err(error) = to.shutdown().await {
        tracing::trace!(%error, "a session could not be shut down, as the peer has closed it");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn bytes_pass_both_ways_and_the_end_of_one_side_shuts_the_other_down() {
        let ((mut client, near), (far, mut member)) = (duplex(8), duplex(8));
        let open = tokio::spawn(tunnel(near, far, CancellationToken::new()));
        let mut read = [0; 26];
        let (sent, _) = tokio::join!(
            client.write_all(b"more than one buffer holds"),
            member.read_exact(&mut read)
        );
        sent.unwrap();
        assert_eq!(&read, b"more than one buffer holds");
        member.write_all(b"answer").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(member.read(&mut read).await.unwrap(), 0);
        drop(member);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        open.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_is_closed_and_so_are_all_when_the_server_stops() {
        let ((client, near), (far, member)) = (duplex(8), duplex(8));
        tunnel(near, far, CancellationToken::new()).await;
        drop((client, member));
        let ((_client, near), (far, _member)) = (duplex(8), duplex(8));
        let stopped = CancellationToken::new();
        stopped.cancel();
        tunnel(near, far, stopped).await;
    }
}
