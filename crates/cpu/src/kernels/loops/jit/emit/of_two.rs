//! Instructions of two operands, the first of which becomes the result: code for SSE2.

use super::super::encode::{self as x86, Broadcast, Form, Length, Masking, Operands, RAX, RDX, Rm};
use super::super::program::{Vector, X};
use super::Emitter;

fn operands(reg: u8, rm: Rm, imm: Option<u8>) -> Operands {
    let (masking, broadcast) = (Masking::default(), Broadcast::No);
    Operands { length: Length::L128, reg, vvvv: 0, rm, masking, broadcast, imm }
}

impl Emitter<'_> {
    /// An instruction of a program that `sse2` has rewritten.
    pub(super) fn vector_of_two(&mut self, v: &Vector) {
        if let X::Mem(mem) = v.dst {
            let from = self.register(v.a, self.spare[0]);
            let bytes = match v.op {
                x86::PEXTRB_STORE => 1,
                x86::PEXTRW_STORE => 2,
                _ => {
                    let rm = self.memory(mem);
                    return self.code.vector(&v.op, &operands(from, rm, v.imm));
                }
            };
            // The form that stores came with SSE4.1.
            self.code.vector(&x86::MOVD_STORE, &operands(from, Rm::Reg(RDX.0), None));
            let rm = self.memory(mem);
            return self.code.store_low(rm, RDX, bytes);
        }
        let X::Reg(dst) = v.dst else { return };
        let (number, slot) = self.target(dst);
        if v.tied != X::None {
            self.fill(number, v.tied);
        }
        match (v.op, v.op.form) {
            // As above; the other lanes are zero.
            (x86::PINSRB, _) => {
                let (rm, _) = self.rm(&v.op, v.b, self.spare[1]);
                self.code.load_byte(RAX, rm);
                self.code.vector(&x86::MOVD_GPR, &operands(number, Rm::Reg(RAX.0), None));
            }
            (_, Form::Vmi(digit)) => self.code.vector(&v.op, &operands(digit, Rm::Reg(number), v.imm)),
            _ => {
                let (rm, _) = self.rm(&v.op, v.b, self.spare[1]);
                self.code.vector(&v.op, &operands(number, rm, v.imm));
            }
        }
        self.keep(dst, number, slot);
    }

    /// Copies the lowest lane of a register to the others.
    pub(super) fn first_in_all_lanes(&mut self, number: u8) {
        self.code.vector(&x86::PSHUFD, &operands(number, Rm::Reg(number), Some(0)));
    }
}
