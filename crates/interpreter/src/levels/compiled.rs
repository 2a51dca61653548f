//! The scripts of customizations, compiled once.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::{Gvk, Resource};

use super::answering_level::AnsweringLevel;
use crate::{
    InterpretError, Operation, Request, Response,
    customization::{CustomScript, CustomizationSet, MEMBERS, united},
    script::{Script, ScriptCompiler, ScriptError},
};

/// The compiled scripts of all customizations.
#[derive(Debug, Default)]
pub(super) struct CompiledCustomizations {
    scripts: BTreeMap<Gvk, BTreeMap<Operation, CompiledScripts>>,
}

/// The scripts that answer an operation together.
#[derive(Debug)]
struct CompiledScripts {
    customizations: Arc<[Arc<str>]>,
    scripts: Vec<CompiledScript>,
}

/// A script, or why it does not compile.
#[derive(Debug)]
struct CompiledScript {
    customization: Arc<str>,
    script: Result<Script, ScriptError>,
}

impl CompiledCustomizations {
    /// Compiles all scripts.
    pub(super) fn new(customizations: &CustomizationSet, compiler: &mut ScriptCompiler) -> Self {
        let mut of_target = |target: &Gvk| {
            MEMBERS
                .into_iter()
                .map(|(_, operation)| (operation, customizations.scripts(target, operation)))
                .filter(|(_, scripts)| !scripts.is_empty())
                .map(|(operation, scripts)| (operation, compile_all(operation, scripts, compiler)))
                .collect()
        };
        let scripts = customizations
            .targets()
            .map(|target| (target.clone(), of_target(target)));
        Self {
            scripts: scripts.collect(),
        }
    }

    /// Runs the script of a request, or all of its dependency scripts; `None` if there is none.
    pub(super) fn run(
        &self,
        request: &Request<'_>,
        resource: &Resource,
    ) -> Option<(AnsweringLevel, Result<Response, InterpretError>)> {
        let of_operation = self.scripts.get(&resource.gvk)?.get(&request.operation())?;
        let first = of_operation.scripts.first()?;
        let by = AnsweringLevel::Customizations(Arc::clone(&of_operation.customizations));
        let result = match request.operation() {
            Operation::InterpretDependency => run_united(&of_operation.scripts, request),
            _ => first.run(request),
        };
        Some((by, result))
    }
}

impl CompiledScript {
    fn run(&self, request: &Request<'_>) -> Result<Response, InterpretError> {
        let script = self.script.as_ref().map_err(Clone::clone)?;
        Ok(script.run(request)?)
    }
}

fn compile_all(
    operation: Operation,
    scripts: &[CustomScript],
    compiler: &mut ScriptCompiler,
) -> CompiledScripts {
    let names = scripts.iter().map(|script| script.customization.clone());
    let compiled = scripts.iter().map(|script| CompiledScript {
        customization: script.customization.clone(),
        script: compiler.compile(operation, &script.text),
    });
    CompiledScripts {
        customizations: names.collect(),
        scripts: compiled.collect(),
    }
}

/// The dependencies that all scripts find, sorted also if there is only one script. The error of
/// one is the error of all; of several scripts it names the customization.
fn run_united(
    scripts: &[CompiledScript],
    request: &Request<'_>,
) -> Result<Response, InterpretError> {
    let mut results = Vec::new();
    for script in scripts {
        let result = script.run(request).map_err(|error| {
            if scripts.len() == 1 {
                return error;
            }
            InterpretError(format!("customization {}: {error}", script.customization))
        });
        if let Response::Dependencies(found) = result? {
            results.push(found);
        }
    }
    Ok(Response::Dependencies(united(results)))
}
