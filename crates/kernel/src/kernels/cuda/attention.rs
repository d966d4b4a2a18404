//! Flash attention by cuDNN's fused attention, forward and backward.

use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, ElementType, Func, FuncBuilder, OpKind, TensorType, Type, Value, Visibility};
use serde_json::{Value as Json, json};
use tensor::{DType, Spec};

use crate::call::tensor_type;
use crate::composites::FlashAttributes;
use crate::error::Error;
use crate::kernels::Request;

const KERNEL: &str = "cuDNN attention";
const FORWARD: &str = "__cudnn$fmhaSoftmax";
const BACKWARD: &str = "__cudnn$fmhaSoftmaxBackward";
/// cuDNN takes larger heads on some GPUs only.
const LARGEST_HEAD: usize = 128;
/// The order of dimensions in memory, from the innermost: `[batch, position, head, …]`, as projections write them. Transposes
/// around the call are free then.
const BY_POSITION: [i64; 4] = [3, 1, 2, 0];

/// One call of attention.
struct Attention {
    query: Spec,
    key: Spec,
    attributes: FlashAttributes,
}

impl Attention {
    fn read(request: &Request<'_>, operands: usize) -> Result<Attention, Error> {
        let refused = |message: String| Err(Error::Shape { kernel: KERNEL, message });
        let [_, heads, queries, head] = request.dims(KERNEL, 0)?;
        let [_, kv_heads, keys, _] = request.dims(KERNEL, 1)?;
        let (Some(query), Some(key)) = (request.operands.first(), request.operands.get(1)) else {
            return refused("operands are missing".into());
        };
        let attributes = FlashAttributes::of(request.attributes);
        if request.operands.len() != operands {
            return refused("packed sequences and masks are not for this call".into());
        }
        if attributes.soft_cap.is_some() {
            return refused("it has no soft cap".into());
        }
        if !matches!(query.dtype, DType::BF16 | DType::F16) {
            return refused(format!("it has no {}", query.dtype));
        }
        if head % 8 != 0 || head > LARGEST_HEAD {
            return refused(format!("heads of {head}: they must be multiples of 8, at most {LARGEST_HEAD}"));
        }
        if queries % 2 != 0 || keys % 2 != 0 || (attributes.causal && queries != keys) {
            return refused(format!("{queries} queries and {keys} keys"));
        }
        if kv_heads == 0 || heads % kv_heads != 0 || (attributes.window.is_some() && !attributes.causal) {
            return refused(format!("{heads} heads with {kv_heads} KV heads, or a window that is not causal"));
        }
        Ok(Attention { query: query.clone(), key: key.clone(), attributes })
    }

    /// `[batch, heads, queries, keys]`.
    fn scores(&self) -> [usize; 4] {
        let at = |spec: &Spec, n: usize| spec.dims.get(n).copied().unwrap_or(0);
        [at(&self.query, 0), at(&self.query, 1), at(&self.query, 2), at(&self.key, 2)]
    }

    /// Logarithms of sums, as cuDNN has them.
    fn stats(&self) -> Spec {
        let [batch, heads, queries, _] = self.scores();
        Spec::new(DType::F32, [batch, heads, queries])
    }

    /// The same, as the composite has them.
    fn row(&self) -> Spec {
        let [batch, heads, queries, _] = self.scores();
        Spec::new(DType::F32, [batch, heads, 1, queries])
    }

    /// The call's configuration. Numbers of 64 bits are strings there.
    fn config(&self, matmuls: &[(&str, i64, i64)]) -> String {
        let text = |n: &i64| n.to_string();
        let dims: Vec<String> = self.scores().iter().map(ToString::to_string).collect();
        let element = if self.query.dtype == DType::BF16 { "BF16" } else { "F16" };
        let mut config = json!({
            "fmha_scale": self.attributes.scale,
            "mask_type": if self.attributes.causal { "CAUSAL" } else { "NO_MASK" },
            "dropout_rate": 0.0,
            "seed": "0",
            "sliding_window_length": self.attributes.window.unwrap_or(0),
            "max_seg_per_batch": 1,
            "is_flash_attention": true,
            "intermediate_tensor_shape": {
                "element_type": element,
                "dimensions": dims,
                "layout": {"minor_to_major": ["3", "2", "1", "0"]},
                "is_dynamic_dimension": [false, false, false, false],
            },
        });
        for (name, lhs, rhs) in matmuls {
            let numbers = json!({
                "lhs_contracting_dimensions": [text(lhs)],
                "rhs_contracting_dimensions": [text(rhs)],
                "lhs_batch_dimensions": ["0", "1"],
                "rhs_batch_dimensions": ["0", "1"],
            });
            if let Json::Object(config) = &mut config {
                config.insert(format!("{name}_dot_dimension_numbers"), numbers);
            }
        }
        json!({"operation_queue_id": "0", "cudnn_fmha_backend_config": config}).to_string()
    }
}

/// [`FLASH`](crate::composites::FLASH).
pub(super) fn forward(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let attention = Attention::read(request, 3)?;
    let (mut function, arguments) = begun(request, name);
    let config = attention.config(&[("bmm1", 3, 3), ("bmm2", 3, 2)]);
    let results = [attention.query.clone(), attention.stats()];
    let [out, stats] = call(&mut function, FORWARD, config, arguments, results)?;
    let row = reshaped(&mut function, stats, &attention.row())?;
    Ok(function.finish(&[out, row]))
}

/// [`FLASH_BACKWARD`](crate::composites::FLASH_BACKWARD).
pub(super) fn backward(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let attention = Attention::read(request, 6)?;
    let (mut function, arguments) = begun(request, name);
    let config = attention.config(&[
        ("bmm1_grad_gemm1", 2, 2),
        ("bmm1_grad_gemm2", 3, 2),
        ("bmm2_grad_gemm1", 2, 2),
        ("bmm2_grad_gemm2", 3, 3),
    ]);
    let [query, key, value, out, total, ct] = arguments[..] else {
        return Err(Error::Internal("operands of attention are missing".into()));
    };
    let stats = reshaped(&mut function, total, &attention.stats())?;
    let results = [attention.query.clone(), attention.key.clone(), attention.key.clone()];
    let results = call(&mut function, BACKWARD, config, vec![query, key, value, stats, ct, out], results)?;
    Ok(function.finish(&results))
}

/// A function with the operands of a composite as its arguments.
fn begun(request: &Request<'_>, name: &str) -> (FuncBuilder, Vec<Value>) {
    let mut function = FuncBuilder::new(name);
    function.visibility(Visibility::Private);
    let arguments = request.operands.iter().map(|spec| function.arg(tensor_type(spec))).collect();
    (function, arguments)
}

/// Calls cuDNN: the results, after which it has a workspace whose size the compiler sets.
fn call<const N: usize>(
    function: &mut FuncBuilder,
    target: &str,
    config: String,
    operands: Vec<Value>,
    results: [Spec; N],
) -> Result<[Value; N], Error> {
    let workspace = Spec::new(DType::U8, [0]);
    let types: Vec<Type> = results.iter().chain([&workspace]).map(tensor_type).collect();
    let mut attrs = Attrs::new();
    attrs.set("call_target_name", Attr::string(target));
    attrs.set("api_version", Attr::i32(2));
    attrs.set("backend_config", Attr::string(config.as_str()));
    attrs.set("operand_layouts", layouts(operands.iter().map(|&value| rank(function.ty(value)))));
    attrs.set("result_layouts", layouts(types.iter().map(rank)));
    let made = function.op_with_types(OpKind::CustomCall, &operands, attrs, &[], types).map_err(broken)?;
    made.get(..N).and_then(|made| <[Value; N]>::try_from(made).ok()).ok_or_else(|| broken("results"))
}

fn reshaped(function: &mut FuncBuilder, value: Value, spec: &Spec) -> Result<Value, Error> {
    let made = function.op_with_types(OpKind::Reshape, &[value], Attrs::new(), &[], vec![tensor_type(spec)]);
    made.map_err(broken)?.first().copied().ok_or_else(|| broken("a reshape"))
}

fn rank(ty: &Type) -> usize {
    ty.as_tensor().map_or(0, |tensor| tensor.dims.len())
}

fn layouts(ranks: impl Iterator<Item = usize>) -> Attr {
    let one = |rank: usize| {
        let by_row: Vec<i64> = (0..rank as i64).rev().collect();
        let order = if rank == BY_POSITION.len() { &BY_POSITION[..] } else { &by_row };
        let bytes: Vec<u8> = order.iter().flat_map(|n| n.to_le_bytes()).collect();
        let ty = TensorType::new(vec![rank as i64], ElementType::Index);
        Attr::Dense(Arc::new(Dense { ty, data: hlo::DenseData::Elements(bytes.into()) }))
    };
    Attr::Array(ranks.map(one).collect())
}

fn broken(violation: impl std::fmt::Debug) -> Error {
    Error::Internal(format!("a call of cuDNN: {violation:?}"))
}
