//! Encodings against those of the GNU assembler: `expected.txt` has its bytes for the text beside them.

use super::*;
use Form::Vmi;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_any(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

/// An operation with register and with memory operands, as far as it has both.
fn examples(name: &str, op: &Op) -> Vec<String> {
    let vector_index = is_any(name, &["GATHER", "SCATTER"]);
    let from_gpr = name.contains("GPR");
    let three = is_any(
        name,
        &[
            "ADD", "MUL", "SUB", "MIN", "MAX", "DIV", "SCALEF", "RANGE", "CMP", "FIXUP", "BLENDM", "PAND", "POR",
            "PXOR", "TERN", "PSLLV", "PSRLV", "PSRAV", "TEST", "SHUF", "INSERT",
        ],
    );
    let has_imm = is_any(name, &["RNDSCALE", "GETMANT", "RANGE", "CMP", "FIXUP", "TERN", "SHUF", "INSERT", "PS2PH"]);
    let reg = match op.form {
        Vmi(digit) => digit,
        _ if is_any(name, &["CMP", "TEST"]) => 3,
        _ => 28,
    };
    let vvvv = if three || matches!(op.form, Vmi(_)) { 21 } else { 0 };
    let imm = (has_imm || matches!(op.form, Vmi(_))).then_some(4);
    let k = if name.contains("NT") { 0 } else { 2 };
    let mut places = Vec::new();
    if from_gpr {
        places.push(Rm::Reg(9));
    } else if !vector_index && !name.contains("_STORE") {
        places.push(Rm::Reg(19));
    }
    if !from_gpr {
        let index = if vector_index { (25, 1) } else { (1, 4) };
        places.push(Rm::Mem { base: Gpr(13), index: Some(index), disp: 128 });
    }
    let encoded = |rm| {
        let mut encoder = Encoder::default();
        let masking = Masking { k, zero: Zeroing::Merge };
        let operands = Operands { length: Length::L512, reg, vvvv, rm, masking, broadcast: Broadcast::No, imm };
        encoder.vector(op, &operands);
        format!("{name} {}", hex(&encoder.code))
    };
    places.into_iter().map(encoded).collect()
}

#[test]
fn every_vector_operation() {
    let ours: Vec<String> = ALL.iter().flat_map(|(name, op)| examples(name, op)).collect();
    let expected: Vec<&str> =
        include_str!("expected.txt").lines().map(|line| line.split(';').next().unwrap().trim()).collect();
    assert_eq!(ours, expected);
}

/// As [`examples`], for what only code for AVX2 uses.
fn short_examples(name: &str, op: &Op) -> Vec<String> {
    let is_short = is_any(name, &["MOVSS", "MOVSD", "PINSR", "PEXTR", "EXTRACTPS", "MOVHPS", "MOVD_GPR", "MOVQ_GPR"]);
    let two = is_any(name, &["PSHUFD", "PERMQ", "ROUND", "BROADCAST", "MOVD", "MOVQ", "MOVMSK", "MOVS", "PEXTR"]);
    let two = two || is_any(name, &["EXTRACTPS", "MOVHPS"]);
    let has_imm =
        is_any(name, &["PSHUFD", "PBLENDD", "PERM", "INSERT", "ROUND", "PINSR", "PEXTR", "BLENDV", "EXTRACTPS"]);
    let imm = match name {
        _ if name.contains("BLENDV") => 3 << 4,
        "EXTRACTPS_STORE" => 2,
        _ => 4,
    };
    let from_register = !is_any(name, &["_STORE", "MASKMOV", "MOVSS", "MOVSD", "PINSR"]);
    let from_memory = !is_any(name, &["GPR", "MOVMSK"]);
    let places = [
        from_register.then_some(Rm::Reg(9)),
        from_memory.then_some(Rm::Mem { base: Gpr(13), index: Some((1, 4)), disp: 128 }),
    ];
    let encoded = |rm| {
        let mut encoder = Encoder { encoding: Encoding::Vex, ..Encoder::default() };
        let operands = Operands {
            length: if is_short { Length::L128 } else { Length::L256 },
            reg: 12,
            vvvv: if two { 0 } else { 5 },
            rm,
            masking: Masking::default(),
            broadcast: Broadcast::No,
            imm: has_imm.then_some(imm),
        };
        encoder.vector(op, &operands);
        format!("{name} {}", hex(&encoder.code))
    };
    places.into_iter().flatten().map(encoded).collect()
}

#[test]
fn every_vector_operation_of_avx2() {
    let ours: Vec<String> = ALL_VEX.iter().flat_map(|(name, op)| short_examples(name, op)).collect();
    let expected: Vec<&str> =
        include_str!("expected_vex.txt").lines().map(|line| line.split(';').next().unwrap().trim()).collect();
    assert_eq!(ours, expected);
}

/// Those of SSE2 and some that it shares with AVX, with registers above the eighth and memory that needs an index.
#[test]
fn operations_of_sse2() {
    let shared = [
        ("ADDPS", ADDPS),
        ("MOVUPS", MOVUPS),
        ("MOVUPS_STORE", MOVUPS_STORE),
        ("MOVAPS", MOVAPS),
        ("MOVSS", MOVSS),
        ("MOVSS_STORE", MOVSS_STORE),
        ("MOVNTPS_STORE", MOVNTPS_STORE),
        ("CMPPS", CMPPS),
        ("CVTTPS2DQ", CVTTPS2DQ),
        ("PSRLD", PSRLD),
        ("PSHUFD", PSHUFD),
        ("PINSRW", PINSRW),
        ("MOVMSKPS", MOVMSKPS),
        ("MOVD_GPR", MOVD_GPR),
    ];
    let encoded = |(name, op): &(&str, Op)| {
        let has_imm = is_any(name, &["CMP", "PSHUF", "PINSR", "PSRLD"]);
        let from_register = !is_any(name, &["MOVUPS_STORE", "MOVSS", "MOVNT", "PINSRW"]);
        let from_memory = !is_any(name, &["PSRLD", "MOVMSK", "MOVD"]);
        let places = [
            from_register.then_some(Rm::Reg(9)),
            from_memory.then_some(Rm::Mem { base: Gpr(13), index: Some((1, 4)), disp: 128 }),
        ];
        let encoded = places.into_iter().flatten().map(|rm| {
            let mut encoder = Encoder::new(Encoding::Sse);
            let reg = if let Vmi(digit) = op.form { digit } else { 2 };
            let (masking, broadcast, imm) = (Masking::default(), Broadcast::No, has_imm.then_some(4));
            encoder.vector(op, &Operands { length: Length::L128, reg, vvvv: 0, rm, masking, broadcast, imm });
            format!("{name} {}", hex(&encoder.code))
        });
        encoded.collect::<Vec<_>>()
    };
    let ours: Vec<String> = ALL_SSE.iter().chain(&shared).flat_map(encoded).collect();
    let expected: Vec<&str> =
        include_str!("expected_sse.txt").lines().map(|line| line.split(';').next().unwrap().trim()).collect();
    assert_eq!(ours, expected);
}

fn check(write: impl Fn(&mut Encoder), expected: &str) {
    let mut encoder = Encoder::default();
    write(&mut encoder);
    assert_eq!(hex(&encoder.code), expected);
}

fn vector(op: &Op, length: Length, registers: [u8; 2], rm: Rm, masking: Masking, broadcast: Broadcast) -> String {
    let mut encoder = Encoder::default();
    let [reg, vvvv] = registers;
    encoder.vector(op, &Operands { length, reg, vvvv, rm, masking, broadcast, imm: None });
    hex(&encoder.code)
}

#[test]
fn operand_forms() {
    let none = Masking::default();
    let zero = Masking { k: 3, zero: Zeroing::Zero };
    let element = |disp| Rm::Mem { base: Gpr(13), index: Some((1, 4)), disp };
    let (no, yes) = (Broadcast::No, Broadcast::Yes);
    // vaddps zmm1, zmm2, zmm3
    assert_eq!(vector(&ADDPS, Length::L512, [1, 2], Rm::Reg(3), none, no), "62f16c4858cb");
    // vaddps ymm1, ymm30, [r13+rcx*4+0x40] and [r13+rcx*4+0x41]: short and long displacements
    assert_eq!(vector(&ADDPS, Length::L256, [1, 30], element(0x40), none, no), "62d10c20584c8d02");
    assert_eq!(vector(&ADDPS, Length::L256, [1, 30], element(0x41), none, no), "62d10c20588c8d41000000");
    // vaddps zmm17{k3}{z}, zmm18, dword ptr [rip]{1to16}, the distance still open
    assert_eq!(vector(&ADDPS, Length::L512, [17, 18], Rm::Pool(0), zero, yes), "62e16cd3580d00000000");
    // vmovups zmm3, [rsp+64]
    let frame = Rm::Mem { base: RSP, index: None, disp: 64 };
    assert_eq!(vector(&MOVUPS, Length::L512, [3, 0], frame, none, no), "62f17c48105c2401");
}

#[test]
fn mask_operations() {
    let none = Masking::default();
    let mask = |op: &Op, reg, vvvv, rm| vector(op, Length::L128, [reg, vvvv], rm, none, Broadcast::No);
    // The three-byte form of the prefix; the assembler's two-byte form means the same.
    assert_eq!(mask(&KANDW, 1, 2, Rm::Reg(3)), "c4e16c41cb");
    assert_eq!(mask(&KANDNW, 1, 2, Rm::Reg(3)), "c4e16c42cb");
    assert_eq!(mask(&KNOTW, 1, 0, Rm::Reg(3)), "c4e17844cb");
    assert_eq!(mask(&KORW, 1, 2, Rm::Reg(3)), "c4e16c45cb");
    assert_eq!(mask(&KXNORW, 1, 2, Rm::Reg(3)), "c4e16c46cb");
    assert_eq!(mask(&KXORW, 1, 2, Rm::Reg(3)), "c4e16c47cb");
    assert_eq!(mask(&KORTESTW, 1, 0, Rm::Reg(3)), "c4e17898cb");
    assert_eq!(mask(&KMOVW, 1, 0, Rm::Reg(3)), "c4e17890cb");
    assert_eq!(mask(&KMOVW_FROM_GPR, 1, 0, Rm::Reg(0)), "c4e17892c8");
    assert_eq!(mask(&KMOVW_TO_GPR, 0, 0, Rm::Reg(1)), "c4e17893c1");
    let frame = Rm::Mem { base: RSP, index: None, disp: 8 };
    assert_eq!(mask(&KMOVW, 1, 0, frame), "c4e178904c2408");
    assert_eq!(mask(&KMOVW_STORE, 1, 0, frame), "c4e178914c2408");
}

#[test]
fn general_instructions() {
    let at = |base, disp| Rm::Mem { base, index: None, disp };
    check(|e| e.load(RAX, at(RSP, 0x80)), "488b842480000000");
    check(|e| e.store(at(RSP, 0x80), Gpr(9)), "4c898c2480000000");
    check(|e| e.load_byte(RAX, at(Gpr(9), 8)), "490fb64108");
    check(|e| e.store_low(at(Gpr(9), 8), RDX, 1), "41885108");
    check(|e| e.store_low(at(Gpr(9), 8), RDX, 2), "6641895108");
    check(|e| e.load(Gpr(9), at(RDI, 8)), "4c8b4f08");
    check(|e| e.load(Gpr(9), at(RBP, 0)), "4c8b4d00");
    check(|e| e.load(Gpr(12), at(Gpr(12), 0)), "4d8b2424");
    check(|e| e.address(RAX, at(RCX, 16)), "488d4110");
    check(|e| e.alu_imm(Alu::Add, Rm::Reg(12), 0x12345), "4981c445230100");
    check(|e| e.alu_imm(Alu::And, Rm::Reg(RSP.0), -64), "4883e4c0");
    check(|e| e.alu_imm(Alu::Sub, Rm::Reg(RSP.0), 0x1000), "4881ec00100000");
    check(|e| e.alu_imm(Alu::Add, at(RSP, 0x48), 1), "488344244801");
    check(|e| e.add_to_memory(at(RSP, 0x80), RAX), "4801842480000000");
    check(|e| e.multiply(RAX, RCX, 0x1234), "4869c134120000");
    check(|e| e.set(RAX, 0x1234_5678_9abc_def0), "48b8f0debc9a78563412");
    check(|e| e.set(RAX, -1), "48c7c0ffffffff");
    check(|e| e.low_bits(RAX, RAX, RDX), "c4e2e8f5c0");
    check(|e| e.count_ones(RAX, RAX), "f3480fb8c0");
    check(|e| e.negate(RAX), "48f7d8");
    check(|e| e.complement(RAX), "48f7d0");
    check(|e| e.spread_carry(RAX), "4819c0");
    check(|e| e.alu(Alu::Cmp, RCX, Rm::Reg(RSI.0)), "483bce");
    check(|e| e.leave(), "c5f877c3");
}

#[test]
fn jumps_and_constants() {
    let mut encoder = Encoder::default();
    let ahead = encoder.jump_ahead(Condition::AboveEqual);
    let top = encoder.here();
    encoder.negate(RAX);
    encoder.jump_back(Condition::NotEqual, top);
    encoder.land(ahead);
    assert_eq!(hex(&encoder.code), "0f830900000048f7d80f85f7ffffff");
    encoder.address(RAX, Rm::Pool(4));
    encoder.pool = vec![1; 8];
    let bytes = encoder.finish();
    // The address is at 15..22, the pool starts at 64.
    assert_eq!(hex(&bytes[15..22]), format!("488d05{}", hex(&(64 + 4 - 22i32).to_le_bytes())));
    assert_eq!(bytes.len(), 72);
}
