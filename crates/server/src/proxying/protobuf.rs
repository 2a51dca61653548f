//! Kubernetes objects in protobuf, as typed Go clients send them.
//!
//! The envelope is `k8s\0` and a `runtime.Unknown`, whose field 2 is the object. The first field of
//! every object of Kubernetes is its `ObjectMeta`, so that its version and its annotations can be
//! read and replaced without a schema. Everything else stays byte by byte as it is.
//!
//! Source of the numbers: `generated.proto` of
//! <https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1> and
//! <https://pkg.go.dev/k8s.io/apimachinery/pkg/runtime>

use std::collections::BTreeMap;

use fleetdex_core::model::{
    INDEXED_ANNOTATION, MEMBER_VERSION_ANNOTATION, REDACTED_ANNOTATION,
    client_metadata::is_fleetdex_annotation,
};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";
/// `Unknown.raw`
const RAW: u64 = 2;
/// `metadata` of any object.
const METADATA: u64 = 1;
/// `ObjectMeta.resourceVersion`
const RESOURCE_VERSION: u64 = 6;
/// `ObjectMeta.annotations`, an entry each.
const ANNOTATION: u64 = 12;
/// `DeleteOptions.preconditions`
const PRECONDITIONS: u64 = 2;
/// `Preconditions.resourceVersion`
const PRECONDITION_VERSION: u64 = 2;
/// Key and value of an entry of a map.
const KEY: u64 = 1;
const VALUE: u64 = 2;
/// Wire type of strings, bytes and messages.
const LENGTH_DELIMITED: u64 = 2;

/// The bytes are not an object in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a Kubernetes object in protobuf")]
pub struct MalformedProtobuf;

/// The resource versions and our annotations in the metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionMetadata {
    /// `resourceVersion`, unless it is empty.
    pub version: Option<String>,
    /// The annotation with the member's own version.
    pub member_version: Option<String>,
    /// The annotation that says what was redacted.
    pub redacted: Option<String>,
    /// The annotation that says that the object is from the index.
    pub from_index: Option<String>,
}

/// A field of a message: its number, its value where it has a length, and all of its bytes.
struct MessageField<'m> {
    number: u64,
    value: Option<&'m [u8]>,
    bytes: &'m [u8],
}

/// Reads the metadata of an object.
pub fn metadata(body: &[u8]) -> Result<VersionMetadata, MalformedProtobuf> {
    let object = inner(message(body)?, RAW)?.ok_or(MalformedProtobuf)?;
    let mut found = VersionMetadata::default();
    let Some(metadata) = inner(object, METADATA)? else {
        return Ok(found);
    };
    for field in fields(metadata)? {
        match (field.number, field.value) {
            (RESOURCE_VERSION, Some(value)) => {
                found.version = Some(text(value)?).filter(|version| !version.is_empty());
            }
            (ANNOTATION, Some(entry)) => match annotation(entry)? {
                (key, value) if key == MEMBER_VERSION_ANNOTATION => {
                    found.member_version = Some(value);
                }
                (key, value) if key == REDACTED_ANNOTATION => found.redacted = Some(value),
                (key, value) if key == INDEXED_ANNOTATION => found.from_index = Some(value),
                _ => {}
            },
            _ => {}
        }
    }
    Ok(found)
}

/// The object without our annotations, and with `version` as its resource version, if that is
/// given.
pub fn returned(body: &[u8], version: Option<&str>) -> Result<Vec<u8>, MalformedProtobuf> {
    let with_version = |metadata: &[u8]| {
        let mut out = Vec::with_capacity(metadata.len());
        for field in fields(metadata)? {
            match (field.number, field.value) {
                (RESOURCE_VERSION, Some(own)) => write(
                    &mut out,
                    RESOURCE_VERSION,
                    version.map_or(own, str::as_bytes),
                ),
                (ANNOTATION, Some(entry)) if is_fleetdex_annotation(&annotation(entry)?.0) => {}
                _ => out.extend_from_slice(field.bytes),
            }
        }
        Ok(out)
    };
    in_envelope(body, |object| replaced(object, METADATA, with_version))
}

/// The resource version in the preconditions of `DeleteOptions`.
pub fn precondition(body: &[u8]) -> Result<Option<String>, MalformedProtobuf> {
    let options = inner(message(body)?, RAW)?.ok_or(MalformedProtobuf)?;
    let Some(preconditions) = inner(options, PRECONDITIONS)? else {
        return Ok(None);
    };
    inner(preconditions, PRECONDITION_VERSION)?
        .map(text)
        .transpose()
}

/// `DeleteOptions` with another resource version in their preconditions.
pub fn with_precondition(body: &[u8], version: &str) -> Result<Vec<u8>, MalformedProtobuf> {
    let replace = |_: &[u8]| Ok(version.as_bytes().to_vec());
    in_envelope(body, |options| {
        replaced(options, PRECONDITIONS, |preconditions| {
            replaced(preconditions, PRECONDITION_VERSION, replace)
        })
    })
}

/// The texts of a message in the object of an envelope, by their field numbers; `path`: the numbers
/// of the fields that lead to the message. `None` if it is not there.
pub fn texts(
    body: &[u8],
    path: &[u64],
) -> Result<Option<BTreeMap<u64, String>>, MalformedProtobuf> {
    let mut found = inner(message(body)?, RAW)?.ok_or(MalformedProtobuf)?;
    for &number in path {
        let Some(next) = inner(found, number)? else {
            return Ok(None);
        };
        found = next;
    }
    let mut texts = BTreeMap::new();
    for field in fields(found)? {
        // Messages among the fields are no texts, and may be read with a longer path.
        if let Some(Ok(value)) = field.value.map(text) {
            texts.insert(field.number, value);
        }
    }
    Ok(Some(texts))
}

fn in_envelope(
    body: &[u8],
    change: impl Fn(&[u8]) -> Result<Vec<u8>, MalformedProtobuf>,
) -> Result<Vec<u8>, MalformedProtobuf> {
    Ok([MAGIC, &replaced(message(body)?, RAW, change)?].concat())
}

fn message(body: &[u8]) -> Result<&[u8], MalformedProtobuf> {
    body.strip_prefix(MAGIC).ok_or(MalformedProtobuf)
}

/// The message with the value of one field changed.
fn replaced(
    message: &[u8],
    number: u64,
    change: impl Fn(&[u8]) -> Result<Vec<u8>, MalformedProtobuf>,
) -> Result<Vec<u8>, MalformedProtobuf> {
    let mut out = Vec::with_capacity(message.len());
    for field in fields(message)? {
        match field.value {
            Some(value) if field.number == number => write(&mut out, number, &change(value)?),
            _ => out.extend_from_slice(field.bytes),
        }
    }
    Ok(out)
}

/// The value of a field, if it is there. A repeated field is refused, as decoders merge the values
/// or take the last one.
fn inner(message: &[u8], number: u64) -> Result<Option<&[u8]>, MalformedProtobuf> {
    let mut values = fields(message)?;
    values.retain(|field| field.number == number);
    let mut values = values.into_iter().map(|field| field.value);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(Some(value)), None) => Ok(Some(value)),
        _ => Err(MalformedProtobuf),
    }
}

fn annotation(entry: &[u8]) -> Result<(String, String), MalformedProtobuf> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in fields(entry)? {
        match (field.number, field.value) {
            (KEY, Some(bytes)) => key = text(bytes)?,
            (VALUE, Some(bytes)) => value = text(bytes)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn text(bytes: &[u8]) -> Result<String, MalformedProtobuf> {
    let text = std::str::from_utf8(bytes).map_err(|_| MalformedProtobuf)?;
    Ok(text.to_owned())
}

/// All fields of a message, in their order.
fn fields(message: &[u8]) -> Result<Vec<MessageField<'_>>, MalformedProtobuf> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (tag, after_tag) = varint(rest)?;
        let (value, after) = match tag & 7 {
            0 => (None, varint(after_tag)?.1),
            1 => (None, after_tag.get(8..).ok_or(MalformedProtobuf)?),
            LENGTH_DELIMITED => {
                let (length, after_length) = varint(after_tag)?;
                let length = usize::try_from(length).map_err(|_| MalformedProtobuf)?;
                let (value, after) = after_length
                    .split_at_checked(length)
                    .ok_or(MalformedProtobuf)?;
                (Some(value), after)
            }
            5 => (None, after_tag.get(4..).ok_or(MalformedProtobuf)?),
            _ => return Err(MalformedProtobuf),
        };
        fields.push(MessageField {
            number: tag >> 3,
            value,
            bytes: &start[..start.len() - after.len()],
        });
        rest = after;
    }
    Ok(fields)
}

/// A number of seven bits in each byte, the least ones first, and what follows it.
fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), MalformedProtobuf> {
    let mut number = 0_u64;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f)
            .checked_shl(7 * u32::try_from(position).map_err(|_| MalformedProtobuf)?)
            .ok_or(MalformedProtobuf)?;
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[position + 1..]));
        }
    }
    Err(MalformedProtobuf)
}

fn write(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    write_varint(out, number << 3 | LENGTH_DELIMITED);
    write_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u64, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, number, value);
        out
    }

    fn entry(key: &str, value: &str) -> Vec<u8> {
        field(
            ANNOTATION,
            &[field(KEY, key.as_bytes()), field(VALUE, value.as_bytes())].concat(),
        )
    }

    fn envelope(object: &[u8]) -> Vec<u8> {
        let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
        [
            MAGIC,
            &field(1, &kind),
            &field(RAW, object),
            &field(3, b""),
            &field(4, b""),
        ]
        .concat()
    }

    /// A `ConfigMap` with a version and annotations.
    pub(in crate::proxying) fn config_map(version: &str, annotations: &[(&str, &str)]) -> Vec<u8> {
        let annotations: Vec<u8> = annotations
            .iter()
            .flat_map(|(key, value)| entry(key, value))
            .collect();
        // With a number (`generation`), and text behind the annotations.
        let metadata = [
            field(1, b"a"),
            field(RESOURCE_VERSION, version.as_bytes()),
            vec![7 << 3, 3],
            annotations,
            field(14, b"f"),
        ];
        let data = [field(KEY, b"k"), field(VALUE, b"v")].concat();
        envelope(&[field(METADATA, &metadata.concat()), field(2, &data)].concat())
    }

    pub(in crate::proxying) fn delete_options(version: &str) -> Vec<u8> {
        let preconditions = [
            field(1, b"uid"),
            field(PRECONDITION_VERSION, version.as_bytes()),
        ]
        .concat();
        envelope(&[vec![1 << 3, 0], field(PRECONDITIONS, &preconditions)].concat())
    }

    #[test]
    fn metadata_is_read_and_replaced_and_the_rest_stays() {
        let body = config_map(
            "70",
            &[
                (MEMBER_VERSION_ANNOTATION, "6"),
                ("kept", "yes"),
                (REDACTED_ANNOTATION, "$.data"),
            ],
        );
        let found = metadata(&body).unwrap();
        assert_eq!(
            (found.version.as_deref(), found.member_version.as_deref()),
            (Some("70"), Some("6"))
        );
        assert_eq!(
            (found.redacted.as_deref(), found.from_index),
            (Some("$.data"), None)
        );
        assert_eq!(
            returned(&body, Some("6")).unwrap(),
            config_map("6", &[("kept", "yes")])
        );
        assert_eq!(
            returned(&config_map("70", &[]), None).unwrap(),
            config_map("70", &[])
        );
    }

    #[test]
    fn a_precondition_is_read_and_replaced() {
        assert_eq!(
            precondition(&delete_options("70")).unwrap().as_deref(),
            Some("70")
        );
        assert_eq!(
            with_precondition(&delete_options("70"), "6").unwrap(),
            delete_options("6")
        );
        assert_eq!(precondition(&envelope(&[1 << 3, 0])).unwrap(), None);
    }

    #[test]
    fn what_is_no_object_is_malformed() {
        let marked = field(METADATA, &entry(REDACTED_ANNOTATION, "$.data"));
        assert_eq!(
            metadata(&envelope(&[field(METADATA, b""), marked].concat())),
            Err(MalformedProtobuf)
        );
        for broken in [
            &b""[..],
            b"k8s",
            b"{}",
            b"k8s\0",
            b"k8s\0\x12\x7f",
            b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"k8s\0\x13",
        ] {
            assert_eq!(metadata(broken), Err(MalformedProtobuf), "{broken:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let body = [MAGIC, &bytes].concat();
            let _outcome = (metadata(&body), returned(&body, Some("1")), precondition(&body));
        }

        #[test]
        fn nothing_of_ours_is_left(version in "[0-9]{1,20}", keys in prop::collection::vec(0..6_usize, 0..6)) {
            let names = [MEMBER_VERSION_ANNOTATION, REDACTED_ANNOTATION, INDEXED_ANNOTATION, "a", "fleetdex.io/x", ""];
            let annotations: Vec<(&str, &str)> = keys.iter().map(|key| (names[*key], "value")).collect();
            let left = returned(&config_map(&version, &annotations), Some("6")).unwrap();
            prop_assert_eq!(metadata(&left).unwrap(), VersionMetadata { version: Some("6".to_owned()), ..VersionMetadata::default() });
            let kept: Vec<_> = annotations.into_iter().filter(|(key, _)| !is_fleetdex_annotation(key)).collect();
            prop_assert_eq!(left, config_map("6", &kept));
        }
    }
}
