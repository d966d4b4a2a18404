//! Greedy tokens and their log probabilities are those of transformers, in batches of different lengths.

use infer::{
    BenchmarkOptions, FinishReason, InferenceOptions, KvLayout, OpenOptions, OpenedModel, PageCounts, Request,
    SamplingOptions, ScoreOptions, TokenPair, score,
};
use nn::LayerIteration;
use nn::models::RunOptions;
use serde::Deserialize;
use testkit::Needed;

use crate::harness::{cpu, cpus, crowded, engine, peer, peer_of, run, sized};
use crate::schedules::any_schedule_gives_each_request_what_it_gets_alone;

#[derive(Deserialize)]
struct Line {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    log_probabilities: Vec<f32>,
}

fn greedy(max_tokens: usize) -> SamplingOptions {
    SamplingOptions { max_tokens, temperature: 0.0, ignore_eos: true, ..SamplingOptions::default() }
}

#[test]
fn answers_are_those_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folders) = peer("answers_are_those_of_transformers", "answers", folder.path()) else { return };
    assert_eq!(folders.len(), 43);
    let backend = cpu();
    for folder in &folders {
        // Fewer rows than requests: some wait for others to end, and find what these left.
        answers_hold(&backend, folder, &sized(3, 32));
    }
    let of = |name: &str| folders.iter().find(|folder| folder.ends_with(name)).unwrap();
    // Heads, feed-forwards and experts on several devices: each has its parts of the weights, and its KV heads.
    let devices = cpus(8);
    for (name, mesh) in [
        ("llama", "data=4,model=2"),
        ("gpt2-small", "model=2,data=4"),
        ("gemma3", "model=2,fsdp=4"),
        ("mixtral", "expert=4,model=2"),
        ("deepseek-v3", "expert=8"),
    ] {
        let options = InferenceOptions { mesh: Some(mesh.parse().unwrap()), ..sized(4, 32) };
        answers_hold(&devices, of(name), &options);
    }
    let unrolled = RunOptions { layers: LayerIteration::Unrolled, ..RunOptions::default() };
    answers_hold(&backend, of("gemma3"), &InferenceOptions { run: unrolled, ..sized(3, 32) });
    let llama = of("llama");
    let mut happened = [0; 5];
    for (lookahead, seeds) in [(0, 0..2), (1, 2..5), (3, 5..7)] {
        let options = InferenceOptions { lookahead: Some(lookahead), host_pages: 8 * lookahead, ..crowded(5, 100) };
        let counts = any_schedule_gives_each_request_what_it_gets_alone(&backend, llama, &options, seeds);
        let of_these = [counts.prefix_tokens, counts.copied, counts.evicted, counts.preempted, counts.restored];
        happened.iter_mut().zip(of_these).for_each(|(all, count)| *all += count);
    }
    assert!(
        !happened.contains(&0),
        "tokens found, pages copied, evicted and brought back, requests preempted: {happened:?}"
    );
    // Rows are the other layout of the same engine.
    let rows = InferenceOptions { kv_layout: Some(KvLayout::Rows), lookahead: Some(1), ..sized(5, 100) };
    let counts = any_schedule_gives_each_request_what_it_gets_alone(&backend, llama, &rows, 2..3);
    assert_eq!(counts, PageCounts::default());
    for folder in folders.iter().step_by(8) {
        scores_are_those_of_transformers(&backend, folder);
    }
    what_cannot_be_answered_is_refused(&backend, llama);
    speed_is_measured(&backend, llama);
}

/// Log likelihoods of transformers' own answers are the sums of its log probabilities, and every token is the likeliest.
fn scores_are_those_of_transformers(backend: &runtime::Backend, folder: &std::path::Path) {
    let lines: Vec<Line> =
        serde_json::from_str(&std::fs::read_to_string(folder.join("answers.json")).unwrap()).unwrap();
    let options = OpenOptions { tokenizer: Some("bytes"), ..OpenOptions::default() };
    let source = OpenedModel::open(folder, options).unwrap();
    let pair = |line: &Line| TokenPair { context: line.prompt.clone(), continuation: line.tokens.clone() };
    let mut pairs: Vec<TokenPair> = lines.iter().map(pair).collect();
    // One that the model would not write.
    let mut other = pair(&lines[0]);
    other.continuation[0] = (other.continuation[0] + 1) % 101;
    pairs.push(other);
    let options = ScoreOptions { batch: 3, run: RunOptions::default() };
    let scores = score(backend, &source, &pairs, &options, &mut |_, _| {}).unwrap();
    for (line, score) in lines.iter().zip(&scores) {
        let expected: f32 = line.log_probabilities.iter().sum();
        let off = (score.log_likelihood - f64::from(expected)).abs();
        assert!(off < 5e-3, "{}: off by {off}", folder.display());
        assert!(score.is_greedy);
    }
    assert!(!scores[lines.len()].is_greedy);
    let empty = [TokenPair { context: vec![], continuation: vec![1] }];
    assert!(score(backend, &source, &empty, &options, &mut |_, _| {}).is_err());
}

/// Gemma 4: layers of two sizes, shared keys and values, embeddings of each layer, experts, and its folder of images.
#[test]
fn answers_are_those_of_a_newer_transformers() {
    let test = "answers_are_those_of_a_newer_transformers";
    let folder = tempfile::tempdir().unwrap();
    let Some(folders) = peer_of(test, Needed::ModelsPython, "newer", folder.path()) else { return };
    assert_eq!(folders.len(), 4);
    let backend = cpu();
    for folder in &folders {
        answers_hold(&backend, folder, &sized(2, 32));
        scores_are_those_of_transformers(&backend, folder);
    }
    let of = |name: &str| folders.iter().find(|folder| folder.ends_with(name)).unwrap();
    let devices = cpus(4);
    for (name, mesh) in [("gemma4", "model=2,data=2"), ("gemma4-experts", "expert=2,model=2")] {
        let options = InferenceOptions { mesh: Some(mesh.parse().unwrap()), ..sized(4, 32) };
        answers_hold(&devices, of(name), &options);
    }
}

fn speed_is_measured(backend: &runtime::Backend, folder: &std::path::Path) {
    let mut engine = engine(backend, folder, &sized(3, 32));
    let options = BenchmarkOptions { concurrency: 3, input_length: 8, output_length: 4, requests: 7 };
    let mut told = Vec::new();
    let found = engine.benchmark(options, &mut |done, all| told.push((done, all))).unwrap();
    assert_eq!((told.len(), told.last()), (10, Some(&(10, 10))));
    assert_eq!(found.compiled, 0, "the warm-up left programs to compile");
    let tokens = found.output_tokens_per_second * found.seconds;
    assert!((tokens - 28.0).abs() < 1e-6 && (found.total_tokens_per_second * found.seconds - 84.0).abs() < 1e-6);
    let (first, each, whole) = (found.ttft_seconds, found.tpot_seconds, found.latency_seconds);
    assert!(0.0 < each.p50 && each.p50 <= each.p99 && first.p50 <= whole.p50 && whole.max <= found.seconds);
    assert!(engine.is_idle());
    assert!(engine.benchmark(BenchmarkOptions { output_length: 40, ..options }, &mut |_, _| {}).is_err());
}

/// An engine with these options gives the answers of transformers that are kept beside a model.
fn answers_hold(backend: &runtime::Backend, folder: &std::path::Path, options: &InferenceOptions) {
    let lines: Vec<Line> =
        serde_json::from_str(&std::fs::read_to_string(folder.join("answers.json")).unwrap()).unwrap();
    let mut engine = engine(backend, folder, options);
    let add = |line: &Line| Request { prompt: line.prompt.clone(), sampling: greedy(line.tokens.len()) };
    let ids: Vec<_> = lines.iter().map(|line| engine.add(add(line)).unwrap()).collect();
    for (line, answer) in lines.iter().zip(run(&mut engine, &ids)) {
        let name = folder.file_name().unwrap().to_string_lossy();
        assert_eq!(answer.numbers(), line.tokens, "{name} after {:?}", line.prompt);
        assert_eq!(answer.finish, Some(FinishReason::Length));
        for (token, expected) in answer.tokens.iter().zip(&line.log_probabilities) {
            let off = (token.log_probability - expected).abs();
            assert!(off < 2e-3, "{name}: a log probability is off by {off}");
        }
    }
}

fn what_cannot_be_answered_is_refused(backend: &runtime::Backend, folder: &std::path::Path) {
    let mut engine = engine(backend, folder, &sized(2, 32));
    let refused = |engine: &mut infer::Engine, prompt: Vec<u32>, sampling: SamplingOptions| {
        engine.add(Request { prompt, sampling }).unwrap_err().to_string()
    };
    assert!(refused(&mut engine, vec![], greedy(1)).contains("no tokens"));
    assert!(refused(&mut engine, vec![1; 32], greedy(1)).contains("at most 32"));
    assert!(refused(&mut engine, vec![101], greedy(1)).contains("knows 101"));
    assert!(refused(&mut engine, vec![1], SamplingOptions { temperature: -1.0, ..greedy(1) }).contains("temperature"));
    assert!(refused(&mut engine, vec![1], SamplingOptions { top_p: f64::NAN, ..greedy(1) }).contains("top_p"));
    let biased = SamplingOptions { logit_bias: [(101, 1.0)].into(), ..greedy(1) };
    assert!(refused(&mut engine, vec![1], biased).contains("logit_bias"));
    // As many tokens as there is room for.
    let id = engine.add(Request { prompt: vec![1; 30], sampling: greedy(100) }).unwrap();
    let answers = run(&mut engine, &[id]);
    assert_eq!((answers[0].tokens.len(), answers[0].finish), (2, Some(FinishReason::Length)));
}
