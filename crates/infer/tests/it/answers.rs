//! Greedy tokens and their log probabilities are those of transformers, in batches of different lengths.

use infer::{FinishReason, Request, SamplingOptions};
use serde::Deserialize;

use crate::harness::{cpu, engine, peer, run};
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
    let Some(folders) = peer("answers_are_those_of_transformers", folder.path()) else { return };
    assert_eq!(folders.len(), 16);
    let backend = cpu();
    for folder in &folders {
        let lines: Vec<Line> =
            serde_json::from_str(&std::fs::read_to_string(folder.join("answers.json")).unwrap()).unwrap();
        // Fewer rows than requests: some wait for others to end, and find what these left.
        let mut engine = engine(&backend, folder, 3, 32);
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
    let llama = folders.iter().find(|folder| folder.ends_with("llama")).unwrap();
    any_schedule_gives_each_request_what_it_gets_alone(&backend, llama);
    what_cannot_be_answered_is_refused(&backend, llama);
}

fn what_cannot_be_answered_is_refused(backend: &runtime::Backend, folder: &std::path::Path) {
    let mut engine = engine(backend, folder, 2, 32);
    let refused = |engine: &mut infer::Engine, prompt: Vec<u32>, sampling: SamplingOptions| {
        engine.add(Request { prompt, sampling }).unwrap_err().to_string()
    };
    assert!(refused(&mut engine, vec![], greedy(1)).contains("no tokens"));
    assert!(refused(&mut engine, vec![1; 32], greedy(1)).contains("at most 32"));
    assert!(refused(&mut engine, vec![101], greedy(1)).contains("knows 101"));
    assert!(refused(&mut engine, vec![1], SamplingOptions { temperature: -1.0, ..greedy(1) }).contains("temperature"));
    assert!(refused(&mut engine, vec![1], SamplingOptions { top_p: f64::NAN, ..greedy(1) }).contains("top_p"));
    // As many tokens as there is room for.
    let id = engine.add(Request { prompt: vec![1; 30], sampling: greedy(100) }).unwrap();
    let answers = run(&mut engine, &[id]);
    assert_eq!((answers[0].tokens.len(), answers[0].finish), (2, Some(FinishReason::Length)));
}
