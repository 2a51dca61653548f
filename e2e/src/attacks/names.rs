//! What the parts of attacks call the same.

/// Users that may query everything.
pub const ATTACKERS: &str = "attackers";
/// Users that may query one namespace, [`TENANT`].
pub const TENANTS: &str = "tenants";
/// The namespace of the tenants.
pub const TENANT: &str = "tenant";
/// The namespace of most objects of attacks.
pub const ATTACKED: &str = "attacked";
/// The group of the kinds of attacks.
pub const KINDS: &str = "attacks.example.com";
/// How many members the objects of one attack may be in.
pub const MERGED_MEMBERS: usize = 4;
