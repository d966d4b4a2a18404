//! The rates of a user's own chips, from profiles measured on them: a machine file that estimates take in place of the usual rates.

use serde::{Deserialize, Serialize};

use crate::accuracy::ProfiledOp;
use crate::error::Error;
use crate::machine::{Machine, MeasuredRates};
use crate::price::OpWork;

/// The version of a machine file.
const VERSION: u32 = 1;
/// Ops that a rate needs at least.
const FEWEST_OPS: usize = 3;
/// Ops that take less say more of starting than of a rate.
const LONG_S: f64 = 20e-6;
/// Ops that take more say nothing of starting.
const SHORT_S: f64 = 5e-6;

/// A machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    version: u32,
    /// Generation of the chips, as `tpu chips` names it.
    pub generation: String,
    /// What was measured.
    pub rates: MeasuredRates,
    /// How many ops each rate is from, and what it was before.
    pub fitted: Vec<FittedRate>,
}

/// A rate and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedRate {
    /// Its name in the file.
    pub name: String,
    /// Ops that it is from.
    pub ops: usize,
    /// The usual one.
    pub before: f64,
    /// The measured one.
    pub after: f64,
}

impl MachineFile {
    /// Reads a file; rates that no chip has are refused.
    pub fn read(json: &[u8]) -> Result<MachineFile, Error> {
        let file: MachineFile = serde_json::from_slice(json).map_err(|error| Error::MachineFile(error.to_string()))?;
        if file.version != VERSION {
            return Err(Error::MachineFile(format!("version {}, this program reads {VERSION}", file.version)));
        }
        for (name, rate, (low, high)) in file.rates.bounded() {
            if rate.is_some_and(|rate| !(low..=high).contains(&rate)) {
                return Err(Error::MachineFile(format!("`{name}` is not between {low} and {high}")));
            }
        }
        Ok(file)
    }

    /// The file as JSON, with a line's end.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data is JSON") + "\n"
    }

    /// The rates, if the file is of this generation.
    pub fn rates_for(&self, slice: &chips::Slice) -> Result<MeasuredRates, Error> {
        let generation = slice.generation().name();
        if self.generation != generation {
            return Err(Error::MachineFile(format!("it was measured on {}, not on {generation}", self.generation)));
        }
        Ok(self.rates)
    }
}

/// Fits the rates of a machine to ops that were measured on it. Each rate is the median over the ops it limits.
pub fn calibrate(ops: &[ProfiledOp], machine: &Machine) -> Result<MachineFile, Error> {
    let works: Vec<(OpWork, f64)> =
        ops.iter().filter_map(|op| Some((op.work(machine).ok()??, op.measured_s))).collect();
    let reach = &machine.reach;
    let hbm = works.iter().filter_map(|(work, seconds)| hbm_share(work, *seconds, machine));
    let matmul = works.iter().filter_map(|(work, seconds)| matmul_share(work, *seconds, machine));
    let ici = works.iter().filter_map(|(work, seconds)| ici_share(work, *seconds, machine));
    let launch = works.iter().filter_map(|(work, seconds)| launch(work, *seconds, machine));
    let usual = [
        ("hbm", reach.hbm, hbm.collect::<Vec<f64>>()),
        ("matmul", reach.mxu * reach.in_a_model, matmul.collect()),
        ("ici", reach.ici, ici.collect()),
        ("launch_s", reach.launch_s, launch.collect()),
    ];
    let counts: Vec<String> = usual.iter().map(|(name, _, found)| format!("{name} {}", found.len())).collect();
    let mut rates = MeasuredRates::default();
    let mut fitted = Vec::new();
    for ((name, before, found), (_, _, (low, high))) in usual.into_iter().zip(rates.bounded()) {
        let ops = found.len();
        if ops < FEWEST_OPS {
            continue;
        }
        let after = median(found).clamp(low, high);
        match name {
            "hbm" => rates.hbm = Some(after),
            "matmul" => rates.matmul = Some(after),
            "ici" => rates.ici = Some(after),
            _ => rates.launch_s = Some(after),
        }
        fitted.push(FittedRate { name: name.into(), ops, before, after });
    }
    if fitted.is_empty() {
        return Err(Error::TooFewOps { needed: FEWEST_OPS, found: counts.join(", ") });
    }
    Ok(MachineFile { version: VERSION, generation: machine.generation.name().into(), rates, fitted })
}

/// Share of HBM bandwidth that an op shows which HBM limits, by a wide margin. A matmul that is a program of its own shows none: what was
/// prefetched is not known to have come in its time.
fn hbm_share(work: &OpWork, seconds: f64, machine: &Machine) -> Option<f64> {
    let plain = work.plain().filter(|_| !work.is_alone())?;
    let time = machine.op_time(plain);
    let is_limit = time.hbm_s > 2.0 * time.matrix_s.max(time.vector_s);
    let net = seconds - time.launch_s - time.unhidden_s;
    (is_limit && seconds >= LONG_S && net > 0.0).then(|| time.hbm_s * machine.reach.hbm / net)
}

/// Share of the MXUs' rate that a matmul shows which they limit.
fn matmul_share(work: &OpWork, seconds: f64, machine: &Machine) -> Option<f64> {
    let plain = work.plain().filter(|plain| !plain.matmuls.is_empty())?;
    let time = machine.op_time(plain);
    let is_limit = time.matrix_s > 1.5 * time.hbm_s.max(time.vector_s);
    let net = seconds - time.launch_s - time.unhidden_s;
    let ideal: f64 = plain.matmuls.iter().map(|matmul| machine.matmul_s(matmul) * machine.reach.mxu).sum();
    (is_limit && seconds >= LONG_S && net > 0.0).then(|| ideal / net)
}

/// Share of link bandwidth that a long exchange shows.
fn ici_share(work: &OpWork, seconds: f64, machine: &Machine) -> Option<f64> {
    let (busy, fixed) = work.exchange(machine)?;
    let net = seconds - fixed;
    (busy > 4.0 * fixed && net > 0.0).then(|| busy / net)
}

/// Seconds that a short op waited for HBM, on each side.
fn launch(work: &OpWork, seconds: f64, machine: &Machine) -> Option<f64> {
    let plain = work.plain()?;
    let time = machine.op_time(plain);
    let sides = [plain.traffic.read.hbm, plain.traffic.written.hbm].iter().filter(|bytes| **bytes > 0.0).count();
    let busy = time.seconds() - time.launch_s;
    (sides > 0 && seconds < SHORT_S && busy < 0.2 * seconds).then(|| (seconds - busy) / sides as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::StatedWork;

    /// Adds of some gigabytes, at a share of the bandwidth.
    fn adds(count: usize, share: f64) -> Vec<ProfiledOp> {
        let text =
            "%add = f32[4096,65536]{1,0:T(8,128)} fusion(f32[4096,65536]{1,0:T(8,128)} %a), kind=kLoop, calls=%f";
        let bytes = 2.0 * 4.0 * 4096.0 * 65536.0;
        // Starting, and what HBM does not hide of the stores.
        let unhidden_s = 0.4 * bytes / 2.0 / (4096.0 * 1.75e9);
        let measured_s = bytes / (1638e9 * share) + 1e-6 + unhidden_s;
        let stated = StatedWork { flops: 4096.0 * 65536.0, bytes };
        let op = ProfiledOp { name: "add".into(), text: text.into(), executions: 4, measured_s, stated, work: None };
        vec![op; count]
    }

    #[test]
    fn rates_are_those_that_were_measured() {
        let machine = Machine::of(&"v6e-8".parse().unwrap());
        let file = calibrate(&adds(4, 0.71), &machine).unwrap();
        assert!((file.rates.hbm.unwrap() - 0.71).abs() < 0.01, "{file:?}");
        assert_eq!((file.rates.ici, file.rates.matmul), (None, None));
        let again = MachineFile::read(file.to_json().as_bytes()).unwrap();
        assert_eq!(again, file);
        assert!((machine.calibrated(&again.rates).reach.hbm - 0.71).abs() < 0.01);
        assert!(again.rates_for(&"v5e-4".parse().unwrap()).is_err());
        // More than there is: the bound.
        assert_eq!(calibrate(&adds(4, 7.0), &Machine::of(&"v6e-8".parse().unwrap())).unwrap().rates.hbm, Some(1.0));
    }

    #[test]
    fn too_few_ops_are_refused() {
        let machine = Machine::of(&"v6e-8".parse().unwrap());
        let error = calibrate(&adds(2, 0.7), &machine).unwrap_err();
        assert!(error.to_string().contains("hbm 2"), "{error}");
        let mut file = calibrate(&adds(3, 0.7), &machine).unwrap();
        file.rates.hbm = Some(3.0);
        assert!(MachineFile::read(file.to_json().as_bytes()).is_err());
        assert!(MachineFile::read(b"{}").is_err());
    }
}
