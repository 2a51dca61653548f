//! Parts of CRD schemas: bounded lists and texts, with rules that refuse values that cannot work.
//!
//! Every list and text has an upper bound. The apiserver needs them to bound the cost of a CEL rule
//! before it accepts a CRD.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::core::ApiResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Name of the schema keyword that holds CEL rules.
pub const VALIDATIONS: &str = "x-kubernetes-validations";

const NAMESPACE: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
/// What a namespace has to be.
pub const NAMESPACE_HELP: &str =
    "a namespace is a DNS label: lower-case letters, digits and '-', at most 63";
/// What an address of a store has to be.
pub const ADDRESS_HELP: &str =
    "an address is a URL with a scheme and a host, such as https://opensearch.example.com:9200";
/// What an address of a store must not hold.
pub const PLAIN_ADDRESS_HELP: &str = "an address must not hold a user, a password, a query or a fragment: remove '@', '?' and '#', and put credentials into the \
                                      Secret that secretRef names";
/// The operators of label selectors.
pub const LABEL_OPERATORS: &str = "operator must be In, NotIn, Exists or DoesNotExist";
/// The message of [`VALUES_NEEDED`].
pub const VALUES_NEEDED_HELP: &str = "In and NotIn need at least one value";
/// The message of [`VALUES_REFUSED`].
pub const VALUES_REFUSED_HELP: &str = "Exists and DoesNotExist take no values";
/// Most entries of any list of names.
const NAMES: usize = 256;

/// CEL rules for [`VALIDATIONS`], from pairs of expression and message.
pub fn rules(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(rule, message)| json!({"rule": rule, "message": message}))
        .collect()
}

/// A namespace, or empty text for all of them.
pub fn namespace(_: &mut SchemaGenerator) -> Schema {
    let rule = format!("self == '' || {NAMESPACE}");
    json_schema!({"type": "string", "maxLength": 63, VALIDATIONS: rules(&[(&rule, NAMESPACE_HELP)])})
}

/// A list of namespaces.
pub fn namespaces(_: &mut SchemaGenerator) -> Schema {
    texts(NAMES, 63, &[(NAMESPACE, NAMESPACE_HELP)])
}

/// A list of cluster names. A Cluster API member is `<namespace>/<name>`.
pub fn cluster_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 4096, "items": {"type": "string", "maxLength": 317}})
}

/// A list of addresses.
pub fn addresses(_: &mut SchemaGenerator) -> Schema {
    let address = "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''";
    let plain = "!self.contains('@') && !self.contains('?') && !self.contains('#')";
    texts(
        64,
        2048,
        &[(address, ADDRESS_HELP), (plain, PLAIN_ADDRESS_HELP)],
    )
}

/// A list of dotted paths.
pub fn field_paths(_: &mut SchemaGenerator) -> Schema {
    // \x27 is the quote around a key.
    let path = r"self.matches('^[A-Za-z_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+|\\[\\x27[A-Za-z0-9_./-]+\\x27\\])*$')";
    texts(
        64,
        256,
        &[(
            path,
            "a field path is dotted, such as spec.template.spec.schedulerName or metadata.annotations['example.com/team'], without a leading dot and without list indices",
        )],
    )
}

/// A list of paths to remove: the outer shape of a `JSONPath` of kubectl.
/// `fleetdex_core::model::Projection` parses them in full.
pub fn redactions(_: &mut SchemaGenerator) -> Schema {
    let path = r"self.matches('^[{]?[$@]?([.]{0,2}(([A-Za-z0-9_/-]|\\\\[^A-Za-z0-9])+|[*])|\\[[^\\[\\]]+\\])+[}]?$')";
    let help = "write a JSONPath such as spec.template.spec.containers[*].env, or metadata.annotations['example\\.com/token'] for a key \
                with dots";
    texts(64, 256, &[(path, help)])
}

/// A `metav1.LabelSelector` whose operators are known and whose values fit them.
pub fn label_selector(_: &mut SchemaGenerator) -> Schema {
    let requirement = rules(&[
        (
            "self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']",
            LABEL_OPERATORS,
        ),
        (VALUES_NEEDED, VALUES_NEEDED_HELP),
        (VALUES_REFUSED, VALUES_REFUSED_HELP),
    ]);
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that must have exactly these values.",
                "maxProperties": 32,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "matchExpressions": {
                "type": "array",
                "description": "Requirements that must all hold.",
                "maxItems": 32,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    VALIDATIONS: requirement,
                    "properties": {
                        "key": {"type": "string", "description": "The label's key.", "maxLength": 317},
                        "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist.", "maxLength": 16},
                        "values": {
                            "type": "array",
                            "description": "The values to compare with.",
                            "maxItems": 256,
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63},
                        },
                    },
                },
            },
        },
    })
}

/// `In` and `NotIn` compare with values.
pub const VALUES_NEEDED: &str =
    "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)";
/// `Exists` and `DoesNotExist` do not.
pub const VALUES_REFUSED: &str =
    "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0";

/// The schema of `T` as the items of a list with at most `most` of them.
pub fn list_of<T: JsonSchema>(generator: &mut SchemaGenerator, most: usize) -> Schema {
    let items = generator.subschema_for::<T>();
    json_schema!({"type": "array", "maxItems": most, "items": items})
}

/// The same for a list that needs at least one item; `empty` is the message for an empty list.
pub fn some_of<T: JsonSchema>(generator: &mut SchemaGenerator, most: usize, empty: &str) -> Schema {
    let mut schema = list_of::<T>(generator, most);
    schema.insert(VALIDATIONS.to_owned(), rules(&[("size(self) > 0", empty)]));
    schema
}

/// The message for an empty list of resources.
pub const RESOURCES_NEEDED: &str =
    "name at least one resource, such as {apiVersion: v1, kind: Pod}";

/// A list of texts, each of which follows the rules.
fn texts(most: usize, longest: usize, item_rules: &[(&str, &str)]) -> Schema {
    let items = json!({"type": "string", "maxLength": longest, VALIDATIONS: rules(item_rules)});
    json_schema!({"type": "array", "maxItems": most, "items": items})
}

/// Makes fields required that may be absent when an object is read: another server may have
/// accepted it. Required fields and objects have no default.
pub(crate) fn requires(names: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        let fields = schema
            .get_mut("properties")
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten();
        for (name, field) in fields {
            let is_required = names.contains(&name.as_str());
            let Some(field) = field.as_object_mut() else {
                continue;
            };
            if is_required || field.get("default").is_some_and(Value::is_object) {
                field.shift_remove("default");
            }
        }
        schema.insert("required".to_owned(), json!(names));
    }
}

/// A value of any type.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// An object with any fields.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The names of a kind without a namespace, whose objects are those of another kind otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterScoped {
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short_name: &'static str,
    pub(crate) description: &'static str,
}

impl ClusterScoped {
    /// The kind in the group and version of the kind with a namespace.
    pub(crate) fn api_resource(&self, namespaced: ApiResource) -> ApiResource {
        ApiResource {
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
            ..namespaced
        }
    }
}

/// The CRD of the kind without a namespace, from that of the kind with one.
pub(crate) fn cluster_scoped(
    mut crd: CustomResourceDefinition,
    wanted: &ClusterScoped,
) -> CustomResourceDefinition {
    "Cluster".clone_into(&mut crd.spec.scope);
    crd.metadata.name = Some(format!("{}.{}", wanted.plural, crd.spec.group));
    let names = &mut crd.spec.names;
    wanted.kind.clone_into(&mut names.kind);
    wanted.plural.clone_into(&mut names.plural);
    names.singular = Some(wanted.kind.to_lowercase());
    names.short_names = Some(vec![wanted.short_name.to_owned()]);
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        if let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            root.description = Some(wanted.description.to_owned());
        }
    }
    crd
}

/// A CRD that takes no `null`: the API server drops it then, and a rule never meets it.
pub(crate) fn without_null(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    each_schema(&mut crd, &mut |schema| schema.nullable = None);
    crd
}

/// Changes the schema of each object, field and item of a CRD.
pub(crate) fn each_schema(
    crd: &mut CustomResourceDefinition,
    change: &mut dyn FnMut(&mut JSONSchemaProps),
) {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        if let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            each_below(root, change);
        }
    }
}

fn each_below(schema: &mut JSONSchemaProps, change: &mut dyn FnMut(&mut JSONSchemaProps)) {
    change(schema);
    for field in schema
        .properties
        .iter_mut()
        .flat_map(|all| all.values_mut())
    {
        each_below(field, change);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        each_below(items, change);
    }
}
