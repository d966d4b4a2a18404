//! A GPT from scratch: the model, its loss, its gradient, AdamW, and text drawn from it.
//!
//! ```text
//! $ cargo run --release --example gpt
//! 112384 parameters
//! step   1  loss 4.8…
//! step 101  loss 2.…
//! The old …
//! ```

use tpubridge::prelude::*;

const TEXT: &[u8] = include_bytes!("text/stories.txt");
const VOCABULARY: usize = 128;
const LENGTH: usize = 64;
const WIDTH: usize = 64;
const HEADS: usize = 4;

#[derive(Clone, Tree)]
struct Block {
    norms: [LayerNorm; 2],
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
}

impl Block {
    fn init(key: &Key) -> Block {
        let keys = key.split(4);
        let linear = |n: usize, from, to| Linear::init(&keys[n], from, to, Bias::Zero, Init::Normal(0.02));
        let norms = [LayerNorm::init(WIDTH, 1e-5), LayerNorm::init(WIDTH, 1e-5)];
        let (qkv, out) = (linear(0, WIDTH, 3 * WIDTH), linear(1, WIDTH, WIDTH));
        Block { norms, qkv, out, up: linear(2, WIDTH, 4 * WIDTH), down: linear(3, 4 * WIDTH, WIDTH) }
    }

    /// Causal attention of `[batch, length, width]`.
    fn attention(&self, x: &Tensor) -> Tensor {
        let (batch, length, size) = (x.dim(0), x.dim(1), WIDTH / HEADS);
        let heads = self.qkv.apply(x).reshape(&[batch, length, 3, HEADS, size]);
        let (query, key, value) = (heads.at(2, 0), heads.at(2, 1), heads.at(2, 2));
        let scores = query.einsum("bqhd,bkhd->bhqk", &key) * (size as f64).powf(-0.5);
        let positions = |axis| Tensor::iota(DType::I32, &[length, length], axis);
        let causal = positions(0).greater_equal(&positions(1));
        let weights = causal.select(&scores, &Tensor::scalar(DType::F32, -1e30)).softmax(-1);
        self.out.apply(&weights.einsum("bhqk,bkhd->bqhd", &value).reshape(&[batch, length, WIDTH]))
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        let x = x + &self.attention(&self.norms[0].apply(x));
        &x + &self.down.apply(&self.up.apply(&self.norms[1].apply(&x)).gelu())
    }
}

#[derive(Clone, Tree)]
struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Gpt {
    fn init(key: &Key) -> Gpt {
        let keys = key.split(4);
        let table = |n: usize, entries| Embedding::init(&keys[n], entries, WIDTH, Init::Normal(0.02));
        let blocks = keys[2..].iter().map(Block::init).collect();
        Gpt { tokens: table(0, VOCABULARY), positions: table(1, LENGTH), blocks, norm: LayerNorm::init(WIDTH, 1e-5) }
    }

    /// Logits `[batch, length, vocabulary]` of the token after each.
    fn logits(&self, tokens: &Tensor) -> Tensor {
        let positions = self.positions.weight.dense(DType::F32).slice(0, 0..tokens.dim(1));
        let x = self.tokens.apply(tokens, DType::F32) + &positions;
        let x = self.blocks.iter().fold(x, |x, block| block.apply(&x));
        self.tokens.scores(&self.norm.apply(&x))
    }
}

type State = TrainState<Gpt, Moments<Gpt>>;

fn main() -> Result<()> {
    let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu))?;
    let optimizer = Adam::with_weight_decay(Schedule::constant(1e-3), 0.1);
    let (first, options) = (optimizer.clone(), StepOptions::default());
    let init = move |(): &()| State::init(Gpt::init(&Key::from_seed(0)), &first, &options, &Key::from_seed(1));
    let step = backend.jit(move |(state, batch): &(State, Tensor)| {
        let loss = |model: &Gpt, batch: &Tensor, _: &Key| {
            let (tokens, targets) = (batch.slice(1, 0..LENGTH), batch.slice(1, 1..LENGTH + 1));
            CrossEntropy::default().mean(&model.logits(&tokens), &targets)
        };
        train_step(state, batch, &optimizer, &options, loss)
    });
    let (mut step, mut state) = (step.donate_first(), backend.jit(init).call(())?);
    println!("{} parameters", state.params.num_parameters());
    for n in 0..101 {
        let windows = (0..8).map(|row| (8 * n + row) * 7919 % (TEXT.len() - LENGTH - 1));
        let batch: Vec<i32> = windows.flat_map(|at| TEXT[at..=at + LENGTH].iter().map(|&byte| byte.into())).collect();
        let batch = Tensor::from(Literal::from_slice(&batch, [8, LENGTH + 1])?);
        let (next, metrics) = step.call((state, batch))?;
        state = next;
        if n % 100 == 0 {
            println!("step {:3}  loss {:.3}", n + 1, metrics.loss.item::<f32>()?);
        }
    }
    let mut next = backend.jit(|(model, tokens, last, seed): &(Gpt, Tensor, Tensor, Tensor)| {
        let logits = model.logits(tokens).dynamic_slice_in(1, last, 1).reshape(&[VOCABULARY]);
        Key::from_seed(seed).categorical(&(logits / 0.8), 0)
    });
    let mut text = b"The old ".to_vec();
    while text.len() < LENGTH {
        let tokens: Vec<i32> = text.iter().map(|&byte| byte.into()).chain(std::iter::repeat(0)).take(LENGTH).collect();
        let tokens = Tensor::from(Literal::from_slice(&tokens, [1, LENGTH])?);
        let (last, seed) = (Tensor::from(text.len() as i32 - 1), Tensor::from(text.len() as u32));
        text.push(next.call((state.params.clone(), tokens, last, seed))?.item::<i32>()? as u8);
    }
    println!("{}", String::from_utf8_lossy(&text).replace('\n', " "));
    Ok(())
}
