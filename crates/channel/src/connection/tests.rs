//! Connections that work, and those that somebody disturbs.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
const CONTEXT: &[u8] = b"a test";

fn secret(of: char) -> Secret {
    Secret::from_text(&of.to_string().repeat(40)).unwrap()
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

type Sides = (Result<Channel, HandshakeError>, Result<Channel, HandshakeError>);

/// Both sides of a connection: the caller's and the listener's.
fn sides(caller: (&Secret, &[u8]), listener: (&Secret, &[u8])) -> Sides {
    let (socket, address) = listen();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| Channel::accept(socket.accept().unwrap().0, listener.0, listener.1, soon()));
        let connected = Channel::connect(TcpStream::connect(address).unwrap(), caller.0, caller.1, soon());
        (connected, accepting.join().unwrap())
    })
}

#[test]
fn messages_of_all_sizes_arrive() {
    let (caller, listener) = sides((&secret('a'), CONTEXT), (&secret('a'), CONTEXT));
    let (caller, listener) = (caller.unwrap(), listener.unwrap());
    let pattern = |length: usize| -> Vec<u8> { (0..length).map(|n| (n * 7 + n / 251) as u8).collect() };
    for length in [0, 1, 4096, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 3 * RECORD_BYTES] {
        let message = pattern(length);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (head, tail) = message.split_at(length / 3);
                caller.send(&[head, &[], tail], &mut Wait::Until(soon())).unwrap();
            });
            assert_eq!(listener.receive(length, &mut Wait::Until(soon())).unwrap(), message);
        });
    }
    // As a stream: message boundaries do not matter.
    let message = pattern(2 * RECORD_BYTES + 5);
    thread::scope(|scope| {
        scope.spawn(|| {
            listener.send(&[&message[..9]], &mut Wait::Until(soon())).unwrap();
            listener.send(&[&message[9..]], &mut Wait::Until(soon())).unwrap();
        });
        let mut got = vec![0; message.len()];
        let (first, second) = got.split_at_mut(RECORD_BYTES + 1);
        caller.read(first, &mut Wait::Until(soon())).unwrap();
        caller.read(second, &mut Wait::Until(soon())).unwrap();
        assert_eq!(got, message);
    });
    // One byte more than is allowed.
    caller.send(&[b"12345"], &mut Wait::Until(soon())).unwrap();
    let error = listener.receive(4, &mut Wait::Until(soon())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn growth_is_counted_and_can_be_refused() {
    let (caller, listener) = sides((&Secret::none(), CONTEXT), (&Secret::none(), CONTEXT));
    let (caller, listener) = (caller.unwrap(), listener.unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            caller.send(&[&vec![1; 4 * RECORD_BYTES]], &mut Wait::Until(soon())).unwrap();
            caller.send(&[b"next"], &mut Wait::Until(soon())).unwrap();
        });
        let mut counted = 0;
        let error = listener.receive_counted(usize::MAX, &mut Wait::Until(soon()), &mut |bytes| {
            counted += bytes;
            counted <= 2 * RECORD_BYTES
        });
        assert_eq!((error.unwrap_err().kind(), counted), (ErrorKind::OutOfMemory, 3 * RECORD_BYTES));
        assert_eq!(listener.receive(9, &mut Wait::Until(soon())).unwrap(), b"next");
    });
}

#[test]
fn another_secret_or_purpose_is_noticed_by_both() {
    for (mine, theirs, purpose) in [
        (secret('a'), secret('b'), CONTEXT),
        (secret('a'), Secret::none(), CONTEXT),
        (secret('a'), secret('a'), b"other"),
    ] {
        let (caller, listener) = sides((&mine, CONTEXT), (&theirs, purpose));
        assert!(matches!(caller, Err(HandshakeError::WrongSecret)), "{caller:?}");
        // The listener waits for a proof; the caller ended the connection instead.
        assert!(listener.unwrap().receive(100, &mut Wait::Until(soon())).is_err());
    }
    // A caller that goes on without the secret.
    let (socket, address) = listen();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let channel = Channel::accept(socket.accept().unwrap().0, &secret('a'), CONTEXT, soon()).unwrap();
            channel.receive(100, &mut Wait::Until(soon())).unwrap_err().kind()
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(MAGIC).unwrap();
        stream.write_all(&Ephemeral::new().unwrap().public).unwrap();
        stream.write_all(&(8u32 << 1).to_le_bytes()).unwrap();
        stream.write_all(&[7; 8 + TAG_BYTES]).unwrap();
        assert_eq!(accepting.join().unwrap(), ErrorKind::InvalidData);
    });
}

#[test]
fn a_caller_that_sends_a_byte_now_and_then_is_not_waited_for() {
    let (socket, address) = listen();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let deadline = Instant::now() + Duration::from_millis(200);
            Channel::accept(socket.accept().unwrap().0, &secret('a'), CONTEXT, deadline)
        });
        let mut stream = TcpStream::connect(address).unwrap();
        let hello = [MAGIC.as_slice(), &Ephemeral::new().unwrap().public].concat();
        // All of it would be a good beginning.
        for byte in hello {
            thread::sleep(Duration::from_millis(20));
            if stream.write_all(&[byte]).is_err() {
                break;
            }
        }
        let error = accepting.join().unwrap();
        assert!(matches!(&error, Err(HandshakeError::Io(error)) if is_wait(error)), "{error:?}");
    });
}

#[test]
fn strangers_get_nothing() {
    let (socket, address) = listen();
    // A public key of small order, noise, a request of another protocol, and silence.
    let small = [MAGIC.as_slice(), &[0; 32]].concat();
    for bytes in
        [&small[..], b"GET / HTTP/1.1\r\n\r\n", b"tpuchan", b"tpuchan2aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", b""]
    {
        thread::scope(|scope| {
            let accepting = scope.spawn(|| Channel::accept(socket.accept().unwrap().0, &secret('a'), CONTEXT, soon()));
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes).unwrap();
            // The listener may have hung up already.
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, b"");
            assert!(accepting.join().unwrap().is_err());
        });
    }
}

/// What a third party between the two does to the caller's record of a number.
type Meddling = fn(number: usize, record: Vec<u8>, seen: &[Vec<u8>]) -> Vec<u8>;

/// What the listener receives of three messages, with somebody in between.
fn meddled(meddle: Meddling) -> Vec<io::Result<Vec<u8>>> {
    let (socket, address) = listen();
    let (between, at) = listen();
    thread::scope(|scope| {
        let listening = scope.spawn(|| {
            let channel = Channel::accept(socket.accept().unwrap().0, &secret('a'), CONTEXT, soon()).unwrap();
            (0..3).map(|_| channel.receive(100, &mut Wait::Until(soon()))).collect::<Vec<_>>()
        });
        scope.spawn(move || {
            let (caller, listener) = (between.accept().unwrap().0, TcpStream::connect(address).unwrap());
            let pass = |mut from: &TcpStream, mut to: &TcpStream, bytes: usize| {
                let mut buffer = vec![0; bytes];
                from.read_exact(&mut buffer).unwrap();
                to.write_all(&buffer).unwrap();
            };
            pass(&caller, &listener, MAX_HANDSHAKE_BYTES);
            pass(&listener, &caller, PUBLIC_BYTES + HEADER_BYTES + TAG_BYTES);
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for number in 0..3 {
                let mut record = vec![0; HEADER_BYTES + 4 + TAG_BYTES];
                (&caller).read_exact(&mut record).unwrap();
                let changed = meddle(number, record.clone(), &seen);
                seen.push(record);
                if (&listener).write_all(&changed).is_err() {
                    return;
                }
            }
            // So that the listener does not wait for what was not passed on.
            let _ = listener.shutdown(Shutdown::Write);
        });
        let channel = Channel::connect(TcpStream::connect(at).unwrap(), &secret('a'), CONTEXT, soon()).unwrap();
        for message in [b"once", b"then", b"last"] {
            channel.send(&[message], &mut Wait::Until(soon())).unwrap();
        }
        listening.join().unwrap()
    })
}

#[test]
fn what_somebody_changed_on_the_way_is_not_taken() {
    let kinds = |meddle: Meddling| -> Vec<Option<ErrorKind>> {
        meddled(meddle).iter().map(|got| got.as_ref().err().map(io::Error::kind)).collect()
    };
    let bad = Some(ErrorKind::InvalidData);
    assert_eq!(kinds(|_, record, _| record), [None; 3]);
    // A bit of the text, of the seal, of the length.
    for place in [HEADER_BYTES, HEADER_BYTES + 4, 0] {
        let flip: Meddling = match place {
            0 => |n, mut record, _| {
                record[0] ^= u8::from(n == 1);
                record
            },
            HEADER_BYTES => |n, mut record, _| {
                record[HEADER_BYTES] ^= u8::from(n == 1);
                record
            },
            _ => |n, mut record, _| {
                record[HEADER_BYTES + 4] ^= u8::from(n == 1);
                record
            },
        };
        assert_eq!(kinds(flip)[..2], [None, bad], "place {place}");
    }
    // A record again, and one left out.
    assert_eq!(kinds(|n, record, seen| if n == 1 { seen[0].clone() } else { record })[..2], [None, bad]);
    assert_eq!(kinds(|n, record, _| if n == 1 { Vec::new() } else { record })[..2], [None, bad]);
}
