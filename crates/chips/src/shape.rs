//! Which slices a generation comes in, which of their dimensions wrap, and which can be twisted.

use serde::Serialize;

use crate::error::ShapeFault;

/// Which shapes of slice can be had. Two-dimensional shapes end in 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeRule {
    /// Exactly these, in order of size.
    Listed(&'static [[u32; 3]]),
    /// A few small ones, and every block of whole cubes with its dimensions in ascending order.
    Cubes {
        /// The small ones, in order of size.
        below_a_cube: &'static [[u32; 3]],
        /// Chips along the edge of a cube.
        edge: u32,
        /// Longest dimension in chips.
        longest: u32,
        /// Most chips in one slice.
        max_chips: u32,
    },
}

/// Which dimensions of a slice close into rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WrapRule {
    /// A dimension wraps when it is exactly this long.
    DimensionOf(u32),
    /// All dimensions wrap when each is a multiple of this; otherwise none does.
    WholeCubesOf(u32),
}

/// Which slices can be had as a twisted torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TwistRule {
    /// None.
    Never,
    /// A x A x 2A and A x 2A x 2A of whole cubes.
    Doubled,
    /// As `Doubled`, and A x 2A x (A times a power of two) up to a longest dimension.
    DoubledOrPowers {
        /// Longest dimension in chips.
        longest: u32,
    },
}

/// Chips in a shape. Saturates, so that absurd shapes compare as too large.
pub(crate) fn chips(shape: [u32; 3]) -> u32 {
    shape.into_iter().fold(1, u32::saturating_mul)
}

/// `4x4` for a two-dimensional torus, `4x4x4` for a three-dimensional one.
pub(crate) fn text(shape: [u32; 3], torus_dimensions: u32) -> String {
    let [x, y, z] = shape;
    if torus_dimensions == 2 { format!("{x}x{y}") } else { format!("{x}x{y}x{z}") }
}

impl ShapeRule {
    /// Every shape, by number of chips, and among equals the most compact first.
    pub fn all(&self) -> Vec<[u32; 3]> {
        match *self {
            Self::Listed(shapes) => shapes.to_vec(),
            Self::Cubes { below_a_cube, edge, longest, max_chips } => {
                let mut shapes = below_a_cube.to_vec();
                let cubes = max_chips / edge.pow(3);
                let along = longest / edge;
                for x in 1..=along.min(cubes) {
                    for y in x..=along.min(cubes / x) {
                        for z in y..=along.min(cubes / (x * y)) {
                            shapes.push([x * edge, y * edge, z * edge]);
                        }
                    }
                }
                shapes.sort_by_key(|&s| (chips(s), s.iter().sum::<u32>(), s));
                shapes
            }
        }
    }

    /// The shape a number of chips stands for when none is given: the most compact one.
    ///
    /// This reproduces every default shape MaxText and the documentation list; no other shape ties with it.
    pub fn default_for(&self, chip_count: u32) -> Option<[u32; 3]> {
        self.all().into_iter().find(|&s| chips(s) == chip_count)
    }

    /// Why a shape cannot be had, or `None` where it can.
    pub(crate) fn fault(&self, shape: [u32; 3]) -> Option<ShapeFault> {
        if shape.contains(&0) {
            return Some(ShapeFault::Zero);
        }
        match *self {
            Self::Listed(shapes) if shapes.contains(&shape) => None,
            Self::Listed(shapes) => Some(if shapes.contains(&sorted_but_trailing_ones(shape)) {
                ShapeFault::NotAscending
            } else {
                ShapeFault::NotOffered
            }),
            Self::Cubes { below_a_cube, edge, longest, max_chips } => {
                let ascending = sorted(shape);
                if below_a_cube.contains(&shape) {
                    None
                } else if below_a_cube.iter().any(|&s| sorted(s) == ascending) {
                    Some(ShapeFault::NotAscending)
                } else if shape.iter().any(|d| !d.is_multiple_of(edge)) {
                    Some(ShapeFault::NotWholeCubes { edge })
                } else if ascending[2] > longest {
                    Some(ShapeFault::TooLong { longest })
                } else if chips(shape) > max_chips {
                    Some(ShapeFault::TooManyChips { max_chips })
                } else if shape != ascending {
                    Some(ShapeFault::NotAscending)
                } else {
                    None
                }
            }
        }
    }
}

fn sorted(mut shape: [u32; 3]) -> [u32; 3] {
    shape.sort_unstable();
    shape
}

/// Ascending, as two-dimensional shapes are listed: 4x2x1 as 2x4x1.
fn sorted_but_trailing_ones([x, y, z]: [u32; 3]) -> [u32; 3] {
    [x.min(y), x.max(y), z]
}

impl WrapRule {
    /// Which dimensions of a slice of this shape wrap.
    pub fn wrap(&self, shape: [u32; 3]) -> [bool; 3] {
        match *self {
            Self::DimensionOf(length) => shape.map(|d| d == length),
            Self::WholeCubesOf(edge) => [shape.iter().all(|d| d.is_multiple_of(edge)); 3],
        }
    }
}

impl TwistRule {
    /// Whether a slice of this shape can be twisted.
    pub fn allows(&self, shape: [u32; 3]) -> bool {
        let [x, y, z] = shape;
        if x == 0 || shape.iter().any(|d| !d.is_multiple_of(4)) {
            return false;
        }
        let doubled = z == x.saturating_mul(2) && (y == x || y == z);
        match *self {
            Self::Never => false,
            Self::Doubled => doubled,
            Self::DoubledOrPowers { longest } => {
                let power = y == x.saturating_mul(2) && z > x && z.is_multiple_of(x) && (z / x).is_power_of_two();
                z <= longest && (doubled || power)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Generation;

    #[test]
    fn the_most_compact_shape_is_the_default_and_never_tied() {
        for generation in Generation::ALL {
            let shapes = generation.spec().network.shapes.value.all();
            let length = |s: &[u32; 3]| s.iter().sum::<u32>();
            for of_one_size in shapes.chunk_by(|a, b| chips(*a) == chips(*b)) {
                let rivals = of_one_size[1..].iter().filter(|s| length(s) <= length(&of_one_size[0]));
                assert_eq!(rivals.count(), 0, "{generation}: {of_one_size:?}");
            }
        }
    }

    #[test]
    fn shapes_listed_are_the_shapes_without_fault() {
        for generation in Generation::ALL {
            let rule = generation.spec().network.shapes.value;
            let all = rule.all();
            for x in 0..20 {
                for y in 0..34 {
                    for z in 0..34 {
                        assert_eq!(
                            rule.fault([x, y, z]).is_none(),
                            all.contains(&[x, y, z]),
                            "{generation} {x}x{y}x{z}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn twisted_shapes_wrap() {
        for generation in Generation::ALL {
            let network = &generation.spec().network;
            for shape in network.shapes.value.all() {
                let wraps = network.wrap.value.wrap(shape) == [true; 3];
                assert!(!network.twist.value.allows(shape) || wraps, "{generation} {shape:?}");
            }
        }
    }
}
