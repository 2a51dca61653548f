//! What an attack is: objects in hostile members, and requests.

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{member::HostileMember, volley::Volley};

/// One attack.
#[derive(Clone)]
pub struct Attack {
    /// Its number in the table in lower case: `h1`.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// Objects in hostile members.
    pub planted: Vec<Planted>,
    /// A path that is answered 200 once the objects are indexed.
    pub probe: Option<String>,
    /// The requests.
    pub volleys: Vec<Volley>,
}

/// How large attacks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackSize {
    /// Enough for a test: what is kept for each object is the same, and there are fewer objects.
    Brief,
    /// As in the table.
    Full,
}

/// The members that have an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberNumber {
    /// One.
    First,
    /// All those without redactions.
    Merged,
    /// The one whose registry redacts `..x`.
    Redacted,
}

/// An object of hostile members.
#[derive(Clone, Debug)]
pub struct Planted {
    /// The members.
    pub member: MemberNumber,
    resource: String,
    object: Value,
    /// A text that stands where the object has [`TEXT`].
    text: Option<Bytes>,
    /// The resource and the name of the owner, in the same namespace.
    owner: Option<(&'static str, String)>,
    /// Whether it changes every second.
    pub changes: bool,
}

/// Stands for the text of an object.
pub const TEXT: &str = "<text>";

impl Attack {
    /// Without objects.
    pub fn of_requests(name: &'static str, what: &'static str, volleys: Vec<Volley>) -> Self {
        Self {
            name,
            what,
            planted: Vec::new(),
            probe: None,
            volleys,
        }
    }
}

impl AttackSize {
    /// One of two counts.
    pub fn of(self, full: usize, brief: usize) -> usize {
        match self {
            Self::Brief => brief,
            Self::Full => full,
        }
    }
}

impl Planted {
    /// An object of the first member.
    pub fn new(resource: &str, object: Value) -> Self {
        Self {
            member: MemberNumber::First,
            resource: resource.to_owned(),
            object,
            text: None,
            owner: None,
            changes: false,
        }
    }

    /// In other members.
    #[must_use]
    pub fn within(mut self, member: MemberNumber) -> Self {
        self.member = member;
        self
    }

    /// With this JSON where the object has [`TEXT`].
    #[must_use]
    pub fn with_text(mut self, text: impl Into<Bytes>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Owned by an object that is planted before it.
    #[must_use]
    pub fn owned_by(mut self, resource: &'static str, name: &str) -> Self {
        self.owner = Some((resource, name.to_owned()));
        self
    }

    /// Changing every second.
    #[must_use]
    pub fn changing(mut self) -> Self {
        self.changes = true;
        self
    }

    fn name(&self) -> (Option<&str>, &str) {
        let metadata = &self.object["metadata"];
        (
            metadata["namespace"].as_str(),
            metadata["name"].as_str().unwrap_or_default(),
        )
    }

    /// Writes it.
    pub fn plant(&self, member: &HostileMember) -> Result<()> {
        member
            .server
            .apply(&self.resource, self.object_of(member)?)
            .map(drop)
            .with_context(|| format!("{}: writing {}", member.name, self.resource))
    }

    /// Writes it once more with a change.
    pub fn change(&self, member: &HostileMember, round: u64) -> Result<()> {
        let mut object = self.object_of(member)?;
        object["metadata"]["labels"]["attacks.example.com/round"] = json!(round.to_string());
        member.server.apply(&self.resource, object)?;
        Ok(())
    }

    /// Removes it.
    pub fn remove(&self, member: &HostileMember) -> Result<()> {
        let (namespace, name) = self.name();
        member.server.delete(&self.resource, namespace, name)?;
        Ok(())
    }

    fn object_of(&self, member: &HostileMember) -> Result<Value> {
        let mut object = self.object.clone();
        let (namespace, name) = self.name();
        if let Some((resource, owner)) = &self.owner {
            let found = member.server.object(resource, namespace, owner)?;
            let found = found.with_context(|| format!("no owner {owner}"))?;
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": found["apiVersion"], "kind": found["kind"], "name": owner, "uid": found["metadata"]["uid"],
            }]);
        }
        if let Some(text) = &self.text {
            let mark = member.text(&format!("{}/{name}", self.resource), text.clone());
            replace_text(&mut object, &mark);
        }
        Ok(object)
    }
}

fn replace_text(value: &mut Value, mark: &str) {
    match value {
        Value::String(text) if text == TEXT => mark.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_text(item, mark)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace_text(member, mark)),
        _ => {}
    }
}
