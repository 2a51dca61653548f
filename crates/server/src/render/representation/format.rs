//! The dimensions of a representation.

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A document that is no object, such as discovery.
    Document,
    /// One object.
    Object,
    /// A list of objects.
    List,
    /// Counts, which may be a Table, too.
    Counts,
    /// A stream of events.
    Watch,
}

/// How a response is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// The kind of output.
    pub output: OutputKind,
    /// The encoding.
    pub encoding: Encoding,
    /// With line breaks and indents; YAML always has them.
    pub pretty: bool,
}

/// The kind of output: objects, or what they are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Objects.
    Object,
    /// A Table with a row for each object.
    Table(MetaVersion, IncludeObject),
    /// `PartialObjectMetadata`.
    PartialMetadata(MetaVersion),
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
    /// The `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a row of a Table contains besides its cells.
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

/// The encoding of a response.
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
        output: OutputKind::Object,
        encoding: Encoding::Json,
        pretty: false,
    };
}
