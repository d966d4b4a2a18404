//! Two real plugins in one process, at the same time.

use std::thread;

use pjrt::{
    AttributeValue, BufferType, ClientOptions, CompileOptions, EncodedProgram, ExecuteOptions, HostSource, Placement,
};

use crate::plugins::{libtpu, xla_cpu};
use crate::programs::ADD;

#[test]
fn two_plugins_work_side_by_side() {
    let (Some(tpu), Some(cpu)) = (libtpu(), xla_cpu()) else { return };
    let compile = || {
        let topology = tpu.topology("v5e:2x2", &[] as &[(&str, AttributeValue)]).unwrap();
        let executable = tpu.compile(&topology, &EncodedProgram::mlir(ADD), &CompileOptions::default(), None).unwrap();
        executable.memory_stats().unwrap().argument_bytes
    };
    let run = || {
        let client = cpu.client(&ClientOptions::default()).unwrap();
        let program = client.compile(&EncodedProgram::mlir(ADD), &CompileOptions::default()).unwrap();
        let device = &client.addressable_devices().unwrap()[0];
        let ones: Vec<u8> = std::iter::repeat_n(1.0f32.to_le_bytes(), 1024).flatten().collect();
        let place = Placement::Device(device);
        let (buffer, _) =
            client.buffer_from_host(HostSource::Copied(&ones), BufferType::F32, &[8, 128], None, place).unwrap();
        // The client's name is dropped here; what was made with it keeps it alive.
        drop(client);
        let launch = program.execute(&[vec![(&buffer).into(), (&buffer).into()]], &ExecuteOptions::default()).unwrap();
        launch.outputs[0][0].to_host().unwrap().wait().unwrap()
    };
    thread::scope(|scope| {
        let compiling = scope.spawn(compile);
        let running = scope.spawn(run);
        assert_eq!(compiling.join().unwrap(), 8192);
        assert_eq!(running.join().unwrap()[..4], 2.0f32.to_le_bytes());
    });
}

#[test]
fn objects_of_two_plugins_do_not_mix() {
    let (Some(tpu), Some(cpu)) = (libtpu(), xla_cpu()) else { return };
    let topology = tpu.topology("v5e:2x2", &[] as &[(&str, AttributeValue)]).unwrap();
    let error = cpu.compile(&topology, &EncodedProgram::mlir(ADD), &CompileOptions::default(), None).unwrap_err();
    assert!(error.to_string().contains("two different plugins"), "{error}");
    let one = cpu.client(&ClientOptions::default()).unwrap();
    let other = cpu.client(&ClientOptions::default()).unwrap();
    let device = &other.addressable_devices().unwrap()[0];
    let place = Placement::Device(device);
    let result = one.buffer_from_host(HostSource::Copied(&[1]), BufferType::U8, &[1], None, place);
    assert!(result.unwrap_err().to_string().contains("two different clients"));
}
