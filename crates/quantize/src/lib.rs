//! Quantize models: methods as host mathematics, and models from folder to folder with calibration on a device.
//!
//! ```
//! use quantize::methods::{Matrix, Rounding, metrics, nearest};
//!
//! let weight = Matrix::new("layers.0.mlp.up", 2, 4, vec![0.1, -0.2, 0.3, 0.7, 1.4, -0.4, 0.2, 0.0])?;
//! let packed = nearest::quantize(&weight, &Rounding::new("w4a16".parse()?), None)?;
//! assert!(metrics::sqnr_db(weight.values(), &packed.dequantize()) > 20.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
pub mod methods;
pub mod pipeline;

pub use error::Error;
