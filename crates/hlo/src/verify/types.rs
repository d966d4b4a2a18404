//! Types on their own: sizes, bounds and quantization.

use std::collections::HashMap;

use crate::ir::{DYNAMIC, ElementType, TensorType, Type};
use crate::ops::Violation;
use crate::ops::rules::{quantization, require, spelling};

/// More dimensions than any program has; keeps rules that compare dimensions pairwise cheap.
const MAX_RANK: usize = 256;

/// Parts of one type, nested tuples written out. Types that share parts can be exponentially larger than their text.
const MAX_PARTS: u64 = 1 << 16;

/// Sizes of types, each shared part measured once.
#[derive(Default)]
pub(super) struct Sizes(HashMap<*const Type, u64>);

impl Sizes {
    /// Whether the type, written out, is small enough to be looked at part by part.
    pub(super) fn is_small(&mut self, ty: &Type) -> bool {
        let Some(root) = parts(ty) else { return true };
        let mut pending = vec![root];
        while let Some(&types) = pending.last() {
            let before = pending.len();
            let mut size = 1u64;
            for inner in types.iter().filter_map(parts) {
                match self.0.get(&inner.as_ptr()) {
                    Some(&known) => size = size.saturating_add(known),
                    None => pending.push(inner),
                }
            }
            if pending.len() == before {
                self.0.insert(types.as_ptr(), size.saturating_add(types.len() as u64));
                pending.pop();
            }
        }
        self.0.get(&root.as_ptr()).is_none_or(|&size| size <= MAX_PARTS)
    }
}

fn parts(ty: &Type) -> Option<&[Type]> {
    match ty {
        Type::Tuple(types) | Type::Future(types) => Some(types),
        _ => None,
    }
}

/// A value's type is well formed.
pub(super) fn value(ty: &Type) -> Result<(), Violation> {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        match ty {
            Type::Tensor(ty) | Type::Buffer(ty) => tensor(ty)?,
            Type::Tuple(types) => pending.extend(types.iter()),
            Type::Future(types) => {
                for ty in types.iter() {
                    require!(ty.as_tensor().is_some(), "", "a future holds {}, a tensor expected", spelling::ty(ty));
                    pending.push(ty);
                }
            }
            Type::Opaque(text) => {
                require!(!text.starts_with("!stablehlo."), "", "{text} is not a type of StableHLO");
            }
            _ => {}
        }
    }
    Ok(())
}

fn tensor(ty: &TensorType) -> Result<(), Violation> {
    require!(ty.rank() <= MAX_RANK, "", "a tensor has {} dimensions, at most {MAX_RANK} expected", ty.rank());
    for (dim, &size) in ty.dims.iter().enumerate() {
        require!(size >= 0 || size == DYNAMIC, "", "dim {dim} of a tensor is {size}");
    }
    if let Some(bounds) = ty.bounds() {
        require!(bounds.len() == ty.rank(), "bounds", "{} bounds for a tensor of rank {}", bounds.len(), ty.rank());
        for (dim, (&bound, &size)) in bounds.iter().zip(&ty.dims).enumerate() {
            require!(bound >= 0 || bound == DYNAMIC, "bounds", "dim {dim} has bound {bound}");
            require!(
                bound == DYNAMIC || size == DYNAMIC,
                "bounds",
                "dim {dim} is {size} and cannot also have the bound {bound}"
            );
        }
    }
    require!(largest_bytes(ty, 0).is_some(), "", "the size of a tensor in bytes overflows 64 bits");
    quantization::well_formed(ty)
}

/// Bytes of the largest tensor of this type, unbounded dimensions counted as one, at least `floor` for each
/// dimension; `None` when it does not fit 63 bits.
pub(super) fn largest_bytes(ty: &TensorType, floor: i64) -> Option<i64> {
    let bits = match &ty.element {
        ElementType::Plain(dtype) => i64::from(dtype.bits()),
        ElementType::Quantized(q) => i64::from(q.storage.bits()),
        ElementType::Index => 64,
        ElementType::Tf32 => 32,
    };
    let sizes = ty.dims.iter().enumerate().map(|(dim, &size)| match size {
        DYNAMIC => match ty.bounds().and_then(|bounds| bounds.get(dim).copied()) {
            None | Some(DYNAMIC) => 1,
            Some(bound) => bound,
        },
        size => size,
    });
    if sizes.clone().any(|size| size == 0) && floor == 0 {
        return Some(0);
    }
    let elements = sizes.map(|size| size.max(floor)).try_fold(1i64, i64::checked_mul)?;
    elements.checked_mul(bits.max(8) / 8)
}
