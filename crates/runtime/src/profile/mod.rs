//! Profiles: what the plugin's own profiler and the host recorded between two moments, as XProf and TensorBoard read it.

mod host;
mod steps;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt::extension::ProfilerSession;

use crate::config::ConfigError;
use crate::error::{Error, ValidationError};
use host::{HostEvent, HostEvents};

/// What plugins record, as XLA's `ProfileOptions`: version 1 of it, devices (field 3) and the HLO of programs (field 7). Without
/// it XLA's plugins record nothing. Events of the host are ours.
const PROFILE_OPTIONS: [u8; 6] = [5 << 3, 1, 3 << 3, 1, 7 << 3, 1];

/// The profiler of a backend: at most one profile is recorded at a time. Clones are the same profiler.
#[derive(Clone, Debug)]
pub struct BackendProfiler {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    plugin: Option<pjrt::extension::Profiler>,
    /// Whether a profile is recorded: all that is asked while none is.
    is_on: AtomicBool,
    recording: Mutex<Option<Recording>>,
}

#[derive(Debug)]
struct Recording {
    session: ProfilerSession,
    host: HostEvents,
}

/// A profile that was recorded: an encoded `XSpace`.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The message, as `*.xplane.pb` holds it.
    pub bytes: Vec<u8>,
    /// Steps of a training whose markers are in it.
    pub steps: Vec<u64>,
}

/// A profile whose recording has ended, and which is yet to be put together.
#[derive(Debug)]
pub struct Stopped {
    recording: Recording,
}

/// Something the host does, recorded when it is dropped.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct HostSpan(Option<(Arc<Shared>, HostEvent)>);

impl BackendProfiler {
    pub(crate) fn new(plugin: Option<pjrt::extension::Profiler>) -> BackendProfiler {
        BackendProfiler {
            shared: Arc::new(Shared { plugin, is_on: AtomicBool::new(false), recording: Mutex::new(None) }),
        }
    }

    /// Whether the plugin can record.
    pub fn is_supported(&self) -> bool {
        self.shared.plugin.is_some()
    }

    /// Whether a profile is being recorded.
    pub fn is_on(&self) -> bool {
        self.shared.is_on.load(Ordering::Relaxed)
    }

    /// Starts recording. Refused where the plugin has no profiler, or a profile is being recorded.
    pub fn start(&self) -> Result<(), Error> {
        let plugin = self.shared.plugin.as_ref().ok_or_else(|| ConfigError::Unsupported {
            name: "profiling",
            value: "true".into(),
            reason: "the plugin has no profiler".into(),
        })?;
        let mut recording = self.shared.lock();
        if recording.is_some() {
            return Err(ValidationError::ProfileBusy.into());
        }
        let doing = "starting its profiler";
        let mut session = plugin.session(&PROFILE_OPTIONS).map_err(Error::device(doing))?;
        session.start().map_err(Error::device(doing))?;
        *recording = Some(Recording { session, host: HostEvents::new() });
        self.shared.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Stops recording; `None` where nothing was recorded. The next profile may begin at once.
    pub fn stop(&self) -> Result<Option<Stopped>, Error> {
        let recording = {
            let mut recording = self.shared.lock();
            self.shared.is_on.store(false, Ordering::Relaxed);
            recording.take()
        };
        let Some(mut recording) = recording else { return Ok(None) };
        recording.session.stop().map_err(Error::device("stopping its profiler"))?;
        Ok(Some(Stopped { recording }))
    }

    /// Stops recording and puts the profile together; `None` where nothing was recorded.
    pub fn finish(&self) -> Result<Option<Profile>, Error> {
        self.stop()?.map(Stopped::collect).transpose()
    }

    /// Something the host does from now on, until what is returned is dropped. Nothing while no profile is recorded.
    pub fn span(&self, name: &'static str) -> HostSpan {
        self.host_span(name, None)
    }

    /// A step of a training, as JAX's `StepTraceAnnotation` marks it.
    pub fn step(&self, step: u64) -> HostSpan {
        self.host_span(host::STEP, Some(step))
    }

    fn host_span(&self, name: &'static str, step: Option<u64>) -> HostSpan {
        HostSpan(self.is_on().then(|| (self.shared.clone(), HostEvent::now(name, step))))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostSpan {
    fn drop(&mut self) {
        if let Some((shared, event)) = self.0.take()
            && let Some(recording) = &mut *shared.lock()
        {
            recording.host.add(event);
        }
    }
}

impl Stopped {
    /// Puts the profile together, which takes a while for many events.
    pub fn collect(self) -> Result<Profile, Error> {
        let Recording { mut session, host } = self.recording;
        let recorded = session.collect().map_err(Error::device("reading its profile"))?;
        Ok(steps::merged(recorded, host))
    }
}

impl Profile {
    /// Writes it where TensorBoard and XProf look for it below a folder. Profiles of one name are looked at together: those of
    /// several hosts, say.
    pub fn write(&self, folder: &Path, name: &str) -> Result<PathBuf, Error> {
        let run = folder.join("plugins/profile").join(name);
        std::fs::create_dir_all(&run).map_err(failed(&run))?;
        let mut file = weights::unfinished_file(&run, ".tmp").map_err(failed(&run))?;
        file.write_all(&self.bytes).and_then(|()| file.as_file().sync_all()).map_err(failed(&run))?;
        let host = hostname();
        // A process may write several profiles of a name, and hosts share a folder.
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

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| ConfigError::ProfileFolder { path: path.into(), source }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_without_a_profiler_is_refused() {
        let profiler = BackendProfiler::new(None);
        let error = profiler.start().unwrap_err();
        let Error::Configuration(ConfigError::Unsupported { name, .. }) = &error else { panic!("{error}") };
        assert_eq!(*name, "profiling");
        assert!(!profiler.is_on());
        drop(profiler.span("data"));
        assert!(profiler.finish().unwrap().is_none());
    }

    /// Set for the process that loads libtpu, which needs an environment of its own.
    const INSIDE: &str = "TPUBRIDGE_TEST_PROFILE_FOLDER";

    #[test]
    fn libtpu_writes_a_profile_where_tools_look_for_it() {
        let test = "libtpu_writes_a_profile_where_tools_look_for_it";
        let Some(libtpu) = testkit::require(test, testkit::Needed::Libtpu) else { return };
        if let Some(folder) = std::env::var_os(INSIDE) {
            let profiler = BackendProfiler::new(pjrt::Plugin::load(&libtpu).unwrap().profiler());
            for _ in 0..2 {
                profiler.start().unwrap();
                assert!(matches!(profiler.start(), Err(Error::Validation(ValidationError::ProfileBusy))));
                let profile = profiler.finish().unwrap().unwrap();
                let path = profile.write(Path::new(&folder), "start").unwrap();
                assert!(std::fs::metadata(path).unwrap().len() > 0);
            }
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let name = format!("profile::tests::{test}");
        let mut inside = std::process::Command::new(std::env::current_exe().unwrap());
        inside.args([&name, "--exact"]).envs(pjrt::libtpu_environment()).env(INSIDE, folder.path());
        let output = inside.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let files: Vec<_> = std::fs::read_dir(folder.path().join("plugins/profile/start")).unwrap().flatten().collect();
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(files.iter().all(|file| file.file_name().to_string_lossy().ends_with(".xplane.pb")), "{files:?}");
    }
}
