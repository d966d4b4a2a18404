//! Matmuls timed from the host, one after the other: a table with the columns `sku`, `M`, `N`, `K`, `dtype` and `median_s`.

use xla::{PrimitiveType, SpaceBytes, Traffic};

use super::ProfiledOp;
use crate::error::Error;
use crate::machine::Machine;
use crate::price::{OpWork, StatedWork};
use crate::work::{Matmul, Work};

/// Rows at most.
const MOST_ROWS: usize = 1 << 20;

/// Reads the matmuls of one kind of chip, without what the calls take.
pub fn timed_matmuls(csv: &str, machine: &Machine) -> Result<Vec<ProfiledOp>, Error> {
    let generation = machine.generation.name();
    let mut lines = csv.lines().take(MOST_ROWS);
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let column = |name: &str| {
        let at = header.iter().position(|column| *column == name);
        at.ok_or_else(|| Error::Record(format!("the table has no column `{name}`")))
    };
    let (sku, dtype, time) = (column("sku")?, column("dtype")?, column("median_s")?);
    let sides = [column("M")?, column("N")?, column("K")?];
    let mut rows = Vec::new();
    for (number, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let bad = |what: &str| Error::Record(format!("line {}: {what}", number + 2));
        let cell = |at: usize| cells.get(at).copied().ok_or_else(|| bad("cells are missing"));
        if cell(sku)? != generation {
            continue;
        }
        let side = |at: usize| cell(at)?.parse::<u32>().map(u64::from).map_err(|_| bad("a size is not a number"));
        let (m, n, k) = (side(sides[0])?, side(sides[1])?, side(sides[2])?);
        let seconds: f64 = cell(time)?.parse().map_err(|_| bad("the time is not a number"))?;
        let element = match cell(dtype)? {
            "bf16" => PrimitiveType::Bf16,
            "int8" => PrimitiveType::S8,
            other => return Err(bad(&format!("the type `{other}` is not known"))),
        };
        if !seconds.is_finite() || seconds <= 0.0 {
            return Err(bad("the time is not above zero"));
        }
        rows.push((m, n, k, element, seconds));
    }
    let ops: Vec<ProfiledOp> =
        rows.into_iter().map(|(m, n, k, element, seconds)| op(m, n, k, element, seconds)).collect();
    let work_s: Vec<f64> =
        ops.iter().map(|op| op.work.as_ref().map_or(0.0, |work| work.price(machine).seconds)).collect();
    let rests: Vec<(f64, f64)> =
        ops.iter().zip(&work_s).map(|(op, work_s)| (op.measured_s - work_s, *work_s)).collect();
    let bounds = call_bounds(&rests);
    let of_call: Vec<f64> = (0..ops.len()).map(|at| call_s(&rests, bounds, at)).collect();
    Ok(ops
        .into_iter()
        .zip(of_call)
        .map(|(op, call_s)| ProfiledOp { measured_s: op.measured_s - call_s, ..op })
        .collect())
}

/// Rows before and after one that tell what its call took.
const NEIGHBOURS: usize = 8;
/// A matmul that takes less tells little but its call.
const SHORT_S: f64 = 6e-6;
/// How well a call is known from a row: its own scatter, and a share of the work that is taken off.
const CALL_SCATTER_S: f64 = 5e-6;
const WORK_SCATTER: f64 = 0.1;

/// Seconds of a call beside its matmul. It drifts by 20 us while a table is measured, in phases of some dozens of rows, so that the
/// shortest call of all says little: the rows next to one tell, each by what is left of it without its own matmul, the short ones most.
/// `rests` are what is left of each row, and the work that was taken off.
fn call_s(rests: &[(f64, f64)], (low, high): (f64, f64), at: usize) -> f64 {
    let near = at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS + 1).min(rests.len());
    let mut weighed: Vec<(f64, f64)> = near
        .filter(|other| *other != at)
        .map(|other| (rests[other].0, 1.0 / (CALL_SCATTER_S + WORK_SCATTER * rests[other].1)))
        .collect();
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = weighed.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = weighed.iter().find(|(_, weight)| {
        sum += weight;
        sum >= half
    });
    middle.map_or(low, |(rest, _)| *rest).clamp(low, high)
}

/// The shortest and the longest call that short matmuls show; without any, the shortest of all.
fn call_bounds(rests: &[(f64, f64)]) -> (f64, f64) {
    let of = |most_s: f64| {
        let calls = rests.iter().filter(|(_, work_s)| *work_s < most_s).map(|(rest, _)| rest.max(0.0));
        calls.fold((f64::INFINITY, 0.0_f64), |(low, high), call| (low.min(call), high.max(call)))
    };
    match of(SHORT_S) {
        (low, high) if low <= high => (low, high),
        _ => {
            let (low, _) = of(f64::INFINITY);
            let low = if low.is_finite() { low } else { 0.0 };
            (low, low)
        }
    }
}

/// A matmul of operands in HBM; results are 32 bits wide.
fn op(m: u64, n: u64, k: u64, element: PrimitiveType, measured_s: f64) -> ProfiledOp {
    let [m_f, n_f, k_f] = [m, n, k].map(|side| side as f64);
    let width = f64::from(element.bits()) / 8.0;
    let read = SpaceBytes { hbm: (m_f * k_f + k_f * n_f) * width, ..SpaceBytes::default() };
    let written = SpaceBytes { hbm: m_f * n_f * 4.0, ..SpaceBytes::default() };
    let matmul = Matmul { flops: 2.0 * m_f * n_f * k_f, element, contracted: k, columns: n };
    let work = Work { matmuls: vec![matmul], traffic: Traffic { read, written }, ..Work::default() };
    ProfiledOp {
        name: format!("{} {m}x{n}x{k}", element.name()),
        text: String::new(),
        executions: 1,
        measured_s,
        stated: StatedWork::default(),
        work: Some(OpWork::matmul_alone(work)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::ProfileErrors;
    use crate::machine::Machine;

    const TABLE: &str = "sku,family,M,N,K,dtype,median_s,iqr_s,n_iters
v5e,random,8,8,8,bf16,0.0001,0,20
v5e,random,4096,4096,4096,bf16,0.00085,0,20
v6e,random,4096,4096,4096,int8,0.0002,0,20
";

    fn v5e() -> Machine {
        Machine::of(&"v5e-1".parse().unwrap())
    }

    /// Calls that take 20 us longer in the second half of the table.
    #[test]
    fn calls_are_known_from_their_neighbours() {
        let row =
            |call_us: f64, m: u64, work_us: f64| format!("v5e,x,{m},8,8,bf16,{},0,20\n", (call_us + work_us) / 1e6);
        let long = "v5e,x,4096,4096,4096,bf16,";
        let mut table = String::from("sku,family,M,N,K,dtype,median_s,iqr_s,n_iters\n");
        for call in [110.0, 130.0] {
            (0..12).for_each(|_| table += &row(call, 8, 1.0));
            table += &format!("{long}{},0,20\n", (call + 740.0) / 1e6);
            (0..12).for_each(|_| table += &row(call, 8, 1.0));
        }
        let ops = timed_matmuls(&table, &v5e()).unwrap();
        let long: Vec<f64> = ops.iter().map(|op| op.measured_s).filter(|seconds| *seconds > 1e-4).collect();
        assert_eq!(long.len(), 2);
        assert!(long.iter().all(|seconds| (seconds / 740e-6 - 1.0).abs() < 0.005), "{long:?}");
    }

    #[test]
    fn matmuls_are_priced_without_the_call() {
        let machine = v5e();
        let ops = timed_matmuls(TABLE, &machine).unwrap();
        assert_eq!(ops.len(), 2);
        // Of the short one little is left beside the call.
        assert!(ops[0].measured_s < 3e-6, "{ops:?}");
        let errors = ProfileErrors::of(ops, &machine);
        assert!(errors.ops[0].error().abs() < 0.05, "{errors:?}");
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        for table in
            ["", "a,b", &TABLE.replace("bf16", "f64"), &TABLE.replace("0.00085", "x"), &TABLE.replace("0.00085", "-1")]
        {
            assert!(timed_matmuls(table, &v5e()).is_err(), "{table}");
        }
    }
}
