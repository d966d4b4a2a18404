//! Settings that a configuration file gives as a number, or as a table where a number does not say enough.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a number through `From<f64>`, or a table as the type's own form.
pub(super) fn number_or_table<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + From<f64>,
{
    deserializer.deserialize_any(NumberOrTable(PhantomData))
}

struct NumberOrTable<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + From<f64>> Visitor<'de> for NumberOrTable<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a table")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        Ok(T::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        Ok(T::from(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        Ok(T::from(value as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
