//! Programs of several devices give what one device gives: annotations, functions of parts, collectives, gradients.

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, Spread};
use tensor::{DType, Literal};
use trace::{
    Dialect, Donate, Leaf, LeafShardings, LogicalAxisRules, Mesh, PartitionSpec, Reduction, RematPolicy, Role, Spec,
    Tensor, axis_index, checkpoint, composite, custom_vjp, grad, jvp, scan, shard_map, vmap, vmap_along,
};

use crate::run::{Device, literal, numbers};

fn mesh() -> Mesh {
    Mesh::new([("data", 4), ("model", 2)]).unwrap()
}

fn data(seed: u64, dims: &[usize]) -> Literal {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 2001) as f64 / 1000.0 - 1.0
    };
    let count = dims.iter().product();
    literal(DType::F32, dims, &(0..count).map(|_| next()).collect::<Vec<_>>())
}

/// Traces for a mesh and runs on as many devices; results are put together.
#[track_caller]
fn run_on(
    rules: &LogicalAxisRules,
    inputs: &[(Literal, PartitionSpec)],
    outputs: &[PartitionSpec],
    f: impl FnOnce(&Vec<Tensor>) -> Vec<Tensor>,
) -> Vec<Literal> {
    let cpu = Cpu::new(Some(1));
    let shapes: Vec<Tensor> =
        inputs.iter().map(|(input, _)| Tensor::of(Spec::new(input.dtype(), input.dims()))).collect();
    let of = |role: Role, leaf: &Leaf| {
        let n: usize = leaf.path.parse().unwrap();
        Ok(match role {
            Role::Input => inputs[n].1.clone(),
            Role::Output => outputs[n].clone(),
        })
    };
    let placed = LeafShardings { rules, of: &of };
    let (function, _) = trace::trace_on(&placed, "test", &shapes, Donate::Nothing, f).unwrap();
    let text = hlo::text::print(&function.module);
    hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
    let devices = rules.mesh.num_devices();
    let spread = Spread { num_replicas: 1, num_partitions: devices };
    let options = EngineOptions { spread, ..EngineOptions::default() };
    let program = Compiled::from_module(&cpu, function.module, &options).unwrap();
    let mut arguments = vec![Vec::new(); devices];
    for ((input, mine), sharding) in inputs.iter().zip(program.argument_shardings()) {
        for (device, part) in sharding.split(input).unwrap().iter().enumerate() {
            let dims = mine.part_dims(&rules.mesh, input.dims()).unwrap();
            assert_eq!(part.dims(), dims, "the device and the sharding agree on parts");
            arguments[device].push(Array::from_literal(cpu.memory(), part).unwrap());
        }
    }
    let results = program.run(arguments, &InterpreterOptions::default()).unwrap();
    (0..outputs.len())
        .map(|n| {
            let parts: Vec<Literal> = results.iter().map(|list| list[n].to_literal()).collect();
            program.result_shardings()[n].join(&parts, 0).unwrap()
        })
        .collect()
}

#[track_caller]
fn assert_close(left: &[Literal], right: &[Literal]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.dims(), right.dims());
        for (a, b) in numbers(left).iter().zip(numbers(right)) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} and {b}");
        }
    }
}

fn split(dims: &[&[&str]]) -> PartitionSpec {
    PartitionSpec::new(dims.iter().copied())
}

#[test]
fn annotated_programs_compute_what_plain_ones_do() {
    let f = |args: &Vec<Tensor>| {
        let loss = |w: &Tensor| {
            let hidden = args[0].matmul(w).with_logical_axes(&["batch", "hidden"]).tanh();
            let (sum, _) = scan(&hidden, &(), Some(3), |h, ()| {
                ((h.tanh() * 0.5).with_sharding_constraint(&PartitionSpec::new([&["data"][..], &["model"]])), ())
            });
            (&sum * &sum).sum_all()
        };
        vec![grad(|w| loss(w), &args[1]), vmap(|x: &Tensor| x.with_logical_axes(&["hidden"]) * 2.0, &args[0])]
    };
    let inputs = [data(1, &[8, 6]), data(2, &[6, 4])];
    let plain = Device::new().run(&inputs, f);
    let shardings = [split(&[&["data"], &[]]), split(&[&[], &["model"]])];
    for dialect in [Dialect::Shardy, Dialect::Gspmd] {
        let mut rules = LogicalAxisRules::new(mesh()).with("batch", ["data"]).with("hidden", ["model"]);
        rules.dialect = dialect;
        let given: Vec<_> = inputs.iter().cloned().zip(shardings.iter().cloned()).collect();
        let outputs = [split(&[&[], &["model"]]), split(&[&["data"], &[]])];
        assert_close(&run_on(&rules, &given, &outputs, f), &plain);
    }
}

#[test]
fn collectives_of_parts() {
    let x = data(3, &[8, 4]);
    let inputs = [(x.clone(), split(&[&["data"], &["model"]]))];
    let rows = split(&[&["data"], &["model"]]);
    let columns = split(&[&[], &["model"]]);
    let outputs =
        [columns.clone(), columns.clone(), split(&[&[], &["model"]]), rows.clone(), rows.clone(), split(&[&["data"]])];
    let results = run_on(&LogicalAxisRules::new(mesh()), &inputs, &outputs, |args| {
        shard_map(args, std::slice::from_ref(&rows), &outputs, |part| {
            let x = &part[0];
            let shifted = x.permute("data", 1);
            let exchanged = x.all_to_all(1, 0, "model").all_to_all(0, 1, "model");
            vec![
                x.all_reduce("data", Reduction::Sum),
                x.all_reduce("data", Reduction::Max),
                x.all_gather(0, "data"),
                shifted,
                exchanged,
                axis_index("data").cast(DType::F32).reshape(&[1]),
            ]
        })
    });
    let at = |r: usize, c: usize| numbers(&x)[r * 4 + c];
    let fold = |f: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
        (0..8).map(|n| (0..4).map(|d| at(2 * d + n / 4, n % 4)).fold(start, f)).collect()
    };
    let want = |dims: &[usize], values: Vec<f64>| literal(DType::F32, dims, &values);
    let shifted = (0..32).map(|n| at((n / 4 + 6) % 8, n % 4)).collect();
    assert_close(
        &results,
        &[
            want(&[2, 4], fold(|a, b| a + b, 0.0)),
            want(&[2, 4], fold(f64::max, -9.0)),
            x.clone(),
            want(&[8, 4], shifted),
            x,
            want(&[4], vec![0.0, 1.0, 2.0, 3.0]),
        ],
    );
}

/// A matmul whose contracted axis is sharded, as tensor parallelism has it, and its derivatives in both modes.
#[test]
fn gradients_of_functions_of_parts() {
    let inputs = [data(4, &[8, 6]), data(5, &[6, 4]), data(6, &[4])];
    let shardings = [split(&[&["data"], &["model"]]), split(&[&["model"], &[]]), split(&[&[]])];
    let body = |parts: &(Tensor, Tensor, Tensor)| {
        let (x, w, bias) = parts;
        let dot = x.matmul(w).all_reduce("model", Reduction::Sum);
        (&dot.tanh() + bias).exp()
    };
    let plain_body = |(x, w, bias): &(Tensor, Tensor, Tensor)| (&x.matmul(w).tanh() + bias).exp();
    let through = |args: &(Tensor, Tensor, Tensor)| shard_map(args, &shardings, &[split(&[&["data"], &[]])], body);
    let of = |args: &Vec<Tensor>| (args[0].clone(), args[1].clone(), args[2].clone());
    let loss = |y: &Tensor| (y * y).sum_all();
    let plain = Device::new().run(&inputs, |args| {
        let (x, w, b) = grad(|args| loss(&plain_body(args)), &of(args));
        let (_, tangent) = jvp(plain_body, &of(args), &of(args));
        vec![x, w, b, tangent]
    });
    let given: Vec<_> = inputs.iter().cloned().zip(shardings.iter().cloned()).collect();
    let outputs = [shardings[0].clone(), shardings[1].clone(), shardings[2].clone(), split(&[&["data"], &[]])];
    let results = run_on(&LogicalAxisRules::new(mesh()), &given, &outputs, |args| {
        let (x, w, b) = grad(|args| loss(&through(args)), &of(args));
        let (_, tangent) = jvp(through, &of(args), &of(args));
        vec![x, w, b, tangent]
    });
    assert_close(&results, &plain);
}

#[test]
fn gathers_and_scatters_are_each_others_derivatives() {
    let x = data(7, &[8, 4]);
    let rows = split(&[&["data", "model"], &[]]);
    let f = |x: &Tensor| {
        let y = shard_map(x, std::slice::from_ref(&rows), std::slice::from_ref(&rows), |part: &Tensor| {
            let all = part.all_gather(0, ["data", "model"]);
            (&all * &all).reduce_scatter(0, ["data", "model"])
        });
        (&y * &y).sum_all()
    };
    // Every device squares the whole, so the scattered sum is eight times the square.
    let plain = |x: &Tensor| {
        let y = &(x * x) * 8.0;
        (&y * &y).sum_all()
    };
    let expected = Device::new().run(std::slice::from_ref(&x), |args| vec![grad(plain, &args[0])]);
    let given = [(x, rows.clone())];
    let results =
        run_on(&LogicalAxisRules::new(mesh()), &given, std::slice::from_ref(&rows), |args| vec![grad(f, &args[0])]);
    assert_close(&results, &expected);
}

#[test]
fn functions_of_parts_run_whole_without_a_mesh() {
    let x = data(8, &[4, 2]);
    let results = Device::new().run(std::slice::from_ref(&x), |args| {
        shard_map(args, &[split(&[&["data"], &[]])], &[split(&[&["data"], &[]])], |part| {
            vec![part[0].all_reduce("data", Reduction::Sum).all_gather(0, "data").permute("data", 1)]
        })
    });
    assert_close(&results, &[x]);
}

#[test]
fn what_cannot_be_split_is_refused_with_its_path() {
    let rules = LogicalAxisRules::new(mesh());
    let shapes = vec![Tensor::of(Spec::new(DType::F32, [6, 4]))];
    let placed = |sharding: PartitionSpec| {
        let of = move |_: Role, _: &Leaf| Ok(sharding.clone());
        let placed = LeafShardings { rules: &rules, of: &of };
        trace::trace_on(&placed, "test", &shapes, Donate::Nothing, |x| x.clone()).unwrap_err().to_string()
    };
    let error = placed(split(&[&["data"], &[]]));
    assert!(error.contains("`0`") && error.contains("6 is not a multiple of 4"), "{error}");
    assert!(placed(split(&[&["rows"], &[]])).contains("no axis `rows`"));
    let of = |_: Role, leaf: &Leaf| Ok(PartitionSpec::replicated(leaf.spec.dims.len()));
    let placed = LeafShardings { rules: &rules, of: &of };
    let wrong = |f: &dyn Fn(&Tensor) -> Tensor| {
        let f = |x: &Vec<Tensor>| vec![f(&x[0])];
        trace::trace_on(&placed, "test", &shapes, Donate::Nothing, f).unwrap_err().to_string()
    };
    assert!(wrong(&|x| x.with_sharding_constraint(&split(&[&["data"], &[]]))).contains("6 is not a multiple of 4"));
    assert!(wrong(&|x| x.with_logical_axes(&["batch"])).contains("1 logical axes"));
    let bad = wrong(&|x| shard_map(x, &[split(&[&[], &[]])], &[split(&[&[]])], |x: &Tensor| x.clone()));
    assert!(bad.contains("cannot be a part"), "{bad}");
    let axis = wrong(&|x| {
        shard_map(x, &[split(&[&[], &[]])], &[split(&[&[], &[]])], |x: &Tensor| x.all_reduce("rows", Reduction::Sum))
    });
    assert!(axis.contains("no axis `rows`") && axis.contains("sharding.rs:"), "{axis}");
}

/// Examples that lie along a mesh axis: everything a function of one example may hold gets that axis in front, its backward
/// pass too.
#[test]
fn examples_along_a_mesh_axis() {
    let weight = |w: &Tensor| {
        let split = split(&[&["model"], &[]]);
        custom_vjp(
            w,
            |w| w.with_logical_axes(&["inner", "outer"]),
            move |_: &Tensor, _: &Tensor, ct: &Tensor| ct.with_sharding_constraint(&split),
        )
    };
    let of_parts = |x: &Tensor| {
        let rows = split(&[&[], &["model"]]);
        shard_map(x, std::slice::from_ref(&rows), std::slice::from_ref(&rows), |part: &Tensor| {
            composite("test.tanh", hlo::Attrs::new(), part, Tensor::tanh)
        })
    };
    let batch = |args: &(Tensor, Tensor)| {
        let one = |(x, w): &(Tensor, Tensor)| {
            let y = checkpoint(&RematPolicy::Full, &(x.clone(), w.clone()), |(x, w)| x.matmul(&weight(w)));
            of_parts(&y.with_logical_axes(&["batch", "hidden"]))
        };
        vmap_along(&["data".into()], one, args)
    };
    let f = |args: &Vec<Tensor>| {
        let loss = |args: &(Tensor, Tensor)| batch(args).square().sum_all();
        let (x, w) = grad(loss, &(args[0].clone(), args[1].clone()));
        vec![x, w]
    };
    let inputs = [data(9, &[4, 3, 6]), data(10, &[4, 6, 4])];
    let plain = Device::new().run(&inputs, f);
    let stacked = split(&[&["data"], &[], &[]]);
    let given: Vec<_> = inputs.iter().cloned().map(|input| (input, stacked.clone())).collect();
    // `batch` is split along the same axis outside of the batch, but not within.
    let rules =
        LogicalAxisRules::new(mesh()).with("batch", ["data"]).with("hidden", ["model"]).with("inner", ["model"]);
    let outputs = [stacked.clone(), stacked];
    assert_close(&run_on(&rules, &given, &outputs, f), &plain);
    let shapes: Vec<Tensor> = inputs.iter().map(|input| Tensor::of(Spec::new(input.dtype(), input.dims()))).collect();
    let of = |_: Role, leaf: &Leaf| Ok(PartitionSpec::replicated(leaf.spec.dims.len()));
    let placed = LeafShardings { rules: &rules, of: &of };
    let text = |f: &dyn Fn(&Vec<Tensor>) -> Vec<Tensor>| {
        let (function, _) = trace::trace_on(&placed, "test", &shapes, Donate::Nothing, f).unwrap();
        hlo::text::print(&function.module)
    };
    // One example on each device, so that the composite is there as it was written.
    let forward = text(&|args| vec![batch(&(args[0].clone(), args[1].clone()))]);
    let call = forward.lines().find(|line| line.contains("stablehlo.composite \"test.tanh\""));
    assert!(call.is_some_and(|line| line.contains("tensor<3x2xf32>")), "{forward}");
    // Both passes say where they lie.
    let text = text(&f);
    let constraints: Vec<&str> = text.lines().filter(|line| line.contains("sharding_constraint")).collect();
    assert!(constraints.len() >= 3 && constraints.iter().all(|line| line.contains("[{\"data\"}, ")), "{constraints:?}");
    let twice = |x: &Vec<Tensor>| {
        vmap_along(
            &["data".into()],
            |x: &Tensor| x.with_sharding_constraint(&split(&[&["data"], &[]])),
            &x[1].transpose(&[1, 0, 2]),
        )
    };
    let error = trace::trace_on(&placed, "test", &shapes, Donate::Nothing, twice).unwrap_err().to_string();
    assert!(error.contains("6 examples cannot lie along data"), "{error}");
    let twice = |x: &Vec<Tensor>| {
        vmap_along(&["data".into()], |x: &Tensor| x.with_sharding_constraint(&split(&[&[], &["data"]])), &x[1])
    };
    let error = trace::trace_on(&placed, "test", &shapes, Donate::Nothing, twice).unwrap_err().to_string();
    assert!(error.contains("as the examples of vmap are"), "{error}");
}
