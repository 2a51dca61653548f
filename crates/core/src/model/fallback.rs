//! Fallback documents, which replace documents that the store refused.

use ahash::AHashSet;
use serde::de::Error as _;

use super::{
    index_fields::{self, members},
    json::{RawMembers, write, write_key, write_members, write_text_member},
    json_line::JsonLine,
    number,
    well_known::{MAX_FIELD_VALUE_BYTES, REDACTED_ANNOTATION},
};

/// How much of an object a document holds. After a store has refused one shape, it gets the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentShape {
    /// The whole object, searchable as the mapping defines.
    #[default]
    Whole,
    /// The whole object, of which only identity and labels are searchable; the rest is in
    /// `search.native`.
    Unindexed,
    /// Nothing but its identity.
    Identity,
}

impl DocumentShape {
    /// The shape to try after this one was refused.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Whole => Some(Self::Unindexed),
            Self::Unindexed => Some(Self::Identity),
            Self::Identity => None,
        }
    }
}

/// Members of a document that identify it.
const IDENTITY: [&str; 3] = [
    index_fields::API_VERSION,
    index_fields::KIND,
    index_fields::CLUSTER,
];

/// Builds a document of a lesser shape from a refused one, with the reason in `search.rejected`.
pub fn fallback(
    body: &[u8],
    shape: DocumentShape,
    reason: &str,
) -> Result<JsonLine, serde_json::Error> {
    let body = str::from_utf8(body).map_err(serde_json::Error::custom)?;
    let document = RawMembers::parse(body)?;
    let search = members_of(&document, index_fields::SEARCH)?;
    let is_identity = shape == DocumentShape::Identity;
    let is_kept = |key: &str| match key {
        members::RESOURCE | members::GROUP | members::RULES_HASH | members::INDEXED_AT => true,
        members::LABELS | members::LABEL_KEYS => !is_identity,
        _ => false,
    };
    let mut out = b"{".to_vec();
    write_some(&mut out, &document, |key| IDENTITY.contains(&key));
    write_key(&mut out, index_fields::SEARCH);
    out.push(b'{');
    write_some(&mut out, &search, is_kept);
    // A reason may quote the refused document.
    let shown = reason.split(':').next().filter(|_| is_identity);
    let reason = shown.unwrap_or(reason);
    write_key(&mut out, members::REJECTED);
    write(&mut out, &number::cut(reason, MAX_FIELD_VALUE_BYTES));
    if !is_identity {
        write_key(&mut out, members::NATIVE);
        out.push(b'{');
        let native = members_of(&search, members::NATIVE)?;
        write_members(&mut out, &native.0);
        let kept: AHashSet<&str> = native.0.iter().map(|(name, _)| &*name.0).collect();
        write_some(&mut out, &document, |key| {
            key != index_fields::SEARCH && !IDENTITY.contains(&key) && !kept.contains(key)
        });
        out.push(b'}');
    }
    out.push(b'}');
    write_key(&mut out, "metadata");
    out.push(b'{');
    let metadata = members_of(&document, "metadata")?;
    write_some(&mut out, &metadata, |key| {
        ["name", "namespace", "uid", "resourceVersion"].contains(&key)
    });
    if is_identity {
        write_key(&mut out, "annotations");
        out.push(b'{');
        write_text_member(&mut out, REDACTED_ANNOTATION, "$");
        out.push(b'}');
    }
    out.extend_from_slice(b"}}");
    Ok(JsonLine::new(out))
}

/// The members of a JSON object within another one; none if it is absent.
fn members_of<'d>(of: &RawMembers<'d>, name: &str) -> Result<RawMembers<'d>, serde_json::Error> {
    of.get(name)
        .map_or(Ok(RawMembers::default()), RawMembers::parse)
}

fn write_some(out: &mut Vec<u8>, members: &RawMembers<'_>, is_written: impl Fn(&str) -> bool) {
    write_members(out, members.0.iter().filter(|(key, _)| is_written(&key.0)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_holds_less_than_the_one_before() {
        let body = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"z":1},"cluster":"m","search":{"resource":"pods","labels":["x=y"],"fields":["f"]}}"#;
        let text = |shape| {
            String::from_utf8(
                fallback(body.as_bytes(), shape, "odd: 'x'")
                    .unwrap()
                    .to_vec(),
            )
            .unwrap()
        };
        insta::assert_snapshot!(text(DocumentShape::Unindexed), @r#"{"apiVersion":"v1","kind":"Pod","cluster":"m","search":{"resource":"pods","labels":["x=y"],"rejected":"odd: 'x'","native":{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"z":1}}},"metadata":{"name":"a"}}"#);
        insta::assert_snapshot!(text(DocumentShape::Identity), @r#"{"apiVersion":"v1","kind":"Pod","cluster":"m","search":{"resource":"pods","rejected":"odd"},"metadata":{"name":"a","annotations":{"fleetdex.io/redacted":"$"}}}"#);
        // The second is made from the first, too.
        assert_eq!(
            fallback(
                text(DocumentShape::Unindexed).as_bytes(),
                DocumentShape::Identity,
                "odd: other"
            )
            .unwrap()
            .as_ref(),
            text(DocumentShape::Identity).as_bytes()
        );
    }
}
