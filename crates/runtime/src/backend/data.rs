//! Data on its way to a device: nested structures, and a feed that sends the next batch while this one is used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use compile::CompileError;
use tensor::Literal;

use super::Backend;
use super::array::DeviceArray;
use crate::error::{Error, ValidationError};

/// A nested structure of values, as data sets and models have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nested<T> {
    /// One value.
    Leaf(T),
    /// Values in order.
    List(Vec<Nested<T>>),
    /// Values by name.
    Map(BTreeMap<String, Nested<T>>),
}

impl<T> Nested<T> {
    /// The same structure with other values; the function hears the path of each, as in `images.0`.
    pub fn try_map<U, E>(&self, f: &mut dyn FnMut(&str, &T) -> Result<U, E>) -> Result<Nested<U>, E> {
        self.map_at("", f)
    }

    fn map_at<U, E>(&self, path: &str, f: &mut dyn FnMut(&str, &T) -> Result<U, E>) -> Result<Nested<U>, E> {
        let below = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        Ok(match self {
            Nested::Leaf(value) => Nested::Leaf(f(path, value)?),
            Nested::List(values) => {
                let values = values.iter().enumerate().map(|(n, value)| value.map_at(&below(&n.to_string()), f));
                Nested::List(values.collect::<Result<_, E>>()?)
            }
            Nested::Map(values) => {
                let values = values.iter().map(|(name, value)| Ok((name.clone(), value.map_at(&below(name), f)?)));
                Nested::Map(values.collect::<Result<_, E>>()?)
            }
        })
    }

    /// The values in order: lists by position, maps by name.
    pub fn leaves(&self) -> Vec<&T> {
        match self {
            Nested::Leaf(value) => vec![value],
            Nested::List(values) => values.iter().flat_map(Nested::leaves).collect(),
            Nested::Map(values) => values.values().flat_map(Nested::leaves).collect(),
        }
    }
}

/// Host arrays, nested.
pub type NestedLiterals = Nested<Arc<Literal>>;

/// Device arrays, nested.
pub type NestedArrays = Nested<DeviceArray>;

impl Backend {
    /// Sends arrays to the device. The transfers run on; using the arrays waits for them.
    pub fn prepare_data(&self, data: &NestedLiterals) -> Result<NestedArrays, Error> {
        data.try_map(&mut |path, literal: &Arc<Literal>| {
            if self.config().strict_validation
                && let Some(index) = first_not_finite(literal)
            {
                return Err(ValidationError::NotFinite { name: path.to_string(), index }.into());
            }
            self.send(literal)
        })
    }

    /// Sends what an iterator gives, `ahead` items before they are asked for, from a thread of its own.
    pub fn feed<I>(&self, data: I, ahead: usize) -> Result<Feed, Error>
    where
        I: IntoIterator<Item = NestedLiterals> + Send + 'static,
    {
        self.feed_with(data, ahead, |backend, item| backend.prepare_data(item))
    }

    /// [`Backend::feed`], with a function that sends an item.
    pub fn feed_with<I>(
        &self,
        data: I,
        ahead: usize,
        send: impl Fn(&Backend, &NestedLiterals) -> Result<NestedArrays, Error> + Send + 'static,
    ) -> Result<Feed, Error>
    where
        I: IntoIterator<Item = NestedLiterals> + Send + 'static,
    {
        let (sender, receiver) = mpsc::sync_channel(ahead.max(1) - 1);
        let backend = self.clone();
        let work = move || {
            for item in data {
                let sent = send(&backend, &item);
                let failed = sent.is_err();
                // A feed that was dropped, or that failed, takes no more.
                if sender.send(sent).is_err() || failed {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("tpubridge-feed".into()).spawn(work);
        let thread =
            thread.map_err(|error| CompileError::io("starting a thread", std::path::Path::new("feed"), error))?;
        Ok(Feed { receiver: Some(receiver), thread: Some(thread) })
    }
}

/// Data that is sent ahead of its use.
#[derive(Debug)]
pub struct Feed {
    receiver: Option<Receiver<Result<NestedArrays, Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Iterator for Feed {
    type Item = Result<NestedArrays, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.receiver.as_ref()?.recv().ok()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // The thread ends at its next send, once nobody can receive.
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Position of the first NaN or infinity.
pub(crate) fn first_not_finite(literal: &Literal) -> Option<usize> {
    let dtype = literal.dtype();
    if !dtype.is_float() {
        return None;
    }
    let width = dtype.size_bytes();
    let not_finite = |element: &[u8]| {
        let mut bits = [0; 8];
        bits[..width].copy_from_slice(element);
        tensor::decode_float(dtype, u64::from_le_bytes(bits)).is_some_and(|value| !value.is_finite())
    };
    literal.bytes().chunks_exact(width).position(not_finite)
}
