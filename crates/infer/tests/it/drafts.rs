//! Speculative decoding: whatever a draft model says, the answer is the one without it.

use infer::{DraftOptions, Engine, InferenceOptions, Request, SamplingOptions};

use crate::harness::{cpu, cpus, engine, opened, run, sized, write_llama};
use crate::schedules::any_schedule_gives_each_request_what_it_gets_alone;

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 101, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2,
    "tie_word_embeddings": false}"#;

#[test]
fn answers_with_drafts_are_those_without() {
    let backend = cpu();
    let [model, alike, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    write_llama(model.path(), CONFIG, 0.0);
    write_llama(alike.path(), CONFIG, 0.08);
    // Fewer tokens, layers and heads.
    let smaller = CONFIG.replace("101", "100").replace(r#""num_hidden_layers": 2"#, r#""num_hidden_layers": 1"#);
    write_llama(other.path(), &smaller, 0.0);
    let folder = model.path();
    let with = |draft: &std::path::Path, tokens: usize| InferenceOptions {
        draft: Some(DraftOptions { folder: draft.to_path_buf(), tokens }),
        ..sized(5, 100)
    };
    // The model itself: every draft holds, but for the last step of an answer.
    let ask = |engine: &mut Engine, temperature: f64| {
        let ids: Vec<_> = (0..3)
            .map(|seed| {
                let plain = SamplingOptions { max_tokens: 41, ignore_eos: true, ..SamplingOptions::default() };
                let sampling = SamplingOptions { temperature, seed, ..plain };
                engine.add(Request { prompt: vec![5 + seed, 8], sampling }).unwrap()
            })
            .collect();
        // Several tokens at once are rounded otherwise than one: log probabilities differ in the last bits.
        run(engine, &ids).iter().map(|answer| (answer.numbers(), answer.text.clone())).collect::<Vec<_>>()
    };
    let mut plain = engine(&backend, folder, &sized(3, 100));
    for (draft, least, most) in [(folder, 4.5, 5.0), (alike.path(), 1.3, 4.9), (other.path(), 1.0, 2.0)] {
        for temperature in [0.0, 0.7] {
            let mut drafting = engine(&backend, folder, &with(draft, 4));
            assert_eq!(ask(&mut drafting, temperature), ask(&mut plain, temperature));
            let tokens = drafting.tokens_per_draft().unwrap();
            assert!((least..=most).contains(&tokens), "{tokens} tokens a step at temperature {temperature}");
        }
    }
    let tight = InferenceOptions { pages: Some(16), ..with(alike.path(), 3) };
    let counts = any_schedule_gives_each_request_what_it_gets_alone(&backend, folder, &tight, 0..3);
    assert!(counts.evicted > 0 && counts.prefix_tokens > 0, "{counts:?}");
    // Each needs 11 of 16 pages at its end.
    let mut tight = engine(&backend, folder, &tight);
    let ask_long = |engine: &mut Engine| {
        let sampling = SamplingOptions { max_tokens: 80, ignore_eos: true, ..SamplingOptions::default() };
        let add = |first: u32| Request { prompt: vec![first, 8], sampling: sampling.clone() };
        let ids: Vec<_> = (5..9).map(|first| engine.add(add(first)).unwrap()).collect();
        run(engine, &ids).iter().map(|answer| answer.numbers()).collect::<Vec<_>>()
    };
    assert_eq!(ask_long(&mut tight), ask_long(&mut plain));
    assert!(tight.page_counts().preempted > 0, "{:?}", tight.page_counts());
    // On several devices: the model in parts, the draft model whole on each.
    let on_mesh = InferenceOptions { mesh: Some("model=2".parse().unwrap()), ..with(alike.path(), 2) };
    let mut drafting = engine(&cpus(2), folder, &on_mesh);
    assert_eq!(ask(&mut drafting, 0.7), ask(&mut plain, 0.7));
    // No compile after the warm-up.
    let mut warm = engine(&backend, folder, &InferenceOptions { rows: 2, ..with(alike.path(), 3) });
    warm.warm_up(&mut |_, _| {}).unwrap();
    let compiled = warm.num_compiled();
    ask(&mut warm, 0.7);
    assert_eq!(warm.num_compiled(), compiled);

    let refused = |options: &InferenceOptions| {
        Engine::load(&backend, &opened(folder), options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(&with(folder, 0)).contains("0 tokens are to be drafted"));
    assert!(refused(&with("nowhere".as_ref(), 4)).contains("nowhere"));
    let foreign = tempfile::tempdir().unwrap();
    write_llama(foreign.path(), &CONFIG.replace("101", "80"), 0.0);
    assert!(refused(&with(foreign.path(), 4)).contains("knows 80 tokens"));
}
