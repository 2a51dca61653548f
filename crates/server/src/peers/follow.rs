//! What the other replicas change of one resource, followed as long as somebody here is interested.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::{
    model::{ClusterName, FleetVersion, MAX_OBJECT_BYTES, causes},
    query::ResourceName,
};
use fleetdex_operator::replicas::{Peer, ReplicaName, Replicas};
use fleetdex_store::changes::{Log, Reader, Retold, Unreadable};
use futures::{AsyncBufReadExt as _, AsyncReadExt as _, future::join_all};
use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::connection::{Connect, ConnectionError, Lines, changes, position};
use crate::changes::HEARTBEAT;

/// How long after the last question about a resource the others are followed: as long as the log is kept.
const INTEREST: Duration = Duration::from_mins(10);
/// How long the first questions wait until all others are followed. Mostly some ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a watch waits until it knows what the others have written, which takes as long as a request to each of them.
const SETTLING_PATIENCE: Duration = Duration::from_secs(5);
/// How often to look who the others are.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How soon to ask again a replica that does not answer.
const RETRY: Duration = Duration::from_millis(500);
/// Three heartbeats: a replica that tells nothing for so long is not there.
const SILENCE: Duration = Duration::from_secs(3 * HEARTBEAT.as_secs());
/// How long a replica may be out of reach until those who watch are told.
const LONGEST_BREAK: Duration = Duration::from_secs(15);
/// How long the last lines of a replica whose Lease is gone may take: it has written them before.
const LAST_LINES: Duration = Duration::from_secs(3);
/// How long after another replica has begun with a cluster a change of the one before it counts as late. A hand-over takes longer than any change is
/// on its way, unless something is wrong.
const HAND_OVER: Duration = Duration::from_secs(10);

/// The longest line of another replica: an object before and after a change, each of the largest size, with its terms.
const MAX_LINE_BYTES: u64 = 4 * MAX_OBJECT_BYTES as u64;

/// How it stands with another replica.
#[derive(Clone)]
enum Standing {
    /// It is not followed yet, or not any more, because of this.
    Connecting(String),
    /// Everything up to this version of its is known here.
    Following(FleetVersion, Client),
    /// It has written everything that it will write, and all of that is known here.
    Ended,
}

/// What is known here of another replica's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// Everything up to this version of its.
    UpTo(FleetVersion),
    /// Everything, as it has ended in good order.
    Everything,
}

impl Known {
    fn version(self) -> Option<FleetVersion> {
        match self {
            Self::UpTo(version) => Some(version),
            Self::Nothing | Self::Everything => None,
        }
    }
}

/// Why a replica is not followed any more.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("it does not say where it is (--replica-address)")]
    NoAddress,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("it has told nothing for {} s", SILENCE.as_secs())]
    Silent,
    #[error("a line of it is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("the connection has ended")]
    Cut,
    #[error("the connection is broken: {0}")]
    Io(#[from] std::io::Error),
    #[error("what it tells is not understood; do both run the same version? {}", causes(.0))]
    Unreadable(#[from] Unreadable),
}

/// Keeps following until nobody is interested any more, or it is dropped.
pub(super) struct Follow {
    state: Arc<State>,
    _task: AbortOnDropHandle<()>,
}

struct State {
    replicas: Replicas,
    connect: Connect,
    /// Where each of the others tells its changes.
    path: String,
    resource: ResourceName,
    log: Arc<Log>,
    begun: Instant,
    interest: Mutex<Interest>,
    standings: watch::Sender<BTreeMap<ReplicaName, Standing>>,
    /// From where on everything is known, as far as the others are followed.
    known_from: Mutex<KnownFrom>,
    /// Who has told of each cluster, and since when.
    tellers: Mutex<BTreeMap<ClusterName, (ReplicaName, Instant)>>,
}

/// From where on everything is known.
#[derive(Clone, Copy)]
struct KnownFrom {
    number: u64,
    since: Instant,
}

struct Interest {
    used: Instant,
    ended: bool,
}

impl Follow {
    pub(super) fn start(
        replicas: Replicas,
        connect: Connect,
        path: String,
        resource: ResourceName,
        log: Arc<Log>,
    ) -> Arc<Self> {
        let begun = Instant::now();
        let state = Arc::new(State {
            replicas,
            connect,
            path,
            resource,
            log,
            begun,
            interest: Mutex::new(Interest {
                used: begun,
                ended: false,
            }),
            standings: watch::Sender::new(BTreeMap::new()),
            known_from: Mutex::new(KnownFrom {
                number: 0,
                since: begun,
            }),
            tellers: Mutex::default(),
        });
        let task = AbortOnDropHandle::new(tokio::spawn(supervise(Arc::clone(&state))));
        Arc::new(Self { state, _task: task })
    }

    /// Somebody is interested now. Whether it still goes on.
    pub(super) fn renew(&self) -> bool {
        let mut interest = self.state.interest();
        interest.used = Instant::now();
        !interest.ended
    }

    /// Waits until all others are followed, if that has not been waited for long enough already.
    pub(super) async fn is_complete(&self) {
        let state = &self.state;
        let until = state.begun + PATIENCE;
        let mut standings = state.standings.subscribe();
        let complete = standings.wait_for(|standings| state.are_followed(standings));
        if timeout_at(until, complete).await.is_err() {
            tracing::debug!(resource = %state.resource.plural, "not all replicas are followed");
        }
        // Who was just told to list again would be told the same of a list that does not show what was lost.
        let KnownFrom { number, since } = *state.known_from();
        let patience = (since + PATIENCE).saturating_duration_since(Instant::now());
        state.log.reaches(number, patience).await;
    }

    /// Why a replica is not followed, if it is not.
    pub(super) fn problem(&self, replica: &str) -> Option<String> {
        let standings = self.state.standings.borrow();
        let found = standings.iter().find(|(name, _)| name.as_str() == replica);
        match found {
            Some((_, Standing::Following(..) | Standing::Ended)) => None,
            Some((_, Standing::Connecting(problem))) => Some(problem.clone()),
            None => Some("it is about to be followed; try again".to_owned()),
        }
    }

    /// Waits until everything is known here that the others have written by now; whether that came about in time.
    pub(super) async fn settled(&self) -> bool {
        let followed: Vec<(ReplicaName, Client)> = {
            let standings = self.state.standings.borrow();
            let followed = standings
                .iter()
                .filter_map(|(name, standing)| match standing {
                    Standing::Following(_, client) => Some((name.clone(), client.clone())),
                    Standing::Connecting(_) | Standing::Ended => None,
                });
            followed.collect()
        };
        let all = join_all(
            followed
                .iter()
                .map(|(name, client)| self.state.catches_up(name, client)),
        );
        timeout(SETTLING_PATIENCE, all).await.is_ok()
    }
}

impl State {
    fn interest(&self) -> MutexGuard<'_, Interest> {
        self.interest.lock()
    }

    /// Ends unless somebody is interested.
    fn ends(&self) -> bool {
        let mut interest = self.interest();
        interest.ended =
            interest.used.elapsed() >= INTEREST && !self.log.is_watched(&self.resource);
        interest.ended
    }

    fn are_followed(&self, standings: &BTreeMap<ReplicaName, Standing>) -> bool {
        let is_followed = |peer: &Peer| {
            matches!(
                standings.get(&peer.name),
                Some(Standing::Following(..) | Standing::Ended)
            )
        };
        self.replicas
            .peers()
            .is_none_or(|peers| peers.iter().all(is_followed))
    }

    fn set(&self, replica: &ReplicaName, standing: Standing) {
        self.standings
            .send_modify(|standings| drop(standings.insert(replica.clone(), standing)));
    }

    fn known_from(&self) -> MutexGuard<'_, KnownFrom> {
        self.known_from.lock()
    }

    /// What has changed up to now is not all known: whoever watches has to list again.
    fn lose(&self) {
        let mut known_from = self.known_from();
        *known_from = KnownFrom {
            number: self.log.lose(&self.resource),
            since: Instant::now(),
        };
    }

    /// A replica is gone.
    fn forget(&self, replica: &ReplicaName) {
        let mut has_ended = false;
        self.standings.send_modify(|standings| {
            has_ended = matches!(standings.remove(replica), Some(Standing::Ended));
        });
        if !has_ended {
            tracing::debug!(%replica, resource = %self.resource.plural, "a replica is gone, and not everything that it has changed may be known");
            self.lose();
        }
    }

    fn has_ended(&self, replica: &ReplicaName) -> bool {
        matches!(self.standings.borrow().get(replica), Some(Standing::Ended))
    }

    async fn catches_up(&self, replica: &ReplicaName, client: &Client) {
        let reached = async {
            let version = far(client, &self.path).await?;
            let is_there =
                |standings: &BTreeMap<ReplicaName, Standing>| match standings.get(replica) {
                    Some(Standing::Following(known, _)) => *known >= version,
                    // Whoever watches is told of it in other ways.
                    _ => true,
                };
            drop(self.standings.subscribe().wait_for(is_there).await);
            Ok::<_, Broken>(())
        };
        if let Err(error) = reached.await {
            tracing::debug!(%replica, %error, "a replica does not say how far it is");
        }
    }

    /// Follows a replica until that ends; an error unless it has ended in good order.
    async fn follow_once(
        &self,
        peer: &Peer,
        reader: &mut Reader,
        known: &mut Known,
    ) -> Result<(), Broken> {
        let client = (self.connect)(peer.address.ok_or(Broken::NoAddress)?)?;
        let mut lines = changes(&client, &self.path, known.version()).await?;
        let mut told = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = timeout(SILENCE, read_line(&mut lines, &mut line))
                .await
                .map_err(|_| Broken::Silent)??;
            if length == 0 {
                return Err(Broken::Cut);
            }
            let retold = reader.read(&line)?;
            if retold.cluster.is_some() {
                told.push(retold);
                continue;
            }
            // One that has ended, and says so again, has changed nothing meanwhile.
            if *known == Known::Nothing || (*known == Known::Everything && !retold.is_last) {
                self.lose();
            }
            self.retell(&peer.name, std::mem::take(&mut told));
            if retold.is_last {
                *known = Known::Everything;
                return Ok(());
            }
            *known = Known::UpTo(retold.version);
            self.set(
                &peer.name,
                Standing::Following(retold.version, client.clone()),
            );
        }
    }

    fn retell(&self, replica: &ReplicaName, told: Vec<Retold>) {
        let is_late = told
            .iter()
            .filter_map(|told| told.cluster.as_ref())
            .any(|cluster| self.is_late(replica, cluster));
        self.log.retell(told);
        if is_late {
            tracing::debug!(%replica, "a change comes after those of the replica that reads the cluster now");
            self.lose();
        }
    }

    /// Whether somebody else may have told newer changes of a cluster already.
    fn is_late(&self, replica: &ReplicaName, cluster: &ClusterName) -> bool {
        if self.replicas.share().may_begin(cluster) {
            return true;
        }
        let mut tellers = self.tellers.lock();
        let now = Instant::now();
        match tellers.get(cluster) {
            Some((teller, _)) if teller == replica => false,
            earlier => {
                let is_late =
                    earlier.is_some_and(|(_, since)| now.duration_since(*since) < HAND_OVER);
                tellers.insert(cluster.clone(), (replica.clone(), now));
                is_late
            }
        }
    }
}

/// Adds the next line; its length is 0 at the end.
async fn read_line(lines: &mut Lines, line: &mut Vec<u8>) -> Result<usize, Broken> {
    let length = lines.take(MAX_LINE_BYTES).read_until(b'\n', line).await?;
    if length as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
        return Err(Broken::TooLong);
    }
    Ok(length)
}

/// How far a replica is once what is under way there is done.
async fn far(client: &Client, path: &str) -> Result<FleetVersion, Broken> {
    let mut lines = position(client, path).await?;
    let mut line = Vec::new();
    read_line(&mut lines, &mut line).await?;
    Ok(Reader::default().read(&line)?.version)
}

/// A replica that is followed.
struct Followed {
    peer: Peer,
    /// Since when its Lease is gone.
    gone: Option<Instant>,
    _task: AbortOnDropHandle<()>,
}

impl Followed {
    fn start(state: &Arc<State>, peer: Peer) -> Self {
        let task = AbortOnDropHandle::new(tokio::spawn(keep_following(
            Arc::clone(state),
            peer.clone(),
        )));
        Self {
            peer,
            gone: None,
            _task: task,
        }
    }

    /// Whether it has to be followed still. A replica that leaves gives back its Lease when everything is told, but its last lines may be on their way.
    fn stays(&mut self, peers: &[Peer], state: &State) -> bool {
        if peers.contains(&self.peer) {
            self.gone = None;
            return true;
        }
        let gone = *self.gone.get_or_insert_with(Instant::now);
        let has_successor = peers.iter().any(|peer| peer.name == self.peer.name);
        !has_successor && !state.has_ended(&self.peer.name) && gone.elapsed() < LAST_LINES
    }
}

/// Follows whoever is there.
async fn supervise(state: Arc<State>) {
    let mut followed: BTreeMap<ReplicaName, Followed> = BTreeMap::new();
    while !state.ends() {
        // As long as this replica itself is cut off it knows nothing new of the others.
        if let Some(peers) = state.replicas.peers() {
            followed.retain(|name, one| {
                let stays = one.stays(&peers, &state);
                if !stays {
                    state.forget(name);
                }
                stays
            });
            for peer in peers {
                followed
                    .entry(peer.name.clone())
                    .or_insert_with(|| Followed::start(&state, peer));
            }
            // Those that are gone count no more.
            state.standings.send_modify(|_| {});
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Follows a replica as long as it is there.
async fn keep_following(state: Arc<State>, peer: Peer) {
    let mut reader = Reader::default();
    let mut known = Known::Nothing;
    let mut broken_since: Option<Instant> = None;
    loop {
        let before = known;
        let outcome = state.follow_once(&peer, &mut reader, &mut known).await;
        if known != before {
            broken_since = None;
        }
        match outcome {
            Ok(()) => state.set(&peer.name, Standing::Ended),
            Err(Broken::Connection(ConnectionError::TooOld)) => known = Known::Nothing,
            Err(error) => {
                tracing::debug!(replica = %peer.name, %error, resource = %state.resource.plural, "a replica is not followed");
                if known != Known::Everything {
                    state.set(&peer.name, Standing::Connecting(error.to_string()));
                }
                let since = *broken_since.get_or_insert_with(Instant::now);
                if known.version().is_some() && since.elapsed() >= LONGEST_BREAK {
                    known = Known::Nothing;
                    state.lose();
                }
            }
        }
        sleep(RETRY).await;
    }
}
