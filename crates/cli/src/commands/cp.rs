//! `tpu cp`: files and folders to workers, or from them, by the system's own scp.

use std::path::Path;

use super::fan_out::{Task, run_all};
use super::slices::reach;
use crate::args::CpArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;

pub(crate) fn run(args: &CpArgs, output: &Output) -> Result<Answer, Failure> {
    let (name, is_send, from, to) = match (on_slice(&args.from), on_slice(&args.to)) {
        (None, Some((name, path))) => (name, true, args.from.as_str(), path),
        (Some((name, path)), None) => (name, false, path, args.to.as_str()),
        _ => {
            let hint =
                "as in `tpu cp data job:data --all` or `tpu cp job:out .`; a path here with a colon begins with ./";
            return Err(Failure::new("one of the two is SLICE:PATH, the other is a path here").hint(hint));
        }
    };
    if is_send && !Path::new(from).exists() {
        return Err(Failure::new(format!("{from}: there is no such file here")));
    }
    let reached = reach(name, &args.shell, &args.workers)?;
    let is_many = reached.workers.len() > 1;
    let mut tasks = Vec::new();
    for worker in &reached.workers {
        let mark = worker.mark(reached.slices);
        let words = if is_send {
            reached.shell.send(worker, Path::new(from), to)
        } else {
            let folder = if is_many { Path::new(to).join(mark.replace('/', "-")) } else { to.into() };
            if is_many && !args.shell.dry_run {
                let refused = |error| Failure::new(format!("{}: {error}", folder.display()));
                std::fs::create_dir_all(&folder).map_err(refused)?;
            }
            reached.shell.fetch(worker, from, &folder)
        };
        tasks.push(Task { mark, worker: worker.clone(), program: "scp", words });
    }
    run_all(tasks, args.shell.dry_run, output)
}

/// The slice and the path of `SLICE:PATH`; an empty path is the worker's home.
fn on_slice(text: &str) -> Option<(&str, &str)> {
    let (name, path) = text.split_once(':')?;
    (!name.is_empty() && !name.contains('/')).then_some((name, if path.is_empty() { "." } else { path }))
}
