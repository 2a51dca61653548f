//! Documents follow objects: changes of registries, members and kinds; and tests of the test tools.

mod clustercache;
mod defined_fields;
mod discovery;
mod doctor;
mod events;
mod index_settings;
mod interpretation;
mod manifests;
mod monitoring;
mod objects;
mod registry;
mod shared_connections;
mod sources;
mod tools;
mod traces;
mod verify;
