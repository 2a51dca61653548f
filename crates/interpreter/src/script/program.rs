//! Scripts as bytecode.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mlua::chunk::Compiler;

use super::{error::ScriptError, rewrite};

/// The longest script. The longest ones published for Argo CD and Karmada have 20 kB.
pub(super) const MAX_SCRIPT_BYTES: usize = 256 << 10;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A script that has been compiled once, for every thread.
#[derive(Clone, Debug)]
pub struct Program {
    id: u64,
    bytecode: Arc<[u8]>,
    visits_members: bool,
}

impl Program {
    /// Compiles a text in gopher-lua's dialect.
    pub(super) fn compile(text: &str) -> Result<Self, ScriptError> {
        if text.len() > MAX_SCRIPT_BYTES {
            return Err(ScriptError::TooLong(MAX_SCRIPT_BYTES));
        }
        let luau = rewrite::to_luau(text)?;
        let bytecode = Compiler::new()
            .set_optimization_level(1)
            .set_debug_level(1)
            .compile(luau.as_bytes())
            .map_err(|error| syntax_error(&error))?;
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            bytecode: bytecode.into(),
            visits_members: rewrite::visits_members(text),
        })
    }

    /// Unlike that of any other program of this process.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it may visit the members of objects.
    pub(super) fn visits_members(&self) -> bool {
        self.visits_members
    }

    /// What the virtual machine loads.
    pub(super) fn bytecode(&self) -> &[u8] {
        &self.bytecode
    }
}

/// The compiler's message is `LINE: REASON`.
fn syntax_error(error: &mlua::Error) -> ScriptError {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let located = text
        .split_once(':')
        .and_then(|(line, reason)| Some((line.parse().ok()?, reason.trim().to_owned())));
    let (line, reason) = located.unwrap_or((1, text));
    ScriptError::Syntax { line, reason }
}
