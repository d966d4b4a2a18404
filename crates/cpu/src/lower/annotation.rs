//! Calls that say where a value lies, to compilers of other devices: here there is one memory and one order of axes.

use std::collections::HashMap;

use hlo::{Attr, Func, OpId, OpKind, Value, Verified};

use crate::error::Error;

const TARGETS: [&str; 4] = ["annotate_device_placement", "LayoutConstraint", "MoveToDevice", "MoveToHost"];

/// The program without these calls: what reads their results reads what they are given. Otherwise a value that a loop carries
/// and changes in place would be copied by each of them.
pub(super) fn remove(module: Verified) -> Result<Verified, Error> {
    if module.funcs.iter().all(|func| func.walk().iter().all(|&id| given(func, id).is_none())) {
        return Ok(module);
    }
    let mut module = module.into_inner();
    for func in &mut module.funcs {
        let mut instead: HashMap<Value, Value> = HashMap::new();
        for id in func.walk() {
            for operand in &mut func.op_mut(id).operands {
                *operand = instead.get(operand).copied().unwrap_or(*operand);
            }
            if let Some(value) = given(func, id) {
                instead.insert(func.op(id).first_result, value);
            }
        }
        let calls: Vec<OpId> = func.walk().into_iter().filter(|&id| given(func, id).is_some()).collect();
        for region in &mut func.regions {
            region.ops.retain(|id| !calls.contains(id));
        }
    }
    hlo::verify(module).map_err(|error| Error::Internal(format!("a program without annotations is broken: {error}")))
}

/// What such a call is given.
fn given(func: &Func, id: OpId) -> Option<Value> {
    let op = func.op(id);
    let target = op.attr("call_target_name").and_then(Attr::as_str)?;
    let is_one = op.kind() == Some(OpKind::CustomCall) && TARGETS.contains(&target) && op.num_results == 1;
    let [value] = op.operands[..] else { return None };
    (is_one && func.ty(value) == func.ty(op.first_result)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_and_what_they_are_given_stays() {
        let text = "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
            %0 = stablehlo.custom_call @LayoutConstraint(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %1 = stablehlo.custom_call @annotate_device_placement(%0) {has_side_effect = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %2 = stablehlo.custom_call @Sharding(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %3 = stablehlo.add %2, %1 : tensor<2x3xf32>
            return %3 : tensor<2x3xf32>
          }";
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let removed = remove(module).unwrap();
        let printed = hlo::text::print(&removed);
        assert!(printed.contains("@Sharding(%arg0)") || printed.contains("@Sharding(%x)"), "{printed}");
        assert!(!printed.contains("LayoutConstraint") && !printed.contains("annotate"), "{printed}");
    }
}
