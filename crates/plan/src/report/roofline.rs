//! What a device can do at most: the roofs of the roofline plot.

use chips::Slice;
use serde::Serialize;
use xla::PrimitiveType;

use crate::machine::Machine;

/// Peak rates of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// Matmuls of bf16, operations per second.
    pub bf16_flops_per_s: f64,
    /// Matmuls of narrower types that have a higher rate, and their names.
    pub narrow: Option<(String, f64)>,
    /// Device memory, bytes per second.
    pub hbm_bytes_per_s: f64,
}

impl Roof {
    /// The roofs of a device of a slice.
    pub fn of(slice: &Slice) -> Roof {
        let machine = Machine::of(slice);
        let narrow = [("int8", PrimitiveType::S8), ("fp8", PrimitiveType::F8E4M3Fn)];
        let faster: Vec<(&str, f64)> = (narrow.into_iter())
            .map(|(name, element)| (name, machine.matmul_flops(element)))
            .filter(|(_, rate)| *rate > machine.bf16_flops)
            .collect();
        let most = faster.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let names: Vec<&str> = faster.iter().map(|(name, _)| *name).collect();
        Roof {
            bf16_flops_per_s: machine.bf16_flops,
            narrow: (!names.is_empty()).then(|| (names.join(", "), most)),
            hbm_bytes_per_s: machine.hbm_bytes_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roofs_follow_the_generation() {
        let roof = |slice: &str| Roof::of(&slice.parse().unwrap());
        assert_eq!(roof("v4-8").narrow, None);
        let v6e = roof("v6e-8");
        let (names, rate) = v6e.narrow.unwrap();
        assert!(names.contains("int8") && rate == 2.0 * v6e.bf16_flops_per_s);
        // Two devices share a chip.
        assert_eq!(
            roof("tpu7x-8").hbm_bytes_per_s,
            "tpu7x-8".parse::<Slice>().unwrap().spec().memory.hbm_gb_per_s.value * 5e8
        );
    }
}
