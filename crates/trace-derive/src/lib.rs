//! `#[derive(Tree)]` for structures of tensors.

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
