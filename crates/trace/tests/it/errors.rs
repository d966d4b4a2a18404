//! What users see when they err: the kind of error, its words, and their own line; nothing is printed.

use std::cell::Cell;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tensor::DType;
use trace::{
    Branch, Convolution, Donate, Error, Key, Leaf, LeafShardings, LogicalAxisRules, Mesh, PartitionSpec, Reduction,
    RematPolicy, Role, Spec, Tensor, Window, axis_index, checkpoint, cond, custom_call, custom_vjp, grad, jvp, scan,
    shard_map, switch, vjp, vmap, vmap_along, vmap_axes, while_loop,
};

/// Notes the line it stands on, then evaluates what it is given.
macro_rules! on_line {
    ($line:ident, $value:expr) => {{
        $line.set(line!());
        $value
    }};
}

/// The inputs of every function here: two matrices that do not fit, integers, a condition.
fn inputs() -> Vec<Tensor> {
    let of = |dtype, dims: &[usize]| Tensor::of(Spec::new(dtype, dims));
    vec![
        of(DType::F32, &[2, 3]),
        of(DType::F32, &[4, 5]),
        of(DType::I32, &[2, 3]),
        of(DType::Bool, &[]),
        of(DType::BF16, &[2, 3]),
    ]
}

/// Traces a function that must be refused at the line it noted, with a message that has these words.
fn refused(words: &str, f: impl FnOnce(&Vec<Tensor>, &Cell<u32>) -> Tensor) -> Error {
    let line = Cell::new(0);
    let result = trace::trace("wrong", &inputs(), Donate::Nothing, |x| f(x, &line));
    let error = result.map(|_| ()).expect_err(words);
    let at = match &error {
        Error::Misuse { at, .. } | Error::NotDifferentiable { at, .. } => *at,
        other => panic!("{words}: {other:?}"),
    };
    assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    assert_eq!(at.file, file!(), "{error}");
    assert_eq!(at.line, line.get(), "{error}");
    error
}

#[test]
fn shapes_types_and_axes_that_do_not_fit_are_refused_at_their_line() {
    refused("sizes 3 and 5", |x, line| on_line!(line, &x[0] + &x[1]));
    refused("cast one of them", |x, line| on_line!(line, &x[0] * &x[2]));
    refused("cast one of them", |x, line| on_line!(line, x[0].maximum(&x[4])));
    refused("axis 2 of", |x, line| on_line!(line, x[0].softmax(2)));
    refused("axis -3 of", |x, line| on_line!(line, x[0].sort(-3, trace::Order::Ascending)));
    refused("cannot be reshaped", |x, line| on_line!(line, x[0].reshape(&[7])));
    refused("cannot be reshaped", |x, line| on_line!(line, x[0].reshape(&[usize::MAX, 2])));
    refused("sizes 3 and 4 do not match", |x, line| on_line!(line, x[0].matmul(&x[1])));
    refused("broadcast", |x, line| {
        let (left, right) = (x[0].broadcast_to(&[2, 2, 3]), x[0].transpose(&[1, 0]).broadcast_to(&[3, 3, 2]));
        on_line!(line, left.matmul(&right))
    });
    refused("a scalar has no axis to contract", |x, line| on_line!(line, x[0].matmul(&x[0].at(0, 0).at(0, 0))));
    refused("not of the form", |x, line| on_line!(line, x[0].einsum("ab,cd", &x[1])));
    refused("numbers of axes differ", |x, line| on_line!(line, x[0].einsum("abc,bc->ac", &x[1])));
    refused("sizes of b differ", |x, line| on_line!(line, x[0].einsum("ab,bc->ac", &x[1])));
    refused("0..9 of axis 1", |x, line| on_line!(line, x[0].slice(1, 0..9)));
    refused("of axis 0", |x, line| on_line!(line, x[0].at(0, usize::MAX)));
    refused("concatenate", |x, line| on_line!(line, Tensor::concat(&[x[0].clone(), x[1].clone()], 0)));
    refused("nothing to join", |_, line| on_line!(line, Tensor::concat(&[], 0)));
    refused("not of size 1", |x, line| on_line!(line, x[0].squeeze(0)));
    refused("cannot be put", |x, line| on_line!(line, x[0].expand(4)));
    refused("equal parts", |x, line| on_line!(line, x[0].split(1, 2).remove(0)));
    refused("select", |x, line| on_line!(line, x[2].select(&x[0], &x[0])));
    refused("more axes", |x, line| on_line!(line, x[0].broadcast_to(&[3])));
    refused("broadcast", |x, line| on_line!(line, x[0].broadcast_to(&[2, 4])));
    refused("transpose", |x, line| on_line!(line, x[0].transpose(&[0, 0])));
    refused("reduce", |x, line| on_line!(line, x[0].sum(&[5])));
    refused("same number of axes", |x, line| on_line!(line, x[0].take_along(0, &x[2].at(0, 0))));
    refused("gather", |x, line| on_line!(line, x[0].take(0, &x[1])));
    refused("pad", |x, line| on_line!(line, x[0].pad_all(&x[0], &[0], &[0], &[0])));
    refused("bitcast", |x, line| on_line!(line, x[0].bitcast(DType::F64)));
    refused("window over 1 axes", |x, line| on_line!(line, x[0].window_sum(&Window::new(&[2]))));
    refused("over 2 axes", |x, line| on_line!(line, x[0].convolve(&x[0], &Convolution::new(2))));
    refused("over 0 axes", |x, line| {
        let mut how = Convolution::new(0);
        how.padding = vec![(0, 0)];
        on_line!(line, x[0].convolve(&x[1], &how))
    });
    refused("do not fill", |_, line| on_line!(line, Tensor::from_f32s(&[3], &[1.0])));
    refused("square", |x, line| on_line!(line, x[0].cholesky()));
    refused("stablehlo.log", |x, line| on_line!(line, x[2].log()));
}

#[test]
fn loops_and_branches_that_do_not_fit_are_refused() {
    refused("boolean scalar", |x, line| on_line!(line, cond(&x[0], &x[0], |x| x.clone(), |x| x.clone())));
    refused("i32 scalar", |x, line| {
        let branches: Vec<Branch<'_, Tensor, Tensor>> = vec![Box::new(|x| x.clone())];
        on_line!(line, switch(&x[3], &x[0], branches))
    });
    refused("boolean scalar", |x, line| on_line!(line, while_loop(&x[0], |x| x.clone(), |x| x.clone())));
    refused("give its length", |x, line| on_line!(line, scan(&x[0], &(), None, |c, _| (c.clone(), ())).0));
    refused("scan over 2 slices", |x, line| {
        let xs = (x[0].clone(), x[1].clone());
        on_line!(line, scan(&x[0], &xs, None, |c, _| (c.clone(), ())).0)
    });
    refused("what a scan carries is", |x, line| {
        on_line!(line, scan(&x[0], &(), Some(2), |carry, _| (carry.cast(DType::BF16), ())).0)
    });
}

#[test]
fn what_has_no_derivative_says_so() {
    let is_gradient = |error: &Error| matches!(error, Error::NotDifferentiable { .. });
    refused("scalar float loss", |x, line| on_line!(line, grad(|x: &Tensor| x.exp(), &x[0])));
    refused("scalar float loss", |x, line| on_line!(line, grad(|x: &Tensor| x.sum_all().cast(DType::I32), &x[0])));
    refused("only floats are differentiable", |x, line| {
        on_line!(line, grad(|x: &Tensor| x.cast(DType::F32).sum_all(), &x[2]))
    });
    refused("cotangent", |x, line| {
        let (_, pull) = on_line!(line, vjp(|x: &Tensor| x.exp(), &x[0]));
        pull(&x[1])
    });
    refused("tangents have other", |x, line| on_line!(line, jvp(|x: &Tensor| x.exp(), &x[0], &x[1]).1));
    let error = refused("use scan with a fixed length", |x, line| {
        grad(
            |x: &Tensor| {
                let stays = |_: &Tensor| Tensor::scalar(DType::Bool, 0.0);
                on_line!(line, while_loop(x, stays, |x| x.sin())).sum_all()
            },
            &x[0],
        )
    });
    assert!(is_gradient(&error));
    let error = refused("custom_call has no gradient", |x, line| {
        let call = |x: &Tensor| on_line!(line, custom_call("theirs", from_ref(x), &[x.spec().clone()], ""));
        grad(|x: &Tensor| call(x).remove(0).sum_all(), &x[0])
    });
    assert!(is_gradient(&error));
    let error = refused("no forward-mode derivative", |x, line| {
        let f = |x: &Tensor| on_line!(line, custom_vjp(x, |x| x.sin(), |_, _, ct| ct.clone()));
        jvp(f, &x[0], &x[0]).1
    });
    assert!(is_gradient(&error));
    refused("the gradient given", |x, line| {
        let f = |x: &Tensor| on_line!(line, custom_vjp(x, |x| x.sin(), |_, _, ct| ct.sum_all()));
        grad(|x: &Tensor| f(x).sum_all(), &x[0])
    });
}

#[test]
fn batches_that_do_not_fit_are_refused() {
    refused("vmap over 2 examples", |x, line| {
        let inputs = (x[0].clone(), x[1].clone());
        on_line!(line, vmap(|(x, _): &(Tensor, Tensor)| x.clone(), &inputs))
    });
    refused("vmap over no axis", |x, line| on_line!(line, vmap_axes(|x: &Tensor| x.clone(), &x[0], &[None])));
    refused("with 2 axes", |x, line| on_line!(line, vmap_axes(|x: &Tensor| x.clone(), &x[0], &[None, None])));
    refused("axis 0 of", |x, line| on_line!(line, vmap(|x: &Tensor| x.clone(), &x[3])));
    refused("keep it out of vmap", |x, line| {
        let call = |x: &Tensor| on_line!(line, custom_call("theirs", from_ref(x), &[x.spec().clone()], ""));
        vmap(|x: &Tensor| call(x).remove(0), &x[0])
    });
}

#[test]
fn random_numbers_that_do_not_exist_are_refused() {
    let key = || Key::from_seed(1);
    refused("from 3 up to 3", |_, line| on_line!(line, key().randint(DType::I32, &[2], 3, 3)));
    refused("random integers of f32", |_, line| on_line!(line, key().randint(DType::F32, &[2], 0, 3)));
    refused("up to 300", |_, line| on_line!(line, key().randint(DType::U8, &[2], 0, 300)));
    refused("random bits", |_, line| on_line!(line, key().bits(DType::I32, &[2])));
    refused("random numbers of i32", |_, line| on_line!(line, key().uniform(DType::I32, &[2], 0.0, 1.0)));
    refused("a key is u32[2]", |x, line| on_line!(line, Key::from_data(&x[0]).data().clone()));
    refused("a seed is an integer", |x, line| on_line!(line, Key::from_seed(&x[0]).data().clone()));
    refused("more than 2^64", |_, line| on_line!(line, key().bits(DType::U32, &[usize::MAX, 3])));
}

#[test]
fn a_tensor_outside_of_its_function_is_recognised() {
    let mut escaped = None;
    trace::trace("first", &inputs(), Donate::Nothing, |x| {
        escaped = Some(x[0].clone());
        x[0].clone()
    })
    .unwrap();
    let escaped = escaped.unwrap();
    refused("has ended", |_, line| on_line!(line, escaped.exp()));
    refused("known by its shape only", |_, line| {
        let shape = Tensor::of(Spec::new(DType::F32, [2]));
        on_line!(line, shape.exp())
    });
    // From inside of a loop, too.
    refused("has ended", |x, line| {
        let mut inner = None;
        scan(&x[0], &(), Some(2), |carry, _| {
            let next = carry.exp();
            inner = Some(next.clone());
            (next, ())
        });
        let inner = inner.unwrap();
        on_line!(line, inner.exp())
    });
}

#[test]
fn an_error_inside_of_everything_leaves_nothing_behind() {
    let nested = |x: &Vec<Tensor>, line: &Cell<u32>| {
        let wrong = |x: &Tensor| {
            let (_, sums) = scan(&x.sum_all(), x, None, |carry, row| {
                let row = checkpoint(&RematPolicy::Full, row, |row| on_line!(line, row.reshape(&[99])));
                (carry + &row.sum_all(), row)
            });
            sums.sum_all()
        };
        trace::scope("outer", || grad(wrong, &x[0]))
    };
    refused("cannot be reshaped", nested);
    // The thread traces the next function as if nothing had been.
    let (function, _) = trace::trace("next", &inputs(), Donate::Nothing, |x| x[0].exp()).unwrap();
    let places = places(&function);
    assert!(!places.is_empty() && places.iter().all(|(name, ..)| name == "exponential"), "{places:?}");
}

#[test]
fn errors_are_returned_and_nothing_is_printed() {
    let is_called = Arc::new(AtomicBool::new(false));
    let (called, here) = (is_called.clone(), std::thread::current().id());
    let before = Arc::new(std::panic::take_hook());
    let others = before.clone();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == here {
            called.store(true, Ordering::SeqCst);
        } else {
            others(info);
        }
    }));
    refused("sizes 3 and 5", |x, line| on_line!(line, &x[0] + &x[1]));
    std::panic::set_hook(Box::new(move |info| before(info)));
    assert!(!is_called.load(Ordering::SeqCst));
}

/// Names, files and lines of the operations of a program.
fn places(function: &trace::Function) -> Vec<(String, String, u32)> {
    let mut places = Vec::new();
    for func in &function.module.funcs {
        for op in &func.ops {
            if let Some(hlo::Location::Name(name, Some(inner))) = op.loc.as_deref()
                && let hlo::Location::File { file, line, .. } = &**inner
            {
                places.push((name.to_string(), file.to_string(), *line));
            }
        }
    }
    places
}

#[test]
fn scopes_and_lines_are_in_the_program() {
    let line = Cell::new(0);
    let (function, _) = trace::trace("scoped", &inputs(), Donate::Nothing, |x| {
        trace::scope("model", || trace::scope("layer", || on_line!(line, x[0].tanh())))
    })
    .unwrap();
    let wanted = ("model/layer/tanh".to_string(), file!().to_string(), line.get());
    assert!(places(&function).contains(&wanted), "{wanted:?} is not in {:?}", places(&function));
}

#[test]
fn a_gradient_stands_at_the_line_of_its_operation() {
    let line = Cell::new(0);
    let (function, _) = trace::trace("scoped", &inputs(), Donate::Nothing, |x| {
        grad(|x: &Tensor| trace::scope("layer", || on_line!(line, x.sin())).sum_all(), &x[0])
    })
    .unwrap();
    let wanted = ("layer/cosine".to_string(), file!().to_string(), line.get());
    assert!(places(&function).contains(&wanted), "{wanted:?} is not in {:?}", places(&function));
}

/// What the library writes around a user's function, and what it writes for one call in several ops.
#[test]
fn ops_of_collectives_and_vmap_stand_at_the_users_line() {
    let rules = LogicalAxisRules::new(Mesh::new([("data", 2)]).unwrap());
    let whole = |dims: usize| PartitionSpec::replicated(dims);
    let of = |_: Role, leaf: &Leaf| Ok(whole(leaf.spec.dims.len()));
    let lines = |f: &dyn Fn(&Tensor) -> Tensor| {
        let shapes = vec![Tensor::of(Spec::new(DType::F32, [2, 4]))];
        let placed = LeafShardings { rules: &rules, of: &of };
        let (function, _) = trace::trace_on(&placed, "placed", &shapes, Donate::Nothing, |x| f(&x[0])).unwrap();
        places(&function)
    };
    let in_parts =
        |f: &dyn Fn(&Tensor) -> Tensor| lines(&|x| shard_map(x, &[whole(2)], &[whole(2)], |part: &Tensor| f(part)));
    let all = [
        in_parts(&|x| x.permute("data", 1)),
        in_parts(&|x| x.all_reduce("data", Reduction::Mean)),
        in_parts(&|x| x.all_gather(1, "data").reduce_scatter(1, "data")),
        in_parts(&|x| x.all_to_all(0, 1, "data").all_to_all(1, 0, "data")),
        in_parts(&|x| axis_index("data").cast(DType::F32).broadcast_to(x.dims())),
        in_parts(&|x| grad(|x: &Tensor| x.permute("data", 1).all_gather(0, "data").sum_all(), x)),
        lines(&|x| vmap_axes(|x: &Tensor| x.tanh(), x, &[Some(1)])),
        // The same for all examples: spread once the function is done.
        lines(&|x| vmap(|_: &Tensor| Tensor::scalar(DType::F32, 3.0), x)),
        lines(&|x| vmap_along(&["data".into()], |_: &Tensor| Tensor::scalar(DType::F32, 3.0), x)),
        lines(&|x| vmap(|row: &Tensor| &x.exp() + row, x)),
    ];
    for places in all {
        assert!(!places.is_empty());
        let others: Vec<_> = places.iter().filter(|(_, file, _)| file != file!()).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}
