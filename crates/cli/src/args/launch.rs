//! Arguments of `tpu launch`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all ended well, 75 all saved and stopped, else that of the process that failed first."
)]
pub(crate) struct LaunchArgs {
    /// Processes on this machine, or on each host.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 1)]
    pub(crate) processes: usize,
    /// Hosts to reach by ssh, as in t-0,t-1,me@t-2, where `tpu` is installed too; default: this machine.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) hosts: Option<String>,
    /// Where the processes meet, as process 0 is reached by the others; default: the first host and port 8476, or a free port
    /// of this machine.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) coordinator: Option<String>,
    /// Folder for the output of each process, in process-N.log. What is there stays.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) logs: Option<PathBuf>,
    /// A variable for every process; without a value, that of this environment. May be given several times.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) environment: Vec<String>,
    /// Seconds between the request to stop and the kill, once one of the processes is dead.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) kill_after: f64,
    /// Seconds that processes have to save after a signal or a preemption notice; default: as long as they take.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<f64>,
    /// Folder on the hosts in which processes start; default: the home folder.
    #[arg(long, value_name = "FOLDER", requires = "hosts")]
    pub(crate) remote_folder: Option<PathBuf>,
    /// The `tpu` of the hosts.
    #[arg(long, value_name = "FILE", default_value = "tpu", requires = "hosts")]
    pub(crate) remote_tpu: String,
    /// The ssh client with its options, as in "ssh -p 2222 -i key".
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "hosts")]
    pub(crate) ssh: String,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
