//! Convolutions with features last, and pooling.

use tensor::DType;
use trace::{Convolution, Key, Tensor, Tree, Window};

use crate::init::Init;
use crate::layers::Bias;

/// A convolution over `N` spatial axes of `[batch, spatial…, features]`.
#[derive(Clone, Debug, Tree)]
pub struct Conv<const N: usize> {
    /// `[spatial…, features in a group, features out]`.
    pub kernel: Tensor,
    /// `[features out]`.
    pub bias: Option<Tensor>,
    /// How the window moves.
    #[tree(skip)]
    pub how: Convolution,
}

/// Over one axis.
pub type Conv1d = Conv<1>;
/// Over two axes.
pub type Conv2d = Conv<2>;
/// Over three axes.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// A drawn kernel of these sizes, from `input` features to `output`.
    #[track_caller]
    pub fn init(
        key: &Key,
        (input, output): (usize, usize),
        sizes: [usize; N],
        how: Convolution,
        bias: Bias,
        weight: Init,
    ) -> Conv<N> {
        let mut dims = sizes.to_vec();
        dims.extend([input / how.groups.max(1), output]);
        Conv {
            kernel: weight.draw(key, DType::F32, &dims),
            bias: (bias == Bias::Zero).then(|| Tensor::zeros(DType::F32, &[output])),
            how,
        }
    }

    /// Applied to `[batch, spatial…, features]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("convolution", || {
            let y = x.convolve(&self.kernel.cast(x.dtype()), &self.how);
            match &self.bias {
                Some(bias) => y + bias.cast(x.dtype()),
                None => y,
            }
        })
    }
}

/// The largest of each window over the spatial axes.
#[track_caller]
pub fn max_pool(x: &Tensor, sizes: &[usize], strides: &[usize], padding: &[(i64, i64)]) -> Tensor {
    x.window_max(&Window::spatial(sizes, strides, padding))
}

/// The mean of each window over the spatial axes, of the elements that are there.
#[track_caller]
pub fn average_pool(x: &Tensor, sizes: &[usize], strides: &[usize], padding: &[(i64, i64)]) -> Tensor {
    x.window_mean(&Window::spatial(sizes, strides, padding))
}

/// The mean over all positions: `[batch, features]`, summed in `f32`.
#[track_caller]
pub fn global_average_pool(x: &Tensor) -> Tensor {
    let axes: Vec<usize> = (1..x.rank().saturating_sub(1)).collect();
    x.cast(DType::F32).mean(&axes).cast(x.dtype())
}
