//! The plugin's library, loaded and used by our own client as any other plugin is.

use std::path::PathBuf;
use std::sync::OnceLock;

use pjrt::{
    Argument, Buffer, BufferSpec, BufferType, ChunkPosition, Client, ClientOptions, Code, CompileOptions, Device,
    EncodedProgram, ExecuteOptions, HostSource, LoadedExecutable, OptionOverride, Placement, Plugin, SharedBytes,
};

const DEVICES: i64 = 4;

const ADD: &str = "module @add {
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}";

const MATMUL: &str = "module @matmul {
  func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
       : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    return %0, %a : tensor<2x2xf32>, tensor<2x3xf32>
  }
}";

const DONATING: &str = "module @donating {
  func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}";

const SUM_OF_REPLICAS: &str = r#"module @sum {
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %1 = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %1 : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}"#;

const SHARDED: &str = r#"module @sharded attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"})
      -> (tensor<2x4xf32> {mhlo.sharding = "{devices=[2,2]<=[4]}"}) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}"#;

/// The library that was built with this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}cpu_plugin{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(&name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is not beside {}", test.display()))
}

fn plugin() -> &'static Plugin {
    static PLUGIN: OnceLock<Plugin> = OnceLock::new();
    PLUGIN.get_or_init(|| Plugin::load(&library()).unwrap())
}

/// A client with several devices and the first of them.
fn client() -> (Client, Device) {
    let client = plugin().client(&ClientOptions::default().option("cpu_device_count", DEVICES)).unwrap();
    let device = client.addressable_devices().unwrap().remove(0);
    (client, device)
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn upload(client: &Client, device: &Device, values: &[f32], dims: &[i64]) -> Buffer {
    let (bytes, place) = (f32s(values), Placement::Device(device));
    client.buffer_from_host(HostSource::Copied(&bytes), BufferType::F32, dims, None, place).unwrap().0
}

fn download(buffer: &Buffer) -> Vec<f32> {
    let bytes = buffer.to_host().unwrap().wait().unwrap();
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(&EncodedProgram::mlir(text), &CompileOptions::default()).unwrap()
}

/// Runs a program of one array of f32 so many times.
pub(crate) fn compile_and_run(text: &str, dims: &[i64], times: usize) {
    let (client, device) = client();
    let program = compile(&client, text);
    let count: i64 = dims.iter().product();
    for _ in 0..times {
        let argument = upload(&client, &device, &vec![0.01; count as usize], dims);
        program.execute(&[vec![(&argument).into()]], &ExecuteOptions::default()).unwrap().wait().unwrap();
    }
}

#[test]
fn the_table_is_complete() {
    assert!(plugin().missing_calls().is_empty());
    let attributes = plugin().attributes().unwrap();
    assert!(attributes.iter().any(|(name, _)| name == "stablehlo_current_version"), "{attributes:?}");
    let extensions: Vec<String> = plugin().extensions().iter().map(ToString::to_string).collect();
    assert_eq!(extensions, ["Layouts", "MemoryDescriptions", "Shardings", "Profiler"]);
}

#[test]
fn devices_and_memories_are_described() {
    let (client, device) = client();
    assert_eq!(client.platform_name().unwrap(), "cpu");
    let devices = client.devices().unwrap();
    assert_eq!(devices.len(), DEVICES as usize);
    assert_eq!(client.device(1).unwrap(), devices[1]);
    assert_eq!(client.device(DEVICES as i32).unwrap_err().code(), Some(Code::InvalidArgument));
    let memory = device.default_memory().unwrap();
    assert_eq!(memory.kind().unwrap(), "device");
    let kinds: Vec<String> = device.memories().unwrap().iter().map(|memory| memory.kind().unwrap()).collect();
    assert_eq!(kinds, ["device", "pinned_host", "unpinned_host"]);
    assert_eq!(memory.devices().unwrap(), [device]);
    let topology = client.topology().unwrap();
    assert_eq!(topology.device_count().unwrap(), devices.len());
    let copy = plugin().deserialize_topology(&topology.serialize().unwrap()).unwrap();
    assert_eq!(copy.device_count().unwrap(), devices.len());
    assert!(plugin().deserialize_topology(b"something else").is_err());
    for bad in [0, -1, 1 << 40] {
        let error = plugin().client(&ClientOptions::default().option("cpu_device_count", bad)).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidArgument), "{error}");
    }
}

#[test]
fn programs_run() {
    let (client, device) = client();
    let program = compile(&client, MATMUL);
    let a = upload(&client, &device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let b = upload(&client, &device, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[3, 2]);
    let launch = program.execute(&[vec![(&a).into(), (&b).into()]], &ExecuteOptions::default()).unwrap();
    launch.wait().unwrap();
    assert_eq!(download(&launch.outputs[0][0]), [4.0, 5.0, 10.0, 11.0]);
    assert_eq!(download(&launch.outputs[0][1]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(launch.outputs[0][0].device().unwrap(), device);
    assert!(!a.is_deleted().unwrap());
}

#[test]
fn executables_answer_questions() {
    let (client, _) = client();
    let executable = compile(&client, MATMUL).executable().unwrap();
    assert_eq!(executable.name().unwrap(), "matmul");
    assert_eq!(executable.output_dims().unwrap(), [[2, 2], [2, 3]]);
    assert_eq!(executable.output_types().unwrap(), [BufferType::F32; 2]);
    assert_eq!(executable.output_memory_kinds().unwrap(), ["device"; 2]);
    assert_eq!(executable.parameter_memory_kinds().unwrap(), ["device"; 2]);
    assert_eq!(executable.fingerprint().unwrap().len(), 64);
    let costs = executable.cost_analysis().unwrap();
    let flops = costs.iter().find(|(name, _)| name == "flops").unwrap();
    assert_eq!(flops.1.as_float(), Some(24.0));
    let memory = executable.memory_stats().unwrap();
    assert_eq!((memory.argument_bytes, memory.output_bytes), (48, 40));
    assert!(hlo::read(&executable.optimized_program().unwrap().bytes).is_ok());
}

#[test]
fn programs_are_stored_and_loaded() {
    let (client, device) = client();
    let stored = compile(&client, ADD).executable().unwrap().serialize().unwrap();
    let a = upload(&client, &device, &[1.0, 2.0, 3.0, 4.0], &[4]);
    let run = |program: &LoadedExecutable| {
        let launch = program.execute(&[vec![(&a).into(), (&a).into()]], &ExecuteOptions::default()).unwrap();
        download(&launch.outputs[0][0])
    };
    assert_eq!(run(&client.deserialize(&stored, None).unwrap()), [2.0, 4.0, 6.0, 8.0]);
    for end in [0, 10, 30, stored.len() / 2] {
        assert!(client.deserialize(&stored[..end], None).is_err());
    }
    let topology = plugin().topology("", &[] as &[(&str, pjrt::AttributeValue)]).unwrap();
    let ahead = plugin().compile(&topology, &EncodedProgram::mlir(ADD), &CompileOptions::default(), None).unwrap();
    let loaded = client.load(&ahead).unwrap();
    assert_eq!(run(&loaded), [2.0, 4.0, 6.0, 8.0]);
    loaded.delete().unwrap();
    assert!(loaded.execute(&[vec![(&a).into(), (&a).into()]], &ExecuteOptions::default()).is_err());
}

#[test]
fn donated_buffers_are_gone() {
    let (client, device) = client();
    let program = compile(&client, DONATING);
    let kept = upload(&client, &device, &[1.0; 4], &[4]);
    program.execute(&[vec![Argument::Keep(&kept)]], &ExecuteOptions::default()).unwrap().wait().unwrap();
    assert_eq!(download(&kept), [1.0; 4]);
    let launch = program.execute(&[vec![Argument::Donate(&kept)]], &ExecuteOptions::default()).unwrap();
    assert!(kept.is_deleted().unwrap());
    assert_eq!(download(&launch.outputs[0][0]), [2.0; 4]);
    assert!(program.execute(&[vec![Argument::Keep(&kept)]], &ExecuteOptions::default()).is_err());
    assert!(kept.ready_event().unwrap().wait().is_err());
}

#[test]
fn bad_programs_and_arguments_are_refused() {
    let (client, device) = client();
    let refuse = |program: &EncodedProgram, options: &CompileOptions, code| {
        let error = client.compile(program, options).unwrap_err();
        assert_eq!(error.code(), Some(code), "{error}");
    };
    let options = CompileOptions::default();
    for text in ["", "module {", "ML\u{ef}R", "module {}", &ADD.replace("-> tensor<4xf32>", "-> tensor<5xf32>")] {
        refuse(&EncodedProgram::mlir(text), &options, Code::InvalidArgument);
    }
    refuse(&EncodedProgram::hlo("anything"), &options, Code::Unimplemented);
    refuse(
        &EncodedProgram::mlir(ADD),
        &CompileOptions { num_replicas: 9, ..Default::default() },
        Code::InvalidArgument,
    );

    let program = compile(&client, ADD);
    let a = upload(&client, &device, &[1.0; 4], &[4]);
    let wrong = upload(&client, &device, &[1.0; 4], &[2, 2]);
    let elsewhere = a.copy_to_device(&client.devices().unwrap()[1]).unwrap();
    for other in [&wrong, &elsewhere] {
        let error = program.execute(&[vec![(&a).into(), other.into()]], &ExecuteOptions::default()).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidArgument), "{error}");
    }
    assert!(program.execute(&[vec![(&a).into()]], &ExecuteOptions::default()).is_err());
}

/// As XLA:CPU takes them: a token has no data, so the array of no booleans that JAX passes for one will do, and the other
/// way round. Anything with data will not.
#[test]
fn tokens_are_arrays_of_no_booleans() {
    let (client, device) = client();
    let main = "func.func @main(%t: TOKEN, %a: tensor<4xf32>) -> (TOKEN, tensor<4xf32>) {
      return %t, %a : TOKEN, tensor<4xf32>
    }";
    let a = upload(&client, &device, &[1.0; 4], &[4]);
    let booleans = |count: usize| {
        let (bytes, place) = (vec![0; count], Placement::Device(&device));
        let dims = [count as i64];
        client.buffer_from_host(HostSource::Copied(&bytes), BufferType::Pred, &dims, None, place).unwrap().0
    };
    for (first, second) in [("!stablehlo.token", "tensor<0xi1>"), ("tensor<0xi1>", "!stablehlo.token")] {
        let [first, second] = [first, second].map(|token| compile(&client, &main.replace("TOKEN", token)));
        let run = |program: &LoadedExecutable, token: &Buffer| {
            program.execute(&[vec![token.into(), (&a).into()]], &ExecuteOptions::default())
        };
        let launch = run(&first, &booleans(0)).unwrap();
        let again = run(&second, &launch.outputs[0][0]).unwrap();
        assert_eq!(download(&again.outputs[0][1]), [1.0; 4]);
        for program in [&first, &second] {
            for other in [&booleans(1), &a] {
                assert_eq!(run(program, other).unwrap_err().code(), Some(Code::InvalidArgument));
            }
        }
    }
}

#[test]
fn options_of_the_compiler_are_known_or_refused() {
    let (client, _) = client();
    let compile = |name: &str, value: OptionOverride| {
        let options = CompileOptions { overrides: [(name.to_string(), value)].into(), ..Default::default() };
        client.compile(&EncodedProgram::mlir(ADD), &options).map(drop)
    };
    compile("xla_embed_ir_in_executable", OptionOverride::Bool(true)).unwrap();
    compile("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", OptionOverride::Double(0.5)).unwrap();
    for (name, value, said) in [
        ("no_option", OptionOverride::Int(1), "No such compile option: 'no_option'"),
        ("xla_embed_ir_in_executable", OptionOverride::String("maybe".into()), "'maybe' is not a valid bool value."),
    ] {
        let error = compile(name, value).unwrap_err();
        assert_eq!(error.code(), Some(Code::InvalidArgument));
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn errors_while_running_reach_the_results() {
    let (client, _) = client();
    let program = compile(
        &client,
        "func.func @main() -> tensor<4096x4096x4096xf32> {
           %0 = stablehlo.constant dense<0.0> : tensor<4096x4096x4096xf32>
           return %0 : tensor<4096x4096x4096xf32>
         }",
    );
    let launch = program.execute(&[vec![]], &ExecuteOptions::default()).unwrap();
    let error = launch.wait().unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
    assert!(launch.outputs[0][0].ready_event().unwrap().wait().is_err());
    assert!(launch.outputs[0][0].to_host().is_err());
}

#[test]
fn many_launches_in_flight_keep_their_order() {
    let (client, device) = client();
    let program = compile(&client, ADD);
    let one = upload(&client, &device, &[1.0; 4], &[4]);
    let mut sum = upload(&client, &device, &[0.0; 4], &[4]);
    for _ in 0..500 {
        let mut launch = program.execute(&[vec![(&sum).into(), (&one).into()]], &ExecuteOptions::default()).unwrap();
        sum = launch.outputs[0].remove(0);
    }
    assert_eq!(download(&sum), [500.0; 4]);
}

#[test]
fn memory_is_counted_and_limited() {
    let options = ClientOptions::default().option("memory_limit_bytes", 64);
    let client = plugin().client(&options).unwrap();
    let device = client.devices().unwrap().remove(0);
    let a = upload(&client, &device, &[1.0; 12], &[12]);
    let bytes = f32s(&[0.0; 5]);
    let place = Placement::Device(&device);
    let error = client.buffer_from_host(HostSource::Copied(&bytes), BufferType::F32, &[5], None, place).unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted));
    assert!(error.to_string().contains("f32[12] (48 bytes)"), "{error}");
    let statistics = device.memory_stats().unwrap();
    assert_eq!((statistics.bytes_in_use, statistics.bytes_limit), (48, Some(64)));
    drop(a);
    // A donated argument makes room for the result.
    let program = compile(&client, &DONATING.replace("4xf32", "16xf32"));
    let full = upload(&client, &device, &[1.0; 16], &[16]);
    let error = program.execute(&[vec![Argument::Keep(&full)]], &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted));
    assert!(!full.is_deleted().unwrap());
    let launch = program.execute(&[vec![Argument::Donate(&full)]], &ExecuteOptions::default()).unwrap();
    assert_eq!(download(&launch.outputs[0][0]), [2.0; 16]);
    drop((launch, full, program));
    assert_eq!(device.memory_stats().unwrap().bytes_in_use, 0);
}

#[test]
fn replicas_compute_together() {
    let (client, _) = client();
    let assignment = client.default_device_assignment(DEVICES as usize, 1).unwrap();
    let options = CompileOptions {
        num_replicas: DEVICES as u32,
        device_assignment: Some(assignment.clone()),
        ..Default::default()
    };
    let program = client.compile(&EncodedProgram::mlir(SUM_OF_REPLICAS), &options).unwrap();
    assert_eq!(program.device_assignment().unwrap(), assignment);
    let devices = program.addressable_devices().unwrap();
    let buffers: Vec<Buffer> =
        devices.iter().enumerate().map(|(n, device)| upload(&client, device, &[n as f32, 1.0], &[2])).collect();
    let arguments: Vec<Vec<Argument<'_>>> = buffers.iter().map(|buffer| vec![buffer.into()]).collect();
    let launch = program.execute(&arguments, &ExecuteOptions::default()).unwrap();
    for (outputs, device) in launch.outputs.iter().zip(&devices) {
        assert_eq!(download(&outputs[0]), [6.0, 4.0]);
        assert_eq!(outputs[0].device().unwrap(), *device);
    }
}

#[test]
fn partitions_hold_tiles() {
    let (client, _) = client();
    let assignment = client.default_device_assignment(1, DEVICES as usize).unwrap();
    let options =
        CompileOptions { num_partitions: DEVICES as u32, device_assignment: Some(assignment), ..Default::default() };
    let program = client.compile(&EncodedProgram::mlir(SHARDED), &options).unwrap();
    assert_eq!(program.executable().unwrap().output_dims().unwrap(), [[1, 2]]);
    let devices = program.addressable_devices().unwrap();
    // Rows 0 and 1 on the first two devices, rows 2 and 3 on the others.
    let tile = |n: usize| if n < 2 { [0.0, 1.0, 2.0, 3.0] } else { [4.0, 5.0, 6.0, 7.0] };
    let buffers: Vec<Buffer> =
        devices.iter().enumerate().map(|(n, device)| upload(&client, device, &tile(n), &[2, 2])).collect();
    let arguments: Vec<Vec<Argument<'_>>> = buffers.iter().map(|buffer| vec![buffer.into()]).collect();
    let launch = program.execute(&arguments, &ExecuteOptions::default()).unwrap();
    let tiles: Vec<Vec<f32>> = launch.outputs.iter().map(|outputs| download(&outputs[0])).collect();
    assert_eq!(tiles, [[0.0, 2.0], [4.0, 6.0], [1.0, 3.0], [5.0, 7.0]]);

    let executable = program.executable().unwrap();
    let layouts = plugin().layouts().unwrap();
    assert_eq!(layouts.outputs(&executable).unwrap(), ["{1,0}"]);
    assert_eq!(layouts.parameters(&executable).unwrap(), ["{1,0}"]);
    assert_eq!(layouts.buffer(&buffers[0]).unwrap(), "{1,0}");
    let shardings = plugin().shardings().unwrap();
    // OpSharding: type OTHER; tiles 2, 1 and two copies of each; devices 0 to 3; the last number counts copies.
    let expected = [8, 3, 26, 3, 2, 1, 2, 34, 4, 0, 1, 2, 3, 48, 1];
    assert_eq!(shardings.parameters(&executable).unwrap().unwrap(), [expected]);
    assert_eq!(shardings.outputs(&executable).unwrap().unwrap(), [[8, 3, 26, 2, 2, 2, 34, 4, 0, 1, 2, 3]]);
}

#[test]
fn arrays_of_every_kind_come_back() {
    let (client, device) = client();
    let there_and_back = |bytes: &[u8], element_type, dims: &[i64]| {
        let place = Placement::Device(&device);
        let (buffer, _) = client.buffer_from_host(HostSource::Copied(bytes), element_type, dims, None, place).unwrap();
        assert_eq!(buffer.to_host().unwrap().wait().unwrap(), bytes, "{element_type}");
        assert!(buffer.is_on_cpu().unwrap());
        let moved = buffer.copy_to_memory(&client.devices().unwrap()[1].memories().unwrap()[1]).unwrap();
        assert_eq!(moved.to_host().unwrap().wait().unwrap(), bytes, "{element_type}");
        assert_eq!(moved.memory().unwrap().kind().unwrap(), "pinned_host");
    };
    there_and_back(&[7, 0, 0, 0], BufferType::S32, &[]);
    there_and_back(&[], BufferType::F32, &[0, 4]);
    there_and_back(&[1, 0, 1], BufferType::Pred, &[3]);
    there_and_back(&[0x80, 0x3f, 0, 0xc0], BufferType::Bf16, &[2]);
    there_and_back(&[1, 2, 7], BufferType::S4, &[3]);
    let bytes = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (place, strides) = (Placement::Device(&device), Some(&[4, 12][..]));
    let (transposed, _) =
        client.buffer_from_host(HostSource::Copied(&bytes), BufferType::F32, &[3, 2], strides, place).unwrap();
    assert_eq!(download(&transposed), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(transposed.raw_to_host(4, 4).unwrap().wait().unwrap(), 4.0f32.to_le_bytes());
}

#[test]
fn buffers_are_filled_in_pieces() {
    let (client, device) = client();
    let memory = device.default_memory().unwrap();
    let spec = BufferSpec { element_type: BufferType::F32, dims: vec![4] };
    let manager = client.transfer_to(&memory, &[spec.clone(), spec]).unwrap();
    let data: SharedBytes = std::sync::Arc::new(f32s(&[1.0, 2.0, 3.0, 4.0]));
    let buffer = manager.buffer(0).unwrap();
    // The program waits for its argument.
    let program = compile(&client, ADD);
    let launch = program.execute(&[vec![(&buffer).into(), (&buffer).into()]], &ExecuteOptions::default()).unwrap();
    manager.transfer(0, 0, &data, 0..8, ChunkPosition::More).unwrap().wait().unwrap();
    assert!(!launch.done[0].is_ready().unwrap());
    manager.transfer(0, 8, &data, 8..16, ChunkPosition::Last).unwrap().wait().unwrap();
    assert_eq!(download(&launch.outputs[0][0]), [2.0, 4.0, 6.0, 8.0]);
    let failing = manager.buffer(1).unwrap();
    manager.fail(1, Code::DataLoss, "the reader stopped").unwrap();
    assert_eq!(failing.ready_event().unwrap().wait().unwrap_err().code(), Some(Code::DataLoss));
}

/// Bytes from a place within a longer array.
struct Part(Vec<u8>, usize);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1..self.1 + 16]
    }
}

#[test]
fn lent_memory_that_begins_between_elements_is_copied() {
    let (client, device) = client();
    let program = compile(&client, ADD);
    for offset in 0..8 {
        let mut bytes = vec![0; 32];
        bytes[offset..offset + 16].copy_from_slice(&f32s(&[1.0, 2.0, 3.0, 4.0]));
        let is_lent = (bytes.as_ptr() as usize + offset).is_multiple_of(4);
        let source = HostSource::ZeroCopy(std::sync::Arc::new(Part(bytes, offset)));
        let place = Placement::Device(&device);
        let (buffer, done) = client.buffer_from_host(source, BufferType::F32, &[4], None, place).unwrap();
        // What is lent is used as long as the buffer lives.
        assert_eq!(done.is_ready().unwrap(), !is_lent, "at {offset}");
        let launch = program.execute(&[vec![(&buffer).into(), (&buffer).into()]], &ExecuteOptions::default()).unwrap();
        assert_eq!(download(&launch.outputs[0][0]), [2.0, 4.0, 6.0, 8.0]);
    }
}
