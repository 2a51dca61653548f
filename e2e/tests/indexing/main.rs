//! Documents follow objects: what registries, members and kinds come to, and tools that tests are made of.

mod clustercache;
mod defined_fields;
mod discovery;
mod manifests;
mod objects;
mod registry;
mod sources;
mod tools;
mod verify;
