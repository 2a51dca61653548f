//! The keys that continue tokens are sealed with: AES-256-GCM under random nonces, each key for about a day.

use std::{collections::BTreeMap, fmt, sync::Arc};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand,
};
use fleetdex_core::model::hex;
use k8s_openapi::ByteString;
use parking_lot::RwLock;

use super::{LIFETIME, TokenError};

/// The first byte of each token: how the rest is made.
const FORMAT: u8 = 1;
const ID_BYTES: usize = 8;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
/// Format and id of the key, which are authenticated, too.
const HEADER_BYTES: usize = 1 + ID_BYTES;
/// After how many seconds there is a new key. Random nonces of 96 bits are safe for 2^32 tokens of one key: 49,000 a second for a day.
const ROTATION: i64 = 24 * 3600;
/// For how many seconds a key waits until tokens are sealed with it: twice over, every replica looks for new ones within 30 s, and their clocks
/// differ by no more than another minute.
const SETTLING: i64 = 120;
/// How many seconds a key is still known after the next one has come: longer than any token that it has sealed counts.
const KEPT: i64 = SETTLING + LIFETIME.as_secs().cast_signed() + 600;

/// One key.
pub struct Key {
    id: [u8; ID_BYTES],
    /// Seconds since 1970.
    made: i64,
    bytes: [u8; KEY_BYTES],
    cipher: RandomizedNonceKey,
}

impl Key {
    /// A random one; nothing if this machine has no random numbers.
    pub fn make(now: i64) -> Option<Self> {
        let (mut id, mut bytes) = ([0; ID_BYTES], [0; KEY_BYTES]);
        rand::fill(&mut id)
            .and_then(|()| rand::fill(&mut bytes))
            .ok()?;
        Self::new(id, now, bytes)
    }

    fn new(id: [u8; ID_BYTES], made: i64, bytes: [u8; KEY_BYTES]) -> Option<Self> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &bytes).ok()?;
        Some(Self {
            id,
            made,
            bytes,
            cipher,
        })
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [FORMAT; HEADER_BYTES];
        header[1..].copy_from_slice(&self.id);
        header
    }

    /// Header, nonce, and what is sealed.
    fn seal(&self, mut content: Vec<u8>) -> Option<Vec<u8>> {
        let header = self.header();
        let nonce = self
            .cipher
            .seal_in_place_append_tag(Aad::from(header), &mut content)
            .ok()?;
        Some([&header[..], nonce.as_ref(), &content].concat())
    }

    fn open(&self, nonce: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let mut content = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = self
            .cipher
            .open_in_place(nonce, Aad::from(self.header()), &mut content)
            .ok()?
            .len();
        content.truncate(length);
        Some(content)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Key")
            .field("id", &hex(&self.id))
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

/// The keys that count at a time, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Ring(Vec<Arc<Key>>);

impl Ring {
    /// With one key.
    pub fn of(key: Key) -> Self {
        Self(vec![Arc::new(key)])
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys of a Secret's data; what is none is passed over.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Self {
        let mut keys: Vec<Arc<Key>> = data
            .iter()
            .filter_map(|(name, value)| read_key(name, &value.0))
            .map(Arc::new)
            .collect();
        keys.sort_by_key(|key| (key.made, key.id));
        Self(keys)
    }

    /// The keys as a Secret holds them.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let entry = |key: &Arc<Key>| {
            (
                format!("{}.{}", key.made, hex(&key.id)),
                ByteString(key.bytes.to_vec()),
            )
        };
        self.0.iter().map(entry).collect()
    }

    /// What the keys should be from now on, if that is other: a new one when the newest is old, and without those that nothing is sealed with.
    pub fn rotated(&self, now: i64) -> Option<Self> {
        let mut keys = self.0.clone();
        if keys
            .last()
            .is_none_or(|newest| newest.made + ROTATION <= now)
        {
            keys.push(Arc::new(Key::make(now)?));
        }
        let successors: Vec<i64> = keys.iter().skip(1).map(|key| key.made).collect();
        let superseded = successors
            .iter()
            .take_while(|made| **made + KEPT <= now)
            .count();
        keys.drain(..superseded);
        (keys.len() != self.0.len() || superseded > 0).then_some(Self(keys))
    }

    /// The newest key that all replicas know by now, or else the oldest.
    fn current(&self, now: i64) -> Option<&Arc<Key>> {
        self.0
            .iter()
            .rfind(|key| key.made + SETTLING <= now)
            .or_else(|| self.0.first())
    }

    fn find(&self, id: &[u8]) -> Option<&Arc<Key>> {
        self.0.iter().find(|key| key.id == id)
    }
}

fn read_key(name: &str, bytes: &[u8]) -> Option<Key> {
    let (made, id) = name.split_once('.')?;
    let id = u64::from_str_radix(id, 16)
        .ok()
        .filter(|_| id.len() == 2 * ID_BYTES)?;
    Key::new(id.to_be_bytes(), made.parse().ok()?, bytes.try_into().ok()?)
}

/// The keys that tokens are sealed and opened with. Clones share them.
#[derive(Clone, Debug)]
pub struct Keys(Arc<RwLock<Held>>);

#[derive(Debug)]
struct Held {
    ring: Ring,
    /// Whether another part of the program replaces them.
    is_kept: bool,
}

impl Default for Keys {
    /// Keys of this process alone, rotated by themselves.
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Held {
            ring: Ring::default(),
            is_kept: false,
        })))
    }
}

impl Keys {
    /// These keys, until they are replaced.
    pub fn kept(ring: Ring) -> Self {
        Self(Arc::new(RwLock::new(Held {
            ring,
            is_kept: true,
        })))
    }

    /// Replaces all of them. From now on they are only rotated by being replaced.
    pub fn replace(&self, ring: Ring) {
        *self.0.write() = Held {
            ring,
            is_kept: true,
        };
    }

    /// The keys of now.
    pub fn ring(&self) -> Ring {
        self.0.read().ring.clone()
    }

    /// Nothing if there is no key, or no random numbers are to be had.
    pub(super) fn seal(&self, content: Vec<u8>, now: i64) -> Option<Vec<u8>> {
        self.rotate(now);
        let ring = self.ring();
        ring.current(now)?.seal(content)
    }

    pub(super) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, TokenError> {
        let (header, rest) = sealed
            .split_at_checked(HEADER_BYTES)
            .ok_or(TokenError::Malformed)?;
        let (nonce, content) = rest
            .split_at_checked(NONCE_BYTES)
            .ok_or(TokenError::Malformed)?;
        let (format, id) = header.split_at(1);
        if format != [FORMAT] || content.len() < AES_256_GCM.tag_len() {
            return Err(TokenError::Malformed);
        }
        // It may be one that was thrown away, or of an earlier run.
        let ring = self.ring();
        let key = ring.find(id).ok_or(TokenError::Expired)?;
        key.open(nonce, content).ok_or(TokenError::Malformed)
    }

    fn rotate(&self, now: i64) {
        let is_due = |held: &Held| !held.is_kept && held.ring.rotated(now).is_some();
        if !is_due(&self.0.read()) {
            return;
        }
        let mut held = self.0.write();
        if let Some(ring) = held.ring.rotated(now).filter(|_| !held.is_kept) {
            held.ring = ring;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    const NOW: i64 = 1_800_000_000;

    fn ids(ring: &Ring) -> Vec<[u8; ID_BYTES]> {
        ring.0.iter().map(|key| key.id).collect()
    }

    #[test]
    fn what_a_key_has_sealed_is_opened_until_no_token_of_it_counts_any_more() {
        let keys = Keys::default();
        let sealed = keys.seal(b"content".to_vec(), NOW).unwrap();
        let mut last_of_first = NOW;
        for now in (NOW..NOW + 30 * HOUR).step_by(30) {
            let of_now = keys.seal(Vec::new(), now).unwrap();
            let is_of_first = of_now[..HEADER_BYTES] == sealed[..HEADER_BYTES];
            if is_of_first {
                last_of_first = now;
            }
            if now <= last_of_first + LIFETIME.as_secs().cast_signed() {
                assert_eq!(keys.open(&sealed).as_deref(), Ok(&b"content"[..]), "{now}");
            }
        }
        assert!(
            (ROTATION..ROTATION + SETTLING + 30).contains(&(last_of_first - NOW)),
            "{last_of_first}"
        );
        assert_eq!(keys.open(&sealed), Err(TokenError::Expired));
        assert_eq!(keys.ring().0.len(), 1);
    }

    #[test]
    fn a_replica_that_has_not_looked_for_a_minute_knows_every_key_that_is_used() {
        let mut stored = Ring::default();
        let (here, there) = (Keys::kept(Ring::default()), Keys::kept(Ring::default()));
        for now in (NOW..NOW + 60 * HOUR).step_by(10) {
            if let Some(ring) = stored.rotated(now) {
                stored = ring;
            }
            here.replace(Ring::read(&stored.data()));
            if (now - NOW) % 60 == 0 {
                there.replace(Ring::read(&stored.data()));
            }
            let sealed = here.seal(b"here".to_vec(), now).unwrap();
            assert_eq!(there.open(&sealed).as_deref(), Ok(&b"here"[..]));
            let sealed = there.seal(b"there".to_vec(), now).unwrap();
            assert_eq!(here.open(&sealed).as_deref(), Ok(&b"there"[..]));
        }
    }

    #[test]
    fn keys_are_what_they_were_when_they_are_read_again() {
        let ring = Ring::of(Key::make(NOW).unwrap())
            .rotated(NOW + ROTATION)
            .unwrap();
        let mut data = ring.data();
        let name = format!("{}.{}", NOW, "0".repeat(16));
        data.extend(
            [
                ("ca.crt", vec![0; 32]),
                ("1.2", vec![0; 32]),
                (&name, vec![0; 31]),
            ]
            .map(|(name, bytes)| (name.to_owned(), ByteString(bytes))),
        );
        let read = Ring::read(&data);
        assert_eq!(ids(&read), ids(&ring));
        let (ours, theirs) = (Keys::kept(ring), Keys::kept(read));
        assert_eq!(
            theirs
                .open(&ours.seal(b"x".to_vec(), NOW).unwrap())
                .as_deref(),
            Ok(&b"x"[..])
        );
    }

    #[test]
    fn a_key_is_not_printed() {
        let key = Key::new([7; ID_BYTES], NOW, [42; KEY_BYTES]).unwrap();
        assert_eq!(
            format!("{key:?}"),
            r#"Key { id: "0707070707070707", made: 1800000000, .. }"#
        );
    }

    #[test]
    fn without_a_key_nothing_is_sealed_or_opened() {
        let keys = Keys::kept(Ring::default());
        assert_eq!(keys.seal(Vec::new(), NOW), None);
        assert_eq!(keys.open(&[FORMAT; 64]), Err(TokenError::Expired));
    }
}
