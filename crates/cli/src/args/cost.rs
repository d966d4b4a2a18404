//! Arguments of `tpu cost`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// Job files (`job.toml`), folders of `tpu train`, or folders that hold some.
    #[cfg_attr(feature = "cloud", arg(value_name = "JOB|RUN", required_unless_present = "idle"))]
    #[cfg_attr(not(feature = "cloud"), arg(value_name = "JOB|RUN", required = true))]
    pub(crate) runs: Vec<String>,
    /// Add up by the value of this label.
    #[arg(long, value_name = "LABEL")]
    pub(crate) by: Option<String>,
    /// A label of runs that have none of their own, as in team=vision; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,
    /// What is paid: on-demand, spot, committed-1-year, committed-3-years, or US dollars for a chip-hour, as in 1.35.
    #[arg(long, value_name = "PRICE", default_value = "on-demand")]
    pub(crate) price: String,
    /// Region of the price; default: the cheapest.
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Ask the cloud too: slices of ours that are paid for and do nothing.
    #[cfg(feature = "cloud")]
    #[arg(long)]
    pub(crate) idle: bool,
    /// Time without a job, or without a new checkpoint of it, after which a slice counts as idle.
    #[cfg(feature = "cloud")]
    #[arg(long, value_name = "TIME", default_value = "30m", requires = "idle")]
    pub(crate) idle_after: String,
    #[cfg(feature = "cloud")]
    #[command(flatten)]
    pub(crate) project: super::ProjectArgs,
}
