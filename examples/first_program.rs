//! A first program: a function over tensors, its gradient, compiled and run on whatever device there is.
//!
//! ```text
//! $ cargo run --example first_program
//! f(x)  = [6.0, 20.0]
//! f'(x) = [5.0, 9.0]
//! ```

use tpubridge::prelude::*;

/// `x² + 3x + 2`, element by element.
fn f(x: &Tensor) -> Tensor {
    x.square() + x * 3.0 + 2.0
}

fn main() -> Result<()> {
    // A TPU where there is one, else the CPU: leave `.device(…)` out to let it choose.
    let backend = Backend::auto(&Config::new(Mode::Development).device(Target::Cpu))?;

    // Compiled at the first call, once for each set of types and shapes.
    let mut value = backend.jit(f);
    let mut slope = backend.jit(|x: &Tensor| grad(|x| f(x).sum_all(), x));

    let x = Tensor::from([1.0f32, 3.0]);
    println!("f(x)  = {:?}", value.call(&x)?.to_vec::<f32>()?);
    println!("f'(x) = {:?}", slope.call(&x)?.to_vec::<f32>()?);
    Ok(())
}
