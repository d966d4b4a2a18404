//! Shapes of HLO values: element type, dimensions, tiled layout, memory space, and the bytes they take.

use crate::{Error, proto};
use std::fmt;

macro_rules! element_types {
    ($($variant:ident = $number:literal, $text:literal, $bits:literal;)*) => {
        /// Element type of an array, or the kind of a shape that is not an array.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum PrimitiveType {
            $(#[doc = concat!("`", $text, "`.")] $variant,)*
            /// A number this reader does not know; sized as 0 bytes.
            Unknown(i32),
        }

        impl PrimitiveType {
            fn from_number(number: i32) -> PrimitiveType {
                match number { $($number => PrimitiveType::$variant,)* other => PrimitiveType::Unknown(other) }
            }

            /// The number of a type by its name.
            pub(crate) fn number(name: &str) -> Option<i32> {
                match name { $($text => Some($number),)* _ => None }
            }

            /// Name as HLO text writes it.
            pub fn name(self) -> &'static str {
                match self { $(PrimitiveType::$variant => $text,)* PrimitiveType::Unknown(_) => "unknown" }
            }

            /// Bits of information in one element; 0 for tokens, tuples and opaque values.
            pub fn bits(self) -> u32 {
                match self { $(PrimitiveType::$variant => $bits,)* PrimitiveType::Unknown(_) => 0 }
            }
        }
    };
}

element_types! {
    Invalid = 0, "invalid", 0;
    Pred = 1, "pred", 8;
    S8 = 2, "s8", 8;
    S16 = 3, "s16", 16;
    S32 = 4, "s32", 32;
    S64 = 5, "s64", 64;
    U8 = 6, "u8", 8;
    U16 = 7, "u16", 16;
    U32 = 8, "u32", 32;
    U64 = 9, "u64", 64;
    F16 = 10, "f16", 16;
    F32 = 11, "f32", 32;
    F64 = 12, "f64", 64;
    Tuple = 13, "tuple", 0;
    Opaque = 14, "opaque", 0;
    C64 = 15, "c64", 64;
    Bf16 = 16, "bf16", 16;
    Token = 17, "token", 0;
    C128 = 18, "c128", 128;
    F8E5M2 = 19, "f8e5m2", 8;
    F8E4M3Fn = 20, "f8e4m3fn", 8;
    S4 = 21, "s4", 4;
    U4 = 22, "u4", 4;
    F8E4M3B11Fnuz = 23, "f8e4m3b11fnuz", 8;
    F8E5M2Fnuz = 24, "f8e5m2fnuz", 8;
    F8E4M3Fnuz = 25, "f8e4m3fnuz", 8;
    S2 = 26, "s2", 2;
    U2 = 27, "u2", 2;
    F8E4M3 = 28, "f8e4m3", 8;
    F8E3M4 = 29, "f8e3m4", 8;
    S1 = 30, "s1", 1;
    U1 = 31, "u1", 1;
    F4E2M1Fn = 32, "f4e2m1fn", 4;
    F8E8M0Fnu = 33, "f8e8m0fnu", 8;
    Buffer = 34, "b", 0;
    F6E3M2Fn = 35, "f6e3m2fn", 6;
    F6E2M3Fn = 36, "f6e2m3fn", 6;
}

impl PrimitiveType {
    /// The number of a tuple.
    pub(crate) const TUPLE_NUMBER: i32 = 13;

    /// Whether values of this type are numbers or predicates, so that a shape of it is an array.
    pub fn is_array(self) -> bool {
        self.bits() > 0
    }
}

/// Where a value lives, the number `N` of `S(N)` in a layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemorySpace(pub i64);

impl MemorySpace {
    /// Device main memory.
    pub const HBM: MemorySpace = MemorySpace(0);
    /// Vector memory of the core.
    pub const VMEM: MemorySpace = MemorySpace(1);
    /// Common memory of TPU v4.
    pub const CMEM: MemorySpace = MemorySpace(3);
    /// Pinned host memory.
    pub const HOST: MemorySpace = MemorySpace(5);
}

/// A tile dimension that merges with the next more minor one; written `*`.
pub const COMBINE_DIMENSION: i64 = i64::MIN;

/// A dimension without an upper bound; written `?`.
pub const UNBOUNDED: i64 = i64::MIN;

/// Physical arrangement of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Layout {
    /// Dimensions from fastest to slowest varying: a permutation of `0..rank`.
    pub minor_to_major: Vec<u32>,
    /// Tiles, outermost first.
    pub tiles: Vec<Vec<i64>>,
    /// Bits per element where packed differently from the type; 0 otherwise.
    pub element_size_in_bits: u32,
    /// Where the value lives.
    pub memory_space: MemorySpace,
    /// The element count is rounded up to a multiple of this.
    pub tail_padding_alignment_in_elements: i64,
    /// `(dimension, indices)` at which the array is split over memories.
    pub split_configs: Vec<(i64, Vec<i64>)>,
}

/// Shape of a value: an array, a tuple, a token or something opaque.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    element_type: PrimitiveType,
    dimensions: Box<[i64]>,
    dynamic: Box<[bool]>,
    layout: Option<Box<Layout>>,
    tuple: Box<[Shape]>,
}

const MAX_RANK: usize = 64;

impl Shape {
    pub(crate) fn read(proto: &proto::Shape) -> Result<Shape, Error> {
        let element_type = PrimitiveType::from_number(proto.element_type);
        let rank = proto.dimensions.len();
        let at = "shape";
        if rank > MAX_RANK {
            return Err(Error::malformed(at, format!("rank {rank} is above {MAX_RANK}")));
        }
        let mut elements: i64 = 1;
        for &d in &proto.dimensions {
            if d < 0 && d != UNBOUNDED {
                return Err(Error::malformed(at, format!("negative dimension {d}")));
            }
            // Zero-size dimensions must not hide an overflow of the others.
            elements = elements
                .checked_mul(d.max(1))
                .filter(|&n| n <= i64::MAX / 16)
                .ok_or_else(|| Error::malformed(at, "element count overflows"))?;
        }
        let mut dynamic = proto.is_dynamic_dimension.clone();
        dynamic.resize(rank, false);
        let layout = match &proto.layout {
            Some(layout) if element_type.is_array() => Some(Box::new(Layout::read(layout, rank)?)),
            _ => None,
        };
        Ok(Shape {
            element_type,
            dimensions: proto.dimensions.clone().into(),
            dynamic: dynamic.into(),
            layout,
            tuple: proto.tuple_shapes.iter().map(Shape::read).collect::<Result<_, _>>()?,
        })
    }

    /// Element type, or the kind where this is no array.
    pub fn element_type(&self) -> PrimitiveType {
        self.element_type
    }

    /// Dimensions; the bound where one is dynamic, [`UNBOUNDED`] where there is none.
    pub fn dimensions(&self) -> &[i64] {
        &self.dimensions
    }

    /// Size of one dimension; `None` when out of range or unbounded.
    pub fn dimension(&self, index: i64) -> Option<u64> {
        let d = *self.dimensions.get(usize::try_from(index).ok()?)?;
        u64::try_from(d).ok()
    }

    /// Which dimensions are dynamic.
    pub fn dynamic_dimensions(&self) -> &[bool] {
        &self.dynamic
    }

    /// Layout of an array; `None` for other shapes and where the compiler set none.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_deref()
    }

    /// Memory space of an array; HBM where no layout says otherwise.
    pub fn memory_space(&self) -> MemorySpace {
        self.layout().map_or(MemorySpace::HBM, |l| l.memory_space)
    }

    /// Whether this is a tuple.
    pub fn is_tuple(&self) -> bool {
        self.element_type == PrimitiveType::Tuple
    }

    /// Elements of a tuple; empty for other shapes.
    pub fn tuple_shapes(&self) -> &[Shape] {
        &self.tuple
    }

    /// The part of a nested tuple that `index` leads to.
    pub fn subshape(&self, index: &[i64]) -> Option<&Shape> {
        index.iter().try_fold(self, |shape, &i| shape.tuple.get(usize::try_from(i).ok()?))
    }

    /// All arrays in this shape, in order.
    pub fn leaves(&self) -> impl Iterator<Item = &Shape> {
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            while let Some(shape) = stack.pop() {
                if !shape.is_tuple() {
                    return Some(shape);
                }
                stack.extend(shape.tuple.iter().rev());
            }
            None
        })
    }

    /// Number of elements of an array; 0 for other shapes and unbounded dimensions.
    pub fn element_count(&self) -> u64 {
        if !self.element_type.is_array() {
            return 0;
        }
        self.dimensions.iter().fold(1, |count: u64, &d| count.saturating_mul(u64::try_from(d).unwrap_or(0)))
    }

    /// Bytes of the elements without padding, summed over a tuple. Unbounded arrays count 0.
    pub fn byte_size(&self) -> u64 {
        self.leaves().fold(0, |sum: u64, leaf| sum.saturating_add(leaf.bytes_of(leaf.element_count())))
    }

    /// Bytes with the padding that tiled layouts add, summed over a tuple (its pointer table not included).
    pub fn padded_byte_size(&self) -> u64 {
        self.leaves().fold(0, |sum: u64, leaf| sum.saturating_add(leaf.bytes_of(leaf.padded_element_count())))
    }

    /// Bytes as [`Shape::padded_byte_size`], of the parts that live in `space`.
    pub fn padded_byte_size_in(&self, space: MemorySpace) -> u64 {
        self.leaves()
            .filter(|leaf| leaf.memory_space() == space)
            .fold(0, |sum: u64, leaf| sum.saturating_add(leaf.bytes_of(leaf.padded_element_count())))
    }

    fn bytes_of(&self, elements: u64) -> u64 {
        let packed_bits = self.layout().map_or(0, |l| l.element_size_in_bits);
        // Types below one byte take a whole byte unless the layout packs them.
        let bits = if packed_bits > 0 { packed_bits } else { self.element_type.bits().next_multiple_of(8) };
        elements.saturating_mul(u64::from(bits)).div_ceil(8)
    }

    fn padded_element_count(&self) -> u64 {
        let elements = self.element_count();
        let Some(layout) = self.layout() else { return elements };
        if elements == 0 {
            return 0;
        }
        let mut physical: Vec<u64> =
            layout.minor_to_major.iter().rev().map(|&d| self.dimension(i64::from(d)).unwrap_or(0)).collect();
        for tile in &layout.tiles {
            apply_tile(&mut physical, tile);
        }
        let padded = physical.iter().fold(1u64, |n, &d| n.saturating_mul(d));
        match u64::try_from(layout.tail_padding_alignment_in_elements) {
            Ok(alignment) if alignment > 1 => padded.div_ceil(alignment).saturating_mul(alignment),
            _ => padded,
        }
    }
}

/// Splits the most minor dimensions of `physical` (major first) into whole tiles followed by the tile itself.
fn apply_tile(physical: &mut Vec<u64>, tile: &[i64]) {
    while physical.len() < tile.len() {
        physical.insert(0, 1);
    }
    let mut covered = physical.split_off(physical.len() - tile.len());
    let mut tile_dims = Vec::with_capacity(tile.len());
    let mut tile_counts = Vec::with_capacity(tile.len());
    for (i, &t) in tile.iter().enumerate() {
        if t == COMBINE_DIMENSION && i + 1 < covered.len() {
            covered[i + 1] = covered[i + 1].saturating_mul(covered[i]);
            continue;
        }
        let t = u64::try_from(t).unwrap_or(1).max(1);
        tile_counts.push(covered[i].div_ceil(t));
        tile_dims.push(t);
    }
    physical.extend(tile_counts);
    physical.extend(tile_dims);
}

impl Layout {
    fn read(proto: &proto::Layout, rank: usize) -> Result<Layout, Error> {
        let at = "layout";
        let mut seen = [false; MAX_RANK];
        if proto.minor_to_major.len() != rank {
            return Err(Error::malformed(at, format!("order of {} for rank {rank}", proto.minor_to_major.len())));
        }
        for &d in &proto.minor_to_major {
            match usize::try_from(d).ok().filter(|&d| d < rank).map(|d| &mut seen[d]) {
                Some(slot) if !*slot => *slot = true,
                _ => return Err(Error::malformed(at, "order is not a permutation")),
            }
        }
        if proto.tiles.len() > 8 || proto.tiles.iter().any(|t| t.dimensions.len() > MAX_RANK) {
            return Err(Error::malformed(at, "too many tiles"));
        }
        Ok(Layout {
            minor_to_major: proto.minor_to_major.iter().map(|&d| d as u32).collect(),
            tiles: proto.tiles.iter().map(|t| t.dimensions.clone()).collect(),
            element_size_in_bits: u32::try_from(proto.element_size_in_bits).unwrap_or(0),
            memory_space: MemorySpace(proto.memory_space),
            tail_padding_alignment_in_elements: proto.tail_padding_alignment_in_elements,
            split_configs: proto.split_configs.iter().map(|s| (s.dimension, s.split_indices.clone())).collect(),
        })
    }
}

/// Comma-separated items.
pub(crate) struct List<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}", List(&self.minor_to_major))?;
        let mut colon = ":";
        let mut once = || std::mem::take(&mut colon);
        if !self.tiles.is_empty() {
            f.write_str(once())?;
            f.write_str("T")?;
            for tile in &self.tiles {
                f.write_str("(")?;
                for (i, &t) in tile.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    if t == COMBINE_DIMENSION { write!(f, "{comma}*")? } else { write!(f, "{comma}{t}")? }
                }
                f.write_str(")")?;
            }
        }
        if self.tail_padding_alignment_in_elements > 1 {
            write!(f, "{}L({})", once(), self.tail_padding_alignment_in_elements)?;
        }
        if self.element_size_in_bits != 0 {
            write!(f, "{}E({})", once(), self.element_size_in_bits)?;
        }
        if self.memory_space != MemorySpace::HBM {
            write!(f, "{}S({})", once(), self.memory_space.0)?;
        }
        for (dimension, indices) in &self.split_configs {
            write!(f, "{}SC({dimension}:{})", once(), List(indices))?;
        }
        f.write_str("}")
    }
}

impl Shape {
    /// Writes the shape, with layouts if `layout` says so.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, layout: LayoutText) -> fmt::Result {
        if self.is_tuple() {
            f.write_str("(")?;
            for (i, element) in self.tuple.iter().enumerate() {
                match i {
                    0 => {}
                    _ if i % 5 == 0 => write!(f, ", /*index={i}*/")?,
                    _ => f.write_str(", ")?,
                }
                element.write(f, layout)?;
            }
            return f.write_str(")");
        }
        write!(f, "{}[", self.element_type.name())?;
        for (i, &d) in self.dimensions.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            if self.dynamic.get(i) == Some(&true) {
                f.write_str(if d == UNBOUNDED { "" } else { "<=" })?;
            }
            if d == UNBOUNDED { f.write_str("?")? } else { write!(f, "{d}")? }
        }
        f.write_str("]")?;
        match (layout, &self.layout) {
            (LayoutText::Shown, Some(l)) if !l.is_plain_scalar() => write!(f, "{l}"),
            _ => Ok(()),
        }
    }
}

impl Layout {
    fn is_plain_scalar(&self) -> bool {
        self.minor_to_major.is_empty()
            && self.tiles.is_empty()
            && self.tail_padding_alignment_in_elements <= 1
            && self.element_size_in_bits == 0
            && self.memory_space == MemorySpace::HBM
            && self.split_configs.is_empty()
    }
}

/// Whether a printed shape shows its layout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayoutText {
    Shown,
    Hidden,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, LayoutText::Shown)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn array(element_type: i32, dims: &[i64], tiles: &[&[i64]]) -> proto::Shape {
        proto::Shape {
            element_type,
            dimensions: dims.to_vec(),
            layout: Some(proto::Layout {
                minor_to_major: (0..dims.len() as i64).rev().collect(),
                tiles: tiles.iter().map(|t| proto::Tile { dimensions: t.to_vec() }).collect(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    fn check(proto: proto::Shape, text: &str, logical: u64, padded: u64) {
        let shape = Shape::read(&proto).unwrap();
        assert_eq!(shape.to_string(), text);
        assert_eq!((shape.byte_size(), shape.padded_byte_size()), (logical, padded), "{text}");
    }

    #[test]
    fn tiled_sizes() {
        let f32_tile: &[&[i64]] = &[&[8, 128]];
        let bf16_tile: &[&[i64]] = &[&[8, 128], &[2, 1]];
        check(array(11, &[8, 128], f32_tile), "f32[8,128]{1,0:T(8,128)}", 4096, 4096);
        check(array(11, &[9, 129], f32_tile), "f32[9,129]{1,0:T(8,128)}", 9 * 129 * 4, 16 * 256 * 4);
        check(array(16, &[3, 5, 7], bf16_tile), "bf16[3,5,7]{2,1,0:T(8,128)(2,1)}", 210, 3 * 8 * 128 * 2);
        check(array(16, &[], &[&[256]]), "bf16[]{:T(256)}", 2, 512);
        check(array(4, &[], &[&[128]]), "s32[]{:T(128)}", 4, 512);
        check(array(16, &[3], &[&[256], &[128], &[2, 1]]), "bf16[3]{0:T(256)(128)(2,1)}", 6, 512);
        check(array(8, &[], &[]), "u32[]", 4, 4);
        check(array(11, &[0, 5], f32_tile), "f32[0,5]{1,0:T(8,128)}", 0, 0);
        check(array(11, &[3, 4, 100], &[&[COMBINE_DIMENSION, 8, 128]]), "f32[3,4,100]{2,1,0:T(*,8,128)}", 4800, 8192);
    }

    #[test]
    fn packed_and_dynamic() {
        let mut int4 = array(21, &[10], &[]);
        check(int4.clone(), "s4[10]{0}", 10, 10);
        int4.layout.as_mut().unwrap().element_size_in_bits = 4;
        check(int4, "s4[10]{0:E(4)}", 5, 5);
        let mut dynamic = array(11, &[4, 6], &[]);
        dynamic.is_dynamic_dimension = vec![true, false];
        dynamic.layout.as_mut().unwrap().memory_space = 5;
        check(dynamic, "f32[<=4,6]{1,0:S(5)}", 96, 96);
        let tuple = proto::Shape {
            element_type: 13,
            tuple_shapes: vec![array(11, &[2], &[]), array(8, &[], &[])],
            ..Default::default()
        };
        check(tuple, "(f32[2]{0}, u32[])", 12, 12);
    }

    #[test]
    fn bad_shapes_are_errors() {
        let refuse = |p: proto::Shape| assert!(matches!(Shape::read(&p), Err(Error::Malformed { .. })));
        refuse(array(11, &[-1], &[]));
        refuse(array(11, &[1 << 40, 1 << 40], &[]));
        refuse(array(11, &[0, 1 << 40, 1 << 40], &[]));
        refuse(array(11, &[1; 65], &[]));
        let mut twice = array(11, &[2, 2], &[]);
        twice.layout.as_mut().unwrap().minor_to_major = vec![1, 1];
        refuse(twice);
    }
}
