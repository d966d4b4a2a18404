//! The command line: commands, options and their help texts.

mod accuracy;
mod classify;
mod cost;
mod embed;
mod generate;
mod health;
#[cfg(feature = "cloud")]
mod job;
#[cfg(feature = "k8s")]
mod k8s;
mod keys;
mod launch;
mod monitor;
mod output;
mod profile;
mod programs;
mod quantize;
#[cfg(feature = "cloud")]
mod slices;
mod transcribe;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use accuracy::{AccuracyArgs, CalibrateArgs, FrontEnd};
pub(crate) use classify::ClassifyArgs;
pub(crate) use cost::CostArgs;
pub(crate) use embed::{EmbedArgs, VectorArgs};
pub(crate) use generate::{BenchArgs, GenerateArgs, ModelArgs, SamplingArgs, ServeArgs, StageArgs};
pub(crate) use health::{DiagnoseArgs, HangArgs};
#[cfg(feature = "cloud")]
pub(crate) use job::{JobArgs, JobCommand};
#[cfg(feature = "k8s")]
pub(crate) use k8s::{K8sArgs, K8sCommand, K8sJobArgs};
pub(crate) use keys::{CacheArgs, CacheCommand, CheckpointKeyArgs, KeyArgs, KeyCommand};
pub(crate) use launch::LaunchArgs;
pub(crate) use monitor::{DashboardArgs, MonitorArgs, RuntimeMetricsArgs};
pub(crate) use output::{LogFormat, OutputArgs};
pub(crate) use profile::{CaptureArgs, ProfileArgs, ProfileCommand, ProfileReportArgs};
pub(crate) use programs::{CheckArgs, CheckMode, HloArgs, WeightsArgs};
pub(crate) use quantize::{EvalArgs, ExportArgs, QuantizeArgs, TextArgs};
#[cfg(feature = "cloud")]
pub(crate) use slices::{
    CpArgs, DownArgs, ExecArgs, LogsArgs, LsArgs, LsWhat, ProjectArgs, ShellArgs, SliceArgs, SshArgs, UpArgs,
    WorkersArgs,
};
pub(crate) use transcribe::{TaskArg, TranscribeArgs};

/// Run, train and plan models on Google TPUs: one binary, no Python, and no TPU needed to plan.
#[derive(Debug, Parser)]
#[command(name = "tpu", version, max_term_width = 120, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 the answer is no (does not fit, not found, a check failed), 2 error.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Get the TPU compiler (libtpu) with your own pip or uv into a folder of ours.
    Setup(SetupArgs),
    /// Show plugins and devices found, or why there are none.
    Info(InfoArgs),
    /// Show TPU generations, or everything about one generation or slice.
    Chips(ChipsArgs),
    /// Check this machine: plugin, environment, devices, ports, disk, memory.
    Doctor(DoctorArgs),
    /// Compile a StableHLO program for a slice with the real TPU compiler.
    Compile(Box<CompileArgs>),
    /// Find where to run a StableHLO program: slice, mesh, shardings, batch, for a deadline and a budget.
    Plan(Box<PlanArgs>),
    /// Does a program fit a slice, what fills it, how long is a step, what does it cost.
    Fit(Box<FitArgs>),
    /// Why a program does not fit or is slow, and what to change: fixes tried with the real compiler.
    Explain(Box<ExplainArgs>),
    /// Make a program faster on a slice: kernels, precision, memory and flags, each tried with the real compiler.
    Tune(Box<TuneArgs>),
    /// Run a StableHLO program on a TPU, a GPU or this machine's CPU: print, save, compare or time its results.
    Run(Box<RunArgs>),
    /// Train a model described by a file; run again, it goes on where it ended.
    Train(Box<TrainArgs>),
    /// Start many processes of one program, here or over ssh: logs told apart, all stopped when one dies.
    Launch(LaunchArgs),
    #[cfg(feature = "cloud")]
    /// Run a job on slices of a cloud to its end: from a job file, through preemptions, crashes and hangs.
    Job(JobArgs),
    #[cfg(feature = "k8s")]
    /// Print a job as manifests of Kubernetes; create, watch and delete it on a cluster.
    K8s(K8sArgs),
    /// Watch the chips of one host or many, and runs: live, as a table, as JSON, for Prometheus.
    Monitor(MonitorArgs),
    /// Show runs side by side in a browser: curves, processes, goodput, alerts, reports, live.
    Dashboard(DashboardArgs),
    /// Say what makes a run slow, how much that is, and what to do.
    Diagnose(DiagnoseArgs),
    /// Name the process that holds a training up: gone, stopped, cut off, behind, starved, or with another program.
    Hang(HangArgs),
    /// Say what jobs and runs cost: planned, so far, for each token, wasted by restarts.
    Cost(CostArgs),
    #[cfg(feature = "cloud")]
    /// Ask Google Cloud for a TPU slice and wait for it; the same command again makes no second one.
    Up(Box<UpArgs>),
    #[cfg(feature = "cloud")]
    /// List the project's slices in any state, or its zones, slice types, images and quotas.
    Ls(LsArgs),
    #[cfg(feature = "cloud")]
    /// Delete slices in any state, and see that they are gone.
    Down(DownArgs),
    #[cfg(feature = "cloud")]
    /// Open a shell on a worker of a slice.
    Ssh(SshArgs),
    #[cfg(feature = "cloud")]
    /// Run a command on a worker, or on all at the same time.
    Exec(ExecArgs),
    #[cfg(feature = "cloud")]
    /// Copy files to workers, or from them.
    Cp(CpArgs),
    #[cfg(feature = "cloud")]
    /// Show what workers wrote, and follow it.
    Logs(LogsArgs),
    /// Write text with a model: of a Hugging Face folder, a GGUF file, or a `tpu train` run.
    Generate(GenerateArgs),
    /// Make vectors of texts (embeddings) with an encoder or a decoder.
    Embed(EmbedArgs),
    /// Say which class images are of, with a ViT or a ConvNeXt.
    Classify(ClassifyArgs),
    /// Write speech down with a Whisper.
    Transcribe(TranscribeArgs),
    /// Serve a model over HTTP with OpenAI's API.
    Serve(ServeArgs),
    /// Run a pipeline stage of a model for `tpu serve`, `generate` or `bench --stages` on another host.
    Stage(StageArgs),
    /// Measure how fast a model answers: tokens a second, time to the first token and of each further one.
    Bench(BenchArgs),
    /// Write a trained model as a Hugging Face folder, which transformers, vLLM and `tpu quantize` read.
    Export(ExportArgs),
    /// Write a model in fewer bits: rounding, GPTQ, rotations, AWQ, SmoothQuant, with the quality kept.
    Quantize(Box<QuantizeArgs>),
    /// Say how well a model predicts a text (perplexity), or how often it prefers the right choice (accuracy).
    Eval(Box<EvalArgs>),
    /// Find the device, run a small model end to end, and show what a slice would make of it.
    Quickstart(QuickstartArgs),
    /// Record a profile of a training that runs, for XProf and TensorBoard; `tpu profile report` says what a profile measured.
    Profile(ProfileArgs),
    /// Compare published measurements of TPU runs with what is predicted for them.
    Accuracy(AccuracyArgs),
    /// Fit the rates of your own chips to profiles measured on them, for `fit`, `plan` and `explain`.
    Calibrate(CalibrateArgs),
    /// Show the configuration and where each value came from.
    Config(ConfigArgs),
    /// Read a StableHLO program: verify, count, print, convert.
    Hlo(HloArgs),
    /// Run self-checking StableHLO programs and count what passes.
    Check(CheckArgs),
    /// Write the weights of a PyTorch archive, or of a training of it, as safetensors for `load_state_dict`.
    Weights(WeightsArgs),
    /// Look at and move the compile cache.
    Cache(CacheArgs),
    /// Make keys, say which are trusted, sign and verify files.
    Key(KeyArgs),
    /// Print a shell completion script.
    Completions(CompletionsArgs),
    /// Write man pages.
    Man(ManArgs),
    /// The compiler's own process.
    #[command(name = "compile-worker", hide = true)]
    Worker,
    /// The process beside each that `tpu launch` starts.
    #[command(name = "launch-worker", hide = true)]
    LaunchWorker,
    /// A process that holds a plugin for `tpu check`.
    #[command(name = "check-worker", hide = true)]
    CheckWorker {
        /// The plugin's library.
        plugin: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// Package to get.
    #[arg(default_value = "libtpu")]
    pub(crate) package: String,
    /// Package version; the default is the version this release was tested with.
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// SHA-256 of the wheel, for versions this release does not know.
    #[arg(long, value_name = "HEX")]
    pub(crate) sha256: Option<String>,
    /// Take the plugin from a wheel file instead of downloading one.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Say what would be downloaded, and stop.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    /// Only list what is found; load no plugin.
    #[arg(long)]
    pub(crate) no_load: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ChipsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ChipsCommand>,
    /// A generation (v5e), any slice name (v5litepod-16, v5e:4x4, v4-8, 2xv5e-256) or a GPU (h100).
    pub(crate) name: Option<String>,
    /// Replace a figure, as in v7_memory_gb=128. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// List every slice of the generation.
    #[arg(long)]
    pub(crate) slices: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChipsCommand {
    /// Put generations, slices or GPUs side by side: rates, memory, power, links, prices, and what they are to the first.
    Compare(CompareArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Generations (v5e), slices (v5p-128) or GPUs (h100); the others are set against the first.
    #[arg(required = true, num_args = 2..=12, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Replace a figure, as in v7_memory_gb=128. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    /// Ask nothing of the network.
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Which plugin to use.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PluginArgs {
    /// The plugin's library; default: environment, the active virtual environment,
    /// `tpu setup`'s folder, then the packages of `python3`.
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Option<PathBuf>,
}

/// Effort levels of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum EffortArg {
    O0,
    O1,
    O2,
    O3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartitionerArg {
    /// Shardy if the program has sdy annotations, GSPMD otherwise.
    Auto,
    Shardy,
    Gspmd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// The optimized program, as HLO text.
    Hlo,
    /// The program that was compiled, as canonical StableHLO text.
    Stablehlo,
}

#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// StableHLO program, text or bytecode; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Stop after the compiler's first phase: memory, collectives and schedule in seconds, but no executable.
    #[arg(long, short)]
    pub(crate) quick: bool,
    /// Write the executable to a file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print a program on standard output; the table then goes to standard error.
    #[arg(long, value_enum)]
    pub(crate) emit: Option<Emit>,
    #[command(flatten)]
    pub(crate) compiler: CompilerArgs,
}

/// What a program is compiled for, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompilerArgs {
    /// Slice to compile for: v5e-16, v5litepod-16, v5e:4x4, v4-8, v5p-128, v6e-256, tpu7x-8, 2xv5e-256.
    /// Default: option `slice` of the configuration.
    #[arg(long, short)]
    pub(crate) slice: Option<String>,
    /// Devices the program is partitioned over; default: what the program says.
    #[arg(long)]
    pub(crate) partitions: Option<u32>,
    /// Data-parallel copies of the program; default: what the program says.
    #[arg(long)]
    pub(crate) replicas: Option<u32>,
    /// Device ids, replica by replica, as in 0,1,3,2.
    #[arg(long, value_delimiter = ',', value_name = "IDS", allow_negative_numbers = true)]
    pub(crate) devices: Option<Vec<i64>>,
    /// Who reads sharding annotations.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) partitioner: PartitionerArg,
    /// Effort spent on run time.
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) optimization_level: Option<EffortArg>,
    /// Effort spent on fitting into memory.
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) memory_fitting_level: Option<EffortArg>,
    /// Compiler flag, as in xla_tpu_scoped_vmem_limit_kib=65536. May be given several times.
    #[arg(long = "flag", value_name = "NAME=VALUE")]
    pub(crate) flags: Vec<String>,
    /// Seconds the compiler may take; default: the option of the configuration, 300.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) compilation_timeout_seconds: Option<f64>,
    /// Host memory the compiler may take, in GiB.
    #[arg(long, value_name = "GIB")]
    pub(crate) memory_limit: Option<f64>,
    /// Show what the compiler prints.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Neither read nor write the compile cache.
    #[arg(long, conflicts_with = "refresh")]
    pub(crate) no_cache: bool,
    /// Compile again even if the cache has the answer.
    #[arg(long)]
    pub(crate) refresh: bool,
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    #[command(flatten)]
    pub(crate) cache: CacheFolderArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

/// A step that a model is planned for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StepArg {
    /// Loss, gradients and update of a batch.
    #[default]
    Training,
    /// Prompts of --sequence-length tokens are read into empty KV caches (prefill).
    Prefill,
    /// Every sequence gets one more token, with room for --sequence-length tokens in its KV cache.
    Decode,
}

impl From<StepArg> for train::PlannedStepKind {
    fn from(step: StepArg) -> Self {
        match step {
            StepArg::Training => train::PlannedStepKind::Training,
            StepArg::Prefill => train::PlannedStepKind::Prefill,
            StepArg::Decode => train::PlannedStepKind::Decode,
        }
    }
}

/// Terms that chips are rented under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriceArg {
    /// Pay as you go.
    OnDemand,
    /// Preemptible.
    Spot,
    /// One year of commitment.
    #[value(name = "committed-1-year")]
    Committed1Year,
    /// Three years of commitment.
    #[value(name = "committed-3-years")]
    Committed3Years,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// A training's TOML file, the config.json of a Hugging Face model, or a StableHLO program with global shapes, text or
    /// bytecode; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Rates of your own chips, as `tpu calibrate` writes them, for slices of their generation.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Sequence length in tokens: of a training step, a prompt, or a KV cache; default: as the training file says, else 8192.
    #[arg(long, value_name = "N")]
    pub(crate) sequence_length: Option<usize>,
    /// What a step of a model is; default: training.
    #[arg(long, value_enum)]
    pub(crate) step: Option<StepArg>,
    /// Precisions that may be chosen for a model, with commas between them: f32, mixed (parameters f32, activations bf16),
    /// bf16, fp8, int8 (mixed, with matmuls of a training in 8 bits); default: as the training says, else mixed; bf16 for inference.
    #[arg(long, value_delimiter = ',', value_name = "PRECISIONS")]
    pub(crate) precision: Vec<nn::DTypePolicy>,
    /// Weights that may be chosen for inference, with commas between them: dense, or schemes such as w8a16, w4a16, w8a8,
    /// w8a8-fp8, w4a16-g128; default: dense.
    #[arg(long, value_delimiter = ',', value_name = "SCHEMES")]
    pub(crate) weights: Vec<train::PlannedWeights>,
    /// Scheme of the LM head where --weights quantizes, as w8a16; it stays dense if not given.
    #[arg(long, value_name = "SCHEME")]
    pub(crate) lm_head: Option<nn::quant::QuantScheme>,
    /// KV caches that may be chosen for inference, with commas between them: bf16, int8, fp8, int4; default: the type of activations.
    #[arg(long, value_delimiter = ',', value_name = "TYPES")]
    pub(crate) kv_cache: Vec<train::PlannedCache>,
    /// Tokens to work through, as in 1T or 300B.
    #[arg(long, value_name = "COUNT")]
    pub(crate) tokens: Option<String>,
    /// Time it may take, as in 30d or 12h.
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<String>,
    /// Money it may cost, as in $50000 or 50k.
    #[arg(long, value_name = "USD")]
    pub(crate) budget: Option<String>,
    /// Slices to consider, with commas between them, as in v5e-*,v6e-256.
    #[arg(long, value_delimiter = ',', value_name = "SLICES")]
    pub(crate) slices: Vec<String>,
    /// Generations to consider; default: v5e, v5p, v6e, tpu7x, sizes up to 1024 chips that are powers of two.
    #[arg(long, value_delimiter = ',', value_name = "GENERATIONS")]
    pub(crate) generations: Vec<String>,
    /// The batch: ARGUMENT:DIMENSION, as in 0:0, or the name of a symbolic size; default: found.
    #[arg(long, value_name = "ARG:DIM|NAME")]
    pub(crate) batch: Option<String>,
    /// Global batches to consider, in samples, where the program takes any; default: some for each device.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub(crate) batch_size: Vec<std::num::NonZeroU64>,
    /// Terms of the price.
    #[arg(long, value_enum, default_value = "on-demand")]
    pub(crate) price: PriceArg,
    /// Region of the price; default: the lowest price.
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Replace a figure, as in v6e_price=2.10. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Compilations at most.
    #[arg(long, default_value = "16", value_name = "N")]
    pub(crate) compiles: std::num::NonZeroUsize,
    /// Time the search may take, as in 20m.
    #[arg(long, default_value = "20m", value_name = "TIME")]
    pub(crate) time: String,
    /// Compilations side by side; default: the number of cores.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    /// Confirm the best plan with the whole compiler, which takes minutes.
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Write the program of the recommended plan, with its shardings; for models, a name that ends in .toml gets the
    /// training of the plan.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the job of the recommended plan, for `tpu job run`: training file, slice, zones, capacity, budget, deadline. The
    /// training file is --out, or TRAIN.toml beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) job: Option<PathBuf>,
    /// Compiler flag for every compilation. May be given several times.
    #[arg(long = "flag", value_name = "NAME=VALUE")]
    pub(crate) flags: Vec<String>,
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    #[command(flatten)]
    pub(crate) cache: CacheFolderArgs,
}

/// A program, the slice it should run on, and what is to be written about it.
#[derive(Debug, Args)]
pub(crate) struct QuestionArgs {
    /// StableHLO program, text or bytecode; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Run the whole compiler: step time from its own cycle estimates, in minutes instead of seconds.
    #[arg(long)]
    pub(crate) full: bool,
    /// Write everything as one HTML page that needs no network.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Rates of your own chips, as `tpu calibrate` writes them, in place of the usual ones.
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) compiler: CompilerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) question: QuestionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) question: QuestionArgs,
    /// Write the program with the first change applied: the first fix if it does not fit, else the advice that gains most.
    /// Text, or bytecode if the name ends in .bc.
    #[arg(long, value_name = "FILE")]
    pub(crate) apply: Option<PathBuf>,
    /// Compile nothing but the program itself: fixes are not tried.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) no_trials: bool,
    /// Operations, buffers and sources shown.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) top: usize,
}

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) question: QuestionArgs,
    /// Time in which new compilations begin, as in 10m.
    #[arg(long, default_value = "10m", value_name = "TIME")]
    pub(crate) budget: String,
    /// Order in which flags are tried, and numbers that results are compared on.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Leave compiler flags as they are.
    #[arg(long)]
    pub(crate) no_flags: bool,
    /// Write the tuned program: text, or bytecode if the name ends in .bc. Kernels are composites, so that any compiler takes it.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// The tuned program with the kernels of this slice's TPUs in it, for runtimes that do not know our composites.
    #[arg(long, value_name = "FILE")]
    pub(crate) out_kernels: Option<PathBuf>,
    /// The same program at smaller sizes: it gets the same changes, and its results are compared in place of the program's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) check_on: Option<PathBuf>,
    /// Write the smaller program with the same changes.
    #[arg(long, value_name = "FILE", requires = "check_on")]
    pub(crate) out_check: Option<PathBuf>,
}

/// What a step is and what it costs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkloadArgs {
    /// Batch of a program that leaves it open: the unknown leading sizes of its arguments.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Tokens (or samples) that all devices together work through in a step, as in 2M or 524288.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) tokens: Option<String>,
    /// FLOPs that the model needs in a step on all devices together, for the model's utilization (MFU).
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) model_flops: Option<String>,
    /// Steps of the whole run, for its cost.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, conflicts_with = "total_tokens")]
    pub(crate) steps: Option<String>,
    /// Tokens of the whole run, for its cost, as in 1T or 300B; needs --tokens.
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) total_tokens: Option<String>,
    /// Region whose prices count; default: the cheapest one.
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// US dollars for one chip for one hour, in place of the published prices.
    #[arg(long, value_name = "USD_PER_CHIP_HOUR", allow_negative_numbers = true)]
    pub(crate) price: Option<String>,
}

/// Where the cache is.
#[derive(Clone, Debug, Args)]
pub(crate) struct CacheFolderArgs {
    /// Cache folder; default $TPUBRIDGE_CACHE, else the user's cache folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Bound of the cache folder, in GiB.
    #[arg(long, default_value_t = 20.0, value_name = "GIB")]
    pub(crate) cache_max_gib: f64,
}

impl Default for CacheFolderArgs {
    fn default() -> Self {
        CacheFolderArgs { cache_dir: None, cache_max_gib: 20.0 }
    }
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFileArgs {
    /// Configuration file, TOML; default: $TPUBRIDGE_CONFIG.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set an option, as in precision=f32; `tpu config show` lists them. May be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// StableHLO program, text or bytecode; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Inputs: an .npz, .npy or .safetensors file, by name or in order, or the word random.
    #[arg(long, default_value = "random", value_name = "FILE|random")]
    pub(crate) inputs: String,
    /// Seed of random inputs.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Write the results to a file, .npz or .safetensors.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Compare the results with a file's; exit 1 if they differ.
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,
    /// How far results may be apart, relative to the largest; default: by type, 1e-4 for f32.
    #[arg(long, value_name = "X")]
    pub(crate) tolerance: Option<f64>,
    /// Time the program.
    #[arg(long, short)]
    pub(crate) bench: bool,
    /// Seconds to time for, with --bench.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub(crate) seconds: f64,
    /// Run op by op on the reference interpreter and print every value.
    #[arg(long, conflicts_with_all = ["bench", "out", "expect"])]
    pub(crate) steps: bool,
    #[command(flatten)]
    pub(crate) telemetry: RuntimeMetricsArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

/// Whether a metadata server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoticeArg {
    /// Where one can be expected.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// What is trained, in TOML: model, data, optimizer, steps. Examples are in examples/train.
    pub(crate) file: PathBuf,
    /// Folder of checkpoints, metrics and tokens; default: train.folder of the file.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<String>,
    /// Write the training step as StableHLO to a file and do not train: for `tpu fit`, `tpu explain`, `tpu plan`.
    #[arg(long, value_name = "FILE", group = "asked")]
    pub(crate) export: Option<PathBuf>,
    /// Find the largest batch that fits and the fastest, and do not train: measured on the device, or with --slice by the
    /// TPU compiler.
    #[arg(long, group = "asked")]
    pub(crate) find_batch: bool,
    /// Slice that --find-batch asks the TPU compiler about, or that --export checks the mesh against, as in v6e-8; no TPU is
    /// needed.
    #[arg(long, value_name = "SLICE", requires = "asked")]
    pub(crate) slice: Option<String>,
    /// Whether a preemption notice saves the state and stops. `auto` watches for one on Google's machines, or
    /// where $GCE_METADATA_HOST names a metadata server.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) preemption_notice: NoticeArg,
    /// Start the training again after a crash or a preemption notice, at most so many times, with growing pauses. It stops
    /// when two runs in a row end without a newer checkpoint.
    #[arg(long, value_name = "COUNT", default_value_t = 0, conflicts_with = "asked")]
    pub(crate) restarts: u32,
    /// Answer what the training tells of itself on this address, as in 127.0.0.1:9464: /metrics for Prometheus, /status,
    /// /healthz. With port 0 the system chooses one; the folder's processes/N.json and targets/N.json name it.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "asked")]
    pub(crate) metrics: Option<String>,
    /// Send metrics, traces and logs to an OpenTelemetry collector (OTLP over HTTP), as in http://localhost:4318; default:
    /// $OTEL_EXPORTER_OTLP_ENDPOINT, else nowhere.
    #[arg(long, value_name = "URL", conflicts_with = "asked")]
    pub(crate) otlp: Option<String>,
    /// Where `tpu profile`, XProf and JAX's tools can ask for profiles while it trains: a PORT of this machine (0 takes a free
    /// one), or IP:PORT; default: profile.address of the file, else nowhere. Anyone who reaches it may ask.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) profiler: Option<String>,
    /// A file of alerts (TOML) beside the `alerts` table of the training file.
    #[arg(long, value_name = "FILE", conflicts_with = "asked")]
    pub(crate) alerts: Option<PathBuf>,
    /// Changes a setting of the file, as in train.steps=100. May be given several times.
    #[arg(long = "with", value_name = "NAME=VALUE")]
    pub(crate) with: Vec<String>,
    /// Devices as a mesh, as in data=4,model=2, or dcn:replica=2,fsdp=16 on two slices; ring:model=16 must close to a ring.
    /// Default: mesh.axes of the file. The CPU device pretends to be as many.
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<String>,
    /// How the model lies on the mesh: data, fsdp, megatron, expert, pipeline or hybrid; default: mesh.strategy of the file,
    /// else hybrid.
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) strategy: Option<String>,
    /// Parts of a batch that follow each other through the stages of a mesh with an axis `stage`; default: mesh.microbatches
    /// of the file, else twice as many as stages.
    #[arg(long, value_name = "COUNT")]
    pub(crate) microbatches: Option<usize>,
    /// Number of processes that train together; default: from the environment, as TPUBRIDGE_PROCESSES, or that of Cloud TPU
    /// and GKE.
    #[arg(long, value_name = "COUNT")]
    pub(crate) processes: Option<usize>,
    /// Which of them this is, from 0; default: TPUBRIDGE_PROCESS_ID, or TPU_WORKER_ID with its slice.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) process_id: Option<usize>,
    /// Where they meet: HOST:PORT of process 0, or etcds://HOST:PORT,…/JOB; default: TPUBRIDGE_COORDINATOR, or the first of
    /// TPU_WORKER_HOSTNAMES. Processes of several machines need a secret: `tpu config secret`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) coordinator: Option<String>,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) keys: CheckpointKeyArgs,
    /// Sign checkpoints with the secret key in this file (`tpu key new`); default: train.signing_key of the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) signing_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) telemetry: RuntimeMetricsArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

#[derive(Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// Device: auto, cpu, cuda, tpu, or a plugin's path; default: option `device` of the configuration.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Slice to compile for where the TPU compiler is installed; default: option `slice` of the configuration, else v5e-4.
    #[arg(long, short)]
    pub(crate) slice: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every option, its value, and where the value came from.
    Show {
        #[command(flatten)]
        config: ConfigFileArgs,
    },
    /// What libtpu must find in the environment, as `export` lines; nothing is set here.
    Environment {
        #[command(flatten)]
        config: ConfigFileArgs,
        /// Number of processes of the program, as `tpu train` takes it.
        #[arg(long, value_name = "COUNT")]
        processes: Option<usize>,
        /// Which of them runs here, from 0.
        #[arg(long, value_name = "NUMBER")]
        process_id: Option<usize>,
        /// Where they meet.
        #[arg(long, value_name = "ADDRESS")]
        coordinator: Option<String>,
    },
    /// A new secret for the processes of a program, to be given to each by TPUBRIDGE_SECRET_FILE or TPUBRIDGE_SECRET.
    Secret,
    /// Flags of the TPU compiler that option `xla_flags` takes.
    Flags {
        /// Only those whose name contains this.
        filter: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write the pages to; default: print the main page.
    pub(crate) folder: Option<PathBuf>,
}
