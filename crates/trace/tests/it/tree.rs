//! Structures of tensors: derived visits, paths that stay the same, and what is not a tensor kept.

use std::collections::BTreeMap;

use tensor::DType;
use trace::{Donate, Spec, Tensor, Tree};

#[derive(Clone, Debug, Tree)]
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    #[tree(skip)]
    name: String,
}

#[derive(Clone, Debug, Tree)]
struct Pair(Tensor, Linear);

#[derive(Clone, Debug, Tree)]
struct Unit;

#[derive(Clone, Debug, Tree)]
enum Block {
    Dense(Linear),
    Gated {
        #[tree(rename = "gate_proj")]
        gate: Linear,
        r#type: Tensor,
        #[tree(skip)]
        size: usize,
    },
    Nothing,
}

#[derive(Clone, Debug, Tree)]
struct Model<B, const N: usize> {
    #[tree(rename = "embed_tokens")]
    embedding: Tensor,
    blocks: Vec<B>,
    ends: [Tensor; N],
    boxed: Box<Pair>,
    named: BTreeMap<String, Tensor>,
    unit: Unit,
}

fn tensor(size: usize) -> Tensor {
    Tensor::of(Spec::new(DType::F32, [size]))
}

fn linear(size: usize, bias: Option<usize>) -> Linear {
    Linear { weight: tensor(size), bias: bias.map(tensor), name: format!("linear of {size}") }
}

fn model() -> Model<Block, 2> {
    Model {
        embedding: tensor(1),
        blocks: vec![
            Block::Dense(linear(2, Some(3))),
            Block::Nothing,
            Block::Gated { gate: linear(4, None), r#type: tensor(5), size: 17 },
        ],
        ends: [tensor(6), tensor(7)],
        boxed: Box::new(Pair(tensor(8), linear(9, None))),
        named: [("b".to_string(), tensor(11)), ("a".to_string(), tensor(10))].into(),
        unit: Unit,
    }
}

#[test]
fn paths_are_names_of_fields_in_order() {
    let paths = model().paths();
    let expected = [
        "embed_tokens",
        "blocks.0.0.weight",
        "blocks.0.0.bias",
        "blocks.2.gate_proj.weight",
        "blocks.2.type",
        "ends.0",
        "ends.1",
        "boxed.0",
        "boxed.1.weight",
        "named.a",
        "named.b",
    ];
    assert_eq!(paths, expected);
    let sizes: Vec<usize> = model().specs().iter().map(|spec| spec.dims[0]).collect();
    assert_eq!(sizes, (1..=11).collect::<Vec<_>>());
    assert_eq!(model().num_parameters(), (1..=11).sum::<u64>());
}

#[test]
fn a_structure_is_rebuilt_leaf_by_leaf() {
    let larger = model().map_leaves(|leaf| tensor(leaf.dims()[0] * 10));
    assert_eq!(larger.paths(), model().paths());
    assert_eq!(larger.specs()[3].dims, [40]);
    match &larger.blocks[2] {
        Block::Gated { gate, size, .. } => assert_eq!((gate.name.as_str(), *size), ("linear of 4", 17)),
        other => panic!("{other:?}"),
    }
    let again = model().with_leaves(larger.leaves());
    assert_eq!(again.specs(), larger.specs());
    let joined = model().zip(&larger, |small, large| tensor(small.dims()[0] + large.dims()[0]));
    assert_eq!(joined.specs()[10].dims, [121]);
}

#[test]
fn structures_go_through_a_traced_function() {
    let (function, result) =
        trace::trace("scaled", &model(), Donate::Leading(11), |model| model.map_leaves(|leaf| leaf * 2.0)).unwrap();
    let paths: Vec<&str> = function.inputs.iter().map(|leaf| leaf.path.as_str()).collect();
    assert_eq!(paths, model().paths());
    assert_eq!(result.paths(), model().paths());
    let text = hlo::text::print(&function.module);
    assert!(text.contains("tf.aliasing_output = 10"), "{text}");
    assert!(text.contains("tpubridge.name = \"blocks.2.gate_proj.weight\""), "{text}");
}

#[test]
fn tuples_and_one_tensor_have_paths_too() {
    assert_eq!((tensor(1), (tensor(2), vec![tensor(3)])).paths(), ["0", "1.0", "1.1.0"]);
    assert_eq!(tensor(1).paths(), [""]);
    assert_eq!(().paths(), Vec::<String>::new());
}
