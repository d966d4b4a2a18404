//! Equal layers as one loop, and what differs between training and evaluation.

use std::collections::{BTreeMap, BTreeSet};

use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal};
use testkit::Needed;
use torch::graph::{ExportedProgram, Graph, InputRole, Node, NodeArgument, OutputRole, SymExpr, TensorMeta};
use torch::{ApplyOptions, Archive, LayerLoop, ProgramInputs, ProgramMode, ProgramOutputs};
use trace::{Donate, Key, Tensor};

fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap()
}

/// Parameters under the names that a program with these loops takes.
fn stacked(archive: &Archive, loops: &[LayerLoop], all: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let mut values: BTreeMap<String, Literal> =
        all.keys().map(|name| (name.clone(), archive.tensor(name).unwrap())).collect();
    for stack in loops.iter().flat_map(|layers| &layers.stacked) {
        let parts: Option<Vec<Literal>> = stack.members.iter().map(|member| values.remove(member)).collect();
        let Some(parts) = parts else { continue };
        let dims = [&[parts.len()][..], parts[0].dims()].concat();
        let bytes = parts.iter().flat_map(|part| part.bytes().to_vec()).collect();
        values.insert(stack.name.clone(), Literal::new(parts[0].dtype(), dims, bytes).unwrap());
    }
    values.into_iter().map(|(name, value)| (name, Tensor::from(value))).collect()
}

/// Gradients of the mean of the squared first result.
fn gradients(
    backend: &Backend,
    archive: &Archive,
    loops: &[LayerLoop],
    remat: trace::RematPolicy,
    call: &BTreeMap<String, Literal>,
) -> BTreeMap<String, Literal> {
    let program = archive.program().clone();
    let symbols = program.examples.clone();
    let specs = program.specs(&symbols).unwrap();
    let given = |name: &String| Tensor::from(call[&format!("input.{name}")].clone());
    let inputs = ProgramInputs {
        params: stacked(archive, loops, &specs.params),
        buffers: stacked(archive, loops, &specs.buffers),
        constants: stacked(archive, loops, &specs.constants),
        inputs: specs.inputs.keys().map(|name| (name.clone(), given(name))).collect(),
    };
    let options = ApplyOptions { loops: loops.to_vec(), remat, ..ApplyOptions::default() };
    let mut jit = Jit::new(backend, "main", Donate::Nothing, move |inputs: &ProgramInputs| {
        trace::grad(
            |params: &BTreeMap<String, Tensor>| {
                let given = ProgramInputs { params: params.clone(), ..inputs.clone() };
                program.apply_with(&given, &symbols, &options).unwrap().outputs[0].square().mean_all()
            },
            &inputs.params,
        )
    });
    let found: BTreeMap<String, Tensor> = jit.call(&inputs).unwrap();
    let mut split = BTreeMap::new();
    for (name, value) in found {
        let value = value.to_host().unwrap();
        match loops.iter().flat_map(|layers| &layers.stacked).find(|stack| stack.name == name) {
            None => drop(split.insert(name, value)),
            Some(stack) => {
                let size = value.bytes().len() / stack.members.len();
                for (part, member) in value.bytes().chunks(size).zip(&stack.members) {
                    split.insert(
                        member.clone(),
                        Literal::new(value.dtype(), &value.dims()[1..], part.to_vec()).unwrap(),
                    );
                }
            }
        }
    }
    split
}

#[test]
fn loops_of_layers_have_the_gradients_of_layers_one_by_one() {
    let test = "loops_of_layers_have_the_gradients_of_layers_one_by_one";
    let Some(folder) = testkit::require(test, Needed::TorchExport) else { return };
    let backend = backend();
    let call: BTreeMap<String, Literal> = weights::read_npz(&folder.join("gpt.0.npz")).unwrap().into_iter().collect();
    for name in ["gpt", "gpt.functional", "gpt.core"] {
        let archive = Archive::open(&folder.join(format!("{name}.pt2"))).unwrap();
        let loops = archive.program().layer_loops(&BTreeSet::new());
        let [layers] = loops.as_slice() else { panic!("{name} has {} loops", loops.len()) };
        assert_eq!((layers.path.as_str(), layers.numbers.clone()), ("blocks", 0..2), "{name}");
        assert!(layers.stacked.iter().any(|stack| stack.name == "blocks.0-1.qkv.weight"), "{layers:?}");
        let one_by_one = gradients(&backend, &archive, &[], trace::RematPolicy::None, &call);
        assert!(one_by_one.len() > 20);
        for remat in [trace::RematPolicy::None, trace::RematPolicy::Full] {
            let looped = gradients(&backend, &archive, &loops, remat, &call);
            assert!(looped.keys().eq(one_by_one.keys()));
            for (path, value) in &looped {
                let (a, b) = (value.to_vec::<f32>().unwrap(), one_by_one[path].to_vec::<f32>().unwrap());
                let largest = b.iter().fold(1e-20f32, |most, x| most.max(x.abs()));
                let far = a.iter().zip(&b).fold(0.0f32, |most, (a, b)| most.max((a - b).abs() / largest));
                assert!(far < 1e-5, "{name} {path}: {far:e}");
            }
        }
        // A tensor that must stay on its own cannot be stacked.
        let single = BTreeSet::from(["blocks.1.qkv.weight".to_string()]);
        assert!(archive.program().layer_loops(&single).is_empty());
    }
}

fn meta(dtype: DType, dims: &[i64]) -> TensorMeta {
    let sizes = |list: &[i64]| list.iter().map(|size| SymExpr::Int(*size)).collect();
    let strides: Vec<i64> = (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect();
    TensorMeta { dtype, sizes: sizes(dims), strides: sizes(&strides), requires_grad: false }
}

fn tensor(name: &str) -> NodeArgument {
    NodeArgument::Tensor(name.to_string())
}

/// A program of one op on `x`, which is `[rows, columns]`.
fn one_op(
    target: &str,
    arguments: Vec<(&str, NodeArgument)>,
    rows: i64,
    columns: i64,
    buffers: &[&str],
) -> ExportedProgram {
    let inputs = [("input", tensor("x"))].into_iter().chain(arguments);
    let node = Node {
        target: target.to_string(),
        inputs: inputs.map(|(name, argument)| (name.to_string(), argument)).collect(),
        outputs: vec![tensor("y")],
        line: String::new(),
        scope: String::new(),
    };
    let whole = meta(DType::F32, &[rows, columns]);
    let mut tensors = BTreeMap::from([("x".to_string(), whole.clone()), ("y".to_string(), whole)]);
    tensors.extend(buffers.iter().map(|name| (name.to_string(), meta(DType::F32, &[columns]))));
    let graph = Graph {
        inputs: [tensor("x")].into_iter().chain(buffers.iter().map(|name| tensor(name))).collect(),
        outputs: vec![tensor("y")],
        nodes: vec![node],
        tensors,
        is_single: true,
    };
    let of_buffers = buffers.iter().map(|name| InputRole::Buffer(name.to_string()));
    ExportedProgram {
        graph,
        inputs: [InputRole::User].into_iter().chain(of_buffers).collect(),
        outputs: vec![OutputRole::User],
        ranges: BTreeMap::new(),
        examples: BTreeMap::new(),
        torch_version: String::new(),
        non_persistent: BTreeSet::new(),
        result_names: Vec::new(),
    }
}

/// What the program makes of `x` in a mode.
fn run(program: &ExportedProgram, is_training: bool, x: &Literal, buffers: &[(&str, f32)]) -> ProgramOutputs {
    let columns = x.dims()[1];
    let inputs = ProgramInputs {
        params: BTreeMap::new(),
        buffers: buffers
            .iter()
            .map(|(name, value)| {
                (name.to_string(), Tensor::from(Literal::from_slice(&vec![*value; columns], [columns]).unwrap()))
            })
            .collect(),
        constants: BTreeMap::new(),
        inputs: BTreeMap::from([("x".to_string(), Tensor::from(x.clone()))]),
    };
    let program = program.clone();
    let mut jit = Jit::new(&backend(), "main", Donate::Nothing, move |inputs: &ProgramInputs| {
        let key = Key::from_seed(&Tensor::scalar(DType::U32, 7.0));
        let mode = if is_training { ProgramMode::Training(key) } else { ProgramMode::Evaluation };
        let options = ApplyOptions { mode, ..ApplyOptions::default() };
        program.apply_with(inputs, &BTreeMap::new(), &options).unwrap()
    });
    jit.call(&inputs).unwrap()
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.to_host().unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn dropout_needs_a_key_and_is_off_in_evaluation() {
    let arguments = vec![("p", NodeArgument::Float(0.25)), ("train", NodeArgument::Bool(true))];
    let program = one_op("torch.ops.aten.dropout.default", arguments, 64, 64, &[]);
    let error = program.trace("main", &BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("random numbers"), "{error}");
    let x = Literal::from_slice(&vec![3.0f32; 64 * 64], [64, 64]).unwrap();
    assert!(floats(&run(&program, false, &x, &[]).outputs[0]).iter().all(|y| *y == 3.0));
    let dropped = floats(&run(&program, true, &x, &[]).outputs[0]);
    let lost = dropped.iter().filter(|y| **y == 0.0).count();
    assert!(dropped.iter().all(|y| *y == 0.0 || *y == 4.0) && (900..1150).contains(&lost), "{lost} of 4096");
}

#[test]
fn batch_norms_use_their_running_statistics_in_evaluation() {
    let statistics = ["running_mean", "running_var"];
    let mut arguments: Vec<(&str, NodeArgument)> = statistics.iter().map(|name| (*name, tensor(name))).collect();
    arguments.extend([("training", NodeArgument::Bool(true)), ("momentum", NodeArgument::Float(0.1))]);
    let program = one_op("torch.ops.aten.batch_norm.default", arguments, 4, 2, &statistics);
    assert_eq!(program.written_tensors(), statistics);
    let x = Literal::from([[1.0f32, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]);
    let given = [("running_mean", 1.0f32), ("running_var", 4.0)];
    let trained = run(&program, true, &x, &given);
    let near = |found: Vec<f32>, wanted: &[f32]| {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} {wanted:?}");
    };
    near(floats(&trained.outputs[0]), &[-1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0]);
    near(floats(&trained.mutated["running_mean"]), &[1.1, 1.2]);
    near(floats(&trained.mutated["running_var"]), &[0.9 * 4.0 + 0.1 * 4.0 / 3.0; 2]);
    let evaluated = run(&program, false, &x, &given);
    near(floats(&evaluated.outputs[0]), &[0.0, 0.5, 1.0, 1.5, 0.0, 0.5, 1.0, 1.5]);
    assert!(evaluated.mutated.is_empty());
}
