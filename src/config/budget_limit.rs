//! Limits of the budget as a person writes them: an amount of more than nothing, or `"none"`. A zero is refused, because some
//! people who write it mean no limit and others mean nothing at all.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The word for no limit.
const NONE: &str = "none";

/// An amount that may not be exceeded, or no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfiguredLimit<T>(pub Option<T>);

/// A value of the configuration that may be a limit.
pub enum WrittenAmount<'a> {
    Count(u64),
    Number(f64),
    Text(&'a str),
}

/// The unit of a limit.
pub trait Amount: Sized {
    /// How a person writes it, in the words of an error.
    const WRITTEN: &str;

    /// Writes it.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads it; `None` if the value is no such amount.
    fn read(written: &WrittenAmount<'_>) -> Option<Self>;
}

impl Amount for u64 {
    const WRITTEN: &str = "a whole number from 1";

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*self)
    }

    fn read(written: &WrittenAmount<'_>) -> Option<Self> {
        match written {
            WrittenAmount::Count(count) => Some(*count).filter(|count| *count > 0),
            WrittenAmount::Number(_) | WrittenAmount::Text(_) => None,
        }
    }
}

impl Amount for f64 {
    const WRITTEN: &str = "a number above 0";

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(*self)
    }

    fn read(written: &WrittenAmount<'_>) -> Option<Self> {
        let number = match written {
            WrittenAmount::Count(count) => u32::try_from(*count).ok()?.into(),
            WrittenAmount::Number(number) => *number,
            WrittenAmount::Text(_) => return None,
        };
        (number.is_finite() && number > 0.0).then_some(number)
    }
}

impl Amount for std::time::Duration {
    const WRITTEN: &str = "a duration such as \"90s\", \"10m\" or \"1h 30m\"";

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        super::read_config::duration::serialize(self, serializer)
    }

    fn read(written: &WrittenAmount<'_>) -> Option<Self> {
        match written {
            WrittenAmount::Text(text) => crate::wire::text::parse_span(text),
            WrittenAmount::Count(_) | WrittenAmount::Number(_) => None,
        }
    }
}

impl<T: Amount> Serialize for ConfiguredLimit<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(amount) => amount.write(serializer),
            None => serializer.serialize_str(NONE),
        }
    }
}

impl<'de, T: Amount> Deserialize<'de> for ConfiguredLimit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenLimit(PhantomData))
    }
}

struct WrittenLimit<T>(PhantomData<T>);

impl<T: Amount> Visitor<'_> for WrittenLimit<T> {
    type Value = ConfiguredLimit<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or \"{NONE}\" for no limit", T::WRITTEN)
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Self::Value, E> {
        limit(&WrittenAmount::Count(count), count)
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Self::Value, E> {
        match u64::try_from(count) {
            Ok(count) => self.visit_u64(count),
            // Below 0 it is no limit, whatever the unit is.
            Err(_) => limit(&WrittenAmount::Count(0), count),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        limit(&WrittenAmount::Number(number), number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.trim().eq_ignore_ascii_case(NONE) {
            true => Ok(ConfiguredLimit(None)),
            false => limit(&WrittenAmount::Text(text), format!("{text:?}")),
        }
    }
}

fn limit<T: Amount, E: Error>(
    written: &WrittenAmount<'_>,
    shown: impl fmt::Display,
) -> Result<ConfiguredLimit<T>, E> {
    match T::read(written) {
        Some(amount) => Ok(ConfiguredLimit(Some(amount))),
        None => Err(E::custom(format!(
            "{shown} is no limit, which is {}, or \"{NONE}\" for no limit",
            T::WRITTEN
        ))),
    }
}
