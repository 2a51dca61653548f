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

/// The scripts that answer an operation together, or why they do not compile.
#[derive(Debug)]
struct CompiledScripts {
    customizations: Arc<[Arc<str>]>,
    scripts: Vec<Result<Script, ScriptError>>,
}

impl CompiledCustomizations {
    pub(super) fn new(customizations: &CustomizationSet, compiler: &mut ScriptCompiler) -> Self {
        let mut of_target = |target: &Gvk| {
            MEMBERS
                .into_iter()
                .map(|(_, operation)| (operation, customizations.scripts(target, operation)))
                .filter(|(_, scripts)| !scripts.is_empty())
                .map(|(operation, scripts)| {
                    (
                        operation,
                        CompiledScripts::new(operation, scripts, compiler),
                    )
                })
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
        let by = AnsweringLevel::Customizations(Arc::clone(&of_operation.customizations));
        let result = match request.operation() {
            Operation::InterpretDependency => of_operation.run_united(request),
            _ => run(of_operation.scripts.first()?, request),
        };
        Some((by, result))
    }
}

impl CompiledScripts {
    fn new(operation: Operation, scripts: &[CustomScript], compiler: &mut ScriptCompiler) -> Self {
        let names = scripts.iter().map(|script| script.customization.clone());
        let texts = scripts.iter().map(|script| &script.text);
        let compiled = texts.map(|text| compiler.compile(operation, text));
        Self {
            customizations: names.collect(),
            scripts: compiled.collect(),
        }
    }

    /// The dependencies that all scripts find, sorted also if there is only one script. The error
    /// of one is the error of all; of several scripts it names the customization.
    fn run_united(&self, request: &Request<'_>) -> Result<Response, InterpretError> {
        let mut results = Vec::new();
        for (name, script) in self.customizations.iter().zip(&self.scripts) {
            let result = run(script, request).map_err(|error| {
                if self.scripts.len() == 1 {
                    return error;
                }
                InterpretError(format!("customization {name}: {error}"))
            });
            if let Response::Dependencies(found) = result? {
                results.push(found);
            }
        }
        Ok(Response::Dependencies(united(results)))
    }
}

fn run(
    script: &Result<Script, ScriptError>,
    request: &Request<'_>,
) -> Result<Response, InterpretError> {
    Ok(script.as_ref().map_err(Clone::clone)?.run(request)?)
}
