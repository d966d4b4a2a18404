//! Weights and KV caches of few bits as choices of a plan, with what they cost in quality.

use std::str::FromStr;

use nn::DTypePolicy;
use nn::layers::KvCacheDType;
use nn::quant::{ActivationQuant, MatmulForm, QuantScheme};
use plan::search::{Plan, Quantization, choice_of};
use tensor::DType;

use crate::error::Error;

/// Weights of a plan: `dense`, or the word of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedWeights(pub Option<QuantScheme>);

impl FromStr for PlannedWeights {
    type Err = Error;

    fn from_str(text: &str) -> Result<PlannedWeights, Error> {
        if text == "dense" {
            return Ok(PlannedWeights(None));
        }
        let scheme = text
            .parse::<QuantScheme>()
            .map_err(|error| Error::new(error.to_string()).hint("`dense` leaves weights in the type of --precision"))?;
        Ok(PlannedWeights(Some(scheme)))
    }
}

/// The KV cache of a plan: a type, or none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCache(pub Option<KvCacheDType>);

/// Words of KV caches.
const CACHES: [(&str, KvCacheDType); 4] = [
    ("bf16", KvCacheDType::Bf16),
    ("int8", KvCacheDType::Int8),
    ("fp8", KvCacheDType::Fp8),
    ("int4", KvCacheDType::Int4),
];

impl FromStr for PlannedCache {
    type Err = Error;

    fn from_str(text: &str) -> Result<PlannedCache, Error> {
        let found = CACHES.iter().find(|(name, _)| *name == text);
        let (_, dtype) = found.ok_or_else(|| {
            let known = CACHES.map(|(name, _)| name).join(", ");
            Error::new(format!("`{text}` is no type of a KV cache; types are {known}"))
        })?;
        Ok(PlannedCache(Some(*dtype)))
    }
}

/// Every pair of what was asked for; one that leaves all as it is where nothing was.
/// The LM head is quantized where weights are.
pub(crate) fn all(
    weights: &[PlannedWeights],
    lm_head: Option<QuantScheme>,
    caches: &[PlannedCache],
) -> Vec<Quantization> {
    let weights: Vec<Option<String>> = match weights {
        [] => vec![None],
        some => some.iter().map(|choice| choice.0.map(|scheme| scheme.to_string())).collect(),
    };
    let word = |cache: &PlannedCache| {
        CACHES.iter().find(|(_, dtype)| Some(*dtype) == cache.0).map(|(name, _)| (*name).to_string())
    };
    let caches: Vec<Option<String>> = if caches.is_empty() { vec![None] } else { caches.iter().map(word).collect() };
    let pair = |weights: &Option<String>, kv_cache: &Option<String>| Quantization {
        weights: weights.clone(),
        lm_head: lm_head.filter(|_| weights.is_some()).map(|scheme| scheme.to_string()),
        kv_cache: kv_cache.clone(),
    };
    weights.iter().flat_map(|weights| caches.iter().map(move |cache| pair(weights, cache))).collect()
}

/// What a scheme costs in quality, by what its makers published.
pub fn quality_cost(scheme: &QuantScheme) -> &'static str {
    match (scheme.values, scheme.activations, scheme.group) {
        (DType::I8, ActivationQuant::None, _) => plan::INT8_COST,
        (DType::I8, _, _) => {
            "perplexity +0.8 to 1.9 % (int8 weights and activations: 7.45 on 7.33 of Llama 3.1 8B, torchao's documents; \
             SmoothQuant's README 6.26 on 6.14, 5.52 on 5.47)"
        }
        (DType::F8E4M3FN, ActivationQuant::None, _) => {
            "less than fp8 weights and activations, perplexity +1.2 % (torchao's documents)"
        }
        (DType::F8E4M3FN, _, _) => "perplexity +1.2 % (fp8 by row: 7.42 on 7.33 of Llama 3.1 8B, torchao's documents)",
        (DType::I4, ActivationQuant::None, None) => plan::INT4_COST,
        (DType::I4, _, None) => {
            "that of int4 weights (perplexity +2 to 4 % after rotation and GPTQ, SpinQuant's README) and of int8 activations (+0.1 % \
             measured here, up to 1.9 % by SmoothQuant's README): measure both with `tpu quantize --scheme w4a8`"
        }
        (DType::I4, _, Some(_)) => {
            "perplexity +1 to 5 % trained in groups of 128 (5.53 on 5.47 of Llama 2 7B, 6.47 on 6.14 of Llama 3 8B, \
             EfficientQAT's README); rounded to the nearest more"
        }
        _ => "not known here: measure it with `tpu eval`",
    }
}

/// The form of matmuls with weights of a scheme on one device of a plan.
fn form(scheme: &QuantScheme, plan: &Plan) -> MatmulForm {
    let mesh = choice_of(&plan.candidate).mesh;
    let rows = plan.tokens_per_step / mesh.batch_parts().max(1) as f64;
    // The number of groups only tells whether there are several.
    MatmulForm::of(scheme, rows as usize, if scheme.group.is_some() { 2 } else { 1 })
}

/// What the bits of the best plan cost, or what others would save where none were asked for.
pub(crate) fn notes(best: Option<&Plan>, asked: &[Quantization]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((plan, variant)) = best.and_then(|plan| Some((plan, plan.variant.as_ref()?))) {
        if let Some(Ok(scheme)) = variant.quantization.weights.as_deref().map(str::parse::<QuantScheme>) {
            let form = form(&scheme, plan);
            notes.push(format!("weights of {scheme}: {}", quality_cost(&scheme)));
            let copies = match form {
                MatmulForm::Kernel => {
                    "; layers are stacked, so the codes of each are copied before its kernel reads them"
                }
                _ => "",
            };
            notes.push(format!("matmuls with weights of {scheme}: {}{copies}", form.name()));
        }
        if let Some(Ok(scheme)) = variant.quantization.lm_head.as_deref().map(str::parse::<QuantScheme>) {
            notes
                .push(format!("an LM head of {scheme} beside them: measure it with `tpu quantize --lm-head {scheme}`"));
        }
        if let Some(cache) = variant.quantization.kv_cache.as_deref().filter(|cache| *cache != "bf16") {
            notes.push(format!(
                "a KV cache of {cache} rounds every key and value: measure what it costs with `tpu eval`"
            ));
        }
    }
    if asked.iter().all(|choice| *choice == Quantization::default()) {
        notes.push(
            "weights of 8 or 4 bits and a KV cache of 8 take a half or a quarter of the memory, and of the time that reading it \
             takes: --weights dense,w8a16,w4a16 --kv-cache bf16,int8 compares them"
                .into(),
        );
    }
    notes
}

/// What matmuls of 8 bits cost a training, by what we measured.
pub fn training_cost(precision: DTypePolicy) -> Option<&'static str> {
    match precision {
        DTypePolicy::Fp8 => Some(
            "validation loss -0.2 % with delayed scaling, +0.4 % with a scale for each channel, +0.6 % with one for each tensor \
             (a GPT of 3.3 million parameters after 1,000 steps, beside bf16)",
        ),
        DTypePolicy::Int8 => Some(
            "validation loss -0.1 %, +0.2 % with the backward pass in int8 too (a GPT of 3.3 million parameters after 1,000 steps, \
             beside bf16)",
        ),
        DTypePolicy::F32 | DTypePolicy::Mixed | DTypePolicy::Bf16 => None,
    }
}

/// What the bits of the best plan of a training cost, or that others can be compared.
pub(crate) fn training_notes(best: Option<&Plan>, asked: &[DTypePolicy]) -> Vec<String> {
    let chosen = best.and_then(|plan| plan.variant.as_ref()).map(|variant| variant.types);
    let cost = chosen.and_then(|precision| Some((precision, training_cost(precision)?)));
    let mut notes: Vec<String> =
        cost.iter().map(|(precision, cost)| format!("matmuls in {precision}: {cost}")).collect();
    if asked.iter().all(|precision| training_cost(*precision).is_none()) {
        notes.push(
            "matmuls in 8 bits are faster on some generations (int8 on v5e, v5p and v6e, fp8 on TPU7x): --precision mixed,int8,fp8 \
             compares them"
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trainings_in_few_bits_have_their_cost() {
        assert!(training_notes(None, &[DTypePolicy::Mixed])[0].contains("--precision mixed,int8,fp8"));
        assert_eq!(training_notes(None, &[DTypePolicy::Mixed, DTypePolicy::Int8]), [""; 0]);
        let costly = |precision: &&DTypePolicy| training_cost(**precision).is_some();
        assert_eq!(DTypePolicy::ALL.iter().filter(costly).count(), 2);
    }

    #[test]
    fn choices_are_pairs() {
        assert_eq!(all(&[], Some("w8a16".parse().unwrap()), &[]), [Quantization::default()]);
        let weights = ["dense", "w4a16"].map(|word| word.parse().unwrap());
        let caches = ["bf16", "int8"].map(|word| word.parse().unwrap());
        let found: Vec<String> = all(&weights, Some("w8a16".parse().unwrap()), &caches)
            .into_iter()
            .map(|quantization| plan::search::Variant { quantization, ..Default::default() }.to_string())
            .collect();
        assert_eq!(
            found,
            [
                "f32 bf16 cache",
                "f32 int8 cache",
                "f32 w4a16 w8a16 LM head bf16 cache",
                "f32 w4a16 w8a16 LM head int8 cache"
            ]
        );
        assert!("w3".parse::<PlannedWeights>().is_err() && "int3".parse::<PlannedCache>().is_err());
    }

    #[test]
    fn every_scheme_has_its_cost() {
        let cost = |word: &str| quality_cost(&word.parse().unwrap());
        assert!(
            cost("w8a16").contains("0.3 %")
                && cost("w4a16").contains("2 to 4 %")
                && cost("w8a8").contains("SmoothQuant")
        );
        assert!(cost("w4a8").contains("int8 activations") && cost("w4a8-static").contains("w4a8"));
        assert!(cost("w4a16-g128").contains("groups of 128") && cost("w2a16").contains("measure"));
    }
}
