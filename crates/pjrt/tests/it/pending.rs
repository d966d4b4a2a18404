//! Work that is not done yet: futures that wait, reads that are dropped, and key-value callbacks.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pjrt::{
    Buffer, BufferType, Client, ClientOptions, Code, Event, HostSource, KeyValueError, KeyValueStore, Placement,
    SharedBytes,
};

use crate::block_on::block_on;
use crate::fake::{self, Control};

fn connect(store: Option<Arc<dyn KeyValueStore>>) -> (&'static Control, Client) {
    let control: &'static Control = Box::leak(Box::default());
    let plugin = fake::load(fake::table()).unwrap();
    let mut options = ClientOptions::default().option("control", std::ptr::from_ref(control) as i64);
    options.key_value_store = store;
    (control, plugin.client(&options).unwrap())
}

fn upload(client: &Client, source: HostSource<'_>, bytes: i64) -> (Buffer, Event) {
    let device = &client.addressable_devices().unwrap()[0];
    client.buffer_from_host(source, BufferType::U8, &[bytes], None, Placement::Device(device)).unwrap()
}

#[derive(Default)]
struct Count(Mutex<usize>);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn a_future_waits_and_is_woken_once() {
    let (control, client) = connect(None);
    let (_buffer, mut event) = upload(&client, HostSource::Copied(&[1, 2, 3]), 3);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut event = std::pin::Pin::new(&mut event);
    assert!(event.as_mut().poll(&mut context).is_pending());
    assert!(event.as_mut().poll(&mut context).is_pending());
    assert!(!event.is_ready().unwrap());
    control.events.lock().unwrap()[0].finish(Ok(()));
    assert_eq!(*count.0.lock().unwrap(), 1);
    assert!(matches!(event.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
}

#[test]
fn a_failure_reaches_the_future_from_another_thread() {
    let (control, client) = connect(None);
    let (_buffer, event) = upload(&client, HostSource::Copied(&[1]), 1);
    let fake = control.events.lock().unwrap()[0].clone();
    let finishing = thread::spawn(move || fake.finish(Err(Code::DataLoss.number())));
    let error = block_on(event).unwrap_err();
    assert_eq!(error.code(), Some(Code::DataLoss));
    finishing.join().unwrap();
}

#[test]
fn a_read_that_is_dropped_early_keeps_its_memory() {
    let (control, client) = connect(None);
    let (buffer, _) = upload(&client, HostSource::Copied(&[7; 4096]), 4096);
    drop(buffer.to_host().unwrap());
    let late = control.events.lock().unwrap().last().unwrap().clone();
    // Writes into the memory of the dropped read, which is still there.
    late.finish(Ok(()));
    let read = buffer.to_host().unwrap();
    let event = control.events.lock().unwrap().last().unwrap().clone();
    let finishing = thread::spawn(move || event.finish(Ok(())));
    assert_eq!(block_on(read).unwrap(), [7; 4096]);
    finishing.join().unwrap();
}

#[test]
fn shared_memory_is_let_go_when_the_transfer_is_done() {
    let (control, client) = connect(None);
    let data: Arc<Vec<u8>> = Arc::new(vec![1; 16]);
    let shared: SharedBytes = data.clone();
    let (_buffer, event) = upload(&client, HostSource::UntilTransferred(shared), 16);
    drop(event);
    assert_eq!(Arc::strong_count(&data), 2);
    control.events.lock().unwrap()[0].finish(Ok(()));
    assert_eq!(Arc::strong_count(&data), 1);
}

#[test]
fn what_a_client_made_keeps_it_alive() {
    let (control, client) = connect(None);
    let (buffer, event) = upload(&client, HostSource::Copied(&[1]), 1);
    drop(client);
    assert_eq!(control.clients_alive.load(SeqCst), 1);
    drop(buffer);
    assert_eq!((control.clients_alive.load(SeqCst), control.buffers_alive.load(SeqCst)), (1, 0));
    drop(event);
    assert_eq!(control.clients_alive.load(SeqCst), 0);
}

#[derive(Default)]
struct Store(Mutex<HashMap<String, Vec<u8>>>);

impl KeyValueStore for Store {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        assert_eq!(timeout, Duration::from_secs(1));
        self.try_get(key)?.ok_or(KeyValueError::new(Code::DeadlineExceeded, "time is over"))
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        self.0.lock().unwrap().insert(key.into(), value.into());
        Ok(())
    }
}

#[test]
fn the_key_value_store_is_asked() {
    let store = Arc::new(Store::default());
    let (control, client) = connect(Some(store.clone()));
    let answers = control.key_values.lock().unwrap();
    assert_eq!(answers[0], Ok(vec![]));
    assert_eq!(answers[1], Ok(b"host:1234".to_vec()));
    assert_eq!(answers[2], Err((Code::NotFound.number(), "no value for missing".into())));
    assert_eq!(Arc::strong_count(&store), 2);
    drop(client);
    assert_eq!(Arc::strong_count(&store), 1);
}

struct Panicking;

impl KeyValueStore for Panicking {
    fn get(&self, _: &str, _: Duration) -> Result<Vec<u8>, KeyValueError> {
        panic!("get");
    }

    fn try_get(&self, _: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        panic!("try_get");
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), KeyValueError> {
        panic!("put");
    }
}

#[test]
fn a_panic_of_the_store_becomes_an_error() {
    let (control, _client) = connect(Some(Arc::new(Panicking)));
    for answer in control.key_values.lock().unwrap().iter() {
        assert_eq!(*answer, Err((Code::Internal.number(), "the key-value store panicked".into())));
    }
}
