//! A listener that lets in who knows the secret: strangers have a small budget of their own and cannot keep members out.
//!
//! Until its first message was opened, a connection belongs to a stranger. There are [`MAX_STRANGERS`] of them at a time; each
//! has [`HANDSHAKE_TIMEOUT`] for everything and sends a few hundred bytes at most. When one more comes, the oldest of the address
//! that has the most of them gives way. So whoever opens many connections loses his own, and a member that answers at once is
//! let in.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::connection::{Channel, Wait};
use crate::secret::Secret;

/// Connections at most that have not proved anything yet.
pub const MAX_STRANGERS: usize = 32;
/// How long a connection has to prove that it knows the secret, all in all.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the first message at most.
pub const MAX_FIRST_BYTES: usize = 256;
/// How often the listener is asked for new connections.
const ACCEPT_EVERY: Duration = Duration::from_millis(5);

/// A listener in a thread of its own. Dropped, it lets nobody in any more; members that are in stay.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    secret: Secret,
    context: Vec<u8>,
    strangers: Mutex<Vec<Stranger>>,
    turned_away: AtomicUsize,
    stop: AtomicBool,
}

#[derive(Debug)]
struct Stranger {
    number: u64,
    from: IpAddr,
    stream: TcpStream,
}

impl Gate {
    /// Lets in whoever knows the secret, for this context. `member` is run in a thread of the connection's own, with the first
    /// message.
    pub fn open(
        listener: TcpListener,
        secret: &Secret,
        context: &[u8],
        member: impl Fn(Channel, Vec<u8>) + Send + Sync + 'static,
    ) -> io::Result<Gate> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            secret: secret.clone(),
            context: context.to_vec(),
            strangers: Mutex::default(),
            turned_away: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let (theirs, member) = (shared.clone(), Arc::new(member));
        let thread = std::thread::Builder::new().name("tpubridge-gate".into());
        let accepting = thread.spawn(move || {
            let mut number = 0;
            while !theirs.stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, from)) => {
                        number += 1;
                        theirs.examine(number, stream, from.ip(), &member);
                    }
                    Err(_) => std::thread::sleep(ACCEPT_EVERY),
                }
            }
        })?;
        Ok(Gate { shared, address, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that proved nothing, so far.
    pub fn turned_away(&self) -> usize {
        self.shared.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for stranger in self.shared.lock().drain(..) {
            let _ = stranger.stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Stranger>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that finds out whether a connection is a member's.
    fn examine(
        self: &Arc<Shared>,
        number: u64,
        stream: TcpStream,
        from: IpAddr,
        member: &Arc<impl Fn(Channel, Vec<u8>) + Send + Sync + 'static>,
    ) {
        let Ok(kept) = stream.try_clone() else { return };
        {
            let mut strangers = self.lock();
            strangers.push(Stranger { number, from, stream: kept });
            if strangers.len() > MAX_STRANGERS {
                let place = giving_way(&strangers);
                let gives_way = strangers.remove(place);
                let _ = gives_way.stream.shutdown(Shutdown::Both);
            }
        }
        let (theirs, member) = (self.clone(), member.clone());
        let thread = std::thread::Builder::new().name("tpubridge-gate".into());
        let started = thread.spawn(move || {
            let proved = theirs.prove(stream);
            theirs.lock().retain(|stranger| stranger.number != number);
            match proved {
                Some((channel, first)) => member(channel, first),
                None => drop(theirs.turned_away.fetch_add(1, Ordering::Relaxed)),
            }
        });
        if started.is_err() {
            self.lock().retain(|stranger| stranger.number != number);
        }
    }

    fn prove(&self, stream: TcpStream) -> Option<(Channel, Vec<u8>)> {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let channel = Channel::accept(stream, &self.secret, &self.context, deadline).ok()?;
        let first = channel.receive(MAX_FIRST_BYTES, &mut Wait::Until(deadline)).ok()?;
        Some((channel, first))
    }
}

/// The place of the stranger that gives way: the oldest of the address that has the most. They are in order of age.
fn giving_way(strangers: &[Stranger]) -> usize {
    let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
    strangers.iter().for_each(|stranger| *of_address.entry(stranger.from).or_default() += 1);
    let most = of_address.values().copied().max().unwrap_or_default();
    strangers.iter().position(|stranger| of_address.get(&stranger.from) == Some(&most)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn secret() -> Secret {
        Secret::from_text(&"s".repeat(32)).unwrap()
    }

    #[test]
    fn members_come_in_however_many_strangers_there_are() {
        let (came, members) = mpsc::channel();
        let came = Mutex::new(came);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Gate::open(listener, &secret(), b"test", move |channel, first| {
            came.lock().unwrap().send((channel, first)).unwrap();
        });
        let gate = gate.unwrap();
        // More than there is room for, from the member's own address, and none says a word to the end.
        let strangers: Vec<TcpStream> = (0..3 * MAX_STRANGERS)
            .map(|n| {
                let mut stream = TcpStream::connect(gate.address()).unwrap();
                stream.write_all(&b"tpuchan1"[..n % 9]).unwrap();
                stream
            })
            .collect();
        for word in [b"one", b"two"] {
            let stream = TcpStream::connect(gate.address()).unwrap();
            let channel = Channel::connect(stream, &secret(), b"test", Instant::now() + PATIENCE).unwrap();
            channel.send(&[word], &mut Wait::Until(Instant::now() + PATIENCE)).unwrap();
            assert_eq!(members.recv_timeout(PATIENCE).unwrap().1, word);
        }
        assert!(gate.shared.lock().len() <= MAX_STRANGERS);
        // The first to come gave way; what was sent to them is nothing.
        let mut answer = Vec::new();
        let _ = (&strangers[0]).read_to_end(&mut answer);
        assert_eq!(answer, b"");
        // The end does not wait for the rest.
        drop(gate);
    }

    #[test]
    fn the_address_with_the_most_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stranger = |number: u64, from: &str| Stranger {
            number,
            from: from.parse().unwrap(),
            stream: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
        };
        let mut strangers = vec![stranger(0, "10.0.0.1"), stranger(1, "10.0.0.2"), stranger(2, "10.0.0.2")];
        assert_eq!(giving_way(&strangers), 1);
        strangers.remove(1);
        assert_eq!(giving_way(&strangers), 0);
    }
}
