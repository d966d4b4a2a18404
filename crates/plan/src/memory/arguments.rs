//! What each argument of a program is: weights, optimizer state, a cache, or input.
//!
//! The name decides where it says: `opt_state`, `mu`, `nu` and the like are optimizer state, `params` and names that end in
//! `weight` or `kernel` are parameters, `cache` is a cache, `batch`, `inputs`, `tokens` are inputs; of several such words in
//! a path the leftmost counts. Without a telling name, an argument is state if a result takes its memory or one has
//! its type. State that nothing but arithmetic reads is optimizer state. State that matmuls or look-ups read is a parameter in a
//! program that has a backward pass or such optimizer state; of others it is a cache if it is donated, else an input. What is no state is an input of a program that trains;
//! of others, if it holds integers or shares its leading size with the results, and a parameter if not.

use std::collections::{HashMap, HashSet};

use hlo::attr::{ALIAS, DONOR};
use hlo::{Attr, Func, Location, Module, OpId, OpKind, Type, Value};

use super::class::BufferClass;

/// An argument of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramArgument {
    /// The name the program gives it; empty where it gives none.
    pub name: String,
    /// What it is.
    pub class: BufferClass,
    /// The result that replaces it in the next step, where there is one.
    pub replaced_by: Option<usize>,
    /// Whether the program says that it may be overwritten.
    pub is_donated: bool,
}

/// The arguments of the entry function, in order.
pub(crate) fn arguments(module: &Module) -> Vec<ProgramArgument> {
    let Some(entry) = module.entry() else { return Vec::new() };
    let names: Vec<String> = (0..entry.inputs.len()).map(|index| argument_name(entry, index)).collect();
    let replaced = pairs(entry, &names);
    let in_matmuls = read_by_matmuls(module, entry);
    let ops = module.funcs.iter().flat_map(|func| &func.ops);
    let is_trained = ops.into_iter().any(|op| op.loc.as_deref().is_some_and(mentions_backward));
    let has_idle_state = (0..entry.inputs.len()).any(|index| replaced[index].is_some() && !in_matmuls.contains(&index));
    (0..entry.inputs.len())
        .map(|index| {
            let attrs = entry.input_attrs.get(index);
            let has = |key| attrs.is_some_and(|attrs| attrs.get(key).is_some());
            let by_role = || match replaced[index] {
                Some(_) if !in_matmuls.contains(&index) => BufferClass::OptimizerState,
                Some(_) if is_trained || has_idle_state => BufferClass::Parameters,
                Some(_) if has(ALIAS) || has(DONOR) => BufferClass::CarriedState,
                // A layer whose result looks like its input.
                Some(_) => BufferClass::Inputs,
                None if is_trained || has_idle_state || is_input(entry, index) => BufferClass::Inputs,
                None => BufferClass::Parameters,
            };
            ProgramArgument {
                class: class_of_name(&names[index], replaced[index].is_some()).unwrap_or_else(by_role),
                name: names[index].clone(),
                replaced_by: replaced[index],
                is_donated: has(ALIAS) || has(DONOR),
            }
        })
        .collect()
}

/// Names in locations and attributes are those of the traced program.
fn argument_name(entry: &Func, index: usize) -> String {
    let attrs = entry.input_attrs.get(index);
    let said = ["tpubridge.name", "jax.arg_info"].iter().find_map(|key| attrs?.get(key).and_then(Attr::as_str));
    let located = || match entry.args().get(index).and_then(|&value| entry.value(value).loc.as_deref()) {
        Some(Location::Name(name, _)) => name.to_string(),
        _ => String::new(),
    };
    said.map_or_else(located, str::to_string)
}

fn result_name(entry: &Func, index: usize) -> &str {
    let attrs = entry.output_attrs.get(index);
    let keys = ["tpubridge.name", "jax.result_info"];
    keys.iter().find_map(|key| attrs?.get(key).and_then(Attr::as_str)).unwrap_or("")
}

/// The result that replaces each argument: the one the program says, else the first free one of its type, of the same
/// path if results have names.
fn pairs(entry: &Func, names: &[String]) -> Vec<Option<usize>> {
    let mut pairs: Vec<Option<usize>> = (0..entry.inputs.len())
        .map(|index| entry.input_attrs.get(index)?.get(ALIAS)?.as_int().and_then(|n| usize::try_from(n).ok()))
        .map(|result| result.filter(|&result| result < entry.outputs.len()))
        .collect();
    let mut taken: HashSet<usize> = pairs.iter().flatten().copied().collect();
    let mut by_type: HashMap<&Type, Vec<usize>> = HashMap::new();
    for (index, ty) in entry.outputs.iter().enumerate() {
        by_type.entry(ty).or_default().push(index);
    }
    for index in 0..pairs.len() {
        if pairs[index].is_some() {
            continue;
        }
        let fitting = by_type.get(&entry.inputs[index]).map_or(&[][..], Vec::as_slice);
        let path = path_end(&names[index]);
        let is_free = |result: &&usize| !taken.contains(result);
        let same_path = |result: &&usize| !path.is_empty() && path_end(result_name(entry, **result)) == path;
        let found = fitting.iter().filter(is_free).find(same_path).or_else(|| fitting.iter().find(is_free)).copied();
        taken.extend(found);
        pairs[index] = found;
    }
    pairs
}

/// The path below the outermost name: `['mu']['w']` of `state['mu']['w']` and of `result[0]['mu']['w']`.
fn path_end(name: &str) -> &str {
    let end = name.find("['").map_or("", |at| &name[at..]);
    end.trim_end()
}

fn mentions_backward(location: &Location) -> bool {
    let mut pending = vec![location];
    let mut left = 64;
    while let Some(location) = pending.pop() {
        left -= 1;
        if left == 0 {
            return false;
        }
        match location {
            Location::Name(name, _) if name.contains("transpose(") => return true,
            Location::Name(_, inner) => pending.extend(inner.as_deref()),
            Location::CallSite { callee, caller } => {
                pending.extend([callee, caller].into_iter().filter_map(|l| l.as_deref()))
            }
            Location::Fused(parts, _) => pending.extend(parts.iter().take(16).filter_map(|part| part.as_deref())),
            Location::File { .. } => {}
        }
    }
    false
}

fn is_input(entry: &Func, index: usize) -> bool {
    let leading = |ty: &Type| ty.as_tensor().and_then(|tensor| tensor.dims.first().copied());
    let Some(tensor) = entry.inputs[index].as_tensor() else { return true };
    let is_integer = tensor.element.plain().is_some_and(|dtype| !dtype.is_float());
    let shares =
        tensor.rank() > 0 && entry.outputs.iter().any(|output| leading(output) == leading(&entry.inputs[index]));
    is_integer || shares || tensor.rank() == 0
}

/// What a name says.
fn class_of_name(name: &str, is_state: bool) -> Option<BufferClass> {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let leading = match words.first() {
        // Single letters are names of weights as well, unless they are the whole tree.
        Some(&("m" | "v")) if is_state && words.len() > 1 => Some(BufferClass::OptimizerState),
        _ => None,
    };
    let told = words.iter().find_map(|word| match *word {
        "opt" | "optimizer" | "optstate" | "mu" | "nu" | "momentum" | "velocity" | "adam" | "moment" | "moments" => {
            Some(BufferClass::OptimizerState)
        }
        "params" | "param" | "parameters" | "weights" | "variables" | "model" => Some(BufferClass::Parameters),
        "cache" | "caches" | "kv" | "past" => Some(BufferClass::CarriedState),
        _ => None,
    });
    let last = || match words.last() {
        Some(&("weight" | "kernel" | "bias" | "scale" | "embedding" | "gamma" | "beta")) => {
            Some(BufferClass::Parameters)
        }
        _ => None,
    };
    let input = || {
        words.iter().find_map(|word| match *word {
            "batch" | "input" | "inputs" | "tokens" | "labels" | "targets" | "positions" | "mask" | "images"
            | "data" | "prompt" | "ids" => Some(BufferClass::Inputs),
            _ => None,
        })
    };
    leading.or(told).or_else(last).or_else(input)
}

/// Arguments that reach a matmul, a convolution, a look-up or a kernel through nothing but moves and conversions.
fn read_by_matmuls(module: &Module, entry: &Func) -> HashSet<usize> {
    let funcs: HashMap<&str, &Func> = module.funcs.iter().map(|func| (&*func.name, func)).collect();
    let mut users: HashMap<&str, HashMap<Value, Vec<OpId>>> = HashMap::new();
    for func in &module.funcs {
        let of_func = users.entry(&func.name).or_default();
        for id in func.walk() {
            for &operand in &func.op(id).operands {
                of_func.entry(operand).or_default().push(id);
            }
        }
    }
    let mut callers: HashMap<&str, Vec<(&Func, OpId)>> = HashMap::new();
    for func in &module.funcs {
        for id in func.walk() {
            if let (Some(OpKind::FuncCall), Some(Attr::Symbol(callee))) =
                (func.op(id).kind(), func.op(id).attr("callee"))
            {
                callers.entry(callee).or_default().push((func, id));
            }
        }
    }
    let mut seen: HashSet<(&str, Value)> = HashSet::new();
    let mut found = HashSet::new();
    for (index, &argument) in entry.args().iter().enumerate() {
        // Each argument needs its own walk: a value two arguments reach belongs to both.
        seen.clear();
        let mut pending: Vec<(&Func, Value)> = vec![(entry, argument)];
        while let Some((func, value)) = pending.pop() {
            if !seen.insert((&func.name, value)) || seen.len() > MAX_WALK {
                continue;
            }
            let readers = users.get(&*func.name).and_then(|users| users.get(&value));
            for &id in readers.into_iter().flatten() {
                let op = func.op(id);
                match op.kind() {
                    Some(kind) if is_matmul(kind) => drop(found.insert(index)),
                    Some(OpKind::CustomCall) if is_kernel(op.attr("call_target_name")) => drop(found.insert(index)),
                    Some(OpKind::FuncCall) => {
                        let callee = match op.attr("callee") {
                            Some(Attr::Symbol(name)) => funcs.get(&**name).copied(),
                            _ => None,
                        };
                        for (position, _) in op.operands.iter().enumerate().filter(|(_, operand)| **operand == value) {
                            if let Some(callee) = callee {
                                pending.extend(callee.args().get(position).map(|&inner| (callee, inner)));
                            }
                        }
                    }
                    Some(OpKind::FuncReturn) => {
                        for (position, _) in op.operands.iter().enumerate().filter(|(_, operand)| **operand == value) {
                            let outside = callers.get(&*func.name).into_iter().flatten();
                            pending.extend(outside.filter_map(|&(caller, call)| {
                                caller.op(call).results().nth(position).map(|result| (caller, result))
                            }));
                        }
                    }
                    Some(kind) if is_move(kind) || kind == OpKind::CustomCall => {
                        pending.extend(op.results().map(|result| (func, result)));
                    }
                    Some(OpKind::While | OpKind::SdyManualComputation) => {
                        for (position, _) in op.operands.iter().enumerate().filter(|(_, operand)| **operand == value) {
                            let inner = op.regions.iter().filter_map(|&region| func.region(region).args.get(position));
                            pending.extend(inner.map(|&inner| (func, inner)));
                        }
                    }
                    _ => {}
                }
            }
            if found.contains(&index) {
                break;
            }
        }
    }
    found
}

/// Values followed for one argument.
const MAX_WALK: usize = 20_000;

fn is_matmul(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::DotGeneral
            | OpKind::Dot
            | OpKind::Convolution
            | OpKind::Gather
            | OpKind::DynamicGather
            | OpKind::Einsum
    )
}

fn is_kernel(target: Option<&Attr>) -> bool {
    target.and_then(Attr::as_str).is_some_and(|target| target == "tpu_custom_call")
}

fn is_move(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Convert
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::BroadcastInDim
            | OpKind::Slice
            | OpKind::DynamicSlice
            | OpKind::Concatenate
            | OpKind::Pad
            | OpKind::OptimizationBarrier
            | OpKind::SdyShardingConstraint
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[BufferClass]) {
        let module = hlo::text::parse(text).unwrap();
        let found: Vec<BufferClass> = arguments(&module).into_iter().map(|argument| argument.class).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn names_tell() {
        let class = |name| class_of_name(name, true);
        assert_eq!(class("state['params']['dense.0.v']"), Some(BufferClass::Parameters));
        assert_eq!(class("opt_state[0].mu['params']['w']"), Some(BufferClass::OptimizerState));
        assert_eq!(class("state['nu']['embedding']"), Some(BufferClass::OptimizerState));
        assert_eq!(class("v['w']"), Some(BufferClass::OptimizerState));
        assert_eq!(class("layers.0.input_layernorm.weight"), Some(BufferClass::Parameters));
        assert_eq!(class("batch['inputs']"), Some(BufferClass::Inputs));
        assert_eq!(class("cache['k']"), Some(BufferClass::CarriedState));
        assert_eq!(class("x"), None);
    }

    #[test]
    fn roles_tell_where_names_do_not() {
        // A weight that is multiplied and replaced, a moment that is only added to, an input.
        check(
            "func.func @main(%w: tensor<8x8xf32>, %m: tensor<8x8xf32>, %x: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<32xf32>) {
               %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
               %1 = stablehlo.add %m, %w : tensor<8x8xf32>
               %2 = stablehlo.subtract %w, %1 : tensor<8x8xf32>
               %3 = stablehlo.reshape %0 : (tensor<4x8xf32>) -> tensor<32xf32>
               return %2, %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<32xf32>
             }",
            &[BufferClass::Parameters, BufferClass::OptimizerState, BufferClass::Inputs],
        );
        // A weight that a function takes a slice of before it is multiplied.
        check(
            "func.func public @main(%w: tensor<2x8x8xf32>, %m: tensor<2x8x8xf32>, %x: tensor<8x8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<64xf32>) {
               %0 = func.call @layer(%w) : (tensor<2x8x8xf32>) -> tensor<8x8xf32>
               %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
               %2 = stablehlo.add %m, %w : tensor<2x8x8xf32>
               %3 = stablehlo.reshape %1 : (tensor<8x8xf32>) -> tensor<64xf32>
               return %2, %2, %3 : tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<64xf32>
             }
             func.func private @layer(%w: tensor<2x8x8xf32>) -> tensor<8x8xf32> {
               %0 = stablehlo.slice %w [0:1, 0:8, 0:8] : (tensor<2x8x8xf32>) -> tensor<1x8x8xf32>
               %1 = stablehlo.reshape %0 : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
               return %1 : tensor<8x8xf32>
             }",
            &[BufferClass::Parameters, BufferClass::OptimizerState, BufferClass::Inputs],
        );
        // No state: the weight is what does not share the leading size of the result.
        check(
            "func.func @main(%w: tensor<8x16xf32>, %x: tensor<4x8xf32>) -> tensor<4x16xf32> {
               %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
               return %0 : tensor<4x16xf32>
             }",
            &[BufferClass::Parameters, BufferClass::Inputs],
        );
    }
}
