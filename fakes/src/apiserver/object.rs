//! Stored objects: JSON text without the resource version, which is the etcd revision and is
//! inserted on read.

use std::{borrow::Cow, sync::Arc};

use fleetdex_core::{
    model::Resource,
    selector::{FieldSelector, LabelSelector},
};
use serde_json::{Map, Value};

use super::{
    identity::Identity,
    managed::ManagedFields,
    resource::{is_built_in, split_key},
    status::Status,
};
use crate::{
    json::{push_number, push_text},
    pods::Pod,
};

/// One version of an object. Clones are cheap.
#[derive(Clone, Debug)]
pub(super) enum Object {
    /// The text as written.
    Text(Arc<Text>),
    /// Generated on read.
    Pod(Pod),
}

/// An object as text, split at the resource version and at the end of the metadata.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    identity: Identity,
    managed: ManagedFields,
    has_finalizers: bool,
    labels: Vec<(String, String)>,
    /// `{"name":…,"resourceVersion":"`
    head: Box<str>,
    /// `",…}`
    tail: Box<str>,
    /// `,"spec":…`, without the end of the object.
    rest: Box<str>,
}

impl Object {
    /// Creates an object from the body of a client. Kind, resource version, identity and managed
    /// fields are set by the server and ignored in the body.
    pub(super) fn from_value(
        key: &str,
        identity: &Identity,
        mut object: Map<String, Value>,
    ) -> Self {
        let metadata = match object.shift_remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        object.retain(|member, _| member != "apiVersion" && member != "kind");
        let mut rest = String::new();
        for (member, value) in &object {
            push_member(&mut rest, member, value);
        }
        let finalizers = metadata.get("finalizers").and_then(Value::as_array);
        Self::Text(Arc::new(Text {
            identity: identity.clone(),
            managed: ManagedFields::default(),
            has_finalizers: finalizers.is_some_and(|finalizers| !finalizers.is_empty()),
            labels: labels_of(&metadata),
            head: head(key, identity).into(),
            tail: tail(identity, &metadata).into(),
            rest: rest.into(),
        }))
    }

    /// The same object with managed fields.
    pub(super) fn managed_by(self, managed: ManagedFields, api_version: &str) -> Self {
        let Self::Text(text) = self else {
            return self;
        };
        if managed.is_empty() {
            return Self::Text(text);
        }
        let mut tail = String::from(text.tail.strip_suffix('}').unwrap_or(&text.tail));
        push_member(&mut tail, "managedFields", &managed.to_json(api_version));
        tail.push('}');
        Self::Text(Arc::new(Text {
            identity: text.identity.clone(),
            managed,
            has_finalizers: text.has_finalizers,
            labels: text.labels.clone(),
            head: text.head.clone(),
            tail: tail.into(),
            rest: text.rest.clone(),
        }))
    }

    /// Who owns its fields.
    pub(super) fn managed(&self) -> ManagedFields {
        match self {
            Self::Text(text) => text.managed.clone(),
            Self::Pod(_) => ManagedFields::default(),
        }
    }

    /// Whether it stays, when its deletion is requested, until they are gone.
    pub(super) fn has_finalizers(&self) -> bool {
        match self {
            Self::Text(text) => text.has_finalizers,
            Self::Pod(_) => false,
        }
    }

    /// Returns the identity.
    pub(super) fn identity(&self) -> Identity {
        match self {
            Self::Text(text) => text.identity.clone(),
            Self::Pod(pod) => Identity {
                uid: pod.uid(),
                created: pod.created(),
                deleted: None,
            },
        }
    }

    /// Whether a write of `other` would not change anything.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(text), Self::Text(other)) => text == other,
            (Self::Pod(pod), Self::Pod(other)) => pod == other,
            _ => false,
        }
    }

    fn labels(&self) -> Cow<'_, [(String, String)]> {
        match self {
            Self::Text(text) => (&text.labels).into(),
            Self::Pod(pod) => pod.labels().into(),
        }
    }

    fn write_metadata(&self, version: u64, out: &mut String) {
        match self {
            Self::Text(text) => {
                out.push_str(&text.head);
                push_number(out, version);
                out.push_str(&text.tail);
            }
            Self::Pod(pod) => pod.write_metadata(version, out),
        }
    }

    fn write_rest(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&text.rest),
            Self::Pod(pod) => pod.write_rest(out),
        }
    }
}

fn head(key: &str, identity: &Identity) -> String {
    let (namespace, name) = split_key(key);
    let mut head = String::with_capacity(128);
    head.push_str("{\"name\":");
    push_text(&mut head, name);
    if let Some(namespace) = namespace {
        head.push_str(",\"namespace\":");
        push_text(&mut head, namespace);
    }
    head.push_str(",\"uid\":");
    push_text(&mut head, &identity.uid);
    head.push_str(",\"resourceVersion\":\"");
    head
}

fn tail(identity: &Identity, metadata: &Map<String, Value>) -> String {
    const SERVER_FIELDS: [&str; 8] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ];
    let mut tail = String::from("\",\"creationTimestamp\":");
    push_text(&mut tail, &identity.created);
    if let Some(deleted) = &identity.deleted {
        tail.push_str(",\"deletionTimestamp\":");
        push_text(&mut tail, deleted);
        tail.push_str(",\"deletionGracePeriodSeconds\":0");
    }
    for (member, value) in metadata {
        let is_empty = value.is_null()
            || value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty && !SERVER_FIELDS.contains(&member.as_str()) {
            push_member(&mut tail, member, value);
        }
    }
    tail.push('}');
    tail
}

fn labels_of(metadata: &Map<String, Value>) -> Vec<(String, String)> {
    let labels = metadata.get("labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

fn push_member(out: &mut String, member: &str, value: &Value) {
    out.push(',');
    push_text(out, member);
    out.push(':');
    out.push_str(&value.to_string());
}

/// The representation of objects that a request accepts.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// `"kind":"Pod","apiVersion":"v1",`
    type_meta: Box<str>,
    list_type_meta: Box<str>,
    bare_items: bool,
    metadata_only: bool,
}

impl Form {
    pub(super) fn new(resource: &Resource, metadata_only: bool) -> Self {
        let (kind, api_version) = if metadata_only {
            ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned())
        } else {
            (&*resource.gvk.kind, resource.gvk.api_version())
        };
        Self {
            type_meta: format!("\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").into(),
            list_type_meta: format!("\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",")
                .into(),
            bare_items: !metadata_only && is_built_in(resource),
            metadata_only,
        }
    }

    /// Writes an object.
    pub(super) fn object(&self, object: &Object, version: u64, out: &mut String) {
        self.write(object, version, false, out);
    }

    /// Writes an item of a list.
    pub(super) fn item(&self, object: &Object, version: u64, out: &mut String) {
        self.write(object, version, self.bare_items, out);
    }

    fn write(&self, object: &Object, version: u64, bare: bool, out: &mut String) {
        out.push('{');
        if !bare {
            out.push_str(&self.type_meta);
        }
        out.push_str("\"metadata\":");
        object.write_metadata(version, out);
        if !self.metadata_only {
            object.write_rest(out);
        }
        out.push('}');
    }

    /// Writes the start of a list, up to its metadata.
    pub(super) fn list(&self, out: &mut String) {
        out.push('{');
        out.push_str(&self.list_type_meta);
        out.push_str("\"metadata\":");
    }

    /// Writes a watch event.
    pub(super) fn event(&self, kind: &str, object: &Object, version: u64, out: &mut String) {
        for part in ["{\"type\":\"", kind, "\",\"object\":"] {
            out.push_str(part);
        }
        self.object(object, version, out);
        out.push_str("}\n");
    }

    /// Writes a bookmark.
    pub(super) fn bookmark(&self, version: u64, out: &mut String) {
        for part in [
            "{\"type\":\"BOOKMARK\",\"object\":{",
            &self.type_meta,
            "\"metadata\":{\"resourceVersion\":\"",
        ] {
            out.push_str(part);
        }
        push_number(out, version);
        out.push_str("\"}}}\n");
    }
}

/// Returns the error event that ends a watch.
pub(super) fn error_line(status: &Status) -> String {
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_json())
}

/// The label and field selectors of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Selectors {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selectors {
    /// Parses the selectors of a request. The only supported fields are name and namespace.
    pub(super) fn parse(labels: &str, fields: &str) -> Result<Self, Status> {
        let rejected = |error| Status::bad_request(format!("unable to parse requirement: {error}"));
        let selectors = Self {
            labels: labels.parse().map_err(rejected)?,
            fields: fields.parse().map_err(rejected)?,
        };
        for requirement in selectors.fields.requirements() {
            let path = requirement.path.as_str();
            if !["metadata.name", "metadata.namespace"].contains(&path) {
                return Err(Status::bad_request(format!(
                    "field label not supported: {path}"
                )));
            }
        }
        Ok(selectors)
    }

    /// Whether they select every object.
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, key: &str, object: &Object) -> bool {
        if self.is_empty() {
            return true;
        }
        let (namespace, name) = split_key(key);
        let field = |path: &str| match path {
            "metadata.name" => Some(name.into()),
            _ => namespace.map(Into::into),
        };
        if !self.fields.matches(field) {
            return false;
        }
        let labels = if self.labels.is_empty() {
            Cow::default()
        } else {
            object.labels()
        };
        self.labels.matches(|label| {
            labels
                .iter()
                .find(|(known, _)| known == label)
                .map(|(_, value)| value.as_str())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(object: Value) -> Object {
        let Value::Object(object) = object else {
            panic!("no object")
        };
        let identity = Identity {
            uid: "u1".into(),
            created: "2026-01-01T00:00:00Z".into(),
            deleted: None,
        };
        Object::from_value("web/a", &identity, object)
    }

    fn form(plural: &str, metadata_only: bool) -> Form {
        let resources = super::super::resource::usual();
        Form::new(
            resources
                .iter()
                .find(|resource| &*resource.plural == plural)
                .unwrap(),
            metadata_only,
        )
    }

    #[test]
    fn the_server_replaces_its_metadata_and_keeps_the_rest_of_an_object() {
        let object = config_map(json!({
            "apiVersion": "x", "kind": "y",
            "metadata": { "name": "ignored", "uid": "ignored", "labels": { "a": "b\"" }, "annotations": {} },
            "data": { "k": "v" },
        }));
        let mut text = String::new();
        form("configmaps", false).object(&object, 120, &mut text);
        assert_eq!(
            text,
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"web","uid":"u1","resourceVersion":"120","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b\""}},"data":{"k":"v"}}"#
        );
        assert_eq!(object.identity().created, "2026-01-01T00:00:00Z");
        let same =
            config_map(json!({ "metadata": { "labels": { "a": "b\"" } }, "data": { "k": "v" } }));
        assert!(object.equals(&same));
        assert!(!object.equals(&config_map(json!({ "data": { "k": "v" } }))));
    }

    #[test]
    fn items_of_built_in_kinds_do_not_repeat_their_kind() {
        let object = config_map(json!({ "data": {} }));
        let item = |form: &Form| {
            let mut text = String::new();
            form.item(&object, 1, &mut text);
            text
        };
        assert!(item(&form("configmaps", false)).starts_with(r#"{"metadata""#));
        assert!(
            item(&form("widgets", false))
                .starts_with(r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata""#)
        );
        let metadata = item(&form("configmaps", true));
        assert!(
            metadata.starts_with(r#"{"kind":"PartialObjectMetadata""#)
                && !metadata.contains("data\":{}"),
            "{metadata}"
        );
    }

    #[test]
    fn selectors_support_labels_name_and_namespace_and_reject_other_fields() {
        let object = config_map(json!({ "metadata": { "labels": { "app": "x" } } }));
        let matches = |labels: &str, fields: &str| {
            Selectors::parse(labels, fields)
                .unwrap()
                .matches("web/a", &object)
        };
        assert!(matches(
            "app=x,!tier",
            "metadata.name=a,metadata.namespace!=x"
        ));
        assert!(!matches("app!=x", "") && !matches("", "metadata.name=b"));
        assert_eq!(
            Selectors::parse("", "spec.nodeName=a").unwrap_err().code,
            400
        );
        assert_eq!(Selectors::parse("a=,=", "").unwrap_err().code, 400);
    }
}
