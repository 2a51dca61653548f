//! JSON patches (RFC 6902), one operation after another. The values of operations stay text, so
//! that a patch takes no more memory than its text and that of the result.

use std::borrow::Cow;

use fleetdex_core::model::{
    JsonScanner, MEMBER_VERSION_ANNOTATION as VERSION_ANNOTATION, REDACTED_ANNOTATION, ScanFault,
    client_metadata::is_fleetdex_annotation,
};

use super::object::{BodyError, VersionLookup, object, translated};

const ANNOTATIONS: &str = "/metadata/annotations";
const METADATA: &str = "/metadata";
const VERSION: &str = "/metadata/resourceVersion";

/// The members of one operation that RFC 6902 defines, as JSON. It has servers ignore all others.
#[derive(Default)]
struct PatchOperation<'a> {
    op: Option<Cow<'a, str>>,
    from: Option<Cow<'a, str>>,
    path: Option<Cow<'a, str>>,
    value: Option<Cow<'a, str>>,
}

/// Translates a patch. Operations on our annotations are dropped, as the member does not have
/// these.
pub(super) fn json_patch(text: &str, lookup: VersionLookup<'_>) -> Result<Vec<u8>, BodyError> {
    let mut tested = None;
    for_each_operation(text, |operation| {
        if tested.is_none() && text_of(operation.op.as_deref()) == "test" {
            let key = our_annotation(&text_of(operation.path.as_deref()));
            tested = key
                .filter(|key| key == VERSION_ANNOTATION)
                .and_then(|_| string(operation.value.as_deref()?));
        }
        Ok(())
    })?;
    let lookup = |version: &str| tested.clone().or_else(|| lookup(version));
    let mut out = String::from("[");
    for_each_operation(text, |operation| {
        if let Some(operation) = operation.for_member(&lookup)? {
            if out.len() > 1 {
                out.push(',');
            }
            operation.write(&mut out);
        }
        Ok(())
    })?;
    out.push(']');
    Ok(out.into_bytes())
}

fn for_each_operation<'a>(
    text: &'a str,
    mut each: impl FnMut(PatchOperation<'a>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let mut scanner = JsonScanner::new(text);
    let mut refused = None;
    let read = scanner.array(|scanner| {
        let operation = PatchOperation::read(scanner)?;
        each(operation).map_err(|error| {
            refused = Some(error);
            scanner.fault()
        })
    });
    let read = read.and_then(|()| scanner.end());
    match refused {
        Some(error) => Err(error),
        None => read.map_err(|fault| BodyError::Malformed(fault.of(text).to_string())),
    }
}

impl<'a> PatchOperation<'a> {
    /// Of a member that is there several times, the last one counts.
    fn read(scanner: &mut JsonScanner<'a>) -> Result<Self, ScanFault> {
        let mut operation = Self::default();
        scanner.object(|scanner, name| {
            let value = Some(Cow::Borrowed(scanner.skip()?));
            match &*name {
                "op" => operation.op = value,
                "from" => operation.from = value,
                "path" => operation.path = value,
                "value" => operation.value = value,
                _ => {}
            }
            Ok(())
        })?;
        Ok(operation)
    }

    fn for_member(mut self, lookup: VersionLookup<'_>) -> Result<Option<Self>, BodyError> {
        let op = text_of(self.op.as_deref());
        if let Some(key) = our_annotation(&text_of(self.from.as_deref())) {
            return Err(BodyError::Malformed(format!(
                "{op} from the annotation {key}, which the object does not have in its cluster"
            )));
        }
        let path = text_of(self.path.as_deref());
        if let Some(key) = our_annotation(&path) {
            if op != "remove" && key == REDACTED_ANNOTATION {
                let shown = self.value.map(Cow::into_owned);
                return Err(BodyError::Redacted(shown.unwrap_or_default()));
            }
            let tests_version = op == "test" && key == VERSION_ANNOTATION;
            self.path = Some(Cow::Owned(quoted(VERSION)));
            return Ok(tests_version.then_some(self));
        }
        if let Some(value) = &self.value {
            let changed = match path.as_str() {
                VERSION => match string(value) {
                    Some(version) => Some(quoted(&translated(&version, lookup)?)),
                    None => None,
                },
                "" | METADATA | ANNOTATIONS if value.starts_with('{') => {
                    Some(changed_value(&path, value, lookup)?)
                }
                _ => None,
            };
            self.value = changed.map(Cow::Owned).or(self.value);
        }
        Ok(Some(self))
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        let members = [
            ("\"op\":", &self.op),
            ("\"from\":", &self.from),
            ("\"path\":", &self.path),
            ("\"value\":", &self.value),
        ];
        let mut separator = "";
        for (name, value) in members {
            if let Some(value) = value {
                out.push_str(separator);
                out.push_str(name);
                out.push_str(value);
                separator = ",";
            }
        }
        out.push('}');
    }
}

/// A value that is the metadata, or contains them, or a part of them.
fn changed_value(path: &str, value: &str, lookup: VersionLookup<'_>) -> Result<String, BodyError> {
    let (wrapped, inside): (String, &[&str]) = match path {
        ANNOTATIONS => (
            format!(r#"{{"metadata":{{"annotations":{value}}}}}"#),
            &["metadata", "annotations"],
        ),
        METADATA => (format!(r#"{{"metadata":{value}}}"#), &["metadata"]),
        _ => (value.to_owned(), &[]),
    };
    let changed = object(&wrapped, false, lookup)?;
    let changed =
        String::from_utf8(changed).map_err(|error| BodyError::Malformed(error.to_string()))?;
    let mut shown = Some(changed.as_str());
    for name in inside {
        shown = shown.and_then(|object| member(object, name));
    }
    Ok(shown.unwrap_or("{}").to_owned())
}

/// The last member of a name of a JSON object.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    let read = JsonScanner::new(object).object(|scanner, key| {
        let value = scanner.skip()?;
        if key == name {
            found = Some(value);
        }
        Ok(())
    });
    read.ok().and(found)
}

/// The text of a JSON string; `None` for other values.
fn string(json: &str) -> Option<String> {
    JsonScanner::new(json).string().ok().map(Cow::into_owned)
}

/// The text of a member; empty if it is no string, or not there.
fn text_of(json: Option<&str>) -> String {
    json.and_then(string).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The key of our annotation that a JSON pointer refers to.
fn our_annotation(pointer: &str) -> Option<String> {
    let key = pointer.strip_prefix(ANNOTATIONS)?.strip_prefix('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    is_fleetdex_annotation(&key).then_some(key)
}
