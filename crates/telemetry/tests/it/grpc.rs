//! Calls between our client and our server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use telemetry::grpc::{
    Answering, GrpcCall, GrpcChannel, GrpcCode, GrpcLimits, GrpcServer, GrpcStatus, Reply, Service, block_on, ready,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Says when a call began, and when it was dropped.
struct Told(mpsc::Sender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// Echoes, counts, fails, or waits for ever.
pub(crate) struct Echo {
    told: Mutex<mpsc::Sender<&'static str>>,
}

impl Echo {
    pub(crate) fn new() -> (Arc<Echo>, mpsc::Receiver<&'static str>) {
        let (told, hears) = mpsc::channel();
        (Arc::new(Echo { told: Mutex::new(told) }), hears)
    }
}

impl Service for Echo {
    fn call(&self, call: GrpcCall) -> Answering {
        match call.method.as_str() {
            "/test.Echo/Echo" => ready(Ok(Reply::One(call.message))),
            "/test.Echo/Fail" => ready(Err(GrpcStatus::new(GrpcCode::FailedPrecondition, "größer\nthan 100 %"))),
            "/test.Echo/Count" => {
                let (sender, reply) = Reply::stream(1);
                // A sender on another thread waits for the caller to read.
                std::thread::spawn(move || {
                    for n in 0..call.message.len() as u8 {
                        if sender.blocking_send(Ok(vec![n])).is_err() {
                            return;
                        }
                    }
                    let _ = sender.blocking_send(Err(GrpcStatus::new(GrpcCode::OutOfRange, "no more")));
                });
                ready(Ok(reply))
            }
            "/test.Echo/Wait" => {
                let told = Told(self.told.lock().unwrap().clone());
                Box::pin(async move {
                    let _ = told.0.send("began");
                    std::future::pending::<()>().await;
                    drop(told);
                    Err(GrpcStatus::unimplemented("/test.Echo/Wait"))
                })
            }
            other => ready(Err(GrpcStatus::unimplemented(other))),
        }
    }
}

pub(crate) fn echo(address: SocketAddr, message: &[u8], limits: &GrpcLimits) -> Result<Vec<u8>, GrpcStatus> {
    block_on(async {
        let channel = GrpcChannel::connect(&address.to_string(), limits).await?;
        channel.unary("/test.Echo/Echo", message, PATIENCE).await
    })?
}

#[test]
fn calls_are_answered() {
    let (service, _hears) = Echo::new();
    let limits = GrpcLimits { message_bytes: 3 << 20, ..GrpcLimits::default() };
    let server = GrpcServer::start(loopback(), service, limits.clone()).unwrap();
    block_on(async {
        let channel = GrpcChannel::connect(&server.address().to_string(), &limits).await.unwrap();
        // More than a window of HTTP/2, both ways.
        for size in [0, 1, 70_000, 3 << 20] {
            let message: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            assert_eq!(channel.unary("/test.Echo/Echo", &message, PATIENCE).await.as_ref(), Ok(&message));
        }
        let mut counted = channel.streaming("/test.Echo/Count", &[0; 100], PATIENCE).await.unwrap();
        for n in 0..100 {
            assert_eq!(counted.next().await, Ok(Some(vec![n])));
        }
        assert_eq!(counted.next().await, Err(GrpcStatus::new(GrpcCode::OutOfRange, "no more")));
        assert_eq!(counted.next().await, Ok(None));
        let failed = channel.unary("/test.Echo/Fail", b"", PATIENCE).await;
        assert_eq!(failed, Err(GrpcStatus::new(GrpcCode::FailedPrecondition, "größer\nthan 100 %")));
        let unknown = channel.unary("/test.Echo/Other", b"", PATIENCE).await.unwrap_err();
        assert_eq!(unknown.code, GrpcCode::Unimplemented);
        assert!(unknown.message.contains("/test.Echo/Other"), "{unknown}");
    })
    .unwrap();
}

#[test]
fn messages_over_the_limit_are_refused_on_both_sides() {
    let (service, _hears) = Echo::new();
    let small = GrpcLimits { message_bytes: 1000, ..GrpcLimits::default() };
    let server = GrpcServer::start(loopback(), service.clone(), small.clone()).unwrap();
    let refused = echo(server.address(), &[0; 1001], &GrpcLimits::default()).unwrap_err();
    assert_eq!(refused.code, GrpcCode::ResourceExhausted, "{refused}");
    assert!(refused.message.contains("1001 bytes, more than 1000"), "{refused}");
    assert!(echo(server.address(), &[0; 1000], &GrpcLimits::default()).is_ok());
    let server = GrpcServer::start(loopback(), service, GrpcLimits::default()).unwrap();
    let refused = echo(server.address(), &[0; 1001], &small).unwrap_err();
    assert_eq!(refused.code, GrpcCode::ResourceExhausted, "{refused}");
}

#[test]
fn a_caller_that_gives_up_or_vanishes_ends_its_call() {
    let (service, hears) = Echo::new();
    let server = GrpcServer::start(loopback(), service, GrpcLimits::default()).unwrap();
    let address = server.address().to_string();
    // The deadline of the caller, which the server knows too.
    let late = block_on(async {
        let channel = GrpcChannel::connect(&address, &GrpcLimits::default()).await.unwrap();
        channel.unary("/test.Echo/Wait", b"", Duration::from_millis(30)).await
    });
    assert_eq!(late.unwrap().unwrap_err().code, GrpcCode::DeadlineExceeded);
    assert_eq!((hears.recv_timeout(PATIENCE), hears.recv_timeout(PATIENCE)), (Ok("began"), Ok("dropped")));
    // The connection is gone in the middle of the call.
    block_on(async {
        let channel = GrpcChannel::connect(&address, &GrpcLimits::default()).await.unwrap();
        let call = channel.unary("/test.Echo/Wait", b"", PATIENCE);
        let began = async {
            while hears.try_recv() != Ok("began") {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (mut call, mut began) = (Box::pin(call), Box::pin(began));
        std::future::poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            began.as_mut().poll(context)
        })
        .await;
    })
    .unwrap();
    assert_eq!(hears.recv_timeout(PATIENCE), Ok("dropped"));
    assert_eq!(echo(server.address(), b"still here", &GrpcLimits::default()), Ok(b"still here".to_vec()));
}

#[test]
fn a_server_that_stops_tells_its_callers() {
    let (service, hears) = Echo::new();
    let server = GrpcServer::start(loopback(), service, GrpcLimits::default()).unwrap();
    let address = server.address();
    let stopped = block_on(async {
        let channel = GrpcChannel::connect(&address.to_string(), &GrpcLimits::default()).await.unwrap();
        let mut call = Box::pin(channel.unary("/test.Echo/Wait", b"", PATIENCE));
        let mut server = Some(server);
        std::future::poll_fn(|context| {
            let polled = call.as_mut().poll(context);
            if hears.try_recv() == Ok("began") {
                // Waits for its thread, so on a thread of its own.
                let server = server.take();
                std::thread::spawn(move || drop(server));
            }
            context.waker().wake_by_ref();
            polled
        })
        .await
    });
    let status = stopped.unwrap().unwrap_err();
    assert!(matches!(status.code, GrpcCode::Unavailable | GrpcCode::Internal | GrpcCode::Cancelled), "{status}");
    let gone = echo(address, b"", &GrpcLimits::default()).unwrap_err();
    assert_eq!(gone.code, GrpcCode::Unavailable, "{gone}");
    assert!(gone.message.contains(&address.to_string()), "{gone}");
}
