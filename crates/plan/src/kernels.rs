//! Custom kernels, which the compiler does not price: their work from their names and operands.

use xla::{HloModule, InstructionId, KernelCost, Opcode, PrimitiveType, Shape};

use crate::grouped::grouped_matmul;
use crate::kernel_work::{KernelOrder, KernelWork, LOSS, OPS_PER_CODE};
use crate::serving_kernels;
use crate::work::Matmul;

/// Simple vector operations for each score of an attention kernel, beside the exponential: running maximum, subtraction, sum,
/// conversion; masks only where a block is partly visible.
const FORWARD_OPS_PER_SCORE: f64 = 5.0;
/// The same on the way back: subtraction, the gradient's subtraction and multiplication, conversions of both.
const BACKWARD_OPS_PER_SCORE: f64 = 6.0;
/// Those of a soft cap: multiplications before and after its `tanh`, and the slope on the way back.
const CAP_OPS_PER_SCORE: f64 = 3.0;
/// Simple vector operations for each logit of the loss, beside the exponential: subtraction, maximum or multiplication, where the label
/// is, sums.
const OPS_PER_LOGIT: f64 = 7.0;
/// Vector operations for each number of a group's partial sum: the correction, the scale, the sum.
const OPS_PER_PARTIAL_SUM: f64 = 3.0;

impl KernelWork {
    /// Reads a custom call; `None` for one whose work nobody knows.
    pub fn read(module: &HloModule, id: InstructionId) -> Option<KernelWork> {
        let instruction = module.instruction(id);
        let name = kernel_name(module, id);
        if let Some(matmuls) = loss_matmuls(instruction.name()) {
            return loss(module, id, matmuls);
        }
        if instruction.name().contains("quantized_matmul") {
            return serving_kernels::quantized(module, id).or_else(|| quantized(module, id));
        }
        if instruction.name().starts_with("paged_attention") {
            return serving_kernels::own_paged_attention(module, id);
        }
        if serving_kernels::is_paged_attention(&name) {
            return serving_kernels::paged_attention(module, id, &name);
        }
        if ["rms_norm", "layer_norm_fwd", "layer_norm_bwd"].iter().any(|name| instruction.name().contains(name)) {
            return norm(module, id);
        }
        if let Some(matmuls) = attention_matmuls(module, id, &name) {
            return attention(module, id, matmuls);
        }
        if name.contains("gmm") {
            return grouped_matmul(module, id);
        }
        let stated = instruction.kernel_cost()?;
        let matmul = Matmul { flops: stated.flops as f64, element: PrimitiveType::Bf16, contracted: 0, columns: 0 };
        Some(KernelWork {
            family: "kernel with a stated cost",
            matmuls: vec![matmul],
            vector_ops: 0.0,
            transcendentals: stated.transcendentals as f64,
            converted: Vec::new(),
            reach: 1.0,
            hbm_bytes: 0.0,
            touched_bytes: None,
            rows: None,
            order: KernelOrder::SideBySide,
        })
    }
}

fn kernel_name(module: &HloModule, id: InstructionId) -> String {
    let instruction = module.instruction(id);
    let source = instruction.metadata().map_or("", |metadata| metadata.op_name.as_str());
    format!("{} {source}", instruction.name()).to_lowercase()
}

/// Matmuls of an attention kernel for each pair of positions, by its name and results.
fn attention_matmuls(module: &HloModule, id: InstructionId, name: &str) -> Option<u32> {
    let is_attention = ["splash", "flash", "attention", "mha", "mqa"].iter().any(|word| name.contains(word));
    if !is_attention {
        return None;
    }
    let instruction_name = name.split(' ').next().unwrap_or_default();
    // Scores, values; scores, their gradient, and one matmul for each gradient that comes out.
    Some(if instruction_name.contains("dkv") || instruction_name.contains("bwd") {
        // With one sequence on a device some kernels drop its axis, so that ranks say little.
        let operands = module.instruction(id).operands();
        let sizes: Vec<u64> = operands
            .iter()
            .map(|&operand| module.instruction(operand).shape())
            .filter(|shape| !shape.is_tuple() && shape.dimensions().len() >= 3)
            .map(|shape| shape.element_count())
            .collect();
        let is_gradient = |shape: &&Shape| {
            let rank = shape.dimensions().len();
            rank >= 4 || (rank == 3 && sizes.contains(&shape.element_count()))
        };
        let gradients = module.instruction(id).shape().leaves().filter(is_gradient).count();
        2 + gradients.clamp(1, 3) as u32
    } else if instruction_name.contains("dq") {
        3
    } else {
        2
    })
}

fn attention(module: &HloModule, id: InstructionId, matmuls: u32) -> Option<KernelWork> {
    let operands = module.instruction(id).operands();
    let is_values = |shape: &&Shape| {
        !shape.is_tuple()
            && shape.dimensions().len() >= 3
            && shape.element_type().bits() >= 8
            && !matches!(
                shape.element_type(),
                PrimitiveType::S32 | PrimitiveType::S8 | PrimitiveType::U8 | PrimitiveType::Pred
            )
    };
    let mut values = operands.iter().map(|&operand| module.instruction(operand).shape()).filter(is_values);
    let (query, key) = (values.next()?, values.next()?);
    // Positions and depth are the last two sizes, in either order; the depth is the smaller one.
    let last_two = |shape: &Shape| {
        let mut sizes = shape.dimensions().iter().rev().map(|&n| u64::try_from(n).unwrap_or(1).max(1));
        let (a, b) = (sizes.next().unwrap_or(1), sizes.next().unwrap_or(1));
        (a.max(b), a.min(b))
    };
    let ((rows, depth), (columns, _)) = (last_two(query), last_two(key));
    let others = query.element_count() / (rows * depth).max(1);
    let all = others as f64 * rows as f64 * columns as f64;
    let stated = stated_share(module, id, all * f64::from(2 * matmuls) * depth as f64);
    let scores = all * visible(module, operands, rows, columns).or(stated).unwrap_or(CAUSAL);
    let one = |contracted: u64, columns: u64| Matmul {
        flops: 2.0 * scores * depth as f64,
        element: query.element_type(),
        contracted,
        columns,
    };
    // Half of the matmuls sum over the depth, the others have it as columns.
    let by_depth = matmuls / 2;
    let list = (0..matmuls).map(|n| if n < by_depth { one(depth, columns) } else { one(columns, depth) });
    let ops = if matmuls == 2 { FORWARD_OPS_PER_SCORE } else { BACKWARD_OPS_PER_SCORE };
    // Our kernels state exponentials and, with a soft cap, a `tanh` for each score.
    let functions = stated_functions(module, id, f64::from(2 * matmuls) * depth as f64).unwrap_or(1.0);
    let ops = ops + (functions - 1.0) * CAP_OPS_PER_SCORE;
    Some(KernelWork {
        family: "attention",
        matmuls: list.collect(),
        vector_ops: scores * ops,
        transcendentals: scores * functions,
        converted: Vec::new(),
        reach: 1.0,
        hbm_bytes: 0.0,
        touched_bytes: None,
        rows: None,
        order: KernelOrder::SideBySide,
    })
}

/// Share of the scores that a kernel computes: blocks that its mask leaves out cost nothing.
///
/// Kernels with a mask known ahead take tables of one shape, heads by blocks of rows by blocks listed for them: which block to load
/// next, and whether any of it is visible (0: none). Where their contents are not in the program their shape tells: blocks that
/// no row of a table's line sees are not listed. `None` without tables.
fn visible(module: &HloModule, operands: &[InstructionId], rows: u64, columns: u64) -> Option<f64> {
    let is_table = |shape: &Shape| {
        let dims = shape.dimensions();
        dims.len() == 3
            && matches!(shape.element_type(), PrimitiveType::S8 | PrimitiveType::S16 | PrimitiveType::S32)
            && dims[1] > 0
    };
    let tables: Vec<InstructionId> =
        operands.iter().copied().filter(|&operand| is_table(module.instruction(operand).shape())).collect();
    let &first = tables.first()?;
    let dims = module.instruction(first).shape().dimensions();
    let (heads, row_blocks, listed) = (dims[0] as f64, dims[1] as f64, dims[2] as f64);
    // Blocks are square where nothing says otherwise.
    let square = (columns as f64 * row_blocks / rows.max(1) as f64).max(1.0);
    let contents: Vec<Vec<i64>> =
        tables.iter().filter_map(|&table| module.instruction(source(module, table)).constant_integers()).collect();
    let is_mask = |values: &&Vec<i64>| values.iter().all(|&v| (0..=2).contains(&v)) && values.iter().any(|&v| v > 0);
    Some(match contents.iter().rev().find(is_mask) {
        Some(mask) => {
            let last = contents.iter().flatten().max().copied().unwrap_or(0);
            let blocks = square.max((last + 1) as f64).max(listed);
            mask.iter().filter(|&&v| v > 0).count() as f64 / (heads * row_blocks * blocks)
        }
        None if listed < square => listed / square,
        None => (row_blocks + 1.0) / (2.0 * row_blocks),
    })
}

/// Share of all operations that one of our own attention kernels states: it counts what its mask and window leave. Others may state
/// what they would compute without a mask.
fn stated_share(module: &HloModule, id: InstructionId, all_flops: f64) -> Option<f64> {
    let share = own_cost(module, id)?.flops as f64 / all_flops;
    (share > 0.0 && share <= 1.0).then_some(share)
}

/// What one of our own attention kernels is said to cost.
fn own_cost(module: &HloModule, id: InstructionId) -> Option<KernelCost> {
    let instruction = module.instruction(id);
    let is_ours =
        ["flash_attention_fwd", "flash_attention_bwd"].iter().any(|name| instruction.name().starts_with(name));
    instruction.kernel_cost().filter(|_| is_ours)
}

/// Exponentials and the like that one of our own attention kernels states for each score: 1, with a soft cap 2.
fn stated_functions(module: &HloModule, id: InstructionId, flops_of_score: f64) -> Option<f64> {
    let cost = own_cost(module, id)?;
    let functions = cost.transcendentals as f64 * flops_of_score / cost.flops as f64;
    functions.is_finite().then(|| functions.clamp(1.0, 2.0))
}

/// Half of the scores.
const CAUSAL: f64 = 0.5;

/// Where a value comes from: through copies, and through the state of loops that only pass it on.
fn source(module: &HloModule, mut id: InstructionId) -> InstructionId {
    for _ in 0..64 {
        let instruction = module.instruction(id);
        let next = match (instruction.opcode(), instruction.operands()) {
            (
                Opcode::Copy
                | Opcode::Bitcast
                | Opcode::Convert
                | Opcode::CopyDone
                | Opcode::CopyStart
                | Opcode::Reshape,
                [first, ..],
            ) => Some(*first),
            (Opcode::GetTupleElement, [tuple]) => {
                element(module, *tuple, instruction.attributes().tuple_index.unwrap_or(0))
            }
            _ => None,
        };
        match next {
            Some(next) => id = next,
            None => break,
        }
    }
    id
}

/// An element of a tuple: of one that is built, or of a loop's state where the loop begins.
fn element(module: &HloModule, tuple: InstructionId, index: u32) -> Option<InstructionId> {
    let instruction = module.instruction(tuple);
    match instruction.opcode() {
        Opcode::Tuple => instruction.operands().get(index as usize).copied(),
        Opcode::Parameter => {
            let &[caller] = module.computation(instruction.computation()).callers() else { return None };
            let caller = module.instruction(caller);
            let is_loop = *caller.opcode() == Opcode::While;
            let begin = caller.operands().first().filter(|_| is_loop)?;
            element(module, *begin, index)
        }
        Opcode::While => element(module, *instruction.operands().first()?, index),
        _ => None,
    }
}

/// Matmuls of a kernel of the loss for each logit, by its name: the logits, and one for each gradient.
fn loss_matmuls(name: &str) -> Option<u32> {
    let (_, pass) = name.split_once("cross_entropy_")?;
    Some(match pass {
        pass if pass.starts_with("bwd_") => 2,
        pass if pass.starts_with("bwd") => 3,
        _ => 1,
    })
}

/// Hidden states `[rows, depth]` and the LM head `[vocab, depth]` come first.
fn loss(module: &HloModule, id: InstructionId, matmuls: u32) -> Option<KernelWork> {
    let operands = module.instruction(id).operands();
    let size = |operand: usize, axis: usize| {
        let shape = module.instruction(*operands.get(operand)?).shape();
        shape.dimensions().get(axis).and_then(|&n| u64::try_from(n).ok())
    };
    let (rows, depth, vocab_size) = (size(0, 0)?, size(0, 1)?, size(1, 0)?);
    let element = module.instruction(*operands.first()?).shape().element_type();
    let logits = rows as f64 * vocab_size as f64;
    let one =
        |contracted: u64, columns: u64| Matmul { flops: 2.0 * logits * depth as f64, element, contracted, columns };
    // The first sums over the depth, the others have it as columns.
    let list = (0..matmuls).map(|n| if n == 0 { one(depth, rows) } else { one(rows, depth) });
    Some(KernelWork {
        family: LOSS,
        matmuls: list.collect(),
        vector_ops: logits * OPS_PER_LOGIT,
        transcendentals: logits,
        converted: Vec::new(),
        reach: 1.0,
        hbm_bytes: module.instruction(id).kernel_cost().map_or(0.0, |stated| stated.bytes_accessed as f64),
        touched_bytes: None,
        rows: None,
        order: KernelOrder::SideBySide,
    })
}

/// Activations, codes `[inner, columns]` and scales; rows are those of the result.
fn quantized(module: &HloModule, id: InstructionId) -> Option<KernelWork> {
    let instruction = module.instruction(id);
    let size = |shape: &Shape, axis: usize| shape.dimensions().get(axis).and_then(|&n| u64::try_from(n).ok());
    let codes = module.instruction(*instruction.operands().get(1)?).shape();
    let (contracted, columns) = (size(codes, 0)?, size(codes, 1)?);
    let groups = size(module.instruction(*instruction.operands().get(2)?).shape(), 0)?;
    let (rows, codes) = (size(instruction.shape().leaves().next()?, 0)? as f64, contracted as f64 * columns as f64);
    let partial_sums = rows * groups as f64 * columns as f64;
    Some(KernelWork {
        family: "quantized matmul",
        matmuls: vec![Matmul { flops: 2.0 * rows * codes, element: PrimitiveType::Bf16, contracted, columns }],
        vector_ops: OPS_PER_CODE * codes + OPS_PER_PARTIAL_SUM * partial_sums,
        transcendentals: 0.0,
        converted: Vec::new(),
        reach: 1.0,
        hbm_bytes: 0.0,
        touched_bytes: None,
        rows: None,
        order: KernelOrder::SideBySide,
    })
}

/// A norm is what it reads and writes.
fn norm(module: &HloModule, id: InstructionId) -> Option<KernelWork> {
    let rows = module.instruction(*module.instruction(id).operands().first()?).shape();
    let elements = rows.element_count() as f64;
    let name = module.instruction(id).name();
    // Layer norms take the mean away: of rows, and on the way back of gradients, which are summed too.
    let ops = match (name.contains("bwd"), name.contains("layer_norm")) {
        (false, false) => 4.0,
        (false, true) => 7.0,
        (true, false) => 12.0,
        (true, true) => 18.0,
    };
    Some(KernelWork {
        family: "norm",
        matmuls: Vec::new(),
        vector_ops: elements * ops,
        transcendentals: 0.0,
        converted: Vec::new(),
        reach: 1.0,
        hbm_bytes: 0.0,
        touched_bytes: None,
        rows: None,
        order: KernelOrder::SideBySide,
    })
}
