//! JSON to Lua values and back, as gopher-lua's hosts convert them.
//!
//! To Lua: null is an absent key (and no item of a list), numbers are floats, lists start at 1, and
//! an empty map is the same as an empty list. Back: a table with the positions 1 to n is a list,
//! one with names a map with sorted keys, and an empty one an empty list, which [`super::empty`]
//! then judges. Sources: `decodeValue` of Argo CD's `util/lua` and of Karmada's `luavm`,
//! `layeh.com/gopher-json`.

use mlua::{AppDataRefMut, Lua, Table};
use serde_json::{Map, Number, Value};

use super::{error::ScriptError, member_order::MemberOrder};

/// Objects nest less: the parser of JSON refuses those that nest deeper.
const MAX_DEPTH: usize = 128;
/// What a value costs beside its text, in bytes.
const VALUE_BYTES: usize = 48;
/// The largest object; API servers take objects of at most 3 MiB.
const MAX_INPUT_BYTES: usize = 64 << 20;
/// The largest result. No object that an API server takes is larger.
const MAX_RESULT_BYTES: usize = 16 << 20;

/// A value as Lua has it.
pub fn to_lua(lua: &Lua, value: &Value) -> Result<mlua::Value, ScriptError> {
    let mut writer = TableWriter {
        lua,
        order: lua
            .app_data_mut()
            .filter(|order: &AppDataRefMut<'_, MemberOrder>| order.is_needed()),
        left: MAX_INPUT_BYTES,
    };
    writer.value(value, 0)
}

struct TableWriter<'l> {
    lua: &'l Lua,
    /// If the script visits members.
    order: Option<AppDataRefMut<'l, MemberOrder>>,
    left: usize,
}

impl TableWriter<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<mlua::Value, ScriptError> {
        Ok(match value {
            Value::Null => mlua::Value::Nil,
            Value::Bool(flag) => mlua::Value::Boolean(*flag),
            Value::Number(number) => mlua::Value::Number(float(number)),
            Value::String(text) => {
                self.spend(text.len())?;
                mlua::Value::String(self.lua.create_string(text)?)
            }
            Value::Array(items) => mlua::Value::Table(self.list(items, depth)?),
            Value::Object(members) => mlua::Value::Table(self.map(members, depth)?),
        })
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<Table, ScriptError> {
        let table = self.table(items.len(), 0, depth)?;
        let present = items.iter().filter(|item| !item.is_null());
        for (position, item) in (1..).zip(present) {
            self.set(&table, Key::Position(position), item, depth)?;
        }
        Ok(table)
    }

    fn map(&mut self, members: &Map<String, Value>, depth: usize) -> Result<Table, ScriptError> {
        let table = self.table(0, members.len(), depth)?;
        for (key, member) in members.iter().filter(|(_, member)| !member.is_null()) {
            self.spend(key.len())?;
            self.set(&table, Key::Name(key), member, depth)?;
        }
        if let Some(order) = &mut self.order {
            order.order(self.lua, &table, members)?;
        }
        Ok(table)
    }

    fn table(&mut self, items: usize, members: usize, depth: usize) -> Result<Table, ScriptError> {
        if depth >= MAX_DEPTH {
            return Err(ScriptError::ObjectTooLarge);
        }
        self.spend((items + members) * VALUE_BYTES)?;
        Ok(self.lua.create_table_with_capacity(items, members)?)
    }

    /// Sets texts and numbers without making values of them first: that is most of what an object
    /// has.
    fn set(
        &mut self,
        table: &Table,
        key: Key<'_>,
        value: &Value,
        depth: usize,
    ) -> Result<(), ScriptError> {
        match value {
            Value::String(text) => {
                self.spend(text.len())?;
                key.set(table, text.as_str())?;
            }
            Value::Bool(flag) => key.set(table, *flag)?,
            Value::Number(number) => key.set(table, float(number))?,
            other => key.set(table, self.value(other, depth + 1)?)?,
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ScriptError> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or(ScriptError::ObjectTooLarge)?;
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Key<'k> {
    Position(i64),
    Name(&'k str),
}

impl Key<'_> {
    fn set(self, table: &Table, value: impl mlua::IntoLua) -> mlua::Result<()> {
        match self {
            Self::Position(position) => table.raw_set(position, value),
            Self::Name(name) => table.raw_set(name, value),
        }
    }
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// A value of a script as JSON.
pub fn from_lua(value: &mlua::Value) -> Result<Value, ScriptError> {
    let mut reader = Reader {
        left: MAX_RESULT_BYTES,
    };
    reader.value(value, 0)
}

struct Reader {
    left: usize,
}

impl Reader {
    fn value(&mut self, value: &mlua::Value, depth: usize) -> Result<Value, ScriptError> {
        self.spend(VALUE_BYTES)?;
        match value {
            mlua::Value::Nil => Ok(Value::Null),
            mlua::Value::Boolean(flag) => Ok(Value::Bool(*flag)),
            mlua::Value::Integer(integer) => Ok((*integer).into()),
            mlua::Value::Number(number) => finite(*number),
            mlua::Value::String(text) => {
                self.spend(text.as_bytes().len())?;
                Ok(Value::String(text.to_string_lossy()))
            }
            mlua::Value::Table(table) => self.table(table, depth),
            other => Err(invalid(&format!("a {} is no JSON", other.type_name()))),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Value, ScriptError> {
        if depth >= MAX_DEPTH {
            return Err(invalid("tables are nested too deep, or contain themselves"));
        }
        let mut items = Vec::new();
        let mut members = Vec::new();
        let mut failure = None;
        let walk = table.for_each(|key: mlua::Value, value: mlua::Value| {
            let read = self
                .value(&value, depth + 1)
                .and_then(|value| self.entry(&key, value, &mut items, &mut members));
            read.map_err(|error| {
                failure = Some(error);
                mlua::Error::runtime("unreadable")
            })
        });
        match (walk, failure) {
            (Ok(()), None) => assemble(items, members),
            (_, Some(error)) => Err(error),
            (Err(error), None) => Err(error.into()),
        }
    }

    fn entry(
        &mut self,
        key: &mlua::Value,
        value: Value,
        items: &mut Vec<(i64, Value)>,
        members: &mut Vec<(String, Value)>,
    ) -> Result<(), ScriptError> {
        match key {
            mlua::Value::Integer(position) => items.push((*position, value)),
            mlua::Value::String(name) => {
                self.spend(name.as_bytes().len())?;
                members.push((name.to_string_lossy(), value));
            }
            other => {
                let text = format!("a {} is no key of JSON", other.type_name());
                return Err(invalid(&text));
            }
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ScriptError> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or_else(|| invalid("it is too large"))?;
        Ok(())
    }
}

fn assemble(
    mut items: Vec<(i64, Value)>,
    mut members: Vec<(String, Value)>,
) -> Result<Value, ScriptError> {
    if members.is_empty() {
        items.sort_by_key(|(position, _)| *position);
        let positions = items.iter().map(|(position, _)| *position);
        if !positions.eq((1..).take(items.len())) {
            return Err(invalid("a list has holes"));
        }
        return Ok(items.into_iter().map(|(_, item)| item).collect());
    }
    if !items.is_empty() {
        return Err(invalid("a table has both positions and names"));
    }
    members.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Value::Object(members.into_iter().collect()))
}

/// A whole number is an integer, as in the JSON that gopher-json writes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the number is whole and within the bounds of the type"
)]
fn finite(number: f64) -> Result<Value, ScriptError> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-BOUND..BOUND).contains(&number) {
        return Ok((number as i64).into());
    }
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| invalid("a number is infinite or no number"))
}

fn invalid(text: &str) -> ScriptError {
    ScriptError::result(text)
}
