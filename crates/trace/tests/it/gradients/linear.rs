//! Cases of linear algebra and Fourier transforms.

use serde_json::json;
use tensor::DType;
use trace::{Fourier, Side, Tensor, Triangle, Triangular};

use super::case::Case;

/// `x xᵀ` and more on the diagonal: symmetric and positive definite.
fn definite(x: &Tensor) -> Tensor {
    let size = x.dim(-1);
    let row = Tensor::iota(DType::I32, &[size, size], 0);
    let identity = row.equals(&Tensor::iota(DType::I32, &[size, size], 1)).cast(x.dtype());
    &x.matmul(&x.swap_axes(-1, -2)) + &(&identity * size as f64)
}

/// `z zᴴ` and more on the diagonal: Hermitian and positive definite.
fn definite_complex(x: &Tensor, y: &Tensor) -> Tensor {
    let z = x.complex(y);
    let size = x.dim(-1);
    let row = Tensor::iota(DType::I32, &[size, size], 0);
    let identity = row.equals(&Tensor::iota(DType::I32, &[size, size], 1)).cast(x.dtype());
    let more = (&identity * size as f64).complex(&identity.zeros_like());
    &z.matmul(&z.conj().swap_axes(-1, -2)) + &more.broadcast_to(z.dims())
}

fn parts(z: &Tensor) -> Vec<Tensor> {
    vec![z.real(), z.imag()]
}

pub(crate) fn cases() -> Vec<Case> {
    let f32_only = [DType::F32];
    let mut cases: Vec<Case> = [&[4usize, 4][..], &[2, 3, 3]]
        .into_iter()
        .map(|dims| {
            Case::new(format!("cholesky {dims:?}"), "cholesky", &[dims], |x, _| vec![definite(&x[0]).cholesky()])
                .only(&f32_only)
                .second()
        })
        .collect();
    cases.push(
        Case::new("cholesky, not symmetric", "cholesky_raw", &[&[3, 3]], |x, _| vec![x[0].cholesky()])
            .input(0, &[4.0, 0.5, 0.3, 0.7, 5.0, -0.2, 0.1, 0.4, 3.0])
            .only(&f32_only),
    );
    cases.push(
        Case::new("cholesky complex", "cholesky_complex", &[&[2, 3, 3], &[2, 3, 3]], |x, _| {
            parts(&definite_complex(&x[0], &x[1]).cholesky())
        })
        .only(&f32_only)
        .second(),
    );
    cases.push(
        Case::new("cholesky complex, not Hermitian", "cholesky_raw_complex", &[&[3, 3], &[3, 3]], |x, _| {
            parts(&x[0].complex(&x[1]).cholesky())
        })
        .input(0, &[4.0, 0.5, 0.3, 0.7, 5.0, -0.2, 0.1, 0.4, 3.0])
        .input(1, &[0.1, 0.4, -0.3, -0.6, 0.2, 0.5, 0.3, -0.1, -0.2])
        .only(&f32_only),
    );
    for (side, is_transposed) in [(Side::Left, false), (Side::Left, true), (Side::Right, false), (Side::Right, true)] {
        let how = Triangular { side, triangle: Triangle::Lower, is_transposed, has_unit_diagonal: false };
        let b: &[usize] = if side == Side::Left { &[2, 3, 2] } else { &[2, 2, 3] };
        let name = format!("triangular_solve complex/{side:?} {is_transposed}");
        let case = Case::new(name, "triangular_solve_complex", &[&[2, 3, 3], &[2, 3, 3], b, b], move |x, _| {
            parts(&definite_complex(&x[0], &x[1]).triangular_solve(&x[2].complex(&x[3]), how))
        });
        let settings = json!({"left": side == Side::Left, "lower": true, "transpose": is_transposed, "unit": false});
        cases.push(case.with(settings).only(&f32_only).within(2e-4));
    }
    for side in [Side::Left, Side::Right] {
        for triangle in [Triangle::Lower, Triangle::Upper] {
            for is_transposed in [false, true] {
                for has_unit_diagonal in [false, true] {
                    let how = Triangular { side, triangle, is_transposed, has_unit_diagonal };
                    let name = format!("triangular_solve/{side:?} {triangle:?} {is_transposed} {has_unit_diagonal}");
                    let b: &[usize] = if side == Side::Left { &[2, 3, 2] } else { &[2, 2, 3] };
                    let settings = json!({
                        "left": side == Side::Left,
                        "lower": triangle == Triangle::Lower,
                        "transpose": is_transposed,
                        "unit": has_unit_diagonal,
                    });
                    let case = Case::new(name, "triangular_solve", &[&[2, 3, 3], b], move |x, _| {
                        vec![definite(&x[0]).triangular_solve(&x[1], how)]
                    });
                    let mut case = case.with(settings).only(&f32_only).within(2e-4);
                    case.has_second = !is_transposed;
                    cases.push(case);
                }
            }
        }
    }
    let transforms: [(&str, Fourier, &[usize], &[usize]); 4] = [
        ("fft", Fourier::Forward, &[2, 6], &[6]),
        ("ifft", Fourier::Inverse, &[2, 5], &[5]),
        ("fft 2d", Fourier::Forward, &[2, 4, 3], &[4, 3]),
        ("ifft 3d", Fourier::Inverse, &[2, 3, 4], &[2, 3, 4]),
    ];
    for (name, fourier, dims, lengths) in transforms {
        cases.push(
            Case::new(format!("fft/{name}"), "fft", &[dims, dims], move |x, _| {
                let y = x[0].complex(&x[1]).fft(fourier, lengths);
                vec![y.real(), y.imag()]
            })
            .with(json!({"name": if fourier == Fourier::Forward { "FFT" } else { "IFFT" }, "lengths": lengths}))
            .only(&f32_only)
            .second(),
        );
    }
    for lengths in [&[6usize][..], &[5], &[3, 4], &[2, 5]] {
        let dims: Vec<usize> = std::iter::once(2).chain(lengths.iter().copied()).collect();
        cases.push(
            Case::new(format!("fft/rfft {lengths:?}"), "rfft", &[&dims], {
                let lengths = lengths.to_vec();
                move |x, _| {
                    let y = x[0].fft(Fourier::RealForward, &lengths);
                    vec![y.real(), y.imag(), y.abs()]
                }
            })
            .with(json!({ "lengths": lengths }))
            .only(&f32_only)
            .second(),
        );
        let mut half = dims.clone();
        half[dims.len() - 1] = dims[dims.len() - 1] / 2 + 1;
        cases.push(
            Case::new(format!("fft/irfft {lengths:?}"), "irfft", &[&half, &half], {
                let lengths = lengths.to_vec();
                move |x, _| vec![x[0].complex(&x[1]).fft(Fourier::RealInverse, &lengths)]
            })
            .with(json!({ "lengths": lengths }))
            .only(&f32_only)
            .second(),
        );
    }
    cases
}
