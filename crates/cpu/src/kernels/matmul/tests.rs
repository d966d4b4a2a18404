//! Every kernel this machine has against the sum of products in f64 or i64.

use std::sync::Mutex;

use super::super::Cores;
use super::super::machine::Machine;
use super::super::pool::Pool;
use super::*;

/// The machines whose paths this one can run.
pub(super) fn machines() -> Vec<Machine> {
    let full = Machine::detect();
    let no_amx = Machine { amx: false, ..full };
    let plain_512 =
        Machine { avx512_bf16: false, avx512_vnni: false, avx512_vbmi: false, avx512_fp16: false, ..no_amx };
    let avx2 = Machine { avx512: false, ..plain_512 };
    let mut machines = vec![full, no_amx, plain_512, avx2, Machine::portable()];
    machines.dedup();
    machines
}

/// How a factor lies in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Rows,
    Columns,
    /// Every second element of every second row.
    Sparse,
    /// The same matrix for the whole batch, by rows.
    Shared,
    /// By rows, elements of less than a byte side by side.
    Bits,
}

fn operand(dtype: DType, layout: Layout, rows: usize, cols: usize) -> (Operand, usize) {
    let (row_stride, col_stride, batch_stride, len) = match layout {
        Layout::Rows => (cols, 1, rows * cols, rows * cols),
        Layout::Columns => (1, rows, rows * cols, rows * cols),
        Layout::Sparse => (4 * cols, 2, 4 * rows * cols, 4 * rows * cols),
        Layout::Shared => (cols, 1, 0, rows * cols),
        Layout::Bits => {
            let row = cols.next_multiple_of(8 / dtype.bits() as usize);
            (row, 1, rows * row, rows * row)
        }
    };
    let operand = Operand {
        dtype,
        packing: if matches!(layout, Layout::Bits) { Packing::Bits } else { Packing::Bytes },
        row_stride: row_stride as isize,
        col_stride: col_stride as isize,
        batch_stride: batch_stride as isize,
    };
    (operand, len)
}

/// Elements of a type as small multiples of 1/4, or small integers, whose products and sums are exact in f32.
fn fill(dtype: DType, count: usize, seed: u32) -> (Vec<u8>, Vec<f64>) {
    let mut state = seed.wrapping_mul(2654435761) | 1;
    let mut bytes = Vec::new();
    let mut values = Vec::new();
    for _ in 0..count {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let small = (state >> 24) as i32 % 17 - 8;
        let quarter = f64::from(small) / 4.0;
        match dtype {
            DType::F32 => bytes.extend((quarter as f32).to_ne_bytes()),
            DType::F64 => bytes.extend(quarter.to_ne_bytes()),
            DType::BF16 => bytes.extend(pack::bf16_bits(quarter as f32).to_ne_bytes()),
            DType::F16 => bytes.extend(pack::f16_bits(quarter as f32).to_ne_bytes()),
            DType::I32 => bytes.extend(small.to_ne_bytes()),
            DType::I8 => bytes.push((state >> 24) as u8),
            DType::U8 => bytes.push((state >> 24) as u8),
            DType::I4 => bytes.push(((state >> 24) as u8 as i8 >> 4) as u8),
            DType::I2 => bytes.push(((state >> 24) as u8 as i8 >> 6) as u8),
            DType::U4 => bytes.push((state >> 28) as u8),
            DType::U2 => bytes.push((state >> 30) as u8),
            other => bytes.push(tensor::encode_float(other, quarter).expect("an 8-bit float") as u8),
        }
        values.push(match dtype {
            DType::I32 => f64::from(small),
            DType::I8 => f64::from((state >> 24) as u8 as i8),
            DType::U8 => f64::from((state >> 24) as u8),
            DType::I4 | DType::I2 => f64::from(bytes[bytes.len() - 1] as i8),
            DType::U4 | DType::U2 => f64::from(bytes[bytes.len() - 1]),
            _ => quarter,
        });
    }
    (bytes, values)
}

fn read(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let word = |b: &[u8]| u16::from_ne_bytes([b[0], b[1]]);
    let quad = |b: &[u8]| [b[0], b[1], b[2], b[3]];
    match dtype {
        DType::F32 => bytes.chunks(4).map(|b| f64::from(f32::from_ne_bytes(quad(b)))).collect(),
        DType::F64 => bytes.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().expect("8 bytes"))).collect(),
        DType::I32 => bytes.chunks(4).map(|b| f64::from(i32::from_ne_bytes(quad(b)))).collect(),
        DType::BF16 => bytes.chunks(2).map(|b| f64::from(f32::from_bits(u32::from(word(b)) << 16))).collect(),
        DType::F16 => bytes.chunks(2).map(|b| f64::from(pack::Source::packed(pack::F16(word(b))))).collect(),
        other => panic!("no results of {other:?}"),
    }
}

/// One matmul of the tests.
#[derive(Clone, Copy, Debug)]
struct Case {
    types: [DType; 3],
    layouts: [Layout; 2],
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

/// Bytes in memory that begins `skew` bytes after a line's start, and where that is.
fn placed(bytes: &[u8], skew: usize) -> (Vec<u8>, usize) {
    let mut memory = vec![0; bytes.len() + 128];
    let start = memory.as_ptr().align_offset(64) + skew;
    memory[start..start + bytes.len()].copy_from_slice(bytes);
    (memory, start)
}

/// Runs a case on every machine, with one thread and with three, whole and by rows, packed and not.
fn check(case: Case) {
    check_placed(case, 0);
}

/// As [`check`], the left matrices `skew` bytes after a line's start.
fn check_placed(case: Case, skew: usize) {
    let Case { types: [lhs_type, rhs_type, out_type], layouts, batch, m, n, k } = case;
    let (lhs, lhs_len) = operand(lhs_type, layouts[0], m, k);
    let (rhs, rhs_len) = operand(rhs_type, layouts[1], k, n);
    let count = |operand: &Operand, len: usize| if operand.batch_stride == 0 { len } else { len * batch };
    let (a, a_values) = fill(lhs_type, count(&lhs, lhs_len), 1);
    let (a, a_start) = placed(&a, skew);
    let a = &a[a_start..];
    let (mut b, b_values) = fill(rhs_type, count(&rhs, rhs_len), 2);
    if rhs.packing == Packing::Bits {
        let bits = rhs_type.bits();
        let pack = |group: &[u8]| {
            let join = |(n, &byte): (usize, &u8)| (byte & ((1 << bits) - 1)) << (n as u32 * bits);
            group.iter().enumerate().map(join).fold(0, |a, b| a | b)
        };
        b = b.chunks(8 / bits as usize).map(pack).collect();
    }
    // Columns beyond the result must stay untouched.
    let row = n + 3;
    let out = Target { dtype: out_type, row_stride: row as isize, batch_stride: (m * row) as isize };
    let mut expected = vec![-7.0; batch * m * row];
    let at = |operand: &Operand, b: usize, i: usize, j: usize| {
        (b as isize * operand.batch_stride + i as isize * operand.row_stride + j as isize * operand.col_stride) as usize
    };
    for b in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let sum = (0..k).map(|p| a_values[at(&lhs, b, i, p)] * b_values[at(&rhs, b, p, j)]).sum::<f64>();
                expected[(b * m + i) * row + j] = match out_type {
                    DType::BF16 => f64::from(f32::from_bits(u32::from(pack::bf16_bits(sum as f32)) << 16)),
                    DType::F16 => f64::from(pack::Source::packed(pack::F16(pack::f16_bits(sum as f32)))),
                    _ => sum,
                };
            }
        }
    }
    let untouched: Vec<u8> = match out_type {
        DType::F32 => (-7f32).to_ne_bytes().to_vec(),
        DType::F64 => (-7f64).to_ne_bytes().to_vec(),
        DType::I32 => (-7i32).to_ne_bytes().to_vec(),
        DType::BF16 => pack::bf16_bits(-7.0).to_ne_bytes().to_vec(),
        _ => pack::f16_bits(-7.0).to_ne_bytes().to_vec(),
    };
    let problem = MatMul { batch, m, n, k, lhs, rhs, out };
    for machine in machines() {
        let plan = problem.clone().plan(&machine);
        // SAFETY: the right matrices are as the problem says.
        let packed = unsafe { plan.pack_rhs(b.as_ptr()) };
        for threads in [1, 3] {
            let cores = Cores { machine, pool: Pool::new(threads) };
            for packed in [None, Some(&packed)] {
                let mut result = untouched.repeat(batch * m * row);
                let seen = Mutex::new(vec![0u8; batch * m * n]);
                let finish = |_: usize, b: usize, rows: Range<usize>, cols: Range<usize>| {
                    let mut seen = seen.lock().expect("no panic inside");
                    for i in rows {
                        for j in cols.clone() {
                            seen[(b * m + i) * n + j] += 1;
                        }
                    }
                };
                // SAFETY: the buffers are as the problem says.
                unsafe { plan.run(a.as_ptr(), b.as_ptr(), result.as_mut_ptr(), packed, Some(&finish), &cores) };
                assert!(read(out_type, &result) == expected, "{case:?} on {machine:?}, {threads} threads, {plan:?}");
                assert!(seen.into_inner().expect("no panic inside").iter().all(|&n| n == 1), "blocks of {case:?}");
            }
        }
        let mut result = untouched.repeat(batch * m * row);
        for b_index in 0..batch {
            let first_rows = m / 3;
            for rows in [0..first_rows, first_rows..m] {
                let lhs_at = at(&problem.lhs, b_index, rows.start, 0) * lhs_type.size_bytes();
                let rhs_at = problem.rhs.bytes(at(&problem.rhs, b_index, 0, 0) as isize) as usize;
                let out_at = (b_index * m + rows.start) * row * out_type.size_bytes();
                // SAFETY: the addresses are of the first rows of the part.
                unsafe {
                    plan.run_rows(
                        rows.len(),
                        a.as_ptr().wrapping_add(lhs_at),
                        b.as_ptr().wrapping_add(rhs_at),
                        result.as_mut_ptr().wrapping_add(out_at),
                        (b_index % 2 == 0).then_some((&packed, b_index)),
                    );
                }
            }
        }
        assert!(read(out_type, &result) == expected, "rows of {case:?} on {machine:?}");
    }
}

const F32: [DType; 3] = [DType::F32; 3];
const TYPES: [[DType; 3]; 20] = [
    F32,
    [DType::F64; 3],
    [DType::BF16; 3],
    [DType::BF16, DType::BF16, DType::F32],
    [DType::F16; 3],
    [DType::F16, DType::F16, DType::F32],
    [DType::I8, DType::I8, DType::I32],
    [DType::U8, DType::U8, DType::I32],
    [DType::U8, DType::I8, DType::I32],
    [DType::I8, DType::U8, DType::I32],
    [DType::I32; 3],
    [DType::I4, DType::U4, DType::I32],
    [DType::U8, DType::I2, DType::I32],
    [DType::F32, DType::I8, DType::F32],
    [DType::BF16, DType::I8, DType::BF16],
    [DType::BF16, DType::U8, DType::F32],
    [DType::F16, DType::I4, DType::F16],
    [DType::F32, DType::U2, DType::BF16],
    [DType::F32, DType::F8E4M3FN, DType::F32],
    [DType::BF16, DType::F8E5M2, DType::F32],
];

#[test]
fn every_type_and_layout() {
    use Layout::*;
    for types in TYPES {
        for layouts in
            [[Rows, Rows], [Rows, Columns], [Columns, Rows], [Columns, Columns], [Sparse, Sparse], [Shared, Shared]]
        {
            check(Case { types, layouts, batch: 2, m: 37, n: 41, k: 35 });
        }
    }
}

#[test]
fn sizes() {
    use Layout::*;
    let sizes = [
        (1, 1, 1),
        (1, 70, 33),
        (2, 16, 40),
        (3, 100, 17),
        (5, 33, 64),
        (8, 64, 7),
        (13, 31, 300),
        (14, 32, 16),
        (15, 33, 17),
        (40, 1, 20),
        (4, 130, 21),
        (50, 3, 35),
        (70, 5, 100),
        (65, 130, 0),
    ];
    for types in TYPES {
        for (m, n, k) in sizes {
            check(Case { types, layouts: [Rows, Rows], batch: 1, m, n, k });
            check(Case { types, layouts: [Rows, Columns], batch: 1, m, n, k });
        }
    }
    for (m, n, k) in [(0, 4, 4), (4, 0, 4)] {
        check(Case { types: F32, layouts: [Rows, Rows], batch: 2, m, n, k });
    }
    check(Case { types: F32, layouts: [Rows, Rows], batch: 0, m: 3, n: 3, k: 3 });
}

#[test]
fn large_enough_to_be_cut() {
    use Layout::*;
    for types in [F32, [DType::BF16; 3], [DType::I8, DType::I8, DType::I32], [DType::F64; 3]] {
        check(Case { types, layouts: [Columns, Rows], batch: 1, m: 300, n: 70, k: 90 });
        check(Case { types, layouts: [Rows, Columns], batch: 1, m: 20, n: 50, k: 1700 });
    }
    check(Case { types: F32, layouts: [Rows, Rows], batch: 9, m: 30, n: 40, k: 50 });
}

#[test]
fn rows_that_do_not_all_stay_near_meet_columns_in_groups() {
    use Layout::*;
    let bf16 = [DType::BF16; 3];
    check(Case { types: bf16, layouts: [Rows, Columns], batch: 1, m: 66, n: 270, k: 5504 });
    check(Case {
        types: [DType::BF16, DType::BF16, DType::F32],
        layouts: [Rows, Rows],
        batch: 1,
        m: 66,
        n: 40,
        k: 5504,
    });
    // More rows than one task has.
    check(Case { types: bf16, layouts: [Rows, Columns], batch: 1, m: 700, n: 40, k: 1600 });
}

#[test]
fn left_rows_of_whole_lines_on_and_off_a_line() {
    use Layout::*;
    for types in [[DType::BF16; 3], [DType::BF16, DType::BF16, DType::F32], [DType::I8, DType::I8, DType::I32], F32] {
        for (m, n, k) in [(32, 32, 64), (71, 96, 128), (300, 70, 1216), (31, 512, 64), (64, 513, 192), (96, 33, 65)] {
            for skew in [0, 8] {
                check_placed(Case { types, layouts: [Rows, Rows], batch: 1, m, n, k }, skew);
            }
        }
        check(Case { types, layouts: [Shared, Columns], batch: 3, m: 65, n: 40, k: 128 });
    }
}

#[test]
fn a_few_vectors_cut_by_steps_and_by_outputs() {
    use Layout::*;
    for types in [F32, [DType::BF16; 3], [DType::BF16, DType::BF16, DType::F32], [DType::F16; 3]] {
        for m in 1..=4 {
            check(Case { types, layouts: [Rows, Rows], batch: 1, m, n: 1001, k: 331 });
            check(Case { types, layouts: [Rows, Columns], batch: 1, m, n: 1001, k: 331 });
        }
        check(Case { types, layouts: [Columns, Rows], batch: 1, m: 2, n: 12_300, k: 19 });
    }
}

#[test]
fn a_few_rows_meet_a_large_matrix() {
    use Layout::*;
    for types in [[DType::BF16, DType::BF16, DType::F32], [DType::BF16, DType::I8, DType::BF16]] {
        for (m, n, k) in [(5, 801, 333), (17, 777, 352)] {
            check(Case { types, layouts: [Rows, Rows], batch: 1, m, n, k });
            check(Case { types, layouts: [Rows, Columns], batch: 1, m, n, k });
        }
    }
    check(Case {
        types: [DType::BF16, DType::I4, DType::F32],
        layouts: [Columns, Bits],
        batch: 1,
        m: 9,
        n: 2100,
        k: 330,
    });
}

#[test]
fn packed_bits_on_the_right() {
    use Layout::*;
    let types = [
        [DType::F32, DType::I4, DType::F32],
        [DType::BF16, DType::I4, DType::BF16],
        [DType::BF16, DType::U4, DType::F32],
        [DType::F32, DType::I2, DType::F32],
        [DType::F16, DType::U2, DType::F16],
        [DType::I8, DType::I4, DType::I32],
        [DType::U8, DType::U2, DType::I32],
    ];
    for types in types {
        for m in [1, 2, 3, 4, 7, 33] {
            check(Case { types, layouts: [Rows, Bits], batch: 2, m, n: 301, k: 71 });
            check(Case { types, layouts: [Columns, Bits], batch: 1, m, n: 9, k: 40 });
        }
        check(Case { types, layouts: [Rows, Bits], batch: 1, m: 1, n: 5000, k: 150 });
        check(Case { types, layouts: [Rows, Bits], batch: 1, m: 3, n: 128, k: 1500 });
    }
}

#[test]
fn eight_bit_floats_have_all_their_values() {
    for dtype in [DType::F8E4M3FN, DType::F8E5M2] {
        let bytes: Vec<u8> = (0..=255).collect();
        let one = 1f32.to_ne_bytes();
        for machine in machines() {
            let problem = MatMul {
                batch: 1,
                m: 1,
                n: 256,
                k: 1,
                lhs: operand(DType::F32, Layout::Rows, 1, 1).0,
                rhs: operand(dtype, Layout::Rows, 1, 256).0,
                out: Target { dtype: DType::F32, row_stride: 256, batch_stride: 256 },
            };
            let mut result = vec![0u8; 256 * 4];
            let cores = Cores { machine, pool: Pool::new(1) };
            let plan = problem.plan(&machine);
            // SAFETY: the buffers are as the problem says.
            unsafe { plan.run(one.as_ptr(), bytes.as_ptr(), result.as_mut_ptr(), None, None, &cores) };
            for (bits, value) in read(DType::F32, &result).into_iter().enumerate() {
                let expected = tensor::decode_float(dtype, bits as u64).expect("an 8-bit float");
                assert!(value == expected || value.is_nan() && expected.is_nan(), "{dtype} {bits:#x}: {value}");
            }
        }
    }
}

#[test]
fn bytes_of_every_sign_with_steps_left_over() {
    use Layout::*;
    for lhs in [DType::I8, DType::U8] {
        for rhs in [DType::I8, DType::U8] {
            for (m, n, k) in [(4, 8, 1), (5, 16, 17), (7, 24, 31), (9, 29, 512), (3, 8, 1030)] {
                for layouts in [[Rows, Rows], [Rows, Columns], [Columns, Rows]] {
                    check(Case { types: [lhs, rhs, DType::I32], layouts, batch: 1, m, n, k });
                }
            }
        }
    }
}

#[test]
fn far_right_matrices_are_fetched_ahead() {
    use Layout::*;
    for types in [F32, [DType::F64; 3]] {
        check(Case { types, layouts: [Rows, Rows], batch: 1, m: 20, n: 600, k: 600 });
    }
    check(Case { types: F32, layouts: [Rows, Columns], batch: 1, m: 9, n: 530, k: 601 });
    check(Case { types: [DType::BF16; 3], layouts: [Rows, Rows], batch: 1, m: 33, n: 1030, k: 600 });
    check(Case { types: [DType::I8, DType::I8, DType::I32], layouts: [Rows, Rows], batch: 1, m: 9, n: 1100, k: 1100 });
}

#[test]
fn conversions_round_to_nearest_even() {
    for (value, bf16, f16) in [
        (1.0f32, 0x3f80u16, 0x3c00u16),
        (-0.0, 0x8000, 0x8000),
        (65520.0, 0x4780, 0x7c00),
        (65519.0, 0x4780, 0x7bff),
        (f32::INFINITY, 0x7f80, 0x7c00),
        (5.9604645e-8, 0x3380, 0x0001),
        (2.980_232_2e-8, 0x3300, 0x0000),
        (6.1035156e-5, 0x3880, 0x0400),
        (1.0 + 1.0 / 256.0, 0x3f80, 0x3c04),
    ] {
        assert_eq!(pack::bf16_bits(value), bf16, "{value}");
        assert_eq!(pack::f16_bits(value), f16, "{value}");
    }
    assert!(pack::bf16_bits(f32::NAN) & 0x7fff > 0x7f80);
    assert!(pack::f16_bits(f32::NAN) & 0x7fff > 0x7c00);
}
