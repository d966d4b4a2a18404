//! Linear regression: a structure of parameters, its loss, and gradient descent until it fits.
//!
//! ```text
//! $ cargo run --example linear_regression
//! step    1  loss 4.40625
//! step  101  loss 0.0…
//! step  201  loss 0.0…
//! step  301  loss 0.0…
//! y = 3.0 x1 - 2.0 x2 + 0.5
//! ```

use tpubridge::prelude::*;

/// What is learned. Any structure of tensors can be differentiated, jitted and saved.
#[derive(Clone, Tree)]
struct Model {
    weight: Tensor,
    bias: Tensor,
}

impl Model {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight) + &self.bias
    }
}

fn main() -> Result<()> {
    let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu))?;

    // 64 points of y = 3 x1 - 2 x2 + 0.5.
    let points: Vec<[f32; 2]> = (0..64).map(|n| [(n % 8) as f32 / 4.0 - 1.0, (n / 8) as f32 / 4.0 - 1.0]).collect();
    let values: Vec<f32> = points.iter().map(|[a, b]| 3.0 * a - 2.0 * b + 0.5).collect();
    let x = Tensor::from(Literal::from_slice(points.as_flattened(), [64, 2])?);
    let y = Tensor::from(values);

    // One step: the loss, its gradient, and parameters a little further down.
    let mut step = backend.jit(|(model, x, y): &(Model, Tensor, Tensor)| {
        let (loss, gradient) = value_and_grad(|model: &Model| mean_squared_error(&model.apply(x), y), model);
        (model.zip(&gradient, |value, slope| value - &(slope * 0.05)), loss)
    });

    let mut model = Model { weight: Tensor::from([0.0f32, 0.0]), bias: Tensor::from(0.0f32) };
    for n in 0..400 {
        let (next, loss) = step.call((model, x.clone(), y.clone()))?;
        model = next;
        if n % 100 == 0 {
            println!("step {:4}  loss {:.5}", n + 1, loss.item::<f32>()?);
        }
    }
    let weight = model.weight.to_vec::<f32>()?;
    println!("y = {:.1} x1 - {:.1} x2 + {:.1}", weight[0], -weight[1], model.bias.item::<f32>()?);
    Ok(())
}
