//! The scripts of a `ResourceInterpreterCustomization`.
//!
//! A script defines one global function, named after its operation. Source:
//! <https://karmada.io/docs/userguide/globalview/customizing-resource-interpreter/>,
//! `luavm/lua.go`.

use std::{collections::HashMap, sync::Arc};

use mlua::MultiValue;

use super::{
    error::ScriptError,
    program::Program,
    sandbox::{self, Run, ScriptDialect},
};
use crate::{Operation, Request, Response, health};

mod result;

/// A script that answers one operation. A clone shares the bytecode.
#[derive(Clone, Debug)]
pub struct Script {
    operation: Operation,
    function: &'static str,
    program: Program,
}

/// Compiles each text once.
#[derive(Debug, Default)]
pub struct ScriptCompiler(HashMap<(Operation, Arc<str>), Result<Script, ScriptError>>);

impl ScriptCompiler {
    /// The same as [`Script::compile`].
    pub fn compile(
        &mut self,
        operation: Operation,
        text: &Arc<str>,
    ) -> Result<Script, ScriptError> {
        let known = self.0.entry((operation, Arc::clone(text)));
        let compile = || Script::compile(operation, text);
        known.or_insert_with(compile).clone()
    }
}

impl Script {
    /// Compiles a script, and runs its text once to see that it defines its function.
    pub fn compile(operation: Operation, text: &str) -> Result<Self, ScriptError> {
        let function = function_of(operation).ok_or(ScriptError::Operation(operation))?;
        let script = Self {
            operation,
            function,
            program: Program::compile(text)?,
        };
        sandbox::run(ScriptDialect::Karmada, &script.program, |run| {
            run.main()?;
            run.function(function).map(drop)
        })?;
        Ok(script)
    }

    /// The operation that the script answers.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Runs the script in a state of this thread. That may take a second; a typical script takes
    /// less than 100 µs.
    pub fn run(&self, request: &Request<'_>) -> Result<Response, ScriptError> {
        if request.operation() != self.operation {
            return Err(ScriptError::Operation(request.operation()));
        }
        match (request, self.run_with(NoItems::Nil, request)) {
            (Request::AggregateStatus { items: [], .. }, Err(ScriptError::Raised(_))) => {
                self.run_with(NoItems::EmptyTable, request)
            }
            (_, result) => result,
        }
    }

    fn run_with(&self, no_items: NoItems, request: &Request<'_>) -> Result<Response, ScriptError> {
        sandbox::run(ScriptDialect::Karmada, &self.program, |run| {
            run.main()?;
            let function = run.function(self.function)?;
            let results = run.call(&function, arguments(run, no_items, request)?)?;
            self.response(request, &results)
        })
    }

    fn response(
        &self,
        request: &Request<'_>,
        results: &MultiValue,
    ) -> Result<Response, ScriptError> {
        let returned_at = |position| result::Returned {
            function: self.function,
            value: results.get(position).unwrap_or(&mlua::Value::Nil),
        };
        let returned = returned_at(0);
        Ok(match *request {
            Request::Replica { .. } => Response::Replica {
                replicas: returned.replicas()?,
                requirements: returned_at(1).requirements()?,
            },
            Request::Component { .. } => Response::Components(returned.components()?),
            Request::Revise { object, .. } => Response::Revised(returned.object(&[object])?),
            Request::Retain { desired, observed } => {
                Response::Retained(returned.object(&[desired, observed])?)
            }
            Request::AggregateStatus { .. } => Response::AggregatedStatus(returned.object(&[])?),
            Request::Status { .. } => Response::Status(returned.status()?),
            Request::Health { object } => {
                let healthy = returned.healthy()?;
                Response::Health {
                    assessment: health::from_boolean(object, healthy),
                    healthy,
                }
            }
            Request::Dependency { .. } => Response::Dependencies(returned.dependencies()?),
            Request::Prune { .. } => return Err(ScriptError::Operation(self.operation)),
        })
    }
}

/// The function of an operation; `None` if it cannot be scripted.
fn function_of(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Retain => "Retain",
        Operation::InterpretReplica => "GetReplicas",
        Operation::InterpretComponent => "GetComponents",
        Operation::ReviseReplica => "ReviseReplica",
        Operation::InterpretStatus => "ReflectStatus",
        Operation::AggregateStatus => "AggregateStatus",
        Operation::InterpretHealth => "InterpretHealth",
        Operation::InterpretDependency => "GetDependencies",
        Operation::Prune => return None,
    })
}

/// What `statusItems` is while no member reports anything. Karmada gives nil: published scripts
/// then write an initial status, or leave the object as it is. A script that does not expect nil
/// fails with it, and gets an empty table.
#[derive(Clone, Copy)]
enum NoItems {
    Nil,
    EmptyTable,
}

fn arguments(
    run: &Run<'_>,
    no_items: NoItems,
    request: &Request<'_>,
) -> Result<Vec<mlua::Value>, ScriptError> {
    let object = run.value(request.object())?;
    Ok(match (*request, no_items) {
        #[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
        (Request::Revise { replicas, .. }, _) => {
            vec![object, mlua::Value::Number(replicas as f64)]
        }
        (Request::Retain { observed, .. }, _) => vec![object, run.value(observed)?],
        (Request::AggregateStatus { items: [], .. }, NoItems::Nil) => {
            vec![object, mlua::Value::Nil]
        }
        (Request::AggregateStatus { items, .. }, _) => {
            let items = serde_json::to_value(items)
                .map_err(|error| ScriptError::result(&error.to_string()))?;
            vec![object, run.value(&items)?]
        }
        _ => vec![object],
    })
}

#[cfg(test)]
mod tests;
