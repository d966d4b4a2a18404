//! Quantized files that contradict themselves: refused by name, or read to something that holds together.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use testkit::{Mutator, Random};
use weights::quant::{QuantizedFolder, QuantizedWeight, Storage};
use weights::{Error, write};

use crate::quantized_seeds::{Seed, seeds, write_llama};

/// Mutated files in all.
const FILES: usize = 10_000;

/// A folder for many small files: in memory where there is such a place, since every file is synced.
fn quick_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn put(folder: &Path, seed: &Seed) {
    std::fs::write(folder.join("config.json"), seed.config.to_string()).unwrap();
    let tensors = seed.tensors.iter().map(|(name, literal)| (name.as_str(), literal));
    write(&folder.join("model.safetensors"), tensors, &BTreeMap::new()).unwrap();
}

/// Reads everything; whatever is read holds together. The number of weights that were.
fn read_all(path: &Path) -> Result<usize, Error> {
    let model = QuantizedFolder::open(path)?;
    let names: Vec<String> = model.names().map(str::to_string).collect();
    for name in &names {
        let spec = model.spec(name)?;
        match model.read(name)? {
            QuantizedWeight::Dense(literal) => {
                assert_eq!(spec.dims, literal.dims());
                assert_eq!(spec.storage, Storage::Dense(literal.dtype()));
            }
            QuantizedWeight::Packed(matrix) => {
                assert_eq!(spec.dims, [matrix.out_features(), matrix.in_features()]);
                assert_eq!(spec.storage, Storage::Packed(matrix.spec()));
                let values = matrix.dequantize();
                assert_eq!(values.len(), matrix.out_features() * matrix.in_features());
                assert!(values.iter().all(|value| value.is_finite()), "{name}");
            }
            QuantizedWeight::Codebook(matrix) => {
                assert_eq!(spec.dims, [matrix.out_features(), matrix.in_features()]);
                assert_eq!(matrix.dequantize().len(), matrix.out_features() * matrix.in_features());
            }
        }
    }
    Ok(names.len())
}

#[test]
fn every_seed_is_read() {
    let folder = quick_folder();
    for seed in seeds() {
        put(folder.path(), &seed);
        let count = read_all(folder.path()).unwrap_or_else(|error| panic!("{}: {error}", seed.name));
        assert!(count >= 2, "{}", seed.name);
    }
    let file = folder.path().join("model.gguf");
    write_llama(&file);
    assert_eq!(read_all(&file).unwrap(), 8);
}

/// A model with one to three of its tensors dropped, cut, grown, of another type, or with other values.
fn changed(seed: &Seed, random: &mut Random) -> Seed {
    let mut changed = seed.clone();
    for _ in 0..1 + random.below(3) {
        let place = random.below(changed.tensors.len());
        let Some((_, literal)) = changed.tensors.get_mut(place) else { break };
        let (dtype, mut dims, mut bytes) = (literal.dtype(), literal.dims().to_vec(), literal.bytes().to_vec());
        match random.below(8) {
            0 => {
                changed.tensors.remove(place);
                continue;
            }
            1 | 2 if !dims.is_empty() => {
                let axis = random.below(dims.len());
                dims[axis] = [0, 1, dims[axis] / 2, dims[axis] + 1, dims[axis] * 2][random.below(5)];
                bytes.resize(dims.iter().product::<usize>() * dtype.size_bytes(), 0);
                *literal = Literal::new(dtype, dims, bytes).unwrap();
            }
            3 => {
                let types = [DType::I8, DType::U8, DType::I32, DType::F16, DType::F32, DType::F8E4M3FN, DType::I64];
                let other = types[random.below(types.len())];
                bytes.resize(dims.iter().product::<usize>() * other.size_bytes(), 1);
                *literal = Literal::new(other, dims, bytes).unwrap();
            }
            _ => {
                let values = [0u8, 0xff, 0x7f, 0x80, 0x7c, 0x3c];
                for _ in 0..1 + random.below(4) {
                    let at = random.below(bytes.len());
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = values[random.below(values.len())];
                    }
                }
                *literal = Literal::new(dtype, dims, bytes).unwrap();
            }
        }
    }
    changed
}

#[test]
fn mutated_files_are_refused_or_right() {
    let folder = quick_folder();
    let (config, weights) = (folder.path().join("config.json"), folder.path().join("model.safetensors"));
    let gguf = folder.path().join("model.gguf");
    write_llama(&gguf);
    let mut of_gguf = Mutator::new(1, vec![std::fs::read(&gguf).unwrap()]);
    let seeds = seeds();
    let mut random = Random::new(3);
    let (mut read, mut refused) = (0, 0);
    let mut count = |result: Result<usize, Error>| match result {
        Ok(_) => read += 1,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.remedy().is_empty());
            refused += 1;
        }
    };
    let mut mutators = Vec::new();
    for seed in &seeds {
        put(folder.path(), seed);
        let of = |path: &Path, number| Mutator::new(number, vec![std::fs::read(path).unwrap()]);
        mutators.push((of(&config, 11), of(&weights, 13)));
    }
    for number in 0..FILES {
        let which = number % seeds.len();
        match number / seeds.len() % 4 {
            0 => {
                std::fs::write(&gguf, of_gguf.next_input()).unwrap();
                count(read_all(&gguf));
            }
            1 => {
                put(folder.path(), &seeds[which]);
                std::fs::write(&config, mutators[which].0.next_input()).unwrap();
                count(read_all(folder.path()));
            }
            2 => {
                put(folder.path(), &seeds[which]);
                std::fs::write(&weights, mutators[which].1.next_input()).unwrap();
                count(read_all(folder.path()));
            }
            _ => {
                put(folder.path(), &changed(&seeds[which], &mut random));
                count(read_all(folder.path()));
            }
        }
    }
    // Both happen, or the mutations are of no use.
    assert!(read > FILES / 100 && refused > FILES / 4, "{read} read, {refused} refused");
}

/// What a model is refused with after a change of its configuration and its tensors.
fn refusal(name: &str, change: impl FnOnce(&mut Value, &mut Vec<(String, Literal)>)) -> String {
    let mut seed = seeds().into_iter().find(|seed| seed.name == name).unwrap();
    let mut quantization = seed.config["quantization_config"].take();
    change(&mut quantization, &mut seed.tensors);
    seed.config["quantization_config"] = quantization;
    let folder = quick_folder();
    put(folder.path(), &seed);
    let error = read_all(folder.path()).unwrap_err();
    assert!(matches!(error, Error::Quantized { .. }), "{error}");
    format!("{error}; {}", error.remedy())
}

fn replace(tensors: &mut [(String, Literal)], name: &str, literal: Literal) {
    tensors.iter_mut().find(|(own, _)| own == name).unwrap().1 = literal;
}

#[test]
fn refusals_name_the_tensor_and_what_would_do() {
    let check = |text: String, expected: &[&str]| {
        for part in expected {
            assert!(text.contains(part), "{text}");
        }
    };
    let floats = |values: &[f32], dims: &[usize]| Literal::from_slice(values, dims).unwrap();
    check(
        refusal("gptq", |config, _| config["checkpoint_format"] = json!("gptq_p")),
        &["gptq_p", "gptq_v2", "GPTQModel"],
    );
    check(refusal("gptq", |config, _| config["bits"] = json!(5)), &["`bits` is 5", "2, 3, 4, 8"]);
    check(
        refusal("gptq", |config, _| config["sym"] = json!(true)),
        &["`m.weight`", "sym is true", "checkpoint_format"],
    );
    check(refusal("gptq", |config, _| config["group_size"] = json!(12)), &["`m.weight`", "groups of 12"]);
    check(refusal("gptq", |config, _| config["quant_method"] = json!("quip")), &["`quip`", "compressed-tensors, gptq"]);
    check(
        refusal("gptq", |_, tensors| replace(tensors, "m.g_idx", floats(&[0.0; 16], &[16]))),
        &["`m.weight`", "`g_idx` has the type f32"],
    );
    check(
        refusal("gptq", |_, tensors| {
            let groups: Vec<i32> = (0..16).collect();
            replace(tensors, "m.g_idx", Literal::from_slice(&groups, [16]).unwrap());
        }),
        &["puts input 2 into group 2", "there are 2"],
    );
    check(
        refusal("gptq", |_, tensors| tensors.retain(|(name, _)| name != "m.scales")),
        &["`scales` is missing", "copy all"],
    );
    check(
        refusal("awq", |_, tensors| {
            let mut scales = [1.0f32; 16];
            scales[3] = 0.0;
            replace(tensors, "m.scales", floats(&scales, &[2, 8]).cast(DType::F16).unwrap());
        }),
        &["`m.weight`", "scale [3, 0] is zero"],
    );
    check(
        refusal("awq", |_, tensors| {
            replace(tensors, "m.scales", floats(&[f32::INFINITY; 16], &[2, 8]).cast(DType::F16).unwrap());
        }),
        &["scale [0, 0] is inf"],
    );
    check(refusal("awq", |config, _| config["version"] = json!("gemv")), &["`gemv`", "gemm"]);
    check(
        refusal("pack", |config, _| config["config_groups"]["group_0"]["format"] = json!("marlin-24")),
        &["config_groups.group_0", "`marlin-24`", "pack-quantized"],
    );
    check(
        refusal("pack", |config, _| config["config_groups"]["group_0"]["targets"] = json!(["re:(?!x)y"])),
        &["group_0", "look-around"],
    );
    check(
        refusal("pack", |config, _| config["config_groups"]["group_0"]["targets"] = json!(["lm_head"])),
        &["`m.weight`", "no group", "targets"],
    );
    check(
        refusal("pack", |_, tensors| {
            tensors.push(("m.weight".into(), floats(&[0.0; 128], &[8, 16])));
        }),
        &["`m.weight`", "two sets of tensors", "m.weight_packed"],
    );
    check(
        refusal("fp8", |_, tensors| {
            replace(tensors, "m.weight", Literal::new(DType::F8E4M3FN, [6, 10], vec![0x7f; 60]).unwrap())
        }),
        &["`m.weight`", "[0, 0] is not a number"],
    );
    check(
        refusal("bitsandbytes", |_, tensors| {
            let state = br#"{"quant_type":"nf4","blocksize":3,"dtype":"bfloat16","shape":[4,16]}"#;
            let state = Literal::new(DType::U8, [state.len()], state.to_vec()).unwrap();
            tensors.retain(|(name, _)| !name.contains("nested"));
            replace(tensors, "m.weight.quant_state.bitsandbytes__nf4", state);
        }),
        &["blocks of 3 run across rows of 16"],
    );
    check(
        refusal("vptq", |_, tensors| replace(tensors, "m.perm", Literal::new(DType::I16, [8], vec![0; 16]).unwrap())),
        &["`m.weight`", "input 0 twice"],
    );
}
