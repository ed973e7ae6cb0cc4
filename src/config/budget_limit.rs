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

/// The unit of a limit.
pub trait Amount: Sized {
    /// How a person writes it, in the words of an error.
    const WRITTEN: &str;

    /// Writes it.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads a number; `None` if it does not fit.
    fn of_number(_: f64) -> Option<Self> {
        None
    }

    /// Reads a whole number; `None` if it does not fit.
    fn of_count(_: u64) -> Option<Self> {
        None
    }

    /// Reads a text; `None` if it does not fit.
    fn of_text(_: &str) -> Option<Self> {
        None
    }
}

impl Amount for u64 {
    const WRITTEN: &str = "a whole number from 1";

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*self)
    }

    fn of_count(count: u64) -> Option<Self> {
        (count > 0).then_some(count)
    }
}

impl Amount for f64 {
    const WRITTEN: &str = "a number above 0";

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(*self)
    }

    fn of_number(number: f64) -> Option<Self> {
        (number.is_finite() && number > 0.0).then_some(number)
    }

    fn of_count(count: u64) -> Option<Self> {
        u32::try_from(count)
            .ok()
            .and_then(|count| Self::of_number(count.into()))
    }
}

impl Amount for std::time::Duration {
    const WRITTEN: &str = "a duration such as \"90s\", \"10m\" or \"1h 30m\"";

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        super::read_config::duration::serialize(self, serializer)
    }

    fn of_text(text: &str) -> Option<Self> {
        crate::wire::text::parse_span(text)
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
        T::of_count(count)
            .map(|amount| ConfiguredLimit(Some(amount)))
            .ok_or_else(|| unfit::<T, E>(count))
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Self::Value, E> {
        match u64::try_from(count) {
            Ok(count) => self.visit_u64(count),
            Err(_) => Err(unfit::<T, E>(count)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        T::of_number(number)
            .map(|amount| ConfiguredLimit(Some(amount)))
            .ok_or_else(|| unfit::<T, E>(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.trim().eq_ignore_ascii_case(NONE) {
            return Ok(ConfiguredLimit(None));
        }
        T::of_text(text)
            .map(|amount| ConfiguredLimit(Some(amount)))
            .ok_or_else(|| unfit::<T, E>(format!("{text:?}")))
    }
}

fn unfit<T: Amount, E: Error>(value: impl fmt::Display) -> E {
    E::custom(format!(
        "{value} is no limit, which is {}, or \"{NONE}\" for no limit",
        T::WRITTEN
    ))
}
