//! Matmuls timed from the host, one after the other: a table with the columns `sku`, `M`, `N`, `K`, `dtype` and `median_s`.

use xla::{PrimitiveType, SpaceBytes, Traffic};

use super::ProfiledOp;
use crate::error::Error;
use crate::price::{OpWork, StatedWork};
use crate::work::{Matmul, Work};

/// Rows at most.
const MOST_ROWS: usize = 1 << 20;

/// Reads the matmuls of one kind of chip. The shortest time of all is what a call takes without any work: it is taken off.
pub fn timed_matmuls(csv: &str, generation: &str) -> Result<Vec<ProfiledOp>, Error> {
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
        let side = |at: usize| cell(at)?.parse::<u32>().map(u64::from).map_err(|_| bad("a size is no number"));
        let (m, n, k) = (side(sides[0])?, side(sides[1])?, side(sides[2])?);
        let seconds: f64 = cell(time)?.parse().map_err(|_| bad("the time is no number"))?;
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
    let floor = rows.iter().map(|row| row.4).fold(f64::INFINITY, f64::min);
    Ok(rows.into_iter().map(|(m, n, k, element, seconds)| op(m, n, k, element, seconds - floor)).collect())
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

    #[test]
    fn matmuls_are_priced_without_the_call() {
        let ops = timed_matmuls(TABLE, "v5e").unwrap();
        assert_eq!(ops.len(), 2);
        let errors = ProfileErrors::of(ops, &Machine::of(&"v5e-1".parse().unwrap()));
        // The shortest one has nothing left.
        assert_eq!(errors.ops.len(), 1);
        assert!(errors.ops[0].error().abs() < 0.05, "{errors:?}");
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        for table in
            ["", "a,b", &TABLE.replace("bf16", "f64"), &TABLE.replace("0.00085", "x"), &TABLE.replace("0.00085", "-1")]
        {
            assert!(timed_matmuls(table, "v5e").is_err(), "{table}");
        }
    }
}
