//! Prints a kernel as a program: `kernel flash-fwd v5e 4096 512,4096,512`.

use hlo::{FuncBuilder, ModuleBuilder, Type};
use kernel::kernels::flash::{self, Attention, Blocks, Causality, Segments};
use tensor::DType;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let generation = chips::Generation::from_name(&args[2]).unwrap();
    let length: usize = args[3].parse().unwrap();
    let sizes: Vec<usize> = args[4].split(',').map(|n| n.parse().unwrap()).collect();
    let attention = Attention {
        batch: 1,
        q_heads: 8,
        kv_heads: 8,
        q_len: length,
        kv_len: length,
        depth: 128,
        dtype: DType::BF16,
        scale: 0.088,
        causality: Causality::Causal,
        window: None,
        segments: Segments::One,
    };
    let blocks = Blocks { q: sizes[0], kv_major: sizes[1], kv: sizes[2] };
    let kernel = match args[1].as_str() {
        "flash-fwd" => flash::forward(&attention, blocks, generation),
        "flash-bwd" => flash::backward(&attention, blocks, generation),
        _ => panic!("no such kernel"),
    }
    .unwrap_or_else(|error| panic!("{error}"));
    if args.len() > 5 {
        print!("{}", kernel.text());
        return;
    }
    let mut f = FuncBuilder::new("main");
    let ty = |spec: &tensor::Spec| Type::tensor(spec.dims.iter().map(|&d| d as i64).collect::<Vec<_>>(), spec.dtype);
    let operands: Vec<_> = kernel.operands().iter().map(|spec| f.arg(ty(spec))).collect();
    let call = kernel::call(&kernel, operands);
    let results = f.op_with_types(hlo::OpKind::CustomCall, &call.operands, call.attrs, &[], call.results).unwrap();
    let mut module = ModuleBuilder::new("kernel");
    module.func(f.finish(&results));
    print!("{}", hlo::text::print(&hlo::verify(module.finish()).unwrap()));
}
