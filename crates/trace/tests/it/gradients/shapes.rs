//! Cases of operations that move elements.

use serde_json::json;
use trace::Tensor;

use super::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("reshape", "reshape", &[&[2, 6]], |x, _| vec![x[0].reshape(&[3, 4])]).with(json!({"dims": [3, 4]})),
        Case::new("reshape to scalar", "reshape", &[&[1, 1]], |x, _| vec![x[0].reshape(&[])]).with(json!({"dims": []})),
        Case::new("transpose", "transpose", &[&[2, 3, 4]], |x, _| vec![x[0].transpose(&[2, 0, 1])])
            .with(json!({"order": [2, 0, 1]})),
        Case::new("swap_axes", "transpose", &[&[2, 3, 4]], |x, _| vec![x[0].swap_axes(0, -1)])
            .with(json!({"order": [2, 1, 0]})),
        Case::new("move_axis", "transpose", &[&[2, 3, 4]], |x, _| vec![x[0].move_axis(0, 2)])
            .with(json!({"order": [1, 2, 0]})),
        Case::new("reverse", "reverse", &[&[2, 3, 4]], |x, _| vec![x[0].reverse(&[0, 2])])
            .with(json!({"axes": [0, 2]})),
        Case::new("concat", "concat", &[&[2, 3], &[2, 1], &[2, 2]], |x, _| vec![Tensor::concat(x, 1)])
            .with(json!({"axis": 1})),
        Case::new("concat of one twice", "concat_twice", &[&[2, 3]], |x, _| {
            vec![Tensor::concat(&[x[0].clone(), x[0].clone()], 0)]
        }),
        Case::new("stack", "stack", &[&[2, 3], &[2, 3]], |x, _| vec![Tensor::stack(x, 1)]).with(json!({"axis": 1})),
        Case::new("split", "split", &[&[2, 6]], |x, _| x[0].split(1, 3)),
        Case::new("expand and squeeze", "expand_squeeze", &[&[2, 1, 3]], |x, _| vec![x[0].expand(0), x[0].squeeze(1)]),
        Case::new("lower_triangle", "tril", &[&[2, 4, 3]], |x, _| vec![x[0].lower_triangle(1)])
            .with(json!({"offset": 1})),
        Case::new("lower_triangle below", "tril", &[&[4, 4]], |x, _| vec![x[0].lower_triangle(-1)])
            .with(json!({"offset": -1})),
        Case::new("at", "at", &[&[3, 4]], |x, _| vec![x[0].at(1, 2)]),
    ];
    let broadcasts: [(&[usize], &[usize], &[usize]); 6] = [
        (&[3], &[2, 3], &[1]),
        (&[3], &[3, 2], &[0]),
        (&[1, 3], &[4, 3, 2], &[0, 1]),
        (&[], &[2, 3], &[]),
        (&[2, 1], &[2, 3, 4], &[0, 2]),
        (&[2, 3], &[2, 5, 3], &[0, 2]),
    ];
    for (from, dims, along) in broadcasts {
        let case = Case::new(format!("broadcast/{from:?} to {dims:?} along {along:?}"), "broadcast", &[from], {
            move |x, _| vec![x[0].broadcast_along(dims, along)]
        });
        cases.push(case.with(json!({"dims": dims, "along": along})));
    }
    // JAX's broadcast takes axes in rising order; a transpose before makes the same of any order.
    cases.push(
        Case::new("broadcast/axes out of order", "broadcast_turned", &[&[2, 3]], |x, _| {
            vec![x[0].broadcast_along(&[3, 4, 2], &[2, 0])]
        })
        .second(),
    );
    let slices: [(&[usize], &[usize], &[usize]); 5] = [
        (&[0, 1], &[5, 6], &[1, 1]),
        (&[1, 0], &[5, 7], &[2, 3]),
        (&[0, 2], &[4, 7], &[3, 2]),
        (&[2, 2], &[3, 3], &[1, 1]),
        (&[1, 1], &[1, 4], &[1, 1]),
    ];
    for (starts, limits, strides) in slices {
        let name = format!("slice/{starts:?} to {limits:?} by {strides:?}");
        let case = Case::new(name, "slice", &[&[5, 7]], move |x, _| vec![x[0].slice_all(starts, limits, strides)]);
        cases.push(case.with(json!({"starts": starts, "limits": limits, "strides": strides})));
    }
    let pads: [(&[i64], &[i64], &[i64]); 6] = [
        (&[1, 0], &[0, 2], &[0, 0]),
        (&[1, 2], &[2, 1], &[1, 2]),
        (&[-1, 0], &[0, -2], &[0, 0]),
        (&[-1, 1], &[2, -1], &[2, 0]),
        (&[-2, -1], &[-1, -2], &[1, 1]),
        (&[0, 0], &[0, 0], &[3, 0]),
    ];
    for (low, high, interior) in pads {
        let name = format!("pad/{low:?} {high:?} {interior:?}");
        let case = Case::new(name, "pad", &[&[4, 5], &[]], move |x, _| vec![x[0].pad_all(&x[1], low, high, interior)]);
        cases.push(case.with(json!({"low": low, "high": high, "interior": interior})));
    }
    cases
}
