//! Every derivative of the crate: against JAX, and against differences of values.

mod batches;
mod case;
mod contractions;
mod control;
mod elementwise;
mod indexing;
mod linear;
mod reductions;
mod shapes;

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use testkit::{Needed, require};
use trace::{Tensor, checkpoint, jvp, vjp};

pub(crate) use case::{Array, Case};

use crate::run::{Device, numbers, read_arrays, write_arrays};

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = elementwise::cases();
    cases.extend(shapes::cases());
    cases.extend(reductions::cases());
    cases.extend(contractions::cases());
    cases.extend(indexing::cases());
    cases.extend(linear::cases());
    cases.extend(control::cases());
    cases.extend(batches::cases());
    cases
}

/// A case in one type, with the directions its derivatives are taken in.
struct Problem {
    case: Case,
    dtype: DType,
    inputs: Vec<Literal>,
    tangents: Vec<Literal>,
    cotangents: Vec<Literal>,
}

impl Problem {
    fn new(case: &Case, dtype: DType) -> Result<Problem, String> {
        let inputs: Vec<Literal> = case.inputs.iter().map(|input| input.literal(dtype)).collect();
        let direction = |dims: &[usize], dtype: DType, salt: u64| Array::drawn(dims, -1.0, 1.0, salt).literal(dtype);
        let tangents = inputs.iter().enumerate().map(|(n, input)| direction(input.dims(), dtype, 100 + n as u64));
        let tangents = tangents.collect();
        let shapes: Vec<Tensor> = inputs
            .iter()
            .chain(&case.fixed)
            .map(|input| Tensor::of(trace::Spec::new(input.dtype(), input.dims())))
            .collect();
        let outputs = trace::shapes_of(&shapes, |all| case.call(all)).map_err(|error| error.to_string())?;
        let cotangents = outputs
            .iter()
            .enumerate()
            .map(|(n, output)| direction(output.dims(), output.dtype(), 200 + n as u64))
            .collect();
        Ok(Problem { case: case.clone(), dtype, inputs, tangents, cotangents })
    }

    fn name(&self) -> String {
        format!("{} in {}", self.case.name, self.dtype)
    }

    /// Values, gradients, tangents and second derivatives, under the names the Python side uses.
    fn solve(&self, device: &Device) -> Result<BTreeMap<String, Literal>, String> {
        let case = &self.case;
        let (n, fixed, outs) = (self.inputs.len(), case.fixed.len(), self.cotangents.len());
        let all: Vec<Literal> =
            [&self.inputs, &case.fixed, &self.tangents, &self.cotangents].into_iter().flatten().cloned().collect();
        let mut names = Vec::new();
        let results = device.try_run(&all, |args| {
            let (xs, rest) = args.split_at(n);
            let (ks, rest) = rest.split_at(fixed);
            let (ts, cts) = rest.split_at(n);
            let f = |xs: &Vec<Tensor>| (case.function)(xs, ks);
            let (xs, ts, cts) = (xs.to_vec(), ts.to_vec(), cts.to_vec());
            let mut results = f(&xs);
            names.extend((0..outs).map(|n| format!("value{n}")));
            let pulled = |xs: &Vec<Tensor>| vjp(f, xs).1(&cts);
            if case.has_cotangents {
                results.extend(pulled(&xs));
                names.extend((0..n).map(|n| format!("gradient{n}")));
            }
            if case.has_tangents {
                results.extend(jvp(f, &xs, &ts).1);
                names.extend((0..outs).map(|n| format!("tangent{n}")));
            }
            if case.has_second {
                results.extend(vjp(pulled, &xs).1(&ts));
                names.extend((0..n).map(|n| format!("second_backward{n}")));
                results.extend(jvp(pulled, &xs, &ts).1);
                names.extend((0..n).map(|n| format!("second_forward{n}")));
            }
            results
        })?;
        Ok(names.into_iter().zip(results).collect())
    }
}

/// How far two lists of numbers are apart, relative to the largest of them.
fn distance(have: &[f64], want: &[f64]) -> f64 {
    if have.len() != want.len() {
        return f64::INFINITY;
    }
    let scale = want.iter().filter(|x| x.is_finite()).fold(1.0f64, |scale, x| scale.max(x.abs()));
    let apart = |(&a, &b): (&f64, &f64)| {
        if a == b || (a.is_nan() && b.is_nan()) {
            0.0
        } else if a.is_nan() || b.is_nan() {
            f64::INFINITY
        } else {
            (a - b).abs() / scale
        }
    };
    have.iter().zip(want).map(apart).fold(0.0, f64::max)
}

/// What the Python side computed for problems written to a folder.
fn solved_by_jax(python: &std::path::Path, problems: &[Problem]) -> BTreeMap<String, Literal> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut arrays = BTreeMap::new();
    let mut listed: Vec<Value> = Vec::new();
    for (at, problem) in problems.iter().enumerate() {
        let groups =
            [("x", &problem.inputs), ("k", &problem.case.fixed), ("t", &problem.tangents), ("c", &problem.cotangents)];
        let mut counts = serde_json::Map::new();
        for (group, literals) in groups {
            for (n, value) in literals.iter().enumerate() {
                arrays.insert(format!("{at}_{group}{n}"), value.clone());
            }
            counts.insert(group.into(), json!(literals.len()));
        }
        listed.push(json!({
            "peer": problem.case.peer,
            "settings": problem.case.settings,
            "counts": counts,
            "second": problem.case.has_second,
            "tangents": problem.case.has_tangents,
            "cotangents": problem.case.has_cotangents,
        }));
    }
    write_arrays(folder.path(), &arrays);
    std::fs::write(folder.path().join("cases.json"), Value::Array(listed).to_string()).expect("cases are written");
    let script = testkit::repository().join("crates/testkit/python/gradients.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read_arrays(folder.path())
}

#[test]
fn derivatives_are_those_of_jax() {
    let Some(python) = require("derivatives_are_those_of_jax", Needed::Python) else { return };
    let (mut problems, mut wrong) = (Vec::new(), Vec::new());
    for case in cases() {
        for &dtype in &case.dtypes {
            match Problem::new(&case, dtype) {
                Ok(problem) => problems.push(problem),
                Err(error) => wrong.push(format!("{}: {error}", case.name)),
            }
        }
    }
    let expected = solved_by_jax(&python, &problems);
    let device = Device::new();
    let mut compared = 0;
    for (at, problem) in problems.iter().enumerate() {
        let name = problem.name();
        let solved = match problem.solve(&device) {
            Ok(solved) => solved,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let tolerance = match problem.dtype {
            // JAX takes the gradient of a padding as a difference of two rounded sums, which is 4.5e-2 off.
            DType::BF16 => 5e-2,
            _ => problem.case.tolerance,
        };
        for (what, have) in solved {
            let Some(want) = expected.get(&format!("{at}_{what}")) else {
                wrong.push(format!("{name}: JAX gave no {what}"));
                continue;
            };
            let (have, want) = (numbers(&have), numbers(want));
            let apart = distance(&have, &want);
            if apart > tolerance {
                wrong.push(format!("{name}: {what} is {apart:.1e} off: {have:?} and not {want:?}"));
            }
            compared += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} results are wrong:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("{compared} results of {} problems agree with JAX", problems.len());
    assert!(compared > 1000, "{compared}");
}

#[test]
fn derivatives_are_limits_of_differences() {
    let device = Device::new();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in cases().into_iter().filter(|case| case.is_smooth) {
        let problem = match Problem::new(&case, DType::F64) {
            Ok(problem) => problem,
            Err(error) => {
                wrong.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        match differences(&problem, &device) {
            Ok(None) => {}
            Ok(Some(message)) => wrong.push(format!("{}: {message}", case.name)),
            Err(error) => wrong.push(format!("{}: {error}", case.name)),
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 250, "{compared}");
}

/// Compares the derivative along one direction, seen by one cotangent, with a difference of values.
fn differences(problem: &Problem, device: &Device) -> Result<Option<String>, String> {
    const STEP: f64 = 1e-6;
    let case = &problem.case;
    let (n, fixed) = (problem.inputs.len(), case.fixed.len());
    let all: Vec<Literal> =
        [&problem.inputs, &case.fixed, &problem.tangents, &problem.cotangents].into_iter().flatten().cloned().collect();
    let results = device.try_run(&all, |args| {
        let (xs, rest) = args.split_at(n);
        let (ks, rest) = rest.split_at(fixed);
        let (ts, cts) = rest.split_at(n);
        let f = |xs: &Vec<Tensor>| (case.function)(xs, ks);
        let dot = |one: &[Tensor], other: &[Tensor]| {
            let terms = one.iter().zip(other).map(|(a, b)| (a * b).sum_all());
            terms.fold(Tensor::scalar(DType::F64, 0.0), |sum, term| sum + term)
        };
        let (xs, ts, cts) = (xs.to_vec(), ts.to_vec(), cts.to_vec());
        let moved = |step: f64| xs.iter().zip(&ts).map(|(x, t)| x + &(t * step)).collect::<Vec<_>>();
        let change = dot(&f(&moved(STEP)), &cts) - dot(&f(&moved(-STEP)), &cts);
        let mut results = vec![change / (2.0 * STEP)];
        if case.has_tangents {
            results.push(dot(&jvp(f, &xs, &ts).1, &cts));
        }
        if case.has_cotangents {
            results.push(dot(&vjp(f, &xs).1(&cts), &ts));
        }
        results
    })?;
    let seen: Vec<f64> = results.iter().flat_map(numbers).collect();
    let apart = seen[1..].iter().map(|&have| distance(&[have], &seen[..1])).fold(0.0, f64::max);
    Ok((apart > 1e-7).then(|| format!("differences, tangents and gradients give {seen:?}")))
}

#[test]
fn what_a_checkpoint_keeps_changes_no_bit() {
    let device = Device::new();
    let shapes: [&[usize]; 3] = [&[2, 3], &[3, 4], &[4, 2]];
    let inputs: Vec<Literal> = shapes
        .iter()
        .enumerate()
        .map(|(n, dims)| Array::drawn(dims, -1.0, 1.0, n as u64).literal(DType::F32))
        .collect();
    let plain = |x: &Vec<Tensor>| control::layers(&x[0], &x[1], &x[2]).sum_all();
    let expected = device.run(&inputs, |x| trace::grad(plain, x));
    for (name, policy) in control::policies() {
        let kept = device.run(&inputs, |x| trace::grad(|x| checkpoint(&policy, x, plain), x));
        assert_eq!(kept, expected, "{name}");
    }
}
