//! Checks a plugin's real device end to end: transfer, compile, execute, donate, store, load, and compile without the device.
//!
//! `cargo run --release -p tpubridge-pjrt --example device_check -- PLUGIN.so [OPTION=VALUE]...`
//! Options are the plugin's client options, as in `preallocate=false` for CUDA. Prints one line per check and the rate of a
//! bf16 matmul; exit code 1 when a check fails.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pjrt::{
    Argument, AttributeValue, Buffer, BufferType, Client, ClientOptions, Code, CompileOptions, Device, EncodedProgram,
    Error, ExecuteOptions, HostSource, LoadedExecutable, Placement, Plugin,
};

const ADD: &str = "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

const DONATING: &str = "func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

fn matmul(size: usize) -> String {
    let ty = format!("tensor<{size}x{size}xbf16>");
    format!(
        "func.func @main(%a: {ty}, %b: {ty}) -> {ty} {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}
  return %0 : {ty}
}}"
    )
}

/// Says what it saw, or what went wrong.
type Check = fn(&Bench) -> Result<String, Error>;

struct Bench {
    plugin: Plugin,
    client: Client,
    device: Device,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next().map(PathBuf::from) else {
        eprintln!("usage: device_check PLUGIN.so [OPTION=VALUE]...");
        return ExitCode::from(2);
    };
    let mut options = ClientOptions::default();
    for option in args {
        let (name, value) = option.split_once('=').unwrap_or((&option, "true"));
        options = options.option(name, typed(value));
    }
    let started = Instant::now();
    let bench = match open(&path, &options) {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let checks: [(&str, Check); 7] = [
        ("transfer there and back", transfer),
        ("compile and execute", execute),
        ("events as futures, many in flight", in_flight),
        ("donation", donation),
        ("serialize and load again", stored),
        ("compile without the client, then load", without_client),
        ("bf16 matmul", run_matmul),
    ];
    let mut failed = false;
    if execute(&bench).is_ok() {
        println!(
            "first result of a small program {:.1} ms after the plugin began to load",
            started.elapsed().as_secs_f64() * 1e3
        );
    }
    for (name, check) in checks {
        match check(&bench) {
            Ok(said) => println!("ok    {name}: {said}"),
            Err(Error::Unsupported { call, .. }) => println!("none  {name}: the plugin lacks {call}"),
            Err(Error::Pjrt { call, code: Code::Unimplemented | Code::NotFound, message, .. }) => {
                println!("none  {name}: {call} answers {message}");
            }
            Err(error) => {
                failed = true;
                println!("FAIL  {name}: {error}");
            }
        }
    }
    if failed { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

fn typed(value: &str) -> AttributeValue {
    match value {
        "true" => AttributeValue::Bool(true),
        "false" => AttributeValue::Bool(false),
        _ => value.parse().map_or_else(|_| AttributeValue::String(value.into()), AttributeValue::Int),
    }
}

fn open(path: &std::path::Path, options: &ClientOptions) -> Result<Bench, Error> {
    let plugin = Plugin::load(path)?;
    let client = plugin.client(options)?;
    let device = client.addressable_devices()?.into_iter().next().ok_or(Error::Input { what: "no device".into() })?;
    let version = plugin.api_version();
    println!(
        "{} on {}, PJRT {}.{}, plugin {}",
        device.kind()?,
        client.platform_name()?,
        version.major,
        version.minor,
        path.display()
    );
    Ok(Bench { plugin, client, device })
}

fn wrong(what: String) -> Error {
    Error::Input { what }
}

fn upload(bench: &Bench, bytes: &[u8], element: BufferType, dims: &[i64]) -> Result<Buffer, Error> {
    let placement = Placement::Device(&bench.device);
    let (buffer, done) = bench.client.buffer_from_host(HostSource::Copied(bytes), element, dims, None, placement)?;
    done.wait()?;
    Ok(buffer)
}

fn f32s(values: [f32; 4]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn run(loaded: &LoadedExecutable, arguments: Vec<Argument<'_>>) -> Result<Buffer, Error> {
    let launch = loaded.execute(&[arguments], &ExecuteOptions::default())?;
    let output = launch.outputs.into_iter().flatten().next();
    for done in launch.done {
        done.wait()?;
    }
    output.ok_or_else(|| wrong("no output".into()))
}

fn check_sum(bench: &Bench, loaded: &LoadedExecutable) -> Result<(), Error> {
    let a = upload(bench, &f32s([1.0, 2.0, 3.0, 4.0]), BufferType::F32, &[4])?;
    let b = upload(bench, &f32s([10.0, 20.0, 30.0, 40.0]), BufferType::F32, &[4])?;
    let sum = run(loaded, vec![Argument::Keep(&a), Argument::Keep(&b)])?.to_host()?.wait()?;
    if sum == f32s([11.0, 22.0, 33.0, 44.0]) { Ok(()) } else { Err(wrong(format!("wrong sum {sum:?}"))) }
}

fn transfer(bench: &Bench) -> Result<String, Error> {
    let bytes: Vec<u8> = (0..64u32 << 20).map(|i| (i ^ (i >> 11)) as u8).collect();
    let started = Instant::now();
    let buffer = upload(bench, &bytes, BufferType::U8, &[bytes.len() as i64])?;
    let there = started.elapsed();
    let started = Instant::now();
    let back = buffer.to_host()?.wait()?;
    let back_time = started.elapsed();
    if back != bytes {
        return Err(wrong("the bytes changed".into()));
    }
    let rate = |time: Duration| bytes.len() as f64 / time.as_secs_f64() / 1e9;
    Ok(format!("64 MiB unchanged, {:.1} GB/s there, {:.1} GB/s back", rate(there), rate(back_time)))
}

fn execute(bench: &Bench) -> Result<String, Error> {
    let loaded = bench.client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default())?;
    check_sum(bench, &loaded)?;
    let memory = loaded.executable()?.memory_stats()?;
    Ok(format!("right sum, arguments {} B, output {} B", memory.argument_bytes, memory.output_bytes))
}

fn in_flight(bench: &Bench) -> Result<String, Error> {
    let loaded = bench.client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default())?;
    let one = upload(bench, &f32s([1.0; 4]), BufferType::F32, &[4])?;
    let mut sum = upload(bench, &f32s([0.0; 4]), BufferType::F32, &[4])?;
    let mut pending = Vec::new();
    for _ in 0..100 {
        let launch = loaded.execute(&[vec![Argument::Keep(&sum), Argument::Keep(&one)]], &ExecuteOptions::default())?;
        pending.extend(launch.done);
        sum = launch.outputs.into_iter().flatten().next().ok_or_else(|| wrong("no output".into()))?;
    }
    for done in pending {
        done.wait()?;
    }
    let bytes = sum.to_host()?.wait()?;
    if bytes == f32s([100.0; 4]) { Ok("100 dependent launches".into()) } else { Err(wrong(format!("{bytes:?}"))) }
}

fn donation(bench: &Bench) -> Result<String, Error> {
    let loaded = bench.client.compile(&EncodedProgram::mlir(DONATING), &CompileOptions::default())?;
    let input = upload(bench, &f32s([1.0, 2.0, 3.0, 4.0]), BufferType::F32, &[4])?;
    let doubled = run(&loaded, vec![Argument::Donate(&input)])?.to_host()?.wait()?;
    if doubled != f32s([2.0, 4.0, 6.0, 8.0]) {
        return Err(wrong(format!("{doubled:?}")));
    }
    if input.is_deleted()? {
        Ok("the donated buffer is gone".into())
    } else {
        Err(wrong("the donated buffer is still there".into()))
    }
}

fn stored(bench: &Bench) -> Result<String, Error> {
    let loaded = bench.client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default())?;
    let bytes = loaded.executable()?.serialize()?;
    check_sum(bench, &bench.client.deserialize(&bytes, None)?)?;
    Ok(format!("{} bytes, right sum", bytes.len()))
}

fn without_client(bench: &Bench) -> Result<String, Error> {
    let topology = bench.client.topology()?;
    let executable = bench.plugin.compile(&topology, &EncodedProgram::mlir(ADD), &CompileOptions::default(), None)?;
    check_sum(bench, &bench.client.load(&executable)?)?;
    Ok("right sum".into())
}

fn run_matmul(bench: &Bench) -> Result<String, Error> {
    let size: usize = if bench.client.platform_name()? == "cpu" { 512 } else { 8192 };
    let loaded = bench.client.compile(&EncodedProgram::mlir(matmul(size)), &CompileOptions::default())?;
    // 1.0 in bf16: every element of the result is exactly `size`.
    let ones: Vec<u8> = [0x80, 0x3f].repeat(size * size);
    let dims = [size as i64, size as i64];
    let a = upload(bench, &ones, BufferType::Bf16, &dims)?;
    let result = run(&loaded, vec![Argument::Keep(&a), Argument::Keep(&a)])?.to_host()?.wait()?;
    let expected = ((size as f32).to_bits() >> 16) as u16;
    if result.chunks_exact(2).any(|e| u16::from_le_bytes([e[0], e[1]]) != expected) {
        return Err(wrong("wrong result".into()));
    }
    let mut times: Vec<Duration> = (0..30)
        .map(|_| {
            let started = Instant::now();
            run(&loaded, vec![Argument::Keep(&a), Argument::Keep(&a)]).map(|_| started.elapsed())
        })
        .collect::<Result<_, _>>()?;
    times.sort();
    let median = times[times.len() / 2].as_secs_f64();
    let flops = 2.0 * (size as f64).powi(3);
    Ok(format!("{size}³, right result, median {:.3} ms = {:.0} TFLOP/s", median * 1e3, flops / median / 1e12))
}
