//! Know before you rent: does a program fit a slice, how long is a step, what limits it, what does it cost.
//!
//! ```
//! use plan::{BilledStep, RunCost, RunLength, Tariff};
//!
//! let slice = "v5e-4".parse().unwrap();
//! let tariff = Tariff { usd_per_chip_hour: Some(1.2), ..Tariff::default() };
//! let step = BilledStep { seconds: 0.5, tokens: Some(8192.0) };
//! let cost = RunCost::of(&slice, step, RunLength::Steps(7200.0), &tariff)?;
//! assert_eq!((cost.chips, cost.hours), (4, Some(1.0)));
//! # Ok::<(), plan::Error>(())
//! ```

pub mod accuracy;
mod advice;
mod batch;
pub mod batch_size;
mod calibrate;
mod compiled;
mod cost;
mod donors;
mod error;
mod estimate;
mod explain;
mod fit;
mod fix;
mod grouped;
mod heap;
mod kernel_windows;
mod kernel_work;
mod kernels;
mod machine;
mod matmul_alone;
mod memory;
mod op_time;
mod pictures;
mod price;
mod quality;
pub mod report;
pub mod search;
mod serving_kernels;
mod simulate;
mod sparse_core;
#[cfg(test)]
mod tests;
mod torus;
mod tune;
mod work;

pub use advice::{Advice, AdviceKind, Roofline, RooflineOp};
pub use calibrate::{FittedRate, MachineFile, calibrate};
pub use cost::{BilledStep, RunCost, RunLength, Tariff, Terms};
pub use error::Error;
pub use estimate::{Estimate, OpLine, Share, StepTime, TransferTime, Workload};
pub use explain::{Explanation, Trials, explain};
pub use fit::{Draw, Fit, FitRequest, Verdict, fit};
pub use fix::{Fix, FixKind};
pub use kernel_work::KernelWork;
pub use machine::{FittedConstants, Machine, MeasuredRates, Reach};
pub use memory::{BufferClass, ClassBytes, Held, MemoryBreakdown, Peak, ProgramArgument, Vmem};
pub use op_time::{Bound, OpTime};
pub use price::{OpPrice, OpPricer, OpWork, PricedClass, StatedWork};
pub use quality::{INT4_COST, INT8_COST};
pub use simulate::{OpCost, Simulation, simulate};
pub use torus::{Group, IciTorus, TorusSpan};
pub use tune::{
    Exact, ResultCheck, ResultDifference, TuneComparison, TuneConfirm, TuneFlags, TuneMeasure, TuneMesh, TuneOutcome,
    TuneRequest, TuneSharding, TuneTrial, Tuned, tune, tuned_page,
};
pub use work::{Matmul, Work};
