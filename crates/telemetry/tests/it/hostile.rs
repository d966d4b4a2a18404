//! Peers that say something else than gRPC, too much, too little, or nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use telemetry::grpc::{GrpcChannel, GrpcCode, GrpcLimits, GrpcServer, block_on};

use crate::grpc::{Echo, PATIENCE, echo, loopback};

fn quick() -> GrpcLimits {
    let short = Duration::from_millis(200);
    GrpcLimits { connect: short, request: short, send: short, ping: short, ..GrpcLimits::default() }
}

/// Sends bytes and returns what comes back until the server closes or is silent for longer than it ever needs.
fn say(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// What our client sends for one call, byte for byte.
fn conversation() -> Vec<u8> {
    let listener = TcpListener::bind(loopback()).unwrap();
    let address = listener.local_addr().unwrap();
    let recorder = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        said
    });
    let _ = block_on(async {
        let channel = GrpcChannel::connect(&address.to_string(), &GrpcLimits::default()).await.unwrap();
        channel.unary("/test.Echo/Echo", b"hello", Duration::from_millis(600)).await
    });
    recorder.join().unwrap()
}

#[test]
fn a_server_survives_what_is_no_grpc() {
    let (service, _hears) = Echo::new();
    let server = GrpcServer::start(loopback(), service, quick()).unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let with_preface = |rest: &[u8]| [preface, rest].concat();
    let said: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
        vec![0; 100_000],
        vec![0xff; 100_000],
        preface[..10].to_vec(),
        preface.to_vec(),
        // A frame of 16 MiB, settings of a wrong size, a stream of zero, continuation without headers.
        with_preface(&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]),
        with_preface(&[0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]),
        with_preface(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 1]),
        with_preface(&[0, 0, 1, 9, 4, 0, 0, 0, 1, 0x82]),
        // Pings without end.
        with_preface(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].repeat(20_000)),
    ];
    for bytes in &said {
        say(server.address(), bytes);
    }
    assert_eq!(echo(server.address(), b"still here", &GrpcLimits::default()), Ok(b"still here".to_vec()));
}

#[test]
fn a_server_survives_mutations_of_a_call() {
    let (service, _hears) = Echo::new();
    let server = GrpcServer::start(loopback(), service, quick()).unwrap();
    let said = conversation();
    let as_it_is = say(server.address(), &said);
    assert!(as_it_is.windows(5).any(|window| window == b"hello"), "{as_it_is:?}");
    // xorshift: the same mutations each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..300 {
        let mut bytes = said.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => drop(bytes.splice(at..at, said[random(said.len())..].iter().copied())),
            }
        }
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(&bytes);
    }
    // Connections of the loop may still be open, up to the limit.
    let mut answer = echo(server.address(), b"still here", &GrpcLimits::default());
    while answer.is_err() {
        std::thread::sleep(Duration::from_millis(20));
        answer = echo(server.address(), b"still here", &GrpcLimits::default());
    }
    assert_eq!(answer, Ok(b"still here".to_vec()));
}

#[test]
fn connections_over_the_limit_are_closed_and_silent_ones_make_room() {
    let (service, _hears) = Echo::new();
    let server = GrpcServer::start(loopback(), service, GrpcLimits { connections: 2, ..quick() }).unwrap();
    let _silent = [TcpStream::connect(server.address()).unwrap(), TcpStream::connect(server.address()).unwrap()];
    let mut third = TcpStream::connect(server.address()).unwrap();
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    // Closed by the server, which said nothing: an end, or a reset.
    assert!(!matches!(third.read(&mut [0; 16]), Ok(1..)));
    let mut answer = echo(server.address(), b"room", &GrpcLimits::default());
    while answer.is_err() {
        std::thread::sleep(Duration::from_millis(20));
        answer = echo(server.address(), b"room", &GrpcLimits::default());
    }
    assert_eq!(answer, Ok(b"room".to_vec()));
}

#[test]
fn a_client_says_what_is_wrong_with_a_server() {
    let answers: [&[u8]; 4] = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[0xff; 1000],
        // Settings as they should be, then nothing.
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let listener = TcpListener::bind(loopback()).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(answer);
            if !answer.is_empty() {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let outcome = block_on(async {
            let channel = GrpcChannel::connect(&address.to_string(), &GrpcLimits::default()).await?;
            channel.unary("/test.Echo/Echo", b"hello", Duration::from_millis(200)).await
        });
        let status = outcome.unwrap().unwrap_err();
        let expected: &[GrpcCode] = if n == 3 {
            &[GrpcCode::DeadlineExceeded]
        } else {
            &[GrpcCode::Unavailable, GrpcCode::Internal, GrpcCode::ResourceExhausted]
        };
        assert!(expected.contains(&status.code), "{n}: {status}");
        assert!(status.message.contains(&address.to_string()), "{n}: {status}");
        server.join().unwrap();
    }
    // Nobody listens.
    let free = TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    let status = echo(free, b"", &GrpcLimits::default()).unwrap_err();
    assert_eq!(status.code, GrpcCode::Unavailable);
    assert!(status.message.contains(&format!("{free} cannot be reached")), "{status}");
}
