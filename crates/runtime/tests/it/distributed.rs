//! Several processes: what every store does for them; who is gone is named; devices of two processes run one program.

use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use runtime::config::{Config, Mode, Target};
use runtime::distributed::{MultiHostConfig, Secret, Session};
use runtime::{Backend, Jit, JitSharding, TreeArrays};
use tensor::{DType, Literal};
use trace::{Donate, Leaf, LogicalAxisRules, PartitionSpec, Reduction, Role, Tensor, shard_map};

use crate::processes::{PATIENCE, config, free_address, together, together_as};

const CHILD: &str = "TPUBRIDGE_TEST_CHILD_COORDINATOR";

/// Keys, waits, agreement, and leaving together, three times over: what one run leaves does not disturb the next.
pub(crate) fn a_store_serves(config: impl Fn(usize) -> MultiHostConfig + Sync) {
    for _ in 0..3 {
        together_as(3, &config, |id, session| {
            let store = session.store();
            assert_eq!(store.try_get("nothing").unwrap(), None);
            let timeout = store.get("nothing", Duration::from_millis(20)).unwrap_err();
            assert_eq!(timeout.code, pjrt::Code::DeadlineExceeded);
            store.put(&format!("of/{id}"), &[id as u8, 0, 255]).unwrap();
            for other in 0..3 {
                assert_eq!(store.get(&format!("of/{other}"), PATIENCE).unwrap(), [other as u8, 0, 255]);
            }
            store.put("empty", b"").unwrap();
            assert_eq!(store.get("empty", PATIENCE).unwrap(), b"");
            session.barrier("middle", PATIENCE).unwrap();
            session.must_agree("the colour", "red", "paint it").unwrap();
            let said = session.must_agree("the number", &(id / 2).to_string(), "count again");
            assert_eq!(said.is_err(), id == 2, "{said:?}");
            if let Err(error) = said {
                assert!(error.to_string().contains("the number is 0 in process 0 and 1 in process 2"), "{error}");
            }
            assert!(store.put(&"k".repeat(5000), b"x").is_err());
            // The first writer's value stays; to write it again is no error.
            store.put(&format!("of/{id}"), &[id as u8, 0, 255]).unwrap();
            let second = store.put(&format!("of/{}", (id + 1) % 3), b"mine").unwrap_err();
            assert_eq!(second.code, pjrt::Code::AlreadyExists, "{second}");
            assert_eq!(store.try_get(&format!("of/{}", (id + 1) % 3)).unwrap().unwrap()[1..], [0, 255]);
            session.still_member().unwrap();
            assert_eq!(session.found_by_first(|| Ok(session.run_id().into())).unwrap(), session.run_id());
            session.finish().unwrap();
        });
    }
}

/// A process that goes without a word is named to those that wait, and to those that ask later.
pub(crate) fn who_goes_is_named(coordinator: &str) {
    let heard = std::sync::Barrier::new(2);
    together(3, coordinator, |id, session| {
        if id == 1 {
            return drop(session);
        }
        let store = session.store();
        let waiting = store.get("never", PATIENCE).unwrap_err();
        assert!(waiting.message.contains("process 1 is gone"), "{waiting}");
        for later in [store.try_get("x").unwrap_err(), store.put("x", b"").unwrap_err()] {
            assert!(later.message.contains("process 1 is gone"), "{later}");
        }
        // Neither leaves, and is itself gone to the other, before both have heard.
        heard.wait();
        let error = session.finish().unwrap_err();
        assert!(error.to_string().contains("is gone"), "{error}");
        assert!(error.remedy().contains("checkpoint"), "{}", error.remedy());
    });
}

/// Not a test: the process that `who_is_killed_is_named` kills.
#[test]
fn child_process() {
    let Ok(coordinator) = std::env::var(CHILD) else { return };
    let session = Session::join(&config(2, 1, &coordinator)).unwrap();
    let _ = session.store().get("never", PATIENCE);
    drop(session);
}

pub(crate) fn who_is_killed_is_named(coordinator: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "distributed::child_process", "--nocapture"])
        .env(CHILD, coordinator)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let session = Session::join(&config(2, 0, coordinator)).unwrap();
    child.kill().unwrap();
    let error = session.store().get("never", PATIENCE).unwrap_err();
    assert!(error.message.contains("process 1 is gone"), "{error}");
    child.wait().unwrap();
}

#[test]
fn our_coordinator() {
    let address = free_address();
    a_store_serves(|id| config(3, id, &address));
    who_goes_is_named(&free_address());
    who_is_killed_is_named(&free_address());
}

fn cpu(devices: usize) -> Config {
    Config::new(Mode::Development).device(Target::Cpu).cpu_devices(devices)
}

fn numbers(dims: &[usize]) -> Arc<Literal> {
    let count: usize = dims.iter().product();
    let bytes = (0..count).flat_map(|n| ((n % 17) as f32 / 8.0 - 1.0).to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, dims, bytes).unwrap())
}

/// A matmul, and one with an explicit collective, over devices of all processes; the results gathered.
fn run_on(backend: &Backend) -> Vec<Literal> {
    let mesh = backend.mesh(&"data=2,model=2".parse().unwrap()).unwrap();
    let (rows, columns) = (PartitionSpec::new([&["data"][..], &[]]), PartitionSpec::new([&["data"][..], &["model"]]));
    let (left, inner) = (PartitionSpec::new([&["data"][..], &["model"]]), PartitionSpec::new([&["model"][..], &[]]));
    let (ins, outs) = ([left.clone(), inner.clone()], [columns, rows.clone()]);
    let of = move |role: Role, leaf: &Leaf| {
        let n: usize = leaf.path.parse().unwrap();
        Ok(if role == Role::Input { ins[n].clone() } else { outs[n].clone() })
    };
    let f = {
        let (left, inner, rows) = (left.clone(), inner.clone(), rows.clone());
        move |args: &Vec<Tensor>| {
            let inputs = (args[0].clone(), args[1].clone());
            let manual = shard_map(&inputs, &[left.clone(), inner.clone()], std::slice::from_ref(&rows), |(x, w)| {
                x.matmul(w).all_reduce("model", Reduction::Sum)
            });
            vec![args[0].matmul(&args[1]).tanh(), manual]
        }
    };
    let on = JitSharding { rules: LogicalAxisRules::new(mesh.mesh().clone()), mesh: mesh.clone(), of: Rc::new(of) };
    let mut jit = Jit::new(backend, "both", Donate::Nothing, f).on(Some(on));
    let x = backend.send_on(&mesh, &left, &numbers(&[8, 4])).unwrap();
    let w = backend.send_on(&mesh, &inner, &numbers(&[4, 6])).unwrap();
    assert_eq!(backend.gather(&x).unwrap().bytes(), numbers(&[8, 4]).bytes());
    if backend.is_multi_process() {
        assert!(x.to_host().unwrap_err().to_string().contains("other processes"));
    }
    let results = jit.call(vec![Tensor::from(x), Tensor::from(w)]).unwrap();
    results.arrays().unwrap().iter().map(|(_, array)| backend.gather(array).unwrap()).collect()
}

#[test]
fn devices_of_two_processes_run_one_program() {
    let expected = run_on(&Backend::auto(&cpu(4)).unwrap());
    let (address, secret) = (free_address(), Secret::from_text(&"s".repeat(32)).unwrap());
    let with_secret = |id| MultiHostConfig { secret: secret.clone(), ..config(2, id, &address) };
    let results = together_as(2, with_secret, |id, session| {
        let backend = Backend::in_session(&session, &cpu(2)).unwrap();
        assert_eq!((backend.rank(), backend.world_size(), backend.devices().len()), (id, 4, 2));
        assert!(backend.devices().iter().all(|device| device.process_index as usize == id));
        let results = run_on(&backend);
        session.finish().unwrap();
        results
    });
    for result in results {
        for (got, want) in result.iter().zip(&expected) {
            assert_eq!(got.bytes(), want.bytes());
        }
    }
}

#[test]
fn a_launch_ends_when_another_process_goes() {
    let made = std::sync::Barrier::new(2);
    together(2, &free_address(), |id, session| {
        let backend = Backend::in_session(&session, &cpu(2)).unwrap();
        made.wait();
        if id == 1 {
            return;
        }
        let mesh = backend.mesh(&"data=4".parse().unwrap()).unwrap();
        let sharding = PartitionSpec::new([&["data"][..]]);
        let array = backend.send_on(&mesh, &sharding, &numbers(&[8])).unwrap();
        let error = compile::with_causes(&backend.gather(&array).unwrap_err());
        assert!(error.contains("process 1 is gone"), "{error}");
    });
}
