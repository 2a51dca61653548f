//! Lua states in which hostile scripts run.
//!
//! * A run has [`MAX_INTERRUPTS`] loop iterations and function calls, [`TIME_LIMIT`] and
//!   [`MEMORY_BYTES`] of memory beside what it is given. The first bound is there so that results
//!   do not depend on load; it is reached before the second one wherever a script does little in
//!   each iteration. A script that catches the error of a bound with `pcall` fails all the same.
//! * Each run has a table of globals of its own. All that runs share (libraries, methods of
//!   strings) is read-only.
//! * A state in which a run reached a bound is thrown away.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::{Duration, Instant},
};

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, VmState, chunk::ChunkMode};
use serde_json::Value;

use super::{
    convert,
    error::ScriptError,
    kube,
    member_order::{self, MemberOrder},
    program::Program,
};

/// Loop iterations and function calls of one run. That many empty iterations take about 25 ms. The
/// loops of published scripts are over the conditions and lists of their object; a list of an
/// object of 3 MiB has 50,000 items of 60 bytes.
pub const MAX_INTERRUPTS: u32 = 500_000;
/// The time of one run, as upstream.
pub const TIME_LIMIT: Duration = Duration::from_secs(1);
/// What the time between two interrupts counts at most, so that a pause of the process does not end
/// a run. The longest calls of the libraries take about 150 ms.
const MAX_STEP_TIME: Duration = Duration::from_millis(250);
/// The memory that one run may take beside its input.
pub const MEMORY_BYTES: usize = 16 << 20;
/// Garbage of earlier runs is collected before a run when there is more of it than this.
const GARBAGE_BYTES: usize = 4 << 20;
/// Loaded scripts in one state. A fleet has about 250 kinds with a script.
const MAX_LOADED: usize = 512;

const PRELUDE: &str = include_str!("prelude.luau");
const MEMBER_ORDER: &str = include_str!("member_order.luau");

/// What `member_order.luau` returns.
type MemberFunctions = (Function, Function, Function, Function, Function, Table);

/// Whose globals a script has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptDialect {
    /// Those of Argo CD's health scripts.
    ArgoCd,
    /// Those of Karmada's customizations.
    Karmada,
}

thread_local! {
    static SANDBOX: RefCell<Sandbox> = RefCell::new(Sandbox::default());
}

/// Runs a script in the states of this thread. `body` converts arguments, calls functions and reads
/// results.
pub(super) fn run<T>(
    dialect: ScriptDialect,
    program: &Program,
    body: impl FnOnce(&Run<'_>) -> Result<T, ScriptError>,
) -> Result<T, ScriptError> {
    SANDBOX.with_borrow_mut(|sandbox| sandbox.run(dialect, program, body))
}

/// The states of one thread: one for each dialect, made when it is first needed.
#[derive(Default)]
pub(super) struct Sandbox {
    argo_cd: Option<ScriptState>,
    karmada: Option<ScriptState>,
    last_run: Option<Result<(), ScriptError>>,
}

/// How the last run of this thread ended: an error is the bound that it has reached. `None`: there
/// was none since the last call.
pub fn take_last_run() -> Option<Result<(), ScriptError>> {
    SANDBOX.with_borrow_mut(|sandbox| sandbox.last_run.take())
}

impl Sandbox {
    pub(super) fn run<T>(
        &mut self,
        dialect: ScriptDialect,
        program: &Program,
        body: impl FnOnce(&Run<'_>) -> Result<T, ScriptError>,
    ) -> Result<T, ScriptError> {
        let slot = match dialect {
            ScriptDialect::ArgoCd => &mut self.argo_cd,
            ScriptDialect::Karmada => &mut self.karmada,
        };
        let state = match slot {
            Some(state) => state,
            None => slot.insert(ScriptState::new(dialect)?),
        };
        let result = state.run(program, body);
        self.last_run = Some(match &result {
            Err(
                bound @ (ScriptError::OutOfMemory
                | ScriptError::OutOfSteps
                | ScriptError::OutOfTime),
            ) => {
                *slot = None;
                Err(bound.clone())
            }
            _ => Ok(()),
        });
        result
    }
}

struct ScriptState {
    lua: Lua,
    fresh_globals: Function,
    /// Forgets where the last run was in its tables.
    forget_walks: Function,
    loaded: HashMap<u64, Function>,
    meter: Rc<Meter>,
    /// Memory after the last collection.
    base_bytes: usize,
}

impl ScriptState {
    fn new(dialect: ScriptDialect) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let order: MemberFunctions = lua
            .load(MEMBER_ORDER)
            .set_name("=member_order")
            .call(lua.create_function(member_order::document_names)?)?;
        let (pairs, next, iterate, getmetatable, forget_walks, number) = order;
        let fresh_globals = lua.load(PRELUDE).set_name("=prelude").call((
            kube::library(&lua)?,
            dialect == ScriptDialect::Karmada,
            pairs,
            next,
            iterate,
            getmetatable,
        ))?;
        lua.set_app_data(MemberOrder::new(number));
        lua.sandbox(true)?;
        let meter = Rc::new(Meter::default());
        let interrupted = Rc::clone(&meter);
        lua.set_interrupt(move |_| interrupted.count());
        Ok(Self {
            base_bytes: lua.used_memory(),
            lua,
            fresh_globals,
            forget_walks,
            loaded: HashMap::new(),
            meter,
        })
    }

    fn run<T>(
        &mut self,
        program: &Program,
        body: impl FnOnce(&Run<'_>) -> Result<T, ScriptError>,
    ) -> Result<T, ScriptError> {
        let (globals, main) = self.prepare(program)?;
        let result = body(&Run {
            state: self,
            globals,
            main,
        });
        match self.meter.reached.take() {
            Some(bound) => Err(bound),
            None => result,
        }
    }

    fn prepare(&mut self, program: &Program) -> mlua::Result<(Table, Function)> {
        self.meter.start();
        self.collect_garbage()?;
        self.forget_walks.call::<()>(())?;
        if let Some(mut order) = self.lua.app_data_mut::<MemberOrder>() {
            order.start(program.visits_members());
        }
        let globals: Table = self.fresh_globals.call(())?;
        let main = self.load(program)?;
        main.set_environment(globals.clone())?;
        Ok((globals, main))
    }

    fn collect_garbage(&mut self) -> mlua::Result<()> {
        if self.lua.used_memory() > self.base_bytes + GARBAGE_BYTES {
            self.lua.gc_collect()?;
            self.base_bytes = self.lua.used_memory();
        }
        Ok(())
    }

    fn load(&mut self, program: &Program) -> mlua::Result<Function> {
        if let Some(function) = self.loaded.get(&program.id()) {
            return Ok(function.clone());
        }
        if self.loaded.len() >= MAX_LOADED {
            self.loaded.clear();
        }
        let function = self
            .lua
            .load(program.bytecode())
            .set_name("=script")
            .set_mode(ChunkMode::Binary)
            .into_function()?;
        self.loaded.insert(program.id(), function.clone());
        Ok(function)
    }
}

pub(super) struct Run<'s> {
    state: &'s ScriptState,
    globals: Table,
    main: Function,
}

impl Run<'_> {
    pub(super) fn set_global(&self, name: &str, value: &Value) -> Result<(), ScriptError> {
        Ok(self.globals.raw_set(name, self.value(value)?)?)
    }

    pub(super) fn value(&self, value: &Value) -> Result<mlua::Value, ScriptError> {
        convert::to_lua(&self.state.lua, value)
    }

    /// Runs the text of the script.
    pub(super) fn main(&self) -> Result<MultiValue, ScriptError> {
        self.call(&self.main, Vec::new())
    }

    /// The global function of a name, once the text has run.
    pub(super) fn function(&self, name: &'static str) -> Result<Function, ScriptError> {
        match self.globals.raw_get(name) {
            Ok(mlua::Value::Function(function)) => Ok(function),
            _ => Err(ScriptError::MissingFunction(name)),
        }
    }

    /// Calls a function of the script. The limit is on the script's own memory: objects are
    /// converted outside of it, which is also faster.
    pub(super) fn call(
        &self,
        function: &Function,
        arguments: Vec<mlua::Value>,
    ) -> Result<MultiValue, ScriptError> {
        let lua = &self.state.lua;
        lua.set_memory_limit(lua.used_memory() + MEMORY_BYTES)?;
        let result = function.call(MultiValue::from_iter(arguments));
        lua.set_memory_limit(0)?;
        Ok(result?)
    }
}

/// Counts what a run does.
#[derive(Default)]
struct Meter {
    steps_left: Cell<u32>,
    time_left: Cell<Duration>,
    /// When the last interrupt was.
    last: Cell<Option<Instant>>,
    /// The bound that ended the run.
    reached: Cell<Option<ScriptError>>,
}

impl Meter {
    fn start(&self) {
        self.steps_left.set(MAX_INTERRUPTS);
        self.time_left.set(TIME_LIMIT);
        self.last.set(Some(Instant::now()));
        self.reached.set(None);
    }

    fn count(&self) -> mlua::Result<VmState> {
        let steps_left = self.steps_left.get();
        if steps_left == 0 {
            return self.end(ScriptError::OutOfSteps);
        }
        self.steps_left.set(steps_left - 1);
        let now = Instant::now();
        let last = self.last.replace(Some(now)).unwrap_or(now);
        let step = now.duration_since(last).min(MAX_STEP_TIME);
        match self.time_left.get().checked_sub(step) {
            Some(left) => self.time_left.set(left),
            None => return self.end(ScriptError::OutOfTime),
        }
        Ok(VmState::Continue)
    }

    fn end(&self, bound: ScriptError) -> mlua::Result<VmState> {
        self.reached.set(self.reached.take().or(Some(bound)));
        Err(mlua::Error::runtime("script takes too long"))
    }
}

#[cfg(test)]
mod tests;
