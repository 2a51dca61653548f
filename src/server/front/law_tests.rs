//! The law of permission: what a user gets is what the same question by an administrator gives, without what the user may not see.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::tests::World;
use crate::{
    bulk::Write,
    model::{Gvk, Object, Projection, Projector, Resource},
    server::{
        Catalog,
        fake::{Prepared, add, cluster, served, store},
    },
    store::{Store, memory::Memory},
};

const CLUSTERS: [&str; 3] = ["one", "three", "two"];
const NAMESPACES: [&str; 3] = ["db", "ops", "web"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROOT: &str = "/apis/search.fleetdex.io/v1alpha1";

/// A kind: group, version, kind, plural, whether it has namespaces.
type Kind = (&'static str, &'static str, &'static str, &'static str, bool);
const KINDS: [Kind; 3] =
    [("", "v1", "Pod", "pods", true), ("apps", "v1", "Deployment", "deployments", true), ("", "v1", "Node", "nodes", false)];

/// An object of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Thing {
    plural: &'static str,
    namespace: &'static str,
    name: &'static str,
    cluster: &'static str,
    label: &'static str,
    /// The name of the deployment in the same cluster and namespace that owns it.
    owner: Option<&'static str>,
}

impl Thing {
    fn uid(plural: &str, cluster: &str, namespace: &str, name: &str) -> String {
        format!("{plural}-{cluster}-{namespace}-{name}")
    }
}

/// What alice may see.
#[derive(Clone, Debug)]
struct Rights {
    /// None: all.
    clusters: Option<BTreeSet<&'static str>>,
    /// By plural; none: all namespaces, and what has none.
    namespaces: BTreeMap<&'static str, Option<BTreeSet<&'static str>>>,
}

impl Rights {
    fn random(random: &mut StdRng) -> Self {
        let some = |random: &mut StdRng, all: [&'static str; 3]| -> Option<BTreeSet<&'static str>> {
            (!random.random_ratio(1, 3)).then(|| all.into_iter().filter(|_| random.random_bool(0.5)).collect())
        };
        let clusters = some(random, CLUSTERS);
        let namespaces = KINDS.iter().map(|kind| (kind.3, some(random, NAMESPACES))).collect();
        Self { clusters, namespaces }
    }

    fn sees_cluster(&self, name: &str) -> bool {
        self.clusters.as_ref().is_none_or(|clusters| clusters.contains(name))
    }

    fn sees(&self, plural: &str, of_cluster: &str, namespace: &str) -> bool {
        self.sees_cluster(of_cluster) && self.namespaces[plural].as_ref().is_none_or(|names| names.contains(namespace))
    }

    fn rules(&self) -> Vec<&'static str> {
        let mut rules = vec![
            "alice get search.fleetdex.io/search/v1  *".to_owned(),
            "alice get search.fleetdex.io/search/apps  *".to_owned(),
            "alice get search.fleetdex.io/aggregate/v1  *".to_owned(),
            "alice get search.fleetdex.io/aggregate/apps  *".to_owned(),
            "alice get search.fleetdex.io/proxying/proxy  *".to_owned(),
        ];
        match &self.clusters {
            None => rules.push("alice get search.fleetdex.io/clusters  *".to_owned()),
            Some(names) => rules.extend(names.iter().map(|name| format!("alice get search.fleetdex.io/clusters  {name}"))),
        }
        for (group, _, _, plural, _) in KINDS {
            match &self.namespaces[plural] {
                None => rules.push(format!("alice * {group}/{plural} * *")),
                Some(names) => rules.extend(names.iter().map(|name| format!("alice * {group}/{plural} {name} *"))),
            }
        }
        // The control plane of tests has rules that live for ever.
        rules.into_iter().map(|rule| &*rule.leak()).collect()
    }
}

struct Fleet {
    things: BTreeSet<Thing>,
    memory: Memory,
    catalog: Catalog,
}

impl Fleet {
    async fn random(random: &mut StdRng) -> Self {
        let memory = Memory::new();
        let (mut things, mut catalog) = (BTreeSet::new(), Catalog::default());
        catalog.add_store(store("main"), Arc::new(memory.clone()));
        for name in CLUSTERS {
            let generation = memory.open(&cluster(name), Some(name), 0).await.unwrap();
            let mut writes = Vec::new();
            for kind in KINDS {
                // Some clusters do not have some kinds.
                if random.random_ratio(1, 5) {
                    continue;
                }
                let gvk = Gvk::new(kind.0, kind.1, kind.2);
                add(&mut catalog, "main", name, &served(gvk.clone(), kind.3, kind.4, &[]));
                let resource = Resource { gvk, plural: kind.3.into(), namespaced: kind.4 };
                let projector = Projector::new(&cluster(name), &resource, &Projection::default(), &[]);
                for _ in 0..random.random_range(0..8) {
                    let thing = thing(kind, name, random);
                    let is_new = !things.iter().any(|known: &Thing| {
                        (known.plural, known.cluster, known.namespace, known.name)
                            == (thing.plural, thing.cluster, thing.namespace, thing.name)
                    });
                    if is_new {
                        let text = object(&thing).to_string();
                        let document = projector.document(&Object::parse(&text).unwrap(), &text, "2026-01-01T00:00:00Z").unwrap();
                        let (id, version, body) = (document.id, document.version, Some(document.body));
                        writes.push(Write { index: generation.target.clone(), id, version, body });
                        things.insert(thing);
                    }
                }
            }
            memory.write(&writes).await.unwrap();
            memory.activate(&generation).await.unwrap();
        }
        Self { things, memory, catalog }
    }

    /// Whether an object has an owner of the name, one that a caller with these rights may list.
    fn is_owned(&self, thing: &Thing, owner: &str, rights: &Rights) -> bool {
        let is_owner = |other: &&Thing| {
            (other.plural, other.cluster, other.namespace, other.name) == ("deployments", thing.cluster, thing.namespace, owner)
        };
        thing.owner == Some(owner)
            && self.things.iter().filter(is_owner).any(|other| rights.sees(other.plural, other.cluster, other.namespace))
    }
}

fn thing(kind: Kind, cluster: &'static str, random: &mut StdRng) -> Thing {
    let choose = |random: &mut StdRng, from: &[&'static str]| *from.choose(random).unwrap();
    Thing {
        plural: kind.3,
        namespace: if kind.4 { choose(random, &NAMESPACES) } else { "" },
        name: choose(random, &NAMES),
        cluster,
        label: choose(random, &["x", "y"]),
        owner: (kind.3 == "pods" && random.random_bool(0.5)).then(|| choose(random, &NAMES)),
    }
}

fn object(thing: &Thing) -> Value {
    let uid = Thing::uid(thing.plural, thing.cluster, thing.namespace, thing.name);
    let mut metadata = json!({ "name": thing.name, "uid": uid, "resourceVersion": "1", "labels": { "app": thing.label } });
    if !thing.namespace.is_empty() {
        metadata["namespace"] = thing.namespace.into();
    }
    if let Some(owner) = thing.owner {
        let uid = Thing::uid("deployments", thing.cluster, thing.namespace, owner);
        metadata["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": uid }]);
    }
    json!({ "metadata": metadata })
}

/// What is asked, beside how.
#[derive(Clone, Debug)]
struct Question {
    kind: Kind,
    clusters: Vec<&'static str>,
    namespaces: Vec<&'static str>,
    label: Option<&'static str>,
    owner: Option<&'static str>,
    name: Option<&'static str>,
}

impl Question {
    fn random(random: &mut StdRng) -> Self {
        let kind = *KINDS.choose(random).unwrap();
        let some = |random: &mut StdRng, all: &[&'static str]| -> Vec<&'static str> {
            if random.random_ratio(2, 3) { Vec::new() } else { all.iter().filter(|_| random.random_bool(0.5)).copied().collect() }
        };
        Self {
            kind,
            clusters: some(random, &["nowhere", "one", "three", "two"]),
            namespaces: if kind.4 { some(random, &NAMESPACES) } else { Vec::new() },
            label: random.random_bool(0.3).then_some("x"),
            owner: random.random_bool(0.2).then(|| *NAMES.choose(random).unwrap()),
            name: random.random_bool(0.2).then(|| *NAMES.choose(random).unwrap()),
        }
    }

    fn path(&self, way: &str, more: &str) -> String {
        let (group, version, _, plural, _) = self.kind;
        let root = if group.is_empty() { "api".to_owned() } else { format!("apis/{group}") };
        let (namespace, namespaces) = match (self.name, self.namespaces.as_slice()) {
            (Some(_), [one, ..]) => (format!("namespaces/{one}/"), String::new()),
            (_, names) => (String::new(), format!("&namespaces={}", names.join(","))),
        };
        let name = self.name.map(|name| format!("/{name}")).unwrap_or_default();
        let label = self.label.map(|label| format!("&labelSelector=app%3D{label}")).unwrap_or_default();
        let owner = self.owner.map(|owner| format!("&ownerName={owner}&ownerSeniority=0")).unwrap_or_default();
        let clusters = self.clusters.join(",");
        format!("{ROOT}/{way}/{root}/{version}/{namespace}{plural}{name}?clusters={clusters}{namespaces}{label}{owner}{more}")
    }

    /// What an administrator finds.
    fn selects(&self, fleet: &Fleet, thing: &Thing, rights: &Rights) -> bool {
        let namespaces =
            if self.name.is_some() { &self.namespaces[..self.namespaces.len().min(1)] } else { &self.namespaces[..] };
        thing.plural == self.kind.3
            && (self.clusters.is_empty() || self.clusters.contains(&thing.cluster))
            && (namespaces.is_empty() || namespaces.contains(&thing.namespace))
            && self.label.is_none_or(|label| thing.label == label)
            && self.name.is_none_or(|name| thing.name == name)
            && self.owner.is_none_or(|owner| fleet.is_owned(thing, owner, rights))
    }
}

/// Place and name of each object of a list.
fn items(list: &Value) -> Vec<(String, String, String)> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(placed).collect()
}

fn placed(item: &Value) -> (String, String, String) {
    let metadata = &item["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uid = text(&metadata["uid"]);
    let of_cluster = CLUSTERS.iter().find(|name| uid.split('-').nth(1) == Some(name)).unwrap();
    (text(&metadata["namespace"]), text(&metadata["name"]), (*of_cluster).to_owned())
}

struct Asker<'w> {
    world: &'w World,
    is_admin: bool,
}

impl Asker<'_> {
    async fn ask(&self, path: &str) -> (u16, Vec<Value>) {
        let headers: &[(&str, &str)] = if self.is_admin {
            &[("x-remote-user", "admin"), ("x-remote-group", "system:masters")]
        } else {
            &[("x-remote-user", "alice")]
        };
        self.world.ask_lines(headers, path).await
    }

    async fn list(&self, question: &Question) -> (u16, Vec<(String, String, String)>) {
        let (code, body) = self.ask(&question.path("search", "")).await;
        (code, if code == 200 { items(&body[0]) } else { Vec::new() })
    }

    /// Every page, and whether what they say of what is left is right.
    async fn pages(&self, question: &Question) -> (u16, Vec<(String, String, String)>) {
        let (mut found, mut token) = (Vec::new(), String::new());
        let mut promised = None;
        loop {
            let (code, body) = self.ask(&question.path("search", &format!("&limit=2&continue={token}"))).await;
            if code != 200 {
                return (code, Vec::new());
            }
            let page = items(&body[0]);
            if let Some(promised) = promised {
                let left = body[0]["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) + page.len() as u64;
                assert_eq!(left, promised, "{question:?}");
            }
            found.extend(page);
            promised = body[0]["metadata"]["remainingItemCount"].as_u64();
            match body[0]["metadata"]["continue"].as_str() {
                Some(next) => token = next.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"),
                None => return (code, found),
            }
        }
    }

    async fn counts(&self, question: &Question) -> (u16, u64, BTreeMap<(String, String), u64>) {
        let (code, body) = self.ask(&question.path("aggregate", "&by=cluster,metadata.namespace")).await;
        if code != 200 {
            return (code, 0, BTreeMap::new());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = |item: &Value| ((text(&item["values"][0]), text(&item["values"][1])), item["count"].as_u64().unwrap());
        (code, body[0]["total"].as_u64().unwrap(), body[0]["items"].as_array().unwrap().iter().map(group).collect())
    }

    async fn explained(&self, question: &Question) -> (u16, u64) {
        let (code, body) = self.ask(&question.path("search", "&explain=true")).await;
        (code, body[0]["estimate"]["objects"].as_u64().unwrap_or_default())
    }

    /// What a watch begins with.
    async fn watched(&self, question: &Question) -> (u16, Vec<(String, String, String)>) {
        let (code, events) = self.ask(&question.path("search", "&watch=true&timeoutSeconds=0")).await;
        if code != 200 {
            return (code, Vec::new());
        }
        let added = events.iter().inspect(|event| assert_eq!(event["type"], "ADDED", "{event}"));
        (code, added.map(|event| placed(&event["object"])).collect())
    }
}

async fn law(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let fleet = Fleet::random(&mut random).await;
    let rights = Rights::random(&mut random);
    let world = World::over(Prepared::with(Vec::new()), &rights.rules(), false);
    world.catalog.send_replace(Arc::new(fleet.catalog.clone()));
    let (admin, alice) = (Asker { world: &world, is_admin: true }, Asker { world: &world, is_admin: false });
    let everything = Rights { clusters: None, namespaces: KINDS.iter().map(|kind| (kind.3, None)).collect() };
    for _ in 0..6 {
        let question = Question::random(&mut random);
        let about = format!("seed {seed}: {question:?} with {rights:?}");
        let (code, all) = admin.list(&question).await;
        let selected = |rights: &Rights| -> BTreeSet<(String, String, String)> {
            let found = fleet.things.iter().filter(|thing| question.selects(&fleet, thing, rights));
            found.map(|thing| (thing.namespace.to_owned(), thing.name.to_owned(), thing.cluster.to_owned())).collect()
        };
        if code == 200 {
            assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), selected(&everything), "{about}");
        }
        // An owner that may not be seen is passed over, and what is only found by it.
        let reached = selected(&rights);
        let mine: Vec<_> =
            all.into_iter().filter(|place| rights.sees(question.kind.3, &place.2, &place.0) && reached.contains(place)).collect();
        let names_hidden = question.clusters.iter().any(|name| !rights.sees_cluster(name));
        let (told, listed) = alice.list(&question).await;
        match told {
            200 => assert_eq!((code, &listed), (200, &mine), "{about}"),
            403 => assert!(names_hidden || mine.is_empty(), "{about}: {mine:?}"),
            404 => assert!(mine.is_empty() && !names_hidden, "{about}: {mine:?}"),
            other => panic!("{about}: {other}"),
        }
        assert!(!names_hidden || told == 403, "{about}: {told}");
        assert_eq!(alice.pages(&question).await, (told, listed.clone()), "{about}");
        let mut groups: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (namespace, _, of_cluster) in &listed {
            *groups.entry((of_cluster.clone(), namespace.clone())).or_default() += 1;
        }
        if question.name.is_none() {
            assert_eq!(alice.counts(&question).await, (told, listed.len() as u64, groups), "{about}");
        }
        assert_eq!(alice.explained(&question).await, (told, listed.len() as u64), "{about}");
        if question.name.is_none() && question.owner.is_none() {
            let (watching, mut begun) = alice.watched(&question).await;
            let mut wanted = listed.clone();
            begun.sort_unstable();
            wanted.sort_unstable();
            assert_eq!((watching, begun), (told, wanted), "{about}");
        }
    }
    assert_eq!(fleet.memory.len(), fleet.things.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_user_gets_what_an_administrator_gets_without_what_the_user_may_not_see(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(law(seed));
    }
}
