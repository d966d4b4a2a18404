//! Look-ups on SparseCores, interpreted, against rows taken one by one.

use chips::Generation;
use kernel::kernels::embedding::{self, LookupWindow, SparseLookup};
use kernel::{Error, KernelCore, SparseCores, interpret};
use tensor::{DType, Spec};

use crate::arrays::{Numbers, literal, values};

/// The look-up of random ids, some beyond either end of the table.
fn check(shapes: SparseLookup, window: Option<LookupWindow>, generation: Generation, numbers: &mut Numbers) {
    let cores = SparseCores::of(generation).unwrap();
    let window = window.or(shapes.preferred_window(&cores)).unwrap();
    let kernel = embedding::lookup(&shapes, window, generation).unwrap();
    assert_eq!(kernel.core(), KernelCore::SparseCore);
    let SparseLookup { rows, size, ids, dtype } = shapes;
    let table: Vec<f64> = (0..rows * size).map(|n| (n % 1_000_003) as f64).collect();
    let wanted: Vec<f64> = (0..ids)
        .map(|_| match numbers.below(8) {
            0 => -1.0 - numbers.below(1 << 20) as f64,
            1 => (rows + numbers.below(1 << 20)) as f64,
            2 => f64::from(if numbers.below(2) == 0 { i32::MIN } else { i32::MAX }),
            _ => numbers.below(rows) as f64,
        })
        .collect();
    let operands = [literal(&Spec::new(dtype, [rows, size]), &table), literal(&Spec::new(DType::I32, [ids]), &wanted)];
    let results = interpret(&kernel, &operands).unwrap();
    let clamped = wanted.iter().map(|&id| (id.max(0.0) as usize).min(rows - 1));
    let expected: Vec<f64> = clamped.flat_map(|id| table[id * size..(id + 1) * size].to_vec()).collect();
    assert_eq!(values(&results[0]), expected, "{shapes:?} in {window:?} on {generation}");
}

#[test]
fn rows_are_those_of_a_gather() {
    let mut numbers = Numbers::new(31);
    for generation in [Generation::V5p, Generation::V6e, Generation::Tpu7x] {
        // Few ids, one round, several rounds, some subcores with one more than others.
        for ids in [8, 16, 264, 1000, 4096 + 8] {
            let rows = 1 + numbers.below(500);
            let dtype = if numbers.below(2) == 0 { DType::F32 } else { DType::I32 };
            check(SparseLookup { rows, size: 128, ids, dtype }, None, generation, &mut numbers);
        }
    }
}

#[test]
fn windows_of_any_size() {
    let mut numbers = Numbers::new(32);
    for _ in 0..12 {
        let size = 128 * (1 + numbers.below(4));
        let ids = 8 * (2 + numbers.below(90));
        let lines = (1..=size / 128).filter(|lines| (size / 128).is_multiple_of(*lines)).collect::<Vec<_>>();
        let columns = 128 * lines[numbers.below(lines.len())];
        let window = LookupWindow { ids: 8 * (1 + numbers.below(8)), columns };
        let ids = ids.next_multiple_of(window.ids);
        let shapes = SparseLookup { rows: 1 + numbers.below(60), size, ids, dtype: DType::F32 };
        check(shapes, Some(window), Generation::V6e, &mut numbers);
    }
}

#[test]
fn wide_rows_come_in_parts() {
    let shapes = SparseLookup { rows: 4, size: 8192, ids: 64, dtype: DType::F32 };
    let window = shapes.preferred_window(&SparseCores::of(Generation::V6e).unwrap()).unwrap();
    assert!(window.columns < 8192 && 8192 % window.columns == 0, "{window:?}");
    check(shapes, None, Generation::V6e, &mut Numbers::new(33));
}

#[test]
fn what_the_hardware_has_not_is_refused() {
    let shapes = SparseLookup { rows: 100, size: 128, ids: 64, dtype: DType::F32 };
    let window = LookupWindow { ids: 8, columns: 128 };
    for generation in [Generation::V2, Generation::V3, Generation::V4, Generation::V5e] {
        let refused = embedding::lookup(&shapes, window, generation);
        assert_eq!(refused.unwrap_err(), Error::NoSparseCores(generation));
    }
    let refused = |shapes: SparseLookup, window| match embedding::lookup(&shapes, window, Generation::V6e) {
        Err(Error::Shape { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    assert!(refused(SparseLookup { dtype: DType::BF16, ..shapes }, window).contains("32-bit"));
    assert!(refused(SparseLookup { size: 64, ..shapes }, window).contains("lines of 128"));
    assert!(refused(SparseLookup { ids: 63, ..shapes }, window).contains("tiles of 8"));
    assert!(refused(SparseLookup { rows: 0, ..shapes }, window).contains("0 rows"));
    assert!(refused(SparseLookup { rows: usize::MAX, ..shapes }, window).contains("rows"));
    for ids in [0, 12, 24, 136] {
        assert!(refused(SparseLookup { ids: 1088, ..shapes }, LookupWindow { ids, ..window }).contains("windows of"));
    }
    for columns in [0, 64, 256] {
        assert!(refused(shapes, LookupWindow { columns, ..window }).contains("columns"));
    }
    // Larger than the memory of a subcore.
    let wide = SparseLookup { size: 4096, ids: 1024, ..shapes };
    let refused = embedding::lookup(&wide, LookupWindow { ids: 128, columns: 4096 }, Generation::V6e);
    assert!(matches!(refused, Err(Error::Vmem { .. })), "{refused:?}");
}

/// Forms of look-ups: `table[ids]` and `jnp.take` of JAX, `nn.Embedding` of PyTorch, and one without a dimension of index vectors.
const FORMS: [(&str, &str, &str); 4] = [
    (
        "24xi32",
        "24x1xi32",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1",
    ),
    (
        "2x12xi32",
        "2x12x1xi32",
        "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2",
    ),
    (
        "2x12xi64",
        "2x12xi64",
        "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2",
    ),
    (
        "23xui32",
        "23xui32",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1",
    ),
];

fn look_up(table: &str, (ids, indices, dims): (&str, &str, &str), slice: &str) -> String {
    let rows = ids.rsplit_once('x').unwrap().0;
    let (size, dtype) = table.split_once('x').unwrap().1.split_once('x').unwrap();
    let size = slice.strip_prefix("1, ").unwrap_or(size);
    format!(
        "func.func @main(%t: tensor<{table}>, %i: tensor<{ids}>) -> tensor<{rows}x{size}x{dtype}> {{
  %j = stablehlo.reshape %i : (tensor<{ids}>) -> tensor<{indices}>
  %r = \"stablehlo.gather\"(%t, %j) <{{dimension_numbers = #stablehlo.gather<{dims}>, slice_sizes = array<i64: {slice}>}}> : (tensor<{table}>, tensor<{indices}>) -> tensor<{rows}x{size}x{dtype}>
  return %r : tensor<{rows}x{size}x{dtype}>
}}"
    )
}

fn recognised(text: &str, generation: Generation) -> kernel::RecognisedLookups {
    let module = hlo::verify(hlo::text::parse(text).unwrap()).unwrap();
    kernel::recognise_lookups(module, generation).unwrap()
}

#[test]
fn look_ups_become_composites_and_calls() {
    for form in FORMS {
        let read = recognised(&look_up("100x256xf32", form, "1, 256"), Generation::V6e);
        let printed = hlo::text::print(&read.module);
        assert_eq!((read.found.len(), read.left.len()), (1, 0), "{:?} {printed}", read.left);
        assert!(printed.contains("stablehlo.composite \"tpubridge.embedding_lookup\""), "{printed}");
        // What i32 does not hold is clamped before.
        let is_wide = form.0.ends_with("i64") || form.0.ends_with("ui32");
        assert_eq!(printed.contains("stablehlo.clamp"), is_wide, "{printed}");
        let main = read.module.entry().unwrap();
        assert!(!main.ops.iter().any(|op| op.kind() == Some(hlo::OpKind::Gather)), "{printed}");
        let lowered = kernel::lower(read.module.clone(), Generation::V6e).unwrap();
        let printed = hlo::text::print(&lowered.module);
        assert_eq!(lowered.called.len(), 1, "{:?}", lowered.kept);
        assert!(printed.contains("kernel_name = \"sparse_core_lookup\""), "{printed}");
        // 23 ids are padded to a tile, and their rows cut.
        assert_eq!(printed.contains("stablehlo.pad"), form.0.starts_with("23"), "{printed}");
        // A generation without SparseCores keeps the gather.
        let kept = kernel::lower(read.module, Generation::V5e).unwrap();
        assert_eq!((kept.called.len(), kept.kept.len()), (0, 1));
        assert!(hlo::text::print(&kept.module).contains("stablehlo.gather"));
    }
}

#[test]
fn what_is_no_look_up_stays() {
    let check = |text: &str, generation, reason: &str| {
        let read = recognised(text, generation);
        let left: Vec<&str> = read.left.iter().map(|(reason, _)| reason.as_str()).collect();
        assert!(read.found.is_empty(), "{:?}", read.found);
        assert!(left.join("; ").contains(reason) && left.is_empty() == reason.is_empty(), "{left:?}");
        assert!(!hlo::text::print(&read.module).contains("tpubridge."));
    };
    let [form, ..] = FORMS;
    check(&look_up("100x256xbf16", form, "1, 256"), Generation::V6e, "32-bit");
    check(&look_up("100x100xf32", form, "1, 100"), Generation::V6e, "lines of 128");
    check(&look_up("100x256xf32", form, "1, 256"), Generation::V4, "no SparseCores");
    check(&look_up("100x256xf32", form, "1, 256"), Generation::V5e, "no SparseCores");
    // A part of each row.
    check(&look_up("100x256xf32", form, "1, 128"), Generation::V6e, "");
    // Columns by index.
    let columns = look_up("128x256xf32", form, "1, 256")
        .replace("slice_sizes = array<i64: 1, 256>", "slice_sizes = array<i64: 128, 1>");
    let columns = columns.replace(
        "collapsed_slice_dims = [0], start_index_map = [0]",
        "collapsed_slice_dims = [1], start_index_map = [1]",
    );
    check(&columns.replace("24x256xf32", "24x128xf32"), Generation::V6e, "");
}
