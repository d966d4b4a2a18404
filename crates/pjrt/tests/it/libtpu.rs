//! Compiling with libtpu for slices that are not there.

use std::collections::BTreeMap;

use pjrt::extension::PartialProgram;
use pjrt::{
    AttributeValue, ClientOptions, Code, CompileOptions, DeviceAssignment, Effort, EncodedProgram, Error, ErrorFamily,
    Format, OptionOverride,
};

use crate::plugins::libtpu;
use crate::programs::{ADD, DONATING, SHARDED};

const NO_OPTIONS: &[(&str, AttributeValue)] = &[];

#[test]
fn says_what_it_is() {
    let Some(plugin) = libtpu() else { return };
    assert_eq!(plugin.api_version().major, 0);
    assert!(plugin.api_version().minor >= 100, "{:?}", plugin.api_version());
    assert!(plugin.missing_calls().is_empty());
    let attributes = plugin.attributes().unwrap();
    let stablehlo = attributes.iter().find(|(name, _)| name == "stablehlo_current_version").unwrap();
    assert_eq!(stablehlo.1.as_ints().unwrap().len(), 3);
    let extensions: Vec<String> = plugin.extensions().iter().map(ToString::to_string).collect();
    for expected in ["PhaseCompile", "Layouts", "TpuTopology", "TpuExecutable", "MemoryDescriptions", "Megascale"] {
        assert!(extensions.iter().any(|name| name == expected), "{extensions:?}");
    }
}

#[test]
fn describes_a_slice() {
    let Some(plugin) = libtpu() else { return };
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    assert_eq!(topology.platform_name().unwrap(), "tpu");
    let devices = topology.devices().unwrap();
    assert_eq!(devices.iter().map(|device| device.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(devices.iter().all(|device| device.kind == "TPU v5 lite"));
    assert_eq!(devices[3].attribute("coords").and_then(AttributeValue::as_ints), Some(&[1, 1, 0][..]));
    let attributes = topology.attributes().unwrap();
    let limit = attributes.iter().find(|(name, _)| name == "device_memory_bytes_limit").unwrap();
    assert_eq!(limit.1.as_int(), Some(16_909_334_528));

    let serialized = topology.serialize().unwrap();
    let again = plugin.deserialize_topology(&serialized).unwrap();
    assert_eq!(again.devices().unwrap(), devices);
    assert_eq!(again.fingerprint().unwrap(), topology.fingerprint().unwrap());

    let kinds = plugin.memory_descriptions().unwrap().of_device(&topology, 0).unwrap();
    assert_eq!(kinds.kinds[kinds.default.unwrap()].name, "device");
    assert!(kinds.kinds.iter().any(|kind| kind.name == "pinned_host"));
    assert!(plugin.memory_descriptions().unwrap().of_device(&topology, 4).is_err());
}

#[test]
fn counts_chips_and_hosts() {
    let Some(plugin) = libtpu() else { return };
    let extension = plugin.tpu_topology().unwrap();
    let wrap = [("wrap", AttributeValue::Ints(vec![1, 1, 1])), ("chip_config_name", AttributeValue::from("megacore"))];
    let topology = plugin.topology("v4:4x4x4", &wrap).unwrap();
    assert_eq!(extension.chip_count(&topology).unwrap(), 64);
    assert_eq!(extension.process_count(&topology).unwrap(), 16);
    assert_eq!(extension.chips_per_process(&topology).unwrap(), 4);
    assert_eq!(extension.device_count(&topology).unwrap(), 64);
    assert_eq!(extension.chip_bounds(&topology).unwrap(), [4, 4, 4]);
    assert_eq!(extension.chips_per_process_bounds(&topology).unwrap(), [2, 2, 1]);
    assert!(!extension.has_limited_ici_connectivity(&topology).unwrap());
    assert!(!extension.routing_strategy(&topology).unwrap().is_empty());
    let slices = extension.slice_configs("tpu7x").unwrap();
    assert!(slices.iter().any(|slice| slice.dims == [4, 4, 4] && slice.wrap == [true; 3]), "{slices:?}");
}

#[test]
fn compiles_without_a_device() {
    let Some(plugin) = libtpu() else { return };
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    let executable = plugin.compile(&topology, &EncodedProgram::mlir(ADD), &CompileOptions::default(), None).unwrap();
    assert_eq!(executable.name().unwrap(), "add");
    assert_eq!(executable.num_replicas().unwrap(), 1);
    assert_eq!(executable.num_partitions().unwrap(), 1);
    assert_eq!(executable.num_outputs().unwrap(), 1);
    assert_eq!(executable.output_dims().unwrap(), [[8, 128]]);
    assert_eq!(executable.output_types().unwrap(), [pjrt::BufferType::F32]);
    assert_eq!(executable.output_memory_kinds().unwrap(), ["device"]);
    assert!(executable.code_size_bytes().unwrap() > 0);
    let cost = executable.cost_analysis().unwrap();
    let flops = cost.iter().find(|(name, _)| name == "flops").unwrap();
    assert_eq!(flops.1.as_float(), Some(1024.0));

    let stats = executable.memory_stats().unwrap();
    assert_eq!((stats.argument_bytes, stats.output_bytes, stats.alias_bytes), (8192, 4096, 0));
    assert!(stats.total_allocation_bytes.is_some() && stats.peak_memory_bytes.is_some());

    let optimized = executable.optimized_program().unwrap();
    assert_eq!(optimized.format, Format::HloWithConfig);
    assert!(!optimized.bytes.is_empty());
    assert_eq!(executable.fingerprint().unwrap().len(), 32);

    let layouts = plugin.layouts().unwrap();
    assert_eq!(layouts.parameters(&executable).unwrap(), ["{1,0:T(8,128)}"; 2]);
    assert_eq!(layouts.outputs(&executable).unwrap(), ["{1,0:T(8,128)}"]);
    let default = layouts.topology_default(&topology, pjrt::BufferType::F32, &[8, 128]).unwrap();
    assert_eq!(default, "{1,0:T(8,128)}");

    let serialized = executable.serialize().unwrap();
    let inside = plugin.tpu_executable().unwrap();
    let inner = inside.memory_stats(&serialized).unwrap();
    assert_eq!((inner.argument_bytes, inner.output_bytes), (stats.argument_bytes, stats.output_bytes));
    assert!(!inside.program(&serialized).unwrap().bytes.is_empty());
}

#[test]
fn donated_arguments_show_as_aliases() {
    let Some(plugin) = libtpu() else { return };
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    let executable =
        plugin.compile(&topology, &EncodedProgram::mlir(DONATING), &CompileOptions::default(), None).unwrap();
    let stats = executable.memory_stats().unwrap();
    assert_eq!(stats.alias_bytes, stats.output_bytes);
}

#[test]
fn compiles_for_four_devices_with_options() {
    let Some(plugin) = libtpu() else { return };
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    let options = CompileOptions {
        num_partitions: 4,
        device_assignment: Some(DeviceAssignment::new(1, 4, vec![0, 1, 2, 3]).unwrap()),
        optimization_level: Some(Effort::O1),
        memory_fitting_level: Some(Effort::O1),
        overrides: BTreeMap::from([("xla_tpu_enable_async_collective_fusion".to_string(), OptionOverride::Bool(true))]),
        ..Default::default()
    };
    let executable = plugin.compile(&topology, &EncodedProgram::mlir(SHARDED), &options, None).unwrap();
    assert_eq!(executable.num_partitions().unwrap(), 4);
    assert_eq!(executable.output_dims().unwrap(), [[512, 512]]);
    let shardings = plugin.shardings().unwrap();
    assert_eq!(shardings.parameters(&executable).unwrap().unwrap().len(), 2);
    assert_eq!(shardings.outputs(&executable).unwrap().unwrap().len(), 1);
    let read = executable.compile_options().unwrap();
    assert_eq!(read.num_partitions, 4);
    assert_eq!(read.device_assignment, options.device_assignment);
    assert_eq!(read.optimization_level, Some(Effort::O1));
}

#[test]
fn runs_the_first_phase_alone() {
    let Some(plugin) = libtpu() else { return };
    let phases = plugin.phase_compile().unwrap();
    let names = phases.phases().unwrap();
    assert_eq!(names[0], "phase1_hlo_opts");
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    let options = CompileOptions { num_partitions: 4, ..Default::default() };
    let run = |module: &str| {
        phases.run(&topology, &["phase1_hlo_opts"], vec![PartialProgram::mlir(module, "phase1_hlo_opts")], &options)
    };
    let outputs = run(SHARDED).unwrap();
    let find = |name: &str| outputs.iter().find(|output| output.program_name == name);
    for name in ["opt_hlo", "buffer_assignment"] {
        let output = find(name).unwrap_or_else(|| panic!("no {name}"));
        // Both are compressed with zstd.
        assert_eq!(output.program[..4], [0x28, 0xb5, 0x2f, 0xfd], "{name}");
        assert_eq!(output.producer_phase, "phase1_hlo_opts");
    }
    let error = run("module { nonsense }").unwrap_err();
    assert!(matches!(error, Error::Pjrt { .. }), "{error:?}");
}

#[test]
fn bad_input_is_an_error_with_the_plugins_words() {
    let Some(plugin) = libtpu() else { return };
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    let compile = |program: &EncodedProgram, options: &CompileOptions| {
        plugin.compile(&topology, program, options, None).unwrap_err()
    };

    let error = compile(&EncodedProgram::mlir("module { func.func @main() { nonsense } }"), &CompileOptions::default());
    assert_eq!(error.code(), Some(Code::Unknown));
    assert_eq!(error.family(), ErrorFamily::Input);

    let unknown = BTreeMap::from([("xla_no_such_flag".to_string(), OptionOverride::Bool(true))]);
    let error = compile(&EncodedProgram::mlir(ADD), &CompileOptions { overrides: unknown, ..Default::default() });
    assert_eq!(error.code(), Some(Code::InvalidArgument));
    assert!(error.to_string().contains("No such compile option: 'xla_no_such_flag'"), "{error}");

    let error =
        compile(&EncodedProgram { format: Format::Other("fortran".into()), bytes: vec![] }, &Default::default());
    assert_eq!(error.code(), Some(Code::InvalidArgument));

    let error = plugin.topology("v9z:2x2", NO_OPTIONS).unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument));
    let Error::Pjrt { call, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*call, "PJRT_TopologyDescription_Create");

    let error = plugin.client(&ClientOptions::default()).unwrap_err();
    assert_eq!(error.code(), Some(Code::NotFound), "{error}");
    assert_eq!(error.family(), ErrorFamily::Machine);
}

#[test]
fn joins_slices() {
    let Some(plugin) = libtpu() else { return };
    let megascale = plugin.megascale().unwrap();
    assert_eq!(megascale.global_device_id(1, 3).unwrap(), 200_003);
    assert_eq!(megascale.slice_and_device(200_003).unwrap(), (1, 3));
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    assert!(!megascale.compile_config(&topology, 2).unwrap().is_empty());
    let joined = plugin.topology("v5e:2x2", &[("num_slices", AttributeValue::Int(2))]).unwrap();
    assert_eq!(joined.device_count().unwrap(), 8);
    assert_eq!(joined.serialize().unwrap_err().code(), Some(Code::Unimplemented));
}

#[test]
fn loading_twice_gives_a_working_plugin() {
    let Some(plugin) = libtpu() else { return };
    let again = pjrt::Plugin::load(plugin.path().unwrap()).unwrap();
    assert_eq!(again.topology("v6e:2x2", NO_OPTIONS).unwrap().device_count().unwrap(), 4);
}

#[test]
fn profiles_without_a_device() {
    let Some(plugin) = libtpu() else { return };
    let mut session = plugin.profiler().unwrap().session(&[]).unwrap();
    session.start().unwrap();
    session.stop().unwrap();
    assert!(!session.collect().unwrap().is_empty());
}

#[test]
fn threads_compile_for_every_generation_at_once() {
    let Some(plugin) = libtpu() else { return };
    let slices = ["v2:2x2", "v3:2x2", "v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"];
    std::thread::scope(|scope| {
        for slice in slices {
            scope.spawn(move || {
                let topology = plugin.topology(slice, NO_OPTIONS).unwrap();
                let program = EncodedProgram::mlir(ADD);
                let executable = plugin.compile(&topology, &program, &CompileOptions::default(), None).unwrap();
                assert_eq!(executable.memory_stats().unwrap().argument_bytes, 8192, "{slice}");
            });
        }
    });
}

#[test]
fn too_much_memory_is_resource_exhausted() {
    let Some(plugin) = libtpu() else { return };
    let topology = plugin.topology("v5e:2x2", NO_OPTIONS).unwrap();
    let module = ADD.replace("8x128", "8192x8192");
    let overrides = BTreeMap::from([("xla_tpu_max_hbm_size_mib".to_string(), OptionOverride::Int(64))]);
    let options = CompileOptions { overrides, ..Default::default() };
    let error = plugin.compile(&topology, &EncodedProgram::mlir(module), &options, None).unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
    assert!(error.to_string().contains("E1000"), "{error}");
}
