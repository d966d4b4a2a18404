//! Scatters against a loop over single updates.

use tensor::{decode_float, encode_float};

use super::super::copy::tests::{Numbers, all_cores, indices, position};
use super::*;

struct Case<'a> {
    dims: Dims<'a>,
    operand: &'a [usize],
    indices: &'a [usize],
    updates: &'a [usize],
}

const PLAIN: Dims<'_> = Dims {
    update_window_dims: &[],
    inserted_window_dims: &[],
    input_batching_dims: &[],
    scatter_indices_batching_dims: &[],
    scatter_dims_to_operand_dims: &[0],
    index_vector_dim: 1,
};

/// Pairs of operand and update elements, by index vector and then by window; a window that is not within the operand as a
/// whole gives none.
fn naive(case: &Case<'_>, index: &[i64]) -> Vec<(usize, usize)> {
    let dims = &case.dims;
    let (rank, vector_dim) = (case.operand.len(), dims.index_vector_dim as usize);
    let window: Vec<usize> = (0..rank)
        .filter(|&d| !dims.inserted_window_dims.contains(&(d as i64)))
        .filter(|&d| !dims.input_batching_dims.contains(&(d as i64)))
        .collect();
    let scatter_dims: Vec<usize> =
        (0..case.updates.len()).filter(|&d| !dims.update_window_dims.contains(&(d as i64))).collect();
    let sizes = |dims: &[usize]| dims.iter().map(|&d| case.updates[d]).collect::<Vec<_>>();
    let window_dims: Vec<usize> = dims.update_window_dims.iter().map(|&d| d as usize).collect();
    let mut pairs = Vec::new();
    for batch in indices(&sizes(&scatter_dims)) {
        let before = pairs.len();
        for offset in indices(&sizes(&window_dims)) {
            let mut place = vec![0i64; rank];
            for (component, &d) in dims.scatter_dims_to_operand_dims.iter().enumerate() {
                let mut vector = batch.clone();
                vector.insert(vector_dim, component);
                vector.truncate(case.indices.len());
                place[d as usize] = index[position(&vector, case.indices)];
            }
            for (&operand, &i) in dims.input_batching_dims.iter().zip(dims.scatter_indices_batching_dims) {
                place[operand as usize] += batch[i as usize - usize::from(i as usize > vector_dim)] as i64;
            }
            window.iter().zip(&offset).for_each(|(&w, &o)| place[w] += o as i64);
            let mut at = Vec::new();
            let mut is_within = true;
            for (&i, &size) in place.iter().zip(case.operand) {
                match usize::try_from(i) {
                    Ok(i) if i < size => at.push(i),
                    _ => is_within = false,
                }
            }
            if !is_within {
                continue;
            }
            let mut update = vec![0; case.updates.len()];
            scatter_dims.iter().zip(&batch).for_each(|(&d, &i)| update[d] = i);
            window_dims.iter().zip(&offset).for_each(|(&d, &i)| update[d] = i);
            pairs.push((position(&at, case.operand), position(&update, case.updates)));
        }
        if pairs.len() - before < sizes(&window_dims).iter().product() {
            pairs.truncate(before);
        }
    }
    pairs
}

/// The combiner on one element, through f64 or i128 where `f32` and the integer types have room.
fn combined(combine: Combine, dtype: DType, old: &[u8], update: &[u8]) -> Vec<u8> {
    let wide = |bytes: &[u8]| {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        u128::from_le_bytes(all)
    };
    let (a, b) = (wide(old), wide(update));
    if let Some(part) = dtype.complex_part() {
        let half = part.size_bytes();
        return match combine {
            Combine::Replace => update.to_vec(),
            _ => (0..2)
                .flat_map(|i| combined(combine, part, &old[i * half..][..half], &update[i * half..][..half]))
                .collect(),
        };
    }
    let bits = match combine {
        Combine::Replace => b,
        Combine::And => a & b,
        Combine::Or => a | b,
        Combine::Xor => a ^ b,
        Combine::Add | Combine::Maximum if dtype.is_bool() => a | b,
        Combine::Multiply | Combine::Minimum if dtype.is_bool() => a & b,
        _ if dtype.is_float() => {
            let (x, y) = (decode_float(dtype, a as u64).unwrap(), decode_float(dtype, b as u64).unwrap());
            let order = |greater: bool| {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else if x == y {
                    if x.is_sign_positive() == greater { x } else { y }
                } else if (x > y) == greater {
                    x
                } else {
                    y
                }
            };
            let value = match combine {
                Combine::Add => x + y,
                Combine::Multiply => x * y,
                Combine::Minimum => order(false),
                _ => order(true),
            };
            let value = if dtype.bits() <= 16 { f64::from(value as f32) } else { value };
            u128::from(encode_float(dtype, value).unwrap())
        }
        _ => {
            let shift = 128 - old.len() as u32 * 8;
            let signed = |n: u128| if dtype.is_signed_integer() { (n << shift) as i128 >> shift } else { n as i128 };
            let (x, y) = (signed(a), signed(b));
            (match combine {
                Combine::Add => x.wrapping_add(y),
                Combine::Multiply => x.wrapping_mul(y),
                Combine::Minimum => x.min(y),
                _ => x.max(y),
            }) as u128
        }
    };
    bits.to_le_bytes()[..old.len()].to_vec()
}

/// Elements with values that small types hold, and now and then a special one.
fn elements(dtype: DType, count: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        for part in 0..if dtype.is_complex() { 2 } else { 1 } {
            let real = dtype.complex_part().unwrap_or(dtype);
            let value = match numbers.below(40) + part {
                0 => f64::NAN,
                1 => -0.0,
                2 => f64::INFINITY,
                3 => 6e-8,
                n => n as f64 * 0.37 - 7.0,
            };
            let bits = match real {
                DType::Bool => numbers.below(2) as u64,
                DType::I4 => (numbers.below(16) as i64 - 8) as u64,
                DType::U4 => numbers.below(16) as u64,
                real => encode_float(real, value)
                    .unwrap_or((numbers.below(usize::MAX) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            };
            bytes.extend_from_slice(&bits.to_le_bytes()[..real.size_bytes()]);
        }
    }
    bytes
}

fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let real = dtype.complex_part().unwrap_or(dtype);
    let width = real.size_bytes();
    let nan = |bytes: &[u8]| {
        let bits = bytes.iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        decode_float(real, bits).is_some_and(f64::is_nan)
    };
    a.chunks(width).zip(b.chunks(width)).all(|(a, b)| a == b || (nan(a) && nan(b)))
}

fn check(case: &Case<'_>, combine: Combine, dtype: DType, cores: &[Cores]) {
    let mut numbers = Numbers(8);
    let width = dtype.size_bytes();
    let count = |dims: &[usize]| dims.iter().product::<usize>();
    let index: Vec<i64> = (0..count(case.indices)).map(|_| numbers.below(14) as i64 - 3).collect();
    let stored: Vec<u8> = index.iter().flat_map(|&i| (i as i32).to_le_bytes()).collect();
    let operand = elements(dtype, count(case.operand), &mut numbers);
    let updates = elements(dtype, count(case.updates), &mut numbers);
    let pairs = naive(case, &index);
    let mut expected = operand.clone();
    for &(to, from) in &pairs {
        let old = &mut expected[to * width..(to + 1) * width];
        let new = combined(combine, dtype, old, &updates[from * width..(from + 1) * width]);
        old.copy_from_slice(&new);
    }
    let plan = Plan::new(
        &case.dims,
        case.operand,
        case.indices,
        DType::I32,
        case.updates,
        dtype,
        combine,
        Uniqueness::Unknown,
    )
    .expect("it fits");
    for cores in cores {
        let mut to = operand.clone();
        // SAFETY: the arrays have the planned shapes.
        unsafe { plan.run(to.as_mut_ptr(), stored.as_ptr(), updates.as_ptr(), cores) };
        assert!(same(dtype, &to, &expected), "{combine:?} of {dtype}, {:?} on {:?}", case.dims, cores.machine);
    }
    let places = Places::new(&case.dims, case.operand, case.indices, DType::I32, case.updates).expect("it fits");
    let mut seen = Vec::new();
    // SAFETY: the index array has the planned shape.
    unsafe { places.each(stored.as_ptr(), &mut |to, from| seen.push((to, from))) };
    assert_eq!(seen, pairs);
}

const ROWS: Dims<'_> = Dims { update_window_dims: &[1], inserted_window_dims: &[0], ..PLAIN };

#[test]
fn every_combiner_and_type() {
    let cores = all_cores();
    let case = Case { dims: ROWS, operand: &[9, 21], indices: &[30, 1], updates: &[30, 21] };
    let single =
        Case { dims: Dims { inserted_window_dims: &[0], ..PLAIN }, operand: &[9], indices: &[50, 1], updates: &[50] };
    use Combine::{Add, And, Maximum, Minimum, Multiply, Or, Replace, Xor};
    for combine in [Replace, Add, Multiply, Minimum, Maximum, And, Or, Xor] {
        for &dtype in DType::ALL {
            if Kernel::of(combine, dtype).is_some()
                && dtype.bits() != 2
                && !matches!(dtype.bits(), 4 if dtype.is_float())
            {
                check(&case, combine, dtype, &cores);
                check(&single, combine, dtype, &cores);
            }
        }
    }
    assert!(Kernel::of(Multiply, DType::C64).is_none());
    assert!(Kernel::of(Add, DType::I4).is_none());
    assert!(Kernel::of(And, DType::F32).is_none());
}

#[test]
fn every_shape() {
    let cores = all_cores();
    let columns =
        Dims { update_window_dims: &[0], inserted_window_dims: &[1], scatter_dims_to_operand_dims: &[1], ..PLAIN };
    let windows = Dims { update_window_dims: &[1, 2], scatter_dims_to_operand_dims: &[1, 0], ..PLAIN };
    let first = Dims { index_vector_dim: 0, ..windows };
    let sliding = Dims { update_window_dims: &[0], index_vector_dim: 0, ..PLAIN };
    let scalar = Dims { update_window_dims: &[0], inserted_window_dims: &[0], index_vector_dim: 0, ..PLAIN };
    let batched = Dims {
        update_window_dims: &[2],
        inserted_window_dims: &[1],
        input_batching_dims: &[0],
        scatter_indices_batching_dims: &[0],
        scatter_dims_to_operand_dims: &[1],
        index_vector_dim: 2,
    };
    let batched_inside = Dims { scatter_indices_batching_dims: &[1], ..batched };
    let singles = Dims { inserted_window_dims: &[0], ..PLAIN };
    for (dims, operand, indices, updates) in [
        (ROWS, &[9, 21][..], &[30, 1][..], &[30, 21][..]),
        (ROWS, &[9, 21], &[30], &[30, 20]),
        (ROWS, &[9, 21], &[0], &[0, 21]),
        (ROWS, &[9, 21], &[3], &[3, 0]),
        (ROWS, &[9, 700], &[70], &[70, 700]),
        (columns, &[5, 9], &[20, 1], &[5, 20]),
        (columns, &[500, 9], &[80, 1], &[500, 80]),
        (windows, &[6, 7], &[9, 2], &[9, 2, 3]),
        (first, &[6, 7], &[2, 9], &[9, 2, 3]),
        (windows, &[11, 11], &[9, 2], &[9, 1, 1]),
        (sliding, &[9], &[1], &[4]),
        (sliding, &[90000], &[1], &[80000]),
        (windows, &[20, 9000], &[2, 2], &[2, 10, 8000]),
        (scalar, &[9, 4], &[], &[4]),
        (batched, &[4, 6, 5], &[4, 3, 1], &[4, 3, 5]),
        (batched, &[4, 6, 500], &[4, 30, 1], &[4, 30, 500]),
        (batched_inside, &[4, 6, 5], &[3, 4, 1], &[3, 4, 5]),
        (singles, &[9], &[70000, 1], &[70000]),
    ] {
        check(&Case { dims, operand, indices, updates }, Combine::Add, DType::F32, &cores);
        check(&Case { dims, operand, indices, updates }, Combine::Replace, DType::U16, &cores);
    }
}

#[test]
fn far_indices_are_outside() {
    let dims = Dims { update_window_dims: &[0], index_vector_dim: 0, ..PLAIN };
    // The last four lie partly within: nothing of their windows is written.
    for index in [i64::MIN, i64::MAX, -4, 9, -1, -3, 6, 8] {
        let places = Places::new(&dims, &[9], &[1], DType::I64, &[4]).expect("it fits");
        // SAFETY: one index vector of one component.
        unsafe { places.each((&raw const index).cast(), &mut |_, _| panic!("{index} is outside")) };
    }
}
