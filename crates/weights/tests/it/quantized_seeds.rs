//! One small quantized model of every format, made here: what the tests of damaged files begin with.

use std::path::Path;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use testkit::Random;
use weights::quant::gguf::{GgmlType, GgufEntry, GgufValue, llama_metadata, write_gguf};
use weights::quant::{
    CompressedGroup, Inputs, PackedMatrix, QuantizedWeight, ScaleBlock, ScaleStrategy, compressed_tensors_config,
};

/// A model: its configuration and its tensors.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    pub(crate) name: &'static str,
    pub(crate) config: Value,
    pub(crate) tensors: Vec<(String, Literal)>,
}

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

fn tensor(dtype: DType, dims: &[usize], random: &mut Random) -> Literal {
    let count = dims.iter().product::<usize>() * dtype.size_bytes();
    Literal::new(dtype, dims, bytes(random, count)).unwrap()
}

fn scales(dims: &[usize], dtype: DType) -> Literal {
    let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|n| 0.125 + n as f32 / 64.0).collect();
    Literal::from_slice(&values, dims).unwrap().cast(dtype).unwrap()
}

fn filled(dtype: DType, dims: &[usize], byte: u8) -> Literal {
    Literal::new(dtype, dims, vec![byte; dims.iter().product::<usize>() * dtype.size_bytes()]).unwrap()
}

fn numbers(values: &[i32]) -> Literal {
    Literal::from_slice(values, [values.len()]).unwrap()
}

fn seed(name: &'static str, quantization: Value, parts: Vec<(&str, Literal)>) -> Seed {
    let mut tensors: Vec<(String, Literal)> =
        parts.into_iter().map(|(part, literal)| (format!("m.{part}"), literal)).collect();
    tensors.push(("norm.weight".into(), scales(&[4], DType::F32)));
    Seed { name, config: json!({ "model_type": "llama", "quantization_config": quantization }), tensors }
}

/// A matrix of signed codes.
pub(crate) fn matrix(
    dtype: DType,
    rows: usize,
    columns: usize,
    block: ScaleBlock,
    random: &mut Random,
) -> PackedMatrix {
    let bits = dtype.bits();
    let code = |byte: u8| match dtype {
        // No NaN.
        DType::F8E4M3FN => byte & 0xbf,
        _ => ((byte as i8) >> (8 - bits)) as u8,
    };
    let codes = bytes(random, rows * columns).into_iter().map(code).collect();
    let count = rows.div_ceil(block.out_features) * columns.div_ceil(block.in_features);
    let scales = (0..count).map(|n| 0.0625 + (n % 32) as f32 / 512.0).collect();
    PackedMatrix::new(rows, columns, dtype, codes, block, scales).unwrap()
}

fn compressed(name: &'static str, group: CompressedGroup, matrix: &PackedMatrix) -> Seed {
    let config = compressed_tensors_config(std::slice::from_ref(&group), &["lm_head".into()]);
    let mut seed = seed(name, config, Vec::new());
    seed.tensors.extend(group.tensors("m", matrix).unwrap());
    seed
}

/// One model of every format of safetensors.
pub(crate) fn seeds() -> Vec<Seed> {
    let random = &mut Random::new(7);
    let mut found = Vec::new();
    let group = |bits, strategy, inputs| CompressedGroup {
        targets: vec!["Linear".into()],
        bits,
        is_float: false,
        is_symmetric: true,
        strategy,
        inputs,
    };
    let by_group = ScaleBlock { out_features: 1, in_features: 8 };
    let four = matrix(DType::I4, 8, 16, by_group, random).with_dense(DType::BF16).unwrap();
    found.push(compressed("pack", group(4, ScaleStrategy::Group(8), Inputs::Float), &four));
    let zeros = (0..16).map(|n| (n % 16) as i8 - 8).collect();
    let with_zeros = four.with_zero_points(zeros).unwrap();
    let asymmetric = CompressedGroup { is_symmetric: false, ..group(4, ScaleStrategy::Group(8), Inputs::Float) };
    found.push(compressed("pack with zero points", asymmetric, &with_zeros));
    let by_channel = ScaleBlock { out_features: 1, in_features: 16 };
    let eight = matrix(DType::I8, 8, 16, by_channel, random).with_input_scale(0.5).unwrap();
    found.push(compressed("int", group(8, ScaleStrategy::Channel, Inputs::Static), &eight));
    let floats = matrix(DType::F8E4M3FN, 8, 16, ScaleBlock { out_features: 4, in_features: 8 }, random);
    let blocks = CompressedGroup { is_float: true, ..group(8, ScaleStrategy::ScaleBlock(4, 8), Inputs::Dynamic) };
    found.push(compressed("float", blocks, &floats));
    let by_sixteen = json!({ "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": { "g": {
        "targets": ["re:^m$"], "weights": { "num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16 } } } });
    let parts = vec![
        ("weight_packed", tensor(DType::U8, &[4, 16], random)),
        ("weight_scale", filled(DType::F8E4M3FN, &[4, 2], 0x38)),
        ("weight_global_scale", scales(&[1], DType::F32)),
    ];
    found.push(seed("nvfp4", by_sixteen, parts));
    let gptq = json!({ "quant_method": "gptq", "bits": 4, "group_size": 8, "sym": false, "desc_act": true });
    let group_of: Vec<i32> = (0..16).map(|input| (input * 7 % 16) / 8).collect();
    let parts = vec![
        ("qweight", tensor(DType::I32, &[2, 8], random)),
        ("qzeros", tensor(DType::I32, &[2, 1], random)),
        ("scales", scales(&[2, 8], DType::F16)),
        ("g_idx", numbers(&group_of)),
    ];
    found.push(seed("gptq", gptq, parts));
    let awq = json!({ "quant_method": "awq", "bits": 4, "group_size": 8, "zero_point": true, "version": "gemm" });
    let parts = vec![
        ("qweight", tensor(DType::I32, &[16, 1], random)),
        ("qzeros", tensor(DType::I32, &[2, 1], random)),
        ("scales", scales(&[2, 8], DType::F16)),
    ];
    found.push(seed("awq", awq, parts));
    let parts =
        vec![("weight", filled(DType::F8E4M3FN, &[6, 10], 0x31)), ("weight_scale_inv", scales(&[2, 3], DType::F32))];
    found.push(seed("fp8", json!({ "quant_method": "fp8", "weight_block_size": [4, 4] }), parts));
    let state = br#"{"quant_type":"nf4","blocksize":16,"dtype":"bfloat16","shape":[4,16],"nested_blocksize":2,"nested_dtype":"float32","nested_offset":0.5}"#;
    let parts = vec![
        ("weight", tensor(DType::U8, &[32, 1], random)),
        ("weight.absmax", tensor(DType::U8, &[4], random)),
        ("weight.quant_map", scales(&[16], DType::F32)),
        ("weight.nested_absmax", scales(&[2], DType::F32)),
        ("weight.nested_quant_map", scales(&[256], DType::F32)),
        ("weight.quant_state.bitsandbytes__nf4", Literal::new(DType::U8, [state.len()], state.to_vec()).unwrap()),
    ];
    found.push(seed("bitsandbytes", json!({ "quant_method": "bitsandbytes", "load_in_4bit": true }), parts));
    let parts = vec![
        ("experts.gate_up_proj_blocks", tensor(DType::U8, &[2, 4, 1, 16], random)),
        ("experts.gate_up_proj_scales", filled(DType::U8, &[2, 4, 1], 120)),
        ("experts.gate_up_proj_bias", scales(&[2, 4], DType::BF16)),
        ("experts.down_proj_blocks", tensor(DType::U8, &[2, 4, 1, 16], random)),
        ("experts.down_proj_scales", filled(DType::U8, &[2, 4, 1], 120)),
    ];
    found.push(seed("gpt-oss", json!({ "quant_method": "mxfp4" }), parts));
    let aqlm = json!({ "quant_method": "aqlm", "nbits_per_codebook": 3, "num_codebooks": 2, "in_group_size": 4, "out_group_size": 1 });
    let parts = vec![
        ("codes", tensor(DType::I8, &[4, 2, 2], random)),
        ("codebooks", scales(&[2, 8, 1, 4], DType::F16)),
        ("scales", scales(&[4, 1, 1, 1], DType::F16)),
    ];
    found.push(seed("aqlm", aqlm, parts));
    let layer = json!({ "in_features": 8, "out_features": 7, "vector_lens": [-1, 2], "num_centroids": [-1, 8],
        "num_res_centroids": [-1, 4], "group_num": 1, "outlier_size": 0, "enable_norm": true, "enable_perm": true, "is_indice_packed": true });
    let order: Vec<u8> = [3u16, 1, 0, 2, 7, 6, 5, 4].iter().flat_map(|input| input.to_le_bytes()).collect();
    let parts = vec![
        ("indices", tensor(DType::I32, &[1, 4, 2], random)),
        ("centroids.weight", scales(&[1, 16], DType::F16)),
        ("res_centroids.weight", scales(&[1, 8], DType::F16)),
        ("weight_scale", scales(&[8], DType::F16)),
        ("weight_bias", scales(&[8], DType::F16)),
        ("perm", Literal::new(DType::I16, [8], order).unwrap()),
    ];
    found.push(seed("vptq", json!({ "quant_method": "vptq", "config_for_layers": { "m": layer } }), parts));
    found
}

/// A configuration of a Llama of one layer.
pub(crate) fn llama_config() -> Value {
    json!({ "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": 4, "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0 })
}

/// Its parameters with their types in a GGUF file.
pub(crate) fn llama_entries() -> Vec<GgufEntry> {
    let entry = |name: &str, dims: &[usize], kind| GgufEntry { name: name.into(), dims: dims.to_vec(), kind };
    let layer = |part: &str| format!("model.layers.0.{part}.weight");
    vec![
        entry("model.embed_tokens.weight", &[4, 32], GgmlType::F16),
        entry(&layer("self_attn.q_proj"), &[32, 32], GgmlType::Q8_0),
        entry(&layer("self_attn.k_proj"), &[16, 32], GgmlType::Q4_0),
        entry(&layer("self_attn.v_proj"), &[16, 32], GgmlType::BF16),
        entry(&layer("mlp.up_proj"), &[64, 32], GgmlType::Q4_0),
        entry(&layer("mlp.down_proj"), &[32, 64], GgmlType::Q8_0),
        entry(&layer("input_layernorm"), &[32], GgmlType::F32),
        entry("model.norm.weight", &[32], GgmlType::F32),
    ]
}

/// The value of a parameter: packed where its type is, with the codes of that type.
pub(crate) fn llama_weight(entry: &GgufEntry) -> QuantizedWeight {
    let random = &mut Random::new(entry.name.len() as u64);
    let block = ScaleBlock { out_features: 1, in_features: 32 };
    match (entry.kind, &entry.dims[..]) {
        (GgmlType::Q8_0, [rows, columns]) => QuantizedWeight::Packed(matrix(DType::I8, *rows, *columns, block, random)),
        (GgmlType::Q4_0, [rows, columns]) => QuantizedWeight::Packed(matrix(DType::I4, *rows, *columns, block, random)),
        _ => QuantizedWeight::Dense(scales(&entry.dims, DType::F32)),
    }
}

/// Writes it, with some metadata of a tokenizer.
pub(crate) fn write_llama(path: &Path) {
    let mut metadata = llama_metadata(&llama_config()).unwrap();
    let tokens = ["a", "b", "c", "d"].map(|token| GgufValue::Text(token.into())).to_vec();
    metadata.push(("tokenizer.ggml.tokens".into(), GgufValue::List(tokens)));
    let entries = llama_entries();
    let of = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
    write_gguf(path, &metadata, &entries, |name| Ok(llama_weight(of(name)))).unwrap();
}
