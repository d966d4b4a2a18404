//! Adapters in PEFT's format: those of PEFT read to its logits, and ours read by PEFT to ours.

use std::path::Path;
use std::process::Command;

use nn::hf::{self, AdapterTensors, Family, ModelConfig};
use nn::models::{Gpt2, LanguageModel, Llama, RunOptions};
use nn::quant::{AdapterParts, Adapters, LoraConfig, TrainingParts, in_training, init_adapters};
use tensor::{DType, Literal};
use testkit::{Needed, repository, require};
use trace::{Key, Tree};
use weights::SafeTensors;
use weights::quant::QuantizedFolder;

use crate::harness::{apply, floats, off_by, shape_of, with_key};

fn config(targets: &[&str]) -> LoraConfig {
    let target_modules = targets.iter().map(|target| target.to_string()).collect();
    LoraConfig { rank: 4, alpha: 8.0, dropout: 0.0, target_modules, base: None }
}

/// Adapters of a model, with drawn `b`.
fn drawn<M: LanguageModel>(key: &Key, model: &M, family: Family, config: &LoraConfig) -> Adapters {
    let is_target = |path: &str| hf::is_target(family, model, path, &config.target_modules);
    let mut adapters = init_adapters(key, model, config, is_target);
    for (n, pair) in adapters.values_mut().enumerate() {
        pair.b = &key.fold_in(100 + n as u64).normal(DType::F32, pair.b.dims()) * 0.2;
    }
    adapters
}

struct Case<'a, M> {
    home: &'a Path,
    family: Family,
    config: LoraConfig,
    model: M,
    adapters: Adapters,
    params: Vec<Literal>,
    tokens: Literal,
}

impl<'a, M: LanguageModel> Case<'a, M> {
    fn open(home: &'a Path, family: Family, targets: &[&str], init: impl Fn(&Key) -> M) -> Case<'a, M> {
        let config = config(targets);
        let model = trace::shapes_of(&(), |()| init(&Key::from_seed(1))).unwrap();
        let adapters = trace::shapes_of(&(), |()| {
            let key = Key::from_seed(1);
            drawn(&key, &init(&key), family, &config)
        });
        let params = hf::load(&QuantizedFolder::open(&home.join("base")).unwrap(), family, &model).unwrap();
        let tokens = SafeTensors::open(&home.join("theirs.safetensors")).unwrap().read("tokens").unwrap();
        Case { home, family, config, model, adapters: adapters.unwrap(), params, tokens }
    }

    fn logits(&self, adapters: &AdapterTensors) -> Vec<f32> {
        let shapes = (self.model.clone(), self.adapters.clone(), shape_of(&self.tokens));
        let inputs = [self.params.clone(), adapters.values().cloned().collect(), vec![self.tokens.clone()]].concat();
        let results = apply(&shapes, &inputs, |(model, adapters, tokens)| {
            let adapters = AdapterParts { adapters, config: &self.config, key: None };
            let parts = TrainingParts { history: None, adapters: Some(adapters) };
            in_training(model, &model.options().training(), parts).logits(tokens)
        });
        floats(&results[0])
    }

    fn expected(&self, file: &str, name: &str) -> Vec<f32> {
        floats(&SafeTensors::open(&self.home.join(file)).unwrap().read(name).unwrap())
    }

    fn read(&self, folder: &str) -> Result<AdapterTensors, nn::Error> {
        hf::load_adapter(&self.home.join(folder), self.family, &self.model, &self.config, &self.adapters)
    }

    /// Theirs read; ours and the merged model written. Gives the logits of ours.
    fn written(&self, init: impl Fn(&Key) -> M) -> Vec<f32> {
        let theirs = self.logits(&self.read("adapter").unwrap());
        let off = off_by(&theirs, &self.expected("theirs.safetensors", "adapted"));
        assert!(off < 1e-4, "{}: off by {off}", self.home.display());
        assert!(off_by(&theirs, &self.expected("theirs.safetensors", "base")) > 1e-2);
        let literals = with_key(9, |key| drawn(key, &init(key), self.family, &self.config));
        let ours: AdapterTensors = self.adapters.paths().into_iter().zip(literals).collect();
        hf::save_adapter(&self.home.join("ours"), self.family, &self.model, &self.config, "base", &ours).unwrap();
        assert_eq!(self.read("ours").unwrap(), ours);
        let merged: Vec<Literal> = self
            .model
            .paths()
            .iter()
            .zip(&self.params)
            .map(|(path, literal)| match [".lora_a", ".lora_b"].map(|end| ours.get(&format!("{path}{end}"))) {
                [Some(a), Some(b)] => hf::merged_weight(literal, a, b, self.config.scale()).unwrap(),
                _ => literal.clone(),
            })
            .collect();
        std::fs::create_dir(self.home.join("merged")).unwrap();
        hf::save(&self.home.join("merged"), self.family, &self.model, &merged, u64::MAX).unwrap();
        std::fs::copy(self.home.join("base/config.json"), self.home.join("merged/config.json")).unwrap();
        self.logits(&ours)
    }

    fn check_read(&self, ours: &[f32]) {
        for name in ["adapted", "merged"] {
            let off = off_by(&self.expected("read.safetensors", name), ours);
            assert!(off < 1e-4, "{} {name}: off by {off}", self.home.display());
        }
    }
}

#[test]
fn adapters_are_those_of_peft() {
    let Some(python) = require("adapters_are_those_of_peft", Needed::TorchPython) else { return };
    let folder = tempfile::tempdir().unwrap();
    let peer = |task: &str| {
        let script = repository().join("crates/testkit/python/peft_peer.py");
        let output = Command::new(&python).arg(script).arg(task).arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    peer("make");
    let options = RunOptions::default();
    let (gpt2_home, llama_home) = (folder.path().join("gpt2"), folder.path().join("llama"));
    let ModelConfig::Gpt2(gpt2) = hf::read_config(&gpt2_home.join("base/config.json")).unwrap() else { panic!() };
    let ModelConfig::Llama(llama) = hf::read_config(&llama_home.join("base/config.json")).unwrap() else { panic!() };
    let init_gpt2 = |key: &Key| Gpt2::init(key, &gpt2, &options);
    let init_llama = |key: &Key| Llama::init(key, &llama, &options);
    let first = Case::open(&gpt2_home, Family::Gpt2, &["c_attn", "c_fc"], init_gpt2);
    let second = Case::open(&llama_home, Family::Llama, &["q_proj", "v_proj", "down_proj"], init_llama);
    let (ours_first, ours_second) = (first.written(init_gpt2), second.written(init_llama));
    peer("read");
    first.check_read(&ours_first);
    second.check_read(&ours_second);
    refusals(&second);
}

/// Files that do not do are refused by name.
fn refusals<M: LanguageModel>(case: &Case<'_, M>) {
    let path = case.home.join("ours/adapter_config.json");
    let good = std::fs::read_to_string(&path).unwrap();
    let refused = |name: &str, value: serde_json::Value, words: &str| {
        let mut config: serde_json::Value = serde_json::from_str(&good).unwrap();
        config[name] = value;
        std::fs::write(&path, config.to_string()).unwrap();
        let message = case.read("ours").unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    refused("peft_type", "IA3".into(), "only LORA is");
    refused("use_dora", true.into(), "use_dora is not read");
    refused("bias", "all".into(), "biases of adapters");
    refused("modules_to_save", serde_json::json!(["lm_head"]), "modules_to_save");
    refused("r", 0.into(), "the rank is 0");
    refused("lora_alpha", "much".into(), "invalid type");
    std::fs::write(&path, &good).unwrap();
    let narrow = LoraConfig { rank: 2, ..case.config.clone() };
    let small = trace::shapes_of(&case.model, |model: &M| {
        init_adapters(&Key::from_seed(1), model, &narrow, |path| {
            hf::is_target(case.family, model, path, &narrow.target_modules)
        })
    })
    .unwrap();
    let folder = case.home.join("ours");
    let message = hf::load_adapter(&folder, case.family, &case.model, &narrow, &small).unwrap_err().to_string();
    assert!(message.contains("set lora.rank to that of the file"), "{message}");
    // Tensors that no adapter takes.
    let only = |path: &str| path.contains("query");
    let few = trace::shapes_of(&case.model, |model: &M| init_adapters(&Key::from_seed(1), model, &case.config, only))
        .unwrap();
    let refused = hf::load_adapter(&folder, case.family, &case.model, &case.config, &few).unwrap_err();
    assert!(matches!(&refused, nn::Error::Tensors { unexpected, .. } if !unexpected.is_empty()), "{refused}");
}
