//! Several processes: the stores they meet in, ours and etcd; who is gone is named; devices of two processes run one program.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use runtime::config::{Config, Mode, Target};
use runtime::distributed::coordinator::Server;
use runtime::distributed::{MultiHostConfig, Session};
use runtime::{Backend, Jit, JitSharding, TreeArrays};
use tensor::{DType, Literal};
use testkit::{Needed, Random, require};
use trace::{Donate, Leaf, LogicalAxisRules, PartitionSpec, Reduction, Role, Tensor, shard_map};

use crate::processes::{PATIENCE, config, free_address, together};

const CHILD: &str = "TPUBRIDGE_TEST_CHILD_COORDINATOR";

/// An etcd server of the test's own.
struct EtcdServer {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl EtcdServer {
    fn start(program: &Path) -> EtcdServer {
        let folder = tempfile::tempdir().unwrap();
        let (address, peers) = (free_address(), free_address());
        let (client_url, peer_url) = (format!("http://{address}"), format!("http://{peers}"));
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        EtcdServer { child, address, _folder: folder }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keys, waits, agreement, and leaving together, three times over: what one run leaves does not disturb the next.
fn a_store_serves(coordinator: &str) {
    for _ in 0..3 {
        together(3, coordinator, |id, session| {
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
            session.finish().unwrap();
        });
    }
}

/// A process that goes without a word is named to those that wait, and to those that ask later.
fn who_goes_is_named(coordinator: &str) {
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

fn who_is_killed_is_named(coordinator: &str) {
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
    a_store_serves(&free_address());
    who_goes_is_named(&free_address());
    who_is_killed_is_named(&free_address());
}

#[test]
fn etcd() {
    let Some(program) = require("etcd", Needed::Etcd) else { return };
    let server = EtcdServer::start(&program);
    a_store_serves(&format!("etcd://{}/stores", server.address));
    who_goes_is_named(&format!("etcd://{}/gone", server.address));
    who_is_killed_is_named(&format!("etcd://{}/killed", server.address));
    // The same job again, while the lease of the process that was killed may still run.
    a_store_serves(&format!("etcd://{}/killed", server.address));
}

#[test]
fn processes_that_do_not_fit_are_refused() {
    let address = free_address();
    let _server = Server::start(&address, 2, Duration::from_secs(5)).unwrap();
    let _first = {
        let (address, join) = (address.clone(), Duration::from_secs(5));
        runtime::distributed::coordinator::Connected::connect(&address, 1, 2, join, join, None).unwrap()
    };
    let refused = |id: usize, processes: usize, part: &str| {
        let message = Session::join(&config(processes, id, &address)).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    refused(1, 2, "there is a process 1 already");
    refused(1, 3, "told of 3 processes, process 0 of 2");
    refused(2, 4, "told of 4 processes");
    let nobody = MultiHostConfig { join_timeout: Duration::from_millis(200), ..config(2, 1, &free_address()) };
    let message = Session::join(&nobody).unwrap_err().to_string();
    assert!(message.contains("is process 0 running"), "{message}");
}

#[test]
fn a_silent_process_is_gone_too() {
    let address = free_address();
    let timeout = Duration::from_secs(3);
    let _server = Server::start(&address, 2, timeout).unwrap();
    let connected =
        runtime::distributed::coordinator::Connected::connect(&address, 0, 2, timeout, PATIENCE, None).unwrap();
    // Joins by hand, and says nothing more, as one that is cut off.
    let mut silent = TcpStream::connect(&address).unwrap();
    let mut hello = b"Htpucoord".to_vec();
    [1u32, 1, 2].iter().for_each(|number| hello.extend(number.to_le_bytes()));
    hello.push(0);
    silent.write_all(&(hello.len() as u32).to_le_bytes()).unwrap();
    silent.write_all(&hello).unwrap();
    let error = pjrt::KeyValueStore::get(&connected, "never", PATIENCE).unwrap_err();
    assert!(error.message.contains("process 1 is gone: nothing was heard"), "{error}");
    drop(silent);
}

#[test]
fn strangers_do_not_disturb_the_coordinator() {
    let address = free_address();
    let server = Server::start(&address, 1, Duration::from_secs(5)).unwrap();
    let mut random = Random::new(3);
    for n in 0..60 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.below(256) as u8).collect();
        if n % 3 == 0 {
            // A length that would fill the memory.
            bytes.splice(0..0, u32::MAX.to_le_bytes());
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 200);
    }
    let timeout = Duration::from_secs(5);
    let connected =
        runtime::distributed::coordinator::Connected::connect(&address, 0, 1, timeout, timeout, None).unwrap();
    pjrt::KeyValueStore::put(&connected, "k", b"v").unwrap();
    assert_eq!(pjrt::KeyValueStore::get(&connected, "k", timeout).unwrap(), b"v");
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
    let results = together(2, &free_address(), |id, session| {
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
