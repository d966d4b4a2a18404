//! `tpu quantize`: a model in fewer bits, calibrated and evaluated.

use std::path::{Path, PathBuf};

use nn::quant::{QuantScheme, ZeroPoints};
use quantize::pipeline::{
    Evaluation, Method, MethodName, ModelFolder, QuantizePlan, QuantizedModel, quantize_folder, read_tokens,
};
use runtime::Backend;
use serde::Serialize;

use crate::args::QuantizeArgs;
use crate::commands;
use crate::commands::eval::{evaluated, options_of};
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    folder: PathBuf,
    scheme: String,
    method: String,
    bits_per_weight: f64,
    /// The mean that was asked for, where layers have different bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    average_bits: Option<f64>,
    /// Bytes of the quantized weights in bf16, over theirs.
    compression: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Evaluation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Evaluation>,
    /// Next-token accuracy after, over that before.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy_kept: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<f64>,
    is_target_met: bool,
    /// What was tried, in order.
    trials: Vec<TrialRecord>,
    layers: Vec<quantize::pipeline::LayerReport>,
    /// The LM head, where it is quantized too.
    #[serde(skip_serializing_if = "Option::is_none")]
    lm_head: Option<quantize::pipeline::WeightReport>,
}

/// One way that was tried.
#[derive(Clone, Serialize)]
struct TrialRecord {
    scheme: String,
    method: String,
    perplexity: f64,
    accuracy_kept: f64,
}

struct Trial {
    plan: QuantizePlan,
    quantized: QuantizedModel,
    after: Option<Evaluation>,
}

pub(crate) fn run(args: &QuantizeArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.text.config, args.text.device.as_deref())?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    if let Some(target) = args.target.filter(|target| !(0.0..=1.0).contains(target)) {
        return Err(
            Failure::new(format!("--target {target} is no share of an accuracy")).hint("give 0.99, for example")
        );
    }
    let plans = plans(args)?;
    plans.iter().try_for_each(QuantizePlan::check)?;
    let folder = ModelFolder::open(&args.folder)?;
    let texts = Texts::read(args, &folder, &plans)?;
    let backend = Backend::auto(&device)?;
    let options = options_of(&args.text, &folder, texts.evaluation.len().max(2))?;
    let has_text = !texts.evaluation.is_empty();
    let before = has_text.then(|| evaluated(&backend, &folder, &texts.evaluation, &options)).transpose()?;
    let mut best: Option<Trial> = None;
    let mut tried = Vec::new();
    for plan in &plans {
        let plan = QuantizePlan { sequence: options.sequence.min(plan.sequence), ..plan.clone() };
        let out = if plans.len() == 1 { args.out.clone() } else { beside(&args.out, &plan) };
        let quantized = quantized(&backend, &folder, &texts.calibration, &plan, &out)?;
        let after = match has_text {
            true => Some(evaluated(&backend, &ModelFolder::open(&out)?, &texts.evaluation, &options)?),
            false => None,
        };
        if let (Some(before), Some(after)) = (&before, &after) {
            tried.push(TrialRecord {
                scheme: described(&plan),
                method: plan.method_name().to_string(),
                perplexity: after.perplexity,
                accuracy_kept: after.accuracy / before.accuracy,
            });
        }
        let is_better = match (&best, &after) {
            (Some(best), Some(after)) => best.after.as_ref().is_none_or(|best| after.perplexity < best.perplexity),
            _ => true,
        };
        let trial = Trial { plan, quantized, after };
        let worse = if is_better { best.replace(trial) } else { Some(trial) };
        if let Some(worse) = worse {
            remove(&worse.quantized.folder)?;
        }
        let kept = kept(before.as_ref(), best.as_ref().and_then(|best| best.after.as_ref()));
        if args.target.zip(kept).is_some_and(|(target, kept)| kept >= target) {
            break;
        }
    }
    let Some(best) = best else { return Err(Failure::new("nothing was tried")) };
    if best.quantized.folder != args.out {
        std::fs::rename(&best.quantized.folder, &args.out)
            .map_err(|error| Failure::new(format!("{}: {error}", args.out.display())).hint("give another --out"))?;
    }
    let kept = kept(before.as_ref(), best.after.as_ref());
    let is_target_met = args.target.is_none_or(|target| kept.is_some_and(|kept| kept >= target));
    let (dense, packed) = best.quantized.bytes;
    let record = Record {
        version: 1,
        folder: args.out.clone(),
        scheme: described(&best.plan),
        method: best.plan.method_name().to_string(),
        bits_per_weight: 16.0 * packed as f64 / dense.max(1) as f64,
        average_bits: best.plan.average_bits,
        compression: dense as f64 / packed.max(1) as f64,
        before,
        after: best.after,
        accuracy_kept: kept,
        target: args.target,
        is_target_met,
        trials: tried,
        layers: best.quantized.layers,
        lm_head: best.quantized.lm_head,
    };
    output.record(&record, || text(&record))?;
    if !is_target_met {
        eprintln!("hint: give more bits (--bits 8), groups (--scheme w4a16-g128), or a longer calibration text");
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

fn kept(before: Option<&Evaluation>, after: Option<&Evaluation>) -> Option<f64> {
    before.zip(after).map(|(before, after)| after.accuracy / before.accuracy)
}

/// Ways to try, cheapest first.
fn plans(args: &QuantizeArgs) -> Result<Vec<QuantizePlan>, Failure> {
    let (scheme, bits) = match args.scheme {
        Some(scheme) => (scheme, None),
        None => of_bits(args.bits)?,
    };
    let one = |method: MethodName| QuantizePlan {
        scheme,
        bits,
        average_bits: args.average_bits,
        lm_head: args.lm_head,
        method: method.method,
        is_rotated: method.is_rotated,
        samples: args.samples,
        sequence: args.text.sequence.unwrap_or(usize::MAX),
        seed: args.seed,
    };
    let named = |method: Method, is_rotated: bool| one(MethodName { method, is_rotated });
    Ok(match (args.method, scheme.bits(), args.target) {
        (Some(method), ..) => vec![one(method)],
        (None, 8.., _) if args.average_bits.is_none() => vec![named(Method::Nearest, false)],
        // Small groups have no outliers that a rotation would take away.
        (None, _, None) if args.calibration.is_some() => vec![named(Method::Gptq, !scheme.values.is_float())],
        (None, _, None) => vec![named(Method::Nearest, false)],
        (None, _, Some(_)) if args.calibration.is_none() => vec![named(Method::Nearest, false)],
        (None, _, Some(_)) if args.average_bits.is_some() => vec![named(Method::Gptq, true)],
        (None, _, Some(_)) if scheme.values.is_float() => {
            vec![named(Method::Nearest, false), named(Method::Gptq, false), named(Method::Gptq, true)]
        }
        (None, _, Some(_)) => vec![
            named(Method::Nearest, false),
            named(Method::Gptq, false),
            named(Method::Gptq, true),
            QuantizePlan { scheme: QuantScheme { group: Some(TARGET_GROUP), ..scheme }, ..named(Method::Gptq, true) },
            QuantizePlan { average_bits: Some(f64::from(scheme.bits()) + 1.0), ..named(Method::Gptq, true) },
            QuantizePlan { average_bits: Some(f64::from(scheme.bits()) + 2.0), ..named(Method::Gptq, true) },
        ],
    })
}

/// Groups that are tried where a scale for each channel is too coarse.
const TARGET_GROUP: usize = 128;

fn of_bits(bits: u32) -> Result<(QuantScheme, Option<u32>), Failure> {
    let (dtype, bits) = QuantizePlan::code_type(bits).ok_or_else(|| {
        Failure::new(format!("--bits {bits} is not offered"))
            .hint("give 2 to 8 bits; 16 bits are the dense model in bf16, which needs no quantization")
    })?;
    Ok((QuantScheme { zero_points: ZeroPoints::None, ..QuantScheme::per_channel(dtype) }, bits))
}

/// The scheme in words.
fn described(plan: &QuantizePlan) -> String {
    match plan.average_bits {
        Some(bits) => format!("{} with {bits} bits in the mean", plan.scheme),
        None => plan.scheme.to_string(),
    }
}

/// Where a trial among several is written.
fn beside(out: &Path, plan: &QuantizePlan) -> PathBuf {
    let name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mixed = plan.average_bits.map_or(String::new(), |bits| format!("-mixed{bits}"));
    out.with_file_name(format!("{name}.{}-{}{mixed}", plan.scheme, plan.method_name()))
}

fn remove(folder: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(folder)
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())).hint("remove it by hand"))
}

fn quantized(
    backend: &Backend,
    folder: &ModelFolder,
    tokens: &[u32],
    plan: &QuantizePlan,
    out: &Path,
) -> Result<QuantizedModel, Failure> {
    let progress = Progress::start();
    let name = format!("{} by {}", described(plan), plan.method_name());
    Ok(quantize_folder(backend, folder, tokens, plan, out, &mut |done, all, layer| {
        let worst =
            layer.and_then(|layer| layer.weights.iter().filter_map(|weight| weight.output_error).reduce(f64::max));
        let worst = worst.map_or(String::new(), |error| format!(", largest output error {:.2} %", 100.0 * error));
        progress.step(&format!("quantizing to {name}: {done} of {all} layers{worst}"));
    })?)
}

/// Tokens of the texts.
struct Texts {
    calibration: Vec<u32>,
    evaluation: Vec<u32>,
}

/// Share of a calibration text that is kept for the evaluation.
const EVALUATION_SHARE: usize = 10;

impl Texts {
    fn read(args: &QuantizeArgs, folder: &ModelFolder, plans: &[QuantizePlan]) -> Result<Texts, Failure> {
        let needed = plans.iter().any(QuantizePlan::needs_calibration);
        let tokenizer = args.text.tokenizer.as_deref();
        let read = |path: &PathBuf| read_tokens(folder, path, tokenizer);
        let mut calibration = args.calibration.as_ref().map(read).transpose()?.unwrap_or_default();
        let mut evaluation = args.data.as_ref().map(read).transpose()?.unwrap_or_default();
        if needed && calibration.is_empty() {
            return Err(Failure::new("the method looks at activations, and there is no text to look at")
                .hint("give --calibration FILE, or --method rtn"));
        }
        if args.target.is_some() && calibration.is_empty() && evaluation.is_empty() {
            return Err(Failure::new("--target needs a text to evaluate on").hint("give --data FILE"));
        }
        if evaluation.is_empty() && !calibration.is_empty() && !args.no_eval {
            evaluation = calibration.split_off(calibration.len() - calibration.len() / EVALUATION_SHARE);
        }
        Ok(Texts { calibration, evaluation })
    }
}

fn text(record: &Record) -> String {
    let mut table = Table::new(&[Align::Right; 5]);
    table.row(["layer", "weights", "bits", "SQNR dB", "output error"]);
    for (n, layer) in record.layers.iter().enumerate() {
        let count = layer.weights.len().max(1) as f64;
        let mean =
            |of: &dyn Fn(&quantize::pipeline::WeightReport) -> f64| layer.weights.iter().map(of).sum::<f64>() / count;
        let errors: Vec<f64> = layer.weights.iter().filter_map(|weight| weight.output_error).collect();
        let error = match errors.is_empty() {
            true => "-".to_string(),
            false => format!("{:.2} %", 100.0 * errors.iter().sum::<f64>() / errors.len() as f64),
        };
        table.row(vec![
            n.to_string(),
            layer.weights.len().to_string(),
            format!("{:.2}", mean(&|weight| weight.bits_per_weight)),
            format!("{:.1}", mean(&|weight| weight.sqnr_db)),
            error,
        ]);
    }
    if let Some(head) = &record.lm_head {
        let (bits, decibels) = (format!("{:.2}", head.bits_per_weight), format!("{:.1}", head.sqnr_db));
        table.row(vec!["LM head".to_string(), "1".to_string(), bits, decibels, "-".to_string()]);
    }
    let mut text = table.render();
    text.push_str(&format!(
        "\n{}: {} by {}, {:.2} bits a weight, {:.2} times smaller than bf16\n",
        record.folder.display(),
        record.scheme,
        record.method,
        record.bits_per_weight,
        record.compression
    ));
    if let (Some(before), Some(after)) = (&record.before, &record.after) {
        text.push_str(&format!(
            "perplexity {:.4} → {:.4} ({:+.2} %), next-token accuracy {:.2} % → {:.2} % ({:.2} % kept), {} tokens\n",
            before.perplexity,
            after.perplexity,
            100.0 * (after.perplexity / before.perplexity - 1.0),
            100.0 * before.accuracy,
            100.0 * after.accuracy,
            100.0 * after.accuracy / before.accuracy,
            after.tokens
        ));
        text.push_str(&format!(
            "evaluated here at {:.0} → {:.0} tokens/s\n",
            before.tokens as f64 / before.seconds.max(1e-9),
            after.tokens as f64 / after.seconds.max(1e-9)
        ));
    }
    if record.average_bits.is_none() && record.method != "codebook" {
        text.push_str(&format!(
            "next: `tpu plan {}/config.json --step decode --weights {} --slices v6e-1` predicts the speed on a TPU\n",
            record.folder.display(),
            record.scheme
        ));
    }
    if let Some(target) = record.target.filter(|_| !record.is_target_met) {
        text.push_str(&format!("the target of {target} was not reached; this is the best found\n"));
    }
    text
}
