//! What the code of a TPU kernel says: which block of each operand and result one step of its grid has in VMEM, and the types that it
//! multiplies.

use hlo::Attr;
use xla::PrimitiveType;

use crate::machine::stablehlo_name;

const BOUNDS: &str = "window_bounds";

/// Sizes of the windows of operands and results in their order, those that are prefetched left out; none where the code says nothing.
/// The code is MLIR, as bytecode (kernels of JAX) or as text (ours).
pub(crate) fn kernel_windows(body: &[u8]) -> Vec<Vec<u64>> {
    if hlo::bytecode::is_bytecode(body) {
        let attributes = hlo::bytecode::builtin_attributes(body).unwrap_or_default();
        return attributes.iter().find_map(listed).unwrap_or_default();
    }
    let text = String::from_utf8_lossy(body);
    let arrays = text.split(BOUNDS).skip(1).filter_map(|after| {
        let (_, sizes) = after.split_once("array<i64:")?;
        let (sizes, _) = sizes.split_once('>')?;
        sizes.split(',').map(|size| size.trim().parse().ok()).collect::<Option<Vec<u64>>>()
    });
    arrays.collect()
}

/// Types that matrix units may be given.
const MULTIPLIED: [PrimitiveType; 7] = [
    PrimitiveType::F32,
    PrimitiveType::Bf16,
    PrimitiveType::S8,
    PrimitiveType::S4,
    PrimitiveType::F8E4M3Fn,
    PrimitiveType::F8E5M2,
    PrimitiveType::F8E4M3B11Fnuz,
];

/// The type that the first matmul of a kernel multiplies: operands of another were converted before. `None` where the code has none, or
/// is bytecode, whose ops are not read.
pub(crate) fn multiplied(body: &[u8]) -> Option<PrimitiveType> {
    let text = String::from_utf8_lossy(body);
    let (_, matmul) = text.split_once("tpu.matmul ")?;
    // The types stand at the end of the line: those of the operands, of what is added, and of the result.
    let (_, types) = matmul.lines().next()?.rsplit_once(" : ")?;
    let (first, _) = types.strip_prefix("vector<")?.split_once('>')?;
    let (_, element) = first.rsplit_once('x')?;
    MULTIPLIED.into_iter().find(|known| stablehlo_name(*known) == element)
}

/// The windows of a list of them.
fn listed(attribute: &Attr) -> Option<Vec<Vec<u64>>> {
    let Attr::Array(windows) = attribute else { return None };
    let window = |attribute: &Attr| {
        let Attr::Dict(window) = attribute else { return None };
        let Attr::DenseArray(_, sizes) = window.get(BOUNDS)? else { return None };
        sizes.iter().map(|&size| u64::try_from(size).ok()).collect::<Option<Vec<u64>>>()
    };
    let all: Option<Vec<Vec<u64>>> = windows.iter().map(window).collect();
    all.filter(|windows| !windows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JAX's megablox for 294912 rows of 2048, 1408 columns and 64 groups, as libtpu 0.0.51 has it: rows, matrices, result.
    #[test]
    fn bytecode_has_windows() {
        let body = include_bytes!("../tests/data/gmm.mosaic.bc");
        assert_eq!(kernel_windows(body), [vec![512, 1024], vec![1, 1024, 1024], vec![512, 1024]]);
        let mut changed = body.to_vec();
        for at in 0..body.len() {
            kernel_windows(&body[..at]);
            for flipped in [0x01, 0x55, 0xff] {
                changed[at] ^= flipped;
                kernel_windows(&changed);
                changed[at] ^= flipped;
            }
        }
    }

    #[test]
    fn text_says_what_is_multiplied() {
        let check = |types: &str, expected| {
            let text = format!(
                "  %v4 = tpu.matmul %v1, %v2, %v3 {{dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], \
                 [0, 0, 1, 1], [], []>, transpose_lhs_hint = false}} : {types} -> vector<32x128xf32>\n  return : i32"
            );
            assert_eq!(multiplied(text.as_bytes()), expected, "{types}");
        };
        let f8 = "vector<32x256xf8E4M3FN>, vector<256x128xf8E4M3FN>, vector<32x128xf32>";
        check(f8, Some(PrimitiveType::F8E4M3Fn));
        check("vector<32x256xbf16>, vector<256x128xbf16>, vector<32x128xf32>", Some(PrimitiveType::Bf16));
        check("vector<32x256xi8>, vector<256x128xi8>, vector<32x128xi32>", Some(PrimitiveType::S8));
        check("vector<32x256xc64>, vector<256x128xc64>, vector<32x128xc64>", None);
        for nothing in ["", "tpu.matmul ", "tpu.matmul %a : vector<", "tpu.matmul %a : vector<f32>", "ML\u{ef}R"] {
            assert_eq!(multiplied(nothing.as_bytes()), None, "{nothing}");
        }
    }

    #[test]
    fn text_has_windows() {
        let text = "window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 512, 1024>}, \
                    {transform_indices = @transform_1, window_bounds = array<i64: 1, 1024, 128>}]";
        assert_eq!(kernel_windows(text.as_bytes()), [vec![512, 1024], vec![1, 1024, 128]]);
        assert!(kernel_windows(b"ML\xefR").is_empty() && kernel_windows(b"no kernel").is_empty());
    }
}
