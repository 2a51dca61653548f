//! Objects as documents.
/// A document.
#[derive(Debug)]
pub struct Document;
/// An object that cannot become a document.
#[derive(Debug, thiserror::Error)]
#[error("")]
pub struct DocumentError;
/// What of an object is stored.
#[derive(Debug, Clone, Default)]
pub struct Projection;
