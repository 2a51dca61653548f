use fleetdex_core::query::Grant;
use fleetdex_query_api::{
    question::{self, Question},
    uri::RequestUri,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;

fn request(parameters: &str) -> ListRequest {
    let path = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods";
    match question::parse(&RequestUri::parse(path, Some(parameters)).unwrap()) {
        Ok(Question::List(list)) => *list,
        other => panic!("{other:?}"),
    }
}

fn user(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        groups: Vec::new(),
        ..Caller::local()
    }
}

fn only(namespaces: &[&str]) -> Permitted {
    let names = namespaces
        .iter()
        .map(|name| name.parse().unwrap())
        .collect();
    Permitted::Only(vec![Grant::of_namespaces(names)])
}

fn continuation(snapshot: &str) -> Continuation {
    let cursor = Cursor {
        snapshot: snapshot.to_owned(),
        after: vec![json!("default"), json!(null), json!(7)],
        remaining: Some(2),
    };
    let rest = Cursor {
        snapshot: "other".to_owned(),
        after: Vec::new(),
        remaining: None,
    };
    let cursors = [
        ("https://opensearch:9200/fleetdex", cursor),
        ("embedded", rest),
    ];
    let cursors = cursors
        .into_iter()
        .map(|(name, cursor)| (name.parse().unwrap(), cursor))
        .collect();
    Continuation {
        version: Some("720856573542465536".parse().unwrap()),
        cursors,
    }
}

/// A query of alice.
struct TokenQuery {
    keys: SealingKeys,
    caller: Caller,
    request: ListRequest,
    permitted: Permitted,
}

impl TokenQuery {
    fn new() -> Self {
        let (caller, request) = (user("alice"), request("labelSelector=a+in+(b,c)&limit=2"));
        Self {
            keys: SealingKeys::default(),
            caller,
            request,
            permitted: only(&["web", "db"]),
        }
    }

    fn binding(&self) -> TokenBinding<'_> {
        TokenBinding {
            caller: &self.caller,
            request: &self.request,
            permitted: &self.permitted,
        }
    }

    fn token(&self) -> String {
        seal(&self.keys, &continuation("pit-1"), &self.binding(), NOW).unwrap()
    }

    fn open(&self, token: &str) -> Result<Continuation, TokenError> {
        open(&self.keys, token, &self.binding(), NOW)
    }
}

#[test]
fn a_token_continues_the_same_query_with_any_limit() {
    let query = TokenQuery::new();
    let token = query.token();
    for same in [
        "labelSelector=a+in+(c,+b)",
        "limit=500&labelSelector=a+in+(b,c)&continue=x&onlyMetadata=true",
    ] {
        let same = request(same);
        assert_eq!(
            open(
                &query.keys,
                &token,
                &TokenBinding {
                    request: &same,
                    ..query.binding()
                },
                NOW
            ),
            Ok(continuation("pit-1"))
        );
    }
}

#[test]
fn a_token_continues_no_other_query() {
    let query = TokenQuery::new();
    let token = query.token();
    let mut others: Vec<ListRequest> = [
        "clusters=a",
        "namespaces=web",
        "names=a",
        "orderBy=name",
        "since=2026-01-31",
        "ownerName=x",
        "store=a",
        "fieldSelector=spec.nodeName=a",
    ]
    .map(|more| request(&format!("labelSelector=a+in+(b,c)&{more}")))
    .into();
    others.push(request(""));
    let resource_path = question::ResourcePath {
        plural: "secrets".to_owned(),
        ..query.request.resource.clone()
    };
    others.push(ListRequest {
        resource: resource_path,
        ..query.request.clone()
    });
    for other in others {
        let opened = open(
            &query.keys,
            &token,
            &TokenBinding {
                request: &other,
                ..query.binding()
            },
            NOW,
        );
        assert_eq!(opened, Err(TokenError::OtherQuery), "{other:?}");
    }
}

#[test]
fn a_token_is_refused_for_another_user() {
    let query = TokenQuery::new();
    let token = query.token();
    let of_uid = Caller {
        uid: Some("1".to_owned()),
        ..user("alice")
    };
    for other in [user("bob"), Caller::local(), of_uid] {
        let opened = open(
            &query.keys,
            &token,
            &TokenBinding {
                caller: &other,
                ..query.binding()
            },
            NOW,
        );
        assert_eq!(opened, Err(TokenError::OtherCaller), "{other:?}");
    }
    let in_more_groups = Caller {
        groups: vec!["web".to_owned()],
        ..user("alice")
    };
    assert!(
        open(
            &query.keys,
            &token,
            &TokenBinding {
                caller: &in_more_groups,
                ..query.binding()
            },
            NOW
        )
        .is_ok()
    );
}

#[test]
fn a_token_is_refused_after_a_change_of_permissions() {
    let query = TokenQuery::new();
    let token = query.token();
    let opened = |permitted: &Permitted| {
        open(
            &query.keys,
            &token,
            &TokenBinding {
                permitted,
                ..query.binding()
            },
            NOW,
        )
    };
    assert!(opened(&only(&["db", "web"])).is_ok());
    for other in [
        only(&["web"]),
        only(&["web", "db", "x"]),
        Permitted::Everything,
    ] {
        assert_eq!(opened(&other), Err(TokenError::OtherPermission));
    }
}

#[test]
fn a_token_expires() {
    let query = TokenQuery::new();
    let token = query.token();
    assert!(open(&query.keys, &token, &query.binding(), NOW + 300).is_ok());
    assert_eq!(
        open(&query.keys, &token, &query.binding(), NOW + 301),
        Err(TokenError::Expired)
    );
}

#[test]
fn a_token_of_another_installation_is_refused() {
    let query = TokenQuery::new();
    assert_eq!(
        open(
            &SealingKeys::default(),
            &query.token(),
            &query.binding(),
            NOW
        ),
        Err(TokenError::Expired)
    );
    // Also with the id of another key.
    let mut data = {
        query.token();
        query.keys.ring().data()
    };
    for key in data.values_mut() {
        key.0[0] ^= 1;
    }
    let other = SealingKeys::managed(KeyRing::read(&data));
    assert_eq!(
        open(&other, &query.token(), &query.binding(), NOW),
        Err(TokenError::Malformed)
    );
}

#[test]
fn anything_else_is_malformed() {
    let query = TokenQuery::new();
    let plain = URL_SAFE_NO_PAD.encode(deflated(&TokenPayload::encode(
        &query.binding(),
        &continuation("pit"),
        NOW,
    )));
    for text in [
        "",
        "%",
        "e30",
        "bnVsbA",
        "a b",
        &plain,
        &format!("{plain}.7"),
        &"A".repeat(MAX_BYTES + 1),
    ] {
        assert_eq!(query.open(text), Err(TokenError::Malformed), "{text:?}");
    }
    // Even with a valid seal: invalid content, or too much of it.
    for content in [
        deflated(b"{}"),
        deflated(b"{}\n"),
        b"x".to_vec(),
        deflated(&vec![b' '; 64 << 20]),
    ] {
        assert!(content.len() < 100_000);
        let sealed = URL_SAFE_NO_PAD.encode(query.keys.seal(content, NOW).unwrap());
        assert_eq!(query.open(&sealed), Err(TokenError::Malformed));
    }
}

#[test]
fn a_token_reveals_nothing_and_no_two_are_equal() {
    let query = TokenQuery::new();
    let tokens = [query.token(), query.token()];
    assert_ne!(tokens[0], tokens[1]);
    for token in tokens {
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        let shows = |bytes: &[u8]| {
            ["pit-1", "default", "embedded"]
                .map(str::as_bytes)
                .iter()
                .any(|word| bytes.windows(word.len()).any(|part| part == *word))
        };
        assert!(!shows(&bytes), "{token}");
        for from in 0..bytes.len() {
            // Random bytes may be inflatable, but not to these words.
            let mut inflated = Vec::new();
            let _ended = ZlibDecoder::new(&bytes[from..])
                .take(1 << 16)
                .read_to_end(&mut inflated);
            assert!(!shows(&inflated), "{token}");
        }
    }
}

proptest! {
    /// Every change of a token is refused.
    #[test]
    fn no_change_of_a_token_is_accepted(at in any::<prop::sample::Index>(), by in 1..=255_u8, cut in any::<prop::sample::Index>(), grown in prop::collection::vec(any::<u8>(), 1..40)) {
        let query = TokenQuery::new();
        let bytes = URL_SAFE_NO_PAD.decode(query.token()).unwrap();
        let other = URL_SAFE_NO_PAD.decode(query.token()).unwrap();
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= by;
        let cut = cut.index(bytes.len());
        let spliced = [&bytes[..cut], &other[cut..]].concat();
        for forged in [changed, bytes[..cut].to_vec(), [&bytes, &grown[..]].concat(), grown.clone(), spliced] {
            if forged != bytes && forged != other {
                prop_assert!(query.open(&URL_SAFE_NO_PAD.encode(&forged)).is_err());
            }
        }
    }

    /// Cursors survive, whatever ids a store gives its views.
    #[test]
    fn a_continuation_survives_a_round_trip(snapshots in prop::collection::vec(".{0,200}|[A-Za-z0-9_-]{0,40}={0,2}", 0..4), remaining in any::<Option<u64>>()) {
        let query = TokenQuery::new();
        let cursor = |snapshot: String| Cursor { after: vec![json!(snapshot)], snapshot, remaining };
        let cursors = snapshots.into_iter().enumerate().map(|(number, text)| (format!("s{number}").parse().unwrap(), cursor(text)));
        let continuation = Continuation { version: Some("7".parse().unwrap()), cursors: cursors.collect() };
        let token = seal(&query.keys, &continuation, &query.binding(), NOW).unwrap();
        prop_assert_eq!(query.open(&token), Ok(continuation));
    }
}

/// What OpenSearch 3.4 encodes for each shard: index, its UUID, shard, node, context and session.
fn point_in_time(shards: usize) -> String {
    let mut bytes = Vec::new();
    for number in 0..shards {
        let uuid = URL_SAFE_NO_PAD.encode(&Sha256::digest(number.to_string())[..16]);
        let context = char::from_u32(u32::try_from(number).unwrap()).unwrap();
        bytes.extend(
            format!(
                "\u{18}fleetdex-cluster-{number:04}.g1\u{16}{uuid}\0\u{16}vl7gLGVxSZWLHws9bUtKaw"
            )
            .bytes(),
        );
        bytes.extend(format!("\0\0\0\0\0\0{context}\u{16}tdsZX7hgTzCgaFj7E8c2jA").bytes());
    }
    URL_SAFE.encode(bytes)
}

#[test]
fn a_point_in_time_over_a_thousand_shards_fits_into_a_url() {
    let query = TokenQuery::new();
    for shards in [1, 2, 3, 1_000] {
        let continuation = continuation(&point_in_time(shards));
        let token = seal(&query.keys, &continuation, &query.binding(), NOW).unwrap();
        assert!(token.len() < 560 + 42 * shards, "{shards}: {}", token.len());
        assert_eq!(query.open(&token), Ok(continuation));
    }
}
