//! AST to OpenSearch JSON.
