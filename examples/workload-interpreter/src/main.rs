//! A resource interpreter webhook for `Workload` of `workload.example.io/v1alpha1`.
//!
//! ```sh
//! cargo run -p workload-interpreter -- --address 127.0.0.1:8443 --tls-cert-file tls.crt --tls-private-key-file tls.key
//! ```

#[cfg(test)]
mod tests;
mod workload;

use clap::Parser;
use fleetdex_interpreter_sdk::{
    AggregatedStatusItem, DeclaredReplicas, DependentObject, Interpreter, InterpreterResult,
    ServeArgs, pod_template, router,
};
use serde_json::{Value, from_value, to_value};
use workload::{Workload, WorkloadStatus};

struct WorkloadInterpreter;

impl Interpreter for WorkloadInterpreter {
    type Object = Workload;

    async fn interpret_replica(&self, workload: &Workload) -> InterpreterResult<DeclaredReplicas> {
        Ok(DeclaredReplicas {
            replicas: workload.spec.replicas,
            requirements: pod_template::requirements(&workload.spec.template)?,
        })
    }

    async fn revise_replica(
        &self,
        mut workload: Workload,
        replicas: i32,
    ) -> InterpreterResult<Workload> {
        workload.spec.replicas = replicas;
        Ok(workload)
    }

    async fn retain(
        &self,
        mut desired: Workload,
        observed: Workload,
    ) -> InterpreterResult<Workload> {
        desired.spec.paused = observed.spec.paused;
        Ok(desired)
    }

    async fn aggregate_status(
        &self,
        mut workload: Workload,
        items: Vec<AggregatedStatusItem>,
    ) -> InterpreterResult<Workload> {
        let mut ready = 0_i32;
        for status in items.into_iter().filter_map(|item| item.status) {
            ready = ready.saturating_add(from_value::<WorkloadStatus>(status)?.ready_replicas);
        }
        workload.status.ready_replicas = ready;
        Ok(workload)
    }

    async fn interpret_status(&self, workload: &Workload) -> InterpreterResult<Value> {
        Ok(to_value(&workload.status)?)
    }

    async fn interpret_health(&self, workload: &Workload) -> InterpreterResult<bool> {
        Ok(workload.status.ready_replicas == workload.spec.replicas)
    }

    async fn interpret_dependency(
        &self,
        workload: &Workload,
    ) -> InterpreterResult<Vec<DependentObject>> {
        let (template, namespace) = (&workload.spec.template, &workload.metadata.namespace);
        Ok(pod_template::dependencies(template, namespace))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("info").init();
    Ok(ServeArgs::parse()
        .serve(router(WorkloadInterpreter))
        .await?)
}
