//! Quantized weights against their dequantized ones, in every form of the matmul; quantized KV caches against whole ones.

use hlo::{Attr, OpKind};
use nn::Init;
use nn::layers::{Activation, CacheStart, Dispatch, ExpertSizes, KvCacheDType, MixtureOfExperts};
use nn::models::{Gpt2, LanguageModel, Llama, RunOptions};
use nn::quant::{BlockTensor, InputAxis, MapWeights, MatmulForm, QuantScheme, QuantizedTensor, Weight};
use tensor::{BlockFormat, DType, Literal};
use trace::{Donate, Key, Order, Tensor, Tree};

use crate::harness::{floats, of_floats, of_ints, off_by, run, shape_of, with_key};
use crate::training::{four, gpt2, llama};

fn scheme(text: &str) -> QuantScheme {
    text.parse().unwrap()
}

/// The matmul of so many rows in the form that is chosen, and with the weight dequantized by hand.
fn check(text: &str, rows: usize, input_axis: InputAxis, form: MatmulForm, most: f32) {
    let scheme = scheme(text);
    let (inputs, outputs) = (128, 24);
    assert_eq!(MatmulForm::of(&scheme, rows, scheme.groups(inputs)), form, "{text} of {rows} rows");
    let results = with_key(7, |key| {
        let keys = key.split(4);
        let dims = match input_axis {
            InputAxis::First => [inputs, outputs],
            InputAxis::Last => [outputs, inputs],
        };
        let mut weight = QuantizedTensor::nearest(&keys[0].normal(DType::F32, &dims), &scheme, input_axis);
        if weight.scheme.zero_points == nn::quant::ZeroPoints::PerGroup {
            let drawn = keys[2].uniform(DType::F32, weight.scales.dims(), 0.0, 6.0);
            weight.zero_points = Some(drawn.round().cast(DType::I8));
        }
        let order = keys[3].uniform(DType::F32, &[inputs], 0.0, 1.0).argsort(0, Order::Ascending);
        let ordered = QuantizedTensor { input_order: Some(order), ..weight.clone() };
        let x = keys[1].normal(DType::F32, &[rows / 2, 2, inputs]);
        let dense = |weight: &QuantizedTensor| {
            let dense = weight.dequantized(DType::F32);
            x.matmul(&if input_axis == InputAxis::First { dense } else { dense.transpose(&[1, 0]) })
        };
        let plain = (weight.matmul(&x, DType::F32), dense(&weight));
        (plain, (ordered.matmul(&x, DType::F32), dense(&ordered)))
    });
    for pair in results.chunks(2) {
        let [own, expected] = [0, 1].map(|n| floats(&pair[n]));
        let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let error = off_by(&own, &expected) / scale;
        assert!(error < most, "{text}, {rows} rows, {input_axis:?}: {error}");
    }
    assert_ne!(floats(&results[1]), floats(&results[3]), "the order of inputs changes the result");
}

#[test]
fn every_form_is_the_matmul_with_the_dequantized_weight() {
    use InputAxis::{First, Last};
    for axis in [First, Last] {
        for text in ["w8a16", "w4a16", "w2a16", "w8a16-fp8", "w4a16-fp4", "w4a16-zp"] {
            check(text, 4, axis, MatmulForm::ScaleAfterDot, 1e-5);
        }
        let few_rows = [
            ("w8a16-g32", MatmulForm::Kernel),
            ("w4a16-g32", MatmulForm::PartialSums),
            ("w4a16-g64-zp", MatmulForm::Kernel),
            ("w8a16-fp8-g32", MatmulForm::Kernel),
        ];
        for (text, form) in few_rows {
            check(text, 4, axis, form, 1e-5);
            check(text, 200, axis, MatmulForm::Dequantize, 1e-5);
        }
        check("w4a16-g16", 4, axis, MatmulForm::Dequantize, 1e-5);
        // Activations of 8 bits are off by a part of 127, or of 16, of their largest.
        check("w8a8", 4, axis, MatmulForm::ScaleAfterDot, 0.02);
        check("w4a8-g32", 4, axis, MatmulForm::PartialSums, 0.02);
        check("w8a8-fp8", 4, axis, MatmulForm::ScaleAfterDot, 0.1);
    }
}

#[test]
fn experts_are_quantized_in_every_dispatch() {
    let sizes = ExpertSizes { width: 32, inner: 64, experts: 4, chosen: 2 };
    for dispatch in [Dispatch::Dense, Dispatch::Grouped, Dispatch::Capacity(4.0)] {
        // Only grouped matmuls take rows in codes: those are off by a part of 127, or of 16, of their largest, twice.
        let of_rows = if dispatch == Dispatch::Grouped { [0.03, 0.15] } else { [1e-4, 1e-4] };
        let schemes = [("w8a16", 1e-4), ("w4a16-g16", 1e-4), ("w8a8", of_rows[0]), ("w8a8-fp8", of_rows[1])];
        for (text, most) in schemes {
            let results = with_key(3, |key| {
                let keys = key.split(2);
                let moe = MixtureOfExperts::init(&keys[0], sizes, Activation::Silu, dispatch, Init::Normal(0.5));
                let quantized = moe.nearest(&scheme(text));
                let dense = quantized.map_weights(|_, weight, _| weight.dense(DType::F32).into());
                let x = keys[1].normal(DType::F32, &[9, 32]);
                (quantized.apply(&x).0, dense.apply(&x).0)
            });
            let off = off_by(&floats(&results[0]), &floats(&results[1]));
            assert!(off < most, "{dispatch:?}, {text}: {off}");
            assert_eq!(off > 1e-4, most > 1e-4, "{dispatch:?}, {text}: rows are rounded or not: {off}");
        }
    }
}

/// Gradients of experts in codes are those of the experts that the codes stand for: of what they read and of scales, whatever rows are rounded to.
#[test]
fn gradients_pass_experts_in_codes() {
    let sizes = ExpertSizes { width: 32, inner: 64, experts: 4, chosen: 2 };
    for (text, most) in [("w8a16", 1e-4), ("w8a8", 0.05)] {
        let results = with_key(5, |key| {
            let keys = key.split(3);
            let grouped = Dispatch::Grouped;
            let moe = MixtureOfExperts::init(&keys[0], sizes, Activation::Silu, grouped, Init::Normal(0.5));
            let quantized = moe.nearest(&scheme(text));
            let x = keys[1].normal(DType::F32, &[9, 32]);
            let ct = keys[2].normal(DType::F32, &[9, 32]);
            let Weight::Quantized(up) = quantized.up.clone() else { panic!("weights are quantized") };
            let scales = up.scales.clone();
            let of = |is_dense: bool| {
                let apply = |(x, scales): &(Tensor, Tensor)| {
                    let up = QuantizedTensor { scales: scales.clone(), ..up.clone() };
                    let moe = MixtureOfExperts { up: Weight::Quantized(up), ..quantized.clone() };
                    let moe = match is_dense {
                        true => moe.map_weights(|_, weight, _| weight.dense(DType::F32).into()),
                        false => moe,
                    };
                    (&moe.apply(x).0 * &ct).sum(&[0, 1])
                };
                trace::grad(apply, &(x.clone(), scales.clone()))
            };
            (of(false), of(true))
        });
        let [x, scales, dense_x, dense_scales] = &results[..] else { panic!("{} results", results.len()) };
        for (name, got, expected) in [("rows", x, dense_x), ("scales", scales, dense_scales)] {
            let off = off_by(&floats(got), &floats(expected));
            assert!(off < most, "{text}, gradients of {name}: {off}");
        }
    }
}

/// Logits of a whole sequence, and of its last position decoded token by token with a KV cache of a type.
fn decoded<M: LanguageModel>(model: &M) -> (Tensor, Tensor) {
    let tokens = Tensor::iota(DType::I32, &[2, 9], 1);
    let (_, mut cache) = model.prefill(&tokens.slice(1, 0..5), &model.cache(2, 9));
    let mut logits = None;
    for position in 5..9 {
        let at = Tensor::scalar(DType::I32, f64::from(position));
        let (next, after) = model.decode_step(&tokens.at(1, position as usize), &at, &cache);
        (logits, cache) = (Some(next), after);
    }
    (model.logits(&tokens).at(1, 8), logits.unwrap())
}

/// The same, with the positions of two sequences in pages that lie anywhere: they are read in chunks of their own lengths.
fn decoded_in_pages<M: LanguageModel>(model: &M) -> (Tensor, Tensor) {
    let tokens = Tensor::iota(DType::I32, &[2, 9], 1);
    let table = Tensor::from([[5, 0, 3], [2, 6, 1]]);
    let mut cache = model.cache(7, 4);
    let mut last = Vec::new();
    // Of each sequence the positions filled, and how many more are read; some of the second's tokens are read twice, but not kept.
    for (filled, count) in [([0, 0], [5, 3]), ([5, 3], [2, 0]), ([7, 3], [2, 6])] {
        let width = count[0].max(count[1]);
        let part = |n: usize| tokens.at(0, n).pad(0, 0, 9).slice(0, filled[n]..filled[n] + width);
        let ints = |numbers: [usize; 2]| Tensor::from(numbers.map(|number| number as i32));
        let start = CacheStart::Pages { filled: ints(filled), tokens: ints(count), table: table.clone() };
        let (hidden, after) = model.extend(&Tensor::stack(&[part(0), part(1)], 0), &start, &cache);
        cache = after;
        last = [0, 1].map(|n| hidden.at(0, n).at(0, count[n].max(1) - 1)).to_vec();
    }
    (model.logits(&tokens).at(1, 8), model.lm_head(&Tensor::stack(&last, 0)))
}

/// Of so many tokens of three sequences, the last of which has none: scales of keys `[layers, pages, heads, positions]` after pages of
/// two positions, and `[layers, sequences, heads, positions]` after a row for each sequence.
fn scales_of_keys(count: usize) -> (Tensor, Tensor) {
    const PAGE: usize = 2;
    let each = (count + 9).div_ceil(PAGE);
    let run = RunOptions { kv_cache: Some(KvCacheDType::Int8), ..RunOptions::default() };
    let model = Llama::init(&Key::from_seed(&Tensor::scalar(DType::U32, 3.0)), &llama(None), &run);
    let tokens = Tensor::iota(DType::I32, &[3, count], 1) + Tensor::iota(DType::I32, &[3, count], 0);
    let tokens = tokens.remainder(&Tensor::scalar(DType::I32, 60.0));
    let filled = Tensor::from([3, 8, 5]);
    // Pages in the opposite order.
    let table = Tensor::scalar(DType::I32, (3 * each - 1) as f64) - Tensor::iota(DType::I32, &[3 * each], 0);
    let start = CacheStart::Pages {
        filled: filled.clone(),
        tokens: Tensor::from([count as i32, count as i32 / 2, 0]),
        table: table.reshape(&[3, each]),
    };
    let (_, pages) = model.extend(&tokens, &start, &model.cache(3 * each, PAGE));
    let start = CacheStart::Rows { filled, context: PAGE * each };
    let (_, rows) = model.extend(&tokens, &start, &model.cache(3, PAGE * each));
    (pages.scales.unwrap().0, rows.scales.unwrap().0)
}

#[test]
fn scales_are_written_into_their_pages_and_nowhere_else() {
    // The last are more than are written at once.
    for count in [1, 5, 300] {
        let traced = trace::trace("main", &(), Donate::Nothing, |()| scales_of_keys(count)).unwrap();
        let results = run(&traced.0, &[]);
        let (pages, rows) = (floats(&results[0]), floats(&results[1]));
        let (dims, positions) = (results[0].dims().to_vec(), results[1].dims()[3]);
        let [layers, all, heads, page] = dims[..] else { panic!("{dims:?}") };
        let mut written = 0;
        for (at, scale) in pages.iter().enumerate() {
            let (place, head) = (at % page, at / page % heads);
            let (number, layer) = (all - 1 - at / page / heads % all, at / page / heads / all);
            let (sequence, position) = (number / (all / 3), number % (all / 3) * page + place);
            let (filled, tokens) = ([3, 8, 5][sequence], [count, count / 2, 0][sequence]);
            if (filled..filled + tokens).contains(&position) {
                let expected = rows[((layer * 3 + sequence) * heads + head) * positions + position];
                assert!((scale - expected).abs() <= 1e-5 * expected.abs(), "{count}: {scale} at {at}, not {expected}");
                written += 1;
            } else {
                assert_eq!(*scale, 0.0, "{count}: at {at}, which is position {position} of sequence {sequence}");
            }
        }
        assert_eq!(written, layers * heads * (count + count / 2));
    }
}

#[test]
fn quantized_models_decode_as_they_read() {
    let of = |kv_cache: Option<KvCacheDType>| RunOptions { kv_cache, ..RunOptions::default() };
    let check = |name: &str, most: f32, results: Vec<tensor::Literal>| {
        let error = off_by(&floats(&results[1]), &floats(&results[0]));
        assert!(error < most, "{name}: {error}");
    };
    for text in ["w8a16", "w4a16-g8"] {
        let model = |options: &RunOptions| {
            with_key(5, |key| decoded(&Llama::init(key, &llama(None), options).nearest(&scheme(text))))
        };
        check(text, 1e-4, model(&of(None)));
        // Scores are of few positions and small heads: what a cache of few bits loses is seen.
        check(text, 0.03, model(&of(Some(KvCacheDType::Int8))));
        check(text, 0.1, model(&of(Some(KvCacheDType::Fp8))));
        check(text, 0.5, model(&of(Some(KvCacheDType::Int4))));
    }
    let windows = nn::models::LlamaConfig { sliding_window: Some(4), ..llama(None) };
    let narrow = of(Some(KvCacheDType::Int8));
    for (name, most, config, options) in [
        ("pages", 1e-4, llama(None), of(None)),
        ("pages and a window", 1e-4, windows, of(None)),
        ("pages in few bits", 0.03, llama(None), narrow),
    ] {
        check(name, most, with_key(5, |key| decoded_in_pages(&Llama::init(key, &config, &options))));
    }
    let experts = llama(Some(four(Dispatch::Grouped)));
    check(
        "experts",
        1e-4,
        with_key(5, |key| decoded(&Llama::init(key, &experts, &of(None)).nearest(&scheme("w8a16")))),
    );
    let gpt2 =
        with_key(5, |key| decoded(&Gpt2::init(key, &gpt2(), &of(Some(KvCacheDType::Int8))).nearest(&scheme("w8a8"))));
    check("gpt2", 0.05, gpt2);
}

#[test]
fn quantized_weights_have_paths_and_shapes() {
    let model = with_shapes("w4a16-g8");
    let at = |path: &str| {
        let n = model.paths().iter().position(|have| have == path).unwrap_or_else(|| panic!("no {path}"));
        model.specs()[n].clone()
    };
    let values = at("layers.attention.query.weight.values");
    let scales = at("layers.attention.query.weight.scales");
    assert_eq!(values.dtype, DType::I4);
    assert_eq!(scales.dims, [values.dims[0], values.dims[1] / 8, values.dims[2]]);
    assert_eq!(at("token_embedding.weight").dtype, DType::F32);
    let refused = trace::shapes_of(&(), |()| {
        let key = trace::Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        Llama::init(&key, &llama(None), &RunOptions::default()).quantized(&scheme("w4a16-g7"))
    });
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("groups of 7 do not divide"), "{error}");
}

fn with_shapes(text: &str) -> Llama {
    trace::shapes_of(&(), |()| {
        let key = trace::Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        Llama::init(&key, &llama(None), &RunOptions::default()).quantized(&scheme(text))
    })
    .unwrap()
}

/// Blocks of a format with small scales.
fn blocks_of(format: BlockFormat, rows: usize, row_bytes: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..rows * row_bytes).map(|n| (n * 37 + n / 7 + n / 1000) as u8).collect();
    for block in bytes.chunks_mut(format.bytes()) {
        let at = if format == BlockFormat::Q6K { 208 } else { 0 };
        block[at + 1] = 0x20 | block[at + 1] & 0x80;
        if format == BlockFormat::Q4K {
            block[3] = 0x24;
        }
    }
    bytes
}

#[test]
fn blocks_of_files_are_multiplied_with_as_they_are() {
    let (inputs, outputs) = (512, 40);
    for format in BlockFormat::ALL {
        let row_bytes = format.row_bytes(inputs).unwrap();
        let bytes = blocks_of(format, outputs, row_bytes);
        let mut weights = vec![0.0; outputs * inputs];
        format.decode(&bytes, &mut weights);
        let blocks = Literal::new(DType::U8, [outputs, row_bytes], bytes).unwrap();
        let (few, many) = (3, 40);
        let numbers: Vec<f32> = (0..many * inputs).map(|n| ((n * 29 + n / 11) % 101) as f32 / 50.0 - 1.0).collect();
        let x = of_floats(&[many, inputs], &numbers);
        let indices = of_ints(&[4], &[7, 0, 39, 7]);
        let shapes = (shape_of(&blocks), shape_of(&x), shape_of(&indices));
        let (function, _) = trace::trace("blocks", &shapes, Donate::Nothing, |(blocks, x, indices)| {
            let weight = BlockTensor::new(blocks.clone(), format, InputAxis::First);
            assert_eq!((weight.dims(), weight.dim(-1)), (&[inputs, outputs][..], outputs));
            let table = nn::layers::Embedding {
                weight: nn::quant::Weight::Blocks(BlockTensor::new(blocks.clone(), format, InputAxis::Last)),
            };
            let products = [few, many].map(|rows| {
                let x = x.slice(0, 0..rows);
                nn::quant::Weight::Blocks(weight.clone()).matmul_as(&x, DType::F32)
            });
            (products, weight.dense(DType::F32), table.apply(indices, DType::F32))
        })
        .unwrap();
        let product = |rows: usize| -> Vec<f32> {
            let one = |(i, j): (usize, usize)| {
                let pairs = numbers[i * inputs..][..inputs].iter().zip(&weights[j * inputs..][..inputs]);
                pairs.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>() as f32
            };
            (0..rows).flat_map(|i| (0..outputs).map(move |j| (i, j))).map(one).collect()
        };
        let turned: Vec<f32> =
            (0..inputs).flat_map(|i| (0..outputs).map(move |j| (i, j))).map(|(i, j)| weights[j * inputs + i]).collect();
        let rows: Vec<f32> = [7, 0, 39, 7].iter().flat_map(|row| &weights[row * inputs..][..inputs]).copied().collect();
        let expected = [product(few), product(many), turned, rows];
        // By kernels, and by what the composites stand for: under another name the device does not know them.
        let mut plain = function.clone();
        let mut module = plain.module.into_inner();
        let mut renamed = 0;
        for op in module.funcs.iter_mut().flat_map(|func| func.ops.iter_mut()) {
            if op.kind() == Some(OpKind::Composite) {
                op.attrs.set("name", Attr::string("test.plain"));
                renamed += 1;
            }
        }
        assert_eq!(renamed, 4);
        plain.module = hlo::verify(module).unwrap();
        for (function, how) in [(&function, "kernels"), (&plain, "plain ops")] {
            let results = run(function, &[blocks.clone(), x.clone(), indices.clone()]);
            for (n, (actual, expected)) in results.iter().zip(&expected).enumerate() {
                let off = off_by(&floats(actual), expected);
                assert!(off < 1e-5, "{} by {how}, result {n}: off by {off}", format.name());
            }
        }
    }
}
