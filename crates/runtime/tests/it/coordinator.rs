//! Our coordinator: who is let in, who is refused and why, and what strangers can do to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use channel::{Channel, MAX_STRANGERS, Secret, Wait};
use pjrt::KeyValueStore;
use runtime::distributed::coordinator::{Connected, Server};
use runtime::distributed::{MultiHostConfig, Session};
use testkit::Random;

use crate::processes::{PATIENCE, config, free_address};

fn secret(of: &str) -> Secret {
    Secret::from_text(&of.repeat(32)).unwrap()
}

/// A first message as a process writes it: of version 2, process 1 of 2.
fn hello(role: u8, run: &str) -> Vec<u8> {
    let mut hello = b"H".to_vec();
    [2u32, 1, 2].iter().for_each(|number| hello.extend(number.to_le_bytes()));
    hello.push(role);
    hello.extend(run.as_bytes());
    hello
}

/// A connection by hand, and what the coordinator answers to its first message.
fn greet(server: &Server, secret: &Secret, hello: &[u8]) -> (Channel, String) {
    let soon = Instant::now() + PATIENCE;
    let stream = TcpStream::connect(server.address()).unwrap();
    let channel = Channel::connect(stream, secret, b"tpubridge coordinator", soon).unwrap();
    channel.send(&[hello], &mut Wait::Until(soon)).unwrap();
    let answer = channel.receive(1000, &mut Wait::Until(soon)).unwrap();
    (channel, String::from_utf8(answer).unwrap())
}

#[test]
fn processes_that_do_not_fit_are_refused() {
    let address = free_address();
    let _server = Server::start(&address, &config(2, 0, &address)).unwrap();
    let _first = Connected::connect(&address, &config(2, 1, &address), None).unwrap();
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
    let of = |id| MultiHostConfig { heartbeat_timeout: timeout, ..config(2, id, &address) };
    let server = Server::start(&address, &of(0)).unwrap();
    let connected = Connected::connect(&address, &of(0), None).unwrap();
    // Joins by hand, and says nothing more, as one that is cut off.
    let (silent, answer) = greet(&server, &Secret::none(), &hello(0, ""));
    assert!(answer.starts_with('O'), "{answer}");
    let error = connected.get("never", PATIENCE).unwrap_err();
    assert!(error.message.contains("process 1 is gone: nothing was heard"), "{error}");
    drop(silent);
}

#[test]
fn another_secret_is_refused_with_what_helps() {
    let address = free_address();
    let with = |secret: Secret| MultiHostConfig { secret, ..config(2, 1, &address) };
    let server = Server::start(&address, &with(secret("a"))).unwrap();
    for other in [secret("b"), Secret::none()] {
        let error = Session::join(&with(other)).unwrap_err();
        assert!(error.to_string().contains("has another secret"), "{error}");
        assert!(error.remedy().contains("tpu config secret"), "{}", error.remedy());
    }
    let deadline = Instant::now() + PATIENCE;
    while server.turned_away() < 2 {
        assert!(Instant::now() < deadline, "{}", server.turned_away());
        std::thread::sleep(Duration::from_millis(5));
    }
    // Nothing that they did is in the way of the one that knows it.
    Connected::connect(&address, &with(secret("a")), None).unwrap();
}

#[test]
fn without_a_secret_it_stays_on_the_machine() {
    let join = |id: usize, at: &str, listen: Option<&str>| {
        let listen_address = listen.map(|ip| ip.parse().unwrap());
        Session::join(&MultiHostConfig { listen_address, ..config(2, id, at) }).unwrap_err().to_string()
    };
    for message in [
        join(0, "192.0.2.1:4711", None),
        join(1, "192.0.2.1:4711", None),
        join(0, "0.0.0.0:0", None),
        join(0, "127.0.0.1:0", Some("0.0.0.0")),
    ] {
        assert!(message.contains("there is no secret: `tpu config secret > FILE`"), "{message}");
    }
    // With one, an address of another machine is not taken for "all addresses".
    let config = MultiHostConfig { secret: secret("a"), ..config(2, 0, "192.0.2.1:4711") };
    let message = Server::start("192.0.2.1:4711", &config).unwrap_err().to_string();
    assert!(message.contains("not an address of this machine; TPUBRIDGE_LISTEN_ADDRESS"), "{message}");
    let config = MultiHostConfig { listen_address: Some("127.0.0.1".parse().unwrap()), ..config };
    let server = Server::start("192.0.2.1:0", &config).unwrap();
    assert!(server.address().ip().is_loopback());
}

#[test]
fn a_process_of_an_earlier_run_is_refused() {
    let address = free_address();
    let of = |run: Option<&str>| MultiHostConfig { run_id: run.map(String::from), ..config(2, 1, &address) };
    let server = Server::start(&address, &of(Some("today"))).unwrap();
    let message = Session::join(&of(Some("yesterday"))).unwrap_err().to_string();
    assert!(message.contains("process 1 belongs to run yesterday, and this is run today"), "{message}");
    let process = Connected::connect(&address, &of(None), None).unwrap();
    process.put("k", b"v").unwrap();
    // It was told its run when it joined; requests of another are refused, and those of none.
    let stale = greet(&server, &Secret::none(), &hello(1, "yesterday")).1;
    assert!(stale.contains("it is of an earlier run"), "{stale}");
    let without = greet(&server, &Secret::none(), &hello(1, "")).1;
    assert!(without.contains("without a run"), "{without}");
    assert_eq!(greet(&server, &Secret::none(), &hello(1, "today")).1, "Otoday");
}

#[test]
fn a_process_that_was_replaced_notices() {
    let address = free_address();
    let timeout = Duration::from_secs(3);
    let of = |id| MultiHostConfig { heartbeat_timeout: timeout, ..config(2, id, &address) };
    let server = Server::start(&address, &of(0)).unwrap();
    let old = Connected::connect(&address, &of(1), None).unwrap();
    drop(server);
    // The next run, at the same address.
    let _server = Server::start(&address, &of(0)).unwrap();
    let _new = Connected::connect(&address, &of(1), None).unwrap();
    let error = old.put("k", b"of the past").unwrap_err();
    assert!(error.message.contains("is gone"), "{error}");
    assert_eq!(_new.try_get("k").unwrap(), None);
}

#[test]
fn strangers_do_not_disturb_the_coordinator() {
    let address = free_address();
    let config = MultiHostConfig { secret: secret("a"), ..config(2, 0, &address) };
    let server = Server::start(&address, &config).unwrap();
    let mut random = Random::new(3);
    let mut silent = Vec::new();
    for n in 0..3 * MAX_STRANGERS {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.below(256) as u8).collect();
        if n % 3 == 0 {
            // A good beginning, and then a length that would fill the memory.
            bytes.splice(0..0, b"tpuchan1".iter().copied().chain([7; 32]).chain(u32::MAX.to_le_bytes()));
        }
        let _ = stream.write_all(&bytes);
        if n % 4 == 1 {
            silent.push(stream);
            continue;
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 100);
    }
    let connected = Connected::connect(&address, &config, None).unwrap();
    connected.put("k", b"v").unwrap();
    assert_eq!(connected.get("k", PATIENCE).unwrap(), b"v");
}
