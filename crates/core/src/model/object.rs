//! Objects of members: the metadata parsed, everything else as the bytes that were received.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    Version,
    json::{Members, Text},
    json_scanner::{JsonContainer, JsonScanner, RawJson, ScanFault},
    json_tree::{JsonTree, TreeMembers},
    member_mask::MemberMask,
    object_limits::{MAX_DEPTH, MAX_OBJECT_BYTES, ObjectError, check_size},
    well_known::LAST_APPLIED,
};

/// An object, borrowed from the bytes of a list page or a watch line.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The JSON that it was parsed from.
    pub(crate) json: &'a str,
    pub(crate) metadata: ObjectMetadata<'a>,
    /// Top-level members other than `apiVersion`, `kind` and `metadata`, in their order.
    pub(crate) rest: Vec<(Text<'a>, RawJson<'a>)>,
    /// The containers of the members that are raw.
    containers: Vec<JsonContainer>,
    version: Version,
}

impl<'a> Object<'a> {
    /// Parses an object. For one that cannot be indexed but can be identified, also returns the
    /// reason.
    ///
    /// An object that is too large has only its metadata.
    pub fn parse_any(json: &'a str) -> Result<(Self, Option<ObjectError>), ObjectError> {
        let Err(unfit) = check_size(json) else {
            return Self::parse_sized(json);
        };
        match TopLevel::scan_metadata(json).map_err(|fault| fault.of(json))? {
            Some(top) => Ok((Self::new(json, top)?, Some(unfit))),
            None => Err(unfit),
        }
    }

    /// Parses an object that can be indexed.
    pub fn parse(json: &'a str) -> Result<Self, ObjectError> {
        check_size(json)?;
        match Self::parse_sized(json)? {
            (object, None) => Ok(object),
            (_, Some(unfit)) => Err(unfit),
        }
    }

    /// Parses an object that is not too large, but may be too deep.
    fn parse_sized(json: &'a str) -> Result<(Self, Option<ObjectError>), ObjectError> {
        let top = TopLevel::scan(json).map_err(|fault| fault.of(json))?;
        let unfit = (top.depth > MAX_DEPTH).then_some(ObjectError::TooDeep);
        Ok((Self::new(json, top)?, unfit))
    }

    fn new(json: &'a str, top: TopLevel<'a>) -> Result<Self, ObjectError> {
        let metadata = top.metadata.ok_or(ObjectError::Missing("name"))?;
        if metadata.name.0.is_empty() {
            return Err(ObjectError::Missing("name"));
        }
        if metadata.uid.0.is_empty() {
            return Err(ObjectError::Missing("uid"));
        }
        let version = metadata.resource_version.0.parse()?;
        Ok(Self {
            json,
            metadata,
            rest: top.rest,
            containers: top.containers,
            version,
        })
    }

    /// The object with nothing but its name, namespace, UID and version.
    pub(crate) fn identity(&self) -> Self {
        let metadata = ObjectMetadata {
            name: self.metadata.name.clone(),
            namespace: self.metadata.namespace.clone(),
            uid: self.metadata.uid.clone(),
            resource_version: self.metadata.resource_version.clone(),
            ..ObjectMetadata::default()
        };
        Self {
            json: self.json,
            metadata,
            rest: Vec::new(),
            containers: Vec::new(),
            version: self.version,
        }
    }

    /// The JSON that it was parsed from.
    pub fn json(&self) -> &'a str {
        self.json
    }

    /// `metadata.name`
    pub fn name(&self) -> &str {
        &self.metadata.name.0
    }

    /// `metadata.namespace`; absent for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata
            .namespace
            .as_ref()
            .map(|text| &*text.0)
            .filter(|namespace| !namespace.is_empty())
    }

    /// `metadata.uid`
    pub fn uid(&self) -> &str {
        &self.metadata.uid.0
    }

    /// `metadata.resourceVersion`
    pub fn version(&self) -> Version {
        self.version
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata
            .labels
            .0
            .iter()
            .find(|(name, _)| name.0 == key)
            .map(|(_, value)| &*value.0)
    }

    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata
            .labels
            .0
            .iter()
            .map(|(key, value)| (&*key.0, &*value.0))
    }

    /// The members that a mask names, with the `apiVersion` and `kind` of the object's resource,
    /// which items of lists lack. Without the annotation that holds a copy of the object.
    pub fn tree<'t>(&self, api_version: &'t str, kind: &'t str, mask: &MemberMask) -> JsonTree<'t>
    where
        'a: 't,
    {
        let kept = &self.containers;
        let metadata = mask
            .member("metadata")
            .map(|mask| ("metadata".into(), self.metadata.tree(mask, kept).into()));
        let rest = masked(&self.rest, kept, mask);
        let head = [("apiVersion", api_version), ("kind", kind)];
        let head = head
            .into_iter()
            .map(|(name, text)| (name.into(), text.into()));
        head.chain(metadata)
            .chain(rest)
            .collect::<TreeMembers<'t>>()
            .into()
    }

    pub(crate) fn member(&self, name: &str) -> Option<RawJson<'a>> {
        self.rest
            .iter()
            .find(|(key, _)| key.0 == name)
            .map(|(_, value)| *value)
    }
}

/// Those of raw members that a mask names.
fn masked<'t, 'a: 't>(
    members: &[(Text<'a>, RawJson<'a>)],
    kept: &[JsonContainer],
    mask: &MemberMask,
) -> impl Iterator<Item = (Cow<'t, str>, JsonTree<'t>)> {
    members.iter().filter_map(|(name, value)| {
        let below = mask.member(&name.0)?;
        Some((name.0.clone(), JsonTree::of_scanned(*value, kept, below)))
    })
}

struct TopLevel<'a> {
    metadata: Option<ObjectMetadata<'a>>,
    rest: Vec<(Text<'a>, RawJson<'a>)>,
    containers: Vec<JsonContainer>,
    depth: usize,
}

impl<'a> TopLevel<'a> {
    fn scan(json: &'a str) -> Result<Self, ScanFault> {
        let mut metadata = None;
        let mut rest = Vec::with_capacity(4);
        let mut scanner = JsonScanner::keeping(json);
        scanner.object(|scanner, name| {
            match &*name {
                "metadata" => metadata = Some(ObjectMetadata::scan(scanner)?),
                "apiVersion" | "kind" => drop(scanner.skip()?),
                _ => rest.push((Text(name), scanner.value()?)),
            }
            Ok(())
        })?;
        scanner.end()?;
        Ok(Self {
            metadata,
            rest,
            depth: scanner.deepest,
            containers: scanner.containers,
        })
    }

    /// Of a too large object, only the metadata. `None` if that is too large, too.
    fn scan_metadata(json: &'a str) -> Result<Option<Self>, ScanFault> {
        let mut metadata = "";
        let mut scanner = JsonScanner::new(json);
        scanner.object(|scanner, name| {
            let value = scanner.skip()?;
            if name == "metadata" {
                metadata = value;
            }
            Ok(())
        })?;
        scanner.end()?;
        let depth = scanner.deepest;
        if metadata.len() > MAX_OBJECT_BYTES {
            return Ok(None);
        }
        let mut scanner = JsonScanner::new(metadata);
        let parsed = match metadata {
            "" => None,
            _ => Some(ObjectMetadata::scan(&mut scanner)?),
        };
        Ok(Some(Self {
            metadata: parsed,
            rest: Vec::new(),
            containers: scanner.containers,
            depth,
        }))
    }
}

/// The parts of `metadata` that the index needs, and the rest of it as raw members. `managedFields`
/// is skipped.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectMetadata<'a> {
    pub name: Text<'a>,
    pub namespace: Option<Text<'a>>,
    pub uid: Text<'a>,
    pub resource_version: Text<'a>,
    pub labels: Members<'a, Text<'a>>,
    pub annotations: Members<'a, RawJson<'a>>,
    pub owners: Vec<OwnerReference<'a>>,
    pub rest: Vec<(Text<'a>, RawJson<'a>)>,
}

impl<'a> ObjectMetadata<'a> {
    fn scan(scanner: &mut JsonScanner<'a>) -> Result<Self, ScanFault> {
        let mut metadata = Self {
            rest: Vec::with_capacity(6),
            ..Self::default()
        };
        scanner.object(|scanner, name| {
            match &*name {
                "name" => metadata.name = Text(scanner.string()?),
                "namespace" => metadata.namespace = Some(Text(scanner.string()?)),
                "uid" => metadata.uid = Text(scanner.string()?),
                "resourceVersion" => metadata.resource_version = Text(scanner.string()?),
                "labels" => {
                    metadata.labels = Members::read(scanner, |scanner| scanner.string().map(Text))?;
                }
                "annotations" => metadata.annotations = Members::read(scanner, JsonScanner::value)?,
                "managedFields" => drop(scanner.skip()?),
                "ownerReferences" => {
                    let value = scanner.value()?;
                    metadata.owners = owner_references(value.get());
                    metadata.rest.push((Text(name), value));
                }
                _ => metadata.rest.push((Text(name), scanner.value()?)),
            }
            Ok(())
        })?;
        Ok(metadata)
    }

    /// The members that a mask names.
    fn tree<'t>(&self, mask: &MemberMask, kept: &[JsonContainer]) -> TreeMembers<'t>
    where
        'a: 't,
    {
        let texts = [
            ("name", Some(&self.name)),
            ("namespace", self.namespace.as_ref()),
            ("uid", Some(&self.uid)),
            ("resourceVersion", Some(&self.resource_version)),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| {
            mask.member(name)?;
            Some((name.into(), JsonTree::String(text?.0.clone())))
        });
        let labels = mask
            .member("labels")
            .map(|mask| ("labels".into(), self.labels_tree(mask).into()));
        let annotations = mask.member("annotations").map(|mask| {
            let annotations = masked(&self.annotations.0, kept, mask);
            let shown = annotations.filter(|(name, _)| name != LAST_APPLIED);
            (
                "annotations".into(),
                shown.collect::<TreeMembers<'t>>().into(),
            )
        });
        texts
            .chain(labels)
            .chain(annotations)
            .chain(masked(&self.rest, kept, mask))
            .collect()
    }

    fn labels_tree<'t>(&self, mask: &MemberMask) -> TreeMembers<'t>
    where
        'a: 't,
    {
        let labels = self.labels.0.iter();
        labels
            .filter(|(key, _)| mask.member(&key.0).is_some())
            .map(|(key, value)| (key.0.clone(), JsonTree::String(value.0.clone())))
            .collect()
    }
}

/// What is read of an entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct OwnerReference<'a> {
    #[serde(borrow)]
    pub uid: Text<'a>,
    #[serde(borrow, default)]
    pub name: Text<'a>,
}

fn owner_references(json: &str) -> Vec<OwnerReference<'_>> {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(spec: &str) -> Result<(), ObjectError> {
        let json = format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"1"}},"spec":{spec}}}"#
        );
        Object::parse(&json).map(drop)
    }

    #[test]
    fn an_object_has_bounds_in_length_and_depth() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parsed(&nested(499)).is_ok());
        assert!(matches!(parsed(&nested(500)), Err(ObjectError::TooDeep)));
        assert!(matches!(
            parsed(&nested(1_000_000)),
            Err(ObjectError::TooDeep)
        ));
        // Many are not deep, and those in a string are none.
        assert!(parsed(&format!("[{}1]", "[],".repeat(2_000))).is_ok());
        assert!(
            parsed(&format!(
                r#""{}\"{}""#,
                "[{".repeat(2_000),
                "[{".repeat(2_000)
            ))
            .is_ok()
        );
        assert!(matches!(
            parsed(&format!("\"{}\"", "x".repeat(MAX_OBJECT_BYTES))),
            Err(ObjectError::TooLarge(_))
        ));
        let maps = |count: usize| format!("[{}]", vec![r#"{"":0}"#; count].join(","));
        assert!(parsed(&maps(10_000)).is_ok());
        assert_eq!(
            parsed(&maps(200_000)).unwrap_err().to_string(),
            "the object takes more than the 64 MiB that one may take when it is parsed"
        );
    }

    #[test]
    fn an_object_that_cannot_be_indexed_still_says_which_one_it_is() {
        let object = |metadata: &str, spec: &str| {
            format!(
                r#"{{"spec":{spec},"metadata":{{"name":"a","uid":"u",{metadata}"resourceVersion":"7"}}}}"#
            )
        };
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = format!("\"{}\"", "x".repeat(MAX_OBJECT_BYTES));
        let many = format!("[{}{{}}]", r#"{"":0},"#.repeat(200_000));
        for spec in [&deep, &long, &many] {
            let json = object(r#""labels":{"a":"b"},"#, spec);
            let (parsed, unfit) = Object::parse_any(&json).unwrap();
            assert!(
                matches!(
                    unfit,
                    Some(
                        ObjectError::TooDeep
                            | ObjectError::TooLarge(_)
                            | ObjectError::TooLargeParsed
                    )
                ),
                "{unfit:?}"
            );
            assert_eq!(
                (parsed.uid(), parsed.label("a"), parsed.version().get()),
                ("u", Some("b"), 7)
            );
            assert!(
                Object::parse_any(&json[..json.len() - 1])
                    .unwrap_err()
                    .is_cut_off()
            );
        }
        assert!(Object::parse_any(&object("", "1")).unwrap().1.is_none());
        assert!(matches!(
            Object::parse_any(&object(&format!("\"x\":{long},"), "1")),
            Err(ObjectError::TooLarge(_))
        ));
        assert!(matches!(
            Object::parse_any(r#"{"metadata":{"name":7}}"#),
            Err(ObjectError::Malformed(_))
        ));
    }
}
