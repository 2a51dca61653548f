//! What an answer can look like.

/// What an answer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A document that is no object, such as discovery.
    Document,
    /// One object.
    Object,
    /// A list of objects.
    List,
    /// Counts, which a Table can show, too.
    Counts,
    /// A stream of events.
    Watch,
}

/// How an answer is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// What is shown of objects.
    pub form: Form,
    /// The language.
    pub encoding: Encoding,
    /// With line breaks and indents; YAML always has them.
    pub pretty: bool,
}

/// What is shown of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They themselves.
    Whole,
    /// A row of cells for each.
    Table(MetaVersion, IncludeObject),
    /// Their metadata: `PartialObjectMetadata`.
    Metadata(MetaVersion),
}

/// The version of `meta.k8s.io` that a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`
    V1,
    /// `v1beta1`, for clients older than Kubernetes 1.15.
    V1Beta1,
}

impl MetaVersion {
    /// As it stands in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a row of a Table carries beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The object.
    Object,
}

/// The language of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

impl Encoding {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }

    pub(super) fn subtype(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }
}

impl Representation {
    /// Whole objects as compact JSON.
    pub const PLAIN: Self = Self {
        form: Form::Whole,
        encoding: Encoding::Json,
        pretty: false,
    };
}
