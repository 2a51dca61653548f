//! The fields of documents, in one place: the writer of documents, the mapping, queries and
//! dashboards name them by these constants. What Kubernetes names, such as the members of
//! `metadata`, has its names there.
//!
//! A constant of this module is the path of a field, as OpenSearch has it in queries and responses.
//! [`members`] has the names of the same fields within a document's `search`, as the writer and the
//! mapping have them.

/// `apiVersion` of the object.
pub const API_VERSION: &str = "apiVersion";
/// `kind` of the object.
pub const KIND: &str = "kind";
/// The member that holds the object.
pub const CLUSTER: &str = "cluster";
/// What Fleetdex adds to the object.
pub const SEARCH: &str = "search";
/// The name of the object.
pub const NAME: &str = "metadata.name";
/// The namespace of the object.
pub const NAMESPACE: &str = "metadata.namespace";
/// The UID of the object.
pub const UID: &str = "metadata.uid";
/// The version of the object in its member.
pub const RESOURCE_VERSION: &str = "metadata.resourceVersion";
/// When the object was created.
pub const CREATION_TIMESTAMP: &str = "metadata.creationTimestamp";
/// The replicas that the object declares.
pub const DESIRED_REPLICAS: &str = "search.replicas.desired";
/// The replicas that are ready.
pub const READY_REPLICAS: &str = "search.replicas.ready";
/// The cores that all replicas of the object request.
pub const CPU: &str = "search.resources.cpu";
/// The bytes of memory that all replicas of the object request.
pub const MEMORY: &str = "search.resources.memory";

/// The health and its cause, as a pattern.
pub const HEALTH_FIELDS: &str = "search.health*";
/// Every field below [`SORT`], as a pattern.
pub const SORT_FIELDS: &str = "search.sort.*";
/// Every field below [`NATIVE`], as a pattern.
pub const NATIVE_FIELDS: &str = "search.native.*";

/// Defines a path and a member for each field of `search`.
macro_rules! search_fields {
    ($($(#[doc = $doc:literal])+ $name:ident = $member:literal;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = concat!("search.", $member);)*

        /// The names of the fields within a document's `search`.
        pub mod members {
            $($(#[doc = $doc])+ pub const $name: &str = $member;)*
        }
    };
}

search_fields! {
    /// The plural of the resource.
    RESOURCE = "resource";
    /// The group of the resource.
    GROUP = "group";
    /// Labels, as [`label_term`](crate::query::label_term).
    LABELS = "labels";
    /// The keys of labels.
    LABEL_KEYS = "labelKeys";
    /// Values of selectable fields, as [`field_term`](crate::query::field_term).
    FIELDS = "fields";
    /// Numbers of labels and of selectable fields, whose terms sort as the numbers do.
    NUMBERS = "numbers";
    /// The least value of each selectable field, by [`sort_field`](crate::model::sort_field).
    SORT = "sort";
    /// The UIDs of owners.
    OWNERS = "owners";
    /// The names of owners.
    OWNER_NAMES = "ownerNames";
    /// The keys of annotations.
    ANNOTATION_KEYS = "annotationKeys";
    /// Why only a part of the object is indexed.
    REJECTED = "rejected";
    /// The word of health.
    HEALTH = "health";
    /// A word for the cause of the health.
    HEALTH_REASON = "healthReason";
    /// A sentence about the cause of the health.
    HEALTH_MESSAGE = "healthMessage";
    /// Declared and ready replicas.
    REPLICAS = "replicas";
    /// Requested cores and memory.
    RESOURCES = "resources";
    /// Images, each in the spellings that it is found by.
    IMAGES = "images";
    /// The objects that the object refers to, each as `apiVersion/kind/namespace/name`.
    DEPENDENCIES = "dependencies";
    /// The rules that interpreted the object.
    INTERPRETED_BY = "interpretedBy";
    /// The hash of the rules by which the document was made.
    RULES_HASH = "rulesHash";
    /// When the document was made.
    INDEXED_AT = "indexedAt";
    /// Members of the object that are stored and not indexed.
    NATIVE = "native";
    /// With `indexing: Full`: the values of every path of the object.
    LEAVES = "leaves";
}
