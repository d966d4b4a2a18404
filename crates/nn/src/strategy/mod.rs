//! Strategies: how parameters, batches and activations of models lie on a mesh, by rule over parameter paths.

mod fit;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trace::{LogicalAxisRules, Mesh, Network, PartitionSpec};

use crate::at_use::STORED_EMBED;
use crate::error::Error;
use crate::stacked::{STAGES, is_stacked, is_staged};

/// How a model is spread over a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Every device has the whole model and its part of the batch.
    Data,
    /// As data, with parameters and optimizer state split and gathered layer by layer.
    Fsdp,
    /// Heads and feed-forwards are split along the axis `model`; the batch along the others.
    Megatron,
    /// Experts are split along the axis `expert`; the batch along all.
    Expert,
    /// Layers are split along the axis `stage`; the batch along the others.
    Pipeline,
    /// Each axis by its name: `data`, `fsdp`, `model`, `expert`, `context`, `stage`.
    Hybrid,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 6] =
        [Strategy::Data, Strategy::Fsdp, Strategy::Megatron, Strategy::Expert, Strategy::Pipeline, Strategy::Hybrid];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Data => "data",
            Strategy::Fsdp => "fsdp",
            Strategy::Megatron => "megatron",
            Strategy::Expert => "expert",
            Strategy::Pipeline => "pipeline",
            Strategy::Hybrid => "hybrid",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Strategy, Error> {
        let known = Strategy::ALL.map(Strategy::name).join(", ");
        Strategy::ALL
            .into_iter()
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| Error::Mesh(format!("`{text}` is not a strategy; strategies are {known}")))
    }
}

/// What an axis of the mesh is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Batch,
    Fsdp,
    Model,
    Expert,
    Context,
    Stage,
}

/// What the axes of a parameter mean, by the end of its path; the axis of stacked layers is not among them.
const LOGICAL_AXES: &[(&str, &[&str])] = &[
    ("token_embedding.weight", &["vocab", "embed"]),
    ("per_layer.embedding.weight", &["vocab", "embed"]),
    ("position_embedding.weight", &["", "embed"]),
    ("position_embedding", &["", "embed"]),
    ("class_embedding", &["", "", "embed"]),
    ("attention.query.weight", &["embed", "heads"]),
    ("attention.query.bias", &["heads"]),
    ("attention.key.weight", &["embed", "heads"]),
    ("attention.key.bias", &["heads"]),
    ("attention.value.weight", &["embed", "heads"]),
    ("attention.value.bias", &["heads"]),
    ("attention.output.weight", &["heads", "embed"]),
    ("attention.output.bias", &[""]),
    ("attention.sinks", &["heads"]),
    ("attention.query_down.weight", &["embed", ""]),
    ("attention.query_down.bias", &[""]),
    ("attention.kv_down.weight", &["embed", ""]),
    ("attention.kv_down.bias", &[""]),
    // The compressed KV is split as the width is: with many heads the weight is as large as any.
    ("attention.kv_up.weight", &["embed", "heads"]),
    ("up.weight", &["embed", "mlp"]),
    ("up.bias", &["mlp"]),
    ("gate.weight", &["embed", "mlp"]),
    ("gate.bias", &["mlp"]),
    ("down.weight", &["mlp", "embed"]),
    ("down.bias", &[""]),
    ("experts.router.weight", &["embed", ""]),
    ("experts.gate", &["experts", "embed", "mlp"]),
    ("experts.up", &["experts", "embed", "mlp"]),
    ("experts.down", &["experts", "mlp", "embed"]),
    ("experts.biases.gate", &["experts", "mlp"]),
    ("experts.biases.up", &["experts", "mlp"]),
    ("experts.biases.down", &["experts", ""]),
    ("lm_head.weight", &["embed", "vocab"]),
    ("lm_head.bias", &["vocab"]),
    ("head.weight", &["embed", "vocab"]),
];

/// The same for parameters by PyTorch's names, as Hugging Face's and torch.nn's models have them: weights of linear layers are
/// `[out, in]`, but those of GPT-2's `Conv1D`.
const PYTORCH_AXES: &[(&str, &[&str])] = &[
    ("wte.weight", &["vocab", "embed"]),
    ("embed_tokens.weight", &["vocab", "embed"]),
    ("word_embeddings.weight", &["vocab", "embed"]),
    ("lm_head.weight", &["vocab", "embed"]),
    ("attn.c_attn.weight", &["embed", "heads"]),
    ("attn.c_attn.bias", &["heads"]),
    ("attn.c_proj.weight", &["heads", "embed"]),
    ("mlp.c_fc.weight", &["embed", "mlp"]),
    ("mlp.c_fc.bias", &["mlp"]),
    ("mlp.c_proj.weight", &["mlp", "embed"]),
    ("q_proj.weight", &["heads", "embed"]),
    ("q_proj.bias", &["heads"]),
    ("k_proj.weight", &["heads", "embed"]),
    ("k_proj.bias", &["heads"]),
    ("v_proj.weight", &["heads", "embed"]),
    ("v_proj.bias", &["heads"]),
    ("o_proj.weight", &["embed", "heads"]),
    ("out_proj.weight", &["embed", "heads"]),
    ("gate_proj.weight", &["mlp", "embed"]),
    ("up_proj.weight", &["mlp", "embed"]),
    ("down_proj.weight", &["embed", "mlp"]),
    ("linear1.weight", &["mlp", "embed"]),
    ("linear1.bias", &["mlp"]),
    ("linear2.weight", &["embed", "mlp"]),
];

/// The path of the weight that a part of a quantized one belongs to; other paths as they are.
fn weight_of(path: &str) -> &str {
    let parts = [".values", ".scales", ".zero_points"];
    parts.iter().find_map(|part| path.strip_suffix(part)).unwrap_or(path)
}

/// How a strategy stores the parameter at a path, as far as the rules of activations tell: what it does not know is whole.
pub(crate) fn stored_sharding(rules: &LogicalAxisRules, path: &str, dims: &[usize]) -> PartitionSpec {
    let stacked = usize::from(is_stacked(path) && !dims.is_empty());
    let known = LOGICAL_AXES
        .iter()
        .find(|(end, logical_axes)| ends_with(path, end) && logical_axes.len() + stacked == dims.len());
    let Some((_, logical_axes)) = known else { return PartitionSpec::replicated(dims.len()) };
    let stored = logical_axes.iter().map(|&axis| if axis == "embed" { STORED_EMBED } else { axis });
    let logical_axes: Vec<&str> = std::iter::repeat_n("", stacked).chain(stored).collect();
    rules.sharding(&logical_axes, dims)
}

/// Places parameters, batches and activations on a mesh.
#[derive(Clone, Debug)]
pub struct ShardingRules {
    strategy: Strategy,
    axis_rules: LogicalAxisRules,
    /// Mesh axes of what the axes of parameters mean.
    of_parameters: BTreeMap<&'static str, Vec<Arc<str>>>,
    batch: Vec<Arc<str>>,
    /// Mesh axes of stacked layers.
    stages: Vec<Arc<str>>,
    /// Rules of the user: ends of paths, and the mesh axes of each axis.
    rules: Vec<(String, Vec<Vec<String>>)>,
    /// Whether parameters have the names and shapes of a PyTorch module.
    is_pytorch: bool,
}

impl ShardingRules {
    /// Places by a strategy. The mesh must have the axes it needs.
    pub fn new(mesh: &Mesh, strategy: Strategy) -> Result<ShardingRules, Error> {
        let uses = mesh.axes().iter().map(|axis| {
            let between = axis.network == Network::BetweenSlices;
            let known = use_of(&axis.name, strategy).map_err(|what| {
                let near = fit::renamed(mesh, &axis.name).map_or(String::new(), |near| format!("; {near} would work"));
                Error::Mesh(format!("{what}; the mesh is {mesh}{near}"))
            });
            // What stages pass on is little, so they may be apart.
            Ok((axis.name.clone(), if between && !matches!(known, Ok(Use::Stage)) { Use::Batch } else { known? }))
        });
        let uses = uses.collect::<Result<Vec<_>, Error>>()?;
        let of = |wanted: &[Use]| -> Vec<Arc<str>> {
            uses.iter().filter(|(_, have)| wanted.contains(have)).map(|(name, _)| name.clone()).collect()
        };
        let needed = match strategy {
            Strategy::Megatron => Some(("model", Use::Model)),
            Strategy::Expert => Some(("expert", Use::Expert)),
            Strategy::Pipeline => Some(("stage", Use::Stage)),
            _ => None,
        };
        if let Some((axis, wanted)) = needed
            && of(&[wanted]).is_empty()
        {
            let near = fit::sharing_with(mesh, axis).map_or(String::new(), |near| format!("; {near} would work"));
            return Err(Error::Mesh(format!(
                "the strategy {strategy} needs an axis `{axis}`; the mesh is {mesh}{near}"
            )));
        }
        let batch = of(&[Use::Batch, Use::Fsdp, Use::Expert]);
        let (model, expert, stages) = (of(&[Use::Model]), of(&[Use::Expert]), of(&[Use::Stage]));
        let mut axis_rules = LogicalAxisRules::new(mesh.clone());
        let logical_axes = [
            // Before and after the layers every stage has its part of the batch.
            ("batch", [batch.clone(), stages.clone()].concat()),
            (STAGES, stages.clone()),
            ("sequence", of(&[Use::Context])),
            ("heads", model.clone()),
            ("mlp", model.clone()),
            ("vocab", model.clone()),
            ("experts", expert.clone()),
            (STORED_EMBED, of(&[Use::Fsdp])),
        ];
        axis_rules.axes.extend(logical_axes.map(|(logical_axis, axes)| (logical_axis.to_string(), axes)));
        let of_parameters = BTreeMap::from([
            ("embed", of(&[Use::Fsdp])),
            ("heads", model.clone()),
            ("mlp", model.clone()),
            ("vocab", model),
            ("experts", expert),
        ]);
        Ok(ShardingRules { strategy, axis_rules, of_parameters, batch, stages, rules: Vec::new(), is_pytorch: false })
    }

    /// The same, with batches taken in so many parts that follow each other through the stages. The mesh must have stages.
    pub fn with_microbatches(mut self, count: usize) -> Result<ShardingRules, Error> {
        let mesh = &self.axis_rules.mesh;
        if count == 0 || self.stages.is_empty() {
            let strategy = self.strategy;
            return Err(Error::Mesh(match count {
                0 => "the number of microbatches is 0; it must be at least 1".into(),
                _ => format!(
                    "microbatches need pipeline stages: on the mesh {mesh} the strategy {strategy} has no axis `stage`"
                ),
            }));
        }
        self.axis_rules.microbatches = Some(count);
        Ok(self)
    }

    /// Parts that layers are split into.
    pub fn num_stages(&self) -> usize {
        self.axis_rules.mesh.size_along(self.stages.iter().map(|axis| &**axis)).unwrap_or(1)
    }

    /// Parts that the mesh cuts a batch into.
    pub fn batch_parts(&self) -> u64 {
        let axes = self.axis_rules.axes.get("batch").into_iter().flatten().map(|axis| &**axis);
        self.axis_rules.mesh.size_along(axes).unwrap_or(1) as u64
    }

    /// The same, with a rule for parameters whose path ends so: the mesh axes of each axis.
    #[must_use]
    pub fn with_rule(mut self, path: &str, axes: Vec<Vec<String>>) -> ShardingRules {
        self.rules.push((path.to_string(), axes));
        self
    }

    /// The same for parameters with the names and shapes of a PyTorch module. An axis that does not divide stays whole, and a matrix
    /// that no rule knows is split along its largest axis.
    #[must_use]
    pub fn with_pytorch_names(mut self) -> ShardingRules {
        self.is_pytorch = true;
        self
    }

    /// The strategy.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The mesh, and where activations lie on it.
    pub fn logical_axes(&self) -> &LogicalAxisRules {
        &self.axis_rules
    }

    /// The same with another logical axis rules of activations.
    #[must_use]
    pub fn with_axis_rules(mut self, axis_rules: LogicalAxisRules) -> ShardingRules {
        self.axis_rules = axis_rules;
        self
    }

    /// Where an array of a batch lies: its first axis is that of the examples.
    pub fn batch(&self, name: &str, dims: &[usize]) -> Result<PartitionSpec, Error> {
        let along = |axes: Vec<Arc<str>>| {
            let mut sharding = PartitionSpec::replicated(dims.len());
            if let Some(first) = sharding.dims.first_mut() {
                *first = Some(axes);
            }
            sharding
        };
        let over_stages = along([self.batch.clone(), self.stages.clone()].concat());
        if over_stages.parts(&self.axis_rules.mesh, dims).is_ok() {
            return Ok(over_stages);
        }
        self.checked(name, dims, along(self.batch.clone()))
    }

    /// Where a parameter lies.
    pub fn parameter(&self, path: &str, dims: &[usize]) -> Result<PartitionSpec, Error> {
        if let Some((_, axes)) = self.rules.iter().rev().find(|(rule, _)| ends_with(path, rule)) {
            let dims_of = |axes: &Vec<String>| Some(axes.iter().map(|axis| axis.as_str().into()).collect());
            let mut sharding = PartitionSpec { dims: axes.iter().map(dims_of).collect() };
            // Who knows the module does not know that its layers are stacked.
            if self.is_pytorch && is_stacked(path) && sharding.dims.len() + 1 == dims.len() {
                sharding.dims.insert(0, Some(Vec::new()));
            }
            return self.checked(path, dims, sharding);
        }
        if self.is_pytorch {
            return self.of_pytorch(path, dims);
        }
        let stacked = usize::from(is_stacked(path) && !dims.is_empty());
        let weight = weight_of(path);
        let known = LOGICAL_AXES
            .iter()
            .find(|(end, logical_axes)| ends_with(weight, end) && logical_axes.len() + stacked == dims.len());
        match known {
            Some((_, logical_axes)) => self.by_logical_axes(path, dims, stacked, logical_axes),
            None => self.checked(path, dims, self.largest_axis(path, dims, stacked)),
        }
    }

    /// Where a parameter of a PyTorch module lies.
    fn of_pytorch(&self, path: &str, dims: &[usize]) -> Result<PartitionSpec, Error> {
        let stacked = usize::from(is_stacked(path) && !dims.is_empty());
        let of = |logical_axis: &str| self.of_parameters.get(logical_axis).cloned().unwrap_or_default();
        let parts = |axes: &[Arc<str>]| self.axis_rules.mesh.size_along(axes.iter().map(|axis| &**axis)).unwrap_or(1);
        let mut sharding = self.by_layers(path, dims);
        let known = PYTORCH_AXES
            .iter()
            .find(|(end, logical_axes)| ends_with(path, end) && logical_axes.len() + stacked == dims.len());
        if let Some((_, logical_axes)) = known {
            for (n, logical_axis) in logical_axes.iter().enumerate() {
                let axes = of(logical_axis);
                if dims[n + stacked].is_multiple_of(parts(&axes)) {
                    sharding.dims[n + stacked] = Some(axes);
                }
            }
        } else if dims.len() > stacked + 1 {
            // The largest axis along `model`, the largest of the others along `fsdp`.
            for axes in [of("mlp"), of("embed")].into_iter().filter(|axes| parts(axes) > 1) {
                let is_free = |n: &usize| sharding.dims[*n].as_ref().is_none_or(Vec::is_empty);
                let splits = |n: &usize| dims[*n].is_multiple_of(parts(&axes)) && dims[*n] > parts(&axes);
                let largest = (stacked..dims.len()).filter(is_free).filter(splits).max_by_key(|&n| dims[n]);
                if let Some(n) = largest {
                    sharding.dims[n] = Some(axes);
                }
            }
        }
        self.checked(path, dims, sharding)
    }

    fn by_logical_axes(
        &self,
        path: &str,
        dims: &[usize],
        stacked: usize,
        logical_axes: &[&str],
    ) -> Result<PartitionSpec, Error> {
        let mesh = &self.axis_rules.mesh;
        let mut sharding = self.by_layers(path, dims);
        for (n, logical_axis) in logical_axes.iter().enumerate() {
            let axes = self.of_parameters.get(logical_axis).cloned().unwrap_or_default();
            let parts = mesh.size_along(axes.iter().map(|axis| &**axis)).unwrap_or(1);
            // A vocabulary is any number; where it cannot be split it stays whole. So does the scale of a whole channel.
            let is_whole_channel = dims[n + stacked] == 1 && weight_of(path) != path;
            if !is_whole_channel && (*logical_axis != "vocab" || dims[n + stacked].is_multiple_of(parts)) {
                sharding.dims[n + stacked] = Some(axes);
            }
        }
        self.checked(path, dims, sharding)
    }

    /// Stacked layers lie along the stages, nothing else is split yet.
    fn by_layers(&self, path: &str, dims: &[usize]) -> PartitionSpec {
        let mut sharding = PartitionSpec::replicated(dims.len());
        if let Some(first) = sharding.dims.first_mut().filter(|_| is_staged(path)) {
            *first = Some(self.stages.clone());
        }
        sharding
    }

    /// What no rule knows: split along the largest axis that parameters are split along at all and that divides.
    fn largest_axis(&self, path: &str, dims: &[usize], stacked: usize) -> PartitionSpec {
        let mut sharding = self.by_layers(path, dims);
        let axes = self.of_parameters.get("embed").cloned().unwrap_or_default();
        let parts = self.axis_rules.mesh.size_along(axes.iter().map(|axis| &**axis)).unwrap_or(1);
        let splits = |n: &usize| dims[*n].is_multiple_of(parts) && dims[*n] > parts;
        let of_matrix = (stacked..dims.len()).filter(|_| dims.len() > stacked + 1);
        if let Some(n) = of_matrix.filter(splits).max_by_key(|&n| dims[n]).filter(|_| parts > 1) {
            sharding.dims[n] = Some(axes);
        }
        sharding
    }

    /// Where each leaf of a training's state lies: optimizer state as its parameter, the rest whole.
    pub fn state(
        &self,
        path: &str,
        dims: &[usize],
        parameters: &BTreeMap<String, Vec<usize>>,
    ) -> Result<PartitionSpec, Error> {
        let mut rest = path;
        loop {
            if parameters.get(rest).is_some_and(|known| known == dims) {
                return self.parameter(rest, dims);
            }
            // What a slice did not send of a gradient lies on the slice, and there as the parameter.
            if let Some((_, of_slice)) = dims.split_first().filter(|_| path.starts_with("residual."))
                && parameters.get(rest).is_some_and(|known| known == of_slice)
            {
                let mut sharding = self.parameter(rest, of_slice)?;
                sharding.dims.insert(0, Some(self.between_slices()));
                return self.checked(path, dims, sharding);
            }
            match rest.split_once('.') {
                Some((_, inner)) => rest = inner,
                None => return Ok(PartitionSpec::replicated(dims.len())),
            }
        }
    }

    /// Mesh axes between slices along which batches are split.
    fn between_slices(&self) -> Vec<Arc<str>> {
        let is_between =
            |axis: &&trace::Axis| axis.network == Network::BetweenSlices && self.batch.contains(&axis.name);
        self.axis_rules.mesh.axes().iter().filter(is_between).map(|axis| axis.name.clone()).collect()
    }

    fn checked(&self, path: &str, dims: &[usize], sharding: PartitionSpec) -> Result<PartitionSpec, Error> {
        let mesh = &self.axis_rules.mesh;
        match sharding.parts(mesh, dims) {
            Ok(_) => Ok(sharding),
            Err(error) => Err(Error::Mesh(format!("`{path}` of shape {dims:?} on the mesh {mesh}: {error}"))),
        }
    }
}

/// Whether a path ends with these words.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn use_of(name: &str, strategy: Strategy) -> Result<Use, String> {
    let by_name = match name {
        "data" | "replica" => Some(Use::Batch),
        "fsdp" => Some(Use::Fsdp),
        "model" | "tensor" => Some(Use::Model),
        "expert" => Some(Use::Expert),
        "context" | "sequence" => Some(Use::Context),
        "stage" => Some(Use::Stage),
        _ => None,
    };
    match (strategy, by_name) {
        (Strategy::Data, _) => Ok(Use::Batch),
        (Strategy::Fsdp, _) => Ok(Use::Fsdp),
        (Strategy::Megatron, Some(Use::Model)) => Ok(Use::Model),
        (Strategy::Expert, Some(Use::Expert)) => Ok(Use::Expert),
        (Strategy::Pipeline, Some(Use::Stage)) => Ok(Use::Stage),
        (Strategy::Hybrid, Some(known)) => Ok(known),
        (Strategy::Hybrid, None) => Err(format!(
            "the axis `{name}` is not known to the strategy hybrid: name it data, fsdp, model, expert, context or stage"
        )),
        _ => Ok(Use::Batch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharding(mesh: &str, strategy: Strategy) -> ShardingRules {
        ShardingRules::new(&mesh.parse().unwrap(), strategy).unwrap()
    }

    #[test]
    fn parameters_by_strategy() {
        let check = |mesh: &str, strategy: Strategy, path: &str, dims: &[usize], expected: &str| {
            assert_eq!(sharding(mesh, strategy).parameter(path, dims).unwrap().to_string(), expected, "{path}");
        };
        let query = ("model.layers.attention.query.weight", &[12, 64, 128][..]);
        check("data=4,model=2", Strategy::Data, query.0, query.1, "[-, -, -]");
        check("data=8", Strategy::Fsdp, query.0, query.1, "[-, data, -]");
        check("data=4,model=2", Strategy::Megatron, query.0, query.1, "[-, -, model]");
        check("fsdp=4,model=2", Strategy::Hybrid, query.0, query.1, "[-, fsdp, model]");
        check("fsdp=4,model=2", Strategy::Hybrid, "layers.attention.output.weight", &[12, 128, 64], "[-, model, fsdp]");
        check(
            "data=2,expert=4",
            Strategy::Expert,
            "layers.feed_forward.experts.gate",
            &[2, 8, 64, 256],
            "[-, expert, -, -]",
        );
        check("data=4,model=2", Strategy::Megatron, "token_embedding.weight", &[50257, 64], "[-, -]");
        check("data=4,model=2", Strategy::Megatron, "token_embedding.weight", &[512, 64], "[model, -]");
        check("data=8", Strategy::Fsdp, "layers.attention_norm.weight", &[12, 64], "[-, -]");
        check("data=8", Strategy::Fsdp, "blocks.0.path.0.convolution.kernel", &[3, 3, 16, 32], "[-, -, -, data]");
        check("dcn:replica=2,fsdp=4", Strategy::Fsdp, query.0, query.1, "[-, fsdp, -]");
        check("stage=4,data=2", Strategy::Pipeline, query.0, query.1, "[stage, -, -]");
        check("stage=2,fsdp=2,model=2", Strategy::Hybrid, query.0, query.1, "[stage, fsdp, model]");
        check("stage=2,data=2", Strategy::Hybrid, "layers.attention_norm.weight", &[12, 64], "[stage, -]");
        check("stage=2,data=2", Strategy::Hybrid, "token_embedding.weight", &[512, 64], "[-, -]");
        check("dcn:stage=2,fsdp=4", Strategy::Hybrid, query.0, query.1, "[stage, fsdp, -]");
        check(
            "stage=2,fsdp=2",
            Strategy::Hybrid,
            "params.first.layers.attention.query.weight",
            &[1, 64, 128],
            "[-, fsdp, -]",
        );
    }

    #[test]
    fn parameters_of_pytorch_modules() {
        let check = |mesh: &str, path: &str, dims: &[usize], expected: &str| {
            let rules = sharding(mesh, Strategy::Hybrid).with_pytorch_names();
            assert_eq!(rules.parameter(path, dims).unwrap().to_string(), expected, "{path}");
        };
        check("data=4,model=2", "transformer.h.0-11.attn.c_attn.weight", &[12, 64, 192], "[-, -, model]");
        check("data=4,model=2", "transformer.h.3.mlp.c_proj.weight", &[256, 64], "[model, -]");
        check("fsdp=4,model=2", "model.layers.0-3.self_attn.q_proj.weight", &[4, 64, 64], "[-, model, fsdp]");
        check("data=4,model=2", "lm_head.weight", &[50257, 64], "[-, -]");
        check("fsdp=2,model=2", "layer1.0.conv1.weight", &[64, 32, 3, 3], "[model, fsdp, -, -]");
        check("data=4,model=2", "fc.weight", &[10, 64], "[-, model]");
        check("data=4,model=2", "layer1.0.bn1.weight", &[64], "[-]");
        // A rule of the user's speaks of the module's own axes.
        let axes = vec![vec!["model".to_string()], vec![]];
        let rules = sharding("data=4,model=2", Strategy::Hybrid).with_pytorch_names().with_rule("c_attn.weight", axes);
        let placed = rules.parameter("transformer.h.0-11.attn.c_attn.weight", &[12, 64, 192]).unwrap();
        assert_eq!(placed.to_string(), "[-, model, -]");
    }

    #[test]
    fn every_matrix_of_the_transformers_is_known() {
        use crate::models::{Gpt2, Gpt2Config, Llama, LlamaConfig, RunOptions, Vit, VitConfig};
        use trace::{Key, Tensor, Tree};
        let of = |f: &dyn Fn(&Key) -> Vec<(String, usize)>| {
            let mut found = Vec::new();
            trace::shapes_of(&(), |()| {
                found = f(&Key::from_seed(&Tensor::scalar(tensor::DType::U32, 0.0)));
            })
            .unwrap();
            found
        };
        let named = |paths: Vec<String>, specs: Vec<trace::Spec>| -> Vec<(String, usize)> {
            paths.into_iter().zip(specs.iter().map(|spec| spec.dims.len())).collect()
        };
        let options = RunOptions::default();
        let mixtral = |text: &str| match crate::hf::ModelConfig::parse(text).unwrap() {
            crate::hf::ModelConfig::Llama(config) => config,
            crate::hf::ModelConfig::Gpt2(_) | crate::hf::ModelConfig::Gemma4(_) => panic!("a Llama was asked for"),
        };
        let sizes = r#""vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,
            "num_key_value_heads":1,"max_position_embeddings":8,"rms_norm_eps":1e-5,"rope_theta":1e4,"hidden_act":"silu""#;
        let llamas: Vec<LlamaConfig> = vec![
            mixtral(&format!(r#"{{"model_type":"llama",{sizes}}}"#)),
            mixtral(&format!(r#"{{"model_type":"mixtral","num_local_experts":2,"num_experts_per_tok":1,{sizes}}}"#)),
            mixtral(&format!(r#"{{"model_type":"qwen3_moe","num_experts":2,"num_experts_per_tok":1,{sizes}}}"#)),
            mixtral(&format!(r#"{{"model_type":"gemma3_text","head_dim":4,{sizes}}}"#)),
            mixtral(&format!(
                r#"{{"model_type":"deepseek_v3","q_lora_rank":4,"kv_lora_rank":4,"qk_nope_head_dim":4,"qk_rope_head_dim":2,
                "v_head_dim":4,"n_routed_experts":4,"n_shared_experts":1,"num_experts_per_tok":2,"n_group":1,
                "first_k_dense_replace":0,{}}}"#,
                sizes.replace(r#""num_key_value_heads":1,"#, "")
            )),
        ];
        let gpt2 =
            Gpt2Config { n_layer: 1, n_embd: 8, n_head: 2, n_positions: 4, vocab_size: 8, ..Gpt2Config::default() };
        let mut all = of(&|key| {
            let model = Gpt2::init(key, &gpt2, &options);
            named(model.paths(), model.specs())
        });
        for config in &llamas {
            all.extend(of(&|key| {
                let model = Llama::init(key, config, &options);
                named(model.paths(), model.specs())
            }));
        }
        all.extend(of(&|key| {
            let model = Vit::init(key, &VitConfig::default(), &options);
            named(model.paths(), model.specs())
        }));
        assert!(all.len() > 40);
        for (path, rank) in all {
            let rank = rank - usize::from(is_stacked(&path));
            let is_known =
                LOGICAL_AXES.iter().any(|(end, logical_axes)| ends_with(&path, end) && logical_axes.len() == rank);
            let is_free = path.contains("norm") || path == "patches.kernel" || path.ends_with("bias");
            assert!(is_known || is_free, "{path} of {rank} axes has no rule");
        }
    }

    #[test]
    fn rules_of_the_user_come_first() {
        let axes = vec![vec![], vec!["model".to_string()], vec![]];
        let placed = sharding("data=4,model=2", Strategy::Megatron).with_rule("query.weight", axes);
        assert_eq!(
            placed.parameter("layers.attention.query.weight", &[12, 64, 128]).unwrap().to_string(),
            "[-, model, -]"
        );
    }

    #[test]
    fn errors_name_the_parameter() {
        let error = sharding("data=2,model=8", Strategy::Megatron)
            .parameter("layers.feed_forward.up.weight", &[2, 64, 100])
            .unwrap_err()
            .to_string();
        for part in ["layers.feed_forward.up.weight", "[2, 64, 100]", "100 is not a multiple of 8"] {
            assert!(error.contains(part), "{error}");
        }
        let new = |mesh: &str, strategy: Strategy| {
            ShardingRules::new(&mesh.parse().unwrap(), strategy).unwrap_err().to_string()
        };
        let text = new("data=8", Strategy::Megatron);
        assert!(text.contains("needs an axis `model`") && text.ends_with("; data=4,model=2 would work"), "{text}");
        let text = new("rows=8,data=2", Strategy::Hybrid);
        assert!(text.contains("`rows` is not known") && text.ends_with("; fsdp=8,data=2 would work"), "{text}");
        assert!(new("data=8", Strategy::Pipeline).contains("needs an axis `stage`"));
        let staged = sharding("stage=2,data=2", Strategy::Hybrid);
        let check =
            |path: &str| staged.check(&BTreeMap::from([(path.into(), vec![4, 4])]), &[], &trace::Site::default());
        assert!(check("layers.0.kernel").unwrap_err().to_string().contains("the model has no stacked layers"));
        assert!(check("layers.up.weight").is_ok());
        assert_eq!(staged.batch("tokens", &[8, 4]).unwrap().to_string(), "[data+stage, -]");
        assert_eq!(staged.batch("tokens", &[6, 4]).unwrap().to_string(), "[data, -]");
        assert!(staged.with_microbatches(0).is_err());
        assert!(sharding("data=8", Strategy::Data).with_microbatches(2).unwrap_err().to_string().contains("`stage`"));
        let batch = sharding("data=8", Strategy::Data).batch("tokens", &[12, 64]).unwrap_err().to_string();
        assert!(batch.contains("`tokens`") && batch.contains("12 is not a multiple of 8"), "{batch}");
    }
}
