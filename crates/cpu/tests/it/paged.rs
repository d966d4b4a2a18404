//! Attention to a paged KV cache against attention in plain loops: pages in any order, read where they lie.

use cpu::{Array, Compiled, Cpu, CpuIsa, EngineOptions};
use tensor::{DType, Literal};

/// Shapes of one program.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kv_heads: usize,
    group: usize,
    queries: usize,
    depth: usize,
    page_size: usize,
    table: usize,
    dtype: DType,
    window: Option<usize>,
    chunk: Option<usize>,
    soft_cap: Option<f32>,
    sinks: &'static [f32],
}

const LAYERS: usize = 2;
const PAGES: usize = 9;
const SCALE: f32 = 0.3;

/// A sequence: its pages, positions filled before its queries, tokens that have queries.
#[derive(Clone, Debug)]
struct Sequence {
    pages: Vec<usize>,
    filled: usize,
    tokens: usize,
}

fn of(pages: &[usize], filled: usize, tokens: usize) -> Sequence {
    Sequence { pages: pages.to_vec(), filled, tokens }
}

fn program(shape: &Shape, sequences: usize) -> String {
    let Shape { kv_heads, group, queries, depth, page_size, table, dtype, window, chunk, soft_cap, sinks } = shape;
    let name = dtype.name();
    let q = format!("tensor<{sequences}x{kv_heads}x{queries}x{depth}x{name}>");
    let kv = format!("tensor<{LAYERS}x{PAGES}x{kv_heads}x{page_size}x{depth}x{name}>");
    let (entries, numbers) = (format!("tensor<{}xi32>", sequences * table), format!("tensor<{sequences}xi32>"));
    let of_sinks = format!("tensor<{kv_heads}x{group}xf32>");
    let [sink, argument, of_type] = match sinks {
        [] => [String::new(), String::new(), String::new()],
        _ => [", %s".into(), format!(", %s: {of_sinks}"), format!(", {of_sinks}")],
    };
    let types = format!("tensor<1xi32>, {entries}, {numbers}, {numbers}, {q}, {kv}, {kv}{of_type}");
    let chunk = chunk.map_or(String::new(), |chunk| format!(", chunk = {chunk} : i64"));
    let window = window.map_or(String::new(), |window| format!(", window = {window} : i64"));
    let cap = soft_cap.map_or(String::new(), |cap| format!(", soft_cap = {cap:?} : f32"));
    // The decomposition is never looked at.
    format!(
        "func.func @main(%l: tensor<1xi32>, %t: {entries}, %f: {numbers}, %n: {numbers}, %q: {q}, %k: {kv}, %v: {kv}{argument}) -> {q} {{
  %0 = stablehlo.composite \"tpubridge.paged_attention\" %l, %t, %f, %n, %q, %k, %v{sink} {{composite_attributes = {{group = {group} : i64, \
         scale = {SCALE:?} : f32{window}{chunk}{cap}}}, decomposition = @d}} : ({types}) -> {q}
  return %0 : {q}
}}
func.func private @d(%l: tensor<1xi32>, %t: {entries}, %f: {numbers}, %n: {numbers}, %q: {q}, %k: {kv}, %v: {kv}{argument}) -> {q} {{
  return %q : {q}
}}"
    )
}

fn literal(dtype: DType, dims: &[usize], values: &[f32]) -> Literal {
    let bytes: Vec<u8> = match dtype {
        DType::BF16 => values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    Literal::new(dtype, dims, bytes).expect("bytes of the shape")
}

/// Numbers of [-1, 1) that `bf16` has.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let number = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(((state >> 8) as f32 / (1 << 23) as f32 - 1.0).to_bits() & 0xffff_0000)
    };
    (0..count).map(number).collect()
}

fn ints(values: &[usize]) -> Literal {
    let bytes = values.iter().flat_map(|&value| (value as i32).to_le_bytes()).collect();
    Literal::new(DType::I32, [values.len()], bytes).expect("bytes of the shape")
}

/// One query in `f64`.
fn attended(shape: &Shape, sequence: &Sequence, (head, n): (usize, usize), query: &[f32], kv: [&[f32]; 2]) -> Vec<f64> {
    let (size, d) = (shape.page_size, shape.depth);
    let stands = sequence.filled + n / shape.group;
    let first = shape.window.map_or(0, |window| (stands + 1).saturating_sub(window));
    let first = shape.chunk.map_or(first, |chunk| stands / chunk * chunk);
    let row = |of: usize, j: usize| {
        let page = (LAYERS - 1) * PAGES + sequence.pages[j / size];
        let at = ((page * shape.kv_heads + head) * size + j % size) * d;
        &kv[of][at..at + d]
    };
    let score = |j: usize| {
        let dot: f64 = query.iter().zip(row(0, j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        let score = dot * f64::from(SCALE);
        shape.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
    };
    let scores: Vec<f64> = (first..=stands).map(score).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sink = shape.sinks.get(head * shape.group + n % shape.group);
    let sink = sink.map_or(0.0, |sink| (f64::from(*sink) - most).exp());
    let sum: f64 = sink + scores.iter().map(|score| (score - most).exp()).sum::<f64>();
    let weighted =
        |i: usize| (first..=stands).zip(&scores).map(|(j, s)| (s - most).exp() / sum * f64::from(row(1, j)[i])).sum();
    (0..d).map(weighted).collect()
}

fn check(shape: &Shape, sequences: &[Sequence]) {
    let text = program(shape, sequences.len());
    let module = hlo::text::parse(&text).and_then(hlo::verify).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let Shape { kv_heads, queries, depth, page_size, .. } = *shape;
    let query = numbers(sequences.len() * kv_heads * queries * depth, 1);
    let size = LAYERS * PAGES * kv_heads * page_size * depth;
    let mut kv = [numbers(size, 2), numbers(size, 3)];
    // What nobody wrote may be anything.
    let is_written = |page: usize, position: usize| {
        let has = |one: &Sequence| {
            let at = one.pages.iter().position(|&of| of == page);
            at.is_some_and(|at| at * page_size + position < one.filled + one.tokens)
        };
        sequences.iter().any(has)
    };
    for (at, _) in (0..size).step_by(depth).enumerate() {
        let (page, position) = (at / (page_size * kv_heads) % PAGES, at % page_size);
        if !is_written(page, position) {
            kv.iter_mut().for_each(|of| of[at * depth..(at + 1) * depth].fill(f32::NAN));
        }
    }
    let mut table = vec![0; sequences.len() * shape.table];
    for (sequence, places) in sequences.iter().zip(table.chunks_mut(shape.table)) {
        places.iter_mut().zip(&sequence.pages).for_each(|(place, page)| *place = *page);
    }
    let (filled, tokens): (Vec<usize>, Vec<usize>) = sequences.iter().map(|one| (one.filled, one.tokens)).unzip();
    let of_cache = [LAYERS, PAGES, kv_heads, page_size, depth];
    let mut literals = vec![
        ints(&[LAYERS - 1]),
        ints(&table),
        ints(&filled),
        ints(&tokens),
        literal(shape.dtype, &[sequences.len(), kv_heads, queries, depth], &query),
        literal(shape.dtype, &of_cache, &kv[0]),
        literal(shape.dtype, &of_cache, &kv[1]),
    ];
    if !shape.sinks.is_empty() {
        literals.push(literal(DType::F32, &[shape.kv_heads, shape.group], shape.sinks));
    }
    let tiers = CpuIsa::available().into_iter();
    for (isa, threads) in tiers.map(|isa| (isa, if isa == CpuIsa::detect() { 2 } else { 1 })) {
        let cpu = Cpu::with_isa(Some(threads), Some(isa)).expect("a tier of this machine");
        let compiled = Compiled::from_module(&cpu, module.clone(), &EngineOptions::default()).expect("it compiles");
        assert!(compiled.dump().contains("paged attention"), "{}", compiled.dump());
        let arguments = || literals.iter().map(|l| Array::from_literal(cpu.memory(), l).expect("memory")).collect();
        let out = compiled.run(vec![arguments()], &Default::default()).expect("it runs");
        #[cfg(unix)]
        crate::guarded::check(&compiled, arguments(), &out[0], &Default::default())
            .expect("steps stay within their arrays");
        let bytes = out[0][0].bytes();
        let got: Vec<f32> = match shape.dtype {
            DType::BF16 => {
                bytes.chunks(2).map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)).collect()
            }
            _ => bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        };
        let tolerance = if shape.dtype == DType::BF16 { 0.01 } else { 2e-6 };
        for (row, (query, got)) in query.chunks(depth).zip(got.chunks(depth)).enumerate() {
            let (s, head, n) = (row / (kv_heads * queries), row / queries % kv_heads, row % queries);
            let (sequence, token) = (&sequences[s], n / shape.group);
            let wanted = match token < sequence.tokens {
                true => attended(shape, sequence, (head, n), query, [&kv[0], &kv[1]]),
                false => vec![0.0; depth],
            };
            for (a, b) in got.iter().zip(&wanted) {
                let off = (f64::from(*a) - b).abs();
                assert!(off < tolerance, "row {row} is off by {off} on {isa}: {shape:?}, {sequences:?}");
            }
        }
    }
}

#[test]
fn pages_are_read_where_they_lie() {
    let decode = Shape {
        kv_heads: 2,
        group: 4,
        queries: 16,
        depth: 64,
        page_size: 32,
        table: 3,
        dtype: DType::F32,
        window: None,
        chunk: None,
        soft_cap: None,
        sinks: &[],
    };
    let all = [of(&[5], 0, 1), of(&[2, 8, 0], 75, 1), of(&[], 0, 0), of(&[7, 1], 31, 3), of(&[4, 3], 63, 1)];
    for dtype in [DType::F32, DType::BF16] {
        let decode = Shape { dtype, ..decode };
        check(&decode, &all);
        check(&Shape { window: Some(33), ..decode }, &all);
        check(&Shape { soft_cap: Some(2.0), ..decode }, &all);
        check(&Shape { chunk: Some(24), ..decode }, &all);
        check(&Shape { sinks: &[0.1, 3.0, -9.0, 0.0, 1.0, 2.0, -1.0, 0.5], ..decode }, &all);
        // Heads that are no multiple of a vector, pages of few positions, one query for each head.
        check(&Shape { depth: 20, group: 1, page_size: 40, ..decode }, &all[..2]);
        // Chunks of prompts beside decoding: more queries than one task has, and tasks of a few and of many of them.
        let chunk = Shape { queries: 304, group: 3, page_size: 64, ..decode };
        check(&chunk, &[of(&[6, 0, 3], 21, 100), of(&[5, 1], 80, 1), of(&[2], 0, 64)]);
        let one = Shape { kv_heads: 1, ..chunk };
        check(&Shape { window: Some(17), ..one }, &[of(&[6, 0, 3], 90, 101)]);
        check(&Shape { soft_cap: Some(1.5), chunk: Some(48), ..one }, &[of(&[1, 7, 3], 40, 88)]);
        check(&Shape { sinks: &[0.4, 5.0, -2.0], depth: 40, ..one }, &[of(&[4, 2], 3, 97)]);
        // More keys than are met at once, in pages that are no multiple of that.
        let long = Shape { queries: 40, group: 2, page_size: 80, table: 8, ..one };
        check(&long, &[of(&[6, 0, 3, 8, 1, 2, 7, 4], 575, 20), of(&[5, 6], 100, 9)]);
        check(&Shape { window: Some(300), ..long }, &[of(&[6, 0, 3, 8, 1, 2, 7, 4], 620, 20)]);
    }
}
