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
    scripts: BTreeMap<Gvk, BTreeMap<Operation, Vec<CompiledScript>>>,
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
        let scripts = self.scripts.get(&resource.gvk)?.get(&request.operation())?;
        let first = scripts.first()?;
        let by = AnsweringLevel::Customization(first.customization.clone());
        let result = match request.operation() {
            Operation::InterpretDependency => run_united(scripts, request),
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
) -> Vec<CompiledScript> {
    let compiled = scripts.iter().map(|script| CompiledScript {
        customization: script.customization.clone(),
        script: compiler.compile(operation, &script.text),
    });
    compiled.collect()
}

/// The dependencies that all scripts find, sorted also if there is only one script. The error of one is the error of all.
fn run_united(
    scripts: &[CompiledScript],
    request: &Request<'_>,
) -> Result<Response, InterpretError> {
    let mut results = Vec::new();
    for script in scripts {
        if let Response::Dependencies(found) = script.run(request)? {
            results.push(found);
        }
    }
    Ok(Response::Dependencies(united(results)))
}
