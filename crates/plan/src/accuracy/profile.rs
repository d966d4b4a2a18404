//! A measured profile op by op: what the estimate says of each, by class, with the ops that are furthest off.

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::machine::Machine;
use crate::op_time::Bound;
use crate::price::{OpPrice, OpPricer, OpWork, PricedClass, StatedWork};

/// An op of a profile, all its executions together.
#[derive(Clone, Debug)]
pub struct ProfiledOp {
    /// Name of the instruction.
    pub name: String,
    /// HLO text, as profiles write it.
    pub text: String,
    /// Executions.
    pub executions: u64,
    /// Mean time of one, without the ops inside it.
    pub measured_s: f64,
    /// What the profile says one does.
    pub stated: StatedWork,
    /// What it does, where the program is known; else that comes from the text.
    pub work: Option<OpWork>,
}

impl ProfiledOp {
    /// What it does: `None` for an op that takes no time of the core by itself, the reason where its text cannot be read.
    pub fn work(&self, machine: &Machine) -> Result<Option<OpWork>, String> {
        if let Some(work) = &self.work {
            return Ok(Some(work.clone()));
        }
        let module = xla::HloModule::from_instruction_text(&self.text).map_err(|error| error.to_string())?;
        let root = module.computation(module.entry()).root();
        let executions = module.executions();
        Ok(OpPricer::new(&module, &executions, machine).work(root, self.stated))
    }
}

/// An op beside its price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PricedOp {
    /// Name of the instruction.
    pub name: String,
    /// Class.
    pub class: PricedClass,
    /// Executions.
    pub executions: u64,
    /// Mean time of one.
    pub measured_s: f64,
    /// Its price.
    pub predicted_s: f64,
    /// What limits it.
    pub bound: Bound,
    /// HLO text.
    pub text: String,
}

impl PricedOp {
    /// How far the price is off, as a share of the measurement.
    pub fn error(&self) -> f64 {
        self.predicted_s / self.measured_s - 1.0
    }

    /// Seconds that it is off in all executions.
    pub fn lost_s(&self) -> f64 {
        (self.predicted_s - self.measured_s).abs() * self.executions as f64
    }
}

/// Errors of one class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassError {
    /// The class; all of them where there is none.
    pub class: Option<PricedClass>,
    /// Ops that take longer than [`ProfileErrors::from_s`].
    pub ops: usize,
    /// Measured seconds of all ops, short ones too.
    pub measured_s: f64,
    /// Predicted seconds of all ops, short ones too.
    pub predicted_s: f64,
    /// Of the longer ops: median of the error, without its sign, each op once.
    pub median: Option<f64>,
    /// Nine of ten are off by less.
    pub p90: Option<f64>,
}

/// A profile op by op.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileErrors {
    /// Ops that take less are in sums only.
    pub from_s: f64,
    /// All classes together, then each that occurs.
    pub classes: Vec<ClassError>,
    /// All ops that have a price, most seconds off first.
    pub ops: Vec<PricedOp>,
    /// Ops that have no price, with the reason: the first few.
    pub unpriced: Vec<(String, String)>,
}

/// Errors of a profile by class, as the record of results keeps them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileClasses {
    /// Name of the file.
    pub file: String,
    /// Slice it was measured on.
    pub slice: String,
    /// All classes together, then each that occurs.
    pub classes: Vec<ClassError>,
}

/// Ops that take less than this are mostly overhead.
pub const LONG_OP_S: f64 = 20e-6;
/// Reasons that are kept.
const MOST_REASONS: usize = 20;

impl ProfileErrors {
    /// Prices ops on a machine and compares.
    pub fn of(ops: impl IntoIterator<Item = ProfiledOp>, machine: &Machine) -> ProfileErrors {
        let (mut priced, mut unpriced) = (Vec::new(), Vec::new());
        for op in ops.into_iter().filter(|op| op.measured_s > 0.0 && op.executions > 0) {
            match op.work(machine) {
                Ok(Some(work)) => {
                    let OpPrice { class, seconds, bound } = work.price(machine);
                    priced.push(PricedOp {
                        name: op.name,
                        class,
                        executions: op.executions,
                        measured_s: op.measured_s,
                        predicted_s: seconds,
                        bound,
                        text: op.text,
                    });
                }
                Ok(None) => {}
                Err(why) if unpriced.len() < MOST_REASONS => unpriced.push((op.name, why)),
                Err(_) => {}
            }
        }
        priced.sort_by(|a, b| b.lost_s().total_cmp(&a.lost_s()).then_with(|| a.name.cmp(&b.name)));
        let classes = std::iter::once(None).chain(PricedClass::ALL.map(Some));
        let classes = classes.filter_map(|class| class_error(class, &priced)).collect();
        ProfileErrors { from_s: LONG_OP_S, classes, ops: priced, unpriced }
    }
}

fn class_error(class: Option<PricedClass>, ops: &[PricedOp]) -> Option<ClassError> {
    let of_class: Vec<&PricedOp> = ops.iter().filter(|op| class.is_none_or(|class| op.class == class)).collect();
    if of_class.is_empty() {
        return None;
    }
    let times = |op: &PricedOp, seconds: f64| seconds * op.executions as f64;
    let long: Vec<f64> = of_class.iter().filter(|op| op.measured_s >= LONG_OP_S).map(|op| op.error()).collect();
    let summary = Summary::of(long.iter().copied());
    Some(ClassError {
        class,
        ops: long.len(),
        measured_s: of_class.iter().map(|op| times(op, op.measured_s)).sum(),
        predicted_s: of_class.iter().map(|op| times(op, op.predicted_s)).sum(),
        median: summary.as_ref().map(|summary| summary.median),
        p90: summary.as_ref().map(|summary| summary.p90),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(text: &str, microseconds: f64, stated: StatedWork) -> ProfiledOp {
        let name = text.trim_start_matches('%').split(' ').next().unwrap().to_string();
        ProfiledOp { name, text: text.into(), executions: 2, measured_s: microseconds / 1e6, stated, work: None }
    }

    /// Ops of published profiles with their measured times.
    #[test]
    fn ops_are_priced_by_their_text() {
        let tpu7x = Machine::of(&"tpu7x-2".parse().unwrap());
        let read = StatedWork { flops: 6_223_298_560.0, bytes: 779_209_728.0 };
        let ops = [
            op(
                "%fusion = bf16[8,75968]{1,0:T(8,128)(2,1)} fusion(bf16[8,5120]{1,0:T(8,128)(2,1)S(1)} %a, \
                 bf16[75968,5120]{1,0:T(16,128)(2,1)} %b), kind=kOutput, calls=%f",
                289.6,
                read,
            ),
            op(
                "%psum.1 = bf16[1024,5120]{1,0:T(8,128)(2,1)} all-reduce(bf16[1024,5120]{1,0:T(8,128)(2,1)} %q), channel_id=1, \
                 replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%r",
                28.4,
                StatedWork::default(),
            ),
            op(
                "%quantized_matmul_kernel_512_5120_2560.1 = bf16[1024,5120]{1,0:T(8,128)(2,1)} \
                 custom-call(bf16[1024,5120]{1,0:T(16,128)(2,1)} %x, f4e2m1fn[5120,5120]{1,0:T(64,128)(8,1)E(4)} %w, \
                 f32[10,1,5120]{2,1,0:T(1,128)} %s), custom_call_target=\"tpu_custom_call\"",
                44.3,
                StatedWork::default(),
            ),
            op(
                "%fusion.409 = bf16[1024,32,128]{2,0,1:T(8,128)(2,1)S(1)} fusion(f32[1024,32,128]{2,1,0:T(8,128)S(1)} %a, \
                 f32[1024,32]{0,1:T(8,128)S(1)} %b), kind=kLoop, calls=%f",
                20.1,
                StatedWork { flops: 12_582_912.0, bytes: 25_297_152.0 },
            ),
            op("%copy-done = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0}, u32[]) %s)", 30.0, StatedWork::default()),
            op("no text", 30.0, StatedWork::default()),
        ];
        let errors = ProfileErrors::of(ops, &tpu7x);
        assert_eq!(errors.ops.len(), 4, "{errors:?}");
        assert_eq!(errors.unpriced.len(), 1);
        for op in &errors.ops {
            assert!(op.error().abs() < 0.2, "{op:?}");
        }
        let all = errors.classes[0];
        assert_eq!((all.class, all.ops), (None, 4));
        assert!((all.measured_s - 2.0 * 382.4e-6).abs() < 1e-9);
    }

    /// Ops of published profiles that each show one rule: vector work that HBM does not hide, rows that leave their tiles one by one, small tiles,
    /// collectives within a chip, stores of a fill, rows of a table in pieces.
    #[test]
    fn published_ops_are_within_a_tenth() {
        let check = |slice: &str, text: &str, microseconds: f64, stated: StatedWork| {
            let machine = Machine::of(&slice.parse().unwrap());
            let errors = ProfileErrors::of([op(text, microseconds, stated)], &machine);
            assert!(errors.ops[0].error().abs() < 0.1, "{errors:?}");
        };
        let none = StatedWork::default();
        check(
            "tpu7x-2",
            "%fusion.65 = bf16[1024,12800]{1,0:T(16,128)(2,1)} fusion(bf16[1024,1,25600]{2,0,1:T(8,128)(2,1)} %a), kind=kLoop, calls=%f",
            30.1,
            StatedWork { flops: 65_536_000.0, bytes: 78_643_200.0 },
        );
        check(
            "tpu7x-2",
            "%copy_bitcast_fusion = bf16[4,1024,4,2,128]{4,3,2,1,0:T(2,128)(2,1)} \
             fusion(bf16[1024,4,4,2,128]{4,0,3,2,1:T(8,128)(2,1)S(1)} %a), kind=kLoop, calls=%f",
            47.5,
            StatedWork { flops: 0.0, bytes: 16_777_216.0 },
        );
        check(
            "tpu7x-2",
            "%copy.3007 = bf16[1024,4,4,2,128]{4,3,2,1,0:T(2,128)(2,1)S(1)} copy(bf16[1024,4,4,2,128]{4,3,2,0,1:T(2,128)(2,1)} %a)",
            9.1,
            none,
        );
        check(
            "tpu7x-2",
            "%psum.2 = bf16[1024,5120]{1,0:T(8,128)(2,1)S(1)} all-reduce(bf16[1024,5120]{1,0:T(8,128)(2,1)} %q), channel_id=1, \
             replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%r",
            25.6,
            none,
        );
        check(
            "tpu7x-2",
            "%fusion = bf16[1024,5120]{1,0:T(8,128)(2,1)S(1)} fusion(bf16[75968,5120]{1,0:T(16,128)(2,1)} %t, \
             s32[1024]{0:T(1024)S(1)} %i), kind=kCustom, calls=%f",
            84.1,
            StatedWork { flops: 0.0, bytes: 20_975_616.0 },
        );
        check(
            "v6e-8",
            "%broadcast.2 = f32[5,1024,1024,256]{3,2,1,0:T(8,128)} broadcast(f32[]{:T(128)} %c), dimensions={}",
            4444.0,
            none,
        );
    }

    /// Kernels that read a part of an operand cost what they say: a layer of a stack, or pages of a cache. The static cycles of attention
    /// are those of `docs/kernel-cycles.md`.
    #[test]
    fn kernels_that_read_parts_of_operands_do_not_cost_the_whole() {
        let machine = Machine::of(&"v6e-1".parse().unwrap());
        let predicted = |call: &str, flops: u64, transcendentals: u64, bytes: u64| {
            let text = format!(
                "%{call}, custom_call_target=\"tpu_custom_call\", backend_config={{\"custom_call_config\": {{\"cost_estimate\": \
                 {{\"flops\": {flops}, \"transcendentals\": {transcendentals}, \"bytes_accessed\": {bytes}}}}}}}"
            );
            ProfileErrors::of([op(&text, 30.0, StatedWork::default())], &machine).ops[0].predicted_s
        };
        // 16 sequences of 1024 positions, in 4 pages each of a cache of 32 layers.
        let pages = "bf16[32,64,8,256,128]{4,3,2,1,0:T(8,128)(2,1)}";
        let query = "bf16[16,8,16,128]{3,2,1,0:T(8,128)(2,1)}";
        let attention = format!("paged_attention.1 = {query} custom-call({query} %q, {pages} %k, {pages} %v)");
        let seconds = predicted(&attention, 1_073_741_824, 2_097_152, 68_157_440);
        let counted = 77_308.0 / 1.75e9;
        assert!((0.75..1.35).contains(&(seconds / counted)), "{seconds}");
        let stack = "bf16[32,8,1024,1024]{3,2,1,0:T(8,128)(2,1)}";
        let rows = "bf16[16,1024]{1,0:T(8,128)(2,1)}";
        let seconds =
            predicted(&format!("gmm.1 = {rows} custom-call({rows} %x, {stack} %w)"), 33_554_432, 0, 16_842_752);
        let read = 16_842_752.0 / 1.64e12;
        assert!((1.0..1.5).contains(&(seconds / read)), "{seconds}");
    }

    /// Sublanes that change are shuffled, as measured; a transpose of lanes, of which no time is known, counts by its bytes.
    #[test]
    fn layouts_with_other_sublanes_take_longer() {
        let machine = Machine::of(&"tpu7x-2".parse().unwrap());
        let copy = |from: &str, to: &str| {
            let shape = "bf16[4,8,1024,128]";
            let text = format!("%copy = {shape}{{{to}:T(8,128)(2,1)}} copy({shape}{{{from}:T(8,128)(2,1)}} %a)");
            ProfileErrors::of([op(&text, 30.0, StatedWork::default())], &machine).ops[0].predicted_s
        };
        let (alike, sublanes, lanes) =
            (copy("3,2,1,0", "3,2,0,1"), copy("3,2,1,0", "3,1,2,0"), copy("3,2,1,0", "2,3,1,0"));
        assert!(sublanes > 1.5 * alike, "{sublanes} {alike}");
        assert_eq!(lanes, alike);
        // A reshape that cuts tiles keeps words where it cuts between them, and takes them apart where it does not.
        let reshape = |rows: u64, each: u64, tile: u64| {
            let (flat, cut) = (rows * each, format!("bf16[{rows},{each},2880]{{2,1,0:T({tile},128)(2,1)}}"));
            let text = format!("%reshape = {cut} reshape(bf16[{flat},2880]{{1,0:T(8,128)(2,1)}} %a)");
            ProfileErrors::of([op(&text, 30.0, StatedWork::default())], &machine).ops[0].predicted_s
        };
        let (words, apart) = (reshape(81_920, 4, 4), reshape(65_536, 5, 8));
        assert!(apart > 1.8 * words, "{words} {apart}");
    }

    /// An all-reduce over pairs two hops apart on a v6e-8, 121.7 ms.
    #[test]
    fn pairs_share_the_link_between_them() {
        let machine = Machine::of(&"v6e-8".parse().unwrap());
        let text = "%all-reduce = f32[5,1024,1024,256]{3,2,1,0:T(8,128)} all-reduce(f32[5,1024,1024,256]{3,2,1,0:T(8,128)} %a), \
                    channel_id=1, replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true, to_apply=%add";
        let errors = ProfileErrors::of([op(text, 121_700.0, StatedWork::default())], &machine);
        assert!(errors.ops[0].error().abs() < 0.03, "{errors:?}");
    }
}
