//! Work of a whole program: matrix FLOPs, bytes and the compiler's cycle estimates, with loops multiplied out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::executions::Executions;
use crate::json::Json;
use crate::module::{ComputationId, HloModule, Instruction, InstructionId};
use crate::opcode::Opcode;
use crate::shape::PrimitiveType;
use crate::traffic::Traffic;

/// Work of one computation, executed once, without what it calls except fusions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComputationCost {
    /// Operations of matmuls.
    pub matmul_flops: f64,
    /// Bytes read and written.
    pub traffic: Traffic,
    /// Sum of the compiler's cycle estimates.
    pub estimated_cycles: f64,
}

/// Work of one step on one device.
#[derive(Clone, Debug, Default)]
pub struct HloCost {
    /// Operations of matmuls.
    pub matmul_flops: f64,
    /// The same by the wider operand type, largest first.
    pub matmul_flops_by_type: Vec<(PrimitiveType, f64)>,
    /// Operations that custom kernels declare.
    pub kernel_flops: f64,
    /// Bytes read and written.
    pub traffic: Traffic,
    /// Sum of the compiler's cycle estimates; 0 before code generation.
    pub estimated_cycles: f64,
    /// Custom calls that declare no cost, with their executions.
    pub unpriced_custom_calls: Vec<(InstructionId, u64)>,
    /// Work of single executions, by computation.
    pub computations: Vec<ComputationCost>,
}

/// Cost that a custom kernel declares for one execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCost {
    /// Floating-point operations.
    pub flops: u64,
    /// Transcendental functions.
    pub transcendentals: u64,
    /// Bytes read and written.
    pub bytes_accessed: u64,
}

impl Instruction {
    /// Custom calls by which the compiler names memory or marks places, and those that stand for a computation whose
    /// instructions are counted themselves.
    pub(crate) fn is_free_custom_call(&self) -> bool {
        const FREE: [&str; 4] = ["AllocateBuffer", "ConcatBitcast", "AsyncCollectiveStart", "AsyncCollectiveDone"];
        !self.called.is_empty() || FREE.contains(&self.attributes().custom_call_target.as_str())
    }

    /// The code of a custom kernel: MLIR, as bytecode or as text.
    pub fn kernel_body(&self) -> Option<Vec<u8>> {
        let config = self.backend_config_json()?;
        STANDARD.decode(config.get("custom_call_config")?.get("body")?.as_str()?).ok()
    }

    /// The SparseCores that a call runs on, by number; none where the compiler does not say.
    pub fn sparse_cores(&self) -> Vec<u32> {
        let config = self.backend_config_json();
        let ids = config.as_ref().and_then(|config| config.get("sparse_core_config")?.get("core_ids"));
        let ids = ids.and_then(Json::as_array).unwrap_or_default();
        ids.iter().filter_map(|id| u32::try_from(id.as_i64()?).ok()).collect()
    }

    /// The `cost_estimate` of a custom kernel.
    pub fn kernel_cost(&self) -> Option<KernelCost> {
        let config = self.backend_config_json()?;
        let estimate = config.get("custom_call_config")?.get("cost_estimate")?;
        let number =
            |key: &str| estimate.get(key).and_then(Json::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        Some(KernelCost {
            flops: number("flops"),
            transcendentals: number("transcendentals"),
            bytes_accessed: number("bytes_accessed"),
        })
    }
}

impl HloModule {
    /// Adds up the work of one step.
    pub fn cost(&self, executions: &Executions) -> HloCost {
        let users = self.users();
        let mut cost = HloCost::default();
        for (id, computation) in self.computations() {
            let times = executions.of(id) as f64;
            let mut own = ComputationCost::default();
            for &at in &computation.instructions {
                let instruction = self.instruction(at);
                let flops = self.matmul_flops(at) as f64;
                own.matmul_flops += flops;
                if let Some(element_type) = self.matmul_type(at).filter(|_| times > 0.0) {
                    add_by_type(&mut cost.matmul_flops_by_type, element_type, flops * times);
                }
                if computation.is_fusion {
                    continue;
                }
                let traffic = users.traffic(self, at);
                own.traffic.read.add_times(traffic.read, 1.0);
                own.traffic.written.add_times(traffic.written, 1.0);
                own.estimated_cycles += instruction.estimated_cycles().unwrap_or(0) as f64;
                if instruction.opcode == Opcode::CustomCall && times > 0.0 && !instruction.is_free_custom_call() {
                    match instruction.kernel_cost() {
                        Some(kernel) => cost.kernel_flops += kernel.flops as f64 * times,
                        None => cost.unpriced_custom_calls.push((at, executions.of(id))),
                    }
                }
            }
            cost.matmul_flops += own.matmul_flops * times;
            cost.estimated_cycles += own.estimated_cycles * times;
            cost.traffic.read.add_times(own.traffic.read, times);
            cost.traffic.written.add_times(own.traffic.written, times);
            cost.computations.push(own);
        }
        self.fold_fusions(&mut cost);
        cost.matmul_flops_by_type.sort_by(|a, b| b.1.total_cmp(&a.1));
        cost
    }

    /// Gives the FLOPs inside a fusion to the computation that holds it.
    fn fold_fusions(&self, cost: &mut HloCost) {
        for id in self.callees_first() {
            let mut inside = 0.0;
            for &at in &self.computation(id).instructions {
                let instruction = self.instruction(at);
                if instruction.opcode == Opcode::Fusion {
                    let ComputationId(fused) = instruction.called[0];
                    inside += cost.computations[fused as usize].matmul_flops;
                }
            }
            cost.computations[id.0 as usize].matmul_flops += inside;
        }
    }
}

fn add_by_type(list: &mut Vec<(PrimitiveType, f64)>, element_type: PrimitiveType, flops: f64) {
    match list.iter_mut().find(|entry| entry.0 == element_type) {
        Some(entry) => entry.1 += flops,
        None => list.push((element_type, flops)),
    }
}
