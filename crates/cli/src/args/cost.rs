//! Arguments of `tpu cost`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// Job files (`job.toml`), folders of `tpu train`, or folders that hold some.
    #[arg(value_name = "JOB|RUN", required = true)]
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
}
