//! Meshes of several devices: arrays in parts, and programs that give what one device gives, on our device and on XLA's.

use std::rc::Rc;
use std::sync::Arc;

use runtime::config::{Config, Mode, Target};
use runtime::mesh::NamedSharding;
use runtime::{Backend, Jit, JitSharding, Surroundings, TreeArrays};
use tensor::{DType, Literal};
use testkit::{Needed, require};
use trace::{Donate, Leaf, LogicalAxisRules, Mesh, PartitionSpec, Reduction, Role, Spec, Tensor, grad, shard_map};

fn ours(devices: usize) -> Backend {
    Backend::auto(&Config::new(Mode::Development).device(Target::Cpu).cpu_devices(devices)).unwrap()
}

/// XLA's CPU device, whose partitioner is the one of its TPU compiler.
fn theirs(test: &str, devices: usize) -> Option<Backend> {
    let plugin = require(test, Needed::XlaCpu)?;
    let mut around = Surroundings::host();
    around.client = around.client.option("cpu_device_count", devices as i64);
    Some(Backend::within(&around, &Config::new(Mode::Development).device(Target::Plugin(plugin))).unwrap())
}

/// Random numbers that every run draws alike.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % count
    }

    fn literal(&mut self, dims: &[usize]) -> Arc<Literal> {
        let count: usize = dims.iter().product();
        let bytes = (0..count).flat_map(|_| (self.below(2001) as f32 / 1000.0 - 1.0).to_le_bytes()).collect();
        Arc::new(Literal::new(DType::F32, dims, bytes).unwrap())
    }

    /// A sharding of a tensor that the mesh can do: each axis at most once, where it divides.
    fn sharding(&mut self, mesh: &Mesh, dims: &[usize]) -> PartitionSpec {
        let mut sharding = PartitionSpec::replicated(dims.len());
        let mut parts = vec![1; dims.len()];
        for axis in mesh.axes() {
            let at = self.below(dims.len() + 1);
            if at < dims.len() && dims[at].is_multiple_of(parts[at] * axis.size) {
                parts[at] *= axis.size;
                sharding.dims[at].get_or_insert_default().push(axis.name.clone());
            }
        }
        sharding
    }
}

fn numbers(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn arrays_come_back_from_any_sharding() {
    let backend = ours(8);
    let mut draw = Draw(1);
    for axes in [vec![("a", 8)], vec![("a", 2), ("b", 4)], vec![("a", 2), ("b", 2), ("c", 2)]] {
        let mesh = backend.mesh(&Mesh::new(axes).unwrap()).unwrap();
        for dims in [vec![8, 16], vec![4, 2, 8], vec![16], vec![3, 5]] {
            let literal = draw.literal(&dims);
            let sharding = draw.sharding(mesh.mesh(), &dims);
            let array = backend.send_on(&mesh, &sharding, &literal).unwrap();
            assert_eq!(array.to_host().unwrap().bytes(), literal.bytes(), "{sharding}");
            assert_eq!(array.buffers().len(), 8);
            let parts = array.parts_to_host().unwrap();
            let covered: usize = parts.iter().map(|(region, _)| region.size.iter().product::<usize>()).sum();
            assert_eq!(covered, literal.bytes().len() / 4, "each part once");
        }
    }
}

#[test]
fn meshes_that_the_devices_do_not_make_up_are_refused() {
    let backend = ours(8);
    let error = backend.mesh(&"data=4,model=4".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("16 devices, there are 8") && error.contains("data=2,model=4"), "{error}");
    let mesh = backend.mesh(&"data=8".parse().unwrap()).unwrap();
    let literal = Draw(2).literal(&[12]);
    let error = backend.send_on(&mesh, &PartitionSpec::new([&["data"][..]]), &literal).unwrap_err().to_string();
    assert!(error.contains("f32[12]") && error.contains("data=8"), "{error}");
    // An array of one device is no input of a program of eight.
    let placed: NamedSharding = NamedSharding { mesh: mesh.clone(), sharding: PartitionSpec::replicated(1) };
    assert_eq!(placed.regions(&Spec::new(DType::F32, [12])).unwrap().len(), 8);
    let whole = PartitionSpec::replicated(1);
    let of = move |_: Role, _: &Leaf| Ok(whole.clone());
    let on = JitSharding { rules: LogicalAxisRules::new(mesh.mesh().clone()), mesh, of: Rc::new(of) };
    let mut jit = Jit::new(&backend, "twice", Donate::Nothing, |x: &Vec<Tensor>| vec![&x[0] * 2.0]).on(Some(on));
    let one = vec![Tensor::from(backend.send(&literal).unwrap())];
    let error = jit.call(one).unwrap_err().to_string();
    assert!(error.contains("one device") && error.contains("data=8"), "{error}");
}

/// What a step of a random program does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Matmul,
    Tanh,
    Add,
    Turn,
    MeanRows,
    Softmax,
    Lay,
}

const STEPS: [Step; 7] = [Step::Matmul, Step::Tanh, Step::Add, Step::Turn, Step::MeanRows, Step::Softmax, Step::Lay];

/// The program on `x` and `w`, square matrices; shardings are those of the steps that lay out.
fn program(steps: &[Step], shardings: &[PartitionSpec], x: &Tensor, w: &Tensor) -> Tensor {
    let mut y = x.clone();
    for (step, sharding) in steps.iter().zip(shardings) {
        y = match step {
            Step::Matmul => &y.matmul(w) * 0.25,
            Step::Tanh => y.tanh(),
            Step::Add => &y + w,
            Step::Turn => y.swap_axes(0, 1),
            Step::MeanRows => &y - &y.mean(&[0]).expand(0),
            Step::Softmax => y.softmax(-1),
            Step::Lay => y.with_sharding_constraint(sharding),
        };
    }
    y
}

/// Result and gradients of random programs, laid out at random, on eight devices and on one.
#[test]
fn random_programs_with_random_shardings() {
    let single = ours(1);
    let mut backends = vec![ours(8)];
    backends.extend(theirs("random_programs_with_random_shardings", 8));
    for seed in 0..12 {
        let mut draw = Draw(seed * 77 + 5);
        let dims = [8, 8];
        let (x, w) = (draw.literal(&dims), draw.literal(&dims));
        let steps: Vec<Step> = (0..6).map(|_| STEPS[draw.below(STEPS.len())]).collect();
        let axes = [vec![("a", 4), ("b", 2)], vec![("a", 8)], vec![("a", 2), ("b", 2), ("c", 2)]];
        let mesh = Mesh::new(axes[draw.below(3)].clone()).unwrap();
        let inside: Vec<PartitionSpec> = steps.iter().map(|_| draw.sharding(&mesh, &dims)).collect();
        let ports: Vec<PartitionSpec> = (0..5).map(|_| draw.sharding(&mesh, &dims)).collect();
        let f = {
            let (steps, inside) = (steps.clone(), inside.clone());
            move |args: &Vec<Tensor>| {
                let y = program(&steps, &inside, &args[0], &args[1]);
                let loss = |(x, w): &(Tensor, Tensor)| {
                    let y = program(&steps, &inside, x, w);
                    (&y * &y).sum_all()
                };
                let (dx, dw) = grad(loss, &(args[0].clone(), args[1].clone()));
                vec![y, dx, dw]
            }
        };
        let mut plain = Jit::new(&single, "plain", Donate::Nothing, f.clone());
        let values = vec![Tensor::on_host(x.clone()), Tensor::on_host(w.clone())];
        let expected = plain.call(&values).unwrap().to_literals().unwrap();
        for backend in &backends {
            let mesh = backend.mesh(&mesh).unwrap();
            let ports = ports.clone();
            let of = {
                let ports = ports.clone();
                move |role: Role, leaf: &Leaf| {
                    let n: usize = leaf.path.parse().unwrap();
                    Ok(ports[if role == Role::Input { n } else { 2 + n }].clone())
                }
            };
            let on =
                JitSharding { rules: LogicalAxisRules::new(mesh.mesh().clone()), mesh: mesh.clone(), of: Rc::new(of) };
            let mut jit = Jit::new(backend, "spread", Donate::Nothing, f.clone()).on(Some(on));
            let results = jit.call(&values).unwrap().to_literals().unwrap();
            for ((name, got), (_, want)) in results.iter().zip(&expected) {
                for (a, b) in numbers(got).iter().zip(numbers(want)) {
                    let close = (a - b).abs() <= 2e-4 * (1.0 + b.abs());
                    assert!(
                        close,
                        "seed {seed}, {}, {steps:?} on {}: {name} has {a}, not {b}",
                        backend.platform(),
                        mesh.mesh()
                    );
                }
            }
        }
    }
}

/// Functions of one device's parts, with collectives and gradients, on XLA's device too.
#[test]
fn functions_of_parts_run_on_every_device() {
    let mut backends = vec![ours(8)];
    backends.extend(theirs("functions_of_parts_run_on_every_device", 8));
    let mut draw = Draw(9);
    let (x, w) = (draw.literal(&[8, 8]), draw.literal(&[8, 4]));
    let (rows, inner) = (PartitionSpec::new([&["data"][..], &["model"]]), PartitionSpec::new([&["model"][..], &[]]));
    let out = PartitionSpec::new([&["data"][..], &[]]);
    let f = {
        let (rows, inner, out) = (rows.clone(), inner.clone(), out.clone());
        move |args: &Vec<Tensor>| {
            let through = |(x, w): &(Tensor, Tensor)| {
                shard_map(
                    &(x.clone(), w.clone()),
                    &[rows.clone(), inner.clone()],
                    std::slice::from_ref(&out),
                    |(x, w)| {
                        let dot = x.matmul(w).all_reduce("model", Reduction::Sum);
                        let back = dot.all_to_all(1, 0, "data").all_to_all(0, 1, "data");
                        back.permute("data", 1).permute("data", -1).tanh()
                    },
                )
            };
            let inputs = (args[0].clone(), args[1].clone());
            let (dx, dw) = grad(|inputs| (&through(inputs) * 3.0).sum_all(), &inputs);
            vec![through(&inputs), dx, dw]
        }
    };
    let single = ours(1);
    let values = vec![Tensor::on_host(x.clone()), Tensor::on_host(w.clone())];
    let mut plain = Jit::new(&single, "plain", Donate::Nothing, f.clone());
    let expected = plain.call(values).unwrap().to_literals().unwrap();
    for backend in &backends {
        let mesh = backend.mesh(&"data=4,model=2".parse().unwrap()).unwrap();
        let outputs = [out.clone(), rows.clone(), inner.clone()];
        let inputs = [rows.clone(), inner.clone()];
        let of = move |role: Role, leaf: &Leaf| {
            let n: usize = leaf.path.parse().unwrap();
            Ok(if role == Role::Input { inputs[n].clone() } else { outputs[n].clone() })
        };
        let on = JitSharding { rules: LogicalAxisRules::new(mesh.mesh().clone()), mesh: mesh.clone(), of: Rc::new(of) };
        let mut jit = Jit::new(backend, "parts", Donate::Nothing, f.clone()).on(Some(on));
        let sent = [backend.send_on(&mesh, &rows, &x).unwrap(), backend.send_on(&mesh, &inner, &w).unwrap()];
        let results = jit.call(sent.map(Tensor::from).to_vec()).unwrap().to_literals().unwrap();
        for ((name, got), (_, want)) in results.iter().zip(&expected) {
            for (a, b) in numbers(got).iter().zip(numbers(want)) {
                assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{}: {name} has {a}, not {b}", backend.platform());
            }
        }
    }
}
