//! Tests on programs the TPU compiler returned, on hand-made modules, and on damaged bytes.

use crate::*;
use prost::Message as _;

macro_rules! data {
    ($($name:literal),*) => {
        include_bytes!(concat!("../tests/data/compiled/", $($name),*))
    };
}

macro_rules! compiled {
    ($($name:literal),*) => {
        [$(($name, data!($name, ".pb.zst") as &[u8], data!($name, ".txt.zst") as &[u8])),*]
    };
}

/// `(name, module, what XLA itself printed for it)`, compiled for v5e by libtpu 0.0.51.
const COMPILED: [(&str, &[u8], &[u8]); 8] =
    compiled!("matmul_tanh", "ffn_4", "ffn_grad_4", "scan_3", "scan_3_unrolled", "fori_nested", "conv", "scan_grad_4");
const PHASE_1_HLO: &[u8] = data!("scan_grad_big.opt_hlo.zst");
const PHASE_1_BUFFERS: &[u8] = data!("scan_grad_big.buffer_assignment.zst");

fn load(name: &str) -> HloModule {
    let (_, bytes, _) = COMPILED.iter().find(|c| c.0 == name).unwrap();
    HloModule::from_any(bytes).unwrap()
}

fn flops(name: &str) -> f64 {
    let module = load(name);
    module.cost(&module.executions()).matmul_flops
}

#[test]
fn prints_what_xla_prints() {
    for (name, bytes, text) in COMPILED {
        let text = String::from_utf8(zstd::decompress(text, Limits::default()).unwrap()).unwrap();
        let ours = HloModule::from_any(bytes).unwrap().to_string();
        // The first line also holds settings that are not in the module; the order of computations is free.
        let lines = |text: &str| {
            let mut lines: Vec<String> = text.lines().skip(1).filter(|l| !l.is_empty()).map(str::to_owned).collect();
            lines.sort();
            lines
        };
        for (theirs, ours) in lines(&text).iter().zip(&lines(&ours)) {
            assert_eq!(ours, theirs, "{name}");
        }
        assert_eq!(lines(&text).len(), lines(&ours).len(), "{name}");
        let header = |text: &str| text.lines().next().unwrap().split("_layout=").next().unwrap().to_owned();
        assert_eq!(header(&ours), header(&text), "{name}");
    }
}

#[test]
fn flops_count_loops() {
    assert_eq!(flops("matmul_tanh"), 2.0 * 256.0 * 512.0 * 1024.0);
    assert_eq!(flops("ffn_4"), 2.0 * 2.0 * 512.0 * 1024.0 * 1024.0);
    assert_eq!(flops("scan_3"), flops("scan_3_unrolled"));
    assert_eq!(flops("scan_3"), 3.0 * 2.0 * 256.0 * 512.0 * 512.0);
    assert_eq!(flops("fori_nested"), 5.0 * 4.0 * 2.0 * 256.0 * 512.0 * 512.0);
    // Per layer two matmuls forward, one recomputed, four backward.
    assert_eq!(flops("scan_grad_4"), 5.0 * 7.0 * 2.0 * 1024.0 * 1024.0 * 4096.0);
    // The compiler's own figure for this program, which has nothing but the convolution.
    assert_eq!(flops("conv"), 36_192_256.0);
}

#[test]
fn trip_counts() {
    let known =
        |name: &str| -> Vec<TripCount> { load(name).executions().loops().iter().map(|l| l.1.clone()).collect() };
    assert_eq!(known("scan_3"), [TripCount::Known(3)]);
    assert_eq!(known("fori_nested"), [TripCount::Known(5), TripCount::Known(4)]);
    assert_eq!(known("scan_grad_4"), [TripCount::Known(5), TripCount::Known(5)]);
}

#[test]
fn one_all_reduce() {
    let module = load("ffn_4");
    assert_eq!((module.num_replicas(), module.num_partitions(), module.is_scheduled()), (1, 4, true));
    let collectives = module.collectives(&module.executions());
    let [c] = &collectives[..] else { panic!("{collectives:?}") };
    assert_eq!((c.kind, c.overlap), (CollectiveKind::AllReduce, Overlap::Synchronous));
    assert_eq!((c.group_size, c.group_count, c.executions), (4, 1, 1));
    assert_eq!((c.payload_bytes, c.sent_bytes), (512 * 1024 * 2, 2 * 3 * 512 * 1024 * 2 / 4));
    let instruction = module.instruction(c.instruction);
    assert_eq!(instruction.attributes().replica_groups.as_ref().unwrap().expand(), [[0, 1, 2, 3]]);
    let algorithm = instruction.collective_algorithm().unwrap();
    assert_eq!((&*algorithm.emitter, &*algorithm.strategy), ("RotatedPincerEmitter", "UniDirection1DRingStrategy"));
}

#[test]
fn fused_transfers_count_once() {
    let module = load("ffn_grad_4");
    let executions = module.executions();
    let totals = module.collective_totals(&executions);
    let count = |kind| totals.iter().find(|t| t.kind == kind).map(|t| t.instructions);
    // Two of the gathers run inside matmuls and appear in three fusions each.
    assert_eq!(count(CollectiveKind::AllGather), Some(4));
    assert_eq!(count(CollectiveKind::ReduceScatter), Some(1));
    assert_eq!(count(CollectiveKind::AllToAll), Some(2));
    assert_eq!(count(CollectiveKind::CollectivePermute), Some(1));
    assert_eq!(count(CollectiveKind::AllReduce), None);
    let is_async = |c: &&Collective| c.kind == CollectiveKind::AllGather && c.overlap == Overlap::Asynchronous;
    assert_eq!(module.collectives(&executions).iter().filter(is_async).count(), 2);
}

/// A gather that is carried by a matmul and by what begins and ends it: none of them moves its bytes.
#[test]
fn carried_transfers_are_no_traffic_of_fusions() {
    let module = load("ffn_grad_4");
    let users = module.users();
    let vmem = |name: &str| {
        let traffic = users.traffic(&module, module.find(name).unwrap());
        assert_eq!((traffic.read.hbm, traffic.written.hbm), (0.0, 0.0), "{name}");
        (traffic.read.vmem, traffic.written.vmem)
    };
    let bf16 = |rows: u32, columns: u32| f64::from(rows * columns * 2);
    let factors = bf16(512, 1024) + bf16(1024, 4096);
    assert_eq!(vmem("fusion.21"), (factors, 2.0 * bf16(512, 4096)));
    for (name, channel) in [("async-collective-done", 4), ("async-collective-done.1", 6)] {
        assert_eq!(vmem(name), (0.0, 0.0));
        assert!(module.awaited_channels().contains(&(module.find(name).unwrap(), channel)), "{name}");
    }
    assert_eq!(vmem("async-collective-start"), (0.0, 0.0));
    assert_eq!(module.awaited_channels().len(), 2);
    assert_eq!(load("matmul_tanh").awaited_channels(), []);
}

#[test]
fn collectives_in_loops_are_multiplied() {
    let module = load("scan_grad_4");
    let totals = module.collective_totals(&module.executions());
    let gather = totals.iter().find(|t| t.kind == CollectiveKind::AllGather).unwrap();
    assert_eq!((gather.instructions, gather.executions), (4, 20));
    assert_eq!(gather.payload_bytes, 20 * 4096 * 1024 * 2);
}

#[test]
fn annotations_and_sources() {
    let module = load("matmul_tanh");
    let id = module.find("convolution_tanh_fusion").unwrap();
    let instruction = module.instruction(id);
    assert_eq!(instruction.estimated_cycles(), Some(9635));
    assert_eq!(instruction.attributes().fusion_kind, "kOutput");
    assert_eq!(instruction.shape().to_string(), "bf16[256,1024]{1,0:T(8,128)(2,1)}");
    assert_eq!(instruction.metadata().unwrap().op_name, "jit(<lambda>)/dot_general");
    let source = module.source(id).unwrap();
    assert!(source.file.ends_with(".py") && source.line > 0, "{source:?}");
    assert_eq!(module.stack(id).count(), 2);
    let copy = module.find("copy-done").unwrap();
    assert_eq!(module.instruction(copy).shape().memory_space(), MemorySpace::VMEM);
    let cost = module.cost(&module.executions());
    assert_eq!(cost.traffic.read.hbm, f64::from((256 * 512 + 512 * 1024) * 2));
    assert_eq!(cost.traffic.written.hbm, f64::from(256 * 1024 * 2));
    assert_eq!(cost.estimated_cycles, 9635.0);
    assert_eq!(cost.matmul_flops_by_type, [(PrimitiveType::Bf16, cost.matmul_flops)]);
}

#[test]
fn donated_arguments_are_aliases() {
    let module = load("scan_grad_4");
    let aliases: Vec<_> = module.input_output_aliases().iter().map(|a| (a.parameter, a.output_index.clone())).collect();
    assert_eq!(aliases, [(0, vec![0]), (1, vec![1])]);
}

#[test]
fn buffers_of_phase_1() {
    let module = HloModule::from_zstd(PHASE_1_HLO).unwrap();
    assert_eq!((module.num_partitions(), module.is_scheduled()), (4, true));
    let buffers = BufferAssignment::from_zstd(PHASE_1_BUFFERS).unwrap();
    let hbm = buffers.summary(MemorySpace::HBM);
    // Equal to what JAX's memory_analysis() says of the same program.
    assert_eq!((hbm.argument_bytes, hbm.output_bytes, hbm.aliased_bytes), (402_653_184, 335_544_832, 335_544_320));
    assert_eq!(hbm.temporary_bytes, 1_647_395_328);
    assert_eq!(hbm.total_bytes(), 2_050_070_016);
    for (id, buffer) in buffers.buffers() {
        let instruction = module.instruction(buffers.defining_instruction(&module, id).unwrap());
        let shape = instruction.shape().subshape(&buffer.shape_index).unwrap();
        let is_padded_array = shape.layout().is_some_and(|l| !l.tiles.is_empty());
        assert!(!is_padded_array || shape.padded_byte_size() == buffer.size_bytes, "{shape} {}", buffer.size_bytes);
    }
    let largest = buffers.largest_at_peak(MemorySpace::HBM, 3);
    let names: Vec<String> = largest.iter().map(|(_, b)| buffers.describe(&module, b.buffer)).collect();
    assert_eq!(largest.len(), 3, "{names:?}");
    assert!(largest.windows(2).all(|w| w[0].1.size_bytes >= w[1].1.size_bytes));
    assert!(names.iter().all(|n| n != "unknown"), "{names:?}");
    assert!(buffers.heap_traces().iter().any(|t| t.events.iter().any(|e| e.kind == HeapEventKind::Alloc)));
}

mod made_by_hand {
    use super::*;

    /// An instruction with a scalar `s32` shape unless changed afterwards.
    fn op(id: i64, opcode: &str, operands: &[i64]) -> proto::Instruction {
        proto::Instruction {
            name: format!("{opcode}.{id}"),
            opcode: opcode.into(),
            shape: Some(proto::Shape { element_type: 4, ..Default::default() }),
            id,
            operand_ids: operands.to_vec(),
            ..Default::default()
        }
    }

    fn constant(id: i64, value: i32) -> proto::Instruction {
        let literal = proto::Literal { s32s: vec![value], ..Default::default() }.encode_to_vec();
        proto::Instruction { literal, ..op(id, "constant", &[]) }
    }

    fn element(id: i64, of: i64, tuple_index: i64) -> proto::Instruction {
        proto::Instruction { tuple_index, ..op(id, "get-tuple-element", &[of]) }
    }

    fn calling(called: &[i64], instruction: proto::Instruction) -> proto::Instruction {
        proto::Instruction { called_computation_ids: called.to_vec(), ..instruction }
    }

    /// A computation whose last instruction is the root.
    fn computation(id: i64, instructions: Vec<proto::Instruction>) -> Vec<u8> {
        let root_id = instructions.last().map_or(0, |i| i.id);
        proto::Computation {
            name: format!("computation.{id}"),
            instructions: instructions.iter().map(|i| i.encode_to_vec()).collect(),
            id,
            root_id,
            ..Default::default()
        }
        .encode_to_vec()
    }

    fn module(computations: Vec<Vec<u8>>, entry_computation_id: i64) -> Vec<u8> {
        proto::Module { name: "m".into(), computations, entry_computation_id, ..Default::default() }.encode_to_vec()
    }

    /// A loop over state (counter, bound) that starts at (`init`, `bound`) and adds `step` to the counter.
    fn counting_loop(init: proto::Instruction, bound: proto::Instruction, step: i32, direction: &str) -> TripCount {
        let body = computation(
            1,
            vec![
                op(10, "parameter", &[]),
                element(11, 10, 0),
                element(12, 10, 1),
                constant(13, step),
                op(14, "add", &[11, 13]),
                op(15, "tuple", &[14, 12]),
            ],
        );
        let compare = proto::Instruction { comparison_direction: direction.into(), ..op(23, "compare", &[21, 22]) };
        let condition = computation(2, vec![op(20, "parameter", &[]), element(21, 20, 0), element(22, 20, 1), compare]);
        let entry = computation(
            3,
            vec![
                proto::Instruction { id: 30, ..init },
                proto::Instruction { id: 31, ..bound },
                op(32, "tuple", &[30, 31]),
                calling(&[1, 2], op(33, "while", &[32])),
            ],
        );
        let module = HloModule::from_hlo_module(&module(vec![body, condition, entry], 3)).unwrap();
        module.executions().loops()[0].1.clone()
    }

    #[test]
    fn bound_in_the_loop_state() {
        assert_eq!(counting_loop(constant(0, 0), constant(0, 7), 1, "LT"), TripCount::Known(7));
        assert_eq!(counting_loop(constant(0, 1), constant(0, 8), 2, "LT"), TripCount::Known(4));
        assert_eq!(counting_loop(constant(0, 9), constant(0, 0), -3, "GT"), TripCount::Known(3));
    }

    #[test]
    fn data_dependent_bounds_are_unknown() {
        let unknown = |trips| matches!(trips, TripCount::Unknown { .. });
        assert!(unknown(counting_loop(constant(0, 0), op(0, "parameter", &[]), 1, "LT")));
        assert!(unknown(counting_loop(op(0, "parameter", &[]), constant(0, 3), 1, "LT")));
        assert!(unknown(counting_loop(constant(0, 0), constant(0, 3), 0, "LT")));
        assert!(unknown(counting_loop(constant(0, 0), constant(0, 3), 1, "")));
    }

    fn refuse(bytes: &[u8], expected: &str) {
        match HloModule::from_hlo_module(bytes) {
            Err(Error::Malformed { problem, .. }) => assert!(problem.contains(expected), "{problem}"),
            other => panic!("expected `{expected}`, got {other:?}"),
        }
    }

    #[test]
    fn inconsistent_modules_are_refused() {
        let one = |instructions| module(vec![computation(1, instructions)], 1);
        refuse(&module(vec![], 1), "no entry computation");
        refuse(&one(vec![]), "no root");
        refuse(&one(vec![op(1, "add", &[2])]), "no operand 2");
        refuse(&one(vec![op(1, "iota", &[]), op(1, "iota", &[])]), "twice");
        refuse(&one(vec![calling(&[9], op(1, "call", &[]))]), "no computation 9");
        refuse(&one(vec![op(1, "while", &[])]), "needs one operand");
        refuse(&one(vec![proto::Instruction { parameter_number: 3, ..op(1, "parameter", &[]) }]), "parameter numbers");
        refuse(&one(vec![calling(&[1], op(1, "call", &[]))]), "calls itself");
        let ring = |id, next| computation(id, vec![calling(&[next], op(1, "call", &[]))]);
        refuse(&module(vec![ring(1, 2), ring(2, 3), ring(3, 1)], 1), "calls itself");
        let twice = computation(1, vec![op(1, "iota", &[])]);
        refuse(&module(vec![twice.clone(), twice], 1), "twice");
        let payload = proto::Payload { source: Some(proto::PayloadSource::Id(5)) };
        refuse(
            &one(vec![proto::Instruction { backend_config_payload: Some(payload), ..op(1, "iota", &[]) }]),
            "payload",
        );
    }

    #[test]
    fn many_calls_of_one_computation_stay_cheap() {
        // 2^60 executions: counted, never walked.
        let mut computations = vec![computation(0, vec![op(1, "iota", &[])])];
        for id in 1..=60 {
            let call = |at| calling(&[id - 1], op(at, "call", &[]));
            computations.push(computation(id, vec![call(1), call(2)]));
        }
        let module = HloModule::from_hlo_module(&module(computations, 60)).unwrap();
        assert_eq!(module.executions().of(ComputationId(0)), 1 << 60);
        assert!(module.to_string().contains("ENTRY %computation.60"));
    }

    /// A cache of 4096 rows of 128 numbers, of which 8 are written, by an op of its own or by a fusion.
    #[test]
    fn scatters_touch_what_they_update() {
        let (cache, indices, updates) = (4096.0 * 128.0 * 4.0, 8.0 * 4.0, 8.0 * 128.0 * 4.0);
        let text = "%scatter.1 = f32[4096,128]{1,0} scatter(f32[4096,128]{1,0} %cache, s32[8,1]{1,0} %rows, f32[8,128]{1,0} %new), \
                    update_window_dims={1}, to_apply=%set";
        let alone = HloModule::from_instruction_text(text).unwrap();
        let traffic = alone.users().traffic(&alone, alone.find("scatter.1").unwrap());
        assert_eq!((traffic.read.hbm, traffic.written.hbm), (2.0 * updates + indices, updates));

        let array = |dimensions: &[i64], element_type: i32, instruction: proto::Instruction| {
            let shape = proto::Shape { element_type, dimensions: dimensions.to_vec(), ..Default::default() };
            proto::Instruction { shape: Some(shape), ..instruction }
        };
        let parameter = |id: i64, parameter_number: i64, dimensions: &[i64], element_type: i32| {
            let parameter = proto::Instruction { parameter_number, ..op(id, "parameter", &[]) };
            array(dimensions, element_type, parameter)
        };
        let (s32, f32) = (4, 11);
        let fused = |arrays: Vec<proto::Instruction>, of: i64| {
            let numbers = [parameter(2, 1, &[8, 1], s32), parameter(3, 2, &[8, 128], f32)];
            let scatter = array(&[4096, 128], f32, op(4, "scatter", &[of, 2, 3]));
            let inside = computation(1, arrays.into_iter().chain(numbers).chain([scatter]).collect());
            let operands =
                [parameter(11, 0, &[4096, 128], f32), parameter(12, 1, &[8, 1], s32), parameter(13, 2, &[8, 128], f32)];
            let fusion = calling(&[1], array(&[4096, 128], f32, op(14, "fusion", &[11, 12, 13])));
            let entry = computation(2, operands.into_iter().chain([fusion]).collect());
            let module = HloModule::from_hlo_module(&module(vec![inside, entry], 2)).unwrap();
            let traffic = module.users().traffic(&module, module.find("fusion.14").unwrap());
            (traffic.read.hbm, traffic.written.hbm)
        };
        let given = parameter(1, 0, &[4096, 128], f32);
        assert_eq!(fused(vec![given.clone()], 1), (2.0 * updates + indices, updates));
        // What the fusion makes itself is not there yet.
        let made = array(&[4096, 128], f32, op(5, "negate", &[1]));
        assert_eq!(fused(vec![given, made], 5).1, cache);
    }

    /// Loops over shards join two by padding each on another side: of what is padded the slice is read.
    #[test]
    fn a_slice_of_a_padded_array_reads_as_much_of_the_array() {
        let array = |dimensions: &[i64], instruction: proto::Instruction| {
            let shape = proto::Shape { element_type: 11, dimensions: dimensions.to_vec(), ..Default::default() };
            proto::Instruction { shape: Some(shape), ..instruction }
        };
        let parameter = |id: i64| array(&[1, 4096], op(id, "parameter", &[]));
        let inside = computation(
            1,
            vec![
                parameter(1),
                array(&[], op(2, "constant", &[])),
                op(3, "constant", &[]),
                array(&[2, 4096], op(4, "pad", &[1, 2])),
                array(&[2, 256], op(5, "dynamic-slice", &[4, 3, 3])),
            ],
        );
        let fusion = calling(&[1], array(&[2, 256], op(12, "fusion", &[11])));
        let bytes = module(vec![inside, computation(2, vec![parameter(11), fusion])], 2);
        let module = HloModule::from_hlo_module(&bytes).unwrap();
        let traffic = module.users().traffic(&module, module.find("fusion.12").unwrap());
        assert_eq!((traffic.read.hbm, traffic.written.hbm), (256.0 * 4.0, 2.0 * 256.0 * 4.0));
    }

    #[test]
    fn payloads_are_backend_configs() {
        let payload = proto::Payload { source: Some(proto::PayloadSource::Id(0)) };
        let instruction = proto::Instruction { backend_config_payload: Some(payload), ..op(1, "iota", &[]) };
        let proto = proto::Module {
            computations: vec![computation(1, vec![instruction])],
            entry_computation_id: 1,
            payloads: vec![br#"{"window_config":{"estimated_cycles":"12"}}"#.to_vec()],
            ..Default::default()
        };
        let module = HloModule::from_hlo_module(&proto.encode_to_vec()).unwrap();
        assert_eq!(module.instruction(InstructionId(0)).estimated_cycles(), Some(12));
    }

    #[test]
    fn exchange_between_slices() {
        let send = |said: &[(&str, &str)]| {
            let map = said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let send = proto::Instruction {
                is_host_transfer: true,
                frontend_attributes: Some(proto::FrontendAttributes { map }),
                ..op(2, "send", &[1])
            };
            let bytes = module(vec![computation(1, vec![op(1, "parameter", &[]), send])], 1);
            let module = HloModule::from_hlo_module(&bytes).unwrap();
            let collectives = module.collectives(&module.executions());
            (collectives[0].link, collectives[0].sent_bytes)
        };
        let by = |handler| ("_xla_host_transfer_handler_name", handler);
        assert_eq!(send(&[by("xla_megascale_runtime")]), (Link::DataCenter, 4));
        assert_eq!(send(&[by("other")]), (Link::Host, 4));
        // A sum over n slices takes 2 (n - 1) / n of what is summed through the network of each device.
        let exchange = |kind, target| {
            let (kind, target) = (("_xla_megascale_transfer_type", kind), ("_xla_megascale_target", target));
            send(&[by("xla_megascale_runtime"), kind, target]).1
        };
        assert_eq!(exchange("ALL_REDUCE", "{1,2}x{0:255}"), 4);
        assert_eq!(exchange("ALL_REDUCE", "{1,2,3,4}x{0:255}"), 6);
        assert_eq!(exchange("ALL_GATHER", "{1:4}x{0:255}"), 12);
        assert_eq!(exchange("REDUCE_SCATTER", "{1,2:4}x{0}"), 3);
        for target in ["", "{}x{}", "{1}x{0}", "{2:1}x{0}", "{0:18446744073709551615}x{0}", "{a}x{0}", "1,2,3"] {
            assert_eq!(exchange("ALL_REDUCE", target), 4, "{target}");
        }
        assert_eq!(exchange("ONE_TO_ONE", "{1,2,3,4}x{0:255}"), 4);
    }

    #[test]
    fn the_largest_integer_is_no_estimate() {
        let config = br#"{"window_config":{"estimated_cycles":"9223372036854775807"}}"#;
        let instruction = proto::Instruction { backend_config: config.to_vec(), ..op(1, "iota", &[]) };
        let module = HloModule::from_hlo_module(&module(vec![computation(1, vec![instruction])], 1)).unwrap();
        assert_eq!(module.instruction(InstructionId(0)).estimated_cycles(), None);
    }

    #[test]
    fn offloaded_collectives_are_asynchronous() {
        let inner = computation(1, vec![op(1, "parameter", &[]), op(2, "all-gather", &[1])]);
        let wrapper = computation(2, vec![op(1, "parameter", &[]), calling(&[1], op(2, "custom-call", &[1]))]);
        let start = calling(&[2], op(2, "async-start", &[1]));
        let done = calling(&[2], op(3, "async-done", &[2]));
        let entry = computation(3, vec![op(1, "parameter", &[]), start, done]);
        let module = HloModule::from_hlo_module(&module(vec![inner, wrapper, entry], 3)).unwrap();
        let executions = module.executions();
        let [collective] = &module.collectives(&executions)[..] else { panic!("not one collective") };
        assert_eq!((collective.overlap, collective.executions), (Overlap::Asynchronous, 1));
        assert!(module.cost(&executions).unpriced_custom_calls.is_empty());
    }

    #[test]
    fn deep_nesting_is_refused() {
        let mut shape = proto::Shape { element_type: 4, ..Default::default() };
        for _ in 0..150 {
            shape = proto::Shape { element_type: 13, tuple_shapes: vec![shape], ..Default::default() };
        }
        let instruction = proto::Instruction { shape: Some(shape), ..op(1, "iota", &[]) };
        let bytes = module(vec![computation(1, vec![instruction])], 1);
        assert!(matches!(HloModule::from_hlo_module(&bytes), Err(Error::Wire { .. })));
    }
}

/// Damages `bytes` in a few places; the same `seed` always in the same way.
fn mutate(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound.max(1) as u64) as usize
    };
    let mut out = bytes.to_vec();
    for _ in 0..=next(8) {
        let at = next(out.len());
        match next(4) {
            0 => out[at] ^= 1 << next(8),
            1 => out[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)],
            2 => drop(out.remove(at)),
            _ => out.insert(at, next(256) as u8),
        }
    }
    if next(10) == 0 {
        out.truncate(next(out.len()));
    }
    out
}

#[test]
fn damaged_modules_never_panic() {
    let mut read = 0;
    for (name, bytes, _) in COMPILED {
        let bytes = zstd::decompress(bytes, Limits::default()).unwrap();
        for seed in 0..if bytes.len() > 50_000 { 60 } else { 400 } {
            let Ok(module) = HloModule::from_any(&mutate(&bytes, seed)) else { continue };
            read += 1;
            let executions = module.executions();
            let cost = module.cost(&executions);
            assert!(!cost.matmul_flops.is_nan(), "{name} {seed}");
            module.collective_totals(&executions);
            for (id, instruction) in module.instructions() {
                module.stack(id).count();
                if let Some(groups) = &instruction.attributes().replica_groups {
                    groups.expand();
                }
            }
            assert!(module.to_string().len() > 10);
        }
    }
    assert!(read > 50, "only {read} damaged modules could be read at all: the rest of the reader was not tried");
}

#[test]
fn damaged_buffer_assignments_never_panic() {
    let module = HloModule::from_zstd(PHASE_1_HLO).unwrap();
    let bytes = zstd::decompress(PHASE_1_BUFFERS, Limits::default()).unwrap();
    for seed in 0..300 {
        let Ok(buffers) = BufferAssignment::from_bytes(&mutate(&bytes, seed)) else { continue };
        for space in buffers.memory_spaces() {
            buffers.summary(space).total_bytes();
            for (_, placed) in buffers.largest_at_peak(space, 10) {
                buffers.describe(&module, placed.buffer);
            }
        }
    }
    for seed in 0..300 {
        let _ = BufferAssignment::from_zstd(&mutate(PHASE_1_BUFFERS, seed));
        let _ = HloModule::from_zstd(&mutate(PHASE_1_HLO, seed));
    }
}
