//! CHLO ops: conveniences above StableHLO that front ends emit.

pub(super) mod acos;
pub(super) mod acosh;
pub(super) mod asin;
pub(super) mod asin_acos_kernel;
pub(super) mod asinh;
pub(super) mod atan;
pub(super) mod atanh;
pub(super) mod bessel_i1e;
pub(super) mod broadcast_add;
pub(super) mod broadcast_and;
pub(super) mod broadcast_atan2;
pub(super) mod broadcast_compare;
pub(super) mod broadcast_complex;
pub(super) mod broadcast_divide;
pub(super) mod broadcast_maximum;
pub(super) mod broadcast_minimum;
pub(super) mod broadcast_multiply;
pub(super) mod broadcast_next_after;
pub(super) mod broadcast_or;
pub(super) mod broadcast_polygamma;
pub(super) mod broadcast_power;
pub(super) mod broadcast_remainder;
pub(super) mod broadcast_select;
pub(super) mod broadcast_shift_left;
pub(super) mod broadcast_shift_right_arithmetic;
pub(super) mod broadcast_shift_right_logical;
pub(super) mod broadcast_subtract;
pub(super) mod broadcast_xor;
pub(super) mod broadcast_zeta;
pub(super) mod conj;
pub(super) mod constant;
pub(super) mod constant_like;
pub(super) mod cosh;
pub(super) mod digamma;
pub(super) mod erf;
pub(super) mod erf_inv;
pub(super) mod erfc;
pub(super) mod is_inf;
pub(super) mod is_neg_inf;
pub(super) mod is_pos_inf;
pub(super) mod lgamma;
pub(super) mod mulhi;
pub(super) mod next_after;
pub(super) mod polygamma;
pub(super) mod ragged_dot;
pub(super) mod scan;
pub(super) mod sinh;
pub(super) mod square;
pub(super) mod tan;
pub(super) mod top_k;
pub(super) mod zeta;

impl crate::ir::OpKind {
    /// The op that a broadcasting op (`chlo.broadcast_add`, …) applies once its operands have one shape.
    pub fn broadcasts(self) -> Option<Self> {
        use crate::ir::OpKind as K;
        Some(match self {
            K::ChloBroadcastAdd => K::Add,
            K::ChloBroadcastAnd => K::And,
            K::ChloBroadcastAtan2 => K::Atan2,
            K::ChloBroadcastCompare => K::Compare,
            K::ChloBroadcastComplex => K::Complex,
            K::ChloBroadcastDivide => K::Divide,
            K::ChloBroadcastMaximum => K::Maximum,
            K::ChloBroadcastMinimum => K::Minimum,
            K::ChloBroadcastMultiply => K::Multiply,
            K::ChloBroadcastNextAfter => K::ChloNextAfter,
            K::ChloBroadcastOr => K::Or,
            K::ChloBroadcastPolygamma => K::ChloPolygamma,
            K::ChloBroadcastPower => K::Power,
            K::ChloBroadcastRemainder => K::Remainder,
            K::ChloBroadcastSelect => K::Select,
            K::ChloBroadcastShiftLeft => K::ShiftLeft,
            K::ChloBroadcastShiftRightArithmetic => K::ShiftRightArithmetic,
            K::ChloBroadcastShiftRightLogical => K::ShiftRightLogical,
            K::ChloBroadcastSubtract => K::Subtract,
            K::ChloBroadcastXor => K::Xor,
            K::ChloBroadcastZeta => K::ChloZeta,
            _ => return None,
        })
    }
}
