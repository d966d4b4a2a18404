//! `tpu k8s`: manifests of a job, and the job on a cluster.

use std::path::Path;

use fleet::job::JobFile;
use k8s::cluster::{ChangedObject, Cluster, ClusterError, ClusterJobState, ClusterJobStatus};
use k8s::{ClusterJob, RunSecret, manifests, yaml};
use runtime::distributed::Secret;
use serde::Serialize;

use crate::args::{K8sArgs, K8sCommand, K8sJobArgs};
use crate::failure::{self, Answer, Failure};
use crate::log;
use crate::output::{Align, Output, Table};

/// What `--json` prints of changes.
#[derive(Serialize)]
struct Changes<'a> {
    version: u32,
    objects: &'a [ChangedObject],
}

/// What `--json` prints of a job.
#[derive(Serialize)]
struct Status<'a> {
    version: u32,
    #[serde(flatten)]
    status: &'a ClusterJobStatus,
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let hint = error.remedy();
        Failure::new(error).hint(hint)
    }
}

pub(crate) fn run(args: &K8sArgs, output: &Output) -> Result<Answer, Failure> {
    match (&args.command, &args.file) {
        (None, file) => print(file.as_deref().unwrap_or(Path::new("")), output),
        (Some(K8sCommand::Apply(job)), _) => {
            let (workload, cluster) = both(job)?;
            changes(&cluster.apply(&workload, &secret()?)?, output)
        }
        (Some(K8sCommand::Status(job)), _) => {
            let (workload, cluster) = both(job)?;
            status(&cluster.status(&workload)?, output)
        }
        (Some(K8sCommand::Logs { job, follow, tail }), _) => {
            let (workload, cluster) = both(job)?;
            let pods = cluster.logs(&workload, *tail, *follow, &mut std::io::stdout())?;
            if pods == 0 {
                log::say(&format!("no pod of {} is there", workload.name));
            }
            Ok(if pods == 0 { Answer::No } else { Answer::Yes })
        }
        (Some(K8sCommand::Delete(job)), _) => {
            let (workload, cluster) = both(job)?;
            changes(&cluster.delete(&workload)?, output)
        }
    }
}

fn both(job: &K8sJobArgs) -> Result<(ClusterJob, Cluster), Failure> {
    Ok((workload(&job.file)?, Cluster::connect(job.context.as_deref())?))
}

fn workload(file: &Path) -> Result<ClusterJob, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| failure::file("reading", file, error))?;
    let mut job = JobFile::parse(&text).map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    job.resolve(file.parent().unwrap_or(Path::new("")));
    let workload = ClusterJob::of(&job, &|path| std::fs::read_to_string(path))?;
    workload.notes.iter().for_each(|note| log::say(&format!("note: {note}")));
    Ok(workload)
}

impl From<k8s::ClusterJobError> for Failure {
    fn from(error: k8s::ClusterJobError) -> Self {
        Failure::new(error).hint("docs/howto/gke.md says what a job on Kubernetes can be")
    }
}

fn secret() -> Result<RunSecret, Failure> {
    Ok(RunSecret::new(&Secret::generate().map_err(Failure::new)?))
}

fn print(file: &Path, output: &Output) -> Result<Answer, Failure> {
    let objects = manifests(&workload(file)?, &secret()?);
    output.record(&objects, || yaml(&objects))?;
    Ok(Answer::Yes)
}

fn changes(objects: &[ChangedObject], output: &Output) -> Result<Answer, Failure> {
    output.record(&Changes { version: 1, objects }, || {
        let mut table = Table::new(&[Align::Left; 3]);
        objects.iter().for_each(|object| {
            table.row([object.kind.clone(), object.name.clone(), format!("{:?}", object.change).to_lowercase()]);
        });
        table.render()
    })?;
    Ok(Answer::Yes)
}

fn status(status: &ClusterJobStatus, output: &Output) -> Result<Answer, Failure> {
    output.record(&Status { version: 1, status }, || {
        let state = format!("{:?}", status.state).to_lowercase();
        let mut text = format!(
            "{state}: {} of {} pods, {} restarts, {} of them counted\n",
            status.pods.len(),
            status.expected_pods,
            status.restarts,
            status.counted_restarts
        );
        if let Some(message) = &status.message {
            text.push_str(&format!("{message}\n"));
        }
        let mut table = Table::new(&[Align::Left; 5]);
        table.row(["pod", "phase", "node", "exit", "reason"]);
        for pod in &status.pods {
            let exit = pod.exit_code.map(|code| code.to_string()).unwrap_or_default();
            let cell = |text: &Option<String>| text.clone().unwrap_or_default();
            table.row([pod.name.clone(), pod.phase.clone(), cell(&pod.node), exit, cell(&pod.reason)]);
        }
        if !status.pods.is_empty() {
            text.push_str(&table.render());
        }
        text
    })?;
    Ok(if matches!(status.state, ClusterJobState::Absent | ClusterJobState::Failed) { Answer::No } else { Answer::Yes })
}
