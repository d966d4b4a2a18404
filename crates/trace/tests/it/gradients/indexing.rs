//! Cases of reading and writing at computed places, sorting, and the largest few.

use serde_json::json;
use tensor::DType;
use trace::{Order, Tensor, Update, sort_together};

use super::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let i32s = DType::I32;
    let mut cases = vec![
        Case::new("take/rows", "take", &[&[5, 3]], |x, k| vec![x[0].take(0, &k[0])])
            .fixed(i32s, &[4], &[0.0, 4.0, 4.0, 2.0])
            .with(json!({"axis": 0}))
            .second(),
        Case::new("take/columns by a matrix", "take", &[&[2, 5, 3]], |x, k| vec![x[0].take(1, &k[0])])
            .fixed(i32s, &[2, 3], &[0.0, 1.0, 4.0, 4.0, 3.0, 1.0])
            .with(json!({"axis": 1})),
        Case::new("take/one", "take", &[&[2, 5]], |x, k| vec![x[0].take(-1, &k[0])])
            .fixed(i32s, &[], &[3.0])
            .with(json!({"axis": 1})),
        Case::new("take_along/last", "take_along", &[&[3, 5]], |x, k| vec![x[0].take_along(-1, &k[0])])
            .fixed(i32s, &[3, 2], &[0.0, 4.0, 1.0, 1.0, 3.0, 2.0])
            .with(json!({"axis": -1}))
            .second(),
        Case::new("take_along/first", "take_along", &[&[4, 3]], |x, k| vec![x[0].take_along(0, &k[0])])
            .fixed(i32s, &[2, 3], &[0.0, 3.0, 1.0, 1.0, 3.0, 2.0])
            .with(json!({"axis": 0})),
        Case::new("take_along/one of each row", "take_along", &[&[3, 5]], |x, k| vec![x[0].take_along(-1, &k[0])])
            .fixed(i32s, &[3, 1], &[0.0, 4.0, 1.0])
            .with(json!({"axis": -1}))
            .second(),
        Case::new("dynamic_slice", "dynamic_slice", &[&[5, 6]], |x, k| {
            vec![x[0].dynamic_slice(&[k[0].clone(), k[1].clone()], &[2, 3])]
        })
        .fixed(i32s, &[], &[1.0])
        .fixed(i32s, &[], &[2.0])
        .with(json!({"sizes": [2, 3]}))
        .second(),
        Case::new("dynamic_slice/moved inside", "dynamic_slice", &[&[5, 6]], |x, k| {
            vec![x[0].dynamic_slice(&[k[0].clone(), k[1].clone()], &[3, 3])]
        })
        .fixed(i32s, &[], &[4.0])
        .fixed(i32s, &[], &[-2.0])
        .with(json!({"sizes": [3, 3]})),
        Case::new("dynamic_slice_in", "dynamic_slice_in", &[&[5, 6]], |x, k| vec![x[0].dynamic_slice_in(-1, &k[0], 2)])
            .fixed(i32s, &[], &[3.0]),
        Case::new("dynamic_update", "dynamic_update", &[&[5, 6], &[2, 3]], |x, k| {
            vec![x[0].dynamic_update(&x[1], &[k[0].clone(), k[1].clone()])]
        })
        .fixed(i32s, &[], &[1.0])
        .fixed(i32s, &[], &[2.0])
        .second(),
        Case::new("dynamic_update/moved inside", "dynamic_update", &[&[5, 6], &[2, 3]], |x, k| {
            vec![x[0].dynamic_update(&x[1], &[k[0].clone(), k[1].clone()])]
        })
        .fixed(i32s, &[], &[9.0])
        .fixed(i32s, &[], &[-3.0]),
        Case::new("embedding and loss", "embedding_loss", &[&[7, 4], &[4, 7]], |x, k| {
            let logits = x[0].take(0, &k[0]).matmul(&x[1]);
            let picked = logits.log_softmax(-1).take_along(-1, &k[1].expand(-1));
            vec![picked.mean_all().negate()]
        })
        .fixed(i32s, &[5], &[0.0, 6.0, 3.0, 3.0, 1.0])
        .fixed(i32s, &[5], &[6.0, 3.0, 3.0, 1.0, 2.0])
        .second(),
        Case::new("one_hot", "one_hot", &[&[4, 3]], |x, k| vec![&x[0] * &k[0].one_hot(3, x[0].dtype())]).fixed(
            i32s,
            &[4],
            &[0.0, 2.0, 5.0, 1.0],
        ),
    ];
    for (name, update) in [("add", Update::Add), ("set", Update::Set)] {
        let places: &[f64] = if name == "add" { &[0.0, 3.0, 3.0] } else { &[4.0, 1.0, 0.0] };
        cases.push(
            Case::new(format!("scatter/{name} rows"), "scatter_rows", &[&[5, 2], &[3, 2]], move |x, k| {
                vec![x[0].scatter(&k[0], &x[1], rows(), update)]
            })
            .fixed(i32s, &[3, 1], places)
            .with(json!({ "name": name }))
            .second(),
        );
    }
    for (name, update) in [("maximum", Update::Maximum), ("minimum", Update::Minimum), ("multiply", Update::Multiply)] {
        let case = move |what: &str, places: &[f64]| {
            Case::new(format!("scatter/{name} {what}"), "scatter_rows", &[&[5, 2], &[3, 2]], move |x, k| {
                vec![x[0].scatter(&k[0], &x[1], rows(), update)]
            })
            .fixed(i32s, &[3, 1], places)
            .with(json!({ "name": name }))
        };
        cases.push(case("rows", &[4.0, 1.0, 0.0]).second());
        cases.push(case("outside is left out", &[4.0, 7.0, 0.0]));
        if name != "multiply" {
            cases.push(case("repeated", &[3.0, 1.0, 3.0]));
            // Equal extremes share: two updates of each other, and one with what is there.
            let (x, updates) = ([0.5; 10], [2.0, -2.0, 0.5, 0.5, 2.0, -2.0]);
            cases.push(case("ties", &[3.0, 1.0, 3.0]).input(0, &x).input(1, &updates).kinked());
        }
    }
    let repeated = || {
        Case::new("scatter/multiply repeated", "multiply_rows", &[&[5, 2], &[3, 2]], |x, k| {
            vec![x[0].scatter(&k[0], &x[1], rows(), Update::Multiply)]
        })
        .fixed(i32s, &[3, 1], &[3.0, 1.0, 3.0])
    };
    cases.push(repeated().second());
    // One zero at a place, and two.
    let mut zeros = repeated().input(1, &[0.0, 0.0, 0.5, 0.7, 2.0, 0.0]);
    zeros.name += ", zeros";
    cases.push(zeros);
    cases.push(
        Case::new("scatter/add outside is left out", "scatter_rows", &[&[5, 2], &[3, 2]], |x, k| {
            vec![x[0].scatter(&k[0], &x[1], rows(), Update::Add)]
        })
        .fixed(i32s, &[3, 1], &[0.0, 7.0, 2.0])
        .with(json!({"name": "add"})),
    );
    for (order, word) in [(Order::Ascending, "ascending"), (Order::Descending, "descending")] {
        for axis in [0isize, 1] {
            cases.push(
                Case::new(format!("sort/{word} {axis}"), "sort", &[&[4, 5]], move |x, _| vec![x[0].sort(axis, order)])
                    .with(json!({"axis": axis, "order": word}))
                    .second(),
            );
        }
    }
    cases.extend([
        Case::new("sort/together", "sort_together", &[&[3, 4], &[3, 4]], |x, _| {
            sort_together(&[x[0].clone(), x[1].clone()], 1, Order::Ascending)
        })
        .second(),
        Case::new("sort/by argsort", "by_argsort", &[&[3, 4], &[3, 4]], |x, _| {
            vec![x[1].take_along(1, &x[0].argsort(1, Order::Ascending))]
        }),
        Case::new("top_k", "top_k", &[&[3, 6]], |x, _| vec![x[0].top_k(2).0]).with(json!({"k": 2})).second(),
        Case::new("argmax", "by_argmax", &[&[3, 6]], |x, _| vec![x[0].take_along(1, &x[0].argmax(1).expand(1))]),
        Case::new("gather by top_k", "gather_top_k", &[&[3, 6], &[3, 6]], |x: &[Tensor], _| {
            let (weights, places) = x[0].top_k(3);
            vec![&weights.softmax(-1) * &x[1].take_along(-1, &places)]
        })
        .second(),
    ]);
    cases
}

/// Rows of a matrix, placed by a column of row numbers.
fn rows() -> hlo::dims::ScatterDims {
    hlo::dims::ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..Default::default()
    }
}
