use fleetdex_core::query::Grant;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::request::{self, ApiRequest};

const NOW: i64 = 1_800_000_000;

fn request(parameters: &str) -> ListRequest {
    match request::parse(
        "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods",
        Some(parameters),
    ) {
        Ok(ApiRequest::List(list)) => *list,
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
        version: "720856573542400256".parse().unwrap(),
        cursors,
    }
}

/// What alice asks.
struct Asked {
    keys: Keys,
    caller: Caller,
    request: ListRequest,
    permitted: Permitted,
}

impl Asked {
    fn new() -> Self {
        let (caller, request) = (user("alice"), request("labelSelector=a+in+(b,c)&limit=2"));
        Self {
            keys: Keys::default(),
            caller,
            request,
            permitted: only(&["web", "db"]),
        }
    }

    fn bound(&self) -> Bound<'_> {
        Bound {
            caller: &self.caller,
            request: &self.request,
            permitted: &self.permitted,
        }
    }

    fn token(&self) -> String {
        seal(&self.keys, &continuation("pit-1"), &self.bound(), NOW).unwrap()
    }

    fn open(&self, token: &str) -> Result<Continuation, TokenError> {
        open(&self.keys, token, &self.bound(), NOW)
    }
}

#[test]
fn a_token_continues_the_same_question_with_any_limit() {
    let asked = Asked::new();
    let token = asked.token();
    for same in [
        "labelSelector=a+in+(c,+b)",
        "limit=500&labelSelector=a+in+(b,c)&continue=x&onlyMetadata=true",
    ] {
        let same = request(same);
        assert_eq!(
            open(
                &asked.keys,
                &token,
                &Bound {
                    request: &same,
                    ..asked.bound()
                },
                NOW
            ),
            Ok(continuation("pit-1"))
        );
    }
}

#[test]
fn a_token_continues_no_other_question() {
    let asked = Asked::new();
    let token = asked.token();
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
    let native = request::NativePath {
        plural: "secrets".to_owned(),
        ..asked.request.native.clone()
    };
    others.push(ListRequest {
        native,
        ..asked.request.clone()
    });
    for other in others {
        let opened = open(
            &asked.keys,
            &token,
            &Bound {
                request: &other,
                ..asked.bound()
            },
            NOW,
        );
        assert_eq!(opened, Err(TokenError::OtherQuery), "{other:?}");
    }
}

#[test]
fn a_token_continues_for_nobody_else() {
    let asked = Asked::new();
    let token = asked.token();
    let of_uid = Caller {
        uid: Some("1".to_owned()),
        ..user("alice")
    };
    for other in [user("bob"), Caller::local(), of_uid] {
        let opened = open(
            &asked.keys,
            &token,
            &Bound {
                caller: &other,
                ..asked.bound()
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
            &asked.keys,
            &token,
            &Bound {
                caller: &in_more_groups,
                ..asked.bound()
            },
            NOW
        )
        .is_ok()
    );
}

#[test]
fn a_token_continues_only_for_those_who_may_see_the_same() {
    let asked = Asked::new();
    let token = asked.token();
    let opened = |permitted: &Permitted| {
        open(
            &asked.keys,
            &token,
            &Bound {
                permitted,
                ..asked.bound()
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
fn a_token_ends_after_its_lifetime() {
    let asked = Asked::new();
    let token = asked.token();
    assert!(open(&asked.keys, &token, &asked.bound(), NOW + 300).is_ok());
    assert_eq!(
        open(&asked.keys, &token, &asked.bound(), NOW + 301),
        Err(TokenError::Expired)
    );
}

#[test]
fn a_token_of_another_installation_is_none_here() {
    let asked = Asked::new();
    assert_eq!(
        open(&Keys::default(), &asked.token(), &asked.bound(), NOW),
        Err(TokenError::Expired)
    );
    // With the same id of another key, too.
    let mut data = {
        asked.token();
        asked.keys.ring().data()
    };
    for key in data.values_mut() {
        key.0[0] ^= 1;
    }
    let other = Keys::kept(Ring::read(&data));
    assert_eq!(
        open(&other, &asked.token(), &asked.bound(), NOW),
        Err(TokenError::Malformed)
    );
}

#[test]
fn what_is_no_token_is_malformed() {
    let asked = Asked::new();
    let plain = URL_SAFE_NO_PAD.encode(deflated(&Content::encode(
        &asked.bound(),
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
        assert_eq!(asked.open(text), Err(TokenError::Malformed), "{text:?}");
    }
    // Even one that is sealed by us: content that is not what it should be, or too much of it.
    for content in [
        deflated(b"{}"),
        deflated(b"{}\n"),
        b"x".to_vec(),
        deflated(&vec![b' '; 64 << 20]),
    ] {
        assert!(content.len() < 100_000);
        let sealed = URL_SAFE_NO_PAD.encode(asked.keys.seal(content, NOW).unwrap());
        assert_eq!(asked.open(&sealed), Err(TokenError::Malformed));
    }
}

#[test]
fn a_token_shows_nothing_and_no_two_are_alike() {
    let asked = Asked::new();
    let tokens = [asked.token(), asked.token()];
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
            // Chance makes bytes that can be inflated, too, but not to these words.
            let mut inflated = Vec::new();
            let _ended = ZlibDecoder::new(&bytes[from..])
                .take(1 << 16)
                .read_to_end(&mut inflated);
            assert!(!shows(&inflated), "{token}");
        }
    }
}

proptest! {
    /// Whatever is changed in a token of somebody, it is refused.
    #[test]
    fn no_change_of_a_token_is_accepted(at in any::<prop::sample::Index>(), by in 1..=255_u8, cut in any::<prop::sample::Index>(), grown in prop::collection::vec(any::<u8>(), 1..40)) {
        let asked = Asked::new();
        let bytes = URL_SAFE_NO_PAD.decode(asked.token()).unwrap();
        let other = URL_SAFE_NO_PAD.decode(asked.token()).unwrap();
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= by;
        let cut = cut.index(bytes.len());
        let spliced = [&bytes[..cut], &other[cut..]].concat();
        for forged in [changed, bytes[..cut].to_vec(), [&bytes, &grown[..]].concat(), grown.clone(), spliced] {
            if forged != bytes && forged != other {
                prop_assert!(asked.open(&URL_SAFE_NO_PAD.encode(&forged)).is_err());
            }
        }
    }

    /// A cursor comes back as it was, whatever a store names its views by.
    #[test]
    fn a_continuation_comes_back_as_it_was(snapshots in prop::collection::vec(".{0,200}|[A-Za-z0-9_-]{0,40}={0,2}", 0..4), remaining in any::<Option<u64>>()) {
        let asked = Asked::new();
        let cursor = |snapshot: String| Cursor { after: vec![json!(snapshot)], snapshot, remaining };
        let cursors = snapshots.into_iter().enumerate().map(|(number, text)| (format!("s{number}").parse().unwrap(), cursor(text)));
        let continuation = Continuation { version: "7".parse().unwrap(), cursors: cursors.collect() };
        let token = seal(&asked.keys, &continuation, &asked.bound(), NOW).unwrap();
        prop_assert_eq!(asked.open(&token), Ok(continuation));
    }
}

/// What OpenSearch 3.4 says of each shard: index, its UUID, shard, node, context and session.
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
    let asked = Asked::new();
    for shards in [1, 2, 3, 1_000] {
        let continuation = continuation(&point_in_time(shards));
        let token = seal(&asked.keys, &continuation, &asked.bound(), NOW).unwrap();
        assert!(token.len() < 560 + 42 * shards, "{shards}: {}", token.len());
        assert_eq!(asked.open(&token), Ok(continuation));
    }
}
