//! Encodings against those of the GNU assembler: `expected.txt` has its words for the text beside them.

use super::*;

const X2: Gpr = Gpr(2);
const X3: Gpr = Gpr(3);
const X4: Gpr = Gpr(4);
const X9: Gpr = Gpr(9);

/// The instructions of `expected.txt`, in its order.
fn ours() -> Vec<u32> {
    let mut e = Encoder::default();
    for (_, code) in ALL {
        e.vector(*code, 1, 17, 30);
    }
    for (_, code) in ALL_SINGLE {
        e.vector(*code, 1, 17, 0);
    }
    for code in [shl(false, 23), shl(true, 52), ushr(false, 16), ushr(true, 52), sshr(false, 32), sshr(true, 1)] {
        e.vector(code, 1, 17, 0);
    }
    e.copy_vector(1, 17);
    for (size, base, disp) in
        [(Size::B16, X9, 32), (Size::B8, SP, 24), (Size::B4, X9, 4), (Size::B2, X9, 2), (Size::B1, X9, 3)]
    {
        e.load_vector(size, 1, base, disp);
    }
    for (size, base, disp) in
        [(Size::B16, SP, 32752), (Size::B8, X9, 0), (Size::B4, X9, 12), (Size::B2, X9, 6), (Size::B1, X9, 1)]
    {
        e.store_vector(size, 17, base, disp);
    }
    for size in [Size::B1, Size::B2, Size::B4, Size::B8] {
        e.load_splat(size, 1, X9);
    }
    e.load_lane(false, 1, 3, X9, X4);
    e.load_lane(false, 1, 0, X9, X4);
    e.load_lane(true, 1, 1, X9, X4);
    e.load_lane(true, 1, 1, X9, Gpr(31));
    e.store_lane(false, 17, 2, X9, X4);
    e.store_lane(true, 17, 1, X9, X4);
    e.splat_gpr(false, 1, X3);
    e.splat_gpr(true, 1, X3);
    e.lane_to_gpr(X3, 17, 1);
    e.gpr_to_lane(1, 1, X3);
    e.first_to_lane(1, 1, 17);
    e.integer_to_f32(1, X3, false);
    e.integer_to_f32(1, X3, true);
    e.load(X3, X9, 32760);
    e.store(X3, SP, 8);
    e.add_shifted(X3, X9, X2, 3);
    e.add(X3, X9, 4);
    e.add(SP, SP, 16);
    e.add(X3, X9, 4101);
    e.sub(SP, SP, 4096);
    e.compare_with(Gpr(1), 16);
    e.compare(X2, Gpr(1));
    e.set(X3, 42);
    e.set(X3, 0x1234_5678);
    e.set(X3, -20);
    e.set(X3, 0xffff_ffff_1234_789a_u64 as i64);
    e.multiply_add(X3, X2, X4, X9);
    e.multiply_add(X3, X3, X4, SP);
    e.leading_zeros(X3, X9);
    e.spread(X3, Condition::NotEqual);
    e.spread(X3, Condition::Equal);
    e.lowest_bit(X3, X9);
    e.negate(X3, X9);
    e.leave();
    e.code
}

#[test]
fn every_instruction() {
    let expected = include_str!("expected.txt");
    let ours = ours();
    for (line, ours) in expected.lines().zip(&ours) {
        assert_eq!(line.split(' ').next(), Some(format!("{ours:08x}").as_str()), "{line}");
    }
    assert_eq!(expected.lines().count(), ours.len());
    let names = ALL.iter().chain(ALL_SINGLE).map(|(name, _)| *name);
    for (line, name) in expected.lines().zip(names) {
        assert!(line.contains(&format!(" {name}: ")), "{name}: {line}");
    }
}

#[test]
fn jumps_and_constants_aim_at_their_places() {
    let mut e = Encoder::default();
    e.pool = vec![7; 32];
    let ahead = e.jump_ahead(Condition::Below);
    let zero = e.jump_ahead_if_zero(X3);
    let top = e.here();
    e.load_constant(2, 16);
    e.pool_address(X3, 0);
    e.jump_back(Condition::BelowEqual, top);
    e.land(ahead);
    e.land(zero);
    e.leave();
    let bytes = e.finish().expect("short");
    let words: Vec<u32> = bytes[..24].chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    // b.lo .+20; cbz x3, .+16; ldr q2, .+40; adr x3, .+20; b.ls .-8; ret
    assert_eq!(words, [0x5400_00a3, 0xb400_0083, 0x9c00_0142, 0x1000_00a3, 0x54ff_ffc9, 0xd65f_03c0]);
    assert_eq!(bytes.len(), 32 + 32);
    let mut long = Encoder::default();
    long.code.resize(REACH_BYTES / 4, 0);
    assert_eq!(long.finish(), None);
}
