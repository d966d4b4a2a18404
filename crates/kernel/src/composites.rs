//! Composites that models write and TPUs run as kernels: names, operands, results and attributes, for writers and lowering.
//!
//! Attributes that ask for block sizes (`block_q`, …) are a kernel's own; models leave them out.

use hlo::{Attr, Attrs, ElementType, Real};
use tensor::DType;

/// What names of our composites begin with.
pub const NAMESPACE: &str = "tpubridge.";

/// Flash attention. Operands: queries `[batch, heads, queries, head]`, keys and values `[batch, kv_heads, keys, head]`, and where
/// sequences are packed the segment ids of queries and keys `i32 [batch, 1, …]`. Then, where there is one, a mask
/// `[batch, heads, queries, keys]`, whose batch and heads may be 1: `i8` masks keys where it is 0, `bf16` or `f32` is added to the scaled
/// scores, and its queries may be 1. Results: attention, zeros for queries that see no key, and logsumexp of the scores
/// `f32 [batch, heads, 1, queries]`. Attributes: [`FlashAttributes`].
pub const FLASH: &str = "tpubridge.flash_attention";

/// Gradients of [`FLASH`]. Operands: queries, keys, values, attention, logsumexp, gradient of attention, and segment ids and
/// a mask as there. Results: gradients of queries, keys and values. Attributes: [`FlashAttributes`].
pub const FLASH_BACKWARD: &str = "tpubridge.flash_attention_backward";

/// Attention to a paged KV cache. Operands: the layer `i32 [1]`, the pages of each sequence `i32 [sequences * table]`, positions
/// filled before its queries and tokens that have queries `i32 [sequences]`, queries `[sequences, kv_heads, queries, head]` (of each KV
/// head those of its group, token by token), keys and values `[layers, pages, kv_heads, page_size, head]`. Then, where there are any,
/// attention sinks `f32 [kv_heads, group]`, and scales of keys and of values `f32 [layers, pages, kv_heads, page_size]`, which are codes
/// then. Where queries have the features of values and of keys together, a value is a part of its key (multi-head latent attention, MLA):
/// a key is its value and then what the array of keys has. Result: like the queries, with the features of values; of queries that are
/// of no token it may be anything. Attributes: [`PagedAttributes`].
pub const PAGED_ATTENTION: &str = "tpubridge.paged_attention";

/// Embedding look-up on SparseCores. Operands: table `[rows, size]`, ids `i32 [ids]`, clamped to the table. Result: `[ids, size]`.
pub const EMBEDDING_LOOKUP: &str = "tpubridge.embedding_lookup";

/// RMS norm. Operands: rows `[rows, size]`, weight `[1, size]`, and where there is one a bias `[1, size]`. Result: rows. Attributes:
/// [`NormAttributes`].
pub const RMS_NORM: &str = "tpubridge.rms_norm";

/// Gradients of [`RMS_NORM`]. Operands: rows, weight, the gradient of its result, and where there is one what is added to the gradient of
/// the rows (that of a residual connection). Results: gradients of the rows, and of the weight as `f32`. Attributes: [`NormAttributes`].
pub const RMS_NORM_BACKWARD: &str = "tpubridge.rms_norm_backward";

/// Layer norm. Operands, result and attributes: as of [`RMS_NORM`].
pub const LAYER_NORM: &str = "tpubridge.layer_norm";

/// Gradients of [`LAYER_NORM`]. Operands and attributes: as of [`RMS_NORM_BACKWARD`]. Results: as there, and the gradient of the bias as
/// `f32`.
pub const LAYER_NORM_BACKWARD: &str = "tpubridge.layer_norm_backward";

/// Cross-entropy fused with the LM head. Operands: `x [rows, depth]`, `weight [vocab_size, depth]`, labels
/// `i32 [1, rows]`. Results `f32 [1, rows]`: losses, and logsumexp of the logits. Attributes: [`CrossEntropyAttributes`].
pub const CROSS_ENTROPY: &str = "tpubridge.cross_entropy";

/// Gradients of [`CROSS_ENTROPY`]. Operands: its own, logsumexp, and `f32 [1, rows]` of the gradient of logits: the factor of
/// the probabilities, and what is subtracted at the label. Results: gradients of `x` and of `weight`. Attributes:
/// [`CrossEntropyAttributes`].
pub const CROSS_ENTROPY_BACKWARD: &str = "tpubridge.cross_entropy_backward";

/// Grouped matmul. Operands: where matrices are those of all layers the layer `i32 [1]`, rows `[rows, inner]`, matrices
/// `[groups, inner, columns]`, or `[groups, columns, inner]` when transposed, with an axis of layers first where there is a layer, in the
/// type of the rows or in codes of 8 or 4 bits, where matrices have them scales of their columns `f32 [groups, 1, columns]`, group sizes
/// `i32 [groups]`. Rows may be codes of 8 bits where matrices are codes. Result: `[rows, columns]`, zeros where a row is of no group.
/// Attributes: [`GroupedAttributes`].
pub const GROUPED_MATMUL: &str = "tpubridge.gmm";

/// Gradient of the matrices of a [`GROUPED_MATMUL`]. Operands: rows, gradients `[rows, columns]`, group sizes. Result:
/// `[groups, inner, columns]`. Attributes: [`GroupedAttributes`].
pub const GROUPED_MATMUL_GRADIENT: &str = "tpubridge.tgmm";

/// Matmul with a quantized weight. Operands: `x [rows, inner]` of `bf16` or `f32`, codes `[inner, columns]` of `i4`, `i8`,
/// `f8E4M3FN` or `f8E5M2`, scales `f32 [groups, columns]`. Result: `f32 [rows, columns]`.
pub const QUANTIZED_MATMUL: &str = "tpubridge.quantized_matmul";

/// Attributes of [`FLASH`] and [`FLASH_BACKWARD`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashAttributes {
    /// Causal: queries attend to keys up to their own position.
    pub causal: bool,
    /// Sliding window: how many keys a query attends to; only with `causal`.
    pub window: Option<usize>,
    /// Factor of the scores before the softmax.
    pub scale: f32,
    /// Scaled scores become `cap * tanh(scores / cap)`, before masks.
    pub soft_cap: Option<f32>,
    /// The share of pairs in blocks that a mask does not hide in whole, where that is known: what a call is said to cost.
    pub density: Option<f32>,
}

impl FlashAttributes {
    /// As a composite has them.
    pub fn to_attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        attrs.set("causal", Attr::Bool(self.causal));
        if let Some(window) = self.window {
            attrs.set("window", Attr::i64(window as i64));
        }
        attrs.set("scale", float(self.scale));
        if let Some(cap) = self.soft_cap {
            attrs.set("soft_cap", float(cap));
        }
        if let Some(density) = self.density {
            attrs.set("density", float(density));
        }
        attrs
    }

    /// Those a composite has; what is not written is not causal, not scaled and not capped.
    pub fn of(attrs: &Attrs) -> FlashAttributes {
        let causal = is_set(attrs, "causal");
        FlashAttributes {
            causal,
            window: size(attrs, "window"),
            scale: float_of(attrs, "scale").unwrap_or(1.0),
            soft_cap: float_of(attrs, "soft_cap"),
            density: float_of(attrs, "density"),
        }
    }
}

/// Attributes of [`PAGED_ATTENTION`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagedAttributes {
    /// Heads of queries for each KV head.
    pub group: usize,
    /// Factor of the scores before the softmax.
    pub scale: f32,
    /// Sliding window: how many keys a query attends to.
    pub window: Option<usize>,
    /// A query attends to keys of its own chunk of so many positions.
    pub chunk: Option<usize>,
    /// Scores become `cap * tanh(scores / cap)`.
    pub soft_cap: Option<f32>,
}

impl PagedAttributes {
    /// As a composite has them.
    pub fn to_attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        attrs.set("group", Attr::i64(self.group as i64));
        attrs.set("scale", float(self.scale));
        if let Some(window) = self.window {
            attrs.set("window", Attr::i64(window as i64));
        }
        if let Some(chunk) = self.chunk {
            attrs.set("chunk", Attr::i64(chunk as i64));
        }
        if let Some(cap) = self.soft_cap {
            attrs.set("soft_cap", float(cap));
        }
        attrs
    }

    /// Those a composite has; what is not written is one head, not scaled, without window, chunks and cap.
    pub fn of(attrs: &Attrs) -> PagedAttributes {
        PagedAttributes {
            group: size(attrs, "group").unwrap_or(1).max(1),
            scale: float_of(attrs, "scale").unwrap_or(1.0),
            window: size(attrs, "window"),
            chunk: size(attrs, "chunk"),
            soft_cap: float_of(attrs, "soft_cap"),
        }
    }
}

/// Attributes of [`RMS_NORM`], [`LAYER_NORM`] and their gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormAttributes {
    /// Added to the mean of squares.
    pub epsilon: f32,
    /// Element type of the first result, where it is not that of the rows.
    pub result: Option<DType>,
}

impl NormAttributes {
    /// As a composite has them.
    pub fn to_attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        attrs.set("epsilon", float(self.epsilon));
        if let Some(result) = self.result {
            attrs.set("result", Attr::string(result.name()));
        }
        attrs
    }

    /// Those a composite has.
    pub fn of(attrs: &Attrs) -> NormAttributes {
        NormAttributes { epsilon: float_of(attrs, "epsilon").unwrap_or(1e-6), result: dtype_of(attrs, "result") }
    }
}

/// When a composite is to become a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UseKernel {
    /// Wherever the kernel takes the sizes.
    #[default]
    Always,
    /// Only where the kernel is faster than what the compiler makes of the decomposition.
    WhereFaster,
}

/// Attributes of [`CROSS_ENTROPY`] and [`CROSS_ENTROPY_BACKWARD`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrossEntropyAttributes {
    /// When it is a kernel.
    pub use_kernel: UseKernel,
}

impl CrossEntropyAttributes {
    /// As a composite has them.
    pub fn to_attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        if self.use_kernel == UseKernel::WhereFaster {
            attrs.set("use", Attr::string("faster"));
        }
        attrs
    }

    /// Those a composite has.
    pub fn of(attrs: &Attrs) -> CrossEntropyAttributes {
        let is_faster = attrs.get("use").and_then(Attr::as_str) == Some("faster");
        CrossEntropyAttributes { use_kernel: if is_faster { UseKernel::WhereFaster } else { UseKernel::Always } }
    }
}

/// Attributes of [`GROUPED_MATMUL`] and [`GROUPED_MATMUL_GRADIENT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupedAttributes {
    /// Matrices are `[groups, columns, inner]`.
    pub transposed: bool,
    /// How many rows groups are expected to have together, where that is less than there are: what a call is said to cost.
    pub expected_rows: Option<usize>,
    /// Element type of the result, where it is not that of the rows.
    pub result: Option<DType>,
}

impl GroupedAttributes {
    /// As a composite has them.
    pub fn to_attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        if self.transposed {
            attrs.set("transposed", Attr::Bool(true));
        }
        if let Some(rows) = self.expected_rows {
            attrs.set("expected_rows", Attr::i64(rows as i64));
        }
        if let Some(result) = self.result {
            attrs.set("result", Attr::string(result.name()));
        }
        attrs
    }

    /// Those a composite has.
    pub fn of(attrs: &Attrs) -> GroupedAttributes {
        GroupedAttributes {
            transposed: is_set(attrs, "transposed"),
            expected_rows: size(attrs, "expected_rows"),
            result: dtype_of(attrs, "result"),
        }
    }
}

fn float(value: f32) -> Attr {
    Attr::Float(Real::new(f64::from(value)), ElementType::Plain(DType::F32))
}

fn float_of(attrs: &Attrs, name: &str) -> Option<f32> {
    match attrs.get(name) {
        Some(Attr::Float(value, _)) => Some(value.get() as f32),
        _ => None,
    }
}

fn dtype_of(attrs: &Attrs, name: &str) -> Option<DType> {
    attrs.get(name).and_then(Attr::as_str).and_then(DType::from_name)
}

fn is_set(attrs: &Attrs, name: &str) -> bool {
    attrs.get(name).and_then(Attr::as_bool).unwrap_or(false)
}

pub(crate) fn size(attrs: &Attrs, name: &str) -> Option<usize> {
    attrs.get(name).and_then(Attr::as_int).and_then(|n| usize::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        for (window, density) in [(None, None), (Some(7), Some(0.25))] {
            let flash = FlashAttributes { causal: true, window, scale: 0.125, soft_cap: density, density };
            assert_eq!(FlashAttributes::of(&flash.to_attrs()), flash);
        }
        let full = FlashAttributes { causal: false, window: None, scale: 1.0, soft_cap: None, density: None };
        assert_eq!(FlashAttributes::of(&Attrs::new()), full);
        assert_eq!(FlashAttributes::of(&full.to_attrs()), full);
        for (window, chunk, soft_cap) in [(None, None, None), (Some(9), None, Some(30.0)), (None, Some(8), None)] {
            let paged = PagedAttributes { group: 4, scale: 0.25, window, chunk, soft_cap };
            assert_eq!(PagedAttributes::of(&paged.to_attrs()), paged);
        }
        for result in [None, Some(DType::BF16)] {
            let norm = NormAttributes { epsilon: 1e-5, result };
            assert_eq!(NormAttributes::of(&norm.to_attrs()), norm);
        }
        for use_kernel in [UseKernel::Always, UseKernel::WhereFaster] {
            let loss = CrossEntropyAttributes { use_kernel };
            assert_eq!(CrossEntropyAttributes::of(&loss.to_attrs()), loss);
        }
        for (transposed, expected_rows, result) in [(false, None, None), (true, Some(100), Some(DType::BF16))] {
            let grouped = GroupedAttributes { transposed, expected_rows, result };
            assert_eq!(GroupedAttributes::of(&grouped.to_attrs()), grouped);
        }
    }
}
