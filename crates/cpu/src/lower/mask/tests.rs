//! Runs of masks against every element of them.

use super::*;

const ROWS: usize = 7;
const COLUMNS: usize = 9;

const ROW: Inst = Inst::Index { lane: Lane::I32, dim: 1 };
const COLUMN: Inst = Inst::Index { lane: Lane::I32, dim: 2 };

fn whole(value: i32) -> Inst {
    Inst::Const { lane: Lane::I32, bits: u64::from(value as u32) }
}

/// The mask of the last instruction is what `wanted` says of each row and column; `None` where no run is known.
fn check(insts: &[Inst], wanted: Option<&dyn Fn(i64, i64) -> bool>) {
    let code = Loop { dims: vec![2, ROWS, COLUMNS], reads: Vec::new(), insts: insts.to_vec(), writes: Vec::new() };
    let value = Reg(insts.len() as u32 - 1);
    let runs = Mask { code: &code, value, arrays: &|n| (n == 0).then(|| vec![2..5; ROWS]) }.runs();
    let Some(wanted) = wanted else { return assert_eq!(runs, None, "{insts:?}") };
    let runs = runs.unwrap_or_else(|| panic!("no runs of {insts:?}"));
    assert_eq!(runs.len(), ROWS);
    for (row, run) in runs.iter().enumerate() {
        for column in 0..COLUMNS {
            let seen = wanted(row as i64, column as i64);
            assert_eq!(run.contains(&(column as u32)), seen, "{insts:?} at {row}, {column}");
        }
    }
}

#[test]
fn comparisons_of_positions() {
    type Meaning = fn(i64, i64) -> bool;
    let meanings: [(Compare, Meaning); 5] = [
        (Compare::Eq, |a, b| a == b),
        (Compare::Lt, |a, b| a < b),
        (Compare::Le, |a, b| a <= b),
        (Compare::Gt, |a, b| a > b),
        (Compare::Ge, |a, b| a >= b),
    ];
    for (op, meaning) in meanings {
        for shift in [-20, -3, 0, 1, 4, 20] {
            let shifted = [ROW, COLUMN, whole(shift as i32), Inst::Binary(Binary::Add, Reg(0), Reg(2))];
            let forward = [&shifted[..], &[Inst::Compare(op, Reg(3), Reg(1))]].concat();
            check(&forward, Some(&|row, column| meaning(row + shift, column)));
            let back = [&shifted[..], &[Inst::Compare(op, Reg(1), Reg(3))]].concat();
            check(&back, Some(&|row, column| meaning(column, row + shift)));
            let rows_only = [&shifted[..], &[Inst::Compare(op, Reg(3), Reg(2))]].concat();
            check(&rows_only, Some(&|row, _| meaning(row + shift, shift)));
        }
    }
}

#[test]
fn masks_of_masks() {
    let causal = [ROW, COLUMN, Inst::Compare(Compare::Ge, Reg(0), Reg(1))];
    let window = [
        &causal[..],
        &[
            whole(3),
            Inst::Binary(Binary::Sub, Reg(0), Reg(3)),
            Inst::Compare(Compare::Lt, Reg(4), Reg(1)),
            Inst::Binary(Binary::And, Reg(2), Reg(5)),
        ],
    ]
    .concat();
    check(&window, Some(&|row, column| row >= column && row - 3 < column));
    let not = [&window[..], &[Inst::Unary(Unary::Not, Reg(6))]].concat();
    check(&not, None);
    let twice = [&not[..], &[Inst::Unary(Unary::Not, Reg(7))]].concat();
    check(&twice, Some(&|row, column| row >= column && row - 3 < column));
    let (yes, no) = (Inst::Const { lane: Lane::Mask, bits: 1 }, Inst::Const { lane: Lane::Mask, bits: 0 });
    let chosen = [&causal[..], &[yes, no, Inst::Select(Reg(2), Reg(3), Reg(4))]].concat();
    check(&chosen, Some(&|row, column| row >= column));
    let other = [&causal[..], &[yes, no, Inst::Select(Reg(2), Reg(4), Reg(3))]].concat();
    check(&other, Some(&|row, column| row < column));
    // The first columns are open to all.
    let prefix = [
        &causal[..],
        &[whole(4), Inst::Compare(Compare::Lt, Reg(1), Reg(3)), Inst::Binary(Binary::Or, Reg(2), Reg(4))],
    ]
    .concat();
    check(&prefix, Some(&|row, column| row >= column || column < 4));
    let array = [&causal[..], &[Inst::Load(0), Inst::Binary(Binary::And, Reg(2), Reg(3))]].concat();
    check(&array, Some(&|row, column| row >= column && (2..5).contains(&column)));
    check(&[Inst::Load(1)], None);
    check(
        &[COLUMN, COLUMN, Inst::Binary(Binary::Mul, Reg(0), Reg(1)), Inst::Compare(Compare::Lt, Reg(2), Reg(0))],
        None,
    );
}

#[test]
fn numbers_that_wrap_are_left_alone() {
    let low = whole(i32::MIN);
    check(&[ROW, low, Inst::Binary(Binary::Sub, Reg(0), Reg(1)), Inst::Compare(Compare::Lt, Reg(2), Reg(0))], None);
    let below = [ROW, COLUMN, Inst::Binary(Binary::Sub, Reg(0), Reg(1)), Inst::Compare(Compare::GeU, Reg(2), Reg(0))];
    check(&below, None);
    let narrow = Inst::Convert { value: Reg(0), source: DType::I32, target: DType::I8 };
    check(&[COLUMN, narrow, Inst::Compare(Compare::Lt, Reg(0), Reg(1))], None);
}

#[test]
fn bytes() {
    let check = |bytes: &[u8], wanted: Option<&[Run]>| {
        assert_eq!(runs_of(bytes, bytes.len() / 3, 3, |&byte| byte != 0).as_deref(), wanted);
    };
    check(&[1, 0, 0, 1, 1, 0, 1, 1, 1], Some(&[0..1, 0..2, 0..3]));
    check(&[0, 0, 0, 0, 1, 1], Some(&[0..0, 1..3]));
    check(&[1, 0, 1], None);
    assert_eq!(runs_of(&[1; 5], 2, 3, |&byte| byte != 0), None);
}
