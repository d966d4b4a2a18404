//! The vector operations that programs are written in: the instructions of AVX-512 by their names.
//!
//! Code for AVX-512 has them as they are; `short` and `neon` say what they become elsewhere.
// On AArch64 what encodes an operation only tells it from others, and some are never asked for.
#![cfg_attr(target_arch = "aarch64", allow(dead_code))]

/// How long the vectors of an instruction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    L128 = 0,
    L256 = 1,
    L512 = 2,
    /// Half a register of NEON.
    #[cfg(target_arch = "aarch64")]
    L64,
}

impl Length {
    pub(super) fn bytes(self) -> u32 {
        match self {
            #[cfg(target_arch = "aarch64")]
            Length::L64 => 8,
            Length::L128 => 16,
            Length::L256 => 32,
            Length::L512 => 64,
        }
    }
}

/// Which operand goes where in the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Result in ModRM.reg, first source in vvvv, second in ModRM.rm.
    Rvm,
    /// Result (or memory) in ModRM.rm, source in ModRM.reg.
    Mr,
    /// Result in vvvv, source in ModRM.rm, a digit of the opcode in ModRM.reg.
    Vmi(u8),
    /// As [`Form::Rvm`], with a mask's register in the immediate.
    Rvmr,
}

/// How much memory the r/m operand covers, which scales 8-bit displacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuple {
    /// A whole vector; one element of it may be broadcast.
    Full,
    /// A whole vector, never broadcast.
    Whole,
    Half,
    Quarter,
    /// One element of so many bytes.
    Scalar(u8),
}

/// A vector instruction, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    /// 1: 0F, 2: 0F38, 3: 0F3A.
    pub(super) map: u8,
    /// 0: none, 1: 66, 2: F3, 3: F2.
    pub(super) prefix: u8,
    pub(super) wide: bool,
    pub(super) code: u8,
    pub(super) form: Form,
    tuple: Tuple,
    /// Mask instructions are VEX encoded, with this L bit.
    pub(super) vex: Option<u8>,
}

impl Op {
    /// The size of the element that a memory operand may broadcast.
    pub(super) fn broadcast_bytes(&self) -> Option<u32> {
        (self.vex.is_none() && self.tuple == Tuple::Full).then_some(if self.wide { 8 } else { 4 })
    }

    /// Whether its lanes have 64 bits.
    pub(super) fn is_wide(&self) -> bool {
        self.wide
    }

    pub(super) fn is_mask_op(&self) -> bool {
        self.vex.is_some()
    }

    pub(super) fn memory_bytes(&self, length: Length) -> i32 {
        let full = length.bytes() as i32;
        match self.tuple {
            Tuple::Full | Tuple::Whole => full,
            Tuple::Half => full / 2,
            Tuple::Quarter => full / 4,
            Tuple::Scalar(bytes) => i32::from(bytes),
        }
    }
}

pub(super) const NP: u8 = 0;
pub(super) const P66: u8 = 1;
pub(super) const PF3: u8 = 2;
pub(super) const PF2: u8 = 3;

pub(super) const fn op(map: u8, prefix: u8, wide: u8, code: u8, form: Form, tuple: Tuple) -> Op {
    Op { map, prefix, wide: wide == 1, code, form, tuple, vex: None }
}

const fn mask_op(prefix: u8, l: u8, code: u8, form: Form) -> Op {
    Op { map: 1, prefix, wide: false, code, form, tuple: Tuple::Scalar(2), vex: Some(l) }
}

macro_rules! ops {
    ($($name:ident = $map:literal $prefix:ident $wide:literal $code:literal $form:expr, $tuple:expr;)*) => {
        $(pub(super) const $name: Op = op($map, $prefix, $wide, $code, $form, $tuple);)*
        #[cfg(test)]
        pub(super) const ALL: &[(&str, Op)] = &[$((stringify!($name), $name),)*];
    };
}

use Form::{Mr, Rvm, Vmi};
use Tuple::{Full, Half, Quarter, Scalar, Whole};

ops! {
    ADDPS = 1 NP 0 0x58 Rvm, Full; ADDPD = 1 P66 1 0x58 Rvm, Full;
    MULPS = 1 NP 0 0x59 Rvm, Full; MULPD = 1 P66 1 0x59 Rvm, Full;
    SUBPS = 1 NP 0 0x5c Rvm, Full; SUBPD = 1 P66 1 0x5c Rvm, Full;
    MINPS = 1 NP 0 0x5d Rvm, Full; MINPD = 1 P66 1 0x5d Rvm, Full;
    DIVPS = 1 NP 0 0x5e Rvm, Full; DIVPD = 1 P66 1 0x5e Rvm, Full;
    MAXPS = 1 NP 0 0x5f Rvm, Full; MAXPD = 1 P66 1 0x5f Rvm, Full;
    SQRTPS = 1 NP 0 0x51 Rvm, Full; SQRTPD = 1 P66 1 0x51 Rvm, Full;
    RNDSCALEPS = 3 P66 0 0x08 Rvm, Full; RNDSCALEPD = 3 P66 1 0x09 Rvm, Full;
     GETEXPPD = 2 P66 1 0x42 Rvm, Full;
     GETMANTPD = 3 P66 1 0x26 Rvm, Full;
    SCALEFPS = 2 P66 0 0x2c Rvm, Full; SCALEFPD = 2 P66 1 0x2c Rvm, Full;
    RANGEPS = 3 P66 0 0x50 Rvm, Full; RANGEPD = 3 P66 1 0x50 Rvm, Full;
    FIXUPIMMPS = 3 P66 0 0x54 Rvm, Full; FIXUPIMMPD = 3 P66 1 0x54 Rvm, Full;
    CMPPS = 1 NP 0 0xc2 Rvm, Full; CMPPD = 1 P66 1 0xc2 Rvm, Full;
    BLENDMPS = 2 P66 0 0x65 Rvm, Full; BLENDMPD = 2 P66 1 0x65 Rvm, Full;
    FMADD213PS = 2 P66 0 0xa8 Rvm, Full; FMADD213PD = 2 P66 1 0xa8 Rvm, Full;
    FNMADD213PS = 2 P66 0 0xac Rvm, Full; FNMADD213PD = 2 P66 1 0xac Rvm, Full;
    FMADD231PS = 2 P66 0 0xb8 Rvm, Full; FMADD231PD = 2 P66 1 0xb8 Rvm, Full;
    FNMADD231PS = 2 P66 0 0xbc Rvm, Full; FNMADD231PD = 2 P66 1 0xbc Rvm, Full;
    PADDD = 1 P66 0 0xfe Rvm, Full; PADDQ = 1 P66 1 0xd4 Rvm, Full;
    PSUBD = 1 P66 0 0xfa Rvm, Full; PSUBQ = 1 P66 1 0xfb Rvm, Full;
    PMULLD = 2 P66 0 0x40 Rvm, Full; PMULLQ = 2 P66 1 0x40 Rvm, Full;
    PMAXSD = 2 P66 0 0x3d Rvm, Full; PMAXSQ = 2 P66 1 0x3d Rvm, Full;
    PMAXUD = 2 P66 0 0x3f Rvm, Full; PMAXUQ = 2 P66 1 0x3f Rvm, Full;
    PMINSD = 2 P66 0 0x39 Rvm, Full; PMINSQ = 2 P66 1 0x39 Rvm, Full;
    PMINUD = 2 P66 0 0x3b Rvm, Full; PMINUQ = 2 P66 1 0x3b Rvm, Full;
    PABSD = 2 P66 0 0x1e Rvm, Full; PABSQ = 2 P66 1 0x1f Rvm, Full;
    PANDD = 1 P66 0 0xdb Rvm, Full; PANDQ = 1 P66 1 0xdb Rvm, Full;
    PORD = 1 P66 0 0xeb Rvm, Full; PORQ = 1 P66 1 0xeb Rvm, Full;
    PXORD = 1 P66 0 0xef Rvm, Full; PXORQ = 1 P66 1 0xef Rvm, Full;
    TERNLOGD = 3 P66 0 0x25 Rvm, Full; TERNLOGQ = 3 P66 1 0x25 Rvm, Full;
    PLZCNTD = 2 P66 0 0x44 Rvm, Full; PLZCNTQ = 2 P66 1 0x44 Rvm, Full;
    PSLLVD = 2 P66 0 0x47 Rvm, Full; PSLLVQ = 2 P66 1 0x47 Rvm, Full;
    PSRLVD = 2 P66 0 0x45 Rvm, Full; PSRLVQ = 2 P66 1 0x45 Rvm, Full;
    PSRAVD = 2 P66 0 0x46 Rvm, Full; PSRAVQ = 2 P66 1 0x46 Rvm, Full;
    PSLLD = 1 P66 0 0x72 Vmi(6), Full; PSLLQ = 1 P66 1 0x73 Vmi(6), Full;
    PSRLD = 1 P66 0 0x72 Vmi(2), Full; PSRLQ = 1 P66 1 0x73 Vmi(2), Full;
    PSRAD = 1 P66 0 0x72 Vmi(4), Full; PSRAQ = 1 P66 1 0x72 Vmi(4), Full;
    PCMPD = 3 P66 0 0x1f Rvm, Full; PCMPQ = 3 P66 1 0x1f Rvm, Full;
    PCMPUD = 3 P66 0 0x1e Rvm, Full; PCMPUQ = 3 P66 1 0x1e Rvm, Full;
    PTESTMD = 2 P66 0 0x27 Rvm, Full; PTESTMQ = 2 P66 1 0x27 Rvm, Full;
    PMOVSXBD = 2 P66 0 0x21 Rvm, Quarter; PMOVZXBD = 2 P66 0 0x31 Rvm, Quarter;
    PMOVSXWD = 2 P66 0 0x23 Rvm, Half; PMOVZXWD = 2 P66 0 0x33 Rvm, Half;
    PMOVSXDQ = 2 P66 0 0x25 Rvm, Half; PMOVZXDQ = 2 P66 0 0x35 Rvm, Half;
    PMOVDB = 2 PF3 0 0x31 Mr, Quarter; PMOVDW = 2 PF3 0 0x33 Mr, Half; PMOVQD = 2 PF3 0 0x35 Mr, Half;
    CVTDQ2PS = 1 NP 0 0x5b Rvm, Full; CVTUDQ2PS = 1 PF2 0 0x7a Rvm, Full;
    CVTTPS2DQ = 1 PF3 0 0x5b Rvm, Full; CVTTPS2UDQ = 1 NP 0 0x78 Rvm, Full;
    CVTPS2PD = 1 NP 0 0x5a Rvm, Half; CVTPD2PS = 1 P66 1 0x5a Rvm, Full;
    CVTDQ2PD = 1 PF3 0 0xe6 Rvm, Half; CVTUDQ2PD = 1 PF3 0 0x7a Rvm, Half;
    CVTTPD2DQ = 1 P66 1 0xe6 Rvm, Full; CVTTPD2UDQ = 1 NP 1 0x78 Rvm, Full;
    CVTQQ2PD = 1 PF3 1 0xe6 Rvm, Full; CVTUQQ2PD = 1 PF3 1 0x7a Rvm, Full;
    CVTTPD2QQ = 1 P66 1 0x7a Rvm, Full; CVTTPD2UQQ = 1 P66 1 0x78 Rvm, Full;
    CVTQQ2PS = 1 NP 1 0x5b Rvm, Full; CVTUQQ2PS = 1 PF2 1 0x7a Rvm, Full;
    CVTTPS2QQ = 1 P66 0 0x7a Rvm, Half; CVTTPS2UQQ = 1 P66 0 0x78 Rvm, Half;
    CVTPH2PS = 2 P66 0 0x13 Rvm, Half; CVTPS2PH = 3 P66 0 0x1d Mr, Half;
    CVTNEPS2BF16 = 2 PF3 0 0x72 Rvm, Full;
    MOVUPS = 1 NP 0 0x10 Rvm, Whole; MOVUPS_STORE = 1 NP 0 0x11 Mr, Whole;
    MOVUPD = 1 P66 1 0x10 Rvm, Whole; MOVUPD_STORE = 1 P66 1 0x11 Mr, Whole;
    MOVDQU16_STORE = 1 PF2 1 0x7f Mr, Whole;
    MOVAPS = 1 NP 0 0x28 Rvm, Whole; MOVNTPS_STORE = 1 NP 0 0x2b Mr, Whole;
    BROADCASTSS = 2 P66 0 0x18 Rvm, Scalar(4); BROADCASTSD = 2 P66 1 0x19 Rvm, Scalar(8);
    PBROADCASTB = 2 P66 0 0x78 Rvm, Scalar(1); PBROADCASTW = 2 P66 0 0x79 Rvm, Scalar(2);
    PBROADCASTD_GPR = 2 P66 0 0x7c Rvm, Scalar(4); PBROADCASTQ_GPR = 2 P66 1 0x7c Rvm, Scalar(8);
    SHUFF32X4 = 3 P66 0 0x23 Rvm, Full; SHUFF64X2 = 3 P66 1 0x23 Rvm, Full;
    SHUFPS = 1 NP 0 0xc6 Rvm, Full; SHUFPD = 1 P66 1 0xc6 Rvm, Full;
    INSERTI64X4 = 3 P66 1 0x3a Rvm, Half;
    GATHERDPS = 2 P66 0 0x92 Rvm, Scalar(4); GATHERDPD = 2 P66 1 0x92 Rvm, Scalar(8);
    SCATTERDPS = 2 P66 0 0xa2 Mr, Scalar(4); SCATTERDPD = 2 P66 1 0xa2 Mr, Scalar(8);
}

pub(super) const KANDW: Op = mask_op(NP, 1, 0x41, Rvm);
/// `!a & b`.
pub(super) const KANDNW: Op = mask_op(NP, 1, 0x42, Rvm);
pub(super) const KNOTW: Op = mask_op(NP, 0, 0x44, Rvm);
pub(super) const KORW: Op = mask_op(NP, 1, 0x45, Rvm);
pub(super) const KXNORW: Op = mask_op(NP, 1, 0x46, Rvm);
pub(super) const KXORW: Op = mask_op(NP, 1, 0x47, Rvm);
pub(super) const KORTESTW: Op = mask_op(NP, 0, 0x98, Rvm);
pub(super) const KMOVW: Op = mask_op(NP, 0, 0x90, Rvm);
pub(super) const KMOVW_STORE: Op = mask_op(NP, 0, 0x91, Mr);
pub(super) const KMOVW_FROM_GPR: Op = mask_op(NP, 0, 0x92, Rvm);
pub(super) const KMOVW_TO_GPR: Op = mask_op(NP, 0, 0x93, Rvm);

/// What lanes outside the mask get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Zeroing {
    #[default]
    Merge,
    Zero,
}
