//! Tests of the estimate on programs the TPU compiler returned.

use chips::Slice;
use xla::{HloModule, InstructionId, PrimitiveType};

use crate::estimate::{Estimate, Workload};
use crate::machine::{HostTransfer, Machine};
use crate::op_time::Bound;
use crate::simulate::{Simulation, simulate};
use crate::work::{NarrowOperand, Work};

macro_rules! compiled {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../xla/tests/data/compiled/", $name, ".pb.zst")) as &[u8])),*]
    };
}

/// Programs compiled for `v5e:2x2`; `crates/xla/tests/data/compiled/README.md` says what they are.
const COMPILED: [(&str, &[u8]); 9] = compiled!(
    "matmul_tanh",
    "ffn_4",
    "ffn_grad_4",
    "scan_3",
    "scan_3_unrolled",
    "fori_nested",
    "scan_grad_4",
    "remat_scan",
    "remat_unrolled"
);
const BIG: &[u8] = include_bytes!("../../xla/tests/data/compiled/scan_grad_big.opt_hlo.zst");

fn load(name: &str) -> HloModule {
    let (_, bytes) = COMPILED.iter().find(|(known, _)| *known == name).unwrap();
    HloModule::from_any(bytes).unwrap()
}

fn v5e() -> Slice {
    "v5e-4".parse().unwrap()
}

fn run(module: &HloModule) -> Simulation {
    simulate(module, &module.executions(), &Machine::of(&v5e()), &[])
}

/// Copies of 5.37 GB between a v6e and its host: `v6e-8-host-offload.xplane.pb` has 189 ms to the device and 182 from it.
#[test]
fn copies_to_the_host_take_as_long_as_in_a_profile() {
    let machine = Machine::of(&"v6e-8".parse().unwrap());
    let seconds = machine.host_s(5.0 * 1024.0 * 1024.0 * 256.0 * 4.0, HostTransfer::WholeBuffer);
    for measured_s in [0.18236, 0.18917] {
        assert!((seconds / measured_s - 1.0).abs() < 0.03, "{seconds} s, measured {measured_s} s");
    }
}

fn flops(name: &str) -> f64 {
    Estimate::of(&load(name), &v5e(), &[], &Workload::default()).flops
}

#[test]
fn loops_count_as_often_as_they_run() {
    assert_eq!(flops("scan_3"), flops("scan_3_unrolled"));
    assert_eq!(flops("fori_nested"), 5.0 * 4.0 * 2.0 * 256.0 * 512.0 * 512.0);
    // What is rematerialized counts again: of two matmuls in each of 5 layers, forward, the first again, and two for each back.
    let matmul_flops = 2.0 * 512.0 * 256.0 * 1024.0;
    let (scanned, unrolled) = (flops("remat_scan"), flops("remat_unrolled"));
    assert!((scanned / unrolled - 1.0).abs() < 1e-3, "{scanned} {unrolled}");
    assert!((scanned / (5.0 * 7.0 * matmul_flops) - 1.0).abs() < 0.03, "{}", scanned / matmul_flops);
}

#[test]
fn every_second_of_a_step_belongs_to_an_op() {
    let mut programs: Vec<(&str, HloModule)> = COMPILED.iter().map(|(name, _)| (*name, load(name))).collect();
    programs.push(("scan_grad_big", HloModule::from_any(BIG).unwrap()));
    for (name, module) in programs {
        let simulation = run(&module);
        let sum: f64 = simulation.ops.iter().map(|op| op.total_s()).sum();
        assert!(simulation.seconds > 0.0, "{name}");
        assert!((sum / simulation.seconds - 1.0).abs() < 1e-9, "{name}: {sum} of {}", simulation.seconds);
        for op in &simulation.ops {
            assert!(op.seconds.is_finite() && op.seconds > 0.0 && op.executions >= 1.0, "{name}: {op:?}");
        }
    }
}

#[test]
fn waits_are_no_longer_than_transfers() {
    for name in ["ffn_4", "ffn_grad_4", "scan_grad_4"] {
        let estimate = Estimate::of(&load(name), &v5e(), &[], &Workload::default());
        let ici = estimate.transfers.iter().find(|transfer| transfer.lane == Bound::Ici);
        let ici = ici.unwrap_or_else(|| panic!("{name} is split over four devices"));
        assert!(ici.exposed_s <= ici.seconds * (1.0 + 1e-9), "{name}: {ici:?}");
        let shares: f64 = estimate.shares.iter().map(|share| share.share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
        let step = estimate.step;
        assert!(step.low_s < step.seconds && step.seconds < step.high_s, "{name}: {step:?}");
    }
}

/// A gather of `ffn_grad_4` is carried by a matmul. Over slow links the fusion that ends it waits.
#[test]
fn a_gather_that_a_matmul_carries_is_waited_for() {
    let module = load("ffn_grad_4");
    let done = module.find("async-collective-done").unwrap();
    let waits = |slower: f64| {
        let mut machine = Machine::of(&v5e());
        machine.reach.ici /= slower;
        let simulation = simulate(&module, &module.executions(), &machine, &[]);
        simulation
            .ops
            .iter()
            .filter(|op| op.instruction == done && op.bound == Bound::Ici)
            .map(|op| op.seconds)
            .sum::<f64>()
    };
    let (usual, slow) = (waits(1.0), waits(100.0));
    assert!(slow > 1e-3 && slow > 20.0 * usual, "{usual} s, {slow} s over slow links");
}

#[test]
fn a_faster_machine_is_faster() {
    let module = HloModule::from_any(BIG).unwrap();
    let seconds = |slice: &str| {
        let machine = Machine::of(&slice.parse().unwrap());
        simulate(&module, &module.executions(), &machine, &[]).seconds
    };
    assert!(seconds("v6e-4") < seconds("v5e-4"));
    assert!(seconds("v5p-8") < seconds("v5e-4"));
}

#[test]
fn utilization_is_of_the_peak_and_by_the_callers_figures() {
    let module = load("scan_grad_4");
    let workload = Workload { tokens_per_step: Some(512.0), model_flops_per_step: Some(1e9), ..Workload::default() };
    let estimate = Estimate::of(&module, &v5e(), &[], &workload);
    let seconds = estimate.step.seconds;
    assert!((estimate.tokens_per_s.unwrap() - 512.0 / seconds).abs() < 1e-6);
    assert!((estimate.mfu.unwrap() - 1e9 / 4.0 / seconds / 197e12).abs() < 1e-9);
    assert!(estimate.hfu > 0.0 && estimate.hfu < 1.0);
    assert_eq!(Estimate::of(&module, &v5e(), &[], &Workload::default()).mfu, None);
}

#[test]
fn matmuls_know_their_sides() {
    let module = load("matmul_tanh");
    let users = module.users();
    let matmul = |id: InstructionId| Work::of(&module, &users, id).matmuls.first().copied();
    let order = module.order(module.entry());
    let matmul = order.iter().find_map(|&id| matmul(id)).unwrap();
    assert_eq!((matmul.contracted, matmul.columns), (512, 1024));
    assert_eq!(matmul.flops, 2.0 * 256.0 * 512.0 * 1024.0);
}

/// Cycles that libtpu 0.0.51 counts in its code for a matmul of 8 by 4096 by 4096 with bf16 activations: nearly all are conversion.
const COUNTED: [(&str, PrimitiveType, f64); 12] = [
    ("v5e-1", PrimitiveType::S8, 12.5e3),
    ("v5e-1", PrimitiveType::S4, 16.7e3),
    ("v5e-1", PrimitiveType::F8E4M3Fn, 34.6e3),
    ("v5e-1", PrimitiveType::F4E2M1Fn, 57.0e3),
    ("v5p-8", PrimitiveType::S8, 6.85e3),
    ("v5p-8", PrimitiveType::S4, 8.86e3),
    ("v5p-8", PrimitiveType::F8E4M3Fn, 17.4e3),
    ("v6e-1", PrimitiveType::S8, 10.4e3),
    ("v6e-1", PrimitiveType::S4, 14.7e3),
    ("v6e-1", PrimitiveType::F8E4M3Fn, 31.1e3),
    ("v6e-1", PrimitiveType::F4E2M1Fn, 51.5e3),
    ("tpu7x-2", PrimitiveType::F4E2M1Fn, 53.9e3),
];

#[test]
fn operands_of_few_bits_cost_their_conversion() {
    let machine = |slice: &str| Machine::of(&slice.parse().unwrap());
    let operand = |element, beside| NarrowOperand { element, beside, elements: 4096.0 * 4096.0 };
    for (slice, element, counted) in COUNTED {
        let machine = machine(slice);
        let ops = machine.conversion_ops(&operand(element, PrimitiveType::Bf16));
        let cycles = ops / machine.vector_ops * machine.clock_hz;
        assert!((cycles / counted - 1.0).abs() < 0.12, "{slice} {element:?}: {cycles} for {counted}");
    }
    // What matrix units take as it is costs nothing.
    let none = |slice: &str, element, beside| assert_eq!(machine(slice).conversion_ops(&operand(element, beside)), 0.0);
    none("v5e-1", PrimitiveType::S8, PrimitiveType::S8);
    none("v6e-1", PrimitiveType::S4, PrimitiveType::S8);
    none("v5e-1", PrimitiveType::F8E5M2, PrimitiveType::Bf16);
    none("tpu7x-2", PrimitiveType::F8E4M3Fn, PrimitiveType::F8E5M2);
    assert!(machine("v5e-1").conversion_ops(&operand(PrimitiveType::F8E4M3Fn, PrimitiveType::F8E4M3Fn)) > 0.0);
    // Programs without such operands have none.
    for (name, _) in COMPILED {
        let module = load(name);
        let users = module.users();
        assert!(module.instructions().all(|(id, _)| Work::of(&module, &users, id).narrow.is_empty()), "{name}");
    }
}
