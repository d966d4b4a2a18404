//! Prints a flash attention kernel as a program: `kernel flash-fwd v5e 4096 [512,4096,512] [text]`.

use std::process::ExitCode;

use chips::Generation;
use hlo::{FuncBuilder, ModuleBuilder, OpKind, Type};
use kernel::Kernel;
use kernel::kernels::flash::{self, Attention, Blocks, Causality, Pass, Segments};
use tensor::{DType, Spec};

/// Heads: cycles grow with them evenly, and so does the time to count them.
const HEADS: usize = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match printed(&args) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn printed(args: &[String]) -> Result<String, String> {
    let [which, generation, length, rest @ ..] = args else {
        return Err("flash-fwd or flash-bwd, a generation and a length".into());
    };
    let generation = Generation::from_name(generation).ok_or("no such generation")?;
    let length: usize = length.parse().map_err(|_| "no length")?;
    let attention = Attention {
        batch: 1,
        q_heads: HEADS,
        kv_heads: HEADS,
        q_len: length,
        kv_len: length,
        depth: 128,
        dtype: DType::BF16,
        scale: 0.088,
        causality: Causality::Causal,
        window: None,
        segments: Segments::One,
    };
    let pass = if which == "flash-bwd" { Pass::Backward } else { Pass::Forward };
    let sizes: Vec<usize> = rest.first().map_or("", |s| s).split(',').filter_map(|n| n.parse().ok()).collect();
    let blocks = match sizes[..] {
        [q, kv_major, kv] => Some(Blocks { q, kv_major, kv }),
        _ => Blocks::preferred(&attention, generation, pass),
    };
    let blocks = blocks.ok_or("no blocks divide that length")?;
    let kernel = match pass {
        Pass::Forward => flash::forward(&attention, blocks, generation),
        Pass::Backward => flash::backward(&attention, blocks, generation),
    };
    let kernel = kernel.map_err(|error| error.to_string())?;
    if rest.get(1).is_some_and(|word| word == "text") { Ok(kernel.text()) } else { program(&kernel) }
}

fn program(kernel: &Kernel) -> Result<String, String> {
    let mut f = FuncBuilder::new("main");
    let ty = |spec: &Spec| Type::tensor(spec.dims.iter().map(|&d| d as i64).collect::<Vec<_>>(), spec.dtype);
    let operands: Vec<_> = kernel.operands().iter().map(|spec| f.arg(ty(spec))).collect();
    let call = kernel::call(kernel, operands);
    f.at(call.loc);
    let results = f
        .op_with_types(OpKind::CustomCall, &call.operands, call.attrs, &[], call.results)
        .map_err(|violation| format!("{violation:?}"))?;
    let mut module = ModuleBuilder::new("kernel");
    module.func(f.finish(&results));
    let module = hlo::verify(module.finish()).map_err(|error| error.to_string())?;
    Ok(hlo::text::print(&module))
}
