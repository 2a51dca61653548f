//! What has to hold for any bytes that a client may send. Run by the fuzz targets, and over their corpora by `tests/fuzz_corpus.rs`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fleetdex::{
    model::{FieldPath, Gvk, Quantity},
    query::{Cursor, Permitted, Query, ResourceName, Selectable, dsl},
    selector::{FieldSelector, LabelSelector},
    server::{
        Caller, clusterpedia,
        continue_token::{self, Bound, Continuation, Keys},
        request::{self, ListRequest},
    },
};

fn pods() -> Query {
    Query::all_of(ResourceName::new("", "pods"), Selectable::of(&Gvk::new("", "v1", "Pod"), &[]).and_any_path(), 10)
}

/// A selector is refused, or printed so that it reads the same; and what it asks can be put to OpenSearch or is refused.
pub fn selectors(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(labels) = text.parse::<LabelSelector>() {
        assert_eq!(labels.to_string().parse(), Ok(labels.clone()), "{text:?}");
        if let Ok((labels, _)) = clusterpedia::take(labels) {
            drop(dsl::query_clause(&Query { labels, ..pods() }));
        }
    }
    if let Ok(fields) = text.parse::<FieldSelector>() {
        assert_eq!(fields.to_string().parse(), Ok(fields.clone()), "{text:?}");
        drop(dsl::query_clause(&Query { fields, ..pods() }));
    }
    if let Some(quantity) = Quantity::parse(text) {
        assert_eq!(Quantity::parse(&quantity.to_string()), Some(quantity), "{text:?}");
    }
    assert!(FieldPath::new(text).segments().count() <= text.len() + 1, "{text:?}");
}

/// A path and a query, with a line break between them, are understood or refused.
pub fn request(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (path, query) = text.split_once('\n').unwrap_or((text, ""));
    if let Err(error) = request::parse(path, Some(query)) {
        assert!((400..500).contains(&error.code()), "{text:?}: {error}");
    }
}

/// Now, for tokens that nothing else depends on.
const NOW: i64 = 1_800_000_000;

/// Nobody forges a continue token: neither by what the bytes are, nor by what they change in a genuine one; and one that is genuine continues as it
/// was made, for nobody else.
pub fn continue_token(bytes: &[u8]) {
    thread_local!(static KEYS: Keys = Keys::default());
    KEYS.with(|keys| forge(keys, bytes));
}

fn forge(keys: &Keys, bytes: &[u8]) {
    let (caller, request, permitted) = (Caller::local(), ListRequest::default(), Permitted::Everything);
    let bound = Bound { caller: &caller, request: &request, permitted: &permitted };
    let open = |text: &str| continue_token::open(keys, text, &bound, NOW);
    let text = String::from_utf8_lossy(bytes).into_owned();
    assert!(open(&text).is_err() && open(&URL_SAFE_NO_PAD.encode(bytes)).is_err(), "{text:?}");

    let cursor = Cursor { snapshot: text.clone(), after: vec![text.clone().into()], remaining: None };
    let Ok(store) = (if text.is_empty() { "embedded" } else { &text }).parse() else { return };
    let Ok(version) = "7".parse() else { return };
    let continuation = Continuation { version, cursors: [(store, cursor)].into() };
    let Ok(token) = continue_token::seal(keys, &continuation, &bound, NOW) else { panic!("no random numbers") };
    if token.len() > continue_token::MAX_BYTES {
        return assert!(open(&token).is_err());
    }
    assert_eq!(open(&token), Ok(continuation), "{text:?}");
    let other = Caller { name: format!("{text}."), ..Caller::local() };
    assert!(continue_token::open(keys, &token, &Bound { caller: &other, ..bound }, NOW).is_err(), "{text:?}");

    let Ok(genuine) = URL_SAFE_NO_PAD.decode(&token) else { panic!("{token}") };
    // What the bytes say to change: pairs of a place and what is put there.
    let mut forged = genuine.clone();
    for change in bytes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % forged.len();
        forged[place] ^= change[2];
    }
    // The header of a genuine one, and then the bytes.
    let headed = [&genuine[..genuine.len().min(21)], bytes].concat();
    for forged in [forged, headed] {
        assert!(forged == genuine || open(&URL_SAFE_NO_PAD.encode(&forged)).is_err(), "{forged:?}");
    }
}
