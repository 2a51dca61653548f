//! Members that are one and the same cluster, by the UID of its namespace `kube-system`.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::{state::Phase, supervisor::MemberState};
use crate::model::ClusterName;

/// The reason of a member that is the same cluster as an older one.
pub const SAME_CLUSTER_AS: &str = "SameClusterAs";

/// What was last seen of the members' identities. A cluster keeps it while it is disconnected, so that the younger of two
/// registrations does not take over for the time of an outage.
#[derive(Debug, Default)]
pub struct Twins {
    seen: BTreeMap<ClusterName, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// UID of the object that registers it: another one may register another cluster.
    registration: String,
    identity: String,
}

impl Twins {
    /// Of members that are the same cluster the oldest stays as it is; the others are shown as such, without a connection.
    pub fn mark(&mut self, members: &mut BTreeMap<ClusterName, MemberState>) {
        self.look(members);
        let mut oldest: BTreeMap<&str, (&ClusterName, Age)> = BTreeMap::new();
        for (name, seen) in &self.seen {
            let age = age(members, name);
            let first = oldest.entry(&seen.identity).or_insert((name, age));
            if age < first.1 {
                *first = (name, age);
            }
        }
        for (name, seen) in &self.seen {
            let Some((first, _)) = oldest.get(seen.identity.as_str()).filter(|(first, _)| *first != name) else { continue };
            let origin = members.get(*first).map(|first| first.member.origin.clone()).unwrap_or_default();
            if let Some(member) = members.get_mut(name) {
                shelve(member, first, &origin);
            }
        }
    }

    fn look(&mut self, members: &BTreeMap<ClusterName, MemberState>) {
        self.seen.retain(|name, seen| members.get(name).is_some_and(|state| state.member.uid == seen.registration));
        for (name, state) in members {
            if let Some(identity) = state.connection.as_ref().and_then(|connection| connection.uid.clone()) {
                self.seen.insert(name.clone(), Seen { registration: state.member.uid.clone(), identity });
            }
        }
    }
}

/// Whether a member is left to another one.
pub fn is_left_to_another(member: &MemberState) -> bool {
    member.reason == SAME_CLUSTER_AS
}

type Age = (bool, Option<Timestamp>);

fn age(members: &BTreeMap<ClusterName, MemberState>, name: &ClusterName) -> Age {
    let created = members.get(name).and_then(|state| state.member.created);
    (created.is_none(), created)
}

fn shelve(member: &mut MemberState, first: &ClusterName, origin: &str) {
    member.phase = Phase::Disconnected;
    member.connection = None;
    member.note = None;
    member.reason = SAME_CLUSTER_AS;
    member.message = format!(
        "it is the same cluster as {first} ({origin}), which was registered first and is indexed; remove one of the two, or allow both \
         with --allow-same-cluster"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::Client;
    use tower::service_fn;

    use super::*;
    use crate::cluster::{
        Connection,
        member::{Access, Endpoint, Member},
    };

    fn client() -> Client {
        let service = service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
        });
        Client::new(service, "default")
    }

    fn state(name: &str, created: Option<&str>, identity: Option<&str>) -> (ClusterName, MemberState) {
        let member = Member {
            name: name.parse().unwrap(),
            uid: format!("uid-{name}"),
            generation: None,
            labels: BTreeMap::new(),
            provider: None,
            region: None,
            zones: Vec::new(),
            origin: format!("Cluster {name}"),
            created: created.map(|time| time.parse().unwrap()),
            access: Access::Endpoint(Endpoint::default()),
        };
        let connection = identity.map(|uid| Connection::new(1, client(), Some(uid.to_owned())));
        let state = MemberState {
            member: Arc::new(member),
            phase: if identity.is_some() { Phase::Ready } else { Phase::Disconnected },
            reason: if identity.is_some() { "Ready" } else { "Unreachable" },
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

    const OLD: Option<&str> = Some("2025-01-01T00:00:00Z");
    const YOUNG: Option<&str> = Some("2026-01-01T00:00:00Z");

    fn marked(twins: &mut Twins, members: Vec<(ClusterName, MemberState)>) -> Vec<String> {
        let mut members: BTreeMap<_, _> = members.into_iter().collect();
        twins.mark(&mut members);
        members.values().map(|state| format!("{}:{}", state.member.name, state.reason)).collect()
    }

    #[tokio::test]
    async fn the_oldest_registration_counts_and_names_break_ties() {
        let twins = &mut Twins::default();
        let members = vec![
            state("a", YOUNG, Some("x")),
            state("b", OLD, Some("x")),
            state("c", None, Some("x")),
            state("d", OLD, Some("y")),
        ];
        assert_eq!(marked(twins, members), ["a:SameClusterAs", "b:Ready", "c:SameClusterAs", "d:Ready"]);
        let contexts = vec![state("m", None, Some("x")), state("n", None, Some("x"))];
        assert_eq!(marked(&mut Twins::default(), contexts), ["m:Ready", "n:SameClusterAs"]);
    }

    #[tokio::test]
    async fn a_younger_one_takes_over_when_the_older_goes_and_not_when_it_is_down() {
        let twins = &mut Twins::default();
        let young = || state("a", YOUNG, Some("x"));
        marked(twins, vec![young(), state("b", OLD, Some("x"))]);
        assert_eq!(marked(twins, vec![young(), state("b", OLD, None)]), ["a:SameClusterAs", "b:Unreachable"]);
        assert_eq!(marked(twins, vec![young()]), ["a:Ready"]);
        assert_eq!(
            marked(twins, vec![young(), state("b", OLD, None)]),
            ["a:Ready", "b:Unreachable"],
            "it may be another cluster now"
        );
    }

    #[tokio::test]
    async fn the_message_names_the_other_and_members_of_unknown_identity_are_nobodys_twins() {
        let mut members: BTreeMap<_, _> = [state("a", YOUNG, Some("x")), state("b", OLD, Some("x"))].into();
        Twins::default().mark(&mut members);
        let twin = &members[&"a".parse().unwrap()];
        assert!(twin.message.contains("same cluster as b (Cluster b)") && twin.connection.is_none(), "{}", twin.message);
        assert!(is_left_to_another(twin) && !is_left_to_another(&members[&"b".parse().unwrap()]));
        assert_eq!(
            marked(&mut Twins::default(), vec![state("a", OLD, None), state("b", OLD, None)]),
            ["a:Unreachable", "b:Unreachable"]
        );
    }
}
