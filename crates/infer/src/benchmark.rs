//! How fast an engine is: requests of given lengths, so many at once.

use std::collections::HashMap;
use std::time::Instant;

use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;
use crate::request::{Request, RequestId, SamplingOptions};

/// What is asked of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BenchmarkOptions {
    /// Requests at once: as one ends, the next begins.
    pub concurrency: usize,
    /// Tokens of each prompt.
    pub input_length: usize,
    /// Tokens of each answer.
    pub output_length: usize,
    /// Requests in all, after those that warm up.
    pub requests: usize,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Benchmark {
    /// What was asked.
    #[serde(flatten)]
    pub options: BenchmarkOptions,
    /// Seconds from the first request to the last token.
    pub seconds: f64,
    /// Answers a second.
    pub requests_per_second: f64,
    /// Tokens of answers a second.
    pub output_tokens_per_second: f64,
    /// Tokens of prompts and answers a second.
    pub total_tokens_per_second: f64,
    /// Seconds from a request to its first token.
    pub ttft_seconds: Percentiles,
    /// Seconds of each token after the first, mean of a request.
    pub tpot_seconds: Percentiles,
    /// Seconds from a request to its last token.
    pub latency_seconds: Percentiles,
    /// Programs that were compiled meanwhile: a measurement with any is not one of speed.
    pub compiled: usize,
}

/// How some numbers are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Their mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// Nine of ten are below.
    pub p90: f64,
    /// 95 of 100 are below.
    pub p95: f64,
    /// 99 of 100 are below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Percentiles {
    /// Of these numbers; zeros if there are none.
    pub fn of(mut numbers: Vec<f64>) -> Percentiles {
        let Some(last) = numbers.len().checked_sub(1) else { return Percentiles::default() };
        numbers.sort_by(f64::total_cmp);
        // Between two numbers on the straight line, as NumPy does.
        let at = |share: f64| {
            let place = share * last as f64;
            let (low, rest) = (place.floor() as usize, place.fract());
            numbers[low] + rest * (numbers[(low + 1).min(last)] - numbers[low])
        };
        Percentiles {
            mean: numbers.iter().sum::<f64>() / numbers.len() as f64,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max: numbers[last],
        }
    }
}

/// One request that is measured.
struct Timed {
    begun: Instant,
    first: Option<Instant>,
    last: Instant,
    tokens: usize,
}

impl Engine {
    /// Measures requests of random tokens, greedily, after as many as run at once have warmed it up. `progress` is told requests done
    /// and all of them.
    pub fn benchmark(
        &mut self,
        options: BenchmarkOptions,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Benchmark, Error> {
        let BenchmarkOptions { concurrency, input_length, output_length, requests } = options;
        if [concurrency, input_length, output_length, requests].contains(&0) {
            return Err(Error::setting("a benchmark of nothing", "give numbers of at least 1"));
        }
        if input_length + output_length > self.max_length() {
            return Err(Error::setting(
                format!("{input_length} and {output_length} tokens are over the {} of a sequence", self.max_length()),
                "give shorter lengths",
            ));
        }
        let all = concurrency + requests;
        self.timed(options, 0..concurrency, &mut |done| progress(done, all))?;
        let before = self.num_compiled();
        let begun = Instant::now();
        let timed = self.timed(options, concurrency..all, &mut |done| progress(concurrency + done, all))?;
        let seconds = begun.elapsed().as_secs_f64();
        let since = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64();
        let first = timed.iter().filter_map(|one| Some(since(one.begun, one.first?))).collect();
        let each = timed.iter().filter(|one| one.tokens > 1);
        let each = each.filter_map(|one| Some(since(one.first?, one.last) / (one.tokens - 1) as f64)).collect();
        let output = timed.iter().map(|one| one.tokens).sum::<usize>() as f64;
        Ok(Benchmark {
            options,
            seconds,
            requests_per_second: timed.len() as f64 / seconds,
            output_tokens_per_second: output / seconds,
            total_tokens_per_second: (output + (timed.len() * input_length) as f64) / seconds,
            ttft_seconds: Percentiles::of(first),
            tpot_seconds: Percentiles::of(each),
            latency_seconds: Percentiles::of(timed.iter().map(|one| since(one.begun, one.last)).collect()),
            compiled: self.num_compiled() - before,
        })
    }

    /// Runs requests by their numbers, and when their tokens came.
    fn timed(
        &mut self,
        options: BenchmarkOptions,
        numbers: std::ops::Range<usize>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Timed>, Error> {
        let sampling = SamplingOptions {
            max_tokens: options.output_length,
            temperature: 0.0,
            ignore_eos: true,
            ..SamplingOptions::default()
        };
        let mut left = numbers;
        let mut running: HashMap<RequestId, Timed> = HashMap::new();
        let mut done = Vec::new();
        loop {
            while running.len() < options.concurrency
                && let Some(number) = left.next()
            {
                let prompt = prompt(number as u64, options.input_length, self.vocab_size() as u64);
                let begun = Instant::now();
                let id = self.add(Request { prompt, sampling: sampling.clone() })?;
                running.insert(id, Timed { begun, first: None, last: begun, tokens: 0 });
            }
            if running.is_empty() {
                return Ok(done);
            }
            let events = self.step()?;
            let now = Instant::now();
            for event in events {
                let Some(one) = running.get_mut(&event.id) else { continue };
                if event.token.is_some() {
                    one.first.get_or_insert(now);
                    (one.last, one.tokens) = (now, one.tokens + 1);
                }
                if event.finish.is_some() {
                    done.extend(running.remove(&event.id));
                    progress(done.len());
                }
            }
        }
    }
}

/// Tokens that no other prompt begins with, so that nothing computed before helps.
fn prompt(number: u64, length: usize, vocabulary: u64) -> Vec<u32> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let token = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocabulary.max(1)) as u32
    };
    (0..length).map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_numpy() {
        let found = Percentiles::of((1..=10).rev().map(f64::from).collect());
        assert_eq!((found.mean, found.p50, found.max), (5.5, 5.5, 10.0));
        assert!((found.p90 - 9.1).abs() < 1e-12 && (found.p99 - 9.91).abs() < 1e-12);
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
        assert_eq!(Percentiles::of(vec![3.0]).p99, 3.0);
    }

    #[test]
    fn prompts_differ_from_their_first_tokens_on() {
        let all: std::collections::BTreeSet<Vec<u32>> = (0..50).map(|n| prompt(n, 4, 50_000)).collect();
        assert_eq!(all.len(), 50);
        assert!(prompt(3, 1000, 7).iter().all(|token| *token < 7));
    }
}
