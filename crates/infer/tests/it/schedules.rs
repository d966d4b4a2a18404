//! Requests that come, end and are cancelled at any time.

use std::collections::BTreeMap;
use std::path::Path;

use infer::{FinishReason, InferenceOptions, OutputFormat, PageCounts, Request, RequestId, SamplingOptions};
use runtime::Backend;

use crate::harness::{Answered, engine, run, sized};

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A request of the schedule: prompts share beginnings, and all ways to choose tokens occur.
fn request(numbers: &mut Numbers, kinds: &[u64]) -> Request {
    let shared = numbers.below(3) as u32;
    let prefix = (0..numbers.below(60)).map(|n| (n as u32 * 7 + shared) % 101);
    let own: Vec<u32> = (0..1 + numbers.below(20)).map(|_| numbers.below(101) as u32).collect();
    let prompt = prefix.chain(own).collect();
    // Some answers end before they are as long as they may be.
    let stop = (0..numbers.below(2)).map(|_| char::from(40 + numbers.below(60) as u8).to_string()).collect();
    let plain = SamplingOptions {
        max_tokens: 1 + numbers.below(12) as usize,
        seed: numbers.below(1000) as u32,
        ignore_eos: true,
        stop,
        ..SamplingOptions::default()
    };
    let sampling = match kinds[numbers.below(kinds.len() as u64) as usize] {
        0 => SamplingOptions { temperature: 0.0, ..plain },
        1 => plain,
        2 => SamplingOptions { top_k: Some(5), top_p: 0.9, ..plain },
        3 => SamplingOptions { min_p: 0.05, temperature: 1.5, ..plain },
        4 => SamplingOptions { logit_bias: [(7, 3.0), (8, -100.0)].into(), temperature: 0.0, ..plain },
        5 => {
            let schema = serde_json::json!({"type": "array", "items": {"type": "integer"}, "maxItems": 3});
            SamplingOptions { format: OutputFormat::JsonSchema(schema), temperature: 0.0, ..plain }
        }
        _ => SamplingOptions { repetition_penalty: 1.3, presence_penalty: 0.5, frequency_penalty: 0.2, ..plain },
    };
    Request { prompt, sampling }
}

/// Requests of some seeds get from an engine with these options what they get from one that has nothing else to do. Gives what became of
/// its pages.
pub(crate) fn any_schedule_gives_each_request_what_it_gets_alone(
    backend: &Backend,
    folder: &Path,
    options: &InferenceOptions,
    seeds: std::ops::Range<u64>,
) -> PageCounts {
    let mut alone = engine(backend, folder, &sized(1, 100));
    let mut shared = engine(backend, folder, options);
    for seed in seeds {
        let mut numbers = Numbers(seed);
        // Every mixture is a program: forms and biases meet the simplest others only.
        let kinds: &[u64] = if seed < 6 { &[0, 1, 2, 3, 6] } else { &[0, 4, 5] };
        let requests: Vec<Request> = (0..14).map(|_| request(&mut numbers, kinds)).collect();
        let mut of: BTreeMap<RequestId, usize> = BTreeMap::new();
        let mut answers = vec![Answered::default(); requests.len()];
        let mut cancelled = Vec::new();
        while of.len() < requests.len() || !shared.is_idle() {
            if of.len() < requests.len() && numbers.below(2) == 0 {
                of.insert(shared.add(requests[of.len()].clone()).unwrap(), of.len());
            }
            if numbers.below(9) == 0 && !of.is_empty() {
                let (&id, &at) = of.iter().nth(numbers.below(of.len() as u64) as usize).unwrap();
                shared.cancel(id);
                cancelled.push(at);
            }
            for event in shared.step().unwrap() {
                answers[of[&event.id]].take(event);
            }
        }
        for (at, request) in requests.iter().enumerate() {
            let id = alone.add(request.clone()).unwrap();
            let expected = run(&mut alone, &[id]).remove(0);
            let answer = &answers[at];
            if request.sampling.format != OutputFormat::Text {
                assert!(
                    expected.text.starts_with('[')
                        && expected.text.bytes().all(|b| b" \n\t[],-0123456789".contains(&b))
                );
            }
            if answer.finish == Some(FinishReason::Cancelled) {
                assert!(cancelled.contains(&at));
                assert_eq!(answer.numbers(), expected.numbers()[..answer.tokens.len()], "seed {seed}, request {at}");
            } else {
                assert_eq!(answer.numbers(), expected.numbers(), "seed {seed}, request {at}: {request:?}");
                assert_eq!((answer.finish, &answer.text), (expected.finish, &expected.text));
            }
        }
    }
    let counts = shared.page_counts();
    assert_eq!((counts.used, counts.cached + counts.free), (0, counts.total));
    counts
}
