//! Plugins in Python environments: the active virtual environment, or where the interpreter says its packages are.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Discovery, PluginOrigin, Search, from_packages, sorted_entries};

/// The interpreter that is asked.
const INTERPRETER: &str = "python3";

/// How often a running interpreter is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Looks in the active virtual environment. No process is started.
pub(super) fn search_active_environment(discovery: &Discovery, search: &mut Search) {
    let Some(environment) = discovery.variable("VIRTUAL_ENV") else { return };
    let environment = Path::new(environment);
    let folders = virtual_environment(environment);
    if folders.is_empty() {
        search.reject(environment, &PluginOrigin::Variable("VIRTUAL_ENV"), "no lib/python3*/site-packages in it");
    }
    look_in(folders, search);
}

/// Asks the interpreter on the path, unless a virtual environment is active: then that is the interpreter's place.
pub(super) fn search_interpreter(discovery: &Discovery, search: &mut Search) {
    if discovery.variable("VIRTUAL_ENV").is_some() {
        return;
    }
    let Some(timeout) = discovery.python_timeout else { return };
    match ask(INTERPRETER, timeout) {
        Ok(folders) => look_in(folders, search),
        Err(why) => search.reject(INTERPRETER, &PluginOrigin::SitePackages(INTERPRETER.into()), why),
    }
}

fn look_in(folders: Vec<PathBuf>, search: &mut Search) {
    for folder in folders {
        let origin = PluginOrigin::SitePackages(folder.clone());
        let before = search.found.len() + search.rejected.len();
        from_packages(&folder, &origin, search);
        if search.found.len() + search.rejected.len() == before {
            search.reject(folder, &origin, "no plugin among the packages");
        }
    }
}

fn virtual_environment(environment: &Path) -> Vec<PathBuf> {
    let is_python = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
    let mut folders = Vec::new();
    for lib in ["lib", "lib64"] {
        for python in sorted_entries(&environment.join(lib)).into_iter().filter(is_python) {
            let packages = python.join("site-packages");
            // `lib64` is usually a link to `lib`.
            let same = |known: &PathBuf| std::fs::canonicalize(known).ok() == std::fs::canonicalize(&packages).ok();
            if packages.is_dir() && !folders.iter().any(same) {
                folders.push(packages);
            }
        }
    }
    folders
}

/// Asks an interpreter for its package folders.
fn ask(interpreter: &str, timeout: Duration) -> Result<Vec<PathBuf>, String> {
    let mut child = Command::new(interpreter)
        .args(["-c", "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run {interpreter}: {error}"))?;
    finish(&mut child, timeout).map_err(|why| format!("{interpreter} {why}"))?;
    let mut answer = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        // The answer is far smaller than a pipe holds, so the interpreter ended before it is read.
        stdout.read_to_end(&mut answer).map_err(|error| format!("cannot read from {interpreter}: {error}"))?;
    }
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.lines().filter(|line| !line.is_empty()).map(PathBuf::from).filter(|path| path.is_absolute()).collect())
}

/// Waits for a process to end well, and ends it when the time is over.
fn finish(child: &mut Child, timeout: Duration) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
            Ok(None) => {
                // If it cannot be killed it has just ended; either way it is collected.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not answer within {} s", timeout.as_secs_f32()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_says_where_its_packages_are() {
        if Command::new(INTERPRETER).arg("--version").output().is_err() {
            return testkit::skip("an_interpreter_says_where_its_packages_are", "there is no python3");
        }
        let folders = ask(INTERPRETER, Duration::from_secs(60)).unwrap();
        assert!(folders.iter().all(|folder| folder.ends_with("site-packages") || folder.ends_with("dist-packages")));
    }

    #[test]
    fn an_interpreter_that_is_missing_or_fails_is_said() {
        assert!(ask("no-such-interpreter", Duration::from_secs(1)).unwrap_err().contains("cannot run"));
        assert!(ask("false", Duration::from_secs(60)).unwrap_err().contains("ended with"));
    }

    #[test]
    fn a_process_that_takes_too_long_is_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(finish(&mut child, Duration::ZERO).unwrap_err().contains("did not answer"));
        assert!(child.try_wait().unwrap().is_some());
    }
}
