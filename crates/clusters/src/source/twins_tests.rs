use std::sync::atomic::AtomicU64;

use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use proptest::prelude::*;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::member::{Access, Endpoint, Member};

/// What an API server has: one namespace and one Lease, which is renewed by every request.
struct Etcd {
    version: AtomicU64,
    namespace: u64,
    /// Every list is an error.
    is_broken: bool,
    /// Every list is empty, of a version that is early at first and late ever after.
    lies: bool,
}

impl Etcd {
    fn at(version: u64, namespace: u64) -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(version),
            namespace,
            is_broken: false,
            lies: false,
        })
    }

    fn lying() -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(0),
            namespace: 1,
            is_broken: false,
            lies: true,
        })
    }

    fn broken() -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(1),
            namespace: 1,
            is_broken: true,
            lies: false,
        })
    }
}

fn client(etcd: Option<Arc<Etcd>>) -> Client {
    let service = service_fn(move |request: http::Request<Body>| {
        let etcd = etcd.clone();
        async move {
            let path = request.uri().path().to_owned();
            let _read = request.into_body().collect().await;
            let Some(etcd) = etcd else {
                return Ok::<_, std::io::Error>(
                    http::Response::builder()
                        .status(403)
                        .body(Body::empty())
                        .unwrap(),
                );
            };
            if etcd.is_broken {
                return Ok(http::Response::builder()
                    .status(500)
                    .body(Body::empty())
                    .unwrap());
            }
            let version = etcd.version.fetch_add(1, Ordering::Relaxed) + 1;
            if etcd.lies {
                let list = json!({ "metadata": { "resourceVersion": if version <= 2 { "1" } else { "9000000000" } }, "items": [] });
                return Ok(http::Response::new(Body::from(
                    list.to_string().into_bytes(),
                )));
            }
            let item = |name: &str, version: u64| json!({ "metadata": { "name": name, "uid": name, "resourceVersion": version.to_string() } });
            let items = if path.ends_with("/namespaces") {
                item("kube-system", etcd.namespace)
            } else {
                item("lease", version)
            };
            let list =
                json!({ "metadata": { "resourceVersion": version.to_string() }, "items": [items] });
            Ok(http::Response::new(Body::from(
                list.to_string().into_bytes(),
            )))
        }
    });
    Client::new(service, "default")
}

struct Made {
    name: &'static str,
    created: Option<&'static str>,
    identity: Option<&'static str>,
    etcd: Option<Arc<Etcd>>,
    connection: u64,
    /// Of one without a connection.
    phase: Phase,
}

impl Made {
    fn down(self) -> Self {
        Self {
            identity: None,
            phase: Phase::Disconnected,
            ..self
        }
    }

    /// The first attempt to connect is under way.
    fn connecting(self) -> Self {
        Self {
            identity: None,
            phase: Phase::Connecting,
            ..self
        }
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
            access: Access::Endpoint(Endpoint::default()),
        };
        let connection = self.identity.map(|uid| {
            Connection::new(
                self.connection,
                client(self.etcd.clone()),
                Some(uid.to_owned()),
            )
        });
        let state = MemberState {
            member: Arc::new(member),
            phase: if self.identity.is_some() {
                Phase::Ready
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
fn made(name: &'static str, created: Option<&'static str>, etcd: &Arc<Etcd>) -> Made {
    let connection = u64::from(name.as_bytes()[0]);
    Made {
        name,
        created,
        identity: Some("x"),
        etcd: Some(Arc::clone(etcd)),
        connection,
        phase: Phase::Disconnected,
    }
}

struct Fleet {
    twins: Twins,
    changed: Arc<Notify>,
    /// Whether anything is indexed at all.
    has_registry: bool,
}

impl Fleet {
    fn new() -> Self {
        let changed = Arc::new(Notify::new());
        Self {
            twins: Twins::new(Arc::clone(&changed)),
            changed,
            has_registry: true,
        }
    }

    fn look(
        &mut self,
        members: &[Made],
        established: Option<&Established>,
    ) -> (Vec<String>, BTreeMap<ClusterName, String>) {
        let mut members: BTreeMap<_, _> = members.iter().map(Made::state).collect();
        let planned = if self.has_registry {
            members.keys().cloned().collect()
        } else {
            BTreeSet::new()
        };
        let notes = self.twins.mark(&mut members, established, &planned);
        (
            members
                .values()
                .map(|state| format!("{}:{}", state.member.name, state.reason))
                .collect(),
            notes,
        )
    }

    /// As soon as nothing is compared any more.
    async fn settled(&mut self, members: &[Made]) -> Vec<String> {
        self.settled_with(members, &Established::new()).await.0
    }

    async fn settled_with(
        &mut self,
        members: &[Made],
        established: &Established,
    ) -> (Vec<String>, BTreeMap<ClusterName, String>) {
        loop {
            let (shown, notes) = self.look(members, Some(established));
            if shown.iter().all(|shown| !shown.ends_with(COMPARING)) {
                return (shown, notes);
            }
            tokio::time::timeout(Duration::from_mins(1), self.changed.notified())
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn of_one_cluster_registered_twice_the_oldest_registration_counts_and_names_break_ties() {
    let etcd = Etcd::at(100, 3);
    let members = || {
        [
            made("a", YOUNG, &etcd),
            made("b", OLD, &etcd),
            made("c", None, &etcd),
        ]
    };
    let mut fleet = Fleet::new();
    assert_eq!(
        fleet.look(&members(), Some(&Established::new())).0,
        [
            "a:ComparingWithAnother",
            "b:Ready",
            "c:ComparingWithAnother"
        ]
    );
    assert_eq!(
        fleet.settled(&members()).await,
        ["a:SameClusterAs", "b:Ready", "c:SameClusterAs"]
    );
    let contexts = [made("m", None, &etcd), made("n", None, &etcd)];
    assert_eq!(
        Fleet::new().settled(&contexts).await,
        ["m:Ready", "n:SameClusterAs"]
    );
}

#[tokio::test]
async fn a_cluster_that_was_restored_from_a_backup_is_indexed_beside_its_origin_and_both_say_why() {
    let (origin, restored) = (Etcd::at(100, 3), Etcd::at(100, 99));
    let members = [made("a", OLD, &origin), made("b", YOUNG, &restored)];
    let (shown, notes) = Fleet::new()
        .settled_with(&members, &Established::new())
        .await;
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
async fn an_established_member_is_not_displaced_by_an_older_one_that_reports_its_uid_not_even_after_a_restart()
 {
    let etcd = Etcd::at(100, 3);
    let young = || made("a", YOUNG, &etcd);
    let mut fleet = Fleet::new();
    assert_eq!(
        fleet
            .settled(&[
                young(),
                Made {
                    identity: Some("y"),
                    ..made("b", OLD, &etcd)
                }
            ])
            .await,
        ["a:Ready", "b:Ready"]
    );
    assert_eq!(
        fleet.settled(&[young(), made("b", OLD, &etcd)]).await,
        ["a:Ready", "b:SameClusterAs"]
    );
    let established = Established::from([
        ("a".parse().unwrap(), ["x".into()].into()),
        ("b".parse().unwrap(), ["y".into()].into()),
    ]);
    let members = || [young(), made("b", OLD, &etcd)];
    let mut restarted = Fleet::new();
    restarted.look(&members(), None);
    tokio::time::timeout(Duration::from_mins(1), restarted.changed.notified())
        .await
        .unwrap();
    let (shown, _) = restarted.look(&members(), None);
    assert!(
        shown.iter().all(|shown| !shown.contains(SAME_CLUSTER_AS)),
        "nobody is refused before the stores were read: {shown:?}"
    );
    assert_eq!(
        restarted.settled_with(&members(), &established).await.0,
        ["a:Ready", "b:SameClusterAs"]
    );
    let unknown = [young().down(), made("b", OLD, &etcd)];
    let (shown, notes) = Fleet::new().settled_with(&unknown, &established).await;
    assert_eq!(shown, ["a:Unreachable", "b:Ready"]);
    assert!(
        notes[&"b".parse().unwrap()].contains("cannot be compared while one is not connected"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn of_registrations_that_come_up_together_the_oldest_counts_in_whatever_order_they_connect() {
    let etcd = Etcd::at(100, 3);
    let (young, old) = (|| made("a", YOUNG, &etcd), || made("b", OLD, &etcd));
    for has_registry in [true, false] {
        let mut fleet = Fleet {
            has_registry,
            ..Fleet::new()
        };
        fleet
            .settled(&[young().connecting(), old().connecting()])
            .await;
        for _ in 0..3 {
            let shown = fleet.settled(&[young(), old().connecting()]).await;
            assert_eq!(
                shown,
                ["a:Ready", "b:Unreachable"],
                "a member that hangs delays no other"
            );
        }
        assert_eq!(
            fleet.settled(&[young(), old()]).await,
            ["a:SameClusterAs", "b:Ready"],
            "has_registry: {has_registry}"
        );
        fleet.has_registry = true;
        fleet.settled(&[young(), old()]).await;
        assert_eq!(
            fleet.settled(&[young(), old().connecting()]).await,
            ["a:SameClusterAs", "b:Unreachable"]
        );
        assert_eq!(
            fleet.settled(&[young(), old()]).await,
            ["a:SameClusterAs", "b:Ready"]
        );
    }
}

#[tokio::test]
async fn an_older_registration_that_comes_later_or_could_not_be_connected_displaces_only_what_was_never_indexed()
 {
    let etcd = Etcd::at(100, 3);
    let (young, old) = (|| made("a", YOUNG, &etcd), || made("b", OLD, &etcd));
    for (has_registry, expected) in [
        (true, ["a:Ready", "b:SameClusterAs"]),
        (false, ["a:SameClusterAs", "b:Ready"]),
    ] {
        let mut fleet = Fleet {
            has_registry,
            ..Fleet::new()
        };
        fleet.settled(&[young()]).await;
        fleet.settled(&[young(), old().connecting()]).await;
        assert_eq!(
            fleet.settled(&[young(), old()]).await,
            expected,
            "registered later"
        );
        let mut fleet = Fleet {
            has_registry,
            ..Fleet::new()
        };
        fleet.settled(&[young(), old().connecting()]).await;
        fleet.settled(&[young(), old().down()]).await;
        assert_eq!(
            fleet.settled(&[young(), old()]).await,
            expected,
            "connected at the second attempt"
        );
    }
}

#[tokio::test]
async fn a_member_that_was_indexed_beside_another_one_and_then_shows_its_history_takes_its_place_neither_before_nor_after_a_restart()
 {
    let (victim, own) = (Etcd::at(100, 3), Etcd::at(100, 99));
    let young = || made("a", YOUNG, &victim);
    let mut fleet = Fleet::new();
    fleet.settled(&[young()]).await;
    for _ in 0..3 {
        assert_eq!(
            fleet.settled(&[young(), made("b", OLD, &own)]).await,
            ["a:Ready", "b:Ready"]
        );
    }
    let relaying = || Made {
        connection: 7,
        ..made("b", OLD, &victim)
    };
    let mut shown = fleet.settled(&[young(), relaying()]).await;
    while shown != ["a:Ready", "b:SameClusterAs"] {
        assert_eq!(shown[0], "a:Ready");
        tokio::time::timeout(Duration::from_mins(1), fleet.changed.notified())
            .await
            .unwrap();
        shown = fleet.settled(&[young(), relaying()]).await;
    }
    // The documents of both have its UID.
    let established = Established::from([
        ("a".parse().unwrap(), ["x".into()].into()),
        ("b".parse().unwrap(), ["x".into()].into()),
    ]);
    let mut restarted = Fleet::new();
    let (shown, _) = restarted.look(&[young(), relaying()], Some(&established));
    assert_eq!(
        shown,
        ["a:Ready", "b:Ready"],
        "an established member waits for nothing"
    );
    tokio::time::timeout(Duration::from_mins(1), restarted.changed.notified())
        .await
        .unwrap();
    let (shown, notes) = restarted.look(&[young(), relaying()], Some(&established));
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    assert!(
        notes[&"a".parse().unwrap()].contains("nothing tells them apart now: remove one"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn an_older_member_that_lies_about_its_versions_is_not_taken_for_a_cluster_that_it_cannot_read()
 {
    let members = || {
        [
            made("a", YOUNG, &Etcd::at(100, 3)),
            made("b", OLD, &Etcd::lying()),
        ]
    };
    let (shown, notes) = Fleet::new()
        .settled_with(&members(), &Established::new())
        .await;
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    assert!(
        notes[&"a".parse().unwrap()].contains("their histories differ"),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_member_that_cannot_be_compared_does_not_keep_a_new_one_waiting_for_ever() {
    let members = || {
        [
            made("a", YOUNG, &Etcd::at(100, 3)),
            made("b", OLD, &Etcd::broken()),
        ]
    };
    let mut fleet = Fleet::new();
    assert_eq!(
        fleet.look(&members(), Some(&Established::new())).0,
        ["a:ComparingWithAnother", "b:Ready"]
    );
    let (shown, notes) = fleet.settled_with(&members(), &Established::new()).await;
    assert_eq!(shown, ["a:Ready", "b:Ready"]);
    assert!(
        notes[&"a".parse().unwrap()].contains("could not be compared 3 times"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn another_one_takes_over_when_the_first_goes_and_not_when_it_is_down() {
    let etcd = Etcd::at(100, 3);
    let (young, old) = (|| made("a", YOUNG, &etcd), || made("b", OLD, &etcd));
    let mut fleet = Fleet::new();
    fleet.settled(&[young(), old()]).await;
    assert_eq!(
        fleet.settled(&[young(), old().down()]).await,
        ["a:SameClusterAs", "b:Unreachable"]
    );
    assert_eq!(fleet.settled(&[young()]).await, ["a:Ready"]);
    assert_eq!(
        fleet.settled(&[young(), old()]).await,
        ["a:Ready", "b:SameClusterAs"],
        "it is the established one now"
    );
}

#[tokio::test]
async fn where_no_history_may_be_read_only_members_that_are_reached_alike_are_one() {
    let etcd = Etcd::at(100, 3);
    let forbidden = |name| Made {
        etcd: None,
        ..made(name, OLD, &etcd)
    };
    let (shown, notes) = Fleet::new()
        .settled_with(&[forbidden("a"), forbidden("b")], &Established::new())
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
async fn a_twin_has_no_connection_and_members_of_unknown_identity_are_none() {
    let etcd = Etcd::at(100, 3);
    let mut fleet = Fleet::new();
    fleet
        .settled(&[made("a", OLD, &etcd), made("b", YOUNG, &etcd)])
        .await;
    let mut members: BTreeMap<_, _> = [
        made("a", OLD, &etcd).state(),
        made("b", YOUNG, &etcd).state(),
    ]
    .into();
    fleet
        .twins
        .mark(&mut members, Some(&Established::new()), &BTreeSet::new());
    let twin = &members[&"b".parse().unwrap()];
    assert!(
        twin.message.contains("same cluster as a (Cluster a)") && twin.connection.is_none(),
        "{}",
        twin.message
    );
    assert!(is_left_to_another(twin) && !is_left_to_another(&members[&"a".parse().unwrap()]));
    let unknown = [made("a", OLD, &etcd).down(), made("b", OLD, &etcd).down()];
    assert_eq!(
        Fleet::new().settled(&unknown).await,
        ["a:Unreachable", "b:Unreachable"]
    );
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let reach = prop::sample::select(vec![Reach::Connected, Reach::Unknown, Reach::Disconnected]);
    let one = (any::<bool>(), 0_i64..3, reach)
        .prop_map(|(is_new, created, reach)| (is_new, created, reach));
    prop::collection::vec(one, 1..5).prop_map(|made| {
        let candidate =
            |(position, (is_new, created, reach)): (usize, (bool, i64, Reach))| Candidate {
                is_new,
                age: Age {
                    is_unknown: false,
                    created: Timestamp::from_second(created).ok(),
                    name: format!("m{position}").parse().unwrap(),
                },
                reach,
            };
        let mut candidates: Vec<Candidate> = made.into_iter().enumerate().map(candidate).collect();
        candidates.sort();
        candidates
    })
}

proptest! {
    #[test]
    fn who_is_refused_is_one_with_an_earlier_member_that_is_indexed_and_never_displaces_an_established_one(
        candidates in candidates(),
        verdicts in prop::collection::vec(prop::option::of(any::<bool>()), 25),
        is_settled in any::<bool>(),
    ) {
        let verdict = |first: usize, other: usize| {
            let is_same = verdicts[first * 5 + other]?;
            Some(if is_same { Verdict::Same } else { Verdict::Different("x".to_owned()) })
        };
        let found = outcomes(&candidates, is_settled, verdict);
        prop_assert_eq!(found.len(), candidates.len());
        prop_assert_eq!(&found[0], &Outcome::Indexed(Vec::new()));
        for (position, outcome) in found.iter().enumerate() {
            match outcome {
                Outcome::Refused(first) => {
                    prop_assert!(is_settled && *first < position && verdict(*first, position) == Some(Verdict::Same));
                    prop_assert!(matches!(found[*first], Outcome::Indexed(_)));
                    prop_assert!(candidates[position].is_new, "an established one is displaced");
                }
                Outcome::Waits(first) => {
                    prop_assert!(matches!(found[*first], Outcome::Indexed(_)));
                    prop_assert!(candidates[position].is_new, "an established one waits");
                }
                Outcome::Indexed(_) if !candidates[position].is_new => {}
                Outcome::Indexed(_) => {
                    let is_same = |first: &usize| matches!(found[*first], Outcome::Indexed(_)) && verdict(*first, position) == Some(Verdict::Same);
                    prop_assert_eq!((0..position).find(is_same), None);
                }
            }
        }
    }
}
