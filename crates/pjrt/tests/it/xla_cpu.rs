//! Running programs on XLA's CPU plugin, which is older than our declarations.

use std::sync::{Arc, Mutex, OnceLock, mpsc};

use pjrt::{
    Argument, Buffer, BufferSpec, BufferType, ChunkPosition, Client, ClientOptions, Code, CompileOptions, Device,
    EncodedProgram, Error, ExecuteOptions, HostSource, Placement, Plugin, SharedBytes, slot,
};

use crate::block_on::block_on;
use crate::plugins::xla_cpu;
use crate::programs::{ADD, DONATING, MATMUL, SHARDED_SUM};

const DEVICES: i64 = 4;

/// One client for all tests, with several devices.
fn client() -> Option<(&'static Plugin, &'static Client)> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let plugin = xla_cpu()?;
    let options = ClientOptions::default().option("cpu_device_count", DEVICES);
    Some((plugin, CLIENT.get_or_init(|| plugin.client(&options).unwrap())))
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn to_f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn upload(client: &Client, device: &Device, values: &[f32], dims: &[i64]) -> Buffer {
    let bytes = f32s(values);
    let (buffer, done) = client
        .buffer_from_host(HostSource::Copied(&bytes), BufferType::F32, dims, None, Placement::Device(device))
        .unwrap();
    done.wait().unwrap();
    buffer
}

#[test]
fn an_older_table_is_shorter_and_still_works() {
    let Some(plugin) = xla_cpu() else { return };
    assert_eq!(plugin.api_version().minor, 81);
    assert!(plugin.has(slot::PJRT_Client_Create));
    assert!(!plugin.has(slot::PJRT_TopologyDescription_Fingerprint));
    let missing = plugin.missing_calls();
    assert!(missing.contains(&"PJRT_TopologyDescription_Fingerprint"));
    assert!(!missing.contains(&"PJRT_Compile"));
}

#[test]
fn lists_devices_and_memories() {
    let Some((_, client)) = client() else { return };
    assert_eq!(client.platform_name().unwrap(), "cpu");
    assert!(!client.platform_version().unwrap().is_empty());
    assert_eq!(client.process_index().unwrap(), 0);
    let devices = client.devices().unwrap();
    assert_eq!(devices.len(), DEVICES as usize);
    assert_eq!(client.addressable_devices().unwrap(), devices);
    let device = &devices[1];
    let description = device.description().unwrap();
    assert_eq!(description.id, device.id().unwrap());
    assert_eq!(description.kind, device.kind().unwrap());
    assert!(device.is_addressable().unwrap());
    assert_eq!(client.device(description.id).unwrap(), *device);
    let memory = device.default_memory().unwrap();
    assert!(device.memories().unwrap().contains(&memory));
    assert!(memory.devices().unwrap().contains(device));
    assert!(!memory.kind().unwrap().is_empty());
    assert!(client.memories().unwrap().contains(&memory));
    let topology = client.topology().unwrap();
    assert_eq!(topology.device_count().unwrap(), devices.len());
    // The CPU keeps no statistics; what it answers is an error with a code, not a crash.
    assert_eq!(device.memory_stats().unwrap_err().code(), Some(Code::Unimplemented));
}

#[test]
fn adds_and_multiplies() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let program = client.compile(&EncodedProgram::mlir(MATMUL), &CompileOptions::default()).unwrap();
    let a = upload(client, device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let b = upload(client, device, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[3, 2]);
    let launch = program.execute(&[vec![(&a).into(), (&b).into()]], &ExecuteOptions::default()).unwrap();
    launch.wait().unwrap();
    let [matmul, same] = &launch.outputs[0][..] else { panic!("{launch:?}") };
    assert_eq!(matmul.dims().unwrap(), [2, 2]);
    assert_eq!(matmul.element_type().unwrap(), BufferType::F32);
    assert_eq!(matmul.device().unwrap(), *device);
    assert_eq!(matmul.memory().unwrap(), device.default_memory().unwrap());
    assert_eq!(to_f32s(&matmul.to_host().unwrap().wait().unwrap()), [4.0, 5.0, 10.0, 11.0]);
    assert_eq!(to_f32s(&same.to_host().unwrap().wait().unwrap()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(!a.is_deleted().unwrap());
    let executable = program.executable().unwrap();
    assert_eq!(executable.name().unwrap(), "matmul");
    assert_eq!(executable.output_dims().unwrap(), [[2, 2], [2, 3]]);
}

#[test]
fn events_are_futures() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let program = client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default()).unwrap();
    let values: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    let result = block_on(async {
        let a = upload(client, device, &values, &[8, 128]);
        a.ready_event()?.await?;
        let launch = program.execute(&[vec![(&a).into(), (&a).into()]], &ExecuteOptions::default())?;
        for event in launch.done {
            event.await?;
        }
        launch.outputs[0][0].to_host()?.await
    });
    let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
    assert_eq!(to_f32s(&result.unwrap()), doubled);
}

#[test]
fn callbacks_run_once_and_may_panic() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let buffer = upload(client, device, &[1.0], &[1]);
    let event = buffer.ready_event().unwrap();
    let (sender, receiver) = mpsc::channel();
    event.on_ready(|_| panic!("this panic must not reach the plugin")).unwrap();
    event.on_ready(move |result| sender.send(result.is_ok()).unwrap()).unwrap();
    assert_eq!(receiver.recv(), Ok(true));
    assert!(receiver.recv().is_err(), "the callback ran twice");
}

#[test]
fn donation_deletes_and_keeping_does_not() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let program = client.compile(&EncodedProgram::mlir(DONATING), &CompileOptions::default()).unwrap();
    let values = vec![3.0; 1024];
    let kept = upload(client, device, &values, &[1024]);
    let launch = program.execute(&[vec![Argument::Keep(&kept)]], &ExecuteOptions::default()).unwrap();
    launch.wait().unwrap();
    assert!(!kept.is_deleted().unwrap());
    assert_eq!(to_f32s(&kept.to_host().unwrap().wait().unwrap()), values);

    let given = upload(client, device, &values, &[1024]);
    let launch = program.execute(&[vec![Argument::Donate(&given)]], &ExecuteOptions::default()).unwrap();
    launch.wait().unwrap();
    assert!(given.is_deleted().unwrap());
    assert_eq!(to_f32s(&launch.outputs[0][0].to_host().unwrap().wait().unwrap()), vec![6.0; 1024]);
    assert!(given.to_host().is_err() || given.to_host().unwrap().wait().is_err());
    assert!(program.execute(&[vec![Argument::Keep(&given)]], &ExecuteOptions::default()).is_err());
}

#[test]
fn replicas_run_on_several_devices() {
    let Some((_, client)) = client() else { return };
    let assignment = client.default_device_assignment(DEVICES as usize, 1).unwrap();
    let options = CompileOptions {
        num_replicas: DEVICES as u32,
        device_assignment: Some(assignment.clone()),
        ..Default::default()
    };
    let program = client.compile(&EncodedProgram::mlir(ADD), &options).unwrap();
    let devices = program.addressable_devices().unwrap();
    assert_eq!(devices.len(), DEVICES as usize);
    let buffers: Vec<Buffer> =
        devices.iter().enumerate().map(|(i, device)| upload(client, device, &[i as f32; 1024], &[8, 128])).collect();
    let arguments: Vec<Vec<Argument<'_>>> = buffers.iter().map(|buffer| vec![buffer.into(), buffer.into()]).collect();
    let launch = program.execute(&arguments, &ExecuteOptions::default()).unwrap();
    launch.wait().unwrap();
    for (i, outputs) in launch.outputs.iter().enumerate() {
        assert_eq!(outputs[0].device().unwrap(), devices[i]);
        assert_eq!(to_f32s(&outputs[0].to_host().unwrap().wait().unwrap()), [2.0 * i as f32; 1024]);
    }
    assert_eq!(program.execute(&arguments[..1], &Default::default()).unwrap_err().family(), pjrt::ErrorFamily::Input);
    let mixed: Vec<Vec<Argument<'_>>> = buffers
        .iter()
        .enumerate()
        .map(|(i, buffer)| vec![buffer.into(), if i == 1 { Argument::Donate(buffer) } else { buffer.into() }])
        .collect();
    let error = program.execute(&mixed, &Default::default()).unwrap_err();
    assert!(error.to_string().contains("argument 1 is donated on some devices only"), "{error}");
}

#[test]
fn partitions_work_on_one_program() {
    let Some((_, client)) = client() else { return };
    let options = CompileOptions {
        num_partitions: DEVICES as u32,
        device_assignment: Some(client.default_device_assignment(1, DEVICES as usize).unwrap()),
        ..Default::default()
    };
    let program = client.compile(&EncodedProgram::mlir(SHARDED_SUM), &options).unwrap();
    let devices = program.addressable_devices().unwrap();
    let buffers: Vec<Buffer> =
        devices.iter().enumerate().map(|(i, device)| upload(client, device, &[i as f32; 2], &[2])).collect();
    let arguments: Vec<Vec<Argument<'_>>> = buffers.iter().map(|buffer| vec![buffer.into()]).collect();
    let launch = program.execute(&arguments, &ExecuteOptions::default()).unwrap();
    launch.wait().unwrap();
    for outputs in &launch.outputs {
        assert_eq!(to_f32s(&outputs[0].to_host().unwrap().wait().unwrap()), [12.0]);
    }
}

#[test]
fn programs_are_stored_and_loaded() {
    let Some((plugin, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let program = client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default()).unwrap();
    let serialized = program.executable().unwrap().serialize().unwrap();
    let loaded = client.deserialize(&serialized, None).unwrap();
    let a = upload(client, device, &[1.5; 1024], &[8, 128]);
    let run = |program: &pjrt::LoadedExecutable| {
        let launch = program.execute(&[vec![(&a).into(), (&a).into()]], &ExecuteOptions::default()).unwrap();
        to_f32s(&launch.outputs[0][0].to_host().unwrap().wait().unwrap())
    };
    assert_eq!(run(&loaded), [3.0; 1024]);
    assert!(client.deserialize(&serialized[..serialized.len() / 2], None).is_err());

    // This plugin neither compiles without a client nor loads what was compiled without one, and says so.
    let topology = client.topology().unwrap();
    let error = plugin.compile(&topology, &EncodedProgram::mlir(ADD), &CompileOptions::default(), None).unwrap_err();
    assert_eq!(error.code(), Some(Code::NotFound), "{error}");
    assert!(!plugin.has(slot::PJRT_Client_Load));
    let error = client.load(&program.executable().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { call: "PJRT_Client_Load", .. }), "{error:?}");

    program.delete().unwrap();
    assert!(program.is_deleted());
    assert!(program.execute(&[vec![(&a).into(), (&a).into()]], &ExecuteOptions::default()).is_err());
}

#[test]
fn host_memory_is_shared_until_it_is_no_longer_needed() {
    let Some((_, client)) = client() else { return };
    struct Noted(Vec<u8>, Mutex<mpsc::Sender<()>>);
    impl AsRef<[u8]> for Noted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Noted {
        fn drop(&mut self) {
            let _ = self.1.lock().unwrap().send(());
        }
    }
    let device = &client.addressable_devices().unwrap()[0];
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    for zero_copy in [false, true] {
        let (sender, receiver) = mpsc::channel();
        let shared: SharedBytes = Arc::new(Noted(f32s(&values), Mutex::new(sender)));
        let source = match zero_copy {
            true => HostSource::ZeroCopy(shared),
            false => HostSource::UntilTransferred(shared),
        };
        let place = Placement::Device(device);
        let (buffer, done) = client.buffer_from_host(source, BufferType::F32, &[64], None, place).unwrap();
        assert_eq!(to_f32s(&buffer.to_host().unwrap().wait().unwrap()), values);
        drop(buffer);
        done.wait().unwrap();
        drop(done);
        receiver.recv().unwrap();
    }
}

#[test]
fn strides_pick_a_column() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let bytes = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // The transpose of a 2x3 matrix, read in place.
    let (buffer, _) = client
        .buffer_from_host(
            HostSource::Copied(&bytes),
            BufferType::F32,
            &[3, 2],
            Some(&[4, 12]),
            Placement::Memory(&device.default_memory().unwrap()),
        )
        .unwrap();
    assert_eq!(to_f32s(&buffer.to_host().unwrap().wait().unwrap()), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn small_and_empty_arrays_come_back() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let there_and_back = |bytes: &[u8], element_type, dims: &[i64]| {
        let place = Placement::Device(device);
        let (buffer, _) = client.buffer_from_host(HostSource::Copied(bytes), element_type, dims, None, place).unwrap();
        assert_eq!(buffer.to_host().unwrap().wait().unwrap(), bytes, "{element_type}");
    };
    there_and_back(&[7, 0, 0, 0], BufferType::S32, &[]);
    there_and_back(&[], BufferType::F32, &[0, 4]);
    there_and_back(&[1, 0, 1], BufferType::Pred, &[3]);
    there_and_back(&[0x80, 0x3f, 0, 0xc0], BufferType::Bf16, &[2]);
    there_and_back(&[1, 2, 7], BufferType::S4, &[3]);
    there_and_back(&[0x38, 0x40], BufferType::F8E4M3FN, &[2]);
}

#[test]
fn a_dropped_read_does_no_harm() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let buffer = upload(client, device, &vec![1.0; 1 << 20], &[1 << 20]);
    drop(buffer.to_host().unwrap());
    assert_eq!(buffer.to_host().unwrap().wait().unwrap().len(), 4 << 20);
    let copy = buffer.copy_to_device(&client.addressable_devices().unwrap()[1]).unwrap();
    assert_eq!(copy.to_host().unwrap().wait().unwrap().len(), 4 << 20);
    buffer.delete().unwrap();
    assert!(buffer.is_deleted().unwrap());
}

#[test]
fn buffers_are_filled_in_pieces() {
    let Some((_, client)) = client() else { return };
    let memory = client.addressable_devices().unwrap()[0].default_memory().unwrap();
    let spec = BufferSpec { element_type: BufferType::F32, dims: vec![4] };
    let manager = client.transfer_to(&memory, &[spec.clone(), spec]).unwrap();
    assert_eq!(manager.buffer_count(), 2);
    assert_eq!(manager.buffer_bytes(0).unwrap(), 16);
    let data: SharedBytes = Arc::new(f32s(&[1.0, 2.0, 3.0, 4.0]));
    let buffer = manager.buffer(0).unwrap();
    assert!(manager.transfer(2, 0, &data, 0..4, ChunkPosition::More).is_err());
    assert!(manager.transfer(0, 8, &data, 0..16, ChunkPosition::More).is_err());
    assert!(manager.transfer(0, 0, &data, 0..17, ChunkPosition::More).is_err());
    manager.transfer(0, 0, &data, 0..8, ChunkPosition::More).unwrap().wait().unwrap();
    manager.transfer(0, 8, &data, 8..16, ChunkPosition::Last).unwrap().wait().unwrap();
    assert_eq!(to_f32s(&buffer.to_host().unwrap().wait().unwrap()), [1.0, 2.0, 3.0, 4.0]);
    let failing = manager.buffer(1).unwrap();
    manager.fail(1, Code::DataLoss, "the reader stopped").unwrap();
    let error = failing.ready_event().unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("the reader stopped"), "{error}");
}

#[test]
fn what_is_known_about_programs_and_buffers() {
    let Some((plugin, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let program = client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default()).unwrap();
    let executable = program.executable().unwrap();
    let stats = executable.memory_stats().unwrap();
    assert_eq!((stats.argument_bytes, stats.output_bytes), (8192, 4096));
    // This plugin knows fewer figures than our struct has room for.
    assert_eq!((stats.peak_memory_bytes, stats.total_allocation_bytes), (Some(12288), None));
    let cost = executable.cost_analysis().unwrap();
    assert!(cost.contains(&("flops".into(), pjrt::AttributeValue::Float(1024.0))), "{cost:?}");
    assert_eq!(program.fingerprint().unwrap(), executable.fingerprint().unwrap());
    assert_eq!(executable.optimized_program().unwrap().format, pjrt::Format::HloWithConfig);
    assert_eq!(program.device_assignment().unwrap().device_ids(), [0]);
    let missing = executable.compile_options().unwrap_err();
    assert!(matches!(missing, Error::Unsupported { call: "PJRT_Executable_GetCompileOptions", .. }));

    let buffer = upload(client, device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_eq!(plugin.layouts().unwrap().buffer(&buffer).unwrap(), "{1,0}");
    // Its layouts extension is shorter than ours, too.
    let missing = plugin.layouts().unwrap().parameters(&executable).unwrap_err();
    assert!(matches!(missing, Error::Unsupported { .. }), "{missing:?}");
    assert_eq!(to_f32s(&buffer.raw_to_host(4, 8).unwrap().wait().unwrap()), [2.0, 3.0]);
    assert!(buffer.raw_to_host(20, 8).is_err());
    assert!(buffer.raw_to_host(usize::MAX, 2).is_err());
    assert_eq!(buffer.unpadded_dims().unwrap(), [2, 3]);
    assert_eq!(buffer.on_device_bytes().unwrap(), 24);
    assert!(buffer.is_on_cpu().unwrap());
    let unset = client.uninitialized_buffer(BufferType::F32, &[4], Placement::Device(device)).unwrap();
    assert_eq!(unset.dims().unwrap(), [4]);
    let local = device.local_hardware_id().unwrap().unwrap();
    assert_eq!(client.device_by_local_hardware_id(local).unwrap(), *device);
    assert!(plugin.profiler().is_none());
}

#[test]
fn bad_arguments_are_refused() {
    let Some((_, client)) = client() else { return };
    let device = &client.addressable_devices().unwrap()[0];
    let upload = |bytes: &[u8], dims: &[i64]| {
        let place = Placement::Device(device);
        client.buffer_from_host(HostSource::Copied(bytes), BufferType::F32, dims, None, place)
    };
    assert!(matches!(upload(&[0; 7], &[2]), Err(Error::Input { .. })));
    assert!(client.compile(&EncodedProgram::mlir("module {"), &CompileOptions::default()).is_err());
    let program = client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default()).unwrap();
    let (wrong, _) = upload(&[0; 8], &[2]).unwrap();
    assert!(program.execute(&[vec![(&wrong).into()]], &ExecuteOptions::default()).is_err());
    assert!(client.default_device_assignment(usize::MAX, 2).is_err());
    assert!(client.device(4711).is_err());
}
