//! Convolutions of random shapes, layouts and attributes against the sum written out.
#![allow(unsafe_code)]

use tensor::DType;

use super::super::Cores;
use super::super::machine::Machine;
use super::super::pool::Pool;
use super::{Convolution, Layout, Window};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn of(&mut self, values: &[usize]) -> usize {
        values[self.below(values.len())]
    }
}

/// A layout of `[outer, feature, spatial…]` whose dimensions lie in a random order.
fn layout(random: &mut Random, outer: usize, feature: usize, spatial: &[usize]) -> Layout {
    let sizes: Vec<usize> = [outer, feature].into_iter().chain(spatial.iter().copied()).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    match random.below(3) {
        // Features innermost, then outermost as in NCHW.
        0 => order.swap(0, 1),
        1 => order = (1..sizes.len()).rev().chain([0]).collect(),
        _ => (1..order.len()).for_each(|n| order.swap(n, random.below(n + 1))),
    }
    if random.below(3) == 0 {
        order = [1].into_iter().chain((2..sizes.len()).rev()).chain([0]).collect();
    }
    let mut strides = vec![0; sizes.len()];
    let mut step = 1;
    for &d in &order {
        strides[d] = step;
        step *= sizes[d] as isize;
    }
    Layout { outer: strides[0], feature: strides[1], spatial: strides[2..].to_vec() }
}

/// A whole random convolution.
fn random_problem(random: &mut Random, dtype: DType) -> Convolution {
    let rank = 1 + random.below(3);
    let (feature_groups, batch_groups) = match random.below(5) {
        0 => (random.of(&[2, 3]), 1),
        1 => (1, random.of(&[2, 3])),
        _ => (1, 1),
    };
    let mut input_features = random.of(&[1, 2, 3, 5, 16, 20]);
    let mut outputs = random.of(&[1, 2, 3, 17, 33, 40]);
    let mut groups = feature_groups;
    if random.below(6) == 0 {
        (groups, input_features, outputs) = (random.of(&[3, 16, 19, 35]), 1, 1);
    }
    let batch_groups = if groups > 1 { 1 } else { batch_groups };
    let batch = random.of(&[1, 2, 3, 9, 17]);
    let most = [12, 7, 4][rank - 1];
    let windows: Vec<Window> = (0..rank)
        .map(|_| {
            loop {
                let is_point = random.below(4) == 0;
                let mut w = Window {
                    input: 1 + random.below(most * if rank == 1 { 4 } else { 2 }),
                    kernel: if is_point { 1 } else { 1 + random.below(most) },
                    output: 0,
                    stride: random.of(&[1, 1, 2, 3]),
                    low: if is_point { 0 } else { random.below(5) as i64 - 1 },
                    input_dilation: if is_point { 1 } else { random.of(&[1, 1, 2, 3]) },
                    kernel_dilation: random.of(&[1, 1, 2]),
                    is_reversed: random.below(3) == 0,
                };
                let high = if is_point { 0 } else { random.below(5) as i64 - 1 };
                let padded = (w.input as i64 - 1) * w.input_dilation as i64 + 1 + w.low + high;
                let window = (w.kernel as i64 - 1) * w.kernel_dilation as i64 + 1;
                if padded >= window {
                    w.output = ((padded - window) / w.stride as i64 + 1) as usize;
                    break w;
                }
            }
        })
        .collect();
    let sizes = |f: fn(&Window) -> usize| windows.iter().map(f).collect::<Vec<_>>();
    let input = layout(random, batch * batch_groups, input_features * groups, &sizes(|w| w.input));
    let filter = layout(random, outputs * groups * batch_groups, input_features, &sizes(|w| w.kernel));
    let output = layout(random, batch, outputs * groups * batch_groups, &sizes(|w| w.output));
    Convolution {
        dtype,
        batch,
        input_features,
        output_features: outputs * groups * batch_groups,
        feature_groups: groups,
        batch_groups,
        windows,
        input,
        filter,
        output,
    }
}

/// Positions of a box in row-major order.
fn positions(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all.iter().flat_map(|p: &Vec<usize>| (0..size).map(move |i| [&p[..], &[i]].concat())).collect();
    }
    all
}

fn at(layout: &Layout, outer: usize, feature: usize, spatial: &[usize]) -> usize {
    let spatial: isize = spatial.iter().zip(&layout.spatial).map(|(&i, &s)| i as isize * s).sum();
    (outer as isize * layout.outer + feature as isize * layout.feature + spatial) as usize
}

fn naive(c: &Convolution, input: &[f64], filter: &[f64], output: &mut [f64]) {
    let outputs: Vec<usize> = c.windows.iter().map(|w| w.output).collect();
    let taps = positions(&c.windows.iter().map(|w| w.kernel).collect::<Vec<_>>());
    for o in 0..c.output_features {
        let first = o / (c.output_features / c.feature_groups) * c.input_features;
        for n in 0..c.batch {
            let image = n + o / (c.output_features / c.batch_groups) * c.batch;
            for position in positions(&outputs) {
                let mut sum = 0.0;
                'taps: for tap in &taps {
                    let (mut from, mut place) = ([0; 3], [0; 3]);
                    for (s, w) in c.windows.iter().enumerate() {
                        let p = (position[s] * w.stride + tap[s] * w.kernel_dilation) as i64 - w.low;
                        if p < 0 || p % w.input_dilation as i64 != 0 || p / w.input_dilation as i64 >= w.input as i64 {
                            continue 'taps;
                        }
                        from[s] = p as usize / w.input_dilation;
                        place[s] = if w.is_reversed { w.kernel - 1 - tap[s] } else { tap[s] };
                    }
                    for f in 0..c.input_features {
                        sum += input[at(&c.input, image, first + f, &from)] * filter[at(&c.filter, o, f, &place)];
                    }
                }
                output[at(&c.output, n, o, &position)] = sum;
            }
        }
    }
}

fn check(c: &Convolution, cores: &Cores) {
    let product = |f: fn(&Window) -> usize| c.windows.iter().map(f).product::<usize>();
    let counts = [
        c.batch * c.batch_groups * c.input_features * c.feature_groups * product(|w| w.input),
        c.output_features * c.input_features * product(|w| w.kernel),
        c.batch * c.output_features * product(|w| w.output),
    ];
    let mut random = Random(counts[0] as u64 * 31 + 7);
    let mut values = |n: usize| (0..n).map(|_| random.below(17) as f64 - 8.0).collect::<Vec<f64>>();
    let (input, filter) = (values(counts[0]), values(counts[1]));
    let mut expected = vec![0.0; counts[2]];
    naive(c, &input, &filter, &mut expected);
    let plan = c.plan(&cores.machine).expect("there are loops for this shape");
    macro_rules! run {
        ($t:ty, $from:expr) => {{
            let cast = |values: &[f64]| values.iter().map(|&v| v as $t).collect::<Vec<$t>>();
            let (input, filter) = (cast(&input), cast(&filter));
            for is_packed in [false, true] {
                let mut output = vec![77 as $t; counts[2]];
                // SAFETY: the arrays have the sizes of the problem.
                unsafe {
                    let packed = if is_packed { plan.pack(filter.as_ptr().cast(), &cores.machine) } else { None };
                    let out = output.as_mut_ptr().cast();
                    plan.run(input.as_ptr().cast(), filter.as_ptr().cast(), out, packed.as_ref(), None, cores);
                }
                // Small whole numbers: every order of the sums is exact.
                let output: Vec<f64> = output.iter().map(|&v| v as f64).collect();
                if let Some(n) = output.iter().zip(&expected).position(|(a, b)| a != b) {
                    panic!("{} {c:?}: element {n} is {}, not {}", plan.name(), output[n], expected[n]);
                }
            }
        }};
    }
    match c.dtype {
        DType::F64 => run!(f64, f64),
        DType::I32 => run!(i32, i32),
        _ => run!(f32, f32),
    }
}

fn machines() -> Vec<Cores> {
    let best = Machine::detect();
    let lesser = Machine { avx512: false, ..best };
    let all = [(best, 2), (lesser, 1), (Machine::portable(), 3)];
    all.into_iter().map(|(machine, threads)| Cores { machine, pool: Pool::new(threads) }).collect()
}

#[test]
fn random_convolutions_are_the_sums_written_out() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for cores in machines() {
        for n in 0..80 {
            let dtype = [DType::F32, DType::F32, DType::F64, DType::I32][n % 4];
            let problem = random_problem(&mut random, dtype);
            let taps: usize = problem.windows.iter().map(|w| w.kernel * w.output).product();
            let size = taps * problem.batch * problem.input_features * problem.output_features;
            if size < 1 << 18 {
                check(&problem, &cores);
            }
        }
    }
}

fn square(size: usize, kernel: usize, low: i64) -> Window {
    let output = (size as i64 + 2 * low - kernel as i64 + 1).max(0) as usize;
    Window { input: size, kernel, output, stride: 1, low, input_dilation: 1, kernel_dilation: 1, is_reversed: false }
}

fn images(batch: usize, inputs: usize, outputs: usize, w: &Window) -> Convolution {
    let image = |size: usize, features: usize| Layout {
        outer: (size * size * features) as isize,
        feature: 1,
        spatial: vec![(size * features) as isize, features as isize],
    };
    let filter = Layout {
        outer: 1,
        feature: outputs as isize,
        spatial: vec![(w.kernel * inputs * outputs) as isize, (inputs * outputs) as isize],
    };
    Convolution {
        dtype: DType::F32,
        batch,
        input_features: inputs,
        output_features: outputs,
        feature_groups: 1,
        batch_groups: 1,
        windows: vec![w.clone(), w.clone()],
        input: image(w.input, inputs),
        filter,
        output: image(w.output, outputs),
    }
}

#[test]
fn many_features_go_by_in_pieces() {
    for cores in machines() {
        check(&images(2, 512, 33, &square(5, 3, 1)), &cores);
        check(&images(1, 700, 5, &square(3, 3, 1)), &cores);
        check(&images(1, 96, 40, &square(16, 3, 1)), &cores);
    }
}

#[test]
fn a_window_as_large_as_the_image_is_summed_in_blocks() {
    for cores in machines() {
        let mut c = images(15, 1, 33, &square(28, 26, 0));
        // The gradient of a filter: images side by side, features far apart.
        c.input = Layout { outer: 1, feature: 28 * 28 * 15, spatial: vec![28 * 15, 15] };
        c.output = Layout { outer: 33, feature: 1, spatial: vec![3 * 15 * 33, 15 * 33] };
        assert_eq!(c.plan(&cores.machine).map(|plan| plan.name()), Some("batches"));
        check(&c, &cores);
    }
}

#[test]
fn shares_of_the_features_are_added() {
    for cores in machines() {
        for (batch, name) in [(9, "batches"), (3, "pixels")] {
            let mut c = images(batch, 7, 17, &square(14, 12, 0));
            c.input = Layout {
                outer: 1,
                feature: 14 * 14 * batch as isize,
                spatial: vec![14 * batch as isize, batch as isize],
            };
            let plan = c.plan(&cores.machine).expect("there are loops for this shape");
            assert_eq!(plan.name(), name);
            let shares = super::shares::shares::<f32>(&plan.problem, cores.pool.threads());
            assert_eq!(shares > 1, cores.pool.threads() > 1);
            check(&c, &cores);
        }
        // Sums that are too many to be held once for each share.
        let plan =
            images(64, 64, 512, &square(14, 12, 0)).plan(&cores.machine).expect("there are loops for this shape");
        assert_eq!(super::shares::shares::<f32>(&plan.problem, 2), 1);
    }
}

#[test]
fn zones_meet_the_taps_that_are_inside() {
    for cores in machines() {
        let direct = |c: Convolution| {
            assert_eq!(c.plan(&cores.machine).map(|plan| plan.name()), Some("direct"), "{c:?}");
            check(&c, &cores);
        };
        // Runs of rows along a line, down a column, and over images.
        direct(images(1, 16, 33, &square(31, 3, 1)));
        direct(images(9, 17, 40, &square(3, 3, 1)));
        direct(images(3, 20, 70, &square(6, 5, 2)));
        // Padding that hides whole windows or cuts the image; windows wider than it.
        direct(images(2, 16, 5, &square(6, 3, 4)));
        direct(images(2, 16, 5, &square(9, 3, -1)));
        direct(images(2, 16, 5, &square(3, 7, 3)));
        let strided = Window { output: 6, stride: 2, ..square(11, 3, 1) };
        direct(images(2, 16, 64, &strided));
        let spread = Window { output: 7, kernel_dilation: 2, is_reversed: true, ..square(9, 3, 1) };
        direct(images(2, 24, 35, &spread));
        let mut grouped = images(3, 16, 66, &square(8, 3, 1));
        grouped.feature_groups = 3;
        let image = |features: isize| (64 * features, vec![8 * features, features]);
        (grouped.input.outer, grouped.input.spatial) = image(48);
        direct(grouped);
    }
}

#[test]
fn channels_by_themselves_fill_vectors_or_not() {
    for cores in machines() {
        for (dtype, channels) in [(DType::F32, 8), (DType::F32, 37), (DType::F64, 21), (DType::I32, 24)] {
            let mut c = images(2, 1, 1, &square(7, 3, 1));
            let channel = channels as isize;
            (c.dtype, c.feature_groups, c.input_features, c.output_features) = (dtype, channels, 1, channels);
            let image = Layout { outer: 49 * channel, feature: 1, spatial: vec![7 * channel, channel] };
            (c.input, c.output) = (image.clone(), image);
            c.filter = Layout { outer: 1, feature: channel, spatial: vec![3 * channel, channel] };
            assert_eq!(c.plan(&cores.machine).map(|plan| plan.name()), Some("channels"));
            check(&c, &cores);
        }
    }
}

#[test]
fn finished_blocks_tile_the_result() {
    for cores in machines() {
        for inputs in [5, 16] {
            let mut c = images(3, inputs, 37, &square(19, 3, 1));
            let plan = c.plan(&cores.machine).expect("there are loops for this shape");
            let (rows, cols) = (3 * 19 * 19, 37);
            assert_eq!(plan.finishes(), Some((rows, cols)));
            let (input, filter) = (vec![1f32; 3 * 19 * 19 * inputs], vec![1f32; 9 * inputs * 37]);
            let mut output = vec![0f32; rows * cols];
            let seen = std::sync::Mutex::new(vec![0; rows * cols]);
            let finish = |_: usize, batch: usize, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>| {
                assert_eq!(batch, 0);
                let mut seen = seen.lock().expect("no test panics while it holds this");
                rows.for_each(|row| cols.clone().for_each(|col| seen[row * 37 + col] += 1));
            };
            // SAFETY: the arrays have the sizes of the problem.
            unsafe {
                let (input, filter) = (input.as_ptr().cast(), filter.as_ptr().cast());
                plan.run(input, filter, output.as_mut_ptr().cast(), None, Some(&finish), &cores);
            }
            assert!(seen.into_inner().is_ok_and(|seen| seen.iter().all(|&n| n == 1)));
            c.output.feature = 19 * 19;
            assert_eq!(c.plan(&cores.machine).and_then(|plan| plan.finishes()), None);
        }
    }
}

#[test]
fn empty_shapes_are_zero_or_nothing() {
    for cores in machines() {
        check(&images(0, 3, 4, &square(4, 3, 1)), &cores);
        check(&images(2, 0, 4, &square(4, 3, 1)), &cores);
        check(&images(2, 3, 0, &square(4, 3, 1)), &cores);
        check(&images(1, 3, 4, &Window { output: 3, kernel: 0, ..square(4, 3, 0) }), &cores);
    }
}

#[test]
fn shapes_that_would_need_absurd_memory_have_no_plan() {
    let machine = Machine::detect();
    let wide = Window { low: 1 << 50, ..square(4, 3, 1) };
    assert!(images(1, 3, 4, &wide).plan(&machine).is_none());
    let far = Window { output: 2, stride: 1 << 36, low: 1 << 36, ..square(4, 3, 1) };
    let mut c = images(1, 3, 4, &far);
    c.output = images(1, 3, 4, &square(2, 1, 0)).output;
    assert!(c.plan(&machine).is_none());
    let mut c = images(1, 16, 4, &far);
    c.output = images(1, 16, 4, &square(2, 1, 0)).output;
    assert!(c.plan(&machine).is_none());
    // Zones of their own for most outputs are not listed.
    let plan = images(1, 16, 4, &square(64, 63, 31)).plan(&machine);
    assert_eq!(plan.map(|plan| plan.name()), Some("pixels"));
}
