//! `#[derive(Tree)]` for structures of tensors.
//!
//! ```
//! use trace::{Tensor, Tree};
//!
//! #[derive(Clone, Tree)]
//! struct Layer {
//!     weight: Tensor,
//!     bias: Option<Tensor>,
//!     #[tree(skip)]
//!     name: String,
//! }
//!
//! let layer = Layer { weight: Tensor::from([1.0f32, 2.0]), bias: None, name: "first".into() };
//! assert_eq!(layer.paths(), ["weight"]);
//! let same = layer.map_leaves(Tensor::clone);
//! assert_eq!((same.leaves().len(), same.name.as_str()), (1, "first"));
//! ```

mod home;
mod tree;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Derives `trace::Tree`: fields in order, under their names. `#[tree(skip)]` marks a field that holds no tensors and
/// is cloned; `#[tree(rename = "other")]` gives it another name in paths.
///
/// The crate that derives depends on `trace` or on `tpubridge`; `#[tree(crate = path::of::trace)]` says where `trace` is
/// when it comes by another way.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    tree::derived(&input).unwrap_or_else(Error::into_compile_error).into()
}
