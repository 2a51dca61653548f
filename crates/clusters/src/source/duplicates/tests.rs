use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::{Client, client::Body};
use proptest::prelude::*;
use serde_json::json;
use tower::service_fn;

use super::{super::history::IdentityVerdict, *};
use crate::member::{ApiServerEndpoint, Member, MemberAccess};

/// The objects of an API server: one namespace and one Lease, which every request renews.
struct FakeEtcd {
    version: AtomicU64,
    namespace: u64,
    /// Every list fails.
    is_broken: bool,
    /// Every list is empty, and its version is low at first and high afterwards.
    is_lying: bool,
}

impl FakeEtcd {
    fn new(version: u64, namespace: u64, is_broken: bool, is_lying: bool) -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(version),
            namespace,
            is_broken,
            is_lying,
        })
    }

    fn at(version: u64, namespace: u64) -> Arc<Self> {
        Self::new(version, namespace, false, false)
    }

    fn lying() -> Arc<Self> {
        Self::new(0, 1, false, true)
    }

    fn broken() -> Arc<Self> {
        Self::new(1, 1, true, false)
    }
}

fn client(etcd: Option<Arc<FakeEtcd>>) -> Client {
    let service = service_fn(move |request: http::Request<Body>| {
        let etcd = etcd.clone();
        async move {
            let path = request.uri().path().to_owned();
            let _read = request.into_body().collect().await;
            let Some(etcd) = etcd else {
                return Ok::<_, std::io::Error>(refused(403));
            };
            if etcd.is_broken {
                return Ok(refused(500));
            }
            let version = etcd.version.fetch_add(1, Ordering::Relaxed) + 1;
            if etcd.is_lying {
                let list = json!({ "metadata": { "resourceVersion": if version <= 2 { "1" } else { "9000000000" } }, "items": [] });
                return Ok(listed(&list));
            }
            let item = |name: &str, version: u64| json!({ "metadata": { "name": name, "uid": name, "resourceVersion": version.to_string() } });
            let items = if path.ends_with("/namespaces") {
                item("kube-system", etcd.namespace)
            } else {
                item("lease", version)
            };
            let list =
                json!({ "metadata": { "resourceVersion": version.to_string() }, "items": [items] });
            Ok(listed(&list))
        }
    });
    Client::new(service, "default")
}

struct FakeMember {
    name: &'static str,
    created: Option<&'static str>,
    identity: Option<&'static str>,
    etcd: Option<Arc<FakeEtcd>>,
    connection: u64,
    /// The phase of a member without a connection.
    phase: ConnectionPhase,
}

fn refused(code: u16) -> http::Response<Body> {
    let response = http::Response::builder().status(code);
    response.body(Body::empty()).unwrap()
}

fn listed(list: &serde_json::Value) -> http::Response<Body> {
    http::Response::new(Body::from(list.to_string().into_bytes()))
}

/// The UIDs that the documents of the members a and b have.
fn established(uids: [&str; 2]) -> IndexedClusterUids {
    let of = |(name, uid): (&str, &str)| (name.parse().unwrap(), [uid.into()].into());
    ["a", "b"].into_iter().zip(uids).map(of).collect()
}

impl FakeMember {
    fn without_connection(self, phase: ConnectionPhase) -> Self {
        Self {
            identity: None,
            phase,
            ..self
        }
    }

    fn down(self) -> Self {
        self.without_connection(ConnectionPhase::Disconnected)
    }

    /// The first attempt to connect has not ended.
    fn connecting(self) -> Self {
        self.without_connection(ConnectionPhase::Connecting)
    }

    fn state(&self) -> (ClusterName, MemberState) {
        let member = Member {
            name: self.name.parse().unwrap(),
            uid: format!("uid-{}", self.name),
            generation: None,
            labels: BTreeMap::new(),
            provider: None,
            region: None,
            zones: Vec::new(),
            origin: format!("Cluster {}", self.name),
            created: self.created.map(|time| time.parse().unwrap()),
            access: MemberAccess::Endpoint(ApiServerEndpoint::default()),
        };
        let connection = self.identity.map(|uid| {
            crate::connection::Connection::new(
                self.connection,
                client(self.etcd.clone()),
                Some(uid.to_owned()),
            )
        });
        let state = MemberState {
            member: Arc::new(member),
            phase: if self.identity.is_some() {
                ConnectionPhase::Ready
            } else {
                self.phase
            },
            reason: if self.identity.is_some() {
                "Ready"
            } else {
                "Unreachable"
            },
            message: String::new(),
            since: Timestamp::now(),
            connection,
            discovery: None,
            definitions: None,
            kubernetes_version: None,
            note: None,
        };
        (state.member.name.clone(), state)
    }
}

const OLD: Option<&str> = Some("2025-01-01T00:00:00Z");
const YOUNG: Option<&str> = Some("2026-01-01T00:00:00Z");

/// A member that reports the UID `x`.
fn fake_member(
    name: &'static str,
    created: Option<&'static str>,
    etcd: &Arc<FakeEtcd>,
) -> FakeMember {
    let connection = u64::from(name.as_bytes()[0]);
    FakeMember {
        name,
        created,
        identity: Some("x"),
        etcd: Some(Arc::clone(etcd)),
        connection,
        phase: ConnectionPhase::Disconnected,
    }
}

struct Fleet {
    duplicates: Duplicates,
    changed: Arc<Notify>,
    /// Whether a registry selects anything, so that members are indexed.
    has_registry: bool,
}

impl Fleet {
    fn new() -> Self {
        let changed = Arc::new(Notify::new());
        Self {
            duplicates: Duplicates::new(Arc::clone(&changed)),
            changed,
            has_registry: true,
        }
    }

    fn indexing(has_registry: bool) -> Self {
        Self {
            has_registry,
            ..Self::new()
        }
    }

    /// Waits for the end of a comparison.
    async fn woken(&self) {
        let notified = self.changed.notified();
        tokio::time::timeout(Duration::from_mins(1), notified)
            .await
            .unwrap();
    }

    fn mark(
        &mut self,
        members: &[FakeMember],
        established: Option<&IndexedClusterUids>,
    ) -> (Vec<String>, BTreeMap<ClusterName, String>) {
        let mut members: BTreeMap<_, _> = members.iter().map(FakeMember::state).collect();
        let planned = if self.has_registry {
            members.keys().cloned().collect()
        } else {
            BTreeSet::new()
        };
        let notes = self.duplicates.mark(&mut members, established, &planned);
        (
            members
                .values()
                .map(|state| format!("{}:{}", state.member.name, state.reason))
                .collect(),
            notes,
        )
    }

    /// Marks members until no comparison is pending.
    async fn compared(&mut self, members: &[FakeMember]) -> Vec<String> {
        self.with_notes(members).await.0
    }

    async fn with_notes(
        &mut self,
        members: &[FakeMember],
    ) -> (Vec<String>, BTreeMap<ClusterName, String>) {
        self.compared_with(members, &IndexedClusterUids::new())
            .await
    }

    async fn compared_with(
        &mut self,
        members: &[FakeMember],
        established: &IndexedClusterUids,
    ) -> (Vec<String>, BTreeMap<ClusterName, String>) {
        loop {
            let (shown, notes) = self.mark(members, Some(established));
            if shown.iter().all(|shown| !shown.ends_with(COMPARING)) {
                return (shown, notes);
            }
            self.woken().await;
        }
    }
}

#[tokio::test]
async fn the_oldest_registration_of_one_cluster_is_indexed_and_names_break_ties() {
    let etcd = FakeEtcd::at(100, 3);
    let members = || {
        [
            fake_member("a", YOUNG, &etcd),
            fake_member("b", OLD, &etcd),
            fake_member("c", None, &etcd),
        ]
    };
    let mut fleet = Fleet::new();
    assert_eq!(
        fleet.mark(&members(), Some(&IndexedClusterUids::new())).0,
        [
            "a:ComparingWithAnother",
            "b:Ready",
            "c:ComparingWithAnother"
        ]
    );
    assert_eq!(
        fleet.compared(&members()).await,
        ["a:SameClusterAs", "b:Ready", "c:SameClusterAs"]
    );
    let contexts = [fake_member("m", None, &etcd), fake_member("n", None, &etcd)];
    assert_eq!(
        Fleet::new().compared(&contexts).await,
        ["m:Ready", "n:SameClusterAs"]
    );
}

#[tokio::test]
async fn a_restored_backup_is_indexed_beside_its_origin_and_both_are_annotated() {
    let (origin, restored) = (FakeEtcd::at(100, 3), FakeEtcd::at(100, 99));
    let members = [
        fake_member("a", OLD, &origin),
        fake_member("b", YOUNG, &restored),
    ];
    let (shown, notes) = Fleet::new().with_notes(&members).await;
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    let note = &notes[&"b".parse().unwrap()];
    assert!(
        note.contains("kube-system is also that of a (Cluster a)")
            && note.contains("their histories differ"),
        "{note}"
    );
    assert!(notes[&"a".parse().unwrap()].contains("also that of b (Cluster b)"));
}

#[tokio::test]
async fn an_established_member_is_not_displaced_by_an_older_duplicate_even_after_a_restart() {
    let etcd = FakeEtcd::at(100, 3);
    let young = || fake_member("a", YOUNG, &etcd);
    let mut fleet = Fleet::new();
    assert_eq!(
        fleet
            .compared(&[
                young(),
                FakeMember {
                    identity: Some("y"),
                    ..fake_member("b", OLD, &etcd)
                }
            ])
            .await,
        ["a:Ready", "b:Ready"]
    );
    assert_eq!(
        fleet
            .compared(&[young(), fake_member("b", OLD, &etcd)])
            .await,
        ["a:Ready", "b:SameClusterAs"]
    );
    let established = established(["x", "y"]);
    let members = || [young(), fake_member("b", OLD, &etcd)];
    let mut restarted = Fleet::new();
    restarted.mark(&members(), None);
    restarted.woken().await;
    let (shown, _) = restarted.mark(&members(), None);
    assert!(
        shown.iter().all(|shown| !shown.contains(SAME_CLUSTER_AS)),
        "no member is refused before the stores were read: {shown:?}"
    );
    assert_eq!(
        restarted.compared_with(&members(), &established).await.0,
        ["a:Ready", "b:SameClusterAs"]
    );
    let unknown = [young().down(), fake_member("b", OLD, &etcd)];
    let (shown, notes) = Fleet::new().compared_with(&unknown, &established).await;
    assert_eq!(shown, ["a:Unreachable", "b:Ready"]);
    assert!(
        notes[&"b".parse().unwrap()].contains("cannot be compared while one is not connected"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn the_oldest_registration_wins_whatever_order_members_connect_in() {
    let etcd = FakeEtcd::at(100, 3);
    let young = || fake_member("a", YOUNG, &etcd);
    let old = || fake_member("b", OLD, &etcd);
    for has_registry in [true, false] {
        let mut fleet = Fleet::indexing(has_registry);
        fleet
            .compared(&[young().connecting(), old().connecting()])
            .await;
        for _ in 0..3 {
            let shown = fleet.compared(&[young(), old().connecting()]).await;
            assert_eq!(
                shown,
                ["a:Ready", "b:Unreachable"],
                "a member that hangs delays no other"
            );
        }
        assert_eq!(
            fleet.compared(&[young(), old()]).await,
            ["a:SameClusterAs", "b:Ready"],
            "has_registry: {has_registry}"
        );
        fleet.has_registry = true;
        fleet.compared(&[young(), old()]).await;
        assert_eq!(
            fleet.compared(&[young(), old().connecting()]).await,
            ["a:SameClusterAs", "b:Unreachable"]
        );
        assert_eq!(
            fleet.compared(&[young(), old()]).await,
            ["a:SameClusterAs", "b:Ready"]
        );
    }
}

#[tokio::test]
async fn a_late_older_registration_displaces_only_members_that_were_never_indexed() {
    let etcd = FakeEtcd::at(100, 3);
    let young = || fake_member("a", YOUNG, &etcd);
    let old = || fake_member("b", OLD, &etcd);
    for (has_registry, expected) in [
        (true, ["a:Ready", "b:SameClusterAs"]),
        (false, ["a:SameClusterAs", "b:Ready"]),
    ] {
        let mut fleet = Fleet::indexing(has_registry);
        fleet.compared(&[young()]).await;
        fleet.compared(&[young(), old().connecting()]).await;
        assert_eq!(
            fleet.compared(&[young(), old()]).await,
            expected,
            "registered later"
        );
        let mut fleet = Fleet::indexing(has_registry);
        fleet.compared(&[young(), old().connecting()]).await;
        fleet.compared(&[young(), old().down()]).await;
        assert_eq!(
            fleet.compared(&[young(), old()]).await,
            expected,
            "connected at the second attempt"
        );
    }
}

#[tokio::test]
async fn a_member_that_later_shows_the_history_of_another_one_never_displaces_it() {
    let (victim, own) = (FakeEtcd::at(100, 3), FakeEtcd::at(100, 99));
    let young = || fake_member("a", YOUNG, &victim);
    let mut fleet = Fleet::new();
    fleet.compared(&[young()]).await;
    for _ in 0..3 {
        assert_eq!(
            fleet
                .compared(&[young(), fake_member("b", OLD, &own)])
                .await,
            ["a:Ready", "b:Ready"]
        );
    }
    let relaying = || FakeMember {
        connection: 7,
        ..fake_member("b", OLD, &victim)
    };
    let mut shown = fleet.compared(&[young(), relaying()]).await;
    while shown != ["a:Ready", "b:SameClusterAs"] {
        assert_eq!(shown[0], "a:Ready");
        fleet.woken().await;
        shown = fleet.compared(&[young(), relaying()]).await;
    }
    // The documents of both have the UID of the first.
    let established = established(["x", "x"]);
    let mut restarted = Fleet::new();
    let (shown, _) = restarted.mark(&[young(), relaying()], Some(&established));
    assert_eq!(
        shown,
        ["a:Ready", "b:Ready"],
        "an established member waits for nothing"
    );
    restarted.woken().await;
    let (shown, notes) = restarted.mark(&[young(), relaying()], Some(&established));
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    assert!(
        notes[&"a".parse().unwrap()].contains("they cannot be distinguished now: remove one"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn a_member_that_lies_about_its_versions_does_not_pass_for_another_cluster() {
    let members = || {
        [
            fake_member("a", YOUNG, &FakeEtcd::at(100, 3)),
            fake_member("b", OLD, &FakeEtcd::lying()),
        ]
    };
    let (shown, notes) = Fleet::new().with_notes(&members()).await;
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    assert!(
        notes[&"a".parse().unwrap()].contains("their histories differ"),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_be_compared_blocks_a_new_one_only_for_a_while() {
    let members = || {
        [
            fake_member("a", YOUNG, &FakeEtcd::at(100, 3)),
            fake_member("b", OLD, &FakeEtcd::broken()),
        ]
    };
    let mut fleet = Fleet::new();
    assert_eq!(
        fleet.mark(&members(), Some(&IndexedClusterUids::new())).0,
        ["a:ComparingWithAnother", "b:Ready"]
    );
    let (shown, notes) = fleet.with_notes(&members()).await;
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    assert!(
        notes[&"a".parse().unwrap()].contains("could not be compared 3 times"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn a_duplicate_takes_over_when_the_first_member_is_removed_but_not_when_it_is_down() {
    let etcd = FakeEtcd::at(100, 3);
    let young = || fake_member("a", YOUNG, &etcd);
    let old = || fake_member("b", OLD, &etcd);
    let mut fleet = Fleet::new();
    fleet.compared(&[young(), old()]).await;
    assert_eq!(
        fleet.compared(&[young(), old().down()]).await,
        ["a:SameClusterAs", "b:Unreachable"]
    );
    assert_eq!(fleet.compared(&[young()]).await, ["a:Ready"]);
    assert_eq!(
        fleet.compared(&[young(), old()]).await,
        ["a:Ready", "b:SameClusterAs"],
        "it is the established one now"
    );
}

#[tokio::test]
async fn without_readable_history_only_members_at_the_same_address_are_one_cluster() {
    let etcd = FakeEtcd::at(100, 3);
    let forbidden = |name| FakeMember {
        etcd: None,
        ..fake_member(name, OLD, &etcd)
    };
    let (shown, notes) = Fleet::new()
        .with_notes(&[forbidden("a"), forbidden("b")])
        .await;
    assert_eq!(
        shown,
        ["a:Ready", "b:Ready"],
        "their addresses are not known here"
    );
    assert!(
        notes[&"b".parse().unwrap()].contains("cannot be compared (one of them lets neither"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn a_duplicate_has_no_connection_and_members_of_unknown_uid_are_no_duplicates() {
    let etcd = FakeEtcd::at(100, 3);
    let mut fleet = Fleet::new();
    fleet
        .compared(&[fake_member("a", OLD, &etcd), fake_member("b", YOUNG, &etcd)])
        .await;
    let mut members: BTreeMap<_, _> = [
        fake_member("a", OLD, &etcd).state(),
        fake_member("b", YOUNG, &etcd).state(),
    ]
    .into();
    fleet.duplicates.mark(
        &mut members,
        Some(&IndexedClusterUids::new()),
        &BTreeSet::new(),
    );
    let duplicate = &members[&"b".parse().unwrap()];
    assert!(
        duplicate.message.contains("same cluster as a (Cluster a)")
            && duplicate.connection.is_none(),
        "{}",
        duplicate.message
    );
    assert!(is_duplicate(duplicate) && !is_duplicate(&members[&"a".parse().unwrap()]));
    let unknown = [
        fake_member("a", OLD, &etcd).down(),
        fake_member("b", OLD, &etcd).down(),
    ];
    assert_eq!(
        Fleet::new().compared(&unknown).await,
        ["a:Unreachable", "b:Unreachable"]
    );
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let reachability = prop::sample::select(vec![
        Reachability::Connected,
        Reachability::Unknown,
        Reachability::Disconnected,
    ]);
    let one = (any::<bool>(), 0_i64..3, reachability)
        .prop_map(|(is_new, created, reachability)| (is_new, created, reachability));
    prop::collection::vec(one, 1..5).prop_map(|fake_member| {
        let candidate =
            |(position, (is_new, created, reachability)): (usize, (bool, i64, Reachability))| {
                Candidate {
                    is_new,
                    age: RegistrationAge {
                        is_unknown: false,
                        created: Timestamp::from_second(created).ok(),
                        name: format!("m{position}").parse().unwrap(),
                    },
                    reachability,
                }
            };
        let mut candidates: Vec<Candidate> =
            fake_member.into_iter().enumerate().map(candidate).collect();
        candidates.sort();
        candidates
    })
}

proptest! {
    #[test]
    fn only_a_new_member_is_refused_and_only_for_an_earlier_indexed_one(
        candidates in candidates(),
        verdicts in prop::collection::vec(prop::option::of(any::<bool>()), 25),
        established_known in any::<bool>(),
    ) {
        let verdict = |first: usize, other: usize| {
            let is_same = verdicts[first * 5 + other]?;
            Some(if is_same { IdentityVerdict::Same } else { IdentityVerdict::Different("x".to_owned()) })
        };
        let found = outcomes(&candidates, established_known, verdict);
        prop_assert_eq!(found.len(), candidates.len());
        prop_assert_eq!(&found[0], &CandidateOutcome::Indexed(Vec::new()));
        for (position, outcome) in found.iter().enumerate() {
            match outcome {
                CandidateOutcome::Refused(first) => {
                    prop_assert!(established_known && *first < position && verdict(*first, position) == Some(IdentityVerdict::Same));
                    prop_assert!(matches!(found[*first], CandidateOutcome::Indexed(_)));
                    prop_assert!(candidates[position].is_new, "an established one is displaced");
                }
                CandidateOutcome::Waits(first) => {
                    prop_assert!(matches!(found[*first], CandidateOutcome::Indexed(_)));
                    prop_assert!(candidates[position].is_new, "an established one waits");
                }
                CandidateOutcome::Indexed(_) if !candidates[position].is_new => {}
                CandidateOutcome::Indexed(_) => {
                    let is_same = |first: &usize| matches!(found[*first], CandidateOutcome::Indexed(_)) && verdict(*first, position) == Some(IdentityVerdict::Same);
                    prop_assert_eq!((0..position).find(is_same), None);
                }
            }
        }
    }
}
