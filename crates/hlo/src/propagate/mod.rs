//! Shardings of a program's arguments and results where it does not write them: propagated from those it does write, as
//! Shardy does.
//!
//! Dimensions of an op's operands and results are products of factors (`rule`); axes move along factors from tensor to
//! tensor (`flow`), first through ops that cost nothing, then through all, first where tensors agree, then greedily. Written
//! dimensions that are closed keep what they have.

mod axes;
mod flow;
mod graph;
mod rule;

use std::collections::HashMap;

use self::axes::{Axis, dividing};
use self::graph::{Graph, Tensor};
pub(crate) use self::rule::{FactorKind, Rule, of as rule_of};
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, MeshAttr, MeshRef, TensorSharding};
use crate::ir::{Func, Module, Value};

/// Shardings of the arguments and results of one function; `None` where nothing says how a value is split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropagatedShardings {
    /// Of each argument.
    pub arguments: Vec<Option<TensorSharding>>,
    /// Of each result.
    pub results: Vec<Option<TensorSharding>>,
}

/// Propagates the shardings that are written in a module to the arguments and results of one of its functions.
///
/// Dimensions that do not split evenly along what reaches them keep the axes along which they do.
pub fn propagate(module: &Module, entry: &Func) -> PropagatedShardings {
    let none =
        || PropagatedShardings { arguments: vec![None; entry.inputs.len()], results: vec![None; entry.outputs.len()] };
    if module.meshes.is_empty() {
        return none();
    }
    let Some(mut graph) = Graph::new(module, entry) else { return none() };
    flow::run(&mut graph);
    let read = |places: &[Option<usize>]| places.iter().map(|&place| sharding(&graph, place?)).collect();
    PropagatedShardings { arguments: read(&graph.arguments), results: read(&graph.results) }
}

/// Propagates through a module to every value of one of its functions that is split; `None` for a program that is too large. What
/// functions that it calls compute has no value here.
pub fn propagate_values(module: &Module, entry: &Func) -> Option<HashMap<Value, TensorSharding>> {
    let mut graph = Graph::new(module, entry)?;
    flow::run(&mut graph);
    let values = graph.values.iter().filter_map(|(&value, &place)| Some((value, sharding(&graph, place?)?)));
    Some(values.collect())
}

fn sharding(graph: &Graph, place: usize) -> Option<TensorSharding> {
    let tensor: &Tensor = &graph.tensors[place];
    let mesh = &graph.meshes[tensor.mesh?];
    let names = |axes: &[Axis]| axes.iter().map(|&axis| name(mesh, axis)).collect::<Vec<_>>();
    let dims = tensor.dims.iter().zip(&tensor.sizes).map(|(dim, &size)| DimensionSharding {
        axes: names(&if size < 0 { Vec::new() } else { dividing(&dim.axes, size).0 }),
        is_closed: true,
        priority: None,
    });
    Some(TensorSharding {
        mesh: MeshRef::Inline(mesh.clone()),
        dims: dims.collect(),
        replicated: Vec::new(),
        unreduced: names(&tensor.unreduced),
    })
}

fn name(mesh: &MeshAttr, axis: Axis) -> AxisRef {
    let (name, size) = &mesh.axes[axis.index];
    let is_whole = axis.pre == 1 && axis.size == *size;
    AxisRef { name: name.clone(), sub_axis: (!is_whole).then_some((axis.pre, axis.size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x,y|` is a matrix whose rows are split along two axes; `-` says that nothing is known.
    fn spelled(sharding: &Option<TensorSharding>) -> String {
        let Some(sharding) = sharding else { return "-".into() };
        let axis = |axis: &AxisRef| match axis.sub_axis {
            Some((pre, size)) => format!("{}({pre}){size}", axis.name),
            None => axis.name.clone(),
        };
        let list = |axes: &[AxisRef]| axes.iter().map(axis).collect::<Vec<_>>().join(",");
        let mut text = sharding.dims.iter().map(|dim| list(&dim.axes)).collect::<Vec<_>>().join("|");
        if !sharding.unreduced.is_empty() {
            text += &format!(" unreduced {}", list(&sharding.unreduced));
        }
        text
    }

    /// The shardings of the arguments and results of a program over a mesh of 4 by 2.
    fn check(body: &str, arguments: &[&str], results: &[&str]) {
        let text = format!("module {{ sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n{body} }}");
        let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
        let found = propagate(&module, module.entry().unwrap());
        let spelled = |list: &[Option<TensorSharding>]| list.iter().map(spelled).collect::<Vec<_>>();
        assert_eq!(spelled(&found.arguments), arguments, "arguments of {body}");
        assert_eq!(spelled(&found.results), results, "results of {body}");
    }

    const X: &str = "{sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}";

    #[test]
    fn matmuls_keep_rows_and_columns() {
        let program = |lhs: &str, rhs: &str| {
            format!(
                "func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, {lhs}>}},
                 %b: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {rhs}>}}) -> tensor<8x8xf32> {{
                   %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :
                     (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
                   %d = stablehlo.tanh %c : tensor<8x8xf32>
                   return %d : tensor<8x8xf32> }}"
            )
        };
        check(&program(r#"[{"x"}, {}]"#, r#"[{}, {"y"}]"#), &["x|", "|y"], &["x|y"]);
        check(&program(r#"[{}, {"x"}]"#, r#"[{"x"}, {}]"#), &["|x", "x|"], &["-"]);
        // Both want the same axis: the first factor of the larger tensor has it.
        check(&program(r#"[{"x"}, {}]"#, r#"[{}, {"x"}]"#), &["x|", "|x"], &["x|"]);
    }

    #[test]
    fn open_arguments_are_split_as_what_they_meet() {
        let body = format!(
            "func.func @main(%a: tensor<8x2xf32> {X}, %b: tensor<8x2xf32>, %c: tensor<2xf32>) -> (tensor<8x2xf32>, tensor<f32>) {{
               %sum = stablehlo.add %a, %b : tensor<8x2xf32>
               %rows = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2xf32>) -> tensor<8x2xf32>
               %all = stablehlo.multiply %sum, %rows : tensor<8x2xf32>
               %zero = stablehlo.constant dense<0.0> : tensor<f32>
               %total = stablehlo.reduce(%all init: %zero) applies stablehlo.add across dimensions = [0, 1] :
                 (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
               return %all, %total : tensor<8x2xf32>, tensor<f32> }}"
        );
        check(&body, &["x|", "x|", "-"], &["x|", "-"]);
    }

    #[test]
    fn a_reshape_splits_axes_where_it_splits_dimensions() {
        let body = format!(
            "func.func @main(%a: tensor<8x2xf32> {X}) -> (tensor<2x4x2xf32>, tensor<16xf32>, tensor<4x4xf32>) {{
               %split = stablehlo.reshape %a : (tensor<8x2xf32>) -> tensor<2x4x2xf32>
               %joined = stablehlo.reshape %a : (tensor<8x2xf32>) -> tensor<16xf32>
               %both = stablehlo.reshape %a : (tensor<8x2xf32>) -> tensor<4x4xf32>
               return %split, %joined, %both : tensor<2x4x2xf32>, tensor<16xf32>, tensor<4x4xf32> }}"
        );
        check(&body, &["x|"], &["x(1)2|x(2)2|", "x", "x|"]);
    }

    #[test]
    fn constraints_close_and_calls_loops_and_branches_carry() {
        let body = format!(
            "func.func @main(%a: tensor<8x4xf32> {X}, %p: tensor<i1>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {{
               %0 = func.call @twice(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
               %1 = stablehlo.while(%i = %0) : tensor<8x4xf32> cond {{
                 stablehlo.return %p : tensor<i1>
               }} do {{
                 %n = stablehlo.negate %i : tensor<8x4xf32>
                 stablehlo.return %n : tensor<8x4xf32>
               }}
               %2 = sdy.sharding_constraint %1 <@mesh, [{{}}, {{\"y\"}}]> : tensor<8x4xf32>
               %3 = \"stablehlo.if\"(%p) ({{
                 stablehlo.return %1 : tensor<8x4xf32>
               }}, {{
                 stablehlo.return %1 : tensor<8x4xf32>
               }}) : (tensor<i1>) -> tensor<8x4xf32>
               return %1, %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32> }}
             func.func private @twice(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {{
               %0 = stablehlo.add %a, %a : tensor<8x4xf32>
               return %0 : tensor<8x4xf32> }}"
        );
        check(&body, &["x|", "-"], &["x|y", "|y", "x|y"]);
    }

    #[test]
    fn manual_computations_say_how_their_results_are_split() {
        let body = "func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
               %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\"}, {?}]>] out_shardings=[<@mesh, [{\"x\"}, {?}]>]
                   manual_axes={\"x\"} (%b: tensor<2x4xf32>) {
                 %1 = stablehlo.negate %b : tensor<2x4xf32>
                 %2 = sdy.sharding_constraint %1 <@mesh, [{}, {\"y\"}]> : tensor<2x4xf32>
                 sdy.return %2 : tensor<2x4xf32>
               } : (tensor<8x4xf32>) -> tensor<8x4xf32>
               return %0 : tensor<8x4xf32> }";
        check(body, &["x|y"], &["x|y"]);
    }

    #[test]
    fn results_split_evenly_or_not_at_all() {
        let body = format!(
            "func.func @main(%a: tensor<8x4xf32> {X}) -> (tensor<6x4xf32>,
                 tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}], unreduced={{\"y\"}}>}}) {{
               %0 = stablehlo.slice %a [0:6, 0:4] : (tensor<8x4xf32>) -> tensor<6x4xf32>
               return %0, %a : tensor<6x4xf32>, tensor<8x4xf32> }}"
        );
        check(&body, &["x|"], &["x(1)2|", "| unreduced y"]);
    }
}
