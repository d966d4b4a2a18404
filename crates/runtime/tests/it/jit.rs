//! A jitted function called with one structure of host and device values.

use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Error, ReadTensor, TreeArrays, ValidationError};
use tensor::{DType, Literal, Spec};
use trace::{Tensor, Tree};

fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Development).device(Target::Cpu)).unwrap()
}

#[derive(Clone, Tree)]
struct Line {
    slope: Tensor,
    offset: Tensor,
}

#[test]
fn structures_of_host_and_device_values_go_in_and_come_out() {
    let backend = backend();
    let mut moved =
        backend.jit(|(line, by): &(Line, Tensor)| Line { slope: line.slope.clone() * 2.0, offset: &line.offset + by });
    let line = Line { slope: Tensor::from([1.0f32, -1.0]), offset: Tensor::from(0.5f32) };
    let once = moved.call((line.clone(), Tensor::from(1.0f32))).unwrap();
    // What came out goes in again, and a reference does too.
    let twice = moved.call(&(once.clone(), Tensor::from(0.25f32))).unwrap();
    assert_eq!((once.slope.to_vec::<f32>().unwrap(), once.offset.item::<f32>().unwrap()), (vec![2.0, -2.0], 1.5));
    assert_eq!((twice.slope.to_vec::<f32>().unwrap(), twice.offset.item::<f32>().unwrap()), (vec![4.0, -4.0], 1.75));
    assert_eq!(moved.num_compiled(), 1);
    let named = twice.to_literals().unwrap();
    assert_eq!(named[1], ("offset".to_string(), Literal::from(1.75f32)));
    assert_eq!(twice.arrays().unwrap()[0].1.spec(), &Spec::new(DType::F32, [2]));
    assert!(matches!(line.arrays(), Err(Error::Validation(ValidationError::NoValue { .. }))));
}

#[test]
fn values_of_the_host_inside_a_function_are_constants() {
    let table = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let backend = backend();
    let (outer, x) = (table.clone(), Tensor::from([1.0f32, 1.0]));
    let mut f = backend.jit(move |x: &Tensor| {
        // Twice in one function and once in an inner one: a constant for each function.
        let y = outer.matmul(x) + outer.matmul(x);
        trace::grad(|x| (outer.matmul(x) * &y.stop_gradient()).sum_all(), x)
    });
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [6.0 + 42.0, 12.0 + 56.0]);
    let text = hlo::text::print(f.program(&x).unwrap().0.module());
    assert_eq!(text.matches("dense<[[").count(), 2, "{text}");
}

#[test]
fn tensors_without_a_value_are_told() {
    let backend = backend();
    let mut f = backend.jit(|line: &Line| &line.slope + &line.offset);
    let shape = Line { slope: Tensor::from([1.0f32]), offset: Tensor::of(Spec::new(DType::F32, [])) };
    let error = f.call(&shape).unwrap_err();
    assert_eq!(error.to_string(), "`offset`, f32[], has no value: only its type and shape are known");
    assert!(error.remedy().contains("Tensor::from"));
    let mut copy = backend.jit(|x: &Tensor| x.clone());
    let sent = copy.call(Tensor::from([1.0f32, 2.0])).unwrap();
    let wrong = sent.to_vec::<i32>().unwrap_err();
    assert_eq!((wrong.to_string(), wrong.remedy()), ("the literal is f32[2], not i32".into(), "read it as f32".into()));
    let error = backend.jit(move |x: &Tensor| x + &sent).call(Tensor::from([1.0f32, 2.0])).unwrap_err();
    assert!(error.to_string().contains("is on a device: pass it to the jitted function"), "{error}");
}

#[test]
fn the_first_input_gives_its_memory_away() {
    let backend = backend();
    let mut step =
        backend.jit(|(line, x): &(Line, Tensor)| (line.map_leaves(|leaf| leaf * 2.0), x.sum_all())).donate_first();
    let line = Line { slope: Tensor::from([1.0f32, 2.0]), offset: Tensor::from(3.0f32) };
    let x = Tensor::from([1.0f32, 1.0]);
    let (line, _) = step.call((line, x.clone())).unwrap();
    let (next, sum) = step.call((line.clone(), x)).unwrap();
    assert_eq!((next.slope.to_vec::<f32>().unwrap(), sum.item::<f32>().unwrap()), (vec![4.0, 8.0], 2.0));
    assert!(line.slope.to_host().is_err(), "its memory was taken");
}
