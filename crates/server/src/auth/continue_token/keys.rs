//! The keys that seal continue tokens: AES-256-GCM with random nonces, each key for about a day.

use std::{collections::BTreeMap, fmt, sync::Arc};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    rand,
};
use fleetdex_core::model::hex;
use k8s_openapi::ByteString;
use parking_lot::RwLock;

use super::validity::{LIFETIME, TokenError};

/// The first byte of each token: its format.
const FORMAT: u8 = 1;
const ID_BYTES: usize = 8;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
/// Format and key id, which are authenticated, too.
const HEADER_BYTES: usize = 1 + ID_BYTES;
/// Seconds until a key is rotated. Random nonces of 96 bits are safe for 2^32 tokens of one key:
/// 49,000 a second for a day.
const ROTATION: i64 = 24 * 3600;
/// Seconds until a new key seals tokens: twice the 30 s within which every replica checks for new
/// keys, and a minute for the difference of their clocks.
const PROPAGATION: i64 = 120;
/// Seconds for which a key is retained after its successor was created: longer than any token that
/// it has sealed is valid.
const RETENTION: i64 = PROPAGATION + LIFETIME.as_secs().cast_signed() + 600;

/// One key.
pub struct SealingKey {
    id: [u8; ID_BYTES],
    /// Seconds since 1970.
    made: i64,
    bytes: [u8; KEY_BYTES],
    cipher: RandomizedNonceKey,
}

impl SealingKey {
    /// A random key; `None` if this machine has no random numbers.
    pub fn generate(now: i64) -> Option<Self> {
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

    /// Header, nonce and sealed content.
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

impl fmt::Debug for SealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SealingKey")
            .field("id", &hex(&self.id))
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

/// The keys that are valid at one time, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct KeyRing(Vec<Arc<SealingKey>>);

impl KeyRing {
    /// A ring with one key.
    pub fn of(key: SealingKey) -> Self {
        Self(vec![Arc::new(key)])
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys in a Secret's data; ignores other data.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Self {
        let keys = data
            .iter()
            .filter_map(|(name, value)| read_key(name, &value.0));
        let mut keys: Vec<Arc<SealingKey>> = keys.map(Arc::new).collect();
        keys.sort_by_key(|key| (key.made, key.id));
        Self(keys)
    }

    /// The keys as data of a Secret.
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let entry = |key: &Arc<SealingKey>| {
            let name = format!("{}.{}", key.made, hex(&key.id));
            (name, ByteString(key.bytes.to_vec()))
        };
        self.0.iter().map(entry).collect()
    }

    /// The ring with a new key if the newest is old, and without keys whose tokens have all
    /// expired; `None` if nothing changes.
    pub fn rotated(&self, now: i64) -> Option<Self> {
        let mut keys = self.0.clone();
        let newest = keys.last();
        if newest.is_none_or(|newest| newest.made + ROTATION <= now) {
            keys.push(Arc::new(SealingKey::generate(now)?));
        }
        let successors = keys.iter().skip(1);
        let superseded = successors
            .take_while(|key| key.made + RETENTION <= now)
            .count();
        keys.drain(..superseded);
        (keys.len() != self.0.len() || superseded > 0).then_some(Self(keys))
    }

    /// The newest key that all replicas know by now, or else the oldest key.
    fn current(&self, now: i64) -> Option<&Arc<SealingKey>> {
        let known = self.0.iter().rfind(|key| key.made + PROPAGATION <= now);
        known.or_else(|| self.0.first())
    }

    fn find(&self, id: &[u8]) -> Option<&Arc<SealingKey>> {
        self.0.iter().find(|key| key.id == id)
    }
}

fn read_key(name: &str, bytes: &[u8]) -> Option<SealingKey> {
    let (made, id) = name.split_once('.')?;
    let id = u64::from_str_radix(id, 16)
        .ok()
        .filter(|_| id.len() == 2 * ID_BYTES)?;
    SealingKey::new(id.to_be_bytes(), made.parse().ok()?, bytes.try_into().ok()?)
}

/// The keys that seal and open tokens. Clones share them.
#[derive(Clone, Debug)]
pub struct SealingKeys(Arc<RwLock<KeyState>>);

#[derive(Debug)]
struct KeyState {
    ring: KeyRing,
    /// Whether they are rotated by [`SealingKeys::replace`] only.
    is_managed: bool,
}

impl Default for SealingKeys {
    /// Keys of this process alone, which rotate by themselves.
    fn default() -> Self {
        Self(Arc::new(RwLock::new(KeyState {
            ring: KeyRing::default(),
            is_managed: false,
        })))
    }
}

impl SealingKeys {
    /// Keys that rotate only by [`Self::replace`].
    pub fn managed(ring: KeyRing) -> Self {
        Self(Arc::new(RwLock::new(KeyState {
            ring,
            is_managed: true,
        })))
    }

    /// Replaces all keys. From now on they rotate only by this method.
    pub fn replace(&self, ring: KeyRing) {
        *self.0.write() = KeyState {
            ring,
            is_managed: true,
        };
    }

    /// The current keys.
    pub fn ring(&self) -> KeyRing {
        self.0.read().ring.clone()
    }

    /// Seals content; `None` without a key, or without random numbers.
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
        // The key may have been dropped, or be of an earlier run.
        let ring = self.ring();
        let key = ring.find(id).ok_or(TokenError::Expired)?;
        key.open(nonce, content).ok_or(TokenError::Malformed)
    }

    fn rotate(&self, now: i64) {
        let is_due = |held: &KeyState| !held.is_managed && held.ring.rotated(now).is_some();
        if !is_due(&self.0.read()) {
            return;
        }
        let mut held = self.0.write();
        if let Some(ring) = held.ring.rotated(now).filter(|_| !held.is_managed) {
            held.ring = ring;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    const NOW: i64 = 1_800_000_000;

    fn ids(ring: &KeyRing) -> Vec<[u8; ID_BYTES]> {
        ring.0.iter().map(|key| key.id).collect()
    }

    #[test]
    fn a_key_opens_its_tokens_until_all_of_them_have_expired() {
        let keys = SealingKeys::default();
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
            (ROTATION..ROTATION + PROPAGATION + 30).contains(&(last_of_first - NOW)),
            "{last_of_first}"
        );
        assert_eq!(keys.open(&sealed), Err(TokenError::Expired));
        assert_eq!(keys.ring().0.len(), 1);
    }

    #[test]
    fn a_replica_that_checks_once_a_minute_knows_every_key_in_use() {
        let mut stored = KeyRing::default();
        let (here, there) = (
            SealingKeys::managed(KeyRing::default()),
            SealingKeys::managed(KeyRing::default()),
        );
        for now in (NOW..NOW + 60 * HOUR).step_by(10) {
            if let Some(ring) = stored.rotated(now) {
                stored = ring;
            }
            here.replace(KeyRing::read(&stored.data()));
            if (now - NOW) % 60 == 0 {
                there.replace(KeyRing::read(&stored.data()));
            }
            let sealed = here.seal(b"here".to_vec(), now).unwrap();
            assert_eq!(there.open(&sealed).as_deref(), Ok(&b"here"[..]));
            let sealed = there.seal(b"there".to_vec(), now).unwrap();
            assert_eq!(here.open(&sealed).as_deref(), Ok(&b"there"[..]));
        }
    }

    #[test]
    fn keys_survive_a_round_trip_through_a_secret() {
        let ring = KeyRing::of(SealingKey::generate(NOW).unwrap())
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
        let read = KeyRing::read(&data);
        assert_eq!(ids(&read), ids(&ring));
        let (ours, theirs) = (SealingKeys::managed(ring), SealingKeys::managed(read));
        assert_eq!(
            theirs
                .open(&ours.seal(b"x".to_vec(), NOW).unwrap())
                .as_deref(),
            Ok(&b"x"[..])
        );
    }

    #[test]
    fn a_key_is_not_printed() {
        let key = SealingKey::new([7; ID_BYTES], NOW, [42; KEY_BYTES]).unwrap();
        assert_eq!(
            format!("{key:?}"),
            r#"SealingKey { id: "0707070707070707", made: 1800000000, .. }"#
        );
    }

    #[test]
    fn without_a_key_nothing_is_sealed_or_opened() {
        let keys = SealingKeys::managed(KeyRing::default());
        assert_eq!(keys.seal(Vec::new(), NOW), None);
        assert_eq!(keys.open(&[FORMAT; 64]), Err(TokenError::Expired));
    }
}
