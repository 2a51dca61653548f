//! The order in which scripts visit the members of an object.
//!
//! A table of the engine forgets the order in which its keys were set. So the sequence of members
//! is kept, once for all objects that have it, and is the metatable of their tables;
//! `member_order.luau` visits these, and hides it. A script that names no function that visits
//! members needs none of this.

use std::hash::{Hash, Hasher};

use indexmap::{Equivalent, IndexMap};
use mlua::{Lua, Table};
use serde_json::{Map, Value};

use super::error::ScriptError;

/// Sequences that are kept from one run to the next, and the bytes of their names. The objects of
/// 250 kinds have about 10,000 sequences, of some 30 bytes each.
const MAX_SEQUENCES: usize = 16 << 10;
const MAX_NAME_BYTES: usize = 1 << 20;
/// New sequences of one run. The engine has room for a million references of the host, and an
/// object that may be parsed has 100,000 maps.
const MAX_NEW_SEQUENCES: usize = 500_000;

/// The sequences of members of one state.
pub struct MemberOrder {
    /// The key of its number in the metatable of a sequence.
    number: Table,
    metatables: IndexMap<NameSequence, Table, ahash::RandomState>,
    name_bytes: usize,
    /// Whether the script of this run visits members.
    is_needed: bool,
}

impl MemberOrder {
    /// That of a state which has converted no objects yet.
    pub fn new(number: Table) -> Self {
        Self {
            number,
            metatables: IndexMap::default(),
            name_bytes: 0,
            is_needed: false,
        }
    }

    /// Whether objects need their sequences in this run.
    pub fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// Begins a run. Forgets all sequences if there are too many.
    pub fn start(&mut self, is_needed: bool) {
        self.is_needed = is_needed;
        if self.metatables.len() > MAX_SEQUENCES || self.name_bytes > MAX_NAME_BYTES {
            self.metatables = IndexMap::default();
            self.name_bytes = 0;
        }
    }

    /// Gives a table the sequence of the members that it was made of. Fails if there are too many.
    pub fn order(
        &mut self,
        lua: &Lua,
        table: &Table,
        members: &Map<String, Value>,
    ) -> Result<(), ScriptError> {
        if let Some(metatable) = self.metatables.get(&MemberNames(members)) {
            return Ok(table.set_metatable(Some(metatable.clone()))?);
        }
        if self.metatables.len() >= MAX_SEQUENCES + MAX_NEW_SEQUENCES {
            return Err(ScriptError::ObjectTooLarge);
        }
        let metatable = lua.create_table()?;
        metatable.raw_set(&self.number, self.metatables.len())?;
        table.set_metatable(Some(metatable.clone()))?;
        let sequence = NameSequence(present_names(members).map(Into::into).collect());
        self.name_bytes += sequence.0.iter().map(|name| name.len()).sum::<usize>();
        self.metatables.insert(sequence, metatable);
        Ok(())
    }
}

/// The names of a sequence, by its number, as a list.
pub fn document_names(lua: &Lua, number: usize) -> mlua::Result<Table> {
    let order = lua.app_data_ref::<MemberOrder>();
    let sequence = order
        .as_ref()
        .and_then(|order| order.metatables.get_index(number));
    let names = sequence.map_or(&[][..], |(names, _)| &*names.0);
    lua.create_sequence_from(names.iter().map(|name| &**name))
}

/// A table has no member that is null.
fn present_names(members: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let present = members.iter().filter(|(_, member)| !member.is_null());
    present.map(|(name, _)| name.as_str())
}

#[derive(PartialEq, Eq)]
struct NameSequence(Box<[Box<str>]>);

impl Hash for NameSequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|name| name.hash(state));
    }
}

/// The sequence that an object's members have.
struct MemberNames<'m>(&'m Map<String, Value>);

impl Hash for MemberNames<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        present_names(self.0).for_each(|name| name.hash(state));
    }
}

impl Equivalent<NameSequence> for MemberNames<'_> {
    fn equivalent(&self, sequence: &NameSequence) -> bool {
        present_names(self.0).eq(sequence.0.iter().map(|name| &**name))
    }
}
