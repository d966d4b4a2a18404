//! Linear algebra and Fourier transforms, with their derivatives.

use std::panic::Location;

use hlo::{Attr, Attrs, Keyword, OpKind};
use tensor::DType;

use crate::error::misuse;
use crate::ops::contract::{Contraction, Precision};
use crate::ops::shape::usizes;
use crate::ops::{attrs, i64s, op};
use crate::tensor::Tensor;

/// Which Fourier transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fourier {
    /// Complex to complex.
    Forward,
    /// Complex to complex, back, divided by the number of elements.
    Inverse,
    /// Real to the half of the complex result that determines the rest.
    RealForward,
    /// Back from that half to real.
    RealInverse,
}

/// Which side of the matmul the triangular matrix stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `a x = b`.
    Left,
    /// `x a = b`.
    Right,
}

/// Which triangle of a matrix counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Triangle {
    /// On and below the diagonal.
    Lower,
    /// On and above the diagonal.
    Upper,
}

/// How a triangular system is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Triangular {
    /// Where the matrix stands.
    pub side: Side,
    /// Which triangle of it is read.
    pub triangle: Triangle,
    /// Whether it is transposed.
    pub is_transposed: bool,
    /// Whether its diagonal counts as ones.
    pub has_unit_diagonal: bool,
}

impl Triangular {
    /// A matrix on the left, as it is.
    pub fn left(triangle: Triangle) -> Triangular {
        Triangular { side: Side::Left, triangle, is_transposed: false, has_unit_diagonal: false }
    }

    /// A matrix on the right, as it is.
    pub fn right(triangle: Triangle) -> Triangular {
        Triangular { side: Side::Right, ..Triangular::left(triangle) }
    }

    /// Transposed.
    #[must_use]
    pub fn transposed(self) -> Triangular {
        Triangular { is_transposed: !self.is_transposed, ..self }
    }

    /// With ones on the diagonal, whatever is there.
    #[must_use]
    pub fn unit_diagonal(self) -> Triangular {
        Triangular { has_unit_diagonal: true, ..self }
    }
}

impl Tensor {
    /// Fourier transform over the last axes, up to three, of these lengths.
    #[track_caller]
    #[must_use]
    pub fn fft(&self, fourier: Fourier, lengths: &[usize]) -> Tensor {
        let keyword = match fourier {
            Fourier::Forward => Keyword::Fft,
            Fourier::Inverse => Keyword::Ifft,
            Fourier::RealForward => Keyword::Rfft,
            Fourier::RealInverse => Keyword::Irfft,
        };
        op(OpKind::Fft, &[self], attrs([("fft_type", Attr::Keyword(keyword)), ("fft_length", i64s(lengths))]))
    }

    /// The lower triangular `l` with `l lᴴ` equal to this, Hermitian and positive definite; of each matrix of a batch.
    /// The mean of this and its conjugate transpose is what is read.
    #[track_caller]
    #[must_use]
    pub fn cholesky(&self) -> Tensor {
        if self.rank() < 2 || self.dim(-1) != self.dim(-2) {
            misuse(Location::caller(), format!("cholesky of {}: it needs square matrices", self.spec()));
        }
        let symmetric = &(self + &conjugate(&self.swap_axes(-1, -2))) * 0.5;
        // What stands above the diagonal is not specified.
        op(OpKind::Cholesky, &[&symmetric], attrs([("lower", Attr::Bool(true))])).lower_triangle(0)
    }

    /// Solves `a x = b`, or what `how` says, with this as the triangular matrix `a`.
    #[track_caller]
    #[must_use]
    pub fn triangular_solve(&self, b: &Tensor, how: Triangular) -> Tensor {
        let transpose = if how.is_transposed { Keyword::Transposed } else { Keyword::NoTranspose };
        let attrs = attrs([
            ("left_side", Attr::Bool(how.side == Side::Left)),
            ("lower", Attr::Bool(how.triangle == Triangle::Lower)),
            ("unit_diagonal", Attr::Bool(how.has_unit_diagonal)),
            ("transpose_a", Attr::Keyword(transpose)),
        ]);
        op(OpKind::TriangularSolve, &[self, b], attrs)
    }

    /// Rounded to a float of fewer bits, in the same type.
    #[track_caller]
    #[must_use]
    pub fn reduce_precision(&self, exponent_bits: u32, mantissa_bits: u32) -> Tensor {
        let attrs = attrs([
            ("exponent_bits", Attr::i32(exponent_bits as i32)),
            ("mantissa_bits", Attr::i32(mantissa_bits as i32)),
        ]);
        op(OpKind::ReducePrecision, &[self], attrs)
    }
}

/// Matmul of the last two axes of batches, as exact as the type.
fn matmul(lhs: &Tensor, rhs: &Tensor) -> Tensor {
    let batch: Vec<usize> = (0..lhs.rank() - 2).collect();
    let last = lhs.rank() - 1;
    let contraction =
        Contraction { lhs_batch: batch.clone(), rhs_batch: batch, lhs_sum: vec![last], rhs_sum: vec![last - 1] };
    lhs.dot_general(rhs, &contraction, lhs.dtype(), Precision::Highest)
}

fn turned(matrix: &Tensor) -> Tensor {
    matrix.swap_axes(-1, -2)
}

/// The conjugate; real numbers are their own.
fn conjugate(matrix: &Tensor) -> Tensor {
    if matrix.dtype().is_complex() { matrix.conj() } else { matrix.clone() }
}

/// The lower triangle with half the diagonal: what of a change of the matrix is a change of the factor.
fn lower_half(matrix: &Tensor) -> Tensor {
    let below = matrix.lower_triangle(-1);
    &(&matrix.lower_triangle(0) + &below) * 0.5
}

/// A node's triangular system.
fn triangular_of(attrs: &Attrs) -> Triangular {
    let is_set = |name: &str| matches!(attrs.get(name), Some(Attr::Bool(true)));
    Triangular {
        side: if is_set("left_side") { Side::Left } else { Side::Right },
        triangle: if is_set("lower") { Triangle::Lower } else { Triangle::Upper },
        is_transposed: matches!(attrs.get("transpose_a"), Some(Attr::Keyword(Keyword::Transposed))),
        has_unit_diagonal: is_set("unit_diagonal"),
    }
}

/// What of a matrix a triangular system reads.
fn read_part(how: Triangular, a: &Tensor) -> Tensor {
    let offset = if how.has_unit_diagonal { -1 } else { 0 };
    match how.triangle {
        Triangle::Lower => a.lower_triangle(offset),
        Triangle::Upper => turned(&turned(a).lower_triangle(offset)),
    }
}

/// The transform of a node.
fn fourier_of(attrs: &Attrs) -> Fourier {
    match attrs.get("fft_type") {
        Some(Attr::Keyword(Keyword::Ifft)) => Fourier::Inverse,
        Some(Attr::Keyword(Keyword::Rfft)) => Fourier::RealForward,
        Some(Attr::Keyword(Keyword::Irfft)) => Fourier::RealInverse,
        _ => Fourier::Forward,
    }
}

/// The cotangent of operand `n`.
pub(crate) fn transposed(
    kind: OpKind,
    attrs: &Attrs,
    (ins, out): (&[Tensor], &Tensor),
    n: usize,
    ct: &Tensor,
) -> Option<Tensor> {
    Some(match kind {
        OpKind::Fft => {
            let lengths = usizes(attrs, "fft_length");
            let last = *lengths.last()?;
            match fourier_of(attrs) {
                // The matrix of the transform is symmetric.
                whole @ (Fourier::Forward | Fourier::Inverse) => ct.fft(whole, &lengths),
                Fourier::RealForward => {
                    let missing = last - ct.dim(-1);
                    ct.pad(-1, 0, missing).fft(Fourier::Forward, &lengths).real()
                }
                Fourier::RealInverse => {
                    let half = ct.fft(Fourier::RealForward, &lengths);
                    // All but the ends stand for two elements of the whole.
                    let size = half.dim(-1);
                    let position = Tensor::iota(DType::I32, half.dims(), half.rank() - 1);
                    let is_end = position.equals(&position.scalar_like(0.0));
                    let is_end = if last.is_multiple_of(2) {
                        is_end.or(&position.equals(&position.scalar_like(size as f64 - 1.0)))
                    } else {
                        is_end
                    };
                    let count: usize = lengths.iter().product();
                    let one = ct.scalar_like(1.0 / count as f64);
                    let scale = is_end.select(&one, &(&one * 2.0));
                    (&half.real() * &scale).complex(&(&half.imag() * &scale).negate())
                }
            }
        }
        OpKind::Cholesky => {
            // Backward through `dl = l half(l⁻¹ da l⁻ᴴ)`. By JAX's convention cotangents are not conjugated, so that of
            // all factors only `l⁻ᴴ` comes back as a conjugate.
            let l = out.lower_triangle(0);
            let inner = lower_half(&matmul(&turned(&l), ct));
            let lower = Triangle::Lower;
            let left = l.triangular_solve(&inner, Triangular::left(lower).transposed());
            conjugate(&l).triangular_solve(&left, Triangular::right(lower))
        }
        OpKind::TriangularSolve => {
            let how = triangular_of(attrs);
            let of_b = ins[0].triangular_solve(ct, how.transposed());
            if n == 1 {
                return Some(of_b);
            }
            let (of_b, x) = (of_b.negate(), turned(out));
            let whole = if how.side == Side::Left { matmul(&of_b, &x) } else { matmul(&x, &of_b) };
            read_part(how, &if how.is_transposed { turned(&whole) } else { whole })
        }
        _ => return None,
    })
}

/// The tangent of the result.
pub(crate) fn pushed(
    kind: OpKind,
    attrs: &Attrs,
    (ins, out): (&[Tensor], &Tensor),
    tangents: &[Option<Tensor>],
) -> Option<Tensor> {
    match kind {
        OpKind::Fft => Some(tangents[0].as_ref()?.fft(fourier_of(attrs), &usizes(attrs, "fft_length"))),
        OpKind::Cholesky => {
            let l = out.lower_triangle(0);
            let lower = Triangle::Lower;
            let adjoint = Triangular::right(lower).transposed();
            let right = conjugate(&l).triangular_solve(tangents[0].as_ref()?, adjoint);
            let both = l.triangular_solve(&right, Triangular::left(lower));
            Some(matmul(&l, &lower_half(&both)))
        }
        OpKind::TriangularSolve => {
            let how = triangular_of(attrs);
            let of_a = tangents[0].as_ref().map(|tangent| {
                let part = read_part(how, tangent);
                let part = if how.is_transposed { turned(&part) } else { part };
                if how.side == Side::Left { matmul(&part, out) } else { matmul(out, &part) }
            });
            let change = match (of_a, &tangents[1]) {
                (Some(of_a), Some(of_b)) => of_b - &of_a,
                (Some(of_a), None) => of_a.negate(),
                (None, Some(of_b)) => of_b.clone(),
                (None, None) => return None,
            };
            Some(ins[0].triangular_solve(&change, how))
        }
        _ => None,
    }
}
