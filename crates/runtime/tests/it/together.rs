//! `DeviceManager` and `Distributed`: devices by index, collectives between processes, models placed by a strategy, gradients of
//! a step written for one device.

use std::rc::Rc;
use std::sync::Arc;

use runtime::config::{Config, Mode, Target};
use runtime::{Backend, DeviceArray, DeviceManager, Distributed, Jit, JitSharding, ReadTensor};
use tensor::{DType, Literal};
use trace::{Donate, Leaf, LogicalAxisRules, PartitionSpec, Reduction, Role, Tensor};

use crate::processes::{free_address, together};

fn cpu(devices: usize) -> Config {
    Config::new(Mode::Development).device(Target::Cpu).cpu_devices(devices)
}

fn floats(dims: &[usize], values: &[f32]) -> Arc<Literal> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, dims, bytes).unwrap())
}

fn read(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn devices_are_chosen_by_index() {
    let backend = Backend::auto(&cpu(4)).unwrap();
    let devices = DeviceManager::new(&backend);
    assert_eq!((devices.num_devices(), devices.num_addressable()), (4, 4));
    assert_eq!(devices.kinds().values().sum::<usize>(), 4);
    assert_eq!(devices.device().id, backend.device().id);
    let ids: Vec<i32> = devices.devices().iter().map(|device| device.id).collect();
    assert!(ids.is_sorted() && devices.get(2).unwrap().id == ids[2]);
    assert!(devices.get(4).unwrap_err().to_string().contains("there are 4"));
    assert_eq!(devices.memory(3).unwrap().limit_bytes, devices.get(3).unwrap().memory_bytes);

    // A program on one device that was chosen, and on two in an order that was.
    for chosen in [&[2][..], &[3, 1]] {
        let mesh = devices.mesh_of(&format!("x={}", chosen.len()).parse().unwrap(), chosen).unwrap();
        assert_eq!(mesh.ids(), chosen.iter().map(|&n| i64::from(ids[n])).collect::<Vec<_>>());
        let rows = PartitionSpec::new([&["x"][..]]);
        let on = {
            let rows = rows.clone();
            let of = move |_: Role, _: &Leaf| Ok(rows.clone());
            JitSharding { rules: LogicalAxisRules::new(mesh.mesh().clone()), mesh: mesh.clone(), of: Rc::new(of) }
        };
        let mut jit = Jit::new(&backend, "twice", Donate::Nothing, |x: &Tensor| x * 2.0).on(Some(on));
        let x = backend.send_on(&mesh, &rows, &floats(&[4], &[1.0, 2.0, 3.0, 4.0])).unwrap();
        let y = jit.call(Tensor::from(x)).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
        let y: &DeviceArray = y.device_value().unwrap();
        let on: Vec<i32> = y.buffers().iter().map(|b| b.device().unwrap().description().unwrap().id).collect();
        assert_eq!(on, chosen.iter().map(|&n| ids[n]).collect::<Vec<_>>());
    }
    let refused =
        |text: &str, chosen: &[usize]| devices.mesh_of(&text.parse().unwrap(), chosen).unwrap_err().to_string();
    assert!(refused("x=2", &[1, 1]).contains("twice"));
    assert!(refused("x=2", &[1]).contains("1 are chosen"));
}

/// Sums, extremes, gathers and values from one to all, of what each process has.
#[test]
fn values_of_four_processes() {
    together(4, &free_address(), |id, session| {
        let backend = Backend::in_session(&session, &cpu(2)).unwrap();
        let all = Distributed::new(&backend).unwrap();
        assert_eq!((all.rank(), all.num_processes(), all.world_size()), (id, 4, 8));
        assert_eq!((all.local_devices().len(), all.is_main(), all.is_distributed()), (2, id == 0, true));
        let theirs = all.devices().devices().iter().filter(|d| d.process_index as usize != id).count();
        assert_eq!(theirs, 6);

        let mine = floats(&[2], &[id as f32 + 1.0, -(id as f32)]);
        for (reduction, want) in [
            (Reduction::Sum, [10.0, -6.0]),
            (Reduction::Mean, [2.5, -1.5]),
            (Reduction::Max, [4.0, 0.0]),
            (Reduction::Min, [1.0, -3.0]),
        ] {
            // The second time it is compiled already.
            for _ in 0..2 {
                assert_eq!(read(&all.all_reduce(&mine, reduction).unwrap()), want, "{reduction:?}");
            }
        }
        let count = Arc::new(Literal::new(DType::I64, [], (1i64 << (40 + id)).to_le_bytes().to_vec()).unwrap());
        assert_eq!(all.all_reduce(&count, Reduction::Sum).unwrap().bytes(), (15i64 << 40).to_le_bytes());
        let refused = all.all_reduce(&count, Reduction::Mean).unwrap_err().to_string();
        assert!(refused.contains("convert it first"), "{refused}");

        // To the bit: signed zeros, NaNs with a payload, types of one byte, an odd number of bytes.
        let odd = [0x8000_0000u32, 0x7FC0_1234 + id as u32, 0xFF80_0000];
        let bytes: Vec<u8> = odd.iter().flat_map(|word| word.to_le_bytes()).collect();
        let odd = Arc::new(Literal::new(DType::F32, [3, 1], bytes.clone()).unwrap());
        let gathered = all.all_gather(&odd).unwrap();
        for (process, value) in gathered.iter().enumerate() {
            assert_eq!((value.dims(), value.bytes()[4]), (&[3, 1][..], 0x34 + process as u8));
            assert_eq!(value.bytes()[..4], bytes[..4]);
        }
        let flags = Arc::new(Literal::new(DType::Bool, [5], vec![0, 1, 0, 0, u8::from(id == 2)]).unwrap());
        assert_eq!(all.broadcast(&flags, 2).unwrap().bytes(), [0, 1, 0, 0, 1]);
        assert_eq!(all.broadcast(&odd, 3).unwrap(), gathered[3]);
        assert!(all.broadcast(&odd, 4).unwrap_err().to_string().contains("no process 4"));
        let empty = Arc::new(Literal::new(DType::F32, [0, 3], Vec::new()).unwrap());
        assert_eq!(all.all_gather(&empty).unwrap().len(), 4);
        all.barrier().unwrap();
        session.finish().unwrap();
    });
}

/// Parts of arrays, on the devices of one process and of two.
#[test]
fn parts_of_arrays() {
    let check = |backend: &Backend| {
        let all = Distributed::new(backend).unwrap();
        let mesh = backend.mesh(&"data=2,model=2".parse().unwrap()).unwrap();
        let values: Vec<f32> = (0..8).map(|n| n as f32).collect();
        let split = PartitionSpec::new([&["data"][..], &["model"]]);
        let x = backend.send_on(&mesh, &split, &floats(&[4, 2], &values)).unwrap();
        let host = |array| read(&backend.gather(&array).unwrap());
        let sum = all.all_reduce_parts(&x, "data", Reduction::Sum).unwrap();
        assert_eq!(sum.spec().dims, [2, 2]);
        assert_eq!(host(sum), [4.0, 6.0, 8.0, 10.0]);
        assert_eq!(host(all.all_reduce_parts(&x, ["data", "model"], Reduction::Max).unwrap()), [5.0, 7.0]);
        let last = all.broadcast_part(&x, "data", 1).unwrap();
        assert_eq!(host(last), [4.0, 5.0, 6.0, 7.0]);
        let whole = all.all_gather_parts(&x).unwrap();
        assert!(whole.named_sharding().unwrap().sharding.is_replicated());
        assert_eq!(read(&whole.to_host().unwrap()), values);
        // What is whole on each device counts once for each.
        assert_eq!(read(&all.all_reduce_parts(&whole, "model", Reduction::Sum).unwrap().to_host().unwrap())[3], 6.0);
        let turned = backend.reshard(&x, &PartitionSpec::new([&["model"][..], &["data"]])).unwrap();
        assert_eq!(host(turned), values);
        let refused = all.all_reduce_parts(&x, "rows", Reduction::Sum).unwrap_err().to_string();
        assert!(refused.contains("no axis `rows`"), "{refused}");
        let one = backend.send(&floats(&[1], &[1.0])).unwrap();
        assert!(all.all_reduce_parts(&one, "data", Reduction::Sum).unwrap_err().to_string().contains("one device"));
    };
    check(&Backend::auto(&cpu(4)).unwrap());
    together(2, &free_address(), |_, session| {
        check(&Backend::in_session(&session, &cpu(2)).unwrap());
        session.finish().unwrap();
    });
}

/// Processes that do not ask for the same are told so, and do not hang.
#[test]
fn processes_that_disagree_are_told() {
    let heard = std::sync::Barrier::new(2);
    together(2, &free_address(), |id, session| {
        let backend = Backend::in_session(&session, &cpu(1)).unwrap();
        let all = Distributed::new(&backend).unwrap();
        let mine = floats(&[id + 2], &vec![1.0; id + 2]);
        assert!(all.all_reduce(&mine, Reduction::Sum).is_err());
        heard.wait();
    });
}
