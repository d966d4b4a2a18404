//! Requests that share pages, wait for pages, and give up theirs get the tokens that they get alone.

use infer::{Engine, InferenceOptions, KvLayout, PageCounts, Request, SamplingOptions};
use nn::layers::KvCacheDType;
use nn::models::RunOptions;

use crate::harness::{cpu, cpus, crowded, engine, run, sized, write_llama};

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 101, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.5,
    "sliding_window": 24, "tie_word_embeddings": false}"#;

fn request(prompt: Vec<u32>, max_tokens: usize, temperature: f64) -> Request {
    let sampling = SamplingOptions { max_tokens, temperature, ignore_eos: true, ..SamplingOptions::default() };
    Request { prompt, sampling }
}

fn prompt(first: u32, length: u32) -> Vec<u32> {
    (0..length).map(|n| (n * 7 + first) % 101).collect()
}

fn answers(engine: &mut Engine, requests: &[Request]) -> Vec<Vec<u32>> {
    let ids: Vec<_> = requests.iter().map(|request| engine.add(request.clone()).unwrap()).collect();
    run(engine, &ids).iter().map(|answer| answer.numbers()).collect()
}

#[test]
fn the_youngest_gives_up_its_pages_and_its_tokens_stay_the_same() {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), CONFIG, 0.0);
    let (backend, devices) = (cpu(), cpus(2));
    let requests: Vec<Request> =
        (0..4).map(|n| request(prompt(n, 16 + n), 60, if n == 1 { 0.8 } else { 0.0 })).collect();
    let mut alone = engine(&backend, folder.path(), &sized(1, 100));
    let expected: Vec<Vec<u32>> =
        requests.iter().map(|request| answers(&mut alone, std::slice::from_ref(request)).remove(0)).collect();
    // Each needs 10 pages at its end, of 15.
    let options = crowded(3, 100);
    let on_mesh = InferenceOptions { mesh: Some("model=2".parse().unwrap()), ..options.clone() };
    let on_stages = InferenceOptions { mesh: Some("stage=2".parse().unwrap()), ..options.clone() };
    let ahead = InferenceOptions { lookahead: Some(2), ..options.clone() };
    let with_host = |options: &InferenceOptions| InferenceOptions { host_pages: 20, ..options.clone() };
    let (on_host, on_mesh_and_host, ahead_and_host) = (with_host(&options), with_host(&on_mesh), with_host(&ahead));
    for (backend, options) in [
        (&backend, options),
        (&backend, ahead),
        (&devices, on_mesh),
        (&devices, on_stages),
        (&backend, on_host),
        (&backend, ahead_and_host),
        (&devices, on_mesh_and_host),
    ] {
        let mut tight = engine(backend, folder.path(), &options);
        assert_eq!(answers(&mut tight, &requests), expected);
        let counts = tight.page_counts();
        assert!(counts.preempted > 0 && counts.evicted > 0, "{counts:?}");
        // Pages that were given up come back, and hold what they held.
        let has_host = options.host_pages > 0;
        assert_eq!((counts.offloaded > 0, counts.restored > 0), (has_host, has_host), "{counts:?}");
        assert_eq!((counts.total, counts.used, counts.shared), (15, 0, 0));
    }
}

#[test]
fn what_prompts_have_in_common_is_computed_once() {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), CONFIG, 0.0);
    let backend = cpu();
    let system = prompt(3, 44);
    let with = |question: &[u32]| request([&system[..], question].concat(), 6, 0.0);
    let requests: Vec<Request> = [&[1u32, 2][..], &[9, 9, 4], &[1, 2]].map(with).into();
    let mut alone = engine(&backend, folder.path(), &sized(1, 100));
    let mut expected = Vec::new();
    for request in &requests {
        let mut fresh = engine(&backend, folder.path(), &sized(1, 100));
        expected.push(answers(&mut fresh, std::slice::from_ref(request)).remove(0));
    }
    let found = |engine: &Engine, before: &PageCounts| {
        let counts = engine.page_counts();
        (counts.prefix_hits - before.prefix_hits, counts.prefix_tokens - before.prefix_tokens)
    };
    // One after the other: the second finds the five full pages, and goes on in a copy of the sixth.
    assert_eq!(answers(&mut alone, &requests[..1]), expected[..1]);
    let before = alone.page_counts();
    assert_eq!(answers(&mut alone, &requests[1..2]), expected[1..2]);
    assert_eq!(found(&alone, &before), (1, 44));
    assert_eq!(alone.page_counts().copied - before.copied, 1);
    // At the same time: those that come later wait for the first to compute what they share.
    let mut together = engine(&backend, folder.path(), &sized(3, 100));
    let ids: Vec<_> = requests.iter().map(|request| together.add(request.clone()).unwrap()).collect();
    let mut shared = 0;
    let mut tokens = vec![Vec::new(); 3];
    while !together.is_idle() {
        for event in together.step().unwrap() {
            let at = ids.iter().position(|id| *id == event.id).unwrap();
            tokens[at].extend(event.token.map(|token| token.token));
        }
        shared = shared.max(together.page_counts().shared);
    }
    assert_eq!(tokens, expected);
    assert_eq!(shared, 5);
    assert_eq!(found(&together, &PageCounts::default()), (2, 80));
    // A conversation that goes on finds all of it but the last token, which was never read.
    let whole = [&requests[0].prompt[..], &expected[0], &[5, 6, 7]].concat();
    let before = together.page_counts();
    answers(&mut together, &[request(whole.clone(), 1, 0.0)]);
    assert_eq!(found(&together, &before), (1, whole.len() as u64 - 4));
}

#[test]
fn a_step_computes_as_many_rows_as_there_are() {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), CONFIG, 0.0);
    let backend = cpu();
    // The fourth goes on when all others have ended, in a row that is not the first.
    let requests: Vec<Request> =
        [4, 9, 5, 60, 7].into_iter().zip(0..).map(|(tokens, n)| request(prompt(n, 9 + n), tokens, 0.0)).collect();
    let mut alone = engine(&backend, folder.path(), &sized(1, 100));
    let expected: Vec<Vec<u32>> =
        requests.iter().map(|request| answers(&mut alone, std::slice::from_ref(request)).remove(0)).collect();
    let mut shared = engine(&backend, folder.path(), &sized(6, 100));
    shared.warm_up(&mut |_, _| {}).unwrap();
    let compiled = shared.num_compiled();
    assert_eq!(answers(&mut shared, &requests), expected);
    // The first token of each is chosen by a prefill.
    let counts = shared.decode_counts();
    assert_eq!(counts.rows, 4 + 9 + 5 + 60 + 7 - 5);
    assert!(counts.steps < counts.rows && counts.rows <= counts.places, "{counts:?}");
    assert!(counts.places < counts.rows + counts.steps / 2, "{counts:?}");
    assert_eq!(shared.num_compiled(), compiled, "a program was compiled after the warm-up");
    // A row for each sequence: the fourth takes the three before it along.
    let rows = InferenceOptions { kv_layout: Some(KvLayout::Rows), ..sized(6, 100) };
    let mut rows = engine(&backend, folder.path(), &rows);
    assert_eq!(answers(&mut rows, &requests), expected);
    assert!(rows.decode_counts().places > 2 * counts.places);
}

#[test]
fn pages_of_few_bits_give_the_tokens_of_rows_of_few_bits() {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), CONFIG, 0.0);
    let backend = cpu();
    let requests: Vec<Request> = (0..3).map(|n| request(prompt(n / 2, 20 + n), 20, 0.0)).collect();
    let run = RunOptions { kv_cache: Some(KvCacheDType::Int8), ..RunOptions::default() };
    let [pages, rows] = [KvLayout::Pages, KvLayout::Rows].map(|layout| {
        let options = InferenceOptions { kv_layout: Some(layout), run: run.clone(), ..sized(3, 100) };
        answers(&mut engine(&backend, folder.path(), &options), &requests)
    });
    assert_eq!(pages, rows);
}
