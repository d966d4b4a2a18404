//! Regions of scalar ops as functions of scalars: folds, orders, the search for an extreme, and programs for the rest.

use std::collections::HashMap;

use hlo::{Definition, Func, OpKind, Region, Value};
use tensor::DType;

use crate::kernels::loops::ir::{Fold, Inst, Lane, Reg};
use crate::kernels::scalar::{self, Combine, Program};

mod emit;
mod extreme;
mod order;

pub(crate) use emit::emit;
pub(crate) use extreme::arg_extreme;
pub(crate) use order::comparator;

/// Instructions a region may need; larger ones are left to the interpreter.
const MAX_INSTS: usize = 4096;

/// The plain element type of a value.
pub(crate) fn dtype(func: &Func, value: Value) -> Option<DType> {
    func.ty(value).as_tensor()?.element.plain()
}

/// What a region that reduces two values to one computes, if it is one commutative op on its two arguments.
pub(crate) fn simple_fold(func: &Func, region: Region) -> Option<Fold> {
    let data = func.region(region);
    let ([only, end], [a, b]) = (&data.ops[..], &data.args[..]) else { return None };
    let (op, end) = (func.op(*only), func.op(*end));
    if end.operands != [op.first_result] || (op.operands != [*a, *b] && op.operands != [*b, *a]) {
        return None;
    }
    let dtype = dtype(func, op.first_result)?;
    if dtype.is_complex() || self::dtype(func, *a)? != dtype || self::dtype(func, *b)? != dtype {
        return None;
    }
    let unsigned = dtype.is_unsigned_integer();
    Some(match op.kind()? {
        OpKind::Add | OpKind::Maximum if dtype.is_bool() => Fold::Or,
        OpKind::Multiply | OpKind::Minimum if dtype.is_bool() => Fold::And,
        OpKind::Add => Fold::Sum,
        OpKind::Multiply => Fold::Product,
        OpKind::Maximum if unsigned => Fold::MaxU,
        OpKind::Maximum => Fold::Max,
        OpKind::Minimum if unsigned => Fold::MinU,
        OpKind::Minimum => Fold::Min,
        OpKind::And => Fold::And,
        OpKind::Or => Fold::Or,
        OpKind::Xor => Fold::Xor,
        _ => return None,
    })
}

/// A region over scalars as a program; `None` where it does more than this language says.
pub(crate) fn program(func: &Func, region: Region) -> Option<Program> {
    let data = func.region(region);
    let roots = &func.op(*data.ops.last()?).operands;
    expression(func, &data.args, roots)
}

/// A region that reduces two values to one.
pub(crate) fn combine(func: &Func, region: Region) -> Option<Combine> {
    match simple_fold(func, region) {
        Some(fold) => Some(Combine::Fold(fold)),
        None => program(func, region).map(Combine::Program),
    }
}

/// The values `roots` as functions of the values `arguments`; every other value they use is a constant.
fn expression(func: &Func, arguments: &[Value], roots: &[Value]) -> Option<Program> {
    let mut translation = Translation { func, insts: Insts::default(), known: HashMap::new() };
    for (n, &argument) in arguments.iter().enumerate() {
        translation.known.insert(argument, Known::Argument(n as u32));
    }
    let results = roots
        .iter()
        .map(|&root| Some((dtype(func, root)?, translation.value(root)?)))
        .collect::<Option<Vec<(DType, Reg)>>>()?;
    let types = arguments.iter().map(|&argument| dtype(func, argument)).collect::<Option<Vec<_>>>()?;
    Program::new(types, translation.insts.list, results)
}

/// Instructions in which nothing is computed twice.
#[derive(Default)]
struct Insts {
    list: Vec<Inst>,
    places: HashMap<Inst, Reg>,
}

impl Insts {
    fn push(&mut self, inst: Inst) -> Reg {
        *self.places.entry(inst).or_insert_with(|| {
            self.list.push(inst);
            Reg(self.list.len() as u32 - 1)
        })
    }
}

#[derive(Clone, Copy)]
enum Known {
    Argument(u32),
    Register(Reg),
}

struct Translation<'f> {
    func: &'f Func,
    insts: Insts,
    known: HashMap<Value, Known>,
}

impl Translation<'_> {
    /// The register of a value, operands before their users. A stack of its own: regions of hostile programs are deep.
    fn value(&mut self, root: Value) -> Option<Reg> {
        let mut pending = vec![root];
        while let Some(&value) = pending.last() {
            if self.register(value).is_some() {
                pending.pop();
                continue;
            }
            let Definition::Result(id, 0) = self.func.value(value).definition else { return None };
            let op = self.func.op(id);
            if self.func.ty(value).as_tensor()?.rank() != 0 || op.num_results != 1 || !op.regions.is_empty() {
                return None;
            }
            let unknown = op.operands.iter().rev().copied().filter(|&v| self.register(v).is_none());
            let unknown: Vec<Value> = unknown.collect();
            if !unknown.is_empty() {
                pending.extend(unknown);
                // A verified function defines values before their uses; the bound holds for one that does not.
                if pending.len() > MAX_INSTS {
                    return None;
                }
                continue;
            }
            let operands: Vec<Reg> = op.operands.iter().map(|&v| self.register(v)).collect::<Option<_>>()?;
            let reg = match op.kind()? {
                OpKind::Constant => {
                    let inst = constant(dtype(self.func, value)?, super::constant::splat(op)?)?;
                    self.insts.push(inst)
                }
                OpKind::Reshape | OpKind::BroadcastInDim => {
                    self.func.ty(op.operands[0]).as_tensor().filter(|ty| ty.rank() == 0)?;
                    operands[0]
                }
                _ => {
                    if op.operands.iter().any(|&v| self.func.ty(v).as_tensor().is_none_or(|ty| ty.rank() != 0)) {
                        return None;
                    }
                    emit(self.func, op, &operands, &mut |inst| self.insts.push(inst))?
                }
            };
            if self.insts.list.len() > MAX_INSTS {
                return None;
            }
            self.known.insert(value, Known::Register(reg));
            pending.pop();
        }
        self.register(root)
    }

    fn register(&mut self, value: Value) -> Option<Reg> {
        match *self.known.get(&value)? {
            Known::Register(reg) => Some(reg),
            Known::Argument(n) => Some(self.insts.push(Inst::Load(n))),
        }
    }
}

/// A constant given by the bytes of one element.
pub(crate) fn constant(dtype: DType, element: &[u8]) -> Option<Inst> {
    let lane = Lane::of(dtype)?;
    (element.len() == dtype.size_bytes()).then(|| Inst::Const { lane, bits: scalar::decode(dtype, element) })
}

#[cfg(test)]
mod tests;
