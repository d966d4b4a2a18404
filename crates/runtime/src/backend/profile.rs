//! Profiles: what the plugin's own profiler recorded between the start of a backend and its end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pjrt::extension::{Profiler, ProfilerSession};

use super::Backend;
use crate::config::ConfigError;
use crate::error::Error;

/// A profile that is being recorded.
#[derive(Debug)]
pub(super) struct Profile {
    session: ProfilerSession,
    folder: PathBuf,
}

impl Profile {
    /// Starts recording. What cannot work is refused now: a plugin without a profiler, a folder that cannot be made.
    pub(super) fn start(profiler: Option<Profiler>, folder: &Path) -> Result<Profile, Error> {
        let profiler = profiler.ok_or_else(|| ConfigError::Unsupported {
            name: "profiling",
            value: "true".into(),
            reason: "the plugin has no profiler".into(),
        })?;
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let doing = "starting its profiler";
        let mut session = profiler.session(&[]).map_err(Error::device(doing))?;
        session.start().map_err(Error::device(doing))?;
        Ok(Profile { session, folder: folder.to_path_buf() })
    }

    /// Stops recording and writes the `XSpace` message where TensorBoard and XProf look for it.
    pub(super) fn finish(mut self) -> Result<PathBuf, Error> {
        let doing = "stopping its profiler";
        self.session.stop().map_err(Error::device(doing))?;
        let recorded = self.session.collect().map_err(Error::device(doing))?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // A process may finish several profiles in a second, and hosts share a folder.
        let run = self.folder.join("plugins/profile").join(format!("{seconds}"));
        std::fs::create_dir_all(&run).map_err(failed(&run))?;
        let mut file = weights::unfinished_file(&run, ".tmp").map_err(failed(&run))?;
        file.write_all(&recorded).and_then(|()| file.as_file().sync_all()).map_err(failed(&run))?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        for number in 0u32.. {
            let path = run.join(format!("{host}-{}-{number}.xplane.pb", std::process::id()));
            match file.persist_noclobber(&path) {
                Ok(_) => return Ok(path),
                Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => file = error.file,
                Err(error) => return Err(failed(&path)(error.error)),
            }
        }
        Err(failed(&run)(std::io::ErrorKind::AlreadyExists.into()))
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| ConfigError::ProfileFolder { path: path.into(), source }.into()
}

impl Backend {
    /// Stops profiling and writes what was recorded; `None` where `profiling` is off or the profile was written before.
    ///
    /// A backend that is dropped while it profiles writes its profile too, but can only warn when that fails.
    pub fn finish_profile(&self) -> Result<Option<PathBuf>, Error> {
        self.synchronize()?;
        let profile = self.shared.profile.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        profile.map(Profile::finish).transpose()
    }
}

impl Drop for super::Shared {
    fn drop(&mut self) {
        let profile = self.profile.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        match profile.map(Profile::finish) {
            Some(Ok(path)) => tracing::info!(path = %path.display(), "profile"),
            Some(Err(error)) => tracing::warn!(error = &error as &dyn std::error::Error, "the profile is lost"),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_without_a_profiler_is_refused_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let profiles = folder.path().join("profiles");
        let error = Profile::start(None, &profiles).unwrap_err();
        let Error::Configuration(ConfigError::Unsupported { name, .. }) = &error else { panic!("{error}") };
        assert_eq!(*name, "profiling");
        assert!(!profiles.exists());
    }

    /// Set for the process that loads libtpu, which needs an environment of its own.
    const INSIDE: &str = "TPUBRIDGE_TEST_PROFILE_FOLDER";

    #[test]
    fn libtpu_writes_a_profile_where_tools_look_for_it() {
        let test = "libtpu_writes_a_profile_where_tools_look_for_it";
        let Some(libtpu) = testkit::require(test, testkit::Needed::Libtpu) else { return };
        if let Some(folder) = std::env::var_os(INSIDE) {
            let plugin = pjrt::Plugin::load(&libtpu).unwrap();
            for _ in 0..2 {
                let path = Profile::start(plugin.profiler(), Path::new(&folder)).unwrap().finish().unwrap();
                assert!(std::fs::metadata(path).unwrap().len() > 0);
            }
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let name = format!("backend::profile::tests::{test}");
        let mut inside = std::process::Command::new(std::env::current_exe().unwrap());
        inside.args([&name, "--exact"]).envs(pjrt::libtpu_environment()).env(INSIDE, folder.path());
        let output = inside.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let runs = std::fs::read_dir(folder.path().join("plugins/profile")).unwrap().flatten();
        let files: Vec<_> = runs.flat_map(|run| std::fs::read_dir(run.path()).unwrap().flatten()).collect();
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(files.iter().all(|file| file.file_name().to_string_lossy().ends_with(".xplane.pb")), "{files:?}");
    }
}
