//! Sliding windows: sizes, strides, dilations and padding.

use crate::ir::DYNAMIC;
use crate::ops::def::{OpView, Violation};

use super::{dimensions, require};

/// Where a window's attributes are and which clauses they answer to.
pub(crate) struct WindowForm {
    /// Name of the base dilation attribute, if the op has one.
    pub(crate) base_dilations: Option<&'static str>,
    /// Name of the window dilation attribute, if the op has one.
    pub(crate) window_dilations: Option<&'static str>,
    /// `0 < sizes`; `None` where the specification allows empty windows.
    pub(crate) sizes_positive: Option<&'static str>,
    /// Number of strides, then `0 < strides`.
    pub(crate) strides: [&'static str; 2],
    /// Number of base dilations, then that they are positive.
    pub(crate) base: [&'static str; 2],
    /// Number of window dilations, then that they are positive.
    pub(crate) dilations: [&'static str; 2],
    /// Shape of the padding.
    pub(crate) padding: &'static str,
    /// Result shape.
    pub(crate) result: &'static str,
}

/// Padding before and after; `None` where it is known only at run time.
pub(crate) type Padding = Option<(i64, i64)>;

/// One dimension of a window.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// [`DYNAMIC`] only where the size is that of a type.
    size: i64,
    stride: i64,
    base_dilation: i64,
    window_dilation: i64,
    padding: Padding,
}

/// A window over `sizes.len()` dimensions.
pub(crate) struct Window {
    extents: Vec<Extent>,
    clause: &'static str,
}

impl Window {
    /// Reads strides, dilations and padding of a window of those sizes, each of the expected length.
    ///
    /// The sizes are an attribute's where they must be positive, else a type's.
    pub(crate) fn read(op: &OpView<'_>, sizes: &[i64], form: &WindowForm) -> Result<Window, Violation> {
        let padding = match op.dense_i64s("padding")? {
            None => vec![0; 2 * sizes.len()],
            Some((shape, values)) => {
                require!(
                    shape == [sizes.len() as i64, 2],
                    form.padding,
                    "padding has shape {shape:?}, [{}, 2] expected",
                    sizes.len()
                );
                values
            }
        };
        Self::with_padding(op, sizes, form, padding.as_chunks().0.iter().map(|&[low, high]| Some((low, high))))
    }

    /// As [`Window::read`], with the padding given.
    pub(crate) fn with_padding(
        op: &OpView<'_>,
        sizes: &[i64],
        form: &WindowForm,
        padding: impl IntoIterator<Item = Padding>,
    ) -> Result<Window, Violation> {
        let count = sizes.len();
        let positive = |name: &'static str, [length, sign]: [&'static str; 2]| {
            let values = op.i64s_or(name, count, 1)?;
            dimensions::count(length, name, values.len(), count)?;
            for &value in &values {
                require!(value > 0, sign, "{name} holds {value}, which is not positive");
            }
            Ok(values)
        };
        let strides = positive("window_strides", form.strides)?;
        let base = form.base_dilations.map_or(Ok(vec![1; count]), |name| positive(name, form.base))?;
        let dilations = form.window_dilations.map_or(Ok(vec![1; count]), |name| positive(name, form.dilations))?;
        let mut extents = Vec::with_capacity(count);
        for (n, padding) in padding.into_iter().take(count).enumerate() {
            let size = sizes[n];
            if let Some(clause) = form.sizes_positive {
                require!(size > 0, clause, "window dim {n} is {size}, which is not positive");
            }
            extents.push(Extent {
                size,
                stride: strides[n],
                base_dilation: base[n],
                window_dilation: dilations[n],
                padding,
            });
        }
        Ok(Window { extents, clause: form.result })
    }

    /// How many positions the window has along each dimension of `base`; unknown where either size is.
    pub(crate) fn positions(&self, base: &[i64]) -> Result<Vec<i64>, Violation> {
        self.extents
            .iter()
            .zip(base)
            .enumerate()
            .map(|(n, (extent, &size))| match extent.positions(size) {
                Some(count) => Ok(count),
                None => Err(Violation::new(self.clause, format!("the window over dim {n} overflows 64 bits"))),
            })
            .collect()
    }
}

impl Extent {
    fn positions(&self, base: i64) -> Option<i64> {
        let (low, high) = match self.padding {
            Some(padding) if base != DYNAMIC && self.size != DYNAMIC => padding,
            _ => return Some(DYNAMIC),
        };
        let padded = dilated(base, self.base_dilation)?.checked_add(low)?.checked_add(high)?;
        let window = dilated(self.size, self.window_dilation)?;
        if padded <= 0 || window > padded {
            return Some(0);
        }
        Some((padded - window) / self.stride + 1)
    }
}

/// `size` elements with `dilation - 1` holes between neighbours.
fn dilated(size: i64, dilation: i64) -> Option<i64> {
    if size == 0 { Some(0) } else { size.checked_sub(1)?.checked_mul(dilation)?.checked_add(1) }
}
