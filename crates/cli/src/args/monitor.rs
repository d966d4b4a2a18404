//! Arguments of what is watched: `tpu monitor`, `tpu dashboard`, and what a running program tells of its devices.

use std::time::Duration;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    /// Runs to show: folders of `tpu train`, or addresses of their metrics as http://HOST:PORT.
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// Hosts to ask, as in t-0,t-1:8431; default: the hosts of this slice, else this machine.
    #[arg(long, value_name = "HOSTS", conflicts_with = "selector")]
    pub(crate) hosts: Option<String>,
    /// Pods to ask, by their labels, as in jobset.sigs.k8s.io/jobset-name=train; kubectl lists them.
    #[arg(long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// Namespace of the pods; default: that of kubectl's configuration.
    #[arg(long, value_name = "NAME", requires = "selector")]
    pub(crate) namespace: Option<String>,
    /// Ask again every so many seconds: JSON lines with --json, else tables; the live view asks every 2.
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) watch: Option<Duration>,
    /// Print a table on a terminal too, instead of the live view.
    #[arg(long)]
    pub(crate) table: bool,
    /// Serve what is collected as Prometheus text at http://ADDRESS/metrics; hosts are asked when it is read.
    /// ADDRESS is HOST:PORT, or a port of this machine's loopback address.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["watch", "table"])]
    pub(crate) serve: Option<String>,
    /// Seconds a host may take to answer.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = interval)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Runs to show: folders of `tpu train`, folders that hold some, or patterns in quotes, as 'runs/*'. Those that are not
    /// there yet are waited for.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,
    /// Where it is served: HOST:PORT, or a port of this machine's loopback address. It has no password.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: String,
    /// A name under which it is reached, besides localhost and addresses of numbers; can be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
}

/// What a running program tells of its devices.
#[derive(Debug, Args)]
pub(crate) struct RuntimeMetricsArgs {
    /// Serve libtpu's metric service for the devices of this process, for `tpu monitor` and tpu-info: HOST:PORT, or a port
    /// of this machine's loopback address. libtpu itself uses 8431, where tpu-info looks.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) runtime_metrics: Option<String>,
}

/// Seconds, from a tenth to a day.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    match (0.1..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("give 0.1 to 86400 seconds".into()),
    }
}
