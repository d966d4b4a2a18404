//! Products in the widest vectors that the machine has; sums are the same to the bit in all of them.

use crate::methods::linear_algebra::{Rows, add_tiles};

/// A function that adds a product of one type in two vectors of columns, for each width of vectors.
macro_rules! widest {
    ($name:ident, $number:ty, $narrow:literal, $avx2:literal, $avx512:literal) => {
        pub(super) fn $name(
            c: &mut [$number],
            stride: usize,
            a: Rows<'_, $number>,
            b: Rows<'_, $number>,
            sizes: [usize; 3],
        ) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2(
                    c: &mut [$number],
                    stride: usize,
                    a: Rows<'_, $number>,
                    b: Rows<'_, $number>,
                    sizes: [usize; 3],
                ) {
                    add_tiles::<$number, $avx2>(c, stride, a, b, sizes);
                }
                #[target_feature(enable = "avx512f")]
                fn avx512(
                    c: &mut [$number],
                    stride: usize,
                    a: Rows<'_, $number>,
                    b: Rows<'_, $number>,
                    sizes: [usize; 3],
                ) {
                    add_tiles::<$number, $avx512>(c, stride, a, b, sizes);
                }
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the machine has the instructions that the function is compiled to.
                    #[allow(unsafe_code)]
                    return unsafe { avx512(c, stride, a, b, sizes) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine has the instructions that the function is compiled to.
                    #[allow(unsafe_code)]
                    return unsafe { avx2(c, stride, a, b, sizes) };
                }
            }
            add_tiles::<$number, $narrow>(c, stride, a, b, sizes);
        }
    };
}

widest!(add_tiles_f32, f32, 8, 16, 32);
widest!(add_tiles_f64, f64, 4, 8, 16);
